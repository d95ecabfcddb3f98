//! The share of each caller of the permit table, so that one caller cannot use it up. Memory for bodies is shared between
//! the same callers ([`tidegate::wire::Memory`]).
//!
//! Rule: a caller may take as many permits as it leaves free. It is applied level by level. A caller is its token, else the
//! network and the address that it calls from, else the Unix socket; below that it is its loop. A loop id is chosen by the
//! caller, so its share is a part of its token's or address's share, and 65,536 loop names get no more than one caller
//! does. An IPv6 /64 is a network, since one caller may use all of its addresses. The loopback addresses are one caller: a
//! program may use any of them.
//!
//! With a table of M permits and one greedy caller this comes to M/2 for a token, this machine or a network, M/4 for one
//! address of a network or one loop of a token or of this machine, and M/8 for one loop of an address of a network. What is
//! left is shared by the same rule, so the next caller finds half of what is free.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

/// The owner of a share: a caller and one of its loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareOwner {
    origin: Origin,
    loop_id: Option<Arc<str>>,
}

/// The origin of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Token(Arc<str>),
    Address(IpAddr),
    Socket,
}

/// A level at which permits are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    Network(IpAddr),
    Origin(Origin),
    /// By the hash of the name, since names have any length. Two loops with one hash share a share.
    Loop(Origin, u64),
}

/// How many permits are out, by level.
#[derive(Debug, Default)]
pub(super) struct Shares {
    held: HashMap<Level, usize>,
}

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The share of a caller is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    who: String,
    held: usize,
    free: usize,
}

impl ShareOwner {
    pub fn new(origin: Origin, loop_id: Option<&str>) -> ShareOwner {
        ShareOwner { origin, loop_id: loop_id.map(Into::into) }
    }

    /// Returns the levels at which the owner is counted, the widest first: two or three.
    pub fn levels(&self) -> impl Iterator<Item = Level> {
        let ShareOwner { origin, loop_id } = self;
        let (network, address) = match origin {
            Origin::Address(address) if address.to_canonical().is_loopback() => {
                (Some(Level::Network(Ipv4Addr::LOCALHOST.into())), None)
            }
            Origin::Address(address) => (network(*address), Some(Level::Origin(origin.clone()))),
            Origin::Token(_) | Origin::Socket => (None, Some(Level::Origin(origin.clone()))),
        };
        let own = Level::Loop(origin.clone(), HASHER.hash_one(loop_id));
        network.into_iter().chain(address).chain([own])
    }
}

impl Shares {
    /// Checks whether an owner may have one more permit of a table with `free` free places.
    pub fn admits(&self, share_owner: &ShareOwner, mut free: usize) -> Result<(), Full> {
        for level in share_owner.levels() {
            let held = self.held.get(&level).copied().unwrap_or(0);
            if held >= free {
                return Err(Full { who: level.name(share_owner), held, free });
            }
            // The caller may take this many more until it holds as many as are free.
            free = (free - held).div_ceil(2);
        }
        Ok(())
    }

    pub fn add(&mut self, levels: &[Level]) {
        for level in levels {
            *self.held.entry(level.clone()).or_default() += 1;
        }
    }

    pub fn remove(&mut self, levels: &[Level]) {
        for level in levels {
            if let Some(held) = self.held.get_mut(level) {
                *held -= 1;
                if *held == 0 {
                    self.held.remove(level);
                }
            }
        }
    }

    /// Returns whether nothing is counted.
    #[cfg(test)]
    pub fn are_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Level {
    fn name(&self, share_owner: &ShareOwner) -> String {
        match (self, &share_owner.loop_id) {
            (Level::Network(address), _) if address.is_loopback() => "this machine".into(),
            (Level::Network(_), _) => "callers of this network".into(),
            (Level::Origin(origin), _) => origin.to_string(),
            (Level::Loop(origin, _), Some(loop_id)) => {
                let name: String = loop_id.chars().take(80).collect();
                format!("the loop `{name}` of {origin}")
            }
            (Level::Loop(origin, _), None) => format!("{origin} without a loop"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Token(holder) => write!(f, "the token `{holder}`"),
            Origin::Address(address) => write!(f, "{address}"),
            Origin::Socket => f.write_str("the Unix socket"),
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full { who, held, free } = self;
        write!(
            f,
            "{who} holds {held} permits, and may hold as many as it leaves free for others ({free}): complete some, or \
             wait until they expire"
        )
    }
}

/// Returns the network of an address, if a caller may choose among many addresses of it.
fn network(address: IpAddr) -> Option<Level> {
    match address.to_canonical() {
        IpAddr::V6(address) => Some(Level::Network(Ipv6Addr::from(u128::from(address) >> 64 << 64).into())),
        IpAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: usize = 65_536;

    /// A table from which owners take permits until their share is used up.
    #[derive(Default)]
    struct Table {
        shares: Shares,
        total: usize,
    }

    impl Table {
        fn take(&mut self, share_owner: &ShareOwner) -> Result<(), Full> {
            self.shares.admits(share_owner, TABLE - self.total)?;
            let levels: Vec<Level> = share_owner.levels().collect();
            self.shares.add(&levels);
            self.total += 1;
            Ok(())
        }

        fn take_all(&mut self, share_owner: &ShareOwner) -> usize {
            (0..).take_while(|_| self.take(share_owner).is_ok()).count()
        }
    }

    fn at(address: &str) -> Origin {
        Origin::Address(address.parse().expect("an address"))
    }

    fn token(holder: &str) -> Origin {
        Origin::Token(holder.into())
    }

    #[test]
    fn a_caller_may_take_as_many_as_it_leaves_free() {
        for (origin, most) in [
            (token("ci"), TABLE / 4),
            (at("10.0.0.1"), TABLE / 4),
            (at("127.0.0.1"), TABLE / 4),
            (at("fd00::2"), TABLE / 8),
            (Origin::Socket, TABLE / 4),
        ] {
            let mut table = Table::default();
            assert_eq!(table.take_all(&ShareOwner::new(origin.clone(), None)), most, "{origin}");
            let full = table.take(&ShareOwner::new(origin.clone(), None)).expect_err("its share is used up");
            assert!(
                full.to_string().starts_with(&format!("{origin} without a loop holds {most} permits")),
                "{full}"
            );
            for other in [token("other"), at("10.0.0.2"), at("fd00::1"), Origin::Socket] {
                if other != origin {
                    assert_eq!(table.take(&ShareOwner::new(other, None)), Ok(()));
                }
            }
        }
    }

    #[test]
    fn loop_names_and_addresses_that_a_caller_makes_up_get_no_more_than_one_caller_does() {
        let mut table = Table::default();
        let by_loop = |n: usize| ShareOwner::new(token("ci"), Some(&n.to_string()));
        let taken = (0..TABLE).filter(|n| table.take(&by_loop(*n)).is_ok()).count();
        assert_eq!(taken, TABLE / 2);
        assert_eq!(table.take(&ShareOwner::new(at("127.0.0.1"), None)), Ok(()));

        for address in [
            |n: u32| format!("127.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255),
            |n: u32| format!("fd00::{n:x}"),
        ] {
            let mut table = Table::default();
            for n in 1..TABLE as u32 {
                let _ = table.take(&ShareOwner::new(at(&address(n)), Some(&n.to_string())));
            }
            assert_eq!(table.total, TABLE / 2);
            assert_eq!(table.take(&ShareOwner::new(token("ci"), None)), Ok(()));
            assert_eq!(table.take(&ShareOwner::new(Origin::Socket, None)), Ok(()));
        }
    }

    #[test]
    fn one_loop_of_an_address_leaves_room_for_the_others() {
        let mut table = Table::default();
        let by = |name: &str| ShareOwner::new(at("127.0.0.1"), Some(name));
        assert_eq!(table.take_all(&by("greedy")), TABLE / 4);
        assert!(table.take_all(&by("also-greedy")) > TABLE / 16);
        assert_eq!(table.take(&by("modest")), Ok(()));
        assert_eq!(table.take(&ShareOwner::new(at("127.0.0.2"), None)), Ok(()));
    }

    #[test]
    fn what_is_given_back_may_be_taken_again() {
        let (mut shares, share_owner) = (Shares::default(), ShareOwner::new(Origin::Socket, None));
        let levels: Vec<Level> = share_owner.levels().collect();
        shares.add(&levels);
        assert!(shares.admits(&share_owner, 1).is_err());
        shares.remove(&levels);
        assert!(shares.admits(&share_owner, 1).is_ok() && shares.are_empty());
    }
}
