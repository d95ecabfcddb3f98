//! A gate in front of a [tower](tower_service) service.
//!
//! [`GateLayer::new`] is for services whose requests are all the same kind of call. It asks for a permit in
//! `poll_ready`, so that whoever balances, buffers or sheds load in front of it sees that there is no room,
//! before there is a request:
//!
//! ```text
//!  poll_ready ──► inner service ready? ──► permit? ──► Ready ──► call ──► reply: the permit learns from it
//!                                            │           └─► never called: all of it back
//!                                            └─► refused: Ready all the same, and the call gets the refusal
//! ```
//!
//! [`GateLayer::for_requests`] is for services whose requests differ, in their model, their cost or their
//! priority. There is no call before there is a request, so it asks inside `call`: every request is let in and
//! waits there, ranked among all others, and `poll_ready` no longer holds anybody back. Where that could be too
//! many, the gate's `max_waiting` bounds them.
//!
//! What both promise:
//!
//! - The limits are in the [`Gate`](crate::Gate), outside of the service. Clones of a service share them and
//!   nothing else: each waits by itself and holds a permit of its own.
//! - The inner service is asked first, so no permit is held while that one is busy. A permit that waits for its
//!   call is given back whole if the inner service fails or the service is dropped.
//! - The permit ends with the reply's head: [`HttpReply`] tells the gate its status and headers, any closure
//!   what else it knows. An error is a call without an answer. A panic or a dropped future frees the slot and
//!   keeps the cost.
//! - A refusal is an error of the call and not of `poll_ready`: that would mean that the service is broken for
//!   good, and tower's `Buffer` would close over a single timeout. It is a [`Refused`](crate::Refused), boxed.
//!
//! ```
//! use http::{Request, Response};
//! use tidegate::tower::GateLayer;
//! use tidegate::{Call, Config, Gate};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let gate = Gate::from_config(Config::parse("[services.openai]\nrequests = \"500/min\"\n")?).await?;
//! let client = service_fn(|_: Request<String>| async { Ok::<_, std::io::Error>(Response::new("fine")) });
//!
//! let limited = ServiceBuilder::new().layer(GateLayer::new(gate, Call::to("openai"))).service(client);
//! let reply = limited.oneshot(Request::new("hello".to_owned())).await?;
//! assert_eq!(reply.into_body(), "fine");
//! # Ok(())
//! # }
//! ```

mod ahead;
mod answer;
mod outcome;
mod per_request;

pub use ahead::{GateLayer, Gated};
pub use answer::Answer;
pub use outcome::{HttpReply, ReadOutcome};
pub use per_request::{GatedPerRequest, PerRequestLayer};

/// What a limited service fails with: the inner service's error, or a [`Refused`](crate::Refused).
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
