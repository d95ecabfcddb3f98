//! `[profiles.<name>]`: how an upstream that the vendor table does not know writes its replies.

use std::borrow::Cow;
use std::time::Duration;

use super::keys::{PROFILE, PROFILE_ERROR, PROFILE_HEADER};
use super::walk::{Field, Walk};
use crate::config::hint::{did_you_mean, quoted};
use crate::vendors::kind::Kind;
use crate::vendors::reset::{MAX_MS, ResetForm};
use crate::vendors::verdict::Verdict;
use crate::vendors::words;
use crate::vendors::{
    self, FieldOf, Meaning, Profile, ProfileErrorRule, Profiles, RetryUnit, Vendor, ZeroLimit,
};

/// What a header can give.
#[derive(Clone, Copy)]
enum Gives {
    Field(words::Field),
    UsedOfLimit,
    Retry(RetryUnit),
    ShouldRetry,
    ErrorCode,
}

const GIVES: &[(&str, Gives)] = &[
    ("limit", Gives::Field(words::Field::Limit)),
    ("remaining", Gives::Field(words::Field::Remaining)),
    ("used", Gives::Field(words::Field::Used)),
    ("used/limit", Gives::UsedOfLimit),
    ("reset", Gives::Field(words::Field::Reset)),
    ("reset-after", Gives::Field(words::Field::ResetAfter)),
    ("cost", Gives::Field(words::Field::Cost)),
    ("utilization", Gives::Field(words::Field::Utilization)),
    ("window-seconds", Gives::Field(words::Field::WindowSeconds)),
    ("window-milliseconds", Gives::Field(words::Field::WindowMillis)),
    ("name", Gives::Field(words::Field::Name)),
    ("retry-after", Gives::Retry(RetryUnit::Standard)),
    ("retry-after-milliseconds", Gives::Retry(RetryUnit::Millis)),
    ("should-retry", Gives::ShouldRetry),
    ("error-code", Gives::ErrorCode),
];

const ZERO_LIMITS: [(&str, ZeroLimit); 3] = [
    ("rate_limited", ZeroLimit::PushBack),
    ("quota_exhausted", ZeroLimit::NotInPlan),
    ("concurrency_limited", ZeroLimit::Concurrency),
];

/// What a header can give, by the words for it.
pub(super) fn gives() -> impl Iterator<Item = &'static str> {
    GIVES.iter().map(|(name, _)| *name)
}

/// What a limit of zero can mean, by the words for it.
pub(super) fn zero_limits() -> impl Iterator<Item = &'static str> {
    ZERO_LIMITS.iter().map(|(name, _)| *name)
}

impl Walk<'_> {
    pub(super) fn profiles(&mut self, section: &Field<'_>) -> Profiles {
        let fields = self.table(section);
        fields.iter().map(|field| (field.name.to_owned(), self.profile(field))).collect()
    }

    fn profile(&mut self, section: &Field<'_>) -> Profile {
        let mut profile = Profile::default();
        if section.name.is_empty() {
            self.fault(section.key_at, "a profile must have a name", None);
        }
        for field in self.table(section) {
            match field.name {
                "base" => profile.base = self.base(&field).unwrap_or(profile.base),
                "signs" => {
                    for item in self.items(&field, "signs = [\"x-example-*\"]") {
                        profile.signs.extend(self.header_name(&item));
                    }
                }
                "reset" => profile.reset = self.choice(&field, &ResetForm::NAMES),
                "reset_margin" => profile.reset_margin_ms = self.millis(&field),
                "zero_limit" => profile.zero_limit = self.choice(&field, &ZERO_LIMITS),
                "hint_on_success_refuses" => profile.hint_on_success_refuses = self.flag(&field),
                "windows" => {
                    for field in self.table(&field) {
                        let window = self.window(&field).map(|ms| (Kind::from_name(field.name), ms));
                        profile.windows.extend(window);
                    }
                }
                "headers" => {
                    for item in self.items(&field, &format!("[[{}]], with its keys below", field.path)) {
                        profile.headers.extend(self.profile_header(&item));
                    }
                }
                "errors" => {
                    for item in self.items(&field, &format!("[[{}]], with its keys below", field.path)) {
                        profile.errors.extend(self.profile_error(&item));
                    }
                }
                _ => self.unknown_key(&field, &section.path, PROFILE, None),
            }
        }
        profile
    }

    fn base(&mut self, field: &Field<'_>) -> Option<&'static Vendor> {
        let text = self.text(field)?;
        let found = vendors::by_name(&text.value);
        if found.is_none() {
            let hint = did_you_mean(&text.value, vendors::all().map(|vendor| vendor.name))
                .unwrap_or_else(|| "leave `base` out to start from the generic one".into());
            self.fault(
                field.at,
                format!("{} is not a vendor that tidegate knows", quoted(text.written)),
                hint,
            );
        }
        found
    }

    /// `{ header = "x-credits-left", gives = "remaining", kind = "credits", window = "1d", name = "daily" }`
    fn profile_header(&mut self, section: &Field<'_>) -> Option<(String, Meaning)> {
        let example = "{ header = \"x-credits-left\", gives = \"remaining\" }";
        let fields = self.item_table(section, example)?;
        let (mut header, mut gives, mut kind, mut window_ms, mut name) =
            (None, None, Kind::Requests, None, None);
        for field in &fields {
            match field.name {
                "header" => header = self.header_name(field),
                "gives" => gives = self.choice(field, GIVES),
                "kind" => kind = self.string(field).map_or(Kind::Requests, |kind| Kind::from_name(&kind)),
                "window" => window_ms = self.window(field),
                "name" => name = self.string(field).map(Cow::Owned),
                _ => self.unknown_key(field, &section.path, PROFILE_HEADER, None),
            }
        }
        self.must_have(section, &fields, "header", "header = \"x-credits-left\"");
        self.must_have(section, &fields, "gives", "gives = \"remaining\"");
        let of = |field| FieldOf { field, kind, window_ms, name };
        let meaning = match gives? {
            Gives::Field(field) => Meaning::Field(of(field)),
            Gives::UsedOfLimit => Meaning::UsedOfLimit(of(words::Field::Used)),
            Gives::Retry(unit) => Meaning::RetryAfter(unit),
            Gives::ShouldRetry => Meaning::ShouldRetry,
            Gives::ErrorCode => Meaning::ErrorCode,
        };
        Some((header?, meaning))
    }

    /// `{ status = 403, code = "gone", phrase = "out of credits", verdict = "quota_exhausted" }`
    fn profile_error(&mut self, section: &Field<'_>) -> Option<ProfileErrorRule> {
        let fields = self.item_table(section, "{ status = 403, verdict = \"quota_exhausted\" }")?;
        let (mut status, mut code, mut phrase, mut verdict) = (None, None, None, None);
        for field in &fields {
            match field.name {
                "status" => status = self.status(field),
                "code" => code = self.string(field),
                "phrase" => phrase = self.string(field).map(|phrase| phrase.to_lowercase()),
                "verdict" => {
                    verdict = self.choice(field, &Verdict::ALL.map(|verdict| (verdict.name(), verdict)));
                }
                _ => self.unknown_key(field, &section.path, PROFILE_ERROR, None),
            }
        }
        self.must_have(section, &fields, "verdict", "verdict = \"quota_exhausted\"");
        if !fields.iter().any(|field| ["status", "code", "phrase"].contains(&field.name)) {
            let hint = "give it a status, a code or a phrase".to_owned();
            self.fault(section.at, "this error would match every reply", hint);
        }
        Some(ProfileErrorRule { status, code, phrase, verdict: verdict? })
    }

    fn status(&mut self, field: &Field<'_>) -> Option<u16> {
        let number = self.count(field)?;
        let status = u16::try_from(number).ok().filter(|status| (100..=599).contains(status));
        if status.is_none() {
            self.fault(
                field.at,
                format!("{number} is not an HTTP status"),
                "use one from 100 to 599".to_owned(),
            );
        }
        status
    }

    /// The name of a header in lower case, or the beginning of one with a `*` after it.
    fn header_name(&mut self, field: &Field<'_>) -> Option<String> {
        let text = self.text(field)?;
        let name = text.value.strip_suffix('*').unwrap_or(&text.value);
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(is_name) {
            let hint =
                "write it like \"x-credits-left\", or \"x-credits-*\" for all that begin so".to_owned();
            self.fault(field.at, format!("{} is not the name of a header", quoted(text.written)), hint);
            return None;
        }
        Some(text.value.to_ascii_lowercase())
    }

    fn window(&mut self, field: &Field<'_>) -> Option<u64> {
        let ms = self.millis(field)?;
        if ms == 0 {
            self.fault(field.at, "a window of 0 counts nothing", "write it like \"1h\" or \"1d\"".to_owned());
        }
        Some(ms)
    }

    /// Rounded up, and never longer than any time of a reply is taken for.
    fn millis(&mut self, field: &Field<'_>) -> Option<u64> {
        let ms = |time: Duration| u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.duration(field).map(|time| ms(time).min(MAX_MS))
    }
}
