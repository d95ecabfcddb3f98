//! Waking at a time of the gate's clock: a timer of the runtime, or a thread that sleeps by itself.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_core::Nanos;
use tokio::time::{Sleep, sleep_until};

use crate::gate::{Shared, Sleeper};

#[derive(Debug)]
pub(super) enum Alarm {
    /// Made when it is first needed: most calls never wait.
    Task(Option<Pin<Box<Sleep>>>),
    /// When the thread that drives the call is to look again.
    Thread(Option<Nanos>),
}

impl Alarm {
    /// Ready once the time has come; else the task is woken, or the thread finds it in [`Alarm::due`].
    pub fn poll(&mut self, at: Nanos, gate: &Shared, context: &mut Context<'_>) -> Poll<()> {
        // A timer may be early by what its clock and the gate's differ: it is the gate's that counts.
        while gate.now() < at {
            match self {
                Alarm::Task(timer) => {
                    let until = gate.instant(at);
                    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
                    if timer.deadline() != until {
                        timer.as_mut().reset(until);
                    }
                    ready!(timer.as_mut().poll(context));
                }
                Alarm::Thread(due) => {
                    *due = Some(at);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(())
    }

    /// Who sleeps for the call while it is in the queue.
    pub fn sleeper(&self) -> Sleeper {
        match self {
            Alarm::Task(_) => Sleeper::Task,
            Alarm::Thread(_) => Sleeper::Thread,
        }
    }

    /// When the thread is to look again, if not before it is woken. Told once.
    pub fn take_due(&mut self) -> Option<Nanos> {
        match self {
            Alarm::Task(_) => None,
            Alarm::Thread(due) => due.take(),
        }
    }
}
