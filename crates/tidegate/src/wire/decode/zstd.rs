//! zstd, frame by frame and block by block (RFC 8878): `ruzstd` reads whole blocks, so they are gathered first.

use std::io;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{Coder, Queue};

/// The largest window (RFC 9659).
const MAX_WINDOW: u64 = 8 << 20;
/// The largest block.
const MAX_BLOCK: usize = 128 << 10;

pub(super) struct Zstd {
    decoder: Box<FrameDecoder>,
    /// What has come of the next head or block.
    pending: Vec<u8>,
    /// The frame that is read.
    frame: Option<Header>,
    /// The largest window that there is memory for.
    window: u64,
    /// So many bytes are passed over.
    skip: usize,
    out: Queue,
}

/// The head of a frame.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub window: u64,
    length: usize,
    has_checksum: bool,
    skippable: bool,
}

impl Header {
    /// Reads a head; none if it is not there as a whole.
    pub fn read(bytes: &[u8]) -> io::Result<Option<Header>> {
        let number = |at: usize, length: usize| {
            let bytes = bytes.get(at..at + length)?;
            Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
        };
        let Some(magic) = number(0, 4) else { return Ok(None) };
        if magic & 0xffff_fff0 == 0x184d_2a50 {
            let Some(length) = number(4, 4) else { return Ok(None) };
            let length = 8 + usize::try_from(length).unwrap_or(usize::MAX - 8);
            return Ok(Some(Header { window: 0, length, has_checksum: false, skippable: true }));
        }
        let Some(&descriptor) = bytes.get(4) else { return Ok(None) };
        let single = descriptor & 0x20 != 0;
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size = match (descriptor >> 6, single) {
            (0, false) => 0,
            (0, true) => 1,
            (which, _) => 1 << which,
        };
        let length = 5 + usize::from(!single) + dictionary + size;
        if bytes.len() < length {
            return Ok(None);
        }
        let window = if single {
            let stated = number(length - size, size).unwrap_or(0);
            if size == 2 { stated + 256 } else { stated }
        } else {
            let (exponent, mantissa) = (bytes[5] >> 3, u64::from(bytes[5] & 7));
            let base = 1_u64 << (10 + exponent);
            base + base / 8 * mantissa
        };
        if magic != 0xfd2f_b528 || window > MAX_WINDOW {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let has_checksum = descriptor & 4 != 0;
        Ok(Some(Header { window, length, has_checksum, skippable: false }))
    }
}

impl Zstd {
    pub fn new(out: Queue, window: u64) -> Zstd {
        let decoder = Box::new(FrameDecoder::new());
        Zstd { decoder, pending: Vec::new(), frame: None, window, skip: 0, out }
    }

    /// Reads the next head or block; returns whether it was there as a whole.
    fn next(&mut self) -> io::Result<bool> {
        match self.frame {
            None => self.head(),
            Some(frame) => self.block(frame),
        }
    }

    fn head(&mut self) -> io::Result<bool> {
        let Some(frame) = Header::read(&self.pending)? else { return Ok(false) };
        if frame.skippable {
            self.skip = frame.length;
            return Ok(true);
        }
        if frame.window > self.window {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.decoder.reset(&self.pending[..frame.length]).map_err(io::Error::other)?;
        self.pending.drain(..frame.length);
        self.frame = Some(frame);
        Ok(true)
    }

    fn block(&mut self, frame: Header) -> io::Result<bool> {
        let [a, b, c, ..] = self.pending[..] else { return Ok(false) };
        let head = u32::from_le_bytes([a, b, c, 0]);
        let (last, kind, size) = (head & 1 == 1, head >> 1 & 3, (head >> 3) as usize);
        if size > MAX_BLOCK {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // A block of one byte that is repeated is that byte.
        let length = 3 + if kind == 1 { 1 } else { size } + if last && frame.has_checksum { 4 } else { 0 };
        let Some(block) = self.pending.get(..length) else { return Ok(false) };
        self.decoder.decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1)).map_err(io::Error::other)?;
        self.pending.drain(..length);
        self.decoder.collect_to_writer(&mut self.out)?;
        if last {
            self.frame = None;
        }
        Ok(true)
    }
}

impl Coder for Zstd {
    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        loop {
            let skipped = self.skip.min(self.pending.len());
            self.pending.drain(..skipped);
            self.skip -= skipped;
            if self.pending.is_empty() || self.skip > 0 || !self.next()? {
                return Ok(());
            }
        }
    }

    fn out(&mut self) -> &mut Queue {
        &mut self.out
    }
}
