//! How long calls are in flight, nearly all of them.

use std::time::Duration;

/// So many of the latest count: the longest of them is about the hundredth part of all.
const LATEST: usize = 128;

/// How long the latest calls took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    latest: Vec<Duration>,
    next: usize,
}

impl Durations {
    pub fn add(&mut self, took: Duration) {
        match self.latest.get_mut(self.next) {
            Some(place) => *place = took,
            None => self.latest.push(took),
        }
        self.next = (self.next + 1) % LATEST;
    }

    /// No more than one in a hundred takes longer; `None` without experience.
    pub fn nearly_all(&self) -> Option<Duration> {
        self.latest.iter().max().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_latest_counts() {
        let mut durations = Durations::default();
        assert_eq!(durations.nearly_all(), None);
        durations.add(Duration::from_secs(9));
        (0..LATEST - 1).for_each(|n| durations.add(Duration::from_millis(n as u64)));
        assert_eq!(durations.nearly_all(), Some(Duration::from_secs(9)));
        durations.add(Duration::ZERO);
        assert_eq!(durations.nearly_all(), Some(Duration::from_millis(126)));
    }
}
