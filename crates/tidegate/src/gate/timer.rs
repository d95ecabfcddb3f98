//! The timer of a gate.
//!
//! A thread that changes the queue tells the timer when the engine has to be woken next; the timer sleeps until
//! then and advances the engine. There are two kinds, made when a call first waits: a task in each tokio runtime in which
//! calls wait (it sleeps on tokio's clock, paused or not), and a thread, for calls that wait outside of
//! one. What can go wrong, and what is done about it:
//!
//! * *The gate is dropped while the timer sleeps.* The timer holds the gate only weakly, and the gate ends the timer
//!   when it goes: the task is aborted, the thread is notified. Neither outlives the gate.
//! * *A new wake-up time lies before the one slept for.* `set` stores the time and then notifies; a
//!   notification that comes before the sleep begins is kept by `Notify` and by the lock, so none is lost.
//! * *The runtime of the task shuts down while calls of another runtime wait.* The task's guard is dropped
//!   with it, forgets the task and wakes the waiters; the first to be polled starts a new one.
//! * *The timer wakes late or early.* The engine decides by its own clock; a timer that is early sleeps again.
//! * *The thread ends for lack of work while a call begins to wait.* A call first waits and then asks for a sleeper. The
//!   thread reads how often it was asked for, then whether calls wait, and ends only if it was not asked for since: either
//!   it saw the call, or the call's request came later and is counted, or the call finds no thread and starts one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tidegate_core::Nanos;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// What a timer needs of its gate.
pub(crate) trait Timed: Send + Sync + 'static {
    /// Returns the timer of the gate.
    fn timer(&self) -> &Arc<Timer>;
    /// Does what is due.
    fn advance(&self);
    /// Returns the engine's time.
    fn now(&self) -> Nanos;
    /// Converts an engine time to one that tokio's timers take.
    fn instant(&self, at: Nanos) -> tokio::time::Instant;
    /// Returns how many calls wait.
    fn waiting(&self) -> usize;
    /// Wakes every waiting call, which polls again.
    fn wake_waiters(&self);
}

/// When to wake the engine, and the tasks and the thread that do so.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    state: Mutex<State>,
    thread: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wake: Option<Nanos>,
    tasks: Vec<Task>,
    thread: bool,
    /// How often the thread was asked for.
    asked: u64,
    closed: bool,
}

/// The task of one runtime. Each runtime in which calls wait has its own: another one may be kept and yet not
/// be run, as a current-thread runtime is not between two `block_on`s.
#[derive(Debug)]
struct Task {
    runtime: Id,
    notify: Arc<Notify>,
    /// Absent while it is being made.
    handle: Option<AbortHandle>,
}

/// What sleeps for a waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleeper {
    /// A task of the runtime that polls the call; a thread where there is none.
    Task,
    /// A thread: the call blocks its own.
    Thread,
}

impl Timer {
    /// Sets the time at which the engine has to be woken.
    pub fn set(&self, wake: Option<Nanos>) {
        let mut state = self.state.lock();
        if state.wake == wake {
            return;
        }
        // A later time is noticed when the earlier one comes.
        let sooner = wake.is_some_and(|wake| state.wake.is_none_or(|before| wake < before));
        state.wake = wake;
        if sooner {
            for task in &state.tasks {
                task.notify.notify_one();
            }
            self.thread.notify_one();
        }
    }

    /// Starts the sleeper of a waiting call, unless it runs.
    pub fn ensure<G: Timed>(&self, gate: &Arc<G>, sleeper: Sleeper) {
        let runtime = match sleeper {
            Sleeper::Task => Handle::try_current().ok(),
            Sleeper::Thread => None,
        };
        let mut state = self.state.lock();
        let Some(runtime) = runtime else {
            state.asked += 1;
            if !state.thread {
                let gate = Arc::downgrade(gate);
                let started = std::thread::Builder::new().name("tidegate-timer".into());
                state.thread = started.spawn(move || sleep_in_thread(&gate)).is_ok();
            }
            return;
        };
        let id = runtime.id();
        if state.tasks.iter().any(|task| task.runtime == id) {
            return;
        }
        let notify = Arc::new(Notify::new());
        state.tasks.push(Task { runtime: id, notify: notify.clone(), handle: None });
        // A runtime that shuts down drops the task at once, and with it the guard, which takes the lock.
        drop(state);
        let guard = TaskGuard { gate: Arc::downgrade(gate), runtime: id };
        let handle = runtime.spawn(sleep_in_task(guard, notify)).abort_handle();
        let mut state = self.state.lock();
        if let Some(task) = state.tasks.iter_mut().find(|task| task.runtime == id) {
            task.handle = Some(handle);
        }
    }

    /// Returns how often the thread was asked for, to be judged by [`Timer::ends`].
    fn asked(&self) -> u64 {
        self.state.lock().asked
    }

    /// Ends the thread, unless there is something to sleep for: calls `waiting` after it was `asked` for so often, or a
    /// call that asked for it since. Returns whether it ends.
    fn ends(&self, asked: u64, waiting: bool) -> bool {
        let mut state = self.state.lock();
        let ends = !waiting && state.asked == asked && state.wake.is_none();
        state.thread &= !ends;
        ends
    }

    /// Ends all sleepers: the gate goes.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for handle in state.tasks.drain(..).filter_map(|task| task.handle) {
            handle.abort();
        }
        self.thread.notify_all();
    }
}

/// Tells the gate when its task is gone, for whatever reason.
struct TaskGuard<G: Timed> {
    gate: Weak<G>,
    runtime: Id,
}

impl<G: Timed> Drop for TaskGuard<G> {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.upgrade() {
            gate.timer().state.lock().tasks.retain(|task| task.runtime != self.runtime);
            gate.wake_waiters();
        }
    }
}

async fn sleep_in_task<G: Timed>(guard: TaskGuard<G>, notify: Arc<Notify>) {
    loop {
        let Some(gate) = guard.gate.upgrade() else { return };
        let timer = gate.timer().clone();
        gate.advance();
        let wake = timer.state.lock().wake;
        let until = wake.map(|wake| gate.instant(wake));
        // Held across the sleep it would keep the gate alive for as long as that lasts.
        drop(gate);
        match until {
            Some(until) => tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = notify.notified() => {}
            },
            None => notify.notified().await,
        }
    }
}

/// A thread with nothing to wait for ends after this long.
const IDLE: Duration = Duration::from_secs(1);

fn sleep_in_thread<G: Timed>(gate: &Weak<G>) {
    loop {
        let Some(held) = gate.upgrade() else { return };
        held.advance();
        let timer = held.timer().clone();
        let now = held.now();
        drop(held);
        let mut state = timer.state.lock();
        if state.closed {
            return;
        }
        let idle = match state.wake {
            Some(wake) if wake <= now => false,
            Some(wake) => {
                timer.thread.wait_for(&mut state, wake.since(now));
                false
            }
            None => timer.thread.wait_for(&mut state, IDLE).timed_out() && state.wake.is_none(),
        };
        drop(state);
        if idle {
            // In this order, and without the timer's lock, which is taken after the gate's elsewhere.
            let asked = timer.asked();
            let Some(held) = gate.upgrade() else { return };
            let waiting = held.waiting() > 0;
            drop(held);
            if timer.ends(asked, waiting) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Config, Gate};

    #[test]
    fn the_thread_does_not_end_while_a_call_begins_to_wait() {
        let gate = Gate::builder().config(Config::parse("[services.api]\nconcurrency = 1\n").expect("valid"));
        let gate = gate.build().expect("valid");
        let timer = gate.shared.timer.clone();
        timer.state.lock().thread = true;
        let asked = timer.asked();
        let waiting = gate.waiting() > 0;
        // Between the two a call without a deadline waits for the slot, and asks for the thread, which is there.
        let held = gate.try_acquire(Call::to("api")).expect("there is a slot");
        timer.ensure(&gate.shared, Sleeper::Thread);
        assert!(!timer.ends(asked, waiting), "it would be left alone");
        assert!(timer.state.lock().thread);
        // With nothing asked since, it ends, and the next call starts another.
        drop(held);
        assert!(timer.ends(timer.asked(), gate.waiting() > 0));
        assert!(!timer.state.lock().thread);
    }
}
