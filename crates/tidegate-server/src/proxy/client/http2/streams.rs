//! The HTTP/2 connections to one upstream, and the slots on them. See the [module](super) for what can interleave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::MOST_STREAMS;
use crate::proxy::client::connect_error::ConnectError;

/// The connections to one upstream.
#[derive(Debug)]
pub(in super::super) struct Streams(Mutex<State>);

#[derive(Debug)]
struct State {
    connections: Vec<Pooled>,
    next_id: u64,
    /// Connections that are being opened.
    opening: usize,
    /// How many streams a new connection is expected to allow.
    expected: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

#[derive(Debug)]
struct Pooled {
    id: u64,
    sender: SendRequest<Bytes>,
    /// How many streams the peer allows, as far as we use them.
    limit: usize,
    used: usize,
    /// When the last slot became free.
    idle_since: Instant,
}

/// What a waiting call gets.
#[derive(Debug)]
pub(in super::super) enum Turn {
    Slot(Slot),
    Failed(ConnectError),
    /// The upstream speaks HTTP/1.1.
    Http1,
}

/// Permission to open one stream. It must be held until the stream is closed.
#[derive(Debug)]
pub(in super::super) struct Slot {
    /// None once the request is sent, so that it does not keep the connection open.
    sender: Option<SendRequest<Bytes>>,
    id: u64,
    /// None if the slot was never given out.
    streams: Option<Arc<Streams>>,
}

/// A connection that is being opened. If it is dropped, the attempt has failed.
pub(in super::super) struct Opening(Option<Arc<Streams>>);

impl Default for Streams {
    fn default() -> Streams {
        Streams(Mutex::new(State {
            connections: Vec::new(),
            next_id: 0,
            opening: 0,
            expected: MOST_STREAMS,
            waiting: VecDeque::new(),
        }))
    }
}

impl Streams {
    /// Takes a slot, if one is free.
    pub fn take(self: &Arc<Self>) -> Option<Slot> {
        self.0.lock().take(self)
    }

    /// Joins the queue for a slot. If a connection has to be opened for that, the caller gets the order to do so.
    pub fn wait(self: &Arc<Self>) -> (oneshot::Receiver<Turn>, Option<Opening>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.0.lock();
        if let Some(slot) = state.take(self) {
            // The receiver is here: it cannot be gone.
            sender.send(Turn::Slot(slot)).ok();
            return (receiver, None);
        }
        state.waiting.push_back(sender);
        let opening = state.needs_more().then(|| Opening(Some(self.clone())));
        (receiver, opening)
    }

    /// Begins to open a connection that no waiting call has asked for.
    pub fn open(self: &Arc<Self>) -> Opening {
        self.0.lock().opening += 1;
        Opening(Some(self.clone()))
    }

    /// Begins to open a connection if calls wait that need one.
    pub fn open_more(self: &Arc<Self>) -> Option<Opening> {
        self.0.lock().needs_more().then(|| Opening(Some(self.clone())))
    }

    /// A connection was opened. Returns its id.
    pub fn opened(self: &Arc<Self>, mut opening: Opening, sender: SendRequest<Bytes>, limit: usize) -> u64 {
        opening.0 = None;
        let mut state = self.0.lock();
        let (id, limit) = (state.next_id, limit.min(MOST_STREAMS));
        state.next_id += 1;
        state.expected = limit.max(1);
        state.connections.push(Pooled { id, sender, limit, used: 0, idle_since: Instant::now() });
        state.opening -= 1;
        state.hand_out(self);
        id
    }

    /// An upstream that was to be spoken to in HTTP/2 speaks HTTP/1.1.
    pub fn is_http1(&self, mut opening: Opening) {
        opening.0 = None;
        let waiting = {
            let mut state = self.0.lock();
            state.opening -= 1;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|call| drop(call.send(Turn::Http1)));
    }

    /// The peer allows this many streams now.
    pub fn allows(self: &Arc<Self>, id: u64, limit: usize) {
        let mut state = self.0.lock();
        let limit = limit.min(MOST_STREAMS);
        state.expected = limit.max(1);
        if let Some(pooled) = state.pooled(id) {
            pooled.limit = limit;
        }
        state.hand_out(self);
    }

    /// Takes a connection out of the pool.
    pub fn remove(&self, id: u64) {
        let mut state = self.0.lock();
        let gone = state.connections.iter().position(|pooled| pooled.id == id);
        let gone = gone.map(|at| state.connections.swap_remove(at));
        drop(state);
        drop(gone);
    }

    /// Takes a connection out of the pool if it has been idle for `idle`; else returns when to look again.
    pub fn expire(&self, id: u64, idle: Duration) -> Option<Duration> {
        let mut state = self.0.lock();
        let Some(at) = state.connections.iter().position(|pooled| pooled.id == id) else {
            // It left the pool before, and ends when its last stream does.
            return Some(idle);
        };
        let pooled = &state.connections[at];
        let rest = idle.saturating_sub(pooled.idle_since.elapsed());
        if pooled.used > 0 {
            return Some(idle);
        }
        if !rest.is_zero() {
            return Some(rest);
        }
        let gone = state.connections.swap_remove(at);
        drop(state);
        drop(gone);
        None
    }

    /// Takes the connection out of the pool that has been idle for longest: without a sender it closes. Returns whether
    /// there was one.
    pub fn close_idle(&self) -> bool {
        let mut state = self.0.lock();
        let idle = state.connections.iter().enumerate().filter(|(_, pooled)| pooled.used == 0);
        let oldest = idle.min_by_key(|(_, pooled)| pooled.idle_since).map(|(at, _)| at);
        let gone = oldest.map(|at| state.connections.swap_remove(at));
        drop(state);
        gone.is_some()
    }

    fn failed(&self, why: &ConnectError) {
        let waiting = {
            let mut state = self.0.lock();
            state.opening -= 1;
            // Another connection is on its way for them.
            if state.opening > 0 {
                return;
            }
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|call| drop(call.send(Turn::Failed(why.clone()))));
    }

    fn freed(self: &Arc<Self>, id: u64) {
        let mut state = self.0.lock();
        if let Some(pooled) = state.pooled(id) {
            pooled.used -= 1;
            pooled.idle_since = Instant::now();
        }
        state.hand_out(self);
    }
}

impl State {
    fn pooled(&mut self, id: u64) -> Option<&mut Pooled> {
        self.connections.iter_mut().find(|pooled| pooled.id == id)
    }

    /// Takes a slot of the oldest connection that has one, so that the others may become idle.
    fn take(&mut self, streams: &Arc<Streams>) -> Option<Slot> {
        let mut context = Context::from_waker(Waker::noop());
        // One that was told to go away, or has no stream ids left, says so here.
        self.connections.retain_mut(|pooled| {
            !matches!(pooled.sender.poll_ready(&mut context), std::task::Poll::Ready(Err(_)))
        });
        let pooled = self.connections.iter_mut().find(|pooled| pooled.used < pooled.limit)?;
        pooled.used += 1;
        Some(Slot { sender: Some(pooled.sender.clone()), id: pooled.id, streams: Some(streams.clone()) })
    }

    /// Hands free slots to the calls that wait, first come first served.
    fn hand_out(&mut self, streams: &Arc<Streams>) {
        while !self.waiting.is_empty() {
            let Some(slot) = self.take(streams) else { return };
            let id = slot.id;
            let Some(call) = self.waiting.pop_front() else { return };
            if let Err(Turn::Slot(mut slot)) = call.send(Turn::Slot(slot)) {
                // That call has gone away. The lock is held, so the slot must not free itself.
                slot.streams = None;
                if let Some(pooled) = self.pooled(id) {
                    pooled.used -= 1;
                }
            }
        }
    }

    /// Decides whether another connection is needed, and counts it as being opened.
    fn needs_more(&mut self) -> bool {
        self.waiting.retain(|call| !call.is_closed());
        let needed = self.waiting.len() > self.opening * self.expected;
        self.opening += usize::from(needed);
        needed
    }
}

impl Slot {
    /// Returns what the request is sent with.
    pub(super) fn take_sender(&mut self) -> Option<SendRequest<Bytes>> {
        self.sender.take()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(streams) = self.streams.take() {
            streams.freed(self.id);
        }
    }
}

impl Opening {
    /// Says why the connection could not be opened.
    pub fn failed(mut self, why: &ConnectError) {
        if let Some(streams) = self.0.take() {
            streams.failed(why);
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(streams) = self.0.take() {
            streams.failed(&ConnectError::Late);
        }
    }
}
