//! Which limit held a call for longest.
//!
//! A lane moves from limit to limit while its calls wait, and nobody is woken for that; so it notes itself where it stood
//! since when, and a call that goes is told by these notes. Only the latest few are kept: a lane that moves more often is
//! judged by its last stations.

use crate::model::LimitId;
use crate::model::time::Nanos;

/// How many stations of a lane are kept.
const KEPT: usize = 4;

/// Where a lane stood, and since when.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockHistory {
    latest: [(LimitId, Nanos); KEPT],
    len: usize,
}

impl BlockHistory {
    /// From now on it stands at that limit.
    pub fn note(&mut self, limit: LimitId, now: Nanos) {
        match self.latest[..self.len].last() {
            Some((last, _)) if *last == limit => return,
            _ if self.len == KEPT => self.latest.rotate_left(1),
            _ => self.len += 1,
        }
        self.latest[self.len - 1] = (limit, now);
    }

    /// The limit at which a call stood longest that came then and goes now; none if it did not wait.
    pub fn longest(&self, came: Nanos, now: Nanos) -> LimitId {
        if let [(limit, since)] = self.latest[..self.len] {
            return if since.max(came) < now { limit } else { LimitId::NIL };
        }
        let mut spans = [(LimitId::NIL, 0); KEPT];
        for (index, &(limit, since)) in self.latest[..self.len].iter().enumerate() {
            let until = self.latest[..self.len].get(index + 1).map_or(now, |(_, next)| *next);
            let span = until.since(since.max(came)).as_nanos();
            if let Some(held) = spans.iter_mut().find(|(held, _)| *held == limit || held.is_nil()) {
                *held = (limit, held.1 + span);
            }
        }
        let longest = spans.into_iter().filter(|(_, span)| *span > 0).max_by_key(|(_, span)| *span);
        longest.map_or(LimitId::NIL, |(limit, _)| limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(number: u32) -> LimitId {
        LimitId::from_number(number)
    }

    #[test]
    fn the_longest_stay_counts_and_two_stays_at_one_limit_are_one() {
        let mut block_history = BlockHistory::default();
        for (number, at) in [(7, 0), (8, 40), (7, 90), (7, 95)] {
            block_history.note(limit(number), Nanos(at));
        }
        assert_eq!(block_history.longest(Nanos(0), Nanos(105)), limit(7), "40 and 15 against 50");
        assert_eq!(block_history.longest(Nanos(20), Nanos(105)), limit(8), "20 and 15 against 50");
        assert_eq!(
            block_history.longest(Nanos(92), Nanos(105)),
            limit(7),
            "it came when the lane stood there"
        );
        assert_eq!(block_history.longest(Nanos(105), Nanos(105)), LimitId::NIL);
    }

    #[test]
    fn a_lane_that_moves_often_is_judged_by_its_last_stations() {
        let mut block_history = BlockHistory::default();
        for at in 0..10 {
            block_history.note(limit(at as u32), Nanos(at));
        }
        assert_eq!(block_history.longest(Nanos(0), Nanos(20)), limit(9));
        assert_eq!(BlockHistory::default().longest(Nanos(0), Nanos(20)), LimitId::NIL);
    }
}
