//! The token bucket against the plainest model of one, in big integers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tidegate::{Clock, ManualClock, Nanos, TokenBucket};

const MAX: u64 = 1 << 63;
/// Less than the 18 years for which every bucket is exact.
const ENOUGH: u64 = 1 << 58;

/// Counts the contents: a unit is `interval` grains, and `rate` grains flow in each nanosecond.
struct Model {
    capacity: u64,
    rate: u64,
    interval: u64,
    grains: u128,
}

impl Model {
    fn new(capacity: u64, rate: u64, interval: u64) -> Model {
        Model { capacity, rate, interval, grains: u128::from(capacity) * u128::from(interval) }
    }

    fn full(&self) -> u128 {
        u128::from(self.capacity) * u128::from(self.interval)
    }

    fn advance(&mut self, nanos: u64) {
        self.grains = (self.grains + u128::from(nanos) * u128::from(self.rate)).min(self.full());
    }

    fn take(&mut self, units: u64) -> bool {
        let cost = u128::from(units) * u128::from(self.interval);
        let fits = cost <= self.grains;
        if fits {
            self.grains -= cost;
        }
        fits
    }

    fn put_back(&mut self, units: u64) {
        self.grains = (self.grains + u128::from(units) * u128::from(self.interval)).min(self.full());
    }

    fn available(&self) -> u64 {
        (self.grains / u128::from(self.interval)) as u64
    }

    /// In nanoseconds; `None` for never.
    fn wait_for(&self, units: u64) -> Option<u128> {
        let cost = u128::from(units) * u128::from(self.interval);
        (units <= self.capacity).then(|| cost.saturating_sub(self.grains).div_ceil(u128::from(self.rate)))
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Take(u64),
    /// A share of what is there, in 1/64, and so many units more or less: the edge is where mistakes are.
    TakeShare(u64, i64),
    PutBack(u64),
    Pass(u64),
    /// As long as so many units take to come, and so many nanoseconds more or less.
    PassUntil(u64, i64),
}

/// Numbers of every size, small ones as likely as large ones.
fn any_size(max: u64) -> impl Strategy<Value = u64> {
    (0..=max.ilog2(), any::<u64>())
        .prop_map(move |(bits, noise)| ((1u64 << bits) | (noise & ((1u64 << bits) - 1))).min(max))
}

fn rate() -> impl Strategy<Value = (u64, u64)> {
    const SECOND: u64 = 1_000_000_000;
    let intervals = prop_oneof![
        Just(1),
        Just(1_000),
        Just(SECOND),
        Just(60 * SECOND),
        Just(3_600 * SECOND),
        Just(86_400 * SECOND),
        any_size(86_400 * SECOND),
    ];
    // From one a day to 10⁹ a second.
    intervals.prop_flat_map(|interval| (any_size(interval), Just(interval)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop_oneof![Just(0), any_size(MAX)].prop_map(Step::Take),
        4 => (0u64..=64, -1i64..=1).prop_map(|(share, edge)| Step::TakeShare(share, edge)),
        1 => any_size(MAX).prop_map(Step::PutBack),
        3 => any_size(1 << 50).prop_map(Step::Pass),
        4 => (1u64..=64, -1i64..=1).prop_map(|(share, edge)| Step::PassUntil(share, edge)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_bucket_is_the_model(
        capacity in any_size(MAX),
        (rate, interval) in rate(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let clock = ManualClock::new();
        let bucket = TokenBucket::new(capacity, rate, Duration::from_nanos(interval)).unwrap();
        let bucket = bucket.with_clock(clock.clone());
        let mut model = Model::new(capacity, rate, interval);
        let mut now = 0;
        for step in steps {
            let mut pass = |nanos: u64, model: &mut Model| {
                let nanos = nanos.min(ENOUGH - now);
                now += nanos;
                clock.advance(Duration::from_nanos(nanos));
                model.advance(nanos);
            };
            let share = |of: u64, share: u64| (u128::from(of) * u128::from(share) / 64) as u64;
            match step {
                Step::Take(units) => prop_assert_eq!(bucket.try_take(units), model.take(units)),
                Step::TakeShare(part, edge) => {
                    let units = share(model.available(), part).saturating_add_signed(edge);
                    prop_assert_eq!(bucket.try_take(units), model.take(units));
                }
                Step::PutBack(units) => {
                    bucket.put_back(units);
                    model.put_back(units);
                }
                Step::Pass(nanos) => pass(nanos, &mut model),
                Step::PassUntil(part, edge) => {
                    let units = share(capacity, part);
                    let wait = model.wait_for(units).unwrap();
                    let expected = u64::try_from(wait / 1_000_000_000).map_or(Duration::MAX, |seconds| {
                        Duration::new(seconds, (wait % 1_000_000_000) as u32)
                    });
                    prop_assert_eq!(bucket.wait_for(units), Some(expected));
                    pass(u64::try_from(wait).unwrap_or(u64::MAX).saturating_add_signed(edge), &mut model);
                }
            }
            prop_assert_eq!(bucket.available(), model.available());
            prop_assert!(bucket.wait_for(model.available()) == Some(Duration::ZERO));
        }
    }

    #[test]
    fn no_clock_however_wild_gives_more_than_the_bucket_and_what_flowed(
        capacity in any_size(1 << 40),
        (rate, interval) in rate(),
        steps in prop::collection::vec((any_size(1 << 50), 0u64..=80, any::<bool>()), 1..60),
    ) {
        let clock = Wild::default();
        let bucket = TokenBucket::new(capacity, rate, Duration::from_nanos(interval)).unwrap();
        let bucket = bucket.with_clock(clock.clone());
        let (mut taken, mut latest) = (0u128, 0u64);
        for (time, part, put_back) in steps {
            clock.0.store(time, Ordering::SeqCst);
            latest = latest.max(time);
            let units = (u128::from(capacity) * u128::from(part) / 64) as u64;
            if bucket.try_take(units) {
                taken += u128::from(units);
                if put_back {
                    // Whatever the clock does meanwhile, no more comes back than went.
                    bucket.put_back(units);
                    taken -= u128::from(units);
                }
            }
            let flowed = u128::from(latest) * u128::from(rate);
            let held = u128::from(capacity) * u128::from(interval);
            prop_assert!(taken * u128::from(interval) <= held + flowed);
        }
    }
}

#[derive(Clone, Default)]
struct Wild(Arc<AtomicU64>);

impl Clock for Wild {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}
