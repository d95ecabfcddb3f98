//! The vendor table: how each upstream writes what it says, and how it counts.
//!
//! A vendor is one row of plain data, and the reader is the same for all. Most headers are understood by the
//! generic row alone; a vendor's own row holds what is peculiar to it. Rules about headers and error codes
//! that nobody else uses hold whoever the vendor is, so most replies are read correctly without its name.
//! To add a vendor, add a row here and its replies to `tests/vectors`; users add theirs as a [`Profile`] in
//! the config. `docs/vendors.md` tells how.

mod counting;
mod gateways;
mod generic;
mod index;
pub(crate) mod kind;
mod llm;
mod profile;
pub(crate) mod reset;
mod rule;
pub(crate) mod usage;
pub(crate) mod verdict;
mod web;
pub(crate) mod words;

pub use counting::{Admission, Charge, Counting, Estimate};
pub use profile::{Profile, ProfileErrorRule, Profiles};
pub use rule::{ErrorRule, FamilyOf, FieldOf, HeaderRule, Meaning, RetryUnit, Scope, Sign, ZeroLimit};

pub(crate) use index::{Hit, MAX_NAME, index};
pub(crate) use profile::Lens;

use crate::vendors::kind::Kind;
use crate::vendors::reset::ResetForm;

/// One vendor.
#[derive(Debug)]
pub struct Vendor {
    /// The name that `--vendor` and presets use.
    pub name: &'static str,
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// Headers that show a reply is its.
    pub signs: &'static [Sign],
    /// Its own sites, in lower case: an error message that names one is its, if no header shows another.
    pub sites: &'static [&'static str],
    /// What its own headers mean.
    pub headers: &'static [HeaderRule],
    /// How bare numbers in its reset headers are meant.
    pub reset: ResetForm,
    /// Added to its resets before they are trusted.
    pub reset_margin_ms: u64,
    /// The windows of its limits, where they are always the same.
    pub windows: &'static [(Kind, u64)],
    /// What a limit of zero means.
    pub zero_limit: ZeroLimit,
    /// Whether a retry hint on a successful status means that the call was refused.
    pub hint_on_success_refuses: bool,
    /// Names of limits that count points: a part of the name.
    pub points: &'static [&'static str],
    /// What its errors mean; the first that matches decides.
    pub errors: &'static [ErrorRule],
    /// What its limits are counted by.
    pub scope: &'static [Scope],
    /// How it counts tokens.
    pub counting: Counting,
    /// Where the facts come from, and of when they are.
    pub source: &'static str,
}

impl Vendor {
    /// Whether it may refuse a call inside a stream that began with a status of 200.
    #[must_use]
    pub fn refuses_in_streams(&self) -> bool {
        // Azure's Responses, and a gateway that has answered before it has asked.
        self.hint_on_success_refuses || self.name == "openrouter"
    }
}

/// The vendors, those first whose signs outweigh the others'.
static TABLE: &[&[Vendor]] = &[gateways::ROWS, llm::ROWS, web::ROWS, generic::ROWS];

/// All vendors of the table.
pub fn all() -> impl Iterator<Item = &'static Vendor> {
    TABLE.iter().flat_map(|rows| rows.iter())
}

/// The vendor of that name, without regard to case. Shared conventions may be named too (`ietf-draft-07`,
/// `generic-kong`): they are all read by the generic row.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Vendor> {
    let called = |known: &&str| known.eq_ignore_ascii_case(name);
    let known = all().find(|vendor| called(&vendor.name) || vendor.aliases.iter().any(called));
    let shared =
        |family: &str| name.get(..family.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(family));
    known.or_else(|| (shared("generic-") || shared("ietf-")).then(generic))
}

/// The row that stands for everybody else.
#[must_use]
pub fn generic() -> &'static Vendor {
    &generic::ROWS[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendor_has_one_name_of_its_own_and_says_where_its_facts_are_from() {
        let mut seen = std::collections::HashSet::new();
        for vendor in all() {
            for name in std::iter::once(&vendor.name).chain(vendor.aliases) {
                assert!(seen.insert(name.to_ascii_lowercase()), "{name} is taken twice");
                assert_eq!(by_name(name).unwrap().name, vendor.name);
            }
            assert!(vendor.source.contains("20"), "{} names no source with its date", vendor.name);
        }
        assert_eq!(by_name("GitHub").unwrap().name, "github");
        assert_eq!(by_name("ietf-draft-08..11").unwrap().name, "generic");
        assert_eq!(by_name("generic-gravitee").unwrap().name, "generic-gravitee");
        assert!(by_name("nobody").is_none());
    }
}
