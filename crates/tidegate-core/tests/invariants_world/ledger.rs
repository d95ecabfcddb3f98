//! One limit's book, kept as plainly as possible: every unit with its time, and the definition read out
//! over them. Written from what the limits promise, not from how the engine counts.

use tidegate_core::limits::meters::MOST_DEBT;
use tidegate_core::{Algorithm, Nanos, Rate};

use super::plan::{Counts, Level, LimitPlan};

/// Late timers may be made good by this much.
const LATE: i128 = 20_000_000;

/// A slot of a sliding window is this part of it.
const PARTS: u64 = 256;

#[derive(Clone, Debug)]
struct Line {
    /// Which call; none for what was carried over from an older definition.
    call: Option<usize>,
    at: Nanos,
    units: u64,
}

#[derive(Clone, Debug)]
pub struct Ledger {
    pub plan: LimitPlan,
    /// Calls granted before this one was made have nothing here.
    pub since: usize,
    /// Where fixed windows begin.
    anchor: Nanos,
    lines: Vec<Line>,
    /// What flowed out of a bucket or a pacer, in units × W, by time; refunds are negative.
    flow: Vec<(Nanos, i128)>,
    held: u64,
    /// Something was carried over, from another definition or as debt into the next fixed window: from then
    /// on only a lower bound is known.
    carried: bool,
}

impl Ledger {
    pub fn new(plan: &LimitPlan, since: usize, now: Nanos) -> Ledger {
        Ledger {
            plan: plan.clone(),
            since,
            anchor: now,
            lines: Vec::new(),
            flow: Vec::new(),
            held: 0,
            carried: false,
        }
    }

    fn rate(&self) -> Option<(Rate, Algorithm)> {
        match &self.plan.counts {
            Counts::Rate(rate) => Some((rate.rate, rate.algorithm.unwrap_or(Algorithm::SlidingWindow))),
            _ => None,
        }
    }

    /// The capacity of the bucket, or of the pacer in front of a short window.
    fn burst(&self) -> Option<u64> {
        let Counts::Rate(limit) = &self.plan.counts else { return None };
        let (units, window) = (limit.rate.units(), limit.rate.window());
        match limit.algorithm {
            Some(Algorithm::TokenBucket) => Some(limit.burst.unwrap_or(units)),
            Some(Algorithm::FixedWindow) => None,
            _ => match limit.burst {
                Some(burst) => (burst < units).then_some(burst),
                None => {
                    let own = matches!(self.plan.level, Level::Global | Level::LoopType | Level::Loop);
                    (!own && window.as_secs() < 60).then(|| (units / 120).max(1))
                }
            },
        }
    }

    pub fn take(&mut self, call: usize, units: u64, now: Nanos) {
        self.held += units;
        self.charge(Some(call), units, now);
    }

    pub fn charge(&mut self, call: Option<usize>, units: u64, now: Nanos) {
        let Some((rate, algorithm)) = self.rate() else { return };
        if units == 0 {
            return;
        }
        let flows = if call.is_some() { units } else { self.flows(units, now) };
        self.lines.push(Line { call, at: now, units });
        self.flow.push((now, i128::from(flows) * window(rate)));
        self.carried |= algorithm == Algorithm::FixedWindow && self.counted(now, 0) > rate.units();
    }

    /// A call cost so much more than it reserved. What is above the bound on debt does not count; where it is not known how
    /// much that is, only a lower bound is known from then on.
    pub fn owe(&mut self, units: u64, now: Nanos) {
        let (least, most) = self.used(now);
        let room = |used: u64| units.min(self.most_used().saturating_sub(used));
        let (counted, perhaps) = (room(most), room(least));
        self.carried |= counted != perhaps;
        self.charge(None, counted, now);
    }

    /// N, or the burst of a bucket, and the bound on debt.
    fn most_used(&self) -> u64 {
        let Some((rate, algorithm)) = self.rate() else { return u64::MAX };
        let whole = if algorithm == Algorithm::TokenBucket { self.burst() } else { None };
        whole.unwrap_or(rate.units()) + MOST_DEBT * rate.units()
    }

    /// What of the debt flows out of a bucket or a pacer, which has a bound of its own.
    fn flows(&self, units: u64, now: Nanos) -> u64 {
        let (Some((rate, _)), Some(burst)) = (self.rate(), self.burst()) else { return units };
        let missing = self.missing(now).unsigned_abs().div_ceil(window(rate) as u128) as u64;
        units.min((burst + MOST_DEBT * rate.units()).saturating_sub(missing))
    }

    /// The call ended; `back` of its units return to where they came from.
    pub fn end(&mut self, call: usize, reserved: u64, back: u64, now: Nanos) {
        self.held -= reserved;
        let Some((rate, algorithm)) = self.rate() else { return };
        let line = self.lines.iter_mut().find(|line| line.call == Some(call));
        let line = match line {
            Some(line) => Some(line),
            None => self.lines.iter_mut().find(|line| line.call.is_none()),
        };
        let mut counts = algorithm == Algorithm::TokenBucket;
        if let Some(line) = line {
            line.units = line.units.saturating_sub(back);
            // What left the window returns nothing; the slot may count a little longer.
            let grain = (window(rate) as u64).div_ceil(PARTS) + 1;
            counts |= now.0 < line.at.0 + window(rate) as u64 + grain;
        }
        if counts {
            self.flow.push((now, -i128::from(back) * window(rate)));
        }
    }

    /// Another definition of the same limit comes into force.
    pub fn redefine(&mut self, plan: &LimitPlan, now: Nanos) {
        if plan.counts == self.plan.counts {
            self.plan = plan.clone();
            return;
        }
        let (old, spent, missing) = (self.rate(), self.used(now).0, self.missing(now));
        let paced = self.burst().is_some();
        self.plan = plan.clone();
        let (Some((before, algorithm)), Some((rate, other))) = (old, self.rate()) else { return };
        if algorithm == other && before.window() == rate.window() {
            // A bucket keeps what is missing; a pacer that was not there before is full.
            self.flow.clear();
            if paced {
                let grace = if algorithm == Algorithm::TokenBucket { 0 } else { LATE };
                let made_good = i128::from(before.units()) * grace;
                let most = self
                    .burst()
                    .map_or(i128::MAX, |burst| i128::from(burst + MOST_DEBT * rate.units()) * window(rate));
                // What is above the bound is forgiven, and what comes back counts against that first.
                self.carried |= missing > most;
                self.flow.push((now, (missing - made_good).clamp(0, most)));
            }
            return;
        }
        let bucket = algorithm == Algorithm::TokenBucket && other == algorithm;
        let carried = self.carried || !bucket;
        *self = Ledger { held: self.held, carried, ..Ledger::new(plan, self.since, now) };
        self.charge(None, spent.min(self.most_used()), now);
    }

    /// The largest part of the capacity that any stretch up to now has used up, in units × W.
    fn missing(&self, now: Nanos) -> i128 {
        let Some((rate, _)) = self.rate() else { return 0 };
        let mut sum = 0;
        let mut most = 0;
        for (at, units) in self.flow.iter().rev() {
            sum += units;
            most = most.max(sum - i128::from(rate.units()) * i128::from(now.0 - at.0));
        }
        most
    }

    /// Units that count at `now`, those that left up to `grace` ago included.
    fn counted(&self, now: Nanos, grace: u64) -> u64 {
        let Some((rate, algorithm)) = self.rate() else { return self.held };
        let span = window(rate) as u64;
        let lines = self.lines.iter().filter(|line| match algorithm {
            Algorithm::FixedWindow => (line.at.0 - self.anchor.0) / span == (now.0 - self.anchor.0) / span,
            _ => now.0 < line.at.0 + span + grace,
        });
        lines.map(|line| line.units).sum()
    }

    /// The least and the most that the engine may say is used.
    pub fn used(&self, now: Nanos) -> (u64, u64) {
        let (least, most) = self.known_used(now);
        (least, if self.carried { u64::MAX } else { most })
    }

    fn known_used(&self, now: Nanos) -> (u64, u64) {
        match self.rate() {
            Some((rate, Algorithm::TokenBucket)) => {
                let used = self.missing(now).unsigned_abs().div_ceil(window(rate) as u128) as u64;
                (used, used)
            }
            Some((rate, Algorithm::SlidingWindow)) => {
                let grain = (window(rate) as u64).div_ceil(PARTS);
                (self.counted(now, 0), self.counted(now, grain))
            }
            Some((_, Algorithm::FixedWindow)) => {
                let used = self.counted(now, 0);
                (used, used)
            }
            None => (self.held, self.held),
        }
    }

    /// Whether the definition holds for a call of `cost` that was just written down here, which had to leave
    /// `withheld` alone.
    pub fn check(&self, cost: u64, withheld: u64, now: Nanos) -> Result<(), String> {
        let bound = match &self.plan.counts {
            Counts::Slots(bound) => *bound,
            // Judged before the call.
            Counts::Bytes(_) => return Ok(()),
            Counts::Rate(rate) => rate.rate.units(),
        };
        let Some((rate, algorithm)) = self.rate() else {
            return within(self.held, bound, withheld, "in flight");
        };
        if cost == 0 {
            return Ok(());
        }
        if algorithm != Algorithm::TokenBucket {
            within(self.counted(now, 0), bound, withheld, "in one window")?;
        }
        let Some(burst) = self.burst() else { return Ok(()) };
        let grace = if algorithm == Algorithm::TokenBucket { 0 } else { LATE };
        let (allowed, withheld) = match algorithm {
            Algorithm::TokenBucket => (burst, withheld),
            // One above the burst leaves a debt; of several at one instant it was the last.
            _ => (burst.max(self.largest_at(now)), 0),
        };
        let mut sum = 0;
        for (at, units) in self.flow.iter().rev() {
            sum += units;
            let flowed = i128::from(rate.units()) * (i128::from(now.0 - at.0) + grace);
            let most = (i128::from(allowed) - i128::from(withheld)) * window(rate) + flowed;
            if sum > most {
                return Err(format!("{sum} of {most} since {at:?}, {withheld} withheld"));
            }
        }
        Ok(())
    }

    fn largest_at(&self, now: Nanos) -> u64 {
        let lines = self.lines.iter().filter(|line| line.at == now);
        lines.map(|line| line.units).max().unwrap_or(0)
    }

    /// Whether a call of `cost` has room, as far as that can be seen from outside (pacing apart).
    pub fn has_room(&self, cost: u64, withheld: u64, used: u64) -> bool {
        match &self.plan.counts {
            Counts::Bytes(bound) => used + withheld <= *bound,
            _ => used + cost + withheld <= self.plan.whole(),
        }
    }

    /// Whether it also paces, which cannot be seen from outside.
    pub fn is_paced(&self) -> bool {
        self.burst().is_some() && !matches!(self.rate(), Some((_, Algorithm::TokenBucket)))
    }

    pub fn held(&self) -> u64 {
        self.held
    }
}

fn within(used: u64, bound: u64, withheld: u64, what: &str) -> Result<(), String> {
    if used + withheld <= bound {
        return Ok(());
    }
    Err(format!("{used} {what}, {withheld} withheld: {bound} are allowed"))
}

fn window(rate: Rate) -> i128 {
    rate.window().as_nanos() as i128
}
