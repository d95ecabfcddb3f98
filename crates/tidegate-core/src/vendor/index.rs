//! Finds the rule for a header's name in one walk over its bytes.
//!
//! All names of the table are kept in one tree of characters, so that a reply's twenty headers cost as much
//! as reading them, however many vendors there are. The walk folds case, and takes `_` for `-`: some servers
//! and gateways pass names through environments that cannot tell them apart.

use std::sync::LazyLock;

use super::{Meaning, Sign, Vendor, all};
use crate::reply::words::{self, Words};

/// The longest header name that is looked at; no vendor's comes near it.
pub(crate) const MAX_NAME: usize = 96;

/// What is known of a header by its name.
#[derive(Debug)]
pub(crate) struct Hit {
    /// What it means, and where in the name the `*` of its rule begins.
    pub(crate) meaning: Option<(u16, &'static Meaning, usize)>,
    /// What its words say, if the whole name is one of the [`COMMON`] ones.
    pub(crate) words: Option<&'static Words>,
    /// The vendors that it is a sign of, by their place in the table.
    pub(crate) signs: &'static [(Option<&'static str>, u8)],
}

/// What most names of most replies begin with, and what follows in the six that nearly every reply of an LLM
/// has. They are compared as a whole, and their words are read once, when the index is made.
const SHORTCUT: &str = "x-ratelimit-";
const COMMON: [&str; 6] = [
    "limit-requests",
    "limit-tokens",
    "remaining-requests",
    "remaining-tokens",
    "reset-requests",
    "reset-tokens",
];

#[derive(Debug, Default)]
struct Entry {
    meaning: Option<(u16, &'static Meaning)>,
    signs: Vec<(Option<&'static str>, u8)>,
}

/// How many numbers a node has: by [`SYMBOL`] the place of the node that follows, and at the end its own two entries.
const WIDTH: usize = 64;
const EXACT: usize = WIDTH - 1;
const PREFIX: usize = WIDTH - 2;
/// Set in the place of a node that has an entry for all names which begin like this.
const HAS_PREFIX: u32 = 1 << 31;

/// The tree over all names, node after node. Node 0 is the root and nobody's child, so 0 means "no way on",
/// and entry 0 means "none".
pub(crate) struct Index {
    nodes: Vec<u32>,
    entries: Vec<Entry>,
    /// The node behind [`SHORTCUT`], and the last entry on the way there.
    shortcut: (usize, u32),
    common: Vec<(&'static [u8], Words)>,
}

/// The index over the whole table.
pub(crate) fn index() -> &'static Index {
    static INDEX: LazyLock<Index> = LazyLock::new(|| Index::over(all()));
    &INDEX
}

impl Index {
    fn over(vendors: impl Iterator<Item = &'static Vendor>) -> Index {
        let mut index = Index {
            nodes: vec![0; WIDTH],
            entries: vec![Entry::default()],
            shortcut: (0, 0),
            common: Vec::new(),
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
        for byte in SHORTCUT.bytes() {
            let next = index.step(index.shortcut.0, byte);
            index.shortcut.0 = (next & !HAS_PREFIX) as usize;
            if next & HAS_PREFIX != 0 {
                index.shortcut.1 = index.nodes[index.shortcut.0 + PREFIX];
            }
        }
        index.common = COMMON.iter().map(|name| (name.as_bytes(), words::read(name))).collect();
        index
    }

    fn entry(&mut self, pattern: &str) -> &mut Entry {
        let (name, star) = match pattern.strip_suffix('*') {
            Some(name) => (name, true),
            None => (pattern, false),
        };
        let (mut node, mut way) = (0, 0);
        for byte in name.bytes() {
            let symbol = usize::from(SYMBOL[usize::from(byte)]);
            assert!(symbol != 0, "names in the table are made of letters, digits and dashes");
            way = node + symbol;
            if self.nodes[way] == 0 {
                self.nodes[way] = self.nodes.len() as u32;
                self.nodes.resize(self.nodes.len() + WIDTH, 0);
            }
            node = (self.nodes[way] & !HAS_PREFIX) as usize;
        }
        let slot = node + if star { PREFIX } else { EXACT };
        if self.nodes[slot] == 0 {
            self.entries.push(Entry::default());
            self.nodes[slot] = (self.entries.len() - 1) as u32;
        }
        if star {
            self.nodes[way] |= HAS_PREFIX;
        }
        &mut self.entries[self.nodes[slot] as usize]
    }

    /// What the table knows of a header of this name: the exact rule, else the longest prefix's.
    #[inline]
    pub(crate) fn find(&'static self, name: &[u8]) -> Hit {
        let hit = Hit { meaning: None, words: None, signs: &[] };
        // Most headers of a reply are none of ours, and that is seen at their first two letters.
        let [first, second, ..] = name else { return hit };
        let next = self.step(0, *first);
        if next == 0 || self.step((next & !HAS_PREFIX) as usize, *second) == 0 {
            return hit;
        }
        if let Some(rest) = name.strip_prefix(SHORTCUT.as_bytes()) {
            let mut hit = hit;
            self.note(&mut hit, self.shortcut.1, SHORTCUT.len() - 1);
            hit.words = self.common.iter().find(|(name, _)| *name == rest).map(|(_, words)| words);
            if hit.words.is_none() {
                self.walk(rest, self.shortcut.0, SHORTCUT.len(), &mut hit);
            }
            return hit;
        }
        let mut hit = hit;
        self.walk(name, 0, 0, &mut hit);
        hit
    }

    #[inline]
    fn step(&self, node: usize, byte: u8) -> u32 {
        self.nodes[node + usize::from(SYMBOL[usize::from(byte)])]
    }

    /// Goes on from a node with the rest of a name.
    fn walk(&'static self, rest: &[u8], mut node: usize, before: usize, hit: &mut Hit) {
        let nodes = &self.nodes[..];
        for (at, byte) in rest.iter().enumerate() {
            let next = nodes[node + usize::from(SYMBOL[usize::from(*byte)])];
            if next == 0 {
                return;
            }
            node = (next & !HAS_PREFIX) as usize;
            if next & HAS_PREFIX != 0 {
                self.note(hit, nodes[node + PREFIX], before + at + 1);
            }
        }
        let exact = nodes[node + EXACT];
        if exact != 0 {
            self.note(hit, exact, before + rest.len());
        }
    }

    /// An entry that was met later is more specific, as far as it says something.
    #[inline]
    fn note(&'static self, hit: &mut Hit, entry: u32, star: usize) {
        let entry = &self.entries[entry as usize];
        if let Some((id, meaning)) = entry.meaning {
            hit.meaning = Some((id, meaning, star));
        }
        if !entry.signs.is_empty() {
            hit.signs = &entry.signs;
        }
    }
}

/// The symbol of each byte that may stand in a name, and 0 for all others.
static SYMBOL: [u8; 256] = {
    let mut symbols = [0; 256];
    let mut letter = 0;
    while letter < 26 {
        symbols[b'a' as usize + letter] = 1 + letter as u8;
        symbols[b'A' as usize + letter] = 1 + letter as u8;
        letter += 1;
    }
    let mut digit = 0;
    while digit < 10 {
        symbols[b'0' as usize + digit] = 27 + digit as u8;
        digit += 1;
    }
    symbols[b'-' as usize] = 37;
    symbols[b'_' as usize] = 37;
    symbols
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_rule_wins_over_the_longest_prefix() {
        let found =
            |name: &str| index().find(name.as_bytes()).meaning.map(|(_, meaning, star)| (meaning, star));
        assert!(matches!(found("X-RateLimit-Limit-Requests"), Some((Meaning::Family(_), 11))));
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
