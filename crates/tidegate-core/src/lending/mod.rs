//! Lending: snapshots for the lender that keeps them.

pub(crate) mod facts;
pub(crate) mod pages;
