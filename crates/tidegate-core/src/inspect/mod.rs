//! Views of the engine's state.

pub(crate) mod outlook;
pub(crate) mod route;
pub(crate) mod status;
