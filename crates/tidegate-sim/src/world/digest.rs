//! A number that stands for everything that happened in a run.
//!
//! It takes in every event with its time, when each grant was given, each refusal with its limit, wait and reset, each
//! time at which the engine wants to be woken, what the engine announces and learns, and the state of every limit. Two
//! engines that differ in any of these have different digests, so a change of the engine's inside that keeps all
//! digests keeps its behaviour.

use std::time::Duration;

use tidegate_core::engine::{Lesson, LimitStatus, News, Slowed};
use tidegate_core::{Nanos, Refusal};

/// A hash of words, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub fn value(self) -> u64 {
        self.0
    }

    pub fn add(&mut self, words: &[u64]) {
        for word in words {
            // FNV-1a over words instead of bytes, and a turn so that high bits reach the low ones.
            self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    fn add_text(&mut self, text: &str) {
        self.add(&[text.len() as u64]);
        for bytes in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.add(&[u64::from_le_bytes(word)]);
        }
    }

    /// Adds when a call was granted.
    pub fn add_grant(&mut self, granted_at: Nanos) {
        self.add(&[101, granted_at.0]);
    }

    /// Adds why a call was refused, by which limit and for how long.
    pub fn add_refusal(&mut self, refusal: &Refusal) {
        self.add(&[102, optional(refusal.wait.map(nanos)), optional(refusal.reset.map(|reset| reset.0))]);
        self.add_text(refusal.reason.code());
        self.add_text(refusal.limit.as_deref().unwrap_or_default());
    }

    /// Adds when the engine wants to be woken next.
    pub fn add_wake(&mut self, wake: Option<Nanos>) {
        self.add(&[103, optional(wake.map(|wake| wake.0))]);
    }

    /// Adds what was learned. What is charged for others is left out: the engine tells it only if that is checked, and the
    /// state of the limits shows it.
    pub fn add_lesson(&mut self, lesson: &Lesson) {
        let (name, words) = match lesson {
            Lesson::Units { limit, told, in_force } => (limit, [111, *told, *in_force]),
            Lesson::Bucket { limit, size } => (limit, [112, optional(*size), 0]),
            Lesson::Ceiling { limit, share } => (limit, [113, share.to_bits(), 0]),
            Lesson::Others { limit, rate } => (limit, [114, rate.to_bits(), 0]),
            Lesson::Burst { limit, burst } => (limit, [115, *burst, 0]),
            Lesson::Jitter { limit, apart } => (limit, [116, nanos(*apart), 0]),
            Lesson::Pace { scope, pace, by } => {
                (scope, [117, pace.to_bits(), u64::from(*by == Slowed::Overload)])
            }
            Lesson::InFlight { limit, bound } => (limit, [118, *bound, 0]),
            _ => return,
        };
        self.add_text(name);
        self.add(&words);
    }

    /// Adds what happened to a window, a breaker or a limit.
    pub fn add_news(&mut self, news: &News) {
        let (name, words) = match news {
            News::WindowOpened { key, until } => (key, [121, until.0, 0]),
            News::WindowCleared { key } => (key, [122, 0, 0]),
            News::BreakerOpened { name, until } => (name, [123, until.0, 0]),
            News::BreakerClosed { name } => (name, [124, 0, 0]),
            News::WaitCut { service, asked, allowed } => (service, [125, nanos(*asked), nanos(*allowed)]),
            News::DebtDropped { limit, units } => (limit, [126, *units, 0]),
            News::LimitReset { limit, used } => (limit, [127, *used, 0]),
            _ => return,
        };
        self.add_text(name);
        self.add(&words);
    }

    /// Adds what was spent of each limit, in the order of their names.
    pub fn add_limits(&mut self, mut limits: Vec<LimitStatus>) {
        limits.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        for limit in limits {
            self.add_text(&limit.name);
            let reset = optional(limit.reset.map(|reset| reset.0));
            self.add(&[limit.capacity, limit.used, limit.dropped_debt, reset, limit.waiting as u64]);
        }
    }
}

/// Returns a word that tells nothing from everything else.
fn optional(value: Option<u64>) -> u64 {
    value.map_or(u64::MAX, |value| value.min(u64::MAX - 1))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_core::Reason;

    use super::*;

    fn of(refusal: &Refusal) -> Digest {
        let mut digest = Digest::default();
        digest.add_refusal(refusal);
        digest
    }

    #[test]
    fn refusals_that_differ_in_one_thing_have_different_digests() {
        let second = Duration::from_secs(1);
        let mut one = Refusal::bare(Reason::Timeout);
        (one.limit, one.wait, one.reset) = (Some("api/requests/1m".into()), Some(second), Some(Nanos(7)));
        let others = [
            Refusal { reason: Reason::Hopeless, ..one.clone() },
            Refusal { limit: Some("api/requests/1h".into()), ..one.clone() },
            Refusal { limit: None, ..one.clone() },
            Refusal { wait: Some(second * 2), ..one.clone() },
            Refusal { wait: None, ..one.clone() },
            Refusal { reset: None, ..one.clone() },
        ];
        assert_eq!(of(&one), of(&one.clone()));
        for other in others {
            assert_ne!(of(&one), of(&other), "{other:?}");
        }
    }
}
