//! Admission: the fast path of a call, what it reserves while it is in flight, and how it settles.

pub(crate) mod fast_path;
pub(crate) mod resources;
pub(crate) mod settle;
pub(crate) mod spend;
