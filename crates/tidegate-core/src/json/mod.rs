//! Reading JSON that comes from outside, as far as it can be read.
//!
//! `serde_json` refuses a document as a whole if one part of it is odd: a lone surrogate (JavaScript makes one when it
//! cuts a string), `NaN` (Python writes it), 129 levels of nesting, a byte order mark, a byte that is not UTF-8. Many
//! upstreams accept such a document. A limit that depends on what a body says must not be lost over such a detail, so
//! the [`Scanner`] reports the tokens that are there, in order, and never refuses. [`Scanner::is_json`] tells at the
//! end whether the input was a document or only resembled one.
//!
//! What it promises, whatever the input is:
//!
//! * **Linear time.** Every byte is read a constant number of times, strings with `memchr`.
//! * **Bounded memory.** Nothing is recursive and nothing is allocated: tokens borrow from the input. The kinds of the
//!   first [`Scanner::MAX_DEPTH`] open brackets are a bit set of fixed size; below that depth only their number is known.
//! * **No panic**, and an end.
//!
//! For a document that `serde_json` accepts, the tokens are exactly its values: a property test compares the two.

mod scanner;
mod text;
mod wide;

pub(crate) use scanner::{Scanner, Token};
pub(crate) use text::{Text, quote_or_escape};
pub(crate) use wide::narrow;
