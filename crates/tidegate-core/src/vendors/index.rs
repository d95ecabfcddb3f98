//! Finds the rule for a header's name in one walk over its bytes.
//!
//! All names of the table are kept in one tree of characters, so that a reply's twenty headers cost as much
//! as reading them, however many vendors there are. The walk folds case, and takes `_` for `-`: some servers
//! and gateways pass names through environments that cannot tell them apart.

use std::sync::LazyLock;

use super::{Meaning, Sign, Vendor, all};
use crate::vendors::words::{self, Words};

/// The longest header name that is looked at; no vendor's comes near it.
pub(crate) const MAX_NAME: usize = 96;

/// What is known of a header by its name. Small enough to be handed around in registers: most headers of a
/// reply are none of ours, and cost only this.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hit {
    /// The entry of its meaning, or 0, and where in the name the `*` of its rule begins.
    meaning: u32,
    star: u32,
    /// The entry of its signs, or 0.
    signs: u32,
}

impl Hit {
    /// The number of the rule, what it says, and where in the name its `*` begins.
    #[inline]
    pub(crate) fn meaning(self) -> Option<(u16, &'static Meaning, usize)> {
        if self.meaning == 0 {
            return None;
        }
        let (number, meaning) = index().entries[self.meaning as usize].meaning?;
        Some((number, meaning, self.star as usize))
    }

    /// Whether it shows who sent the reply.
    #[inline]
    pub(crate) fn is_sign(self) -> bool {
        self.signs != 0
    }

    /// An entry that is met later is more specific.
    #[inline]
    fn note(&mut self, meaning: u32, signs: u32, star: u32) {
        if meaning != 0 {
            self.meaning = meaning;
            self.star = star;
        }
        if signs != 0 {
            self.signs = signs;
        }
    }

    /// The vendors that it is a sign of, by their place in the table, and what its value must be for that.
    pub(crate) fn signs(self) -> &'static [(Option<&'static str>, u8)] {
        &index().entries[self.signs as usize].signs
    }
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

/// How many numbers a node has: by [`SYMBOL`] the place of the node that follows, and at the end the entries
/// for this very name and for all that begin like it, each for its meaning and for its signs.
const WIDTH: usize = 64;
const EXACT_MEANING: usize = WIDTH - 1;
const EXACT_SIGNS: usize = WIDTH - 2;
const PREFIX_MEANING: usize = WIDTH - 3;
const PREFIX_SIGNS: usize = WIDTH - 4;
/// Set in the place of a node that has an entry for all names which begin like this.
const HAS_PREFIX: u32 = 1 << 31;

/// The tree over all names, node after node. Node 0 is the root and nobody's child, so 0 means "no way on",
/// and entry 0 means "none".
pub(crate) struct Index {
    nodes: Vec<u32>,
    entries: Vec<Entry>,
    /// The number of the rule that the [`COMMON`] names belong to.
    common_rule: u16,
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
            common_rule: 0,
            common: Vec::new(),
        };
        let mut number = 0;
        for (place, vendor) in vendors.enumerate() {
            for rule in vendor.headers {
                number += 1;
                index.entry(rule.header, false).meaning = Some((number, &rule.meaning));
            }
            for Sign { header, value } in vendor.signs {
                index.entry(header, true).signs.push((*value, place as u8));
            }
        }
        index.common = COMMON.iter().map(|name| (name.as_bytes(), words::read(name))).collect();
        let rule = index.find(SHORTCUT.as_bytes()).meaning;
        index.common_rule = index.entries[rule as usize].meaning.map_or(0, |(number, _)| number);
        index
    }

    fn entry(&mut self, pattern: &str, signs: bool) -> &mut Entry {
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
        let slot = node
            + match (star, signs) {
                (true, false) => PREFIX_MEANING,
                (true, true) => PREFIX_SIGNS,
                (false, false) => EXACT_MEANING,
                (false, true) => EXACT_SIGNS,
            };
        if self.nodes[slot] == 0 {
            self.entries.push(Entry::default());
            self.nodes[slot] = (self.entries.len() - 1) as u32;
        }
        if star {
            self.nodes[way] |= HAS_PREFIX;
        }
        &mut self.entries[self.nodes[slot] as usize]
    }

    /// What the words of a name say that nearly every reply has, and the number of the rule it belongs to.
    #[inline]
    pub(crate) fn common(&'static self, name: &[u8]) -> Option<(u16, &'static Words)> {
        let rest = name.strip_prefix(SHORTCUT.as_bytes())?;
        let words = self.common.iter().find(|(name, _)| *name == rest).map(|(_, words)| words)?;
        Some((self.common_rule, words))
    }

    /// What the table knows of a header of this name: the exact rule, else the longest prefix's.
    pub(crate) fn find(&self, name: &[u8]) -> Hit {
        let nodes = &self.nodes[..];
        let mut hit = Hit::default();
        let mut node = 0;
        let mut at = 0;
        for byte in name {
            let next = nodes[node + usize::from(SYMBOL[usize::from(*byte)])];
            if next == 0 {
                return hit;
            }
            at += 1;
            node = (next & !HAS_PREFIX) as usize;
            if next & HAS_PREFIX != 0 {
                hit.note(nodes[node + PREFIX_MEANING], nodes[node + PREFIX_SIGNS], at);
            }
        }
        hit.note(nodes[node + EXACT_MEANING], nodes[node + EXACT_SIGNS], at);
        hit
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
            |name: &str| index().find(name.as_bytes()).meaning().map(|(_, meaning, star)| (meaning, star));
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
