//! Waiting for a window to pass, as a future and as a blocked thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::time::{Sleep, sleep_until};

use super::line::{Ticket, Turn};
use super::{BackoffWindow, process_clock};

/// Waits for a window to pass; made by [`BackoffWindow::wait`].
///
/// It takes its place when it is first polled. Dropping it is always safe: those behind it move up.
#[must_use = "nothing happens until it is awaited"]
#[derive(Debug)]
pub struct Wait {
    place: Place,
    /// Only those who do wait need a timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let Turn::Until(until) = this.place.turn(context.waker()) else { return Poll::Ready(()) };
            let until = process_clock::instant(until);
            let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if timer.deadline() != until {
                timer.as_mut().reset(until);
            }
            ready!(timer.as_mut().poll(context));
        }
    }
}

/// A place in a window's line, given up when dropped.
#[derive(Debug)]
struct Place {
    window: BackoffWindow,
    ticket: Option<Ticket>,
}

impl Place {
    fn turn(&mut self, waker: &Waker) -> Turn {
        self.window.0.window.turn(&mut self.ticket, waker, process_clock::now)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.window.0.window.leave(ticket, process_clock::now);
        }
    }
}

pub(super) fn wait(window: BackoffWindow) -> Wait {
    Wait { place: Place { window, ticket: None }, timer: None }
}

pub(super) fn wait_blocking(window: BackoffWindow) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut place = Place { window, ticket: None };
    // Woken without cause it just looks again.
    while let Turn::Until(until) = place.turn(&waker) {
        std::thread::park_timeout(until.since(process_clock::now()));
    }
}

/// Wakes a parked thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
