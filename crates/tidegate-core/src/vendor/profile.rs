//! Profiles that users write: what is peculiar to an upstream that the table does not know.
//!
//! In the config they stand under `[profiles.<name>]`; `docs/vendors.md` has every key. A profile starts from
//! a row of the table (`base`, by default the generic one) and only says what differs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::{FieldOf, Meaning, RetryUnit, Vendor, ZeroLimit, by_name, generic};
use crate::reply::words::period_ms;
use crate::reply::{Field, Kind, ResetForm, Verdict};

/// The profiles of a config file, by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Profiles {
    profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads the `[profiles]` table of a config file and passes over everything else in it.
    ///
    /// # Errors
    /// If the text is not TOML or a profile is not right; the error knows the line and column.
    pub fn from_toml(text: &str) -> Result<Profiles, toml::de::Error> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            profiles: Profiles,
        }
        toml::from_str::<File>(text).map(|file| file.profiles)
    }

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
        self.profile.and_then(|profile| profile.zero_limit).unwrap_or(self.vendor.zero_limit)
    }

    pub(crate) fn hint_on_success_refuses(&self) -> bool {
        self.profile
            .and_then(|profile| profile.hint_on_success_refuses)
            .unwrap_or(self.vendor.hint_on_success_refuses)
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

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawProfile::deserialize(deserializer)?;
        Ok(Profile {
            base: raw.base.map_or_else(generic, |base| base.0),
            signs: raw.signs,
            reset: raw.reset.map(|reset| reset.0),
            reset_margin_ms: raw.reset_margin.map(|margin| margin.0),
            zero_limit: raw.zero_limit.map(|zero| zero.0),
            hint_on_success_refuses: raw.hint_on_success_refuses,
            windows: raw.windows.into_iter().map(|(kind, ms)| (Kind::from_name(&kind), ms.0)).collect(),
            headers: raw.headers.into_iter().map(RawHeader::meaning).collect(),
            errors: raw.errors.into_iter().map(|rule| rule.0).collect(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProfile {
    base: Option<BaseName>,
    #[serde(default)]
    signs: Vec<String>,
    reset: Option<ResetName>,
    reset_margin: Option<Span>,
    zero_limit: Option<ZeroName>,
    hint_on_success_refuses: Option<bool>,
    #[serde(default)]
    windows: BTreeMap<String, Span>,
    #[serde(default)]
    headers: Vec<RawHeader>,
    #[serde(default)]
    errors: Vec<RawError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHeader {
    header: String,
    gives: Gives,
    kind: Option<String>,
    name: Option<String>,
    window: Option<Span>,
}

impl RawHeader {
    fn meaning(self) -> (String, Meaning) {
        let of = |field| FieldOf {
            field,
            kind: self.kind.as_deref().map_or(Kind::Requests, Kind::from_name),
            window_ms: self.window.as_ref().map(|window| window.0),
            name: self.name.clone().map(Cow::Owned),
        };
        let meaning = match self.gives {
            Gives::Field(field) => Meaning::Field(of(field)),
            Gives::UsedOfLimit => Meaning::UsedOfLimit(of(Field::Used)),
            Gives::Other(meaning) => meaning,
        };
        (self.header.to_ascii_lowercase(), meaning)
    }
}

enum Gives {
    Field(Field),
    UsedOfLimit,
    Other(Meaning),
}

impl<'de> Deserialize<'de> for Gives {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(match name.as_str() {
            "limit" => Gives::Field(Field::Limit),
            "remaining" => Gives::Field(Field::Remaining),
            "used" => Gives::Field(Field::Used),
            "reset" => Gives::Field(Field::Reset),
            "reset-after" => Gives::Field(Field::ResetAfter),
            "cost" => Gives::Field(Field::Cost),
            "utilization" => Gives::Field(Field::Utilization),
            "window-seconds" => Gives::Field(Field::WindowSeconds),
            "window-milliseconds" => Gives::Field(Field::WindowMillis),
            "name" => Gives::Field(Field::Name),
            "used/limit" => Gives::UsedOfLimit,
            "retry-after" => Gives::Other(Meaning::RetryAfter(RetryUnit::Standard)),
            "retry-after-milliseconds" => Gives::Other(Meaning::RetryAfter(RetryUnit::Millis)),
            "should-retry" => Gives::Other(Meaning::ShouldRetry),
            "error-code" => Gives::Other(Meaning::ErrorCode),
            other => {
                return Err(D::Error::custom(format!(
                    "a header cannot give `{other}`: use one of limit, remaining, used, used/limit, reset, \
                     reset-after, cost, utilization, window-seconds, window-milliseconds, name, retry-after, \
                     retry-after-milliseconds, should-retry, error-code"
                )));
            }
        })
    }
}

struct RawError(ProfileErrorRule);

impl<'de> Deserialize<'de> for RawError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            status: Option<u16>,
            code: Option<String>,
            phrase: Option<String>,
            verdict: VerdictName,
        }
        let fields = Fields::deserialize(deserializer)?;
        if fields.status.is_none() && fields.code.is_none() && fields.phrase.is_none() {
            return Err(D::Error::custom(
                "this error would match every reply: give it a status, a code or a phrase",
            ));
        }
        Ok(RawError(ProfileErrorRule {
            status: fields.status,
            code: fields.code,
            phrase: fields.phrase.map(|phrase| phrase.to_lowercase()),
            verdict: fields.verdict.0,
        }))
    }
}

/// A value that is one of a few names; the error lists them.
macro_rules! named_value {
    ($name:ident, $of:ty, $what:literal, $read:expr) => {
        struct $name($of);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'_, str>::deserialize(deserializer)?;
                let read: fn(&str) -> Option<$of> = $read;
                read(&text).map($name).ok_or_else(|| D::Error::custom(format!(concat!("`{}` ", $what), text)))
            }
        }
    };
}

named_value!(
    BaseName,
    &'static Vendor,
    "is not a vendor that tidegate knows: leave `base` out to start from the generic one",
    by_name
);
named_value!(
    ResetName,
    ResetForm,
    "is not a form of reset: use one of auto, seconds, milliseconds, epoch-seconds, epoch-milliseconds",
    ResetForm::from_name
);
named_value!(
    Span,
    u64,
    "is not a length of time: write it as \"250ms\", \"10s\", \"1m\", \"2h\" or \"1d\"",
    |text| { period_ms(text) }
);
named_value!(
    ZeroName,
    ZeroLimit,
    "is not what a limit of zero can mean: use one of rate_limited, quota_exhausted, concurrency_limited",
    |text| match text {
        "rate_limited" => Some(ZeroLimit::PushBack),
        "quota_exhausted" => Some(ZeroLimit::NotInPlan),
        "concurrency_limited" => Some(ZeroLimit::Concurrency),
        _ => None,
    }
);
named_value!(
    VerdictName,
    Verdict,
    "is not a verdict: use one of ok, rate_limited, overloaded, concurrency_limited, quota_exhausted",
    Verdict::from_name
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_only_what_differs() {
        let profiles = Profiles::from_toml(
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

    #[test]
    fn a_mistake_is_shown_where_it_is() {
        let wrong = [
            ("[profiles.a]\nresets = \"auto\"", "unknown field `resets`"),
            ("[profiles.a]\nreset = \"soon\"", "`soon` is not a form of reset"),
            ("[profiles.a]\nbase = \"nobody\"", "`nobody` is not a vendor"),
            ("[profiles.a]\nwindows = { requests = \"long\" }", "`long` is not a length of time"),
            ("[[profiles.a.headers]]\nheader = \"x\"\ngives = \"joy\"", "a header cannot give `joy`"),
            ("[[profiles.a.errors]]\nverdict = \"ok\"", "would match every reply"),
        ];
        for (text, message) in wrong {
            let error = Profiles::from_toml(text).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.span().is_some(), "{error}");
        }
    }
}
