//! A disk that loses power.
//!
//! A file that is appended to. What was written may be lost in a crash, wholly or in part, and part of it may come
//! back as garbage, until it was synced; what was synced stays. Records carry their length and a checksum, so a torn
//! one is known as such, and nothing after it is read.

use crate::Dice;

/// The file, and how much of it survives a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    bytes: Vec<u8>,
    durable: usize,
}

const HEAD: usize = 16;

impl Disk {
    /// The record as it stands in the file.
    pub fn framed(record: &[u8]) -> Vec<u8> {
        let mut framed = (record.len() as u64).to_le_bytes().to_vec();
        framed.extend(checksum(record).to_le_bytes());
        framed.extend(record);
        framed
    }

    pub fn append(&mut self, part: &[u8]) {
        self.bytes.extend(part);
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What was written after `len` was in vain.
    pub fn cut_to(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.durable = self.durable.min(len);
    }

    pub fn sync(&mut self) {
        self.durable = self.bytes.len();
    }

    /// The power goes. Of what was not synced a part may be there, and the end of that may be garbage.
    pub fn crash(&mut self, dice: &mut Dice) {
        let unsynced = self.bytes.len() - self.durable;
        let kept = self.durable + dice.below(unsynced as u64 + 1) as usize;
        self.bytes.truncate(kept);
        if kept > self.durable && dice.below(2) == 0 {
            let at = self.durable + dice.below((kept - self.durable) as u64) as usize;
            self.bytes[at] ^= 1 << dice.below(8);
        }
        let whole = self.records().iter().fold(0, |sum, record| sum + HEAD + record.len());
        self.bytes.truncate(whole);
        self.sync();
    }

    /// The records that are whole, oldest first.
    pub fn records(&self) -> Vec<&[u8]> {
        let mut records = Vec::new();
        let mut rest = self.bytes.as_slice();
        while let Some((head, after)) = rest.split_at_checked(HEAD) {
            let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
            let length = usize::try_from(number(0)).unwrap_or(usize::MAX);
            let Some((record, after)) = after.split_at_checked(length) else { break };
            if checksum(record) != number(8) {
                break;
            }
            records.push(record);
            rest = after;
        }
        records
    }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_is_there_and_the_rest_is_a_prefix() {
        for seed in 0..2_000 {
            let mut dice = Dice::new(seed);
            let mut disk = Disk::default();
            for n in 0..5_u8 {
                disk.append(&Disk::framed(&vec![n; usize::from(n) * 7]));
                if n == 1 {
                    disk.sync();
                }
            }
            disk.crash(&mut dice);
            let records = disk.records();
            assert!(records.len() >= 2, "seed {seed}");
            assert!(records.iter().zip(0..).all(|(record, n)| record.iter().all(|byte| *byte == n)));
        }
    }
}
