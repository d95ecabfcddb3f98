//! Open files: every connection is one, and the system gives a process only so many.
//!
//! When it gives no more (EMFILE, ENFILE), idle connections are closed, and the part that needed the file tries again. Those to
//! upstreams go first: no client notices, and each upstream loses the one that has been idle for longest. Connections of
//! clients go if no upstream has an idle one.

use std::fmt::Display;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tracing::warn;

/// How long to wait for a file if no connection is idle.
pub(crate) const RECOVER: Duration = Duration::from_millis(100);
/// The same if idle connections are being closed.
const SOON: Duration = Duration::from_millis(5);
/// A shortage that ended so long ago is told again when it comes back.
const EPISODE: Duration = Duration::from_secs(60);

/// Something that has connections, some of them idle.
pub(crate) trait Holder: Send + Sync {
    /// Closes connections that have been idle for longest. Returns how many are being closed.
    fn close_idle(&self) -> usize;
}

/// All that have connections, in the order in which they close idle ones.
#[derive(Default)]
pub(crate) struct Files {
    holders: RwLock<Vec<Weak<dyn Holder>>>,
    /// When a shortage was last seen: one in which no connection was idle, and one in which some were.
    short: Mutex<[Option<Instant>; 2]>,
}

impl Files {
    /// Adds a holder behind all others.
    pub fn add<H: Holder + 'static>(&self, holder: &Arc<H>) {
        let holder: Weak<H> = Arc::downgrade(holder);
        self.holders.write().push(holder);
    }

    /// Closes idle connections of the first holder that has some, because there was no file. Returns after how long there
    /// may be one.
    pub fn make_room(&self, why: &dyn Display) -> Duration {
        let holders: Vec<Arc<dyn Holder>> = self.holders.read().iter().filter_map(Weak::upgrade).collect();
        let closing = holders.iter().map(|holder| holder.close_idle()).find(|closing| *closing > 0);
        self.tell(why, closing.unwrap_or(0));
        if closing.is_some() { SOON } else { RECOVER }
    }

    /// Logs why connections are being closed, once for each shortage.
    pub fn tell(&self, why: &dyn Display, closing: usize) {
        let before = self.short.lock()[usize::from(closing > 0)].replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() > EPISODE) {
            match closing {
                0 => warn!("{why}, and no connection is idle"),
                _ => warn!(closing, "{why}: idle connections are closed, the oldest first"),
            }
        }
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Files")
    }
}

/// Whether the process or the system has no file left: EMFILE and ENFILE, which are these numbers on every Unix.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Idle(AtomicUsize);

    impl Holder for Idle {
        fn close_idle(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    #[test]
    fn a_holder_closes_connections_only_if_those_before_it_have_none_that_are_idle() {
        let holders = [3, 2].map(|idle| Arc::new(Idle(AtomicUsize::new(idle))));
        let files = Files::default();
        holders.iter().for_each(|holder| files.add(holder));
        let left = || [0, 1].map(|holder: usize| holders[holder].0.load(Ordering::Relaxed));
        assert_eq!((files.make_room(&"none"), left()), (SOON, [0, 2]));
        assert_eq!((files.make_room(&"none"), left()), (SOON, [0, 0]));
        assert_eq!(files.make_room(&"none"), RECOVER);
    }
}
