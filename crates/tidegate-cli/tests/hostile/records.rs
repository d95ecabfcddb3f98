//! What the upstreams, the clients and the probes of a world saw, by one monotonic clock.
//!
//! The upstreams write an arrival when the head of a request is parsed, whatever they answer. The clients write what each
//! call was meant to be: the judge never takes the sidecar's word for the endpoint or the model of a call.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A time, counted from the start of the world.
pub type At = Duration;

/// The request header that carries the number of a call to the upstream.
pub const MARK: &str = "x-hostile-call";

/// Everything that was seen in one world.
pub struct Records {
    start: Instant,
    seen: Mutex<Seen>,
}

#[derive(Default)]
pub struct Seen {
    pub arrivals: Vec<Arrival>,
    /// By number.
    pub calls: Vec<Call>,
    /// Calls that measure the transport delay: when each was sent, and when its answer was there.
    pub probes: Vec<(At, Option<At>)>,
    /// The stretches in which the sidecar was stopped by a signal.
    pub pauses: Vec<(At, At)>,
    /// When the sidecar was killed, and when the next one listened.
    pub kills: Vec<(At, At)>,
    /// How many connections were opened on which no request came, or half of one.
    pub idle: usize,
    /// When a service was taken out of the config, and which.
    pub taken_out: Vec<(At, usize)>,
    /// How often the state files were removed.
    pub removals: usize,
    /// What went wrong that needs no further judgement.
    pub faults: Vec<String>,
}

/// A request that reached an upstream, or a permit that reached its client.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    pub at: At,
    /// The service that the upstream belongs to.
    pub service: usize,
    /// The number of its call; absent if it carried no mark.
    pub call: Option<usize>,
    /// What the upstream did with it.
    pub fate: String,
    pub end: Option<End>,
    /// A permit that was deleted: the work was never begun.
    pub given_back: bool,
    /// The tokens that the upstream has served, as its reply states them.
    pub tokens: u64,
    /// When the whole reply was written, if it was.
    pub whole: Option<At>,
}

/// How the upstream was done with a request.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The upstream ended it: the whole reply was written, or the connection cut.
    Ours(At),
    /// The sidecar ended it, and the upstream noticed.
    Theirs(At),
}

impl End {
    pub fn at(self) -> At {
        match self {
            End::Ours(at) | End::Theirs(at) => at,
        }
    }
}

/// What a call is meant to be, by the client that makes it.
#[derive(Clone, Debug, Default)]
pub struct Meant {
    pub service: usize,
    /// Whether it is one of the endpoint that has a limit of its own.
    pub endpoint: bool,
    /// The models that it names, by index.
    pub models: Vec<usize>,
    /// Whether it is of the loop type that has a limit of its own.
    pub background: bool,
    /// The loop that it comes from.
    pub loop_id: Option<usize>,
    /// The API key that it comes with.
    pub key: usize,
    /// The most tokens that it may cost, if it says so in words that can be read.
    pub tokens: Option<u64>,
}

/// A call, as its client sees it.
#[derive(Clone, Debug)]
pub struct Call {
    pub meant: Meant,
    /// What sort of client made it.
    pub client: &'static str,
    /// How long it may wait.
    pub timeout: Duration,
    pub began: At,
    /// When the whole request was handed to the kernel; absent if it was not, since the answer came first or the client kept
    /// some of it back.
    pub sent: Option<At>,
    /// Whether the client means to keep some of it back.
    pub kept_back: bool,
    pub ended: Option<CallEnd>,
    /// How the body of the reply ended, if the client reads it as fast as it comes.
    pub body: Option<BodyEnd>,
}

/// How the body of a reply ended for its client.
#[derive(Clone, Copy, Debug)]
pub enum BodyEnd {
    /// All of it came.
    Whole,
    /// The connection ended first.
    Broken(At),
    /// The rest did not come as long as the client waited.
    Stalled(At),
}

/// How a call ended for its client.
#[derive(Clone, Copy, Debug)]
pub enum CallEnd {
    /// The head of the reply came.
    Answered(At, u16),
    /// The connection ended without one.
    Cut(At),
    /// The client left.
    Left(At),
}

impl Records {
    pub fn new() -> Arc<Records> {
        Arc::new(Records { start: Instant::now(), seen: Mutex::default() })
    }

    pub fn now(&self) -> At {
        self.start.elapsed()
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no holder of the lock panics")
    }

    pub fn fault(&self, what: String) {
        self.seen().faults.push(what);
    }

    /// Begins a call and returns its number.
    pub fn call(&self, client: &'static str, meant: Meant, timeout: Duration) -> usize {
        let began = self.now();
        let mut seen = self.seen();
        let (sent, kept_back, ended, body) = (None, false, None, None);
        seen.calls.push(Call { meant, client, timeout, began, sent, kept_back, ended, body });
        seen.calls.len() - 1
    }

    pub fn call_sent(&self, call: usize) {
        let now = self.now();
        self.seen().calls[call].sent = Some(now);
    }

    /// The client keeps some of the request back.
    pub fn kept_back(&self, call: usize) {
        self.seen().calls[call].kept_back = true;
    }

    pub fn body_ended(&self, call: usize, end: impl FnOnce(At) -> BodyEnd) {
        let now = self.now();
        self.seen().calls[call].body = Some(end(now));
    }

    pub fn call_ended(&self, call: usize, end: impl FnOnce(At) -> CallEnd) {
        let now = self.now();
        self.seen().calls[call].ended = Some(end(now));
    }

    /// All clients are gone, and with them the calls that they made.
    pub fn all_left(&self) {
        let now = self.now();
        for call in &mut self.seen().calls {
            call.ended.get_or_insert(CallEnd::Left(now));
        }
    }

    /// A request has arrived now.
    pub fn arrival(self: &Arc<Records>, service: usize, call: Option<usize>) -> Open {
        let at = self.now();
        let mut seen = self.seen();
        seen.arrivals.push(Arrival { at, service, call, ..Arrival::default() });
        Open { records: self.clone(), number: seen.arrivals.len() - 1 }
    }
}

/// A request that an upstream works on. Dropping it says that the upstream ended it.
pub struct Open {
    records: Arc<Records>,
    number: usize,
}

impl Open {
    pub fn fate(&self, fate: &str) {
        let mut seen = self.records.seen();
        let text = &mut seen.arrivals[self.number].fate;
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(fate);
    }

    /// The sidecar ended it.
    pub fn closed(&self) {
        self.end(End::Theirs(self.records.now()));
    }

    /// It ends then, by the sidecar's doing.
    pub fn closes_at(&self, at: At) {
        self.end(End::Theirs(at));
    }

    /// The reply states that so many tokens were served.
    pub fn serves(&self, tokens: u64) {
        self.records.seen().arrivals[self.number].tokens = tokens;
    }

    /// The whole reply was written.
    pub fn sent_whole(&self) {
        let now = self.records.now();
        self.records.seen().arrivals[self.number].whole = Some(now);
    }

    pub fn give_back(&self) {
        self.records.seen().arrivals[self.number].given_back = true;
    }

    fn end(&self, end: End) {
        let mut seen = self.records.seen();
        seen.arrivals[self.number].end.get_or_insert(end);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(End::Ours(self.records.now()));
    }
}
