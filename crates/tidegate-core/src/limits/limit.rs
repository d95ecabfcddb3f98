//! A limit: what it is called, what it counts and how, and the units it has been lent.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::config::{Origin, RateLimit, Reserve};
use crate::limits::adjustment::Adjustment;
use crate::limits::allowance::Allowance;
use crate::limits::breaker::BreakerPolicy;
use crate::limits::meters::{Boundary, Bucket, Circuit, FixedWindow, Hold, InFlight, Meter, SlidingWindow};
use crate::limits::queue::Queue;
use crate::model::dimension::Dimension;
use crate::model::priority::Priority;
use crate::model::rate::{Algorithm, Rate, WindowName};
use crate::model::time::Nanos;
use crate::model::{LimitId, LoopId, SpecId};

/// Windows up to this long are paced.
const PACED: Duration = Duration::from_secs(60);
/// An unstated burst is what flows in this part of the window.
const BURST_PART: u64 = 120;

/// What a limit says, apart from who it is for.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub counts: Counts,
    reserve: Reserve,
    /// How it counts was not written: the upstream may turn out to count otherwise.
    guess: bool,
    /// It is only a preset's: the upstream may turn out to allow more.
    pub lifts: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Counts {
    Rate {
        dimension: Dimension,
        rate: Rate,
        algorithm: Algorithm,
        burst: Option<u64>,
        calendar: Option<String>,
        /// What is paced flows as if the window were so much longer: calls may overtake each other on their way.
        slack: Duration,
    },
    Concurrency(u64),
    /// What may be in flight while calls go throttled.
    Throttled(u64),
    ByteBudget(u64),
    /// A backoff window.
    Window,
    Breaker(BreakerPolicy),
}

impl Definition {
    /// A rate as written. `mirrors` says that it mirrors an upstream's limit and not a rule of our own.
    pub fn rate(limit: &RateLimit, level: Reserve, mirrors: bool) -> Definition {
        let algorithm = limit.counts_by();
        let units = limit.rate.units();
        let burst = match algorithm {
            Algorithm::TokenBucket => Some(limit.burst.unwrap_or(units)),
            Algorithm::FixedWindow => None,
            Algorithm::SlidingWindow => match limit.burst {
                Some(burst) => (burst < units).then_some(burst),
                None => (mirrors && limit.rate.window() <= PACED).then(|| (units / BURST_PART).max(1)),
            },
        };
        let counts = Counts::Rate {
            dimension: limit.dimension.clone(),
            rate: limit.rate,
            algorithm,
            burst,
            calendar: limit.calendar.clone(),
            slack: Duration::ZERO,
        };
        let guess = mirrors && limit.algorithm.is_none() && limit.burst.is_none() && limit.calendar.is_none();
        let reserve = limit.reserve.unwrap_or(level);
        Definition { counts, reserve, guess, lifts: limit.origin == Origin::Preset }
    }

    pub fn in_flight(counts: Counts, reserve: Reserve) -> Definition {
        Definition { counts, reserve, guess: false, lifts: false }
    }

    /// What was in force when the limit was kept; all that matters of it is how it counted.
    pub fn kept(counts: Counts) -> Definition {
        Definition { counts, reserve: Reserve::default(), guess: false, lifts: false }
    }

    /// Whether the upstream may turn out to count otherwise.
    pub fn is_guess(&self) -> bool {
        self.guess
    }

    /// N and W, if it is a rate.
    pub fn rate_of(&self) -> Option<Rate> {
        match &self.counts {
            Counts::Rate { rate, .. } => Some(*rate),
            _ => None,
        }
    }

    /// What is in force of this, by what was learned.
    pub fn with(&self, learned: &Adjustment) -> Definition {
        let Counts::Rate { dimension, rate, algorithm, burst, calendar, .. } = &self.counts else {
            return self.with_slots(learned);
        };
        let (written, window) = (rate.units(), rate.window());
        let told = learned.told(written);
        let units = learned.in_force(told);
        let scaled = |burst: u64| (u128::from(burst) * u128::from(told) / u128::from(written)).max(1) as u64;
        // What overtakes, at most.
        let bunch = (told as f64 * learned.jitter.as_secs_f64() / window.as_secs_f64()).ceil() as u64;
        let sized = |size: u64| size.saturating_sub((bunch + learned.guard).min(size - size.div_ceil(4)));
        let (algorithm, burst) = match (algorithm, learned.bucket) {
            (Algorithm::SlidingWindow, Some(size)) if self.guess => {
                (Algorithm::TokenBucket, Some(sized(size.min(told))))
            }
            (Algorithm::TokenBucket, _) => (Algorithm::TokenBucket, burst.map(scaled).map(sized)),
            // Who is turned away for no known reason sends one at a time.
            (Algorithm::SlidingWindow, None) if learned.share < 1.0 => {
                (Algorithm::SlidingWindow, burst.map(|_| learned.burst.clamp(1, units)))
            }
            (other, _) => (*other, burst.map(|burst| scaled(burst).max(learned.burst).min(units))),
        };
        let units = if algorithm == Algorithm::TokenBucket { learned.paced(told) } else { units };
        // Long windows only count. Short ones keep their N and flow more slowly, if they flow.
        let announce_pace = learned.pace < 1.0 && window <= PACED;
        let flows = algorithm == Algorithm::SlidingWindow && burst.is_some();
        let slack = match announce_pace && flows {
            true => (window + learned.slack()).div_f64(learned.pace) - window,
            // Of a window that only counts, the slots linger: where nobody says when calls leave, that is not for us to judge.
            false if algorithm == Algorithm::SlidingWindow && !flows && !learned.remote => Duration::ZERO,
            false => learned.slack(),
        };
        let units = if announce_pace && !flows { learned.slowed(units) } else { units };
        let burst = if announce_pace { burst.map(|burst| learned.slowed(burst)) } else { burst };
        // In range: not above what was in range, or what a reply said and was checked when it was heard.
        let rate = Rate::new(units.max(1), window).unwrap_or(*rate);
        let (dimension, calendar) = (dimension.clone(), calendar.clone());
        let counts = Counts::Rate { dimension, rate, algorithm, burst, calendar, slack };
        Definition { counts, ..self.clone() }
    }

    /// The same of a bound on what is in flight: only a concurrency follows how the upstream does.
    fn with_slots(&self, learned: &Adjustment) -> Definition {
        let Counts::Concurrency(most) = self.counts else { return self.clone() };
        let bound = learned.slowed(learned.slots.unwrap_or(most).min(most));
        Definition { counts: Counts::Concurrency(bound), ..self.clone() }
    }

    pub fn reserve(&self) -> Reserve {
        self.reserve
    }

    /// What it counts; calls in flight are no dimension.
    pub fn dimension(&self) -> Option<Dimension> {
        match &self.counts {
            Counts::Rate { dimension, .. } => Some(dimension.clone()),
            Counts::ByteBudget(_) => Some(Dimension::Bytes),
            Counts::Concurrency(_) | Counts::Throttled(_) | Counts::Window | Counts::Breaker(_) => None,
        }
    }

    /// What follows the level in the limit's name.
    pub fn suffix(&self) -> String {
        match &self.counts {
            Counts::Rate { dimension, rate, .. } => format!("{dimension}/{}", WindowName(rate.window())),
            Counts::Concurrency(_) => "concurrency".into(),
            Counts::Throttled(_) => "throttled_concurrency".into(),
            Counts::ByteBudget(_) => "byte_budget".into(),
            Counts::Window => "backoff".into(),
            Counts::Breaker(_) => "breaker".into(),
        }
    }

    pub fn meter(&self, now: Nanos, unix_offset: i128) -> Meter {
        match &self.counts {
            Counts::Concurrency(bound) | Counts::Throttled(bound) => Meter::InFlight(InFlight::slots(*bound)),
            Counts::Window => Meter::Hold(Hold::default()),
            Counts::Breaker(policy) => Meter::Circuit(Circuit::new(policy.clone())),
            Counts::ByteBudget(bound) => Meter::InFlight(InFlight::budget(*bound)),
            Counts::Rate { rate, algorithm: Algorithm::TokenBucket, burst, .. } => {
                Meter::Bucket(Bucket::full(*rate, burst.unwrap_or(rate.units()), now))
            }
            Counts::Rate { rate, algorithm: Algorithm::SlidingWindow, burst, slack, .. } => {
                Meter::Sliding(match burst {
                    Some(burst) => SlidingWindow::paced(*rate, pace(*rate, *slack), *burst, now),
                    None => {
                        let mut window = SlidingWindow::new(*rate);
                        window.linger(*slack);
                        window
                    }
                })
            }
            Counts::Rate { rate, algorithm: Algorithm::FixedWindow, calendar, .. } => {
                // The parser knows only zones that exist; one that vanished counts as UTC.
                let boundary = match calendar {
                    Some(zone) => Boundary::Calendar {
                        zone: TimeZone::get(zone).unwrap_or(TimeZone::UTC),
                        offset: unix_offset,
                    },
                    None => Boundary::Anchor(now),
                };
                Meter::Fixed(FixedWindow::new(*rate, boundary, now))
            }
        }
    }

    /// Brings a meter made by an older definition of the same limit to this one. Consumption stays.
    pub fn change(&self, meter: &mut Meter, now: Nanos, unix_offset: i128, old: &Definition) {
        match (&self.counts, meter) {
            (
                Counts::Concurrency(bound) | Counts::Throttled(bound) | Counts::ByteBudget(bound),
                Meter::InFlight(held),
            ) => held.change(*bound),
            (Counts::Breaker(policy), Meter::Circuit(held)) => held.breaker_mut().change(policy.clone()),
            (Counts::Rate { rate, algorithm: Algorithm::TokenBucket, burst, .. }, Meter::Bucket(bucket)) => {
                bucket.change(*rate, burst.unwrap_or(rate.units()), now);
            }
            (
                Counts::Rate { rate, algorithm: Algorithm::SlidingWindow, burst, slack, .. },
                Meter::Sliding(window),
            ) if old.spans(rate) => {
                window.change(*rate, burst.map(|burst| (pace(*rate, *slack), burst)), now);
                window.linger(if burst.is_some() { Duration::ZERO } else { *slack });
            }
            (
                Counts::Rate { rate, algorithm: Algorithm::FixedWindow, calendar, .. },
                Meter::Fixed(window),
            ) if old.spans(rate)
                && matches!(&old.counts, Counts::Rate { calendar: before, .. } if before == calendar) =>
            {
                window.change(rate.units(), now);
            }
            // Another algorithm or window: what was spent counts as spent now.
            (_, meter) => {
                let used = meter.used(now);
                *meter = self.meter(now, unix_offset);
                meter.charge(used, now);
            }
        }
    }

    /// Whether this counts in the same window as `rate`.
    fn spans(&self, rate: &Rate) -> bool {
        matches!(&self.counts, Counts::Rate { rate: own, .. } if own.window() == rate.window())
    }

    /// Units that a call of each priority must leave alone.
    pub fn withheld(&self, capacity: u64) -> [u64; 4] {
        Priority::ALL.map(|priority| (self.reserve.withheld_from(priority) * capacity as f64) as u64)
    }

    /// The units that the definition's shares are of.
    pub fn whole(&self) -> u64 {
        match &self.counts {
            Counts::Rate { rate, algorithm: Algorithm::TokenBucket, burst, .. } => {
                burst.unwrap_or(rate.units())
            }
            Counts::Rate { rate, .. } => rate.units(),
            Counts::Concurrency(bound) | Counts::Throttled(bound) | Counts::ByteBudget(bound) => *bound,
            Counts::Window | Counts::Breaker(_) => 1,
        }
    }
}

/// The rate at which a window's units flow.
fn pace(rate: Rate, slack: Duration) -> Rate {
    Rate::new(rate.units(), rate.window() + slack).unwrap_or(rate)
}

/// A definition in use, shared by all instances made from it.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// What is in force: what is written, by what was learned.
    pub definition: Definition,
    pub written: Definition,
    pub learned: Adjustment,
    pub withheld: [u64; 4],
    /// What stands before the suffix: the level. Instances of loops and keys put their own id in.
    pub level: Arc<str>,
    pub suffix: Arc<str>,
    /// Both together.
    pub name: Arc<str>,
    /// The one instance, unless each loop or key has its own.
    pub shared: LimitId,
    pub per_key: bool,
    /// What an instance of a loop or key may spend before it is written down.
    pub seed: u64,
    /// No longer in the config.
    pub gone: bool,
}

impl Spec {
    pub fn new(level: &str, definition: Definition) -> Spec {
        let (withheld, suffix) = (definition.withheld(definition.whole()), definition.suffix());
        let name = format!("{level}/{suffix}").into();
        let (level, written, learned) = (level.into(), definition.clone(), Adjustment::default());
        Spec {
            withheld,
            suffix: suffix.into(),
            name,
            level,
            definition,
            written,
            learned,
            shared: LimitId::NIL,
            per_key: false,
            seed: 0,
            gone: false,
        }
    }
}

impl Spec {
    /// The name of all instances together.
    pub fn seed_name(&self) -> Arc<str> {
        format!("{}/*/{}", self.level, self.suffix).into()
    }

    /// Returns the service that the level belongs to, and the rest of the name with its leading slash.
    pub fn service_and_rest(&self) -> (&str, &str) {
        let at = self.name.find('/').unwrap_or(self.name.len());
        self.name.split_at(at)
    }

    /// Returns whether its windows follow a calendar.
    pub fn has_calendar(&self) -> bool {
        matches!(&self.definition.counts, Counts::Rate { calendar: Some(_), .. })
    }

    /// The largest cost that is allowed, whatever was learned apart from what the upstream states.
    pub fn most(&self) -> u64 {
        let whole = self.written.whole();
        self.learned.units.map_or(whole, |told| self.learned.told(whole).min(told.max(1)))
    }
}

/// One limit at work.
// In this order: what most calls look at comes first and fits into two cache lines. With a million loops that is
// what a decision waits for.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Limit {
    pub spec: SpecId,
    /// The config in force when it was made: older grants took nothing here.
    pub since: u32,
    /// The loop that it belongs to, and the next limit of that loop.
    pub owner: LoopId,
    pub sibling: LimitId,
    /// Nobody waits here, nothing is lent and nothing reserved: room is all that matters.
    pub plain: bool,
    /// The same, but that its units are lent.
    pub promised: bool,
    /// Whether replies state something about it: then calls are marked when they pass it.
    pub mirrored: bool,
    pub meter: Meter,
    /// Whose units these are, if they are lent.
    pub lent: Option<Box<Allowance>>,
    /// Who waits here or holds a booking that passes through.
    pub queue: Option<Box<Queue>>,
}

impl Limit {
    pub fn new(spec: SpecId, of: &Spec, meter: Meter, since: u32) -> Limit {
        let plain = of.withheld == [0; 4];
        Limit {
            spec,
            since,
            owner: LoopId::NIL,
            sibling: LimitId::NIL,
            plain,
            promised: false,
            mirrored: false,
            meter,
            lent: None,
            queue: None,
        }
    }

    /// Whether `cost` may go now: the meter has room, and so has the allotment.
    #[inline]
    pub fn fits(&mut self, cost: u64, withheld: u64, now: Nanos) -> bool {
        self.meter.fits(cost, withheld, now) && self.lent.as_ref().is_none_or(|lent| lent.room(now) >= cost)
    }

    /// When `cost` could go; never, if only the lender knows.
    pub fn earliest(&self, cost: u64, withheld: u64, now: Nanos) -> Nanos {
        let lent = self.lent.as_ref().map_or(Nanos::ZERO, |lent| lent.earliest(cost, now));
        self.meter.earliest(cost, withheld).max(lent)
    }

    /// The largest cost that fits now.
    pub fn room(&mut self, withheld: u64, now: Nanos) -> u64 {
        let lent = self.lent.as_ref().map_or(u64::MAX, |lent| lent.room(now));
        self.meter.room(withheld, now).min(lent)
    }

    /// Gives back what is in flight. What is promised of slots is how many more may be held than were when that was
    /// written, so they come back to the promise too, whenever they were taken.
    #[inline]
    pub fn release(&mut self, units: u64) {
        self.meter.release(units);
        if let Some(lent) = &mut self.lent
            && self.meter.is_in_flight()
        {
            lent.come_back(units);
        }
    }

    /// Whether nothing would be forgiven by forgetting it.
    pub fn is_idle(&self, now: Nanos) -> bool {
        let lent = self.lent.as_ref().is_none_or(|lent| lent.lasts());
        self.queue.is_none() && lent && self.meter.full_at() <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million loops have a million of them.
    #[test]
    fn a_limit_takes_two_cache_lines() {
        assert_eq!(size_of::<Limit>(), 128);
    }
}
