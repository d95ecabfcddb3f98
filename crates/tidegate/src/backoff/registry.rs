//! Windows by key: found without a lock, made when first asked for, forgotten when nobody needs them.
//!
//! The map holds windows weakly and the [shelf](super::shelf) holds some of them fast, so there is never a
//! second window for a key while the first is held by anybody or is open. What can interleave:
//!
//! * *Two ask for a key that is not there.* Both make a window, the map takes one, atomically, and both get
//!   that.
//! * *The last handle goes while somebody asks.* Turning the weak reference into a handle is one atomic step.
//!   It succeeds and the window lives on, or it fails and the window was not needed by anybody: nobody held
//!   it, and it was not open.
//! * *A window is opened while the shelf lets it go.* `set` raises the deadline first and puts the window on
//!   the shelf after, under the shelf's lock; under that lock the shelf looks at the deadline. So the shelf
//!   sees the raised deadline, or `set` finds the window gone from the shelf and puts it back. `set` has a
//!   handle meanwhile.
//! * *A window goes and its key is taken anew.* A key is taken out of the map only if what is there is dead.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use papaya::{Compute, HashMap, Operation};
use parking_lot::Mutex;
use tidegate_core::Nanos;

use super::BackoffWindow;
use super::key::Key;
use super::process_clock;
use super::shelf::{Shelf, Shelved};
use super::window::Window;

/// So many windows are kept beside those that somebody holds and those that are open.
const LATEST: usize = 1024;

/// A group of backoff windows: one key in two registries is two windows.
///
/// Clones are the same registry. Keys that nobody holds and whose window is not open are forgotten in time;
/// that cannot be seen from the outside, and so any number of keys may be used.
///
/// ```
/// use tidegate::{BackoffWindow, Registry};
/// use std::time::Duration;
///
/// let registry = Registry::named("my_rate_limiters");
/// registry.for_key("stripe_api").set(Duration::from_secs(30));
/// assert!(Registry::named("my_rate_limiters").for_key("stripe_api").should_backoff());
/// assert!(!Registry::new().for_key("stripe_api").should_backoff());
/// assert!(!BackoffWindow::for_key("stripe_api").should_backoff());
/// ```
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    name: Option<Key>,
    windows: HashMap<Key, Weak<Member>>,
    shelf: Mutex<Shelf<Member>>,
    /// Keys whose windows are gone, to be taken out of the map when the next one is put in.
    dead: Mutex<Vec<Key>>,
}

/// A window and where it belongs.
pub(super) struct Member {
    pub key: Key,
    pub window: Window,
    registry: Weak<Shared>,
    on_shelf: AtomicBool,
}

impl Registry {
    /// A registry of its own.
    #[must_use]
    pub fn new() -> Registry {
        Registry::with(None, LATEST)
    }

    /// The registry of that name: the same one wherever in the process it is asked for. It is never
    /// forgotten.
    #[must_use]
    pub fn named(name: impl Into<Key>) -> Registry {
        static NAMED: LazyLock<HashMap<Key, Registry>> = LazyLock::new(HashMap::new);
        let name = name.into();
        NAMED.pin().get_or_insert_with(name.clone(), || Registry::with(Some(name.clone()), LATEST)).clone()
    }

    /// The registry that [`BackoffWindow::for_key`] uses.
    #[must_use]
    pub fn of_process() -> &'static Registry {
        static DEFAULT: LazyLock<Registry> = LazyLock::new(Registry::new);
        &DEFAULT
    }

    /// The window of that key: the same one for everybody who asks for it here.
    ///
    /// ```
    /// use tidegate::Registry;
    ///
    /// let registry = Registry::new();
    /// assert_eq!(registry.for_key(7), registry.for_key(7));
    /// assert_ne!(registry.for_key(7), registry.for_key(8));
    /// ```
    #[must_use]
    pub fn for_key(&self, key: impl Into<Key>) -> BackoffWindow {
        let key = key.into();
        let found = self.0.windows.pin().get(&key).and_then(Weak::upgrade);
        BackoffWindow(found.unwrap_or_else(|| self.make(key)))
    }

    /// The name it was asked for by, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&Key> {
        self.0.name.as_ref()
    }

    fn with(name: Option<Key>, latest: usize) -> Registry {
        let shelf = Mutex::new(Shelf::new(latest));
        Registry(Arc::new(Shared { name, windows: HashMap::new(), shelf, dead: Mutex::default() }))
    }

    fn make(&self, key: Key) -> Arc<Member> {
        let made = Arc::new(Member {
            key: key.clone(),
            window: Window::default(),
            registry: Arc::downgrade(&self.0),
            on_shelf: AtomicBool::new(false),
        });
        let windows = self.0.windows.pin();
        let entered = windows.compute(key, |entry| match entry.and_then(|(_, known)| known.upgrade()) {
            Some(known) => Operation::Abort(known),
            None => Operation::Insert(Arc::downgrade(&made)),
        });
        if let Compute::Aborted(known) = entered {
            return known;
        }
        self.0.keep(&made);
        self.0.bury();
        made
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("name", &self.0.name).field("keys", &self.0.windows.len()).finish()
    }
}

impl Shared {
    fn keep(&self, member: &Arc<Member>) {
        let gone = self.shelf.lock().keep(member);
        // A member that goes wants the map, and perhaps the last of the registry goes with it: not inside the
        // lock.
        drop(gone);
    }

    /// Takes the keys of two windows that are gone out of the map: two for each that was put in.
    fn bury(&self) {
        let dead = {
            let mut dead = self.dead.lock();
            [dead.pop(), dead.pop()]
        };
        let windows = self.windows.pin();
        for key in dead.into_iter().flatten() {
            let _ = windows.remove_if(&key, |_, known| known.strong_count() == 0);
        }
    }
}

impl Member {
    pub fn set(self: &Arc<Self>, span: Duration, now: Nanos) {
        if !self.window.set(span, now) {
            // Whoever made the window as long as it is keeps it, and tells those who watch.
            return;
        }
        if let Some(registry) = self.registry.upgrade() {
            registry.keep(self);
        }
        self.window.tell();
    }
}

impl Shelved for Member {
    fn is_needed(&self) -> bool {
        process_clock::now() < self.window.deadline()
    }

    fn mark(&self, on_shelf: bool) -> bool {
        // Only ever inside the shelf's lock.
        self.on_shelf.swap(on_shelf, Ordering::Relaxed)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            // The map needs the thread's locals, and this may be one of those that are going with their
            // thread.
            registry.dead.lock().push(self.key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn idle_keys_are_forgotten() {
        let registry = Registry::with(None, 2);
        for key in 0..1_000 {
            let _ = registry.for_key(key);
        }
        assert_eq!(registry.0.windows.len(), 2);
    }

    #[test]
    fn an_open_window_is_remembered_through_a_flood_of_keys() {
        let registry = Registry::with(None, 2);
        registry.for_key("limited").set(HOUR);
        let held = registry.for_key("held");
        for key in 0..1_000 {
            let _ = registry.for_key(key);
        }
        assert!(registry.for_key("limited").should_backoff());
        assert_eq!(registry.for_key("held"), held);
        held.set(HOUR);
        drop(held);
        for key in 0..1_000 {
            let _ = registry.for_key(key);
        }
        assert!(registry.for_key("held").should_backoff(), "opened after the shelf had let it go");
        assert!(registry.0.windows.len() <= 5, "{registry:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn windows_that_have_passed_are_forgotten() {
        let registry = Registry::with(None, 2);
        for key in 0..1_000 {
            registry.for_key(key).set(HOUR);
        }
        assert_eq!(registry.0.windows.len(), 1_000);
        tokio::time::advance(HOUR).await;
        for key in 0..1_000 {
            let _ = registry.for_key(1_000 + key);
        }
        assert_eq!(registry.0.windows.len(), 2);
    }

    #[test]
    fn a_window_outlives_its_registry() {
        let window = Registry::new().for_key("k");
        window.set(HOUR);
        assert!(window.should_backoff());
    }

    /// Whatever a thread's locals are made of, they go in an order of their own.
    #[test]
    fn the_last_handle_may_go_with_its_thread() {
        use std::cell::RefCell;
        thread_local! {
            static HELD: RefCell<Option<BackoffWindow>> = const { RefCell::new(None) };
        }
        let registry = Registry::with(None, 0);
        let shared = registry.clone();
        let thread = std::thread::spawn(move || {
            HELD.with_borrow_mut(|held| *held = None);
            HELD.with_borrow_mut(|held| *held = Some(shared.for_key("k")));
        });
        thread.join().expect("no panic on the way out");
        let _ = registry.for_key("another");
        assert_eq!(registry.0.windows.len(), 1, "{registry:?}");
    }

    /// Threads that open, hold, drop and look up a few keys, with a shelf that lets everything go: whoever
    /// opened a window finds it open, and two who hold a key hold the same window.
    #[test]
    fn threads_never_lose_an_open_window_nor_get_two_for_a_key() {
        let registry = Registry::with(None, 0);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let registry = &registry;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        // Everybody at one key of its own kind, and at shared ones.
                        let shared = round % 3;
                        let (one, other) = (registry.for_key(shared), registry.for_key(shared));
                        assert_eq!(one, other);
                        let own = 1_000 + thread * 5_000 + round;
                        registry.for_key(own).set(HOUR);
                        assert!(registry.for_key(own).should_backoff());
                    }
                });
            }
        });
        for own in 1_000..21_000_u64 {
            assert!(registry.for_key(own).should_backoff(), "{own}");
        }
    }
}
