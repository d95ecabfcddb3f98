//! What HTTP requests and replies say to a gate, whoever carries them.
//!
//! Whoever puts a gate in front of HTTP needs the same three things: which call a request is ([`Shown`]), what an
//! attempt came to by its reply ([`judge`]), and a permit that goes with the reply's body until that has ended
//! ([`ReplyBody`]). The `reqwest` middleware and the sidecar are made of these; so may be what you write.
//!
//! **Which call a request is.** What was stated of it; where that leaves something open the request shows it: the
//! endpoint is its method and path, the model and the likely tokens stand in its JSON body, the key in its headers.
//! A body that cannot be read as a whole ([`Content`]) still counts by its length, as the config says.
//!
//! **What a reply means.** The head of a reply is not the end of its call: an upstream counts a stream as in flight
//! until its last event, and says what it cost in it. So the permit goes along with the body, which looks at the
//! bytes as they pass and holds nothing back. Errors are short and decide about the next attempt, so the beginning
//! of their body is read before that, and replayed. Where a vendor may refuse inside a stream that began with a
//! status of 200, its first event is waited for and read in the same way.

mod asked;
mod cost;
mod decode;
mod judge;
mod memory;
mod reply;

pub use asked::{Content, Shown};
pub use cost::Meaning;
pub use judge::judge;
pub use memory::{Memory, Owners, Share};
pub use reply::ReplyBody;
