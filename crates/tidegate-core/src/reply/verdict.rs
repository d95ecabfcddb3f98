//! From status, codes, messages and limits to one verdict.
//!
//! What is said most specifically decides: the user's profile, then the vendor's own row, then codes that mean
//! the same everywhere, then what the limits show, and the bare status last.

use super::body::{Findings, code_word};
use super::message::says;
use super::reading::{Limit, Reading};
use crate::vendors::verdict::Verdict;
use crate::vendors::{ErrorRule, Lens, ZeroLimit, all, generic};

/// The verdict on a reply. `reading` holds what the headers said; `zero_is_concurrency` that a limit of zero
/// means too many calls at once.
pub(super) fn decide(
    status: u16,
    lens: &Lens<'_>,
    findings: &Findings,
    reading: &Reading,
    zero_is_concurrency: bool,
) -> Verdict {
    if let Some(verdict) = by_profile(status, lens, findings) {
        return verdict;
    }
    let refused = matches!(status, 420 | 429);
    let limits = &reading.limits;
    if refused {
        let zero = |limit: &Limit| limit.limit == Some(0.0);
        match lens.zero_limit() {
            ZeroLimit::NotInPlan if limits.iter().any(zero) => return Verdict::QuotaExhausted,
            ZeroLimit::Concurrency if limits.iter().any(|limit| zero(limit) && limit.is_exhausted()) => {
                return Verdict::ConcurrencyLimited;
            }
            _ if zero_is_concurrency => return Verdict::ConcurrencyLimited,
            _ => {}
        }
    }
    let never = refused && findings.violated.iter().any(|violated| violated.limit == Some(0.0));
    if never || too_large(status, findings) {
        return Verdict::QuotaExhausted;
    }
    // The generic row is what everybody shares: it comes after the vendors' own words.
    let own = if std::ptr::eq(lens.vendor, generic()) { &[] } else { lens.vendor.errors };
    if let Some(rule) = own.iter().find(|rule| applies(rule, status, findings)) {
        return rule.verdict;
    }
    if let Some(verdict) = by_code(status, findings) {
        return verdict;
    }
    let hinted = reading.retry_after_ms.is_some_and(|ms| ms > 0);
    let overdrawn = limits.iter().any(|limit| limit.remaining.is_some_and(|left| left < 0.0));
    match status {
        420 | 429 => Verdict::RateLimited,
        402 => Verdict::QuotaExhausted,
        503 | 529 => Verdict::Overloaded,
        // A plain 403 is a matter of permission, unless the reply shows that a limit is at its end.
        403 if reading.retry_after_ms.is_some() || limits.iter().any(Limit::is_exhausted) => {
            Verdict::RateLimited
        }
        // A refusal in disguise: the stream begins with 200 and the error comes in it.
        200 if hinted && (lens.hint_on_success_refuses() || overdrawn) => Verdict::RateLimited,
        _ => Verdict::Ok,
    }
}

fn by_profile(status: u16, lens: &Lens<'_>, findings: &Findings) -> Option<Verdict> {
    let rules = &lens.profile?.errors;
    let matched = rules.iter().find(|rule| {
        rule.status.is_none_or(|wanted| wanted == status)
            && rule.code.as_ref().is_none_or(|code| findings.codes.iter().any(|found| is_code(found, code)))
            && rule
                .phrase
                .as_ref()
                .is_none_or(|phrase| findings.messages.iter().any(|said| says(said, phrase)))
    });
    matched.map(|rule| rule.verdict)
}

/// Codes and phrases that are unmistakable whoever sent them. Vendors' own words are more specific than the
/// common ones; where several apply, the one that forbids most counts.
fn by_code(status: u16, findings: &Findings) -> Option<Verdict> {
    if findings.codes.is_empty() && findings.messages.is_empty() {
        return None;
    }
    let common = generic();
    let specific = all()
        .filter(|vendor| !std::ptr::eq(*vendor, common))
        .flat_map(|vendor| vendor.errors)
        .filter(|rule| rule.anywhere && applies(rule, status, findings))
        .map(|rule| rule.verdict)
        .max();
    specific.or_else(|| {
        common.errors.iter().find(|rule| applies(rule, status, findings)).map(|rule| rule.verdict)
    })
}

fn applies(rule: &ErrorRule, status: u16, findings: &Findings) -> bool {
    if !rule.status.is_empty() && !rule.status.contains(&status) {
        return false;
    }
    if rule.codes.is_empty() && rule.phrases.is_empty() {
        return true;
    }
    rule.codes.iter().any(|code| findings.codes.iter().any(|found| is_code(found, code)))
        || rule.phrases.iter().any(|phrase| findings.messages.iter().any(|said| says(said, phrase)))
}

/// Whether a code is the wanted one, without regard to case; a `*` at either end stands for anything.
fn is_code(found: &str, wanted: &str) -> bool {
    let found = code_word(found);
    let (begin, middle) = match wanted.strip_prefix('*') {
        Some(rest) => (true, rest),
        None => (false, wanted),
    };
    let (end, middle) = match middle.strip_suffix('*') {
        Some(rest) => (true, rest),
        None => (false, middle),
    };
    let found = found.to_ascii_lowercase();
    let middle = middle.to_ascii_lowercase();
    match (begin, end) {
        (false, false) => found == middle,
        (true, false) => found.ends_with(&middle),
        (true, true) => found.contains(&middle),
        (false, true) => match middle.split_once('*') {
            Some((first, second)) => found.starts_with(first) && found[first.len()..].contains(second),
            None => found.starts_with(&middle),
        },
    }
}

/// A single call that asks for more than the whole limit never fits, however long it waits.
fn too_large(status: u16, findings: &Findings) -> bool {
    matches!(status, 413 | 429)
        && findings.requested.is_some_and(|requested| {
            findings.limits.iter().any(|limit| limit.limit.is_some_and(|most| most > 0.0 && requested > most))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_compared_by_what_they_say() {
        assert!(is_code("ThrottlingException:http://internal.amazon.com/coral/", "throttlingexception"));
        assert!(is_code("com.amazonaws#ThrottlingException", "throttlingexception"));
        assert!(is_code("https://iana.org/assignments/http-problem-types#quota-exceeded", "quota-exceeded"));
        assert!(is_code("https://api.twitter.com/2/problems/usage-capped", "usage-capped"));
        assert!(is_code("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "generate*perday*"));
        assert!(!is_code("GenerateRequestsPerMinutePerProjectPerModel", "generate*perday*"));
        assert!(!is_code("rate_limit", "rate_limited"));
    }
}
