//! Understanding an upstream's reply: status, headers and body become one [`Reading`].
//!
//! ```text
//!  headers ──► collect ──► resolve ─┐        which limit each header is about, then what its value means
//!  body ─────► json ─────► body ────┤        error codes, waits and limits that only the body tells
//!  stream ───► stream ──────────────┤        the same from events, and usage as it passes
//!                                   └──► verdict ──► Reading
//! ```
//!
//! What is peculiar to a vendor is data in [`crate::vendors`]; the reader itself is the same for all. It never
//! fails: what cannot be read is not said. It reads no clock: `now` only serves replies without a `Date`.
//!
//! ```
//! use tidegate_core::reply::{Reader, UnixMillis, Verdict};
//!
//! let headers: [(&str, &[u8]); 2] = [("Retry-After", b"20"), ("X-RateLimit-Remaining", b"0")];
//! let reading = Reader::default().read(429, headers, b"", UnixMillis::from_secs(1_763_200_000));
//! assert_eq!(reading.verdict, Verdict::RateLimited);
//! assert_eq!(reading.retry_after_ms, Some(20_000));
//! ```

mod body;
mod collect;
mod date;
mod draft;
mod header_map;
mod json;
mod message;
mod names;
mod passing;
mod reading;
mod resolve;
mod service;
mod stream;
mod structured;
mod usage;
mod value;
mod verdict;

pub use date::UnixMillis;
pub use header_map::{retry_after, retry_after_at};
pub use passing::JsonUsage;
pub use reading::{Limit, Reading, Violation, Wait, WaitSource};
pub use stream::StreamReader;

pub use crate::vendors::kind::Kind;
pub use crate::vendors::reset::{MAX_MS, ResetForm};
pub use crate::vendors::usage::Usage;
pub use crate::vendors::verdict::Verdict;
pub use crate::vendors::words::Field;

use std::borrow::Cow;

use self::body::Findings;
use self::collect::Collected;
use self::usage::RawUsage;
use self::value::Base;
use crate::vendors::{Lens, Profile, Vendor, ZeroLimit, all, generic};

/// Reads replies, by the conventions of one vendor or of whoever the reply shows it is from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader<'p> {
    vendor: Option<&'static Vendor>,
    profile: Option<(&'p str, &'p Profile)>,
}

impl<'p> Reader<'p> {
    /// A reader of this vendor's replies.
    #[must_use]
    pub fn of(vendor: &'static Vendor) -> Reader<'static> {
        Reader { vendor: Some(vendor), profile: None }
    }

    /// A reader of the replies of an upstream that a user's profile describes.
    #[must_use]
    pub fn with_profile(name: &'p str, profile: &'p Profile) -> Reader<'p> {
        Reader { vendor: Some(profile.base), profile: Some((name, profile)) }
    }

    /// What a reply says. Headers may come in any order and case, and repeat; the body may be anything, or
    /// empty if it is not at hand.
    #[must_use]
    pub fn read<'h>(
        &self,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
        now: UnixMillis,
    ) -> Reading {
        let mut collected = Collected::new();
        let profile = self.profile.map(|(_, profile)| profile);
        let own = profile.map(|profile| Lens { vendor: profile.base, profile: Some(profile) });
        for (name, value) in headers {
            collected.header(name, value, own.as_ref());
        }
        let base = Base { date: collected.date, now };
        let mut findings = Findings::default();
        if !body.is_empty() {
            read_body(&mut findings, status, body, UnixMillis(base.micros().div_euclid(1000)));
        }
        let shown = || signed_by(collected.signs).or_else(|| named_in(&findings.messages));
        let vendor = self.vendor.or_else(shown);
        let lens = self.lens(vendor);
        let refused = matches!(status, 420 | 429);

        let mut reading = Reading {
            retry_after_ms: resolve::retry_after(&collected, &base),
            should_retry: collected.should_retry,
            reset_margin_ms: lens.reset_margin_ms(),
            vendor: self
                .profile
                .map(|(name, _)| Cow::Owned(name.to_owned()))
                .or(vendor.map(|v| v.name.into())),
            ..Reading::default()
        };
        let zero =
            refused && collected.dashed && lens.zero_limit() == ZeroLimit::PushBack && vendor.is_none();
        reading.limits = resolve::limits(&mut collected, &lens, &base, refused, zero);
        if collected.cached {
            // A reply from a cache tells how things were when it was stored.
            reading.limits.clear();
        }
        findings.codes.extend(collected.codes.as_slice().iter().map(|code| (*code).to_owned()));
        let zero = zero && reading.limits.iter().any(|limit| limit.kind == Kind::Concurrency);
        reading.verdict = verdict::decide(status, &lens, &findings, &reading, zero);
        let counts = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let [input, output] = collected.used_tokens.map(counts);
        let told = RawUsage::from_counts(input, output);
        reading.usage = findings.usage.or(told).map(RawUsage::finish);
        if reading.verdict == Verdict::Ok {
            // What failed for another reason may still talk about waiting; it does not mean a limit.
            findings.retry_after_ms = None;
        }
        findings.report(&mut reading);
        reading
    }
}

impl<'p> Reader<'p> {
    /// What to look through, where `shown` is the vendor that the reply itself shows.
    fn lens(&self, shown: Option<&'static Vendor>) -> Lens<'p> {
        let vendor = self.vendor.or(shown).unwrap_or(generic());
        Lens { vendor, profile: self.profile.map(|(_, profile)| profile) }
    }
}

/// The vendor that the signs show; where there are several, the first of the table.
fn signed_by(signs: u64) -> Option<&'static Vendor> {
    if signs == 0 {
        return None;
    }
    all().nth(signs.trailing_zeros() as usize)
}

/// The vendor whose site an error message names.
fn named_in(messages: &[String]) -> Option<&'static Vendor> {
    let named =
        |vendor: &&Vendor| vendor.sites.iter().any(|site| messages.iter().any(|said| said.contains(site)));
    if messages.is_empty() { None } else { all().find(named) }
}

fn read_body(findings: &mut Findings, status: u16, body: &[u8], now: UnixMillis) {
    let failed = status >= 400;
    if stream::is_stream(body) {
        let mut reader = StreamReader::new();
        reader.push(&body[..body.len().min(json::MAX_BODY)]);
        reader.finish();
        *findings = reader.findings(now);
        findings.usage = reader.raw_usage();
        return;
    }
    let text = json::decode(body);
    match json::Tree::parse(&text) {
        Some(tree) => findings.read_tree(&tree, failed, now),
        None if failed => findings.read_text(&text),
        None => {}
    }
}
