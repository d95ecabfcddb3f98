//! Which stretches of a calendar were open, and what was spent in them.
//!
//! A clock may be set back over any of them, and none has a second allowance, so none may be forgotten. Memory is bounded all
//! the same: of many stretches, those that lie nearest to each other become one range, which counts as spent as its
//! most spent part, with all that lies between. As days follow each other, that is one range of old days, and the latest
//! ones each by itself. A time far ahead that the clock once showed by mistake stays a range of its own.

/// So many ranges are kept.
const MOST: usize = 8;

/// The stretches of a calendar that were open, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretches(Vec<Range>);

/// Stretches that follow each other, by the Unix times at which they end, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub first: i128,
    pub last: i128,
    /// Units that were spent in each, at most.
    pub spent: u64,
}

impl Stretches {
    /// Returns what was spent in the stretch that ends at `ends`, if it was ever open.
    pub fn spent(&self, ends: i128) -> Option<u64> {
        self.0.iter().find(|range| range.has(ends)).map(|range| range.spent)
    }

    /// Takes note of what was spent in a stretch.
    pub fn remember(&mut self, ends: i128, spent: u64) {
        match self.0.iter_mut().find(|range| range.has(ends)) {
            Some(range) if range.first == range.last => range.spent = spent,
            Some(range) => range.spent = range.spent.max(spent),
            None => self.add(Range { first: ends, last: ends, spent }),
        }
    }

    /// Adds a range, in whose place none is yet.
    pub fn add(&mut self, range: Range) {
        let at = self.0.partition_point(|other| other.first < range.first);
        self.0.insert(at, range);
        if self.0.len() <= MOST {
            return;
        }
        let gap = |at: &usize| self.0[*at].first - self.0[at - 1].last;
        if let Some(nearest) = (1..self.0.len()).min_by_key(gap) {
            let later = self.0.remove(nearest);
            let earlier = &mut self.0[nearest - 1];
            earlier.last = earlier.last.max(later.last);
            earlier.spent = earlier.spent.max(later.spent);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Range> {
        self.0.iter()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Range {
    fn has(&self, ends: i128) -> bool {
        (self.first..=self.last).contains(&ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stretch_is_forgotten_and_a_time_far_ahead_stays_apart() {
        let mut stretches = Stretches::default();
        for day in 0..100 {
            stretches.remember(day, u64::from(day == 5) + 1);
        }
        assert_eq!(
            (stretches.spent(5), stretches.spent(99)),
            (Some(2), Some(1)),
            "the latest are known as they were"
        );
        stretches.remember(99, 7);
        stretches.remember(99, 4);
        assert_eq!(stretches.spent(99), Some(4));
        for far in 1_000_000..1_000_020 {
            stretches.remember(far, 3);
        }
        assert_eq!(stretches.0.len(), MOST);
        assert!((0..100).all(|day| stretches.spent(day).is_some_and(|spent| spent > 0)));
        assert!((1_000_000..1_000_020).all(|far| stretches.spent(far) == Some(3)));
        assert_eq!([100, 500_000, 999_999, 1_000_020].map(|other| stretches.spent(other)), [None; 4]);
        stretches.clear();
        assert_eq!(stretches.spent(5), None);
    }
}
