//! A preset's limits, and over them what the file says.
//!
//! A dimension that is written takes the place of all that the preset says of it at that level: whoever writes
//! `requests = "50/min"` does not also want the preset's requests per day. Levels do not touch each other: a
//! limit on the service leaves the preset's limits on single models as they are.

use super::{Limits, Origin, RateLimit, Reserve};

impl Limits {
    /// What is written here, and where nothing is, the preset's.
    pub(super) fn over(mut self, preset: Limits) -> Limits {
        for limit in &mut self.rates {
            limit.count_as(&preset.rates);
        }
        let unwritten = |limit: &RateLimit| self.rates.iter().all(|own| own.dimension != limit.dimension);
        let kept: Vec<RateLimit> = preset.rates.into_iter().filter(unwritten).collect();
        self.rates.extend(kept);
        if self.concurrency.is_none() {
            (self.concurrency, self.concurrency_origin) = (preset.concurrency, preset.concurrency_origin);
            self.adaptive = preset.adaptive;
        }
        self.throttled_concurrency = self.throttled_concurrency.or(preset.throttled_concurrency);
        self.byte_budget = self.byte_budget.or(preset.byte_budget);
        if self.reserve == Reserve::default() {
            self.reserve = preset.reserve;
        }
        self
    }
}

impl RateLimit {
    /// A plain rate counts as the preset says that this limit of the upstream counts. Another window than the
    /// preset's is not that limit, and stays the sliding window that suits every way of counting.
    fn count_as(&mut self, preset: &[RateLimit]) {
        if self.algorithm.is_some() || self.calendar.is_some() {
            return;
        }
        let same = |limit: &&RateLimit| {
            limit.origin == Origin::Preset
                && limit.dimension == self.dimension
                && limit.rate.window() == self.rate.window()
        };
        if let Some(limit) = preset.iter().find(same) {
            self.algorithm = limit.algorithm;
            self.burst = self.burst.or(limit.burst);
            self.calendar.clone_from(&limit.calendar);
        }
    }
}
