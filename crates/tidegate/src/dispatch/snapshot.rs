//! How a dispatch stands.

use std::time::Duration;

use tidegate_core::{Engine, Nanos};

use super::settings::SERVICE;

/// A [`Dispatch`](super::Dispatch) at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchSnapshot {
    /// Whether calls go throttled: the window is open, or it was not long ago.
    pub backoff_active: bool,
    /// How long calls still go throttled, if nobody sets the window again.
    pub backoff_left: Duration,
    /// How long the window is still open; the rest of `backoff_left` is the time after it.
    pub window_left: Duration,
    /// Calls in flight.
    pub concurrency: Layer,
    /// Calls in flight that went throttled.
    pub throttled_concurrency: Layer,
    /// Bytes in flight, as they count. They may be more than the limit: a call goes if what is in flight before
    /// it is not.
    pub bytes: Layer,
}

/// One layer of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer {
    /// What is in flight.
    pub in_use: u64,
    /// What may be.
    pub limit: u64,
    /// How many calls wait because of it.
    pub waiting: usize,
}

impl DispatchSnapshot {
    pub(super) fn of(engine: &mut Engine, now: Nanos) -> DispatchSnapshot {
        let backoff = engine.backoffs(now).into_iter().find(|backoff| *backoff.key == *SERVICE);
        let (window_left, backoff_left) =
            backoff.map_or_else(Default::default, |backoff| (backoff.open_for, backoff.throttled_for));
        DispatchSnapshot {
            backoff_active: !backoff_left.is_zero(),
            backoff_left,
            window_left,
            concurrency: Layer::of("concurrency", engine, now),
            throttled_concurrency: Layer::of("throttled_concurrency", engine, now),
            bytes: Layer::of("byte_budget", engine, now),
        }
    }
}

impl Layer {
    fn of(name: &str, engine: &mut Engine, now: Nanos) -> Layer {
        let limit = engine.limit(&format!("{SERVICE}/{name}"), now);
        limit.map_or_else(Layer::default, |limit| Layer {
            in_use: limit.used,
            limit: limit.capacity,
            waiting: limit.waiting,
        })
    }
}
