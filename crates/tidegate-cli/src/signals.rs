//! Signals that end a command or make it read its config again.

use std::io;

/// Ctrl-C and SIGTERM. Signals are noticed from when this is made. A command makes it before it says that it is ready,
/// since from then on it may be stopped.
pub struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    pub fn new() -> io::Result<Stop> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Stop {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Stop {})
    }

    /// Waits for the next signal.
    pub async fn received(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await.ok();
    }
}

/// SIGHUP. Signals are noticed from when this is made.
pub struct Reload {
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
}

impl Reload {
    pub fn new() -> io::Result<Reload> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Reload { hang_up: signal(SignalKind::hangup())? })
        }
        #[cfg(not(unix))]
        Ok(Reload {})
    }

    /// Waits for the next signal.
    pub async fn received(&mut self) {
        #[cfg(unix)]
        if self.hang_up.recv().await.is_some() {
            return;
        }
        std::future::pending().await
    }
}
