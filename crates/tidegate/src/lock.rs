//! A lock, as far as what is checked by a model checker needs one: there it is the checker's own.

use parking_lot::Mutex;

/// A lock around something.
pub(crate) trait Lock<S>: Default {
    fn with<T>(&self, work: impl FnOnce(&mut S) -> T) -> T;
}

impl<S: Default> Lock<S> for Mutex<S> {
    fn with<T>(&self, work: impl FnOnce(&mut S) -> T) -> T {
        work(&mut self.lock())
    }
}

#[cfg(test)]
impl<S: Default> Lock<S> for shuttle::sync::Mutex<S> {
    fn with<T>(&self, work: impl FnOnce(&mut S) -> T) -> T {
        work(&mut self.lock().unwrap())
    }
}
