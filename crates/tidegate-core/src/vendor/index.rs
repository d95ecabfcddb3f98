//! Finds the rule for a header's name in one walk over its bytes.
//!
//! All names of the table are kept in one tree of characters, so that a reply's twenty headers cost as much
//! as reading them, however many vendors there are. The walk folds case, and takes `_` for `-`: some servers
//! and gateways pass names through environments that cannot tell them apart.

use std::sync::LazyLock;

use super::{Meaning, Sign, Vendor, all};

/// The longest header name that is looked at; no vendor's comes near it.
pub(crate) const MAX_NAME: usize = 96;

/// What is known of a header by its name.
#[derive(Debug)]
pub(crate) struct Hit {
    /// What it means, and where in the name the `*` of its rule begins.
    pub(crate) meaning: Option<(u16, &'static Meaning, usize)>,
    /// The vendors that it is a sign of, by their place in the table.
    pub(crate) signs: &'static [(Option<&'static str>, u8)],
}

#[derive(Debug, Default)]
struct Entry {
    meaning: Option<(u16, &'static Meaning)>,
    signs: Vec<(Option<&'static str>, u8)>,
}

const SYMBOLS: usize = 37;

/// The tree: for each node the nodes that follow it, and the entries of names that end there.
pub(crate) struct Index {
    next: Vec<[u16; SYMBOLS]>,
    exact: Vec<u16>,
    prefix: Vec<u16>,
    entries: Vec<Entry>,
}

/// The index over the whole table.
pub(crate) fn index() -> &'static Index {
    static INDEX: LazyLock<Index> = LazyLock::new(|| Index::over(all()));
    &INDEX
}

impl Index {
    fn over(vendors: impl Iterator<Item = &'static Vendor>) -> Index {
        let mut index = Index {
            next: vec![[0; SYMBOLS]],
            exact: vec![0],
            prefix: vec![0],
            // Entry 0 is "none", as node 0 is "no way on": the root is never a child.
            entries: vec![Entry::default()],
        };
        let mut number = 0;
        for (place, vendor) in vendors.enumerate() {
            for rule in vendor.headers {
                number += 1;
                index.entry(rule.header).meaning = Some((number, &rule.meaning));
            }
            for Sign { header, value } in vendor.signs {
                index.entry(header).signs.push((*value, place as u8));
            }
        }
        index
    }

    fn entry(&mut self, pattern: &'static str) -> &mut Entry {
        let (name, star) = match pattern.strip_suffix('*') {
            Some(name) => (name, true),
            None => (pattern, false),
        };
        let mut node = 0usize;
        for byte in name.bytes() {
            let symbol = symbol(byte).expect("names in the table are made of letters, digits and dashes");
            if self.next[node][symbol] == 0 {
                self.next.push([0; SYMBOLS]);
                self.exact.push(0);
                self.prefix.push(0);
                self.next[node][symbol] = (self.next.len() - 1) as u16;
            }
            node = usize::from(self.next[node][symbol]);
        }
        let slot = if star { &mut self.prefix[node] } else { &mut self.exact[node] };
        if *slot == 0 {
            self.entries.push(Entry::default());
            *slot = (self.entries.len() - 1) as u16;
        }
        &mut self.entries[usize::from(*slot)]
    }

    /// What the table knows of a header of this name: the exact rule, else the longest prefix's.
    pub(crate) fn find(&'static self, name: &[u8]) -> Hit {
        let mut node = 0usize;
        let (mut prefix, mut star) = (0u16, 0usize);
        let mut signs = 0u16;
        let mut whole = true;
        for (at, byte) in name.iter().enumerate() {
            let here = self.prefix[node];
            if here != 0 {
                let entry = &self.entries[usize::from(here)];
                if entry.meaning.is_some() {
                    (prefix, star) = (here, at);
                }
                if !entry.signs.is_empty() {
                    signs = here;
                }
            }
            let Some(symbol) = symbol(*byte) else {
                whole = false;
                break;
            };
            let next = self.next[node][symbol];
            if next == 0 {
                whole = false;
                break;
            }
            node = usize::from(next);
        }
        let mut meaning = self.entries[usize::from(prefix)].meaning.map(|(id, meaning)| (id, meaning, star));
        if whole && self.exact[node] != 0 {
            let entry = &self.entries[usize::from(self.exact[node])];
            if let Some((id, exact)) = entry.meaning {
                meaning = Some((id, exact, name.len()));
            }
            if !entry.signs.is_empty() {
                signs = self.exact[node];
            }
        }
        Hit { meaning, signs: &self.entries[usize::from(signs)].signs }
    }
}

fn symbol(byte: u8) -> Option<usize> {
    Some(usize::from(match byte {
        b'a'..=b'z' => byte - b'a',
        b'A'..=b'Z' => byte - b'A',
        b'0'..=b'9' => byte - b'0' + 26,
        b'-' | b'_' => 36,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_rule_wins_over_the_longest_prefix() {
        let found =
            |name: &str| index().find(name.as_bytes()).meaning.map(|(_, meaning, star)| (meaning, star));
        assert!(matches!(found("X-RateLimit-Limit-Requests"), Some((Meaning::Family(_), 12))));
        assert!(matches!(found("x-ratelimit-retry-after"), Some((Meaning::RetryAfter(_), _))));
        assert!(matches!(
            found("Anthropic-Ratelimit-Unified-5h-Status"),
            Some((Meaning::Utilization { .. }, 28))
        ));
        assert!(matches!(found("X_SHOPIFY_SHOP_API_CALL_LIMIT"), Some((Meaning::UsedOfLimit(_), _))));
        assert!(found("content-type").is_none());
        assert!(found("").is_none());
        assert!(found("x-ratelimit").is_some());
        assert!(found("ä").is_none());
    }

    #[test]
    fn all_vendors_fit_into_the_mask_of_signs() {
        assert!(all().count() <= 64);
    }
}
