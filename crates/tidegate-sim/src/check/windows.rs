//! The judge's own book of backoff windows, and whom they hold.
//!
//! It is kept from what can be seen from outside: how calls ended, and what somebody set or ended by hand. Which
//! window a reply opens is found anew from the config and the limits on the call's way, by the rule and not by the
//! engine's way of finding it; so the two can disagree, and since what the engine says of its windows is compared
//! with the book after every change, that shows at once. At every grant the book alone is asked. Where there have
//! been more than 64 windows the engine forgets some and has models share one; from then on its word is taken.

use std::time::Duration;

use tidegate_core::config::BackoffConfig;
use tidegate_core::engine::{Ended, Exhausted, Fate, Terms};
use tidegate_core::{Config, Engine, Nanos};

use super::happening::Broken;
use crate::report::Invariant;
use crate::routes::{Kind, Routes};

/// How long an upstream is left alone that does not say.
const UNSTATED: Duration = Duration::from_secs(1);
/// From the second refusal in a row on a window is open for at least so long, and twice as long after each further one.
const GROWN_FIRST: Duration = Duration::from_millis(50);
const GROWN_MOST: Duration = Duration::from_secs(60);
/// So long after its end a window still knows of its row of refusals.
const ROW_REMEMBERED: Duration = Duration::from_secs(60);
/// After a window its calls go so far apart, for so long.
const PACE: Duration = Duration::from_millis(5);
const RELEASE: Duration = Duration::from_secs(1);
/// Above so many the engine's word is taken.
const MANY: usize = 64;

/// All windows that have been open.
#[derive(Debug)]
pub(super) struct Windows {
    /// The rules of each service, by name.
    rules: Vec<(String, BackoffConfig)>,
    known: Vec<Window>,
    /// By kind of calls: the windows on its way, each with the place of the limit whose it is.
    ways: Vec<Option<Vec<OnWay>>>,
}

#[derive(Debug)]
struct Window {
    key: String,
    until: Nanos,
    tail: Nanos,
    /// Whether calls wait for its end.
    holds: bool,
    /// Calls that went since its end.
    went: u64,
    /// Refusals in a row, and when the latest one came.
    refusals: u32,
    refused_at: Nanos,
}

/// A call that ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending<'a> {
    /// The number of its kind.
    pub number: u32,
    pub kind: &'a Kind,
    pub costs: &'a [u64],
    pub granted: Nanos,
    pub ended: &'a Ended,
}

#[derive(Clone, Copy, Debug)]
struct OnWay {
    window: usize,
    limit: Option<usize>,
}

impl Windows {
    pub fn new(config: &Config) -> Windows {
        let rules = config.services.iter().map(|(name, service)| (name.clone(), service.backoff.clone()));
        Windows { rules: rules.collect(), known: Vec::new(), ways: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Notes how a call ended that was granted at `granted`. Returns whether that opened or extended a window.
    pub fn ends(&mut self, call: Ending<'_>, routes: &Routes, now: Nanos) -> bool {
        let Ending { number, kind, costs, granted, ended } = call;
        match &ended.fate {
            Fate::Answered => {
                for on_way in self.way(number, kind, routes) {
                    let window = &mut self.known[on_way.window];
                    let met = on_way.limit.is_none_or(|place| costs[place] > 0);
                    if met && granted > window.refused_at {
                        window.refusals = 0;
                    }
                }
                false
            }
            Fate::TurnedAway { wait, by, in_flight } => {
                let unstated = if *in_flight { Duration::ZERO } else { UNSTATED };
                let named = by.iter().filter_map(|exhausted| mirror_of(exhausted, kind, routes));
                let mut keys: Vec<String> = named.collect();
                if keys.is_empty() {
                    keys.push(kind.after.narrowest.clone());
                }
                for key in keys {
                    let least = self.refused(&key, granted, now);
                    self.set(&key, wait.unwrap_or(unstated).max(least), now);
                }
                true
            }
            Fate::Failed { wait: Some(wait) } => {
                self.set(kind.call.service(), *wait, now);
                true
            }
            _ => false,
        }
    }

    /// Counts a refusal of a call that was granted at `granted`. Returns for how long its window opens at least.
    fn refused(&mut self, key: &str, granted: Nanos, now: Nanos) -> Duration {
        let (index, _) = self.window_of(key);
        let window = &mut self.known[index];
        if now >= window.tail.max(window.until.after(ROW_REMEMBERED)) {
            window.refusals = 0;
        }
        if window.refusals == 0 || granted > window.refused_at {
            (window.refusals, window.refused_at) = (window.refusals + 1, now);
        }
        match window.refusals {
            1 => Duration::ZERO,
            row => (GROWN_FIRST * 2u32.pow((row - 2).min(16))).min(GROWN_MOST),
        }
    }

    /// A window opens, or is extended.
    pub fn set(&mut self, key: &str, span: Duration, now: Nanos) {
        let (index, tail) = self.window_of(key);
        let window = &mut self.known[index];
        window.ends_at(window.until.max(now.after(span)));
        window.tail = window.tail.max(window.until.after(tail));
    }

    /// The window of a key, new if there is none, and how long its tail is.
    fn window_of(&mut self, key: &str) -> (usize, Duration) {
        let service = key.split('/').next().unwrap_or_default();
        let rules = self.rules.iter().find(|(name, _)| name == service);
        let rules = rules.map(|(_, rules)| rules.clone()).unwrap_or_default();
        let index = self.known.iter().position(|window| window.key == key).unwrap_or_else(|| {
            self.ways.clear();
            let (until, tail, refused_at) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
            let (key, holds) = (key.to_owned(), rules.waits);
            self.known.push(Window { key, until, tail, holds, went: 0, refusals: 0, refused_at });
            self.known.len() - 1
        });
        (index, rules.window)
    }

    /// A window is ended by hand, and its tail with it, and so are those of all that is below its key.
    pub fn clear(&mut self, key: &str, now: Nanos) {
        let is_below = |window: &&mut Window| {
            let rest = window.key.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        for window in self.known.iter_mut().filter(is_below) {
            window.ends_at(window.until.min(now));
            window.tail = window.tail.min(now);
            window.refusals = 0;
        }
    }

    /// Whether calls of a kind go throttled.
    pub fn throttle(&mut self, number: u32, kind: &Kind, routes: &Routes, now: Nanos) -> bool {
        !self.tails(number, kind, routes, now).is_empty()
    }

    /// A call goes: every window on its way must be over, and those before it not too close.
    pub fn goes(
        &mut self,
        number: u32,
        kind: &Kind,
        costs: &[u64],
        routes: &Routes,
        now: Nanos,
    ) -> Result<(), Broken> {
        if kind.observed {
            return Ok(());
        }
        for on_way in self.way(number, kind, routes) {
            // Who takes nothing from a limit does not meet its window.
            if on_way.limit.is_some_and(|place| costs[place] == 0) {
                continue;
            }
            self.known[on_way.window].goes(now).map_err(|wrong| (Invariant::StayingAway, wrong))?;
        }
        Ok(())
    }

    /// Whether calls wait for a window, or go at its pace.
    pub fn may_hold(&self, key: &str, now: Nanos) -> bool {
        let window = self.known.iter().find(|window| window.key == key);
        window.is_some_and(|window| window.holds && now <= window.until.after(RELEASE))
    }

    /// The windows that a call waits for, or at whose pace it goes.
    pub fn hold(
        &mut self,
        number: u32,
        kind: &Kind,
        costs: &[u64],
        routes: &Routes,
        now: Nanos,
    ) -> Vec<usize> {
        let way = self.way(number, kind, routes);
        let holds = |on_way: &OnWay| {
            let window = &self.known[on_way.window];
            let met = on_way.limit.is_none_or(|place| costs[place] > 0);
            met && window.holds && now < window.until.after(RELEASE)
        };
        way.into_iter().filter(holds).map(|on_way| on_way.window).collect()
    }

    /// The windows because of which a call goes throttled.
    pub fn tails(&mut self, number: u32, kind: &Kind, routes: &Routes, now: Nanos) -> Vec<usize> {
        let way = self.way(number, kind, routes);
        let windows = way.into_iter().map(|on_way| on_way.window);
        windows.filter(|window| self.known[*window].tail > now).collect()
    }

    /// What the engine says of its windows must be what the book says.
    pub fn compare(&mut self, engine: &mut Engine, now: Nanos) -> Result<(), Broken> {
        let said = engine.backoffs(now);
        if self.known.len() > MANY {
            for window in &mut self.known {
                (window.until, window.tail) = (window.until.min(now), window.tail.min(now));
            }
            for window in said {
                self.set(&window.key, window.open_for, now);
                if let Some(known) = self.known.iter_mut().find(|known| known.key == *window.key) {
                    known.tail = now.after(window.throttled_for);
                }
            }
            return Ok(());
        }
        let live = self.known.iter().filter(|window| window.tail > now || window.until > now);
        let mut book: Vec<_> =
            live.map(|window| (&*window.key, window.until.since(now), window.tail.since(now))).collect();
        book.sort_unstable();
        let said: Vec<_> =
            said.iter().map(|window| (&*window.key, window.open_for, window.throttled_for)).collect();
        if said == book {
            return Ok(());
        }
        Err((Invariant::StayingAway, format!("open windows are {said:?}; by the book {book:?}")))
    }

    fn way(&mut self, number: u32, kind: &Kind, routes: &Routes) -> Vec<OnWay> {
        if self.known.is_empty() {
            return Vec::new();
        }
        let number = number as usize;
        if self.ways.len() <= number {
            self.ways.resize(number + 1, None);
        }
        let known = &self.known;
        let found = self.ways[number].get_or_insert_with(|| {
            let on_way = known.iter().enumerate().filter_map(|(window, held)| {
                let limit = kind.limits.iter().position(|used| **routes.name(used.limit) == *held.key);
                let concerned = limit.is_some() || kind.after.windows.contains(&held.key);
                concerned.then_some(OnWay { window, limit })
            });
            on_way.collect()
        });
        found.clone()
    }
}

impl Window {
    fn ends_at(&mut self, until: Nanos) {
        if until != self.until {
            (self.until, self.went) = (until, 0);
        }
    }

    fn goes(&mut self, now: Nanos) -> Result<(), String> {
        if !self.holds || now >= self.until.after(RELEASE) {
            return Ok(());
        }
        if now < self.until {
            return Err(format!(
                "a call went through the window of `{}`, open until {:?}",
                self.key, self.until
            ));
        }
        self.went += 1;
        let since = now.since(self.until);
        let most = 1 + (since.as_nanos() / PACE.as_nanos()) as u64;
        if self.went > most {
            return Err(format!("{} calls went {since:?} after the window of `{}`", self.went, self.key));
        }
        Ok(())
    }
}

/// The limit of ours on a call's way that stands for one of the upstream's: of the narrowest level; of several windows
/// the stated one, else the shortest that lasts until the reset.
fn mirror_of(exhausted: &Exhausted, kind: &Kind, routes: &Routes) -> Option<String> {
    let own = format!("{}/", kind.call.service());
    let mirrors = kind.limits.iter().filter_map(|used| {
        let name = routes.name(used.limit);
        let window = match routes.terms(used.limit) {
            Terms::TokenBucket { rate, .. }
            | Terms::SlidingWindow { rate, .. }
            | Terms::FixedWindow { rate } => rate.window(),
            Terms::Concurrency(_) | Terms::ByteBudget(_) => return None,
        };
        let is_it = name.starts_with(&own)
            && used.dimension.as_ref() == Some(&exhausted.dimension)
            && exhausted.window.is_none_or(|stated| stated == window);
        let narrow = if name.contains("/model:") { 2 } else { u8::from(name.contains("/endpoint:")) };
        let too_short = window < exhausted.reset.unwrap_or_default();
        is_it.then_some(((std::cmp::Reverse(narrow), too_short, window), name.to_string()))
    });
    mirrors.min_by_key(|(rank, _)| *rank).map(|(_, name)| name)
}
