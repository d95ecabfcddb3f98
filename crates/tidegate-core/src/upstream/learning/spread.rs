//! By how much calls may overtake each other on their way to the upstream.
//!
//! Nobody tells when a call was counted. But calls that are answered in much the same time cannot have been on their
//! way for very different ones: how far reply times lie apart bounds it. An upstream that takes its time to answer makes
//! that bound loose, so it is never taken for more than [`MOST`].

use std::time::Duration;

/// Networks seldom do worse.
pub(crate) const MOST: Duration = Duration::from_millis(60);
/// How many reply times make a picture.
const SAMPLE: usize = 32;
/// With fewer nothing is known of how long they take.
const FEW: usize = 4;

/// The times of the latest replies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    times: Vec<Duration>,
    next: usize,
    /// How long they took before there were any.
    remembered: Option<Duration>,
}

impl Spread {
    /// A reply came after this long. Says how far calls may lie apart, each time the picture is a new one.
    pub fn hear(&mut self, took: Duration) -> Option<Duration> {
        match self.times.get_mut(self.next) {
            Some(place) => *place = took,
            None => self.times.push(took),
        }
        self.next = (self.next + 1) % SAMPLE;
        if self.next != 0 {
            return None;
        }
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        // The slowest are slow for reasons of their own.
        let apart = sorted[SAMPLE / 2].saturating_sub(sorted[0]);
        Some(apart.min(MOST))
    }

    /// The time that nine of ten replies keep to, once there were some; or as it was remembered.
    pub fn most_keep_to(&self) -> Option<Duration> {
        if self.times.len() < FEW {
            return self.remembered;
        }
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        Some(sorted[sorted.len() * 9 / 10])
    }

    /// Replies took so long before anybody was asked here.
    pub fn remember(&mut self, took: Duration) {
        self.remembered = Some(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(times: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut spread = Spread::default();
        let heard = times.filter_map(|ms| spread.hear(Duration::from_millis(ms)));
        heard.map(|apart| apart.as_millis() as u64).collect()
    }

    #[test]
    fn replies_that_take_alike_cannot_have_overtaken_each_other_by_more() {
        assert_eq!(told((0..64).map(|n| 5 + n % 4)), [2, 2]);
    }

    #[test]
    fn slow_upstreams_do_not_make_the_network_worse_than_it_can_be() {
        assert_eq!(told((0..32).map(|n| 300 + n * 40)), [60]);
    }

    #[test]
    fn nine_of_ten_replies_say_how_long_they_take() {
        let mut spread = Spread::default();
        spread.remember(Duration::from_secs(9));
        for ms in [100, 200, 300] {
            spread.hear(Duration::from_millis(ms));
            assert_eq!(spread.most_keep_to(), Some(Duration::from_secs(9)), "too few");
        }
        for n in 4..=20 {
            spread.hear(Duration::from_millis(100 * n));
        }
        assert_eq!(spread.most_keep_to(), Some(Duration::from_millis(1_900)));
    }

    #[test]
    fn a_few_slow_ones_are_slow_for_reasons_of_their_own() {
        assert_eq!(told((0..32).map(|n| if n % 4 == 0 { 5_000 } else { 5 })), [0]);
    }
}
