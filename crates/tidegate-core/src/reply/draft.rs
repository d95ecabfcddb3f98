//! What the IETF drafts on `RateLimit` fields say, from -03 to -11.
//!
//! Up to -06 the limit, what remains and the reset are three fields, and the policies stand behind the limit
//! (`RateLimit-Limit: 15, 100;w=60`) or in a field of their own (`RateLimit-Policy: 100;w=60`). Draft -07
//! joins the three into a dictionary. From -08 on both fields are lists of named items, to be joined by name.

use std::borrow::Cow;

use super::names::clip;
use super::reading::Limit;
use super::structured::{Bare, Item, dictionary, list};
use crate::vendors::kind::Kind;
use crate::vendors::reset::MAX_MS;

/// A policy of the older drafts: so much in a window, without a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policy {
    pub(super) limit: f64,
    pub(super) window_ms: Option<u64>,
}

/// What the structured fields of a reply say.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    /// Limits with names (drafts -08 and later).
    pub(super) named: Vec<Limit>,
    /// The one limit without a name (draft -07).
    pub(super) plain: Option<Limit>,
    /// Policies without names (drafts -04 to -07).
    pub(super) policies: Vec<Policy>,
}

/// Reads the lines of both fields. A field that is malformed in any line is ignored as a whole.
pub(super) fn read(rate_limits: &[&str], policies: &[&str]) -> Drafts {
    let mut drafts = Drafts::default();
    let mut known = Vec::new();
    let joined = policies.join(", ");
    for item in list(&joined).unwrap_or_default() {
        match &item.bare {
            Bare::Integer(limit) if *limit >= 0 => {
                drafts.policies.push(Policy { limit: *limit as f64, window_ms: window(&item) });
            }
            _ => known.extend(named_policy(&item)),
        }
    }
    let joined = rate_limits.join(", ");
    if let Some(items) = list(&joined) {
        for item in &items {
            let Some(mut limit) = named_state(item) else { continue };
            if let Some(policy) = known.iter().find(|policy: &&Limit| policy.name == limit.name) {
                limit.kind = policy.kind.clone();
                limit.limit = policy.limit;
                limit.window_ms = policy.window_ms;
                // A remaining above the quota is a slip of the server; the quota is what it promises.
                limit.remaining = limit.remaining.map(|left| policy.limit.map_or(left, |q| left.min(q)));
            }
            drafts.named.push(limit);
        }
    } else if let Some(members) = dictionary(&joined) {
        drafts.plain = draft_07(&members);
    }
    // Policies that no state was given for are limits all the same.
    for policy in known {
        if !drafts.named.iter().any(|limit| limit.name == policy.name) {
            drafts.named.push(policy);
        }
    }
    drafts
}

/// `"hour";q=1000;w=3600`
fn named_policy(item: &Item<'_>) -> Option<Limit> {
    let kind = match item.parameter("qu") {
        Some(Bare::Text(unit)) => Kind::from_name(clip(unit)),
        Some(Bare::Token(unit)) => Kind::from_name(clip(unit)),
        _ => Kind::Requests,
    };
    Some(Limit {
        name: Some(name(item)?),
        limit: Some(count(item, "q")?),
        window_ms: window(item),
        ..Limit::of(kind)
    })
}

/// `"day";r=100;t=36000`. The draft requires `r`, and its own example as well as Jira leave it out.
fn named_state(item: &Item<'_>) -> Option<Limit> {
    let remaining = match item.parameter("r") {
        None => None,
        Some(_) => Some(count(item, "r")?),
    };
    let reset_ms = count(item, "t").map(seconds);
    if remaining.is_none() && reset_ms.is_none() {
        return None;
    }
    let pk = match item.parameter("pk") {
        Some(Bare::Bytes(bytes)) => Some(match std::str::from_utf8(bytes) {
            Ok(text) if text.chars().all(|c| !c.is_control()) => clip(text).to_owned(),
            _ => bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect(),
        }),
        Some(Bare::Text(text)) => Some(clip(text).to_owned()),
        _ => None,
    };
    Some(Limit { name: Some(name(item)?), remaining, reset_ms, pk, ..Limit::default() })
}

/// `limit=5000, remaining=100, reset=36000`
fn draft_07(members: &[(&str, Item<'_>)]) -> Option<Limit> {
    let value = |name: &str| {
        members.iter().rev().find(|(key, _)| *key == name).and_then(|(_, item)| match item.bare {
            Bare::Integer(value) if value >= 0 => Some(value as f64),
            _ => None,
        })
    };
    let limit = Limit {
        limit: value("limit"),
        remaining: value("remaining"),
        reset_ms: value("reset").map(seconds),
        ..Limit::default()
    };
    limit.says_something().then_some(limit)
}

fn name(item: &Item<'_>) -> Option<Cow<'static, str>> {
    match &item.bare {
        Bare::Text(name) => Some(Cow::Owned(clip(name).to_owned())),
        Bare::Token(name) => Some(Cow::Owned(clip(name).to_owned())),
        _ => None,
    }
}

fn count(item: &Item<'_>, parameter: &str) -> Option<f64> {
    match item.parameter(parameter)? {
        Bare::Integer(value) if *value >= 0 => Some(*value as f64),
        _ => None,
    }
}

fn window(item: &Item<'_>) -> Option<u64> {
    count(item, "w").filter(|seconds| *seconds > 0.0).map(seconds)
}

/// Whole seconds of at most 15 digits, as milliseconds.
pub(super) fn seconds(value: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, and is clamped
    let ms = (value * 1000.0) as u64;
    ms.min(MAX_MS)
}

/// One member of a limit field of draft -03: `100;w=60;burst=1000;comment="sliding window"`. Read leniently,
/// because most who write it have never heard of structured fields.
pub(super) fn old_items(text: &str) -> Vec<Policy> {
    let mut items = Vec::new();
    let mut quoted = false;
    let parts = text.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    for part in parts.take(16) {
        let mut pieces = part.split(';');
        let Some(limit) = pieces.next().and_then(super::value::amount) else { continue };
        let window_ms = pieces
            .filter_map(|piece| piece.trim().strip_prefix("w="))
            .find_map(super::value::amount)
            .filter(|w| *w > 0.0)
            .map(seconds);
        items.push(Policy { limit, window_ms });
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_policies_are_joined_by_name() {
        let drafts = read(
            &[r#""day";r=100;t=36000"#],
            &[r#""hour";q=1000;w=3600"#, r#""day";q=5000;w=86400;qu="tokens""#],
        );
        assert_eq!(drafts.named.len(), 2);
        assert_eq!(drafts.named[0].limit, Some(5000.0));
        assert_eq!(drafts.named[0].kind, Kind::Tokens);
        assert_eq!(drafts.named[1].name.as_deref(), Some("hour"));
    }

    #[test]
    fn what_is_malformed_is_ignored() {
        for text in
            [r#""a";r=x"#, r#""a";r=-1"#, r#""a";r=1;"#, r#""a" r=1"#, r#"5;r=1"#, r#""a""#, r#""a";r=1.5"#]
        {
            let drafts = read(&[text], &[]);
            assert!(drafts.named.is_empty() && drafts.plain.is_none(), "{text}");
        }
        assert!(read(&[], &[r#""a";w=60"#]).named.is_empty());
        assert!(read(&[r#""a";r=1"#, "!"], &[]).named.is_empty());
    }

    #[test]
    fn the_old_list_is_read_leniently() {
        let items = old_items(r#"100, 100;w=60;burst=1000;comment="sliding, window", 5000; w=3600"#);
        assert_eq!(items.len(), 3);
        assert_eq!(items[1].window_ms, Some(60_000));
        assert_eq!(items[2].window_ms, Some(3_600_000));
        assert!(old_items("lots").is_empty());
    }
}
