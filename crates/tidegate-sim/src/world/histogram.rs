//! Waits by length, in a size that does not grow with their number.

use std::time::Duration;

use crate::report::Waits;

/// Counts of waits by length: each power of two in 64 steps, so a percentile is at most 1.6 % too long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    all: u64,
    max: u64,
}

const STEPS: u64 = 64;

impl Histogram {
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.all += 1;
        self.max = self.max.max(value);
    }

    /// What this share of all values does not exceed.
    fn percentile(&self, share: f64) -> Duration {
        let rank = (self.all as f64 * share).ceil() as u64;
        let mut sum = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum >= rank && sum > 0 {
                return Duration::from_nanos(highest(bucket).min(self.max));
            }
        }
        Duration::ZERO
    }

    pub fn waits(&self) -> Waits {
        Waits { p50: self.percentile(0.5), p99: self.percentile(0.99), max: Duration::from_nanos(self.max) }
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    ((u64::from(shift) + 1) * STEPS + (value >> shift) - STEPS) as usize
}

/// The largest value of a bucket.
fn highest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_never_too_short_and_hardly_too_long() {
        let mut histogram = Histogram::default();
        (1..=10_000).for_each(|value| histogram.add(value * 1_000));
        let waits = histogram.waits();
        for (found, exact) in [(waits.p50, 5_000_000), (waits.p99, 9_900_000), (waits.max, 10_000_000)] {
            let found = found.as_nanos() as u64;
            assert!((exact..=exact + exact / 60).contains(&found), "{found} for {exact}");
        }
    }

    #[test]
    fn buckets_do_not_overlap_and_leave_nothing_out() {
        for value in (0..5_000).chain([1 << 40, (1 << 40) + 12_345, u64::MAX]) {
            assert!(value <= highest(bucket(value)), "{value}");
            assert!(bucket(value) == 0 || value > highest(bucket(value) - 1), "{value}");
        }
    }
}
