//! What each model promises, straight from its sentence: slow, and with nothing to get wrong.

use super::*;

/// One limit, and all that was ever counted by it.
pub struct Definition {
    limit: UpstreamLimit,
    /// When, how much; for slots, until when.
    counted: Vec<(u64, u64)>,
}

impl Definition {
    pub fn of(limit: &UpstreamLimit) -> Definition {
        Definition { limit: limit.clone(), counted: Vec::new() }
    }

    /// Whether the definition allows `cost` at `at`.
    pub fn allows(&self, cost: u64, at: u64) -> bool {
        let (units, window) = (self.limit.rate.units(), self.limit.rate.window().as_nanos() as u64);
        let sum = |within: &dyn Fn(u64) -> bool| -> u64 {
            self.counted.iter().filter(|(then, _)| within(*then)).map(|(_, units)| units).sum()
        };
        match self.limit.model {
            Model::FixedWindow => sum(&|then| then / window == at / window) + cost <= units,
            Model::SlidingLog => sum(&|then| then + window > at) + cost <= units,
            // In every stretch that ends here: no more than the burst and what flows in meanwhile.
            Model::TokenBucket | Model::Gcra => {
                let allowed = |from: u64| {
                    let burst = u128::from(self.limit.burst.unwrap_or(units)) * u128::from(window);
                    let flow = u128::from(at - from) * u128::from(units);
                    let spent = sum(&|then| then >= from) + cost;
                    u128::from(spent) * u128::from(window) <= burst + flow
                };
                allowed(at) && self.counted.iter().all(|(then, _)| allowed(*then))
            }
            Model::Concurrency => {
                self.counted.iter().filter(|(_, until)| *until > at).count() < units as usize
            }
        }
    }

    /// Something of `cost` was counted at `at`; the place of it in the list. A slot is held for good.
    pub fn count(&mut self, cost: u64, at: u64) -> usize {
        let held = if self.limit.model == Model::Concurrency { u64::MAX } else { cost };
        self.counted.push((at, held));
        self.counted.len() - 1
    }

    /// What was counted becomes another cost, or for slots, ends at that time.
    pub fn amend(&mut self, place: usize, to: u64) {
        self.counted[place].1 = to;
    }
}
