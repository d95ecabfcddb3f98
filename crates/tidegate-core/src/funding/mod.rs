//! Funding: the units that a lender must grant before limits may spend them.

pub(crate) mod book;
pub(crate) mod durations;
pub(crate) mod loans;
pub(crate) mod restore;
