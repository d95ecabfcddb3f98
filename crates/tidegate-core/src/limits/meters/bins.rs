//! What a sliding window has counted in the slots before its current one, oldest first.
//!
//! A window counts few units as a rule, and every one of a million loops may have one, so an entry takes two
//! bytes: the lower eight bits of its slot's number, and up to 255 units. A slot with more has several. Eight
//! bits are enough because the window forgets what has expired before it opens a slot, and what has not is at
//! most 256 slots older than that one. The first few lie in the window itself: among a million loops a decision waits for
//! memory more than for anything else, and so there is one place less to go to. Where units come by the thousand an entry
//! is sixteen bytes.

use std::collections::VecDeque;

/// Entries that a slot may have before all are widened.
const MOST_ENTRIES: u64 = 8;

/// As many entries as there is room for where a vector would lie.
const FEW: usize = 7;

/// Units by slot. Every function is told the window's `current` slot, which is younger than all of these.
#[derive(Clone, Debug)]
pub(super) enum Slots {
    Few(u8, [Entry; FEW]),
    Small(Vec<Entry>),
    #[allow(clippy::box_collection, reason = "inside, it would make the window of every loop larger")]
    Large(Box<VecDeque<(u64, u64)>>),
}

/// The lower bits of a slot, and its units.
type Entry = (u8, u8);

impl Slots {
    pub fn new() -> Slots {
        Slots::Few(0, [(0, 0); FEW])
    }

    /// The entries of two bytes; those of sixteen, if there are none.
    #[inline]
    fn entries(&self) -> Result<&[Entry], &VecDeque<(u64, u64)>> {
        match self {
            Slots::Few(len, entries) => Ok(&entries[..usize::from(*len)]),
            Slots::Small(entries) => Ok(entries),
            Slots::Large(entries) => Err(entries),
        }
    }

    /// The oldest slot.
    pub fn first(&self, current: u64) -> Option<u64> {
        match self.entries() {
            Ok(entries) => entries.first().map(|(low, _)| whole(current, *low)),
            Err(entries) => entries.front().map(|(slot, _)| *slot),
        }
    }

    /// Slots and their units, oldest first. A slot may come several times.
    pub fn iter(&self, current: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let (small, large) = match self.entries() {
            Ok(entries) => (entries, None),
            Err(entries) => (&[] as &[Entry], Some(entries)),
        };
        let widened = move |&(low, units): &Entry| (whole(current, low), u64::from(units));
        small.iter().map(widened).chain(large.into_iter().flat_map(|all| all.iter().copied()))
    }

    /// Adds the current slot, which is about to be closed.
    pub fn push(&mut self, current: u64, units: u64) {
        if units > MOST_ENTRIES * 255 {
            self.widen(current);
        }
        if let Slots::Large(entries) = self {
            entries.push_back((current, units));
            return;
        }
        let mut left = units;
        while left > 0 {
            let part = left.min(255);
            self.push_entry((current as u8, part as u8));
            left -= part;
        }
    }

    fn push_entry(&mut self, entry: Entry) {
        match self {
            Slots::Few(len, entries) if usize::from(*len) < FEW => {
                entries[usize::from(*len)] = entry;
                *len += 1;
            }
            Slots::Few(_, few) => {
                let mut entries = Vec::with_capacity(2 * (FEW + 1));
                entries.extend_from_slice(few);
                entries.push(entry);
                *self = Slots::Small(entries);
            }
            Slots::Small(entries) => entries.push(entry),
            Slots::Large(_) => {}
        }
    }

    /// Forgets the oldest as long as `expired` says so, and says how many units they had.
    pub fn forget(&mut self, current: u64, expired: impl Fn(u64) -> bool) -> u64 {
        let old =
            |entries: &[Entry]| entries.iter().take_while(|(low, _)| expired(whole(current, *low))).count();
        let units_of = |entries: &[Entry]| entries.iter().map(|(_, units)| u64::from(*units)).sum();
        match self {
            Slots::Few(len, entries) => {
                let gone = old(&entries[..usize::from(*len)]);
                let units = units_of(&entries[..gone]);
                entries.copy_within(gone.., 0);
                *len -= gone as u8;
                units
            }
            Slots::Small(entries) => {
                let gone = old(entries);
                let units = units_of(&entries[..gone]);
                entries.drain(..gone);
                units
            }
            Slots::Large(entries) => {
                let gone = entries.iter().take_while(|(slot, _)| expired(*slot)).count();
                entries.drain(..gone).fold(0, |sum, (_, units)| sum.saturating_add(units))
            }
        }
    }

    /// Takes up to `units` away from a slot, and says how many it had.
    pub fn refund(&mut self, current: u64, slot: u64, units: u64) -> u64 {
        let entries = match self {
            Slots::Few(len, entries) => &mut entries[..usize::from(*len)],
            Slots::Small(entries) => entries,
            Slots::Large(entries) => {
                let found = entries.binary_search_by_key(&slot, |(slot, _)| *slot);
                let Ok(index) = found else { return 0 };
                let back = units.min(entries[index].1);
                entries[index].1 -= back;
                return back;
            }
        };
        if current - slot > 256 {
            // Older slots have the same lower bits as one of these.
            return 0;
        }
        let mut left = units;
        let first = entries.partition_point(|(low, _)| whole(current, *low) < slot);
        for (_, held) in entries[first..].iter_mut().take_while(|(low, _)| *low == slot as u8) {
            let back = left.min(u64::from(*held));
            *held -= back as u8;
            left -= back;
        }
        units - left
    }

    /// From now on sixteen bytes an entry.
    pub fn widen(&mut self, current: u64) {
        if self.entries().is_ok() {
            let mut entries: VecDeque<(u64, u64)> = VecDeque::new();
            for (slot, units) in self.iter(current) {
                match entries.back_mut() {
                    Some((last, held)) if *last == slot => *held += units,
                    _ => entries.push_back((slot, units)),
                }
            }
            *self = Slots::Large(Box::new(entries));
        }
    }
}

/// The slot with these lower bits among the 256 before the current one.
fn whole(current: u64, low: u8) -> u64 {
    let last = current.saturating_sub(1);
    last.saturating_sub(u64::from((last as u8).wrapping_sub(low)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By slot, those without units left out.
    fn sums(slots: &Slots, current: u64) -> Vec<(u64, u64)> {
        let mut copy = slots.clone();
        copy.widen(current);
        copy.iter(current).filter(|(_, units)| *units > 0).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn two_bytes_remember_what_sixteen_do(
            steps in prop::collection::vec((0_u64..260, 1_u64..=MOST_ENTRIES * 255, 0_u64..300), 1..400),
            start in 0_u64..1 << 54,
        ) {
            let (mut small, mut large) = (Slots::new(), Slots::new());
            large.widen(start);
            let mut current = start;
            for (age, units, step) in steps {
                // Steps of one slot as a rule, and far ones now and then.
                let next = current + if step < 256 { 1 } else { (step - 255) * 8 };
                for slots in [&mut small, &mut large] {
                    slots.forget(current, |slot| next - slot > 256);
                }
                if next - current <= 256 {
                    small.push(current, units);
                    large.push(current, units);
                }
                current = next;
                prop_assert_eq!(small.first(current), large.first(current));
                if age > 0 && age <= current {
                    let refund = |slots: &mut Slots| slots.refund(current, current - age, units / 2);
                    prop_assert_eq!(refund(&mut small), refund(&mut large));
                }
                prop_assert_eq!(sums(&small, current), sums(&large, current));
            }
            prop_assert!(small.entries().is_ok());
        }
    }

    /// A million loops have a window each.
    #[test]
    fn the_first_few_take_no_room() {
        assert_eq!(size_of::<Slots>(), size_of::<Vec<Entry>>());
    }

    #[test]
    fn what_is_too_much_for_bytes_is_widened_and_kept() {
        let mut slots = Slots::new();
        slots.push(7, MOST_ENTRIES * 255);
        slots.push(8, MOST_ENTRIES * 255 + 1);
        assert!(matches!(slots, Slots::Large(_)));
        assert_eq!(sums(&slots, 9), [(7, 2_040), (8, 2_041)]);
    }
}
