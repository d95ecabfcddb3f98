//! A gate in front of a `reqwest` client, as a middleware.
//!
//! ```
//! use reqwest_middleware::ClientBuilder;
//! use tidegate::reqwest::Limited;
//! use tidegate::{Call, Config, Gate, Priority};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let spec = tidegate_sim::UpstreamSpec::default();
//! # let server = tidegate_sim::upstream::http::LimitedServer::start(&spec, Default::default()).await?;
//! # let url = server.url();
//! let config = Config::parse("[services.openai]\npreset = \"openai\"\nrequests = \"500/min\"\n")?;
//! let gate = Gate::from_config(config).await?;
//! let client = ClientBuilder::new(reqwest::Client::new())
//!     .with(Limited::new(gate, Call::to("openai")))
//!     .build();
//!
//! let reply = client
//!     .post(format!("{url}/v1/chat/completions"))
//!     .body(r#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "What is the sea?"}]}"#)
//!     .with_extension(Call::to("openai").loop_id("agent-7").priority(Priority::High))
//!     .send()
//!     .await?;
//! assert!(reply.status().is_success());
//! # Ok(())
//! # }
//! ```
//!
//! **Which call a request is.** The [`Call`](crate::Call) in its extensions, else the one that the middleware was
//! made with. Where that leaves something open the request shows it: the endpoint is its method and path, the model
//! and the likely tokens stand in its JSON body, the key in its headers.
//!
//! **Trying again.** By the service's retry rules, as [`Gate::execute`](crate::Gate::execute) does: after a 429
//! with what its `Retry-After` or its body says, after a 5xx or a broken connection only what does no harm twice
//! (by its method, its `Idempotency-Key`, the preset, or [`Limited::repeatable`]). Each attempt gets the same
//! body. A body that is a stream exists only once, so such a request is sent once.
//! It cannot be read either: the service's `unread` says whether it is refused, or counts by its length (64 KiB if that
//! is not known). A call that states its model and tokens needs no such guess.
//!
//! **What comes back.** The reply, whatever its status: after the last attempt the upstream's own word is worth
//! more than ours. Its extensions hold [`Attempts`]. If the gate does not let the request go it is an
//! [`Error::Middleware`](reqwest_middleware::Error::Middleware) with a [`Refused`](crate::Refused) inside:
//! `error.downcast_ref::<Refused>()`.
//!
//! **What it cost.** The permit goes with the reply's body and ends with it. JSON is settled by the usage in it,
//! and a stream of events by the usage that passes; both reach the caller unchanged and as they come. Where no
//! usage is said, or the body is dropped before its end, what was reserved stays spent.

mod limited;
mod reply;

pub use limited::{Attempts, Limited};
