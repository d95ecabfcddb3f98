//! How long a process was down.
//!
//! Within one boot the boot clock knows: nobody can set it, and it goes on while the machine sleeps. After another boot
//! there is only the wall clock, of which backward steps count as nothing. A clock that is wrong by a lot can make a
//! limit look unspent, and so give away what one window holds, but never more: a limit has no more room than when it
//! is untouched.

use std::time::{Duration, SystemTime};

/// A moment that a later process can measure from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Which boot, and how long ago that was; nothing where the system does not tell.
    pub boot: Option<(String, Duration)>,
    /// Since 1970.
    pub wall: Duration,
}

impl Moment {
    pub fn now() -> Moment {
        Moment {
            boot: boot(),
            wall: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// How long after `earlier` this is, at least.
    pub fn since(&self, earlier: &Moment) -> Duration {
        match (&self.boot, &earlier.boot) {
            (Some((this, now)), Some((that, then))) if this == that => now.saturating_sub(*then),
            _ => self.wall.saturating_sub(earlier.wall),
        }
    }
}

#[cfg(target_os = "linux")]
fn boot() -> Option<(String, Duration)> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = Duration::new(u64::try_from(up.tv_sec).ok()?, u32::try_from(up.tv_nsec).ok()?);
    Some((id.trim().to_owned(), up))
}

#[cfg(not(target_os = "linux"))]
fn boot() -> Option<(String, Duration)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: &str, up: u64, wall: u64) -> Moment {
        Moment { boot: Some((boot.into(), Duration::from_secs(up))), wall: Duration::from_secs(wall) }
    }

    #[test]
    fn within_a_boot_nobody_can_set_the_clock() {
        assert_eq!(at("a", 100, 5_000).since(&at("a", 90, 9_000)), Duration::from_secs(10));
        assert_eq!(at("a", 100, 99_000).since(&at("a", 90, 9_000)), Duration::from_secs(10));
    }

    #[test]
    fn after_another_boot_the_wall_counts_and_backward_steps_do_not() {
        assert_eq!(at("b", 5, 9_060).since(&at("a", 90, 9_000)), Duration::from_secs(60));
        assert_eq!(at("b", 500, 8_000).since(&at("a", 90, 9_000)), Duration::ZERO);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_system_tells_its_boot() {
        let (first, second) = (Moment::now(), Moment::now());
        assert!(first.boot.is_some() && second.since(&first) < Duration::from_secs(60));
    }
}
