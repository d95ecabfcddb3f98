//! A grant on its way to whoever asked for it.
//!
//! The answer's body is looked at when it is written to the connection. One that is dropped before went to nobody: the
//! work it allows will not be done, so all of it comes back.

use std::sync::Arc;

use http::Response;

use crate::body::Body;
use crate::permits::{End, Owner, PermitId, Permits};

/// A grant on its way.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// None once it was delivered.
    permit: Option<PermitId>,
    owner: Owner,
    permits: Arc<Permits>,
}

impl Delivery {
    pub(super) fn of(permit: PermitId, owner: Owner, permits: Arc<Permits>) -> Delivery {
        Delivery { permit: Some(permit), owner, permits }
    }

    /// The answer that carries it.
    pub(super) fn with(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| match body {
            Body::Own(words) => Body::Grant(words, self),
            other => other,
        })
    }

    /// It is being written.
    pub fn done(&mut self) {
        self.permit = None;
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take()
            && let Ok(permit) = self.permits.take(permit, &self.owner, End::Cancelled)
        {
            permit.cancel();
        }
    }
}
