//! A limit as it is kept across a restart: how it counted, what was spent, and what may have been spent since.
//!
//! Times are those of the engine, which goes on counting after a restart from where it was (see
//! [`crate::engine::Engine::keep_book`]), so they need no translation. What is read back is not trusted: numbers that
//! cannot be are an error, never a panic.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::limit::{Counts, Definition};
use crate::limits::meters::{Bucket, Meter, SlidingWindow};
use crate::model::rate::{Algorithm, MAX_UNITS, Rate};
use crate::model::time::{Nanos, whole_nanos};

/// A limit, as it was when this was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// How it counted, and what was spent.
    counts: Spent,
    /// What may have been spent since, at most.
    #[serde(default, skip_serializing_if = "is_zero")]
    promised: u64,
}

/// Why what was kept of a limit makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no limit can have been in the state that was kept of it")]
pub struct Impossible;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Spent {
    SlidingWindow {
        #[serde(flatten)]
        rate: KeptRate,
        /// Added to the window when units flow.
        #[serde(default, skip_serializing_if = "is_zero")]
        slack_ns: u64,
        /// What flows in, if it is paced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pacer: Option<Level>,
        /// Numbers of slots of W/256, and the units taken in them.
        slots: Vec<(u64, u64)>,
    },
    TokenBucket {
        #[serde(flatten)]
        rate: KeptRate,
        level: Level,
    },
    FixedWindow {
        #[serde(flatten)]
        rate: KeptRate,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calendar: Option<String>,
        used: u64,
        #[serde(default, skip_serializing_if = "is_zero")]
        debt: u64,
        opened_ns: u64,
        closes_ns: u64,
        /// When a calendar's window ends on the wall, which may have been set meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends_unix: Option<i64>,
        /// Stretches of a calendar that were open before: when, on the wall, the first and the last of a range end, and
        /// what was spent in each at most.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        before: Vec<(i64, i64, u64)>,
    },
    InFlight {
        bound: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        budget: bool,
        held: u64,
        /// How long calls that were in flight may still be.
        grace_ns: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptRate {
    limit: u64,
    window_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
}

/// How full a bucket was, and when: grains that are missing, of which a unit has as many as the window nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Level {
    missing: u64,
    /// How many times 2⁶⁴ more.
    #[serde(default, skip_serializing_if = "is_zero")]
    missing_high: u64,
    at_ns: u64,
}

impl Kept {
    /// A limit as it is, unless it is one that counts nothing. `grace` is how long its calls may be in flight.
    pub(crate) fn of(definition: &Definition, meter: &Meter, promised: u64, grace: Duration) -> Option<Kept> {
        let counts = match (&definition.counts, meter) {
            (Counts::Rate { rate, burst, slack, .. }, Meter::Sliding(window)) => Spent::SlidingWindow {
                rate: KeptRate::of(*rate, *burst),
                slack_ns: whole_nanos(*slack),
                pacer: window.pacer().map(Level::of),
                slots: window.spent().filter(|(_, units)| *units > 0).collect(),
            },
            (Counts::Rate { rate, burst, .. }, Meter::Bucket(bucket)) => {
                Spent::TokenBucket { rate: KeptRate::of(*rate, *burst), level: Level::of(bucket) }
            }
            (Counts::Rate { rate, calendar, .. }, Meter::Fixed(window)) => {
                let ((used, debt), (opened, closes)) = (window.spent(), window.bounds());
                let (rate, calendar) = (KeptRate::of(*rate, None), calendar.clone());
                let (opened_ns, closes_ns, ends_unix) = (opened.0, closes.0, window.ends_unix());
                let before = window.before();
                Spent::FixedWindow { rate, calendar, used, debt, opened_ns, closes_ns, ends_unix, before }
            }
            (_, Meter::InFlight(held)) => Spent::InFlight {
                bound: definition.whole(),
                budget: held.is_budget(),
                held: held.used(Nanos::ZERO),
                grace_ns: whole_nanos(grace),
            },
            _ => return None,
        };
        Some(Kept { counts, promised })
    }

    /// Whether a limit can have been in that state at `now`.
    #[must_use]
    pub fn is_possible(&self, now: Nanos) -> bool {
        self.revive(now, 0).is_ok()
    }

    /// What may have been spent since, at most.
    #[must_use]
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// How long calls that were in flight may still be, if that is what it counts.
    pub(crate) fn grace(&self) -> Option<Duration> {
        match self.counts {
            Spent::InFlight { grace_ns, .. } => Some(Duration::from_nanos(grace_ns)),
            _ => None,
        }
    }

    /// The limit as it was, and how it counted. It had last changed at `at` or before.
    pub(crate) fn revive(&self, at: Nanos, unix_offset: i128) -> Result<(Definition, Meter), Impossible> {
        let definition = Definition::kept(self.counts.as_counts()?);
        let mut meter = definition.meter(at, unix_offset);
        let sound = match (&self.counts, &mut meter) {
            (Spent::SlidingWindow { pacer, slots, .. }, Meter::Sliding(window)) => {
                restore_window(window, slots, at) && restore_pacer(window, *pacer, at)
            }
            (Spent::TokenBucket { level, .. }, Meter::Bucket(bucket)) => level.restore(bucket, at),
            (
                Spent::FixedWindow { used, debt, opened_ns, closes_ns, ends_unix, before, .. },
                Meter::Fixed(window),
            ) => {
                let sound = *opened_ns <= at.0
                    && window.restore(*used, *debt, Nanos(*opened_ns), Nanos(*closes_ns))
                    && window.restore_before(before);
                if let Some(ends) = ends_unix.filter(|_| sound) {
                    window.restore_end(ends, at);
                }
                sound
            }
            (Spent::InFlight { held, .. }, Meter::InFlight(in_flight)) => {
                in_flight.take(*held);
                true
            }
            _ => false,
        };
        if !sound {
            return Err(Impossible);
        }
        // Versions before the bound on debt kept any amount of it.
        meter.bound_debt(at);
        Ok((definition, meter))
    }
}

impl Spent {
    fn as_counts(&self) -> Result<Counts, Impossible> {
        let (rate, algorithm, calendar, slack) = match self {
            Spent::SlidingWindow { rate, slack_ns, .. } => {
                (rate, Algorithm::SlidingWindow, None, Duration::from_nanos(*slack_ns))
            }
            Spent::TokenBucket { rate, .. } => (rate, Algorithm::TokenBucket, None, Duration::ZERO),
            Spent::FixedWindow { rate, calendar, .. } => {
                (rate, Algorithm::FixedWindow, calendar.clone(), Duration::ZERO)
            }
            Spent::InFlight { bound: 0, .. } => return Err(Impossible),
            Spent::InFlight { bound, budget: true, .. } => return Ok(Counts::ByteBudget(*bound)),
            Spent::InFlight { bound, .. } => return Ok(Counts::Concurrency(*bound)),
        };
        let burst = rate.burst;
        if burst.is_some_and(|burst| burst == 0 || burst > MAX_UNITS) {
            return Err(Impossible);
        }
        let rate = Rate::new(rate.limit, Duration::from_nanos(rate.window_ns)).map_err(|_| Impossible)?;
        Ok(Counts::Rate { dimension: crate::Dimension::Requests, rate, algorithm, burst, calendar, slack })
    }
}

impl KeptRate {
    fn of(rate: Rate, burst: Option<u64>) -> KeptRate {
        KeptRate { limit: rate.units(), window_ns: whole_nanos(rate.window()), burst }
    }
}

impl Level {
    fn of(bucket: &Bucket) -> Level {
        let (missing, at) = bucket.spent();
        Level { missing: missing as u64, missing_high: (missing >> 64) as u64, at_ns: at.0 }
    }

    fn restore(self, bucket: &mut Bucket, at: Nanos) -> bool {
        bucket.restore(u128::from(self.missing_high) << 64 | u128::from(self.missing), Nanos(self.at_ns));
        self.at_ns <= at.0
    }
}

fn restore_window(window: &mut SlidingWindow, slots: &[(u64, u64)], at: Nanos) -> bool {
    slots.iter().all(|(slot, units)| window.restore(*slot, *units)) && window.last_slot_began() <= at
}

fn restore_pacer(window: &mut SlidingWindow, level: Option<Level>, at: Nanos) -> bool {
    match (window.pacer_mut(), level) {
        (Some(pacer), Some(level)) => level.restore(pacer, at),
        (None, None) => true,
        _ => false,
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{Engine, Found};
    use crate::{Call, Config};

    /// Small, at the edges, or anything.
    fn numbers() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..100, Just(u64::MAX), any::<u64>(), (0_u32..64).prop_map(|bits| 1 << bits)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

        /// Whatever stands on disk, it is refused or it is a state; nobody panics.
        #[test]
        fn garbage_is_refused_or_makes_sense(
            kind in 0_usize..5,
            n in prop::array::uniform8(numbers()),
            slots in prop::collection::vec((numbers(), numbers()), 0..5),
        ) {
            let rate = format!(r#""limit": {}, "window_ns": {}, "burst": {}"#, n[0], n[1], n[2]);
            let level = format!(r#"{{"missing": {}, "missing_high": {}, "at_ns": {}}}"#, n[3], n[4], n[5]);
            let slots = serde_json::to_string(&slots).expect("numbers");
            let counts = match kind {
                0 => format!(r#""sliding-window": {{{rate}, "slack_ns": {}, "pacer": {level}, "slots": {slots}}}"#, n[6]),
                1 => format!(r#""token-bucket": {{{rate}, "level": {level}}}"#),
                2 => format!(
                    r#""fixed-window": {{{rate}, "used": {}, "debt": {}, "opened_ns": {}, "closes_ns": {}}}"#,
                    n[3], n[4], n[5], n[6]
                ),
                3 => format!(
                    r#""fixed-window": {{{rate}, "calendar": "UTC", "used": {}, "opened_ns": {}, "closes_ns": {}, "ends_unix": {},
                        "before": [[{}, {}, {}], [5, 6, 7]]}}"#,
                    n[3], n[5], n[6], n[4] as i64, n[6] as i64, n[7] as i64, n[3]
                ),
                _ => format!(r#""in-flight": {{"bound": {}, "held": {}, "grace_ns": {}}}"#, n[0], n[1], n[2]),
            };
            let text = format!(r#"{{"counts": {{{counts}}}, "promised": {}}}"#, n[7]);
            let kept: Kept = serde_json::from_str(&text).expect("the right shape");
            let config = "[services.api]\nrequests = \"60/min\"\nconcurrency = 5\n";
            let config = Config::parse(config, "test").expect("valid");
            let now = Nanos(1 << 40);
            let mut engine = Engine::new(&config, now, Duration::ZERO).expect("valid");
            let name = if kind == 4 { "api/concurrency" } else { "api/requests/1m" };
            let limits = vec![(name.into(), kept.clone())];
            let found = Found { limits, crashed: true, ..Found::default() };
            let possible = kept.is_possible(now);
            prop_assert_eq!(engine.keep_book(found, now).is_ok(), possible);
            if possible {
                let pages = engine.pages(usize::MAX, now);
                engine.written(&pages, now);
                let _ = engine.try_admit(&Call::to("api"), now.after(Duration::from_secs(100)));
                engine.limits(now);
                for page in engine.last_pages(now.after(Duration::from_secs(200))) {
                    let text = serde_json::to_string(&page.kept).expect("a page");
                    let again: Option<Kept> = serde_json::from_str(&text).expect("what was written can be read");
                    prop_assert_eq!(again, page.kept);
                }
            }
        }
    }

    const DAY: Duration = Duration::from_secs(86_400);

    /// An engine at noon of that day, after another one that left these pages.
    fn engine(pages: Vec<(std::sync::Arc<str>, Kept)>, day: u32, now: Nanos) -> Engine {
        let config = Config::parse("[services.api]\nrequests = \"10/day@UTC\"\n", "test").expect("valid");
        let mut engine = Engine::new(&config, now, day * DAY + DAY / 2).expect("valid");
        engine.keep_book(Found { limits: pages, ..Found::default() }, now).expect("possible");
        let pages = engine.pages(usize::MAX, now);
        engine.written(&pages, now);
        engine
    }

    /// Makes calls until one is refused; returns how many went.
    fn spend(engine: &mut Engine, now: Nanos) -> usize {
        (0..100)
            .take_while(|_| {
                let went = engine.try_admit(&Call::to("api"), now).is_ok();
                let pages = engine.pages(usize::MAX, now);
                engine.written(&pages, now);
                went
            })
            .count()
    }

    fn restarted(mut engine: Engine, day: u32, now: Nanos) -> Engine {
        let pages = engine.last_pages(now).into_iter();
        let pages = pages.filter_map(|page| {
            let text = serde_json::to_string(&page.kept?).expect("a page");
            Some((page.name, serde_json::from_str(&text).expect("what was written can be read")))
        });
        self::engine(pages.collect(), day, now)
    }

    #[test]
    fn a_restart_gives_no_second_allowance_for_days_before_the_last_one() {
        let mut now = Nanos(1 << 40);
        let mut engine = engine(Vec::new(), 9, now);
        assert_eq!(spend(&mut engine, now), 10, "on the 9th");
        now = now.after(DAY);
        assert_eq!(spend(&mut engine, now), 10, "on the 10th");
        // The clock is set back to the 8th while nothing runs.
        let mut engine = restarted(engine, 8, now);
        for day in 8..=10 {
            assert_eq!(spend(&mut engine, now), 0, "the {day}th once more");
            now = now.after(DAY);
            engine = restarted(engine, day + 1, now);
        }
        assert_eq!(spend(&mut engine, now), 10, "on the 11th");
    }

    #[test]
    fn a_reload_that_removes_a_limit_forgets_no_day_of_it() {
        let mut now = Nanos(1 << 40);
        let mut engine = engine(Vec::new(), 9, now);
        let with = Config::parse("[services.api]\nrequests = \"10/day@UTC\"\n", "test").expect("valid");
        let without = Config::parse("[services.other]\n", "test").expect("valid");
        for _ in 9..=10 {
            assert_eq!(spend(&mut engine, now), 10);
            now = now.after(DAY);
        }
        assert_eq!(spend(&mut engine, now), 10, "on the 11th");
        engine.reconfigure(&without, now).expect("valid");
        engine.reconfigure(&with, now).expect("valid");
        engine.set_wall_clock(now, 8 * DAY + DAY / 2);
        for day in 8..=11 {
            assert_eq!(spend(&mut engine, now), 0, "the {day}th once more");
            now = now.after(DAY);
        }
        assert_eq!(spend(&mut engine, now), 10, "on the 12th");
    }
}
