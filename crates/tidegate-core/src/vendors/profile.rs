//! Profiles that users write: what is peculiar to an upstream that the table does not know.
//!
//! In the config they stand under `[profiles.<name>]`; `docs/vendors.md` has every key, and the config's parser
//! reads them. A profile starts from a row of the table (`base`, by default the generic one) and only says what
//! differs.
//!
//! A profile may have the name of a vendor of the table. Wherever that name is used it then stands before the
//! vendor's own row, which only `base` still means: `[profiles.openai] base = "openai"` corrects what the table
//! says of OpenAI, for every service with that preset.

use std::collections::BTreeMap;

use super::{Meaning, Vendor, ZeroLimit, generic};
use crate::vendors::kind::Kind;
use crate::vendors::reset::ResetForm;
use crate::vendors::verdict::Verdict;

/// The profiles of a config file, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles {
    profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// The profile of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// The names of all profiles.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// The profile one of whose signs is among these header names.
    pub fn recognise<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Option<(&str, &Profile)> {
        names.find_map(|name| {
            let mut all = self.profiles.iter();
            all.find(|(_, profile)| profile.signs.iter().any(|sign| matches(sign, name)))
                .map(|(key, profile)| (key.as_str(), profile))
        })
    }
}

impl FromIterator<(String, Profile)> for Profiles {
    fn from_iter<I: IntoIterator<Item = (String, Profile)>>(profiles: I) -> Self {
        Profiles { profiles: profiles.into_iter().collect() }
    }
}

/// One profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The row of the table it starts from.
    pub base: &'static Vendor,
    /// Header names (or beginnings, with a `*`) that show a reply is this upstream's.
    pub signs: Vec<String>,
    /// How bare numbers in reset headers are meant.
    pub reset: Option<ResetForm>,
    /// Added to resets before they are trusted.
    pub reset_margin_ms: Option<u64>,
    /// What a limit of zero means.
    pub zero_limit: Option<ZeroLimit>,
    /// Whether a retry hint on a successful status means that the call was refused.
    pub hint_on_success_refuses: Option<bool>,
    /// The windows of limits by kind, where the headers do not tell.
    pub windows: Vec<(Kind, u64)>,
    /// What headers mean.
    pub headers: Vec<(String, Meaning)>,
    /// What errors mean; the first that matches decides.
    pub errors: Vec<ProfileErrorRule>,
}

/// What an error means, as a profile says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileErrorRule {
    /// The status, if it matters.
    pub status: Option<u16>,
    /// The error code, if it matters; a `*` at either end stands for whatever is there.
    pub code: Option<String>,
    /// A phrase of the message, if it matters.
    pub phrase: Option<String>,
    /// What it means.
    pub verdict: Verdict,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            base: generic(),
            signs: Vec::new(),
            reset: None,
            reset_margin_ms: None,
            zero_limit: None,
            hint_on_success_refuses: None,
            windows: Vec::new(),
            headers: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.base.name == other.base.name
            && self.signs == other.signs
            && self.reset == other.reset
            && self.reset_margin_ms == other.reset_margin_ms
            && self.zero_limit == other.zero_limit
            && self.hint_on_success_refuses == other.hint_on_success_refuses
            && self.windows == other.windows
            && self.headers == other.headers
            && self.errors == other.errors
    }
}

/// A vendor's row, and a profile over it: what the reader looks through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lens<'p> {
    pub(crate) vendor: &'static Vendor,
    pub(crate) profile: Option<&'p Profile>,
}

impl Lens<'_> {
    pub(crate) fn reset(&self) -> ResetForm {
        self.profile.and_then(|profile| profile.reset).unwrap_or(self.vendor.reset)
    }

    pub(crate) fn reset_margin_ms(&self) -> u64 {
        self.profile.and_then(|profile| profile.reset_margin_ms).unwrap_or(self.vendor.reset_margin_ms)
    }

    pub(crate) fn zero_limit(&self) -> ZeroLimit {
        self.profile.and_then(|profile| profile.zero_limit).unwrap_or(self.vendor.quirks.zero_limit)
    }

    pub(crate) fn hint_on_success_refuses(&self) -> bool {
        self.profile
            .and_then(|profile| profile.hint_on_success_refuses)
            .unwrap_or(self.vendor.quirks.hint_on_success_refuses)
    }

    pub(crate) fn window_ms(&self, kind: &Kind) -> Option<u64> {
        let own = self.profile.map_or(&[][..], |profile| &profile.windows);
        own.iter().chain(self.vendor.windows).find(|(of, _)| of == kind).map(|(_, ms)| *ms)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&Meaning> {
        let profile = self.profile?;
        profile.headers.iter().find(|(pattern, _)| matches(pattern, name)).map(|(_, meaning)| meaning)
    }
}

/// Whether a header's name fits a pattern that may end in `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)),
        None => name.eq_ignore_ascii_case(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_only_what_differs() {
        let profiles = Profiles::parse(
            r#"
            listen = "127.0.0.1:8429"
            [profiles.prices]
            reset = "milliseconds"
            signs = ["x-prices-*"]
            windows = { requests = "1h" }
            [[profiles.prices.headers]]
            header = "X-Credits-Left"
            gives = "remaining"
            kind = "credits"
            window = "1d"
            [[profiles.prices.errors]]
            status = 403
            code = "gone"
            verdict = "quota_exhausted"
            "#,
            "tidegate.toml",
        )
        .unwrap();
        let profile = profiles.get("prices").unwrap();
        assert_eq!(profile.reset, Some(ResetForm::Millis));
        assert_eq!(profile.base.name, "generic");
        assert_eq!(profile.errors[0].verdict, Verdict::QuotaExhausted);
        let lens = Lens { vendor: profile.base, profile: Some(profile) };
        assert!(lens.header("x-credits-left").is_some());
        assert_eq!(lens.window_ms(&Kind::Requests), Some(3_600_000));
        let found = profiles.recognise(["date", "X-Prices-Id"].into_iter());
        assert_eq!(found.map(|(name, _)| name), Some("prices"));
    }
}
