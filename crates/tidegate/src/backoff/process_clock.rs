//! The one clock of all windows of a process: tokio's, so that they follow it where it is paused.
//!
//! Windows are shared by whoever names their key, in whatever runtime, so their times count from one origin.
//! It lies in the middle of the range and not at its beginning: a runtime whose time was paused before the
//! first window was made is *before* the origin, and its time must move all the same.

use std::sync::LazyLock;
use std::time::{Duration, Instant as StdInstant};

use tidegate_core::{Nanos, whole_nanos};
use tokio::time::Instant;

static ORIGIN: LazyLock<Instant> = LazyLock::new(|| Instant::from_std(StdInstant::now()));
/// What the clock shows at the origin: 146 years, and 438 more are left.
const AT_ORIGIN: u64 = 1 << 62;

#[inline]
pub(super) fn now() -> Nanos {
    let (now, origin) = (Instant::now(), *ORIGIN);
    match now.checked_duration_since(origin) {
        Some(after) => Nanos(AT_ORIGIN.saturating_add(whole_nanos(after))),
        None => Nanos(AT_ORIGIN.saturating_sub(whole_nanos(origin.duration_since(now)))),
    }
}

/// The moment as one that tokio can sleep until; a very late one comes sooner, and then one has to ask again.
pub(super) fn instant(at: Nanos) -> Instant {
    /// As far as tokio's timers reach.
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    let origin = *ORIGIN;
    let instant = match at.0.checked_sub(AT_ORIGIN) {
        Some(after) => origin.checked_add(Duration::from_nanos(after).min(FAR)),
        None => origin.checked_sub(Duration::from_nanos(AT_ORIGIN - at.0)),
    };
    instant.unwrap_or(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_was_paused_before_the_first_window_has_a_time_that_moves() {
        std::thread::spawn(now).join().expect("reading a clock does not panic");
        let start = now();
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(now().since(start), Duration::from_millis(1));
        assert_eq!(instant(now()), Instant::now());
    }

    #[test]
    fn the_ends_of_the_range_are_no_panic() {
        let _ = instant(Nanos::ZERO);
        assert!(instant(Nanos::NEVER) > Instant::now() + Duration::from_secs(86_400));
    }
}
