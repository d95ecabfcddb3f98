//! The parts that a row of the vendor table is made of.

use std::borrow::Cow;

use crate::vendors::kind::Kind;
use crate::vendors::verdict::Verdict;
use crate::vendors::words::Field;

/// What one header, or all that begin alike, mean.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderRule {
    /// The header's name in lower case; a `*` at its end stands for whatever follows.
    pub header: &'static str,
    /// What it says.
    pub meaning: Meaning,
}

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// One field of one limit.
    Field(FieldOf),
    /// The words in place of the `*` say which field, of what kind, over which window.
    Family(FamilyOf),
    /// `used/limit`, as in `32/40`.
    UsedOfLimit(FieldOf),
    /// `name=used/limit`, perhaps several.
    NamedUsedOfLimit(FieldOf),
    /// `total=100; remaining=99; resets=41`, the limit's name in place of the `*`.
    KeyValues(Kind),
    /// A share that was used: the window in place of the `*`, then `-utilization`, `-reset` or `-status`.
    Utilization {
        /// What the windows' names begin with.
        prefix: &'static str,
    },
    /// A structured `RateLimit` field (drafts 07 and later).
    RateLimit,
    /// A structured `RateLimit-Policy` field (drafts 04 and later).
    RateLimitPolicy,
    /// When to come back.
    RetryAfter(RetryUnit),
    /// `true` or `false`: whether to retry at all.
    ShouldRetry,
    /// A word that names the error, as codes in bodies do.
    ErrorCode,
    /// What the plain limits of the reply are called, and an error code at the same time.
    Reason,
    /// How many tokens went in.
    InputTokens,
    /// How many tokens came out.
    OutputTokens,
    /// When the reply was made.
    Date,
    /// How long the reply was in a cache.
    Age,
}

/// Which limit a header is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldOf {
    /// Which of its properties.
    pub field: Field,
    /// What it counts.
    pub kind: Kind,
    /// Its window, if the header's meaning includes one.
    pub window_ms: Option<u64>,
    /// What it is called.
    pub name: Option<Cow<'static, str>>,
}

/// What all headers of a family have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FamilyOf {
    /// What they count if their names do not say.
    pub kind: Kind,
    /// What their limit is called, before the words of the name.
    pub name: Option<Cow<'static, str>>,
}

/// The unit of a retry header; their order is their precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryUnit {
    /// Milliseconds: the most precise word there is.
    Millis,
    /// Milliseconds, in a header that only stands in for the first.
    OtherMillis,
    /// RFC 9110: seconds or a date.
    Standard,
    /// Seconds or a date, in a header that only stands in for the standard one.
    OtherSeconds,
}

/// A header that shows who sent the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The header's name in lower case; a `*` at its end stands for whatever follows.
    pub header: &'static str,
    /// What its value must begin with, in lower case; after a `*`, what it must contain.
    pub value: Option<&'static str>,
}

/// A status, error code or phrase, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRule {
    /// The statuses it is about; none means any.
    pub status: &'static [u16],
    /// Error codes, compared without regard to case. A `*` at either end stands for whatever is there.
    pub codes: &'static [&'static str],
    /// Phrases of the message, in lower case.
    pub phrases: &'static [&'static str],
    /// What it means.
    pub verdict: Verdict,
    /// Whether the code or phrase is unmistakable, so that the rule holds whoever the vendor is.
    pub anywhere: bool,
}

/// What a limit of zero on a refused call means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroLimit {
    /// Nothing in particular: the upstream pushes back.
    #[default]
    PushBack,
    /// The plan does not include this.
    NotInPlan,
    /// With nothing remaining either: too many calls at once.
    Concurrency,
}

/// What a limit is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The API key or token.
    Key,
    /// The user.
    User,
    /// The app or client.
    App,
    /// The account, organisation or team.
    Organization,
    /// The project or workspace.
    Project,
    /// The shop, site or tenant that is called.
    Tenant,
    /// The model, or its class.
    Model,
    /// The region or deployment.
    Deployment,
    /// The endpoint or method.
    Endpoint,
    /// The bucket or resource that the reply names.
    Bucket,
    /// The caller's address.
    Address,
}

impl Scope {
    /// How it is called in text for a person.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scope::Key => "API key",
            Scope::User => "user",
            Scope::App => "app",
            Scope::Organization => "organisation",
            Scope::Project => "project",
            Scope::Tenant => "tenant",
            Scope::Model => "model",
            Scope::Deployment => "deployment",
            Scope::Endpoint => "endpoint",
            Scope::Bucket => "bucket",
            Scope::Address => "address",
        }
    }
}

// The functions below only make the table's rows short enough to be read as a table.

pub(super) const fn rule(header: &'static str, meaning: Meaning) -> HeaderRule {
    HeaderRule { header, meaning }
}

pub(super) const fn field(header: &'static str, field: Field, kind: Kind) -> HeaderRule {
    rule(header, Meaning::Field(FieldOf { field, kind, window_ms: None, name: None }))
}

pub(super) const fn named(
    header: &'static str,
    field: Field,
    kind: Kind,
    name: &'static str,
    window_ms: Option<u64>,
) -> HeaderRule {
    rule(header, Meaning::Field(FieldOf { field, kind, window_ms, name: Some(Cow::Borrowed(name)) }))
}

pub(super) const fn family(header: &'static str, kind: Kind) -> HeaderRule {
    rule(header, Meaning::Family(FamilyOf { kind, name: None }))
}

pub(super) const fn named_family(header: &'static str, kind: Kind, name: &'static str) -> HeaderRule {
    let name = Some(Cow::Borrowed(name));
    rule(header, Meaning::Family(FamilyOf { kind, name }))
}

pub(super) const fn sign(header: &'static str) -> Sign {
    Sign { header, value: None }
}

pub(super) const fn sign_value(header: &'static str, value: &'static str) -> Sign {
    Sign { header, value: Some(value) }
}

/// A code that means the same whoever sends it.
pub(super) const fn code(verdict: Verdict, codes: &'static [&'static str]) -> ErrorRule {
    ErrorRule { status: &[], codes, phrases: &[], verdict, anywhere: true }
}

/// A code that means this only at this vendor.
pub(super) const fn own_code(verdict: Verdict, codes: &'static [&'static str]) -> ErrorRule {
    ErrorRule { status: &[], codes, phrases: &[], verdict, anywhere: false }
}

/// A phrase that means this only at this vendor, with one of these statuses.
pub(super) const fn phrase(
    verdict: Verdict,
    status: &'static [u16],
    phrases: &'static [&'static str],
) -> ErrorRule {
    ErrorRule { status, codes: &[], phrases, verdict, anywhere: false }
}

/// A phrase that is unmistakable.
pub(super) const fn clear_phrase(
    verdict: Verdict,
    status: &'static [u16],
    phrases: &'static [&'static str],
) -> ErrorRule {
    ErrorRule { status, codes: &[], phrases, verdict, anywhere: true }
}

/// What a status means at this vendor.
pub(super) const fn status(verdict: Verdict, status: &'static [u16]) -> ErrorRule {
    ErrorRule { status, codes: &[], phrases: &[], verdict, anywhere: false }
}
