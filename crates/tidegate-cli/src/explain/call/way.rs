//! The way of a call: every limit on it with how it stands, and the one that binds.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::Priority;
use tidegate_core::engine::{Passage, Terms};
use tidegate_core::rate::Rate;
use tidegate_sim::show::Grid;
use tidegate_sim::show::words::{count, length, span};

/// What a sidecar says of its limits and windows.
pub struct Held {
    limits: Value,
    windows: Value,
}

/// The way of a call.
pub struct Way {
    priority: Priority,
    limits: Vec<Limit>,
    /// The window that holds it back, and for how long.
    window: Option<(String, Duration)>,
    live: bool,
}

/// A limit on it.
struct Limit {
    passage: Passage,
    capacity: u64,
    /// What must stay for calls of higher priority.
    withheld: u64,
    now: Option<Now>,
}

/// How a limit stands.
struct Now {
    used: u64,
    waiting: u64,
    reset: Option<Duration>,
}

/// How long a call waits at a limit.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Wait {
    None,
    About(Duration),
    /// Until a call in flight ends.
    Slot,
    Never,
}

impl Held {
    pub fn new(limits: Value, windows: Value) -> Held {
        Held { limits, windows }
    }

    fn limit(&self, name: &str) -> Option<&Value> {
        self.limits.as_array()?.iter().find(|limit| limit["name"] == name)
    }
}

impl Way {
    pub fn new(service: &str, passages: Vec<Passage>, priority: Priority, held: Option<&Held>) -> Way {
        let limits = passages.into_iter().map(|passage| Limit::new(passage, priority, held)).collect();
        let mut way = Way { priority, limits, window: None, live: held.is_some() };
        let windows = held.and_then(|held| held.windows.as_array()).into_iter().flatten();
        let open = windows.filter_map(|window| {
            let (key, ms) = (window["key"].as_str()?, window["open_for_ms"].as_u64()?);
            (ms > 0 && way.meets(service, key)).then(|| (key.to_owned(), Duration::from_millis(ms)))
        });
        way.window = open.max_by_key(|(_, open_for)| *open_for);
        way
    }

    /// Whether a window of that key is in its way: it is for the service, or for a limit on the way.
    fn meets(&self, service: &str, key: &str) -> bool {
        let begins =
            |name: &str| name.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        begins(service) || self.limits.iter().any(|limit| begins(&limit.passage.limit))
    }

    /// The limit that decides when such a call goes; without a sidecar, the one that lets the fewest of them go.
    fn binding(&self) -> Option<&Limit> {
        if self.live {
            let held = self.limits.iter().filter(|limit| limit.wait() != Wait::None);
            return held.max_by(|a, b| a.wait().partial_cmp(&b.wait()).unwrap_or(std::cmp::Ordering::Equal));
        }
        let rates = self.limits.iter().filter_map(|limit| Some((limit, limit.calls_a_second()?)));
        rates.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(limit, _)| limit)
    }

    /// The wait, if it can be told.
    fn wait(&self) -> Wait {
        let at_limits = self.binding().filter(|_| self.live).map_or(Wait::None, Limit::wait);
        let window = self.window.as_ref().map_or(Wait::None, |(_, open_for)| Wait::About(*open_for));
        if window > at_limits { window } else { at_limits }
    }

    /// What holds it, and what would free it.
    fn freed_by(&self) -> Option<String> {
        match (&self.window, self.binding().filter(|_| self.live)) {
            (Some((key, open_for)), limit)
                if limit.is_none_or(|limit| limit.wait() <= Wait::About(*open_for)) =>
            {
                Some(format!("the end of the backoff window, or `tidegate backoff clear {key}`"))
            }
            (_, limit) => limit.map(Limit::freed_by),
        }
    }

    pub fn json(&self) -> Value {
        let (binding, wait) = (self.binding(), self.wait());
        json!({
            "live": self.live,
            "priority": self.priority.name(),
            "limits": self.limits.iter().map(Limit::json).collect::<Vec<_>>(),
            "backoff": self.window.as_ref().map(|(key, open_for)| json!({ "key": key, "open_for_ms": ms(*open_for) })),
            "binding": binding.map(|limit| &*limit.passage.limit),
            "position": binding.and_then(|limit| limit.now.as_ref()).map(|now| now.waiting + 1),
            "goes_now": self.live.then_some(wait == Wait::None),
            "expected_wait_ms": match wait {
                Wait::None if self.live => Some(0),
                Wait::About(span) => Some(ms(span)),
                _ => None,
            },
            "freed_by": self.freed_by(),
        })
    }

    pub fn text(&self) -> String {
        if self.limits.is_empty() && self.window.is_none() {
            return "no limit is in its way: it goes at once\n".into();
        }
        let mut text = self.headline();
        let _ = writeln!(text, "\na call of priority {} passes all of these:", self.priority);
        let mut grid = Grid::default();
        let live = if self.live { &["used", "waiting", "wait"][..] } else { &[] };
        grid.row(["limit", "allows", "it takes"].iter().chain(live).copied());
        for limit in &self.limits {
            let mut row = vec![limit.passage.limit.to_string(), limit.allows(), count(limit.passage.cost)];
            if self.live {
                let now = limit.now.as_ref();
                row.push(now.map_or("-".into(), |now| count(now.used)));
                row.push(now.map_or("-".into(), |now| count(now.waiting)));
                row.push(limit.wait().words());
            }
            grid.row(row);
        }
        text + &grid.text()
    }

    fn headline(&self) -> String {
        let Some(binding) = self.binding().map(|limit| &limit.passage.limit) else {
            return match &self.window {
                Some((key, open_for)) => format!(
                    "it waits for about {}: calls to {key} are held back\nwhat frees it: {}\n",
                    span(*open_for),
                    self.freed_by().unwrap_or_default()
                ),
                None if self.live => "it would go now\n".into(),
                None => "no sidecar runs, and no rate is in its way\n".into(),
            };
        };
        if !self.live {
            return format!("no sidecar runs; of calls like this one, {binding} lets the fewest go\n");
        }
        let mut text = match self.wait() {
            Wait::Never => format!("it never fits {binding}\n"),
            Wait::Slot => format!("it waits for a slot of {binding}, and nobody knows how long\n"),
            wait => format!("it would wait for {}: {binding} binds\n", wait.words()),
        };
        let ahead = self.binding().and_then(|limit| limit.now.as_ref()).map_or(0, |now| now.waiting);
        if ahead > 0 {
            let _ = writeln!(
                text,
                "position: {} at the latest, sooner if it ranks above some of the {ahead}",
                ahead + 1
            );
        }
        let _ = writeln!(text, "what frees it: {}", self.freed_by().unwrap_or_default());
        text
    }
}

impl Limit {
    fn new(passage: Passage, priority: Priority, held: Option<&Held>) -> Limit {
        let found = held.and_then(|held| held.limit(&passage.limit));
        let number = |name: &str| found.and_then(|limit| limit[name].as_u64());
        // The sidecar's word counts: a limit may have been changed since the config was read.
        let capacity = number("capacity").unwrap_or_else(|| match passage.terms {
            Terms::ByteBudget(bound) => bound,
            terms => terms.most(),
        });
        let now = found.map(|_| Now {
            used: number("used").unwrap_or_default(),
            waiting: number("waiting").unwrap_or_default(),
            reset: number("reset_ms").map(Duration::from_millis),
        });
        let withheld = passage.withheld[priority as usize];
        Limit { passage, capacity, withheld, now }
    }

    /// What there is room for.
    fn room(&self) -> u64 {
        let used = self.now.as_ref().map_or(0, |now| now.used);
        self.capacity.saturating_sub(used).saturating_sub(self.withheld)
    }

    fn wait(&self) -> Wait {
        let cost = self.passage.cost;
        let waiting = self.now.as_ref().map_or(0, |now| now.waiting);
        let is_budget = matches!(self.passage.terms, Terms::ByteBudget(_));
        if cost > self.capacity.saturating_sub(self.withheld) && !is_budget {
            return Wait::Never;
        }
        if cost == 0 && self.rate().is_some()
            || waiting == 0 && (cost <= self.room() || is_budget && self.room() > 0)
        {
            return Wait::None;
        }
        let Some(rate) = self.rate() else { return Wait::Slot };
        // As if everybody who waits took as much as this call does.
        let missing = cost.saturating_mul(waiting + 1).saturating_sub(self.room());
        let flow = rate.window().mul_f64(missing as f64 / rate.units() as f64);
        let reset = self.now.as_ref().and_then(|now| now.reset);
        let at_its_end = matches!(self.passage.terms, Terms::FixedWindow { .. });
        Wait::About(match reset {
            // A window gives nothing back before its end; then the next ones follow.
            Some(reset) if at_its_end => {
                reset + rate.window() * u32::try_from(missing / rate.units()).unwrap_or(u32::MAX)
            }
            _ => flow,
        })
    }

    fn rate(&self) -> Option<Rate> {
        match self.passage.terms {
            Terms::TokenBucket { rate, .. }
            | Terms::SlidingWindow { rate, .. }
            | Terms::FixedWindow { rate } => Some(rate),
            Terms::Concurrency(_) | Terms::ByteBudget(_) => None,
        }
    }

    fn calls_a_second(&self) -> Option<f64> {
        let rate = self.rate().filter(|_| self.passage.cost > 0)?;
        Some(rate.units() as f64 / rate.window().as_secs_f64() / self.passage.cost as f64)
    }

    fn allows(&self) -> String {
        match self.rate() {
            Some(rate) => format!("{} in {}", count(self.capacity), length(rate.window())),
            None => format!("{} at once", count(self.capacity)),
        }
    }

    fn freed_by(&self) -> String {
        let name = &self.passage.limit;
        match (self.wait(), self.rate()) {
            (Wait::Never, _) => {
                format!("a smaller call, or `tidegate limit set '{name}' …` with more than {}", self.capacity)
            }
            (_, Some(rate)) => format!(
                "time ({} come back in {}), or `tidegate limit set '{name}' …`",
                count(rate.units()),
                length(rate.window())
            ),
            (_, None) => {
                format!("the end of one of {} in flight", count(self.now.as_ref().map_or(0, |now| now.used)))
            }
        }
    }

    fn json(&self) -> Value {
        let wait = self.now.as_ref().map(|_| self.wait());
        json!({
            "name": &*self.passage.limit,
            "capacity": self.capacity,
            "window_ms": self.rate().map(|rate| ms(rate.window())),
            "cost": self.passage.cost,
            "withheld": self.withheld,
            "used": self.now.as_ref().map(|now| now.used),
            "waiting": self.now.as_ref().map(|now| now.waiting),
            "fits": wait.map(|wait| wait == Wait::None),
            "wait_ms": match wait {
                Some(Wait::None) => Some(0),
                Some(Wait::About(span)) => Some(ms(span)),
                _ => None,
            },
        })
    }
}

impl Wait {
    fn words(self) -> String {
        match self {
            Wait::None => "none".into(),
            Wait::About(wait) => format!("about {}", span(wait)),
            Wait::Slot => "for a slot".into(),
            Wait::Never => "never fits".into(),
        }
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
