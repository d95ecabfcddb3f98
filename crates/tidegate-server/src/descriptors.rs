//! File descriptors: every connection takes one, and the system limits how many a process has.
//!
//! When the system gives no more (EMFILE, ENFILE), idle connections are closed, and the part that needed the descriptor tries
//! again. Connections to upstreams go first: no client notices, and each upstream loses the one that has been idle for
//! longest. Connections of clients go if no upstream has an idle one.

use std::fmt::Display;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tracing::warn;

/// How long to wait for a descriptor if no connection is idle.
pub(crate) const RETRY_LATER: Duration = Duration::from_millis(100);
/// The same if idle connections are being closed.
const RETRY_SOON: Duration = Duration::from_millis(5);
/// A shortage is logged again if the last one ended this long ago.
const EPISODE: Duration = Duration::from_secs(60);

/// A part that keeps connections open, some of them idle.
pub(crate) trait ConnectionHolder: Send + Sync {
    /// Closes connections that have been idle for longest. Returns how many are being closed.
    fn close_idle(&self) -> usize;
}

/// All parts that keep connections open, in the order in which they close idle ones.
#[derive(Default)]
pub(crate) struct Descriptors {
    holders: RwLock<Vec<Weak<dyn ConnectionHolder>>>,
    /// When a shortage was last seen: one in which no connection was idle, and one in which some were.
    short: Mutex<[Option<Instant>; 2]>,
}

impl Descriptors {
    /// Adds a holder behind all others.
    pub fn add<H: ConnectionHolder + 'static>(&self, holder: &Arc<H>) {
        let holder: Weak<H> = Arc::downgrade(holder);
        self.holders.write().push(holder);
    }

    /// Closes idle connections of the first holder that has some. Returns how long to wait before the next try.
    pub fn make_room(&self, why: &dyn Display) -> Duration {
        let holders: Vec<Arc<dyn ConnectionHolder>> =
            self.holders.read().iter().filter_map(Weak::upgrade).collect();
        let closing = holders.iter().map(|holder| holder.close_idle()).find(|closing| *closing > 0);
        self.log(why, closing.unwrap_or(0));
        if closing.is_some() { RETRY_SOON } else { RETRY_LATER }
    }

    /// Logs why connections are being closed, once for each shortage.
    pub fn log(&self, why: &dyn Display, closing: usize) {
        let before = self.short.lock()[usize::from(closing > 0)].replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() > EPISODE) {
            match closing {
                0 => warn!("{why}, and no connection is idle"),
                _ => warn!(closing, "{why}: idle connections are closed, the oldest first"),
            }
        }
    }
}

impl std::fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Descriptors")
    }
}

/// Returns whether the process or the system is out of descriptors: EMFILE and ENFILE have these numbers on every Unix.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Idle(AtomicUsize);

    impl ConnectionHolder for Idle {
        fn close_idle(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    #[test]
    fn a_holder_closes_connections_only_if_those_before_it_have_none_that_are_idle() {
        let holders = [3, 2].map(|idle| Arc::new(Idle(AtomicUsize::new(idle))));
        let descriptors = Descriptors::default();
        holders.iter().for_each(|holder| descriptors.add(holder));
        let left = || [0, 1].map(|holder: usize| holders[holder].0.load(Ordering::Relaxed));
        assert_eq!((descriptors.make_room(&"none"), left()), (RETRY_SOON, [0, 2]));
        assert_eq!((descriptors.make_room(&"none"), left()), (RETRY_SOON, [0, 0]));
        assert_eq!(descriptors.make_room(&"none"), RETRY_LATER);
    }
}
