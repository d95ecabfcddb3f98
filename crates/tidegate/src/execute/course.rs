//! The course of one call from its first attempt to its last: pure state, without a clock.
//!
//! It knows what the call has been through and how long it may go on. Waiting is counted, and running is not:
//! `timeout` bounds the sum of all waits, wherever they were. Whoever drives it, a task or a thread, tells it what
//! happened and when.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Nanos;
use tidegate_core::retry::{Budget, Decision, Failure, GiveUp, RetryPolicy, Tries};

use super::ends::Tried;

/// How long a call may go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// It waits no longer than this in all.
    pub timeout: Duration,
    /// It does not wait beyond this.
    pub deadline: Nanos,
    /// It is not made again later than this after its start.
    pub max_elapsed: Option<Duration>,
}

/// What a call has been through.
#[derive(Debug)]
pub(super) struct Course {
    policy: RetryPolicy,
    budget: Arc<Mutex<Budget>>,
    bounds: Bounds,
    tries: Tries,
    start: Nanos,
    attempts: u32,
    /// Whether an attempt gave its permit back.
    gave_back: bool,
    queued: Duration,
    waited: Duration,
    history: Vec<Tried>,
}

impl Course {
    pub fn new(
        policy: RetryPolicy,
        budget: Arc<Mutex<Budget>>,
        repeatable: bool,
        bounds: Bounds,
        start: Nanos,
    ) -> Course {
        Course {
            policy,
            budget,
            bounds,
            tries: Tries::of(repeatable),
            start,
            attempts: 0,
            gave_back: false,
            queued: Duration::ZERO,
            waited: Duration::ZERO,
            history: Vec::new(),
        }
    }

    /// How long the next attempt may wait for its permit.
    pub fn queue_time(&self, now: Nanos) -> Duration {
        let left = self.wait_left(now);
        if self.attempts == 0 { left } else { left.min(self.retry_left(now)) }
    }

    /// The next attempt begins, after it waited so long for its permit.
    pub fn went(&mut self, queued: Duration, now: Nanos) {
        self.attempts += 1;
        self.queued = queued;
        self.waited += queued;
        if self.attempts == 1 && !self.gave_back {
            self.budget.lock().call(now);
        }
    }

    /// The attempt was not sent and gave its permit back: it does not count.
    pub fn gave_back(&mut self) {
        self.attempts -= 1;
        self.gave_back = true;
    }

    /// Returns whether the call had a permit before, and so has a place in the queue that it comes back to.
    pub fn has_been_granted(&self) -> bool {
        self.attempts > 0 || self.gave_back
    }

    /// The attempt failed after it ran so long: how long to wait before the next one, or why there is none.
    pub fn failed(
        &mut self,
        failure: Failure,
        ran: Duration,
        draw: u64,
        now: Nanos,
    ) -> Result<Duration, GiveUp> {
        self.tries.elapsed = now.since(self.start);
        self.tries.wait_left = self.wait_left(now).min(self.retry_left(now));
        let decision = self.policy.decide(&failure, &self.tries, &mut self.budget.lock(), draw, now);
        let delay = match decision {
            Decision::Retry { after, .. } => Ok(after),
            Decision::GiveUp(why) => Err(why),
        };
        if let Ok(delay) = delay {
            self.tries.again(&failure, delay);
        }
        let Course { attempts: attempt, queued, .. } = *self;
        self.history.push(Tried { attempt, queued, ran, failure, delay: delay.ok() });
        delay
    }

    /// The wait between two attempts is over, and took so long.
    pub fn rested(&mut self, span: Duration) {
        self.waited += span;
    }

    /// How often the call was made.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long it waited in all.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// What it came to so far: attempts, waits, and those that failed.
    pub fn take_history(&mut self) -> Vec<Tried> {
        std::mem::take(&mut self.history)
    }

    fn wait_left(&self, now: Nanos) -> Duration {
        let Bounds { timeout, deadline, .. } = self.bounds;
        let before_deadline = if deadline.is_never() { Duration::MAX } else { deadline.since(now) };
        timeout.saturating_sub(self.waited).min(before_deadline)
    }

    fn retry_left(&self, now: Nanos) -> Duration {
        let most = [self.bounds.max_elapsed, self.policy.max_elapsed()].into_iter().flatten().min();
        most.map_or(Duration::MAX, |most| most.saturating_sub(now.since(self.start)))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::retry::{FailureKind, Jitter};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn course(timeout: u32, max_elapsed: Option<u32>) -> Course {
        let policy = RetryPolicy::builder().jitter(Jitter::None).build().expect("valid");
        let budget = Arc::new(Mutex::new(policy.new_budget()));
        let bounds = Bounds {
            timeout: timeout * SECOND,
            deadline: Nanos::NEVER,
            max_elapsed: max_elapsed.map(|seconds| seconds * SECOND),
        };
        Course::new(policy, budget, true, bounds, Nanos::ZERO)
    }

    fn at(seconds: u64) -> Nanos {
        Nanos::ZERO.after(Duration::from_secs(seconds))
    }

    #[test]
    fn only_waiting_counts_against_the_timeout() {
        let refused = Failure::of_kind(FailureKind::Refused);
        let mut course = course(10, None);
        course.went(2 * SECOND, at(2));
        assert_eq!(course.failed(refused, 100 * SECOND, 0, at(102)), Ok(SECOND));
        course.rested(SECOND);
        assert_eq!(course.queue_time(at(103)), 7 * SECOND);
        assert_eq!((course.attempts(), course.waited()), (1, 3 * SECOND));
    }

    #[test]
    fn running_counts_against_the_longest_time_to_try_again() {
        let refused = Failure::of_kind(FailureKind::Refused);
        let mut course = course(60, Some(20));
        assert_eq!(course.queue_time(at(0)), 60 * SECOND, "the first attempt is none again");
        course.went(Duration::ZERO, at(0));
        assert_eq!(course.failed(refused, 15 * SECOND, 0, at(15)), Ok(SECOND));
        course.rested(SECOND);
        assert_eq!(course.queue_time(at(16)), 4 * SECOND);
        course.went(Duration::ZERO, at(16));
        assert_eq!(course.failed(refused, 4 * SECOND, 0, at(20)), Err(GiveUp::TimeSpent));
    }
}
