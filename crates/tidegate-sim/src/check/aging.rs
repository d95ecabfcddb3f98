//! The share of those who pass by age, at a limit that is all there is on its route.
//!
//! Whoever passes a higher priority by age alone pays from a credit that grows by `aging_share` of what others
//! are granted. So age may never take more than that share of all, but for one call; and while one that is old
//! enough is denied, what others take must not exceed what buys it its turn.

/// Whom a call of a lower priority went past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    /// Nobody of a higher priority waits.
    Nobody,
    /// One that could have gone instead: that was by age.
    ByAge,
    /// One that may not have fitted: by age or by backfill, which cannot be told from outside.
    Somehow,
}

/// What age took and was denied at one limit.
#[derive(Debug, Default)]
pub(crate) struct Aging {
    /// Units that went by age, and all others.
    by_age: u64,
    others: u64,
    /// Units that went past one that was old enough, since age was last served.
    denied: u64,
    largest: u64,
}

impl Aging {
    /// A call of `cost` went; `denies` says that one that was old enough to go instead waits.
    pub fn went(&mut self, cost: u64, passes: Passes, denies: bool, share: f64) -> Result<(), String> {
        self.largest = self.largest.max(cost);
        if passes == Passes::Somehow {
            // Whatever it was, it may have been paid for from what age had to its credit.
            (self.others, self.denied) = (self.others + cost, 0);
            return Ok(());
        }
        if passes == Passes::ByAge {
            self.by_age += cost;
            self.denied = 0;
            let most = share * self.others as f64 + (2 * self.largest) as f64;
            if self.by_age as f64 > most {
                return Err(format!("{} went by age where {most:.1} of {} may", self.by_age, self.others));
            }
            return Ok(());
        }
        self.others += cost;
        self.denied = if denies { self.denied + cost } else { 0 };
        let due = (3 * self.largest) as f64;
        if self.denied as f64 * share > due {
            return Err(format!("{} went past one that is old enough to go by age", self.denied));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_that_is_never_served_is_seen() {
        let mut aging = Aging::default();
        let first = (0..100).position(|_| aging.went(1, Passes::Nobody, true, 0.1).is_err());
        assert_eq!(first, Some(30));
    }

    #[test]
    fn age_that_takes_more_than_its_share_is_seen() {
        let mut aging = Aging::default();
        for _ in 0..10 {
            aging.went(1, Passes::Nobody, false, 0.1).expect("nobody is old");
        }
        let taken = (0..10).position(|_| aging.went(1, Passes::ByAge, false, 0.1).is_err());
        assert_eq!(taken, Some(3));
    }
}
