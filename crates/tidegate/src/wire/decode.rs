//! Compressed bodies, read as they pass.
//!
//! Upstreams are asked not to compress what has to be read; some do all the same. A [`Decoder`] is fed the bytes as they
//! pass and gives out what they stand for. What passes is not changed.
//!
//! Bodies come from outside, so both costs are bounded. **Memory**: a window of at most 32 KiB (gzip, deflate), 16 MiB (br)
//! or 8 MiB (zstd, as RFC 9659 has it), which is taken from the budget of all bodies before anything is decoded. A stream
//! that wants a larger one is not read, nor is one that the budget has no room for. **Time**: only so much is given out, so a
//! small body that stands for a large one ends there. A body that cannot be decoded any further is no error: what was
//! given out before counts.
//!
//! The zstd decoder gives out what has left its window, and the rest when a frame has ended. So the usage at the end of a
//! stream is seen, and its first event is not seen early ([`Coding::is_prompt`]).

mod zstd;

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::memory::Share;
use zstd::Zstd;

/// The most that a reply may stand for.
pub(super) const MAX_DECODED: u64 = 64 << 20;
/// What a decoder needs beside its window.
const OVERHEAD: u64 = 128 << 10;
/// The most memory that a decoder takes: the largest window, which is brotli's, and what it needs beside it.
pub(super) const MAX_DECODER: u64 = (16 << 20) + OVERHEAD;
/// So much is decoded in one step.
const STEP: usize = 1 << 10;
/// A step that stands for more is not meant to be read.
const MAX_STEP: usize = 4 << 20;
/// Buffers of more are given back after a step.
const KEPT: usize = 64 << 10;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Not at all.
    Plain,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
    /// In a way that is not known, or in two.
    Other,
}

impl Coding {
    /// Reads how a body under these headers is compressed.
    pub fn of(headers: &HeaderMap) -> Coding {
        let mut coding = Coding::Plain;
        for value in headers.get_all(CONTENT_ENCODING) {
            for name in value.to_str().unwrap_or("?").split(',').map(str::trim) {
                let named = match name.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Coding::Gzip,
                    "deflate" => Coding::Deflate,
                    "br" => Coding::Brotli,
                    "zstd" => Coding::Zstd,
                    _ => Coding::Other,
                };
                coding = if coding == Coding::Plain { named } else { Coding::Other };
            }
        }
        coding
    }

    /// Returns whether what a body says is known as soon as its bytes are there.
    pub fn is_prompt(self) -> bool {
        self != Coding::Zstd
    }
}

/// Decodes a body.
pub(super) struct Decoder {
    state: State,
    /// How much it may still give out.
    left: u64,
}

enum State {
    /// The window is not known yet.
    Begin { coding: Coding, head: Vec<u8>, share: Share },
    Under {
        coder: Box<dyn Coder>,
        /// The memory that the coder takes.
        _share: Share,
    },
    /// Nothing more can be read.
    Over,
}

/// A decoder of one kind.
trait Coder: Send + Sync {
    fn feed(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn out(&mut self) -> &mut Queue;
}

/// What was decoded and not yet given out.
#[derive(Default)]
struct Queue(Vec<u8>);

impl Write for Queue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_STEP {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! writes {
    ($($decoder:ident),*) => {$(
        impl Coder for $decoder<Queue> {
            fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
                self.write_all(bytes)?;
                self.flush()
            }

            fn out(&mut self) -> &mut Queue {
                self.get_mut()
            }
        }
    )*};
}
writes!(DecompressorWriter, DeflateDecoder, MultiGzDecoder, ZlibDecoder);

impl Decoder {
    /// Decodes with memory from `share`, and gives out no more than `most` bytes.
    pub fn new(coding: Coding, share: Share, most: u64) -> Decoder {
        Decoder { state: State::Begin { coding, head: Vec::new(), share }, left: most }
    }

    /// Takes in the next bytes, cut wherever they were cut, and gives out what they stand for.
    pub fn push(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        if !matches!(self.state, State::Begin { .. }) {
            return self.feed(bytes, give);
        }
        let State::Begin { coding, mut head, share } = std::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        head.extend_from_slice(bytes);
        self.state = begin(coding, &head, share);
        match &mut self.state {
            State::Begin { head: kept, .. } => *kept = head,
            _ => self.feed(&head, give),
        }
    }

    /// Returns whether nothing more can be read.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    fn feed(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        for step in bytes.chunks(STEP) {
            let State::Under { coder, .. } = &mut self.state else { return };
            let fed = coder.feed(step);
            let out = &mut coder.out().0;
            let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
            if most > 0 {
                give(&out[..most]);
            }
            self.left -= most as u64;
            out.clear();
            out.shrink_to(KEPT);
            if fed.is_err() || self.left == 0 {
                self.state = State::Over;
            }
        }
    }
}

/// Makes a decoder for a body that begins so, once its window is known and there is memory for it.
fn begin(coding: Coding, head: &[u8], mut share: Share) -> State {
    let Some(&first) = head.first() else { return State::Begin { coding, head: Vec::new(), share } };
    let window = match coding {
        Coding::Plain | Coding::Other => None,
        Coding::Gzip | Coding::Deflate => Some(32 << 10),
        Coding::Brotli => brotli_window(first),
        Coding::Zstd => match zstd::Header::read(head) {
            Ok(Some(header)) => Some(header.window),
            Ok(None) => return State::Begin { coding, head: Vec::new(), share },
            Err(_) => None,
        },
    };
    let Some(window) = window.filter(|window| share.grow(window + OVERHEAD)) else { return State::Over };
    let out = Queue::default();
    let coder: Box<dyn Coder> = match coding {
        Coding::Gzip => Box::new(MultiGzDecoder::new(out)),
        // Some servers send the bare stream, without the head that RFC 9110 asks for.
        Coding::Deflate if first & 0x0f == 8 && first >> 4 <= 7 => Box::new(ZlibDecoder::new(out)),
        Coding::Deflate => Box::new(DeflateDecoder::new(out)),
        Coding::Brotli => Box::new(DecompressorWriter::new(out, 4 << 10)),
        Coding::Zstd => Box::new(Zstd::new(out, window)),
        Coding::Plain | Coding::Other => return State::Over,
    };
    State::Under { coder, _share: share }
}

/// Returns the window of a brotli stream by its first byte (RFC 7932, section 9.1); none if it is larger than that RFC has it.
fn brotli_window(first: u8) -> Option<u64> {
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, _, _) => 16,
        (_, 0, 0) => 17,
        (_, 0, 1) => return None,
        (_, 0, more) => 8 + more,
        (_, more, _) => 17 + more,
    };
    Some(1 << bits)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Memory, Owners};

    pub fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).expect("in memory");
        encoder.finish().expect("in memory")
    }

    fn deflate(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).expect("in memory");
        encoder.finish().expect("in memory")
    }

    fn bare(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).expect("in memory");
        encoder.finish().expect("in memory")
    }

    pub fn br(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let params = brotli::enc::BrotliEncoderParams::default();
        brotli::BrotliCompress(&mut &text[..], &mut out, &params).expect("in memory");
        out
    }

    pub fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn decoded(coding: Coding, body: &[u8], piece: usize, memory: &Arc<Memory>) -> Vec<u8> {
        let mut decoder = Decoder::new(coding, memory.share(Owners::default()), MAX_DECODED);
        let mut out = Vec::new();
        for bytes in body.chunks(piece) {
            decoder.push(bytes, &mut |plain| out.extend_from_slice(plain));
        }
        out
    }

    type Encode = fn(&[u8]) -> Vec<u8>;
    const ALL: [(Coding, Encode); 5] = [
        (Coding::Gzip, gzip),
        (Coding::Deflate, deflate),
        (Coding::Deflate, bare),
        (Coding::Brotli, br),
        (Coding::Zstd, zstd),
    ];

    #[test]
    fn every_coding_is_read_however_it_is_cut_and_gives_its_memory_back() {
        let memory = Arc::new(Memory::new(64 << 20));
        let text: Vec<u8> =
            (0..60_000_u32).flat_map(|number| format!("{number:x} sea ").into_bytes()).collect();
        for (coding, encode) in ALL {
            let body = encode(&text);
            for piece in [1, 3, 1000, 1 << 20] {
                assert!(decoded(coding, &body, piece, &memory) == text, "{coding:?} in pieces of {piece}");
            }
            assert!(decoded(coding, &encode(b""), 1, &memory).is_empty());
        }
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_small_body_that_stands_for_a_large_one_is_read_to_the_bound_and_without_room_not_at_all() {
        let memory = Arc::new(Memory::new(64 << 20));
        let zeros = vec![0; 8 << 20];
        for (coding, encode) in ALL {
            let body = encode(&zeros);
            let mut decoder = Decoder::new(coding, memory.share(Owners::default()), 1 << 20);
            let mut came = 0;
            decoder.push(&body, &mut |plain| came += plain.len());
            assert!(came <= 1 << 20, "{coding:?}");
            assert!(matches!(decoder.state, State::Over) && memory.used() == 0, "{coding:?}");
            assert!(
                decoded(coding, &body, 1 << 20, &Arc::new(Memory::new(1 << 10))).is_empty(),
                "{coding:?}"
            );
        }
    }

    #[test]
    fn codings_are_known_by_their_names() {
        for (value, coding) in [
            ("gzip", Coding::Gzip),
            ("X-GZip", Coding::Gzip),
            ("identity", Coding::Plain),
            ("identity, br", Coding::Brotli),
            ("zstd", Coding::Zstd),
            ("deflate", Coding::Deflate),
            ("gzip, br", Coding::Other),
            ("compress", Coding::Other),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_ENCODING, value.parse().expect("a value"))]);
            assert_eq!(Coding::of(&headers), coding, "{value}");
        }
        assert_eq!(Coding::of(&HeaderMap::new()), Coding::Plain);
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(
            which in 0..5_usize,
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            noise in prop::collection::vec(any::<u8>(), 0..40),
            piece in 1..60_usize,
        ) {
            let (coding, encode) = ALL[which];
            let mut body = encode(b"{\"usage\": {\"total_tokens\": 5}} sea sea sea sea sea sea");
            for (at, byte) in flips {
                let at = at.index(body.len());
                body[at] ^= byte;
            }
            let memory = Arc::new(Memory::new(64 << 20));
            let _ = decoded(coding, &body, piece, &memory);
            let _ = decoded(coding, &noise, piece, &memory);
            prop_assert_eq!(memory.used(), 0);
        }
    }
}
