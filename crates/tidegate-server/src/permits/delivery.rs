//! A granted permit on its way to its caller.
//!
//! The permit counts as delivered once the body of the answer is polled, which is when it is written to the connection. A body
//! that is dropped before that reached no caller: the work will not be done, so the whole cost is refunded.

use std::sync::Arc;

use super::{End, Owner, PermitId, Permits};

/// Cancels a permit when it is dropped, unless the permit was delivered.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// None once it was delivered.
    permit: Option<PermitId>,
    owner: Owner,
    permits: Arc<Permits>,
}

impl Delivery {
    pub fn new(permit: PermitId, owner: Owner, permits: Arc<Permits>) -> Delivery {
        Delivery { permit: Some(permit), owner, permits }
    }

    /// Notes that the answer is being written.
    pub fn delivered(&mut self) {
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
