//! A dispatch as its users see it, on paused time.

mod backoff;
mod building;
mod calls;
mod cancel;
mod layers;
