//! The vendor table: how each upstream writes what it says, and how it counts.
//!
//! A vendor is one file of plain data in `table/`, and the reader is the same for all. The generic row alone is enough
//! to read most headers; a vendor's own row holds what is peculiar to it. Rules about headers and error codes that no
//! other vendor uses apply to every reply, so most replies are read correctly without the vendor's name. Users add
//! their own upstreams as a [`Profile`] in the config. `docs/vendors.md` says how to add a vendor.

mod counting;
mod index;
pub(crate) mod kind;
pub(crate) mod preset;
mod profile;
mod repeatable;
pub(crate) mod reset;
mod rule;
mod table;
pub(crate) mod usage;
mod vendor;
pub(crate) mod verdict;
pub(crate) mod words;

pub use counting::{Admission, Charge, Counting, Estimate};
pub use profile::{Profile, ProfileErrorRule, Profiles};
pub use rule::{ErrorRule, FamilyOf, FieldOf, HeaderRule, Meaning, RetryUnit, Scope, Sign, ZeroLimit};
pub use table::{all, by_name, generic};
pub use vendor::{Dialect, ErrorShape, Quirks, Vendor};

pub(crate) use index::{Hit, MAX_NAME, index};
pub(crate) use profile::Lens;
