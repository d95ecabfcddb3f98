//! A gate in front of tower services, on paused time.

mod ahead;
mod every_poll;
mod per_request;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::tower::{BoxError, GateLayer, Gated};
use tidegate::{Call, Config, Gate, Outcome};
use tower::{Layer, Service};

use upstream::{Ask, Reply, Upstream};

/// One slot and a hundred tokens an hour.
fn gate() -> Gate {
    let config = "[services.api]\nconcurrency = 1\ntokens = { limit = \"100/h\", burst = 100 }\n";
    Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid")
}

fn call() -> Call {
    Call::to("api").tokens(10)
}

/// A service of which every request reserves ten tokens and then says what it cost.
fn gated(gate: &Gate, upstream: &Upstream) -> Gated<Upstream, fn(&Reply) -> Outcome> {
    let cost: fn(&Reply) -> Outcome = |reply| Outcome::done().tokens(reply.tokens);
    GateLayer::new(gate.clone(), call()).outcome(cost).layer(upstream.clone())
}

/// What is in flight, and how many tokens are spent.
fn used(gate: &Gate) -> (u64, u64) {
    let used = |name| gate.limit(name).expect("known").used;
    (used("api/concurrency"), used("api/tokens/1h"))
}

/// Whether the service is ready now.
fn is_ready<S: Service<Ask, Error = BoxError>>(service: &mut S) -> Option<Result<(), BoxError>> {
    look(service, &Arc::default())
}

fn look<S: Service<Ask, Error = BoxError>>(
    service: &mut S,
    wakes: &Arc<Wakes>,
) -> Option<Result<(), BoxError>> {
    let waker = Waker::from(wakes.clone());
    match service.poll_ready(&mut Context::from_waker(&waker)) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
