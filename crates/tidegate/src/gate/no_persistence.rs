//! The persistence of a gate that is built without the feature `sqlite`: there is none.

use parking_lot::Mutex;
use tidegate_core::Outputs;
use tidegate_core::{Engine, Nanos};

/// No value of this type exists.
#[derive(Debug)]
pub(crate) enum Persistence {}

impl Persistence {
    pub fn request_writes(&self, _engine: &mut Engine) {
        match *self {}
    }

    pub fn refuses_to_wait(&self) -> bool {
        match *self {}
    }

    pub fn facts_due(&self, _outputs: &Mutex<Outputs>, _last: bool) {
        match *self {}
    }

    pub fn leave(&self, _engine: &mut Engine, _now: Nanos, _facts: ()) {
        match *self {}
    }
}
