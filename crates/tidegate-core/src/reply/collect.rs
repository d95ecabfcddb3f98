//! The first pass over a reply's headers: which limit each one is about, and what it says in its own words.
//!
//! Nothing is interpreted here, because what a value means may hang on a header that comes later (`Date`, or
//! the one that shows who the vendor is). Everything is kept by reference in a few fixed arrays, so reading
//! headers allocates only the limits it finds; what overflows them is ignored, which bounds the work that a
//! hostile reply can cause.

use std::borrow::Cow;

use super::names::{Origin, clip, is_named, joined, looks_like_a_limit, shows, unwrap};
use super::reading::Limit;
use crate::vendors::kind::Kind;
use crate::vendors::words::{self, Field, Words};
use crate::vendors::{FamilyOf, FieldOf, Hit, Lens, MAX_NAME, Meaning, RetryUnit, index};

/// The most limits that one reply may describe.
pub(super) const MAX_LIMITS: usize = 24;
/// The most header lines about limits that one reply may have.
const MAX_FACTS: usize = 64;
/// The most lines of one structured field, or of retry hints.
const MAX_LINES: usize = 8;

/// The family of headers that mean one field of one limit each.
const SINGLE: u16 = 0;
/// The family of all headers whose names only look like the others'.
const LOOSE: u16 = u16::MAX;

/// One header line about a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fact<'a> {
    pub(super) slot: u8,
    pub(super) field: Field,
    pub(super) text: &'a str,
}

/// What tells two limits of one kind apart before they have names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) family: u16,
    pub(super) origin: Origin,
}

/// A list of a few things, without allocation; what does not fit is left out.
#[derive(Debug)]
pub(super) struct Few<T, const N: usize> {
    items: [T; N],
    len: usize,
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    fn new() -> Self {
        Few { items: [T::default(); N], len: 0 }
    }

    fn push(&mut self, item: T) {
        if let Some(place) = self.items.get_mut(self.len) {
            *place = item;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[T] {
        &self.items[..self.len]
    }
}

/// All that the headers say, in their own words.
#[derive(Debug)]
pub(super) struct Collected<'a> {
    pub(super) limits: Vec<Limit>,
    pub(super) tags: [Tag; MAX_LIMITS],
    pub(super) facts: Few<Fact<'a>, MAX_FACTS>,
    pub(super) policies: Few<&'a str, MAX_LINES>,
    pub(super) rate_limits: Few<&'a str, MAX_LINES>,
    pub(super) hints: Few<Option<(RetryUnit, Origin, &'a str)>, MAX_LINES>,
    pub(super) codes: Few<&'a str, 4>,
    /// What the plain limits of the reply are called.
    pub(super) plain_name: Option<&'a str>,
    pub(super) should_retry: Option<bool>,
    pub(super) date: Option<&'a str>,
    pub(super) cached: bool,
    /// How many tokens the call used: input, output.
    pub(super) used_tokens: [Option<&'a str>; 2],
    /// The limits that the commonest names are about: requests, tokens.
    common: [Option<u8>; 2],
    /// A limit was spelled `x-rate-limit-…`, as Okta does.
    pub(super) dashed: bool,
    /// The vendors whose signs were seen, by their place in the table.
    pub(super) signs: u64,
}

impl<'a> Collected<'a> {
    pub(super) fn new() -> Self {
        Collected {
            limits: Vec::new(),
            tags: [Tag::default(); MAX_LIMITS],
            facts: Few::new(),
            policies: Few::new(),
            rate_limits: Few::new(),
            hints: Few::new(),
            codes: Few::new(),
            plain_name: None,
            should_retry: None,
            date: None,
            cached: false,
            used_tokens: [None; 2],
            common: [None; 2],
            dashed: false,
            signs: 0,
        }
    }

    /// Takes in one header line.
    pub(super) fn header(&mut self, name: &str, value: &'a [u8], lens: Option<&Lens<'_>>) {
        if name.len() > MAX_NAME {
            return;
        }
        let index = index();
        if let Some((family, words)) = index.common(name.as_bytes()).filter(|_| lens.is_none()) {
            self.take_common(family, words, value);
            return;
        }
        let hit = index.find(name.as_bytes());
        if hit.is_sign() {
            self.note_signs(hit, value);
        }
        if let Some(meaning) = lens.and_then(|lens| lens.header(name)) {
            if let Some(text) = text(value) {
                self.take(SINGLE, meaning, "", Origin::Sender, text);
            }
        } else if let Some((family, meaning, star)) = hit.meaning() {
            self.dashed |= star == "x-rate-limit".len() && name.as_bytes()[6] == b'-';
            if let Some(text) = text(value) {
                self.take(family, meaning, name.get(star..).unwrap_or(""), Origin::Sender, text);
            }
        } else if let Some((inner, origin)) = unwrap(name) {
            let hit = index.find(inner.as_bytes());
            if let (Some((family, meaning, star)), Some(text)) = (hit.meaning(), text(value)) {
                // A gateway's upstream tells about limits; the reply itself (its date, its age) is not its.
                if origin == Origin::Sender || !matches!(meaning, Meaning::Date | Meaning::Age) {
                    self.take(family, meaning, inner.get(star..).unwrap_or(""), origin, text);
                }
            }
        } else if !hit.is_sign() {
            self.take_loose(name, value);
        }
    }

    /// A name that only looks like a limit's.
    fn take_loose(&mut self, name: &str, value: &'a [u8]) {
        let words = looks_like_a_limit(name.as_bytes()).and_then(|start| name.get(start..));
        if let (Some(words), Some(text)) = (words, words.and_then(|_| text(value))) {
            self.take(LOOSE, &Meaning::Family(FamilyOf::default()), words, Origin::Sender, text);
        }
    }

    /// One of the names that nearly every reply has. Which limit they are about is looked up once.
    fn take_common(&mut self, family: u16, words: &Words, value: &'a [u8]) {
        let (Some(field), Some(kind), Some(text)) = (words.field, &words.kind, text(value)) else { return };
        let place = usize::from(*kind == Kind::Tokens);
        let known = self.common[place];
        let slot = known.or_else(|| self.slot(family, Origin::Sender, kind, None, None, ""));
        self.common[place] = slot;
        if let Some(slot) = slot {
            self.fact(slot, field, text);
        }
    }

    fn note_signs(&mut self, hit: Hit, value: &[u8]) {
        for (needed, vendor) in hit.signs() {
            let there = needed.is_none_or(|needed| shows(value, needed.as_bytes()));
            if there {
                self.signs |= 1 << vendor;
            }
        }
    }

    fn take(&mut self, family: u16, meaning: &Meaning, star: &str, origin: Origin, text: &'a str) {
        match meaning {
            Meaning::Family(of) => self.take_family(family, of, star, origin, text),
            Meaning::Field(of) => self.single(of, of.field, origin, text),
            Meaning::UsedOfLimit(of) => self.take_used_of_limit(of, origin, text),
            Meaning::NamedUsedOfLimit(of) => {
                for pair in text.split([',', ';']).take(MAX_LINES) {
                    let Some((name, amounts)) = pair.split_once('=') else { continue };
                    let name = name.trim();
                    // The main one needs no name: it is the one everybody means.
                    let name = (name != "api-usage").then(|| Cow::Owned(clip(name).to_owned()));
                    self.take_used_of_limit(&FieldOf { name, ..of.clone() }, origin, amounts);
                }
            }
            Meaning::KeyValues(kind) => {
                let name = if star.is_empty() { "inflight-jobs" } else { star };
                let Some(slot) = self.slot(family, origin, kind, None, None, &name.to_ascii_lowercase())
                else {
                    return;
                };
                for pair in text.split([';', ',']).take(MAX_LINES) {
                    let Some((key, value)) = pair.split_once('=') else { continue };
                    let field = match key.trim() {
                        "total" | "limit" => Field::Limit,
                        "remaining" => Field::Remaining,
                        "resets" | "reset" => Field::Reset,
                        "used" => Field::Used,
                        _ => continue,
                    };
                    self.fact(slot, field, value.trim());
                }
            }
            Meaning::Utilization { prefix } => self.take_utilization(family, prefix, star, origin, text),
            Meaning::RateLimit => self.rate_limits.push(text),
            Meaning::RateLimitPolicy => self.policies.push(text),
            Meaning::RetryAfter(unit) => self.hints.push(Some((*unit, origin, text))),
            Meaning::ShouldRetry => {
                self.should_retry = match text {
                    _ if text.eq_ignore_ascii_case("true") => Some(true),
                    _ if text.eq_ignore_ascii_case("false") => Some(false),
                    _ => self.should_retry,
                }
            }
            Meaning::ErrorCode => self.codes.push(text),
            Meaning::Reason => {
                self.codes.push(text);
                self.plain_name = Some(text);
            }
            Meaning::InputTokens => self.used_tokens[0] = Some(text),
            Meaning::OutputTokens => self.used_tokens[1] = Some(text),
            Meaning::Date => self.date = Some(text),
            Meaning::Age => self.cached = text.bytes().any(|b| matches!(b, b'1'..=b'9')),
        }
    }

    fn take_family(&mut self, family: u16, of: &FamilyOf, star: &str, origin: Origin, text: &'a str) {
        // HTTP/2 has lower case already, and so has every `HeaderMap`.
        let mut lower = [0u8; MAX_NAME];
        let mut star = star;
        if star.bytes().any(|byte| byte.is_ascii_uppercase()) {
            let Some(buffer) = lower.get_mut(..star.len()) else { return };
            buffer.copy_from_slice(star.as_bytes());
            buffer.make_ascii_lowercase();
            star = std::str::from_utf8(buffer).unwrap_or("");
        }
        let words = words::read(star);
        let name = words.name.map_or("", |(start, end)| &star[start..end]);
        let field = if star.is_empty() { Some(Field::Limit) } else { words.field };
        match field {
            Some(Field::Name) if name.is_empty() => self.plain_name = Some(text),
            Some(Field::RetryAfter) => {
                self.hints.push(Some((RetryUnit::OtherSeconds, origin, text)));
            }
            Some(field) => {
                let kind = words.kind.as_ref().unwrap_or(&of.kind);
                if let Some(slot) = self.slot(family, origin, kind, words.window_ms, of.name.as_ref(), name) {
                    self.fact(slot, field, text);
                }
            }
            None => {}
        }
    }

    fn take_used_of_limit(&mut self, of: &FieldOf, origin: Origin, text: &'a str) {
        if let Some((used, limit)) = text.split_once('/') {
            // Salesforce puts the app's name in brackets behind the numbers.
            let limit = limit.split('(').next().unwrap_or(limit);
            self.single(of, Field::Used, origin, used.trim());
            self.single(of, Field::Limit, origin, limit.trim());
        }
    }

    fn take_utilization(
        &mut self,
        family: u16,
        prefix: &'static str,
        star: &str,
        origin: Origin,
        text: &'a str,
    ) {
        let star = star.to_ascii_lowercase();
        let (claim, field) = match star.rsplit_once('-') {
            Some((claim, "utilization")) => (claim, Field::Utilization),
            Some((claim, "reset")) if claim.starts_with(|c: char| c.is_ascii_digit()) => {
                (claim, Field::Reset)
            }
            None if star == "reset" => ("", Field::Reset),
            _ => return,
        };
        let name = Cow::Borrowed(prefix);
        if let Some(slot) = self.slot(family, origin, &Kind::Utilization, None, Some(&name), claim) {
            self.fact(slot, field, text);
        }
    }

    fn single(&mut self, of: &FieldOf, field: Field, origin: Origin, text: &'a str) {
        if field == Field::Name {
            self.plain_name = Some(text);
        } else if let Some(slot) = self.slot(SINGLE, origin, &of.kind, of.window_ms, of.name.as_ref(), "") {
            self.fact(slot, field, text);
        }
    }

    fn fact(&mut self, slot: u8, field: Field, text: &'a str) {
        self.facts.push(Fact { slot, field, text });
    }

    /// The limit that this is about, new or known.
    fn slot(
        &mut self,
        family: u16,
        origin: Origin,
        kind: &Kind,
        window_ms: Option<u64>,
        outer: Option<&Cow<'static, str>>,
        inner: &str,
    ) -> Option<u8> {
        let tag = Tag { family, origin };
        let known = self.limits.iter().zip(&self.tags).position(|(limit, known)| {
            *known == tag
                && limit.kind == *kind
                && limit.window_ms == window_ms
                && is_named(limit.name.as_deref(), outer.map(|name| &**name), inner)
        });
        if let Some(place) = known {
            return u8::try_from(place).ok();
        }
        let place = self.limits.len();
        *self.tags.get_mut(place)? = tag;
        if place == 0 {
            self.limits.reserve(4);
        }
        let name = joined(outer, inner);
        self.limits.push(Limit { window_ms, name, ..Limit::of(kind.clone()) });
        u8::try_from(place).ok()
    }
}

/// A header value as text; bytes that are none say nothing to us.
fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value.trim_ascii()).ok()
}
