//! The loops of the demo and their jobs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::tally::Tally;
use crate::http::{Peer, Request, ask};

/// A loop: its name and its jobs.
pub struct Loop {
    pub name: &'static str,
    pub priority: &'static str,
    /// How many calls it makes at a time.
    workers: u32,
    pub jobs: u32,
    /// How long each worker pauses between two jobs.
    pause: Duration,
}

pub const LOOPS: [Loop; 3] = [
    Loop { name: "user", priority: "high", workers: 1, jobs: 12, pause: Duration::from_millis(300) },
    Loop { name: "agents", priority: "normal", workers: 8, jobs: 48, pause: Duration::ZERO },
    Loop { name: "batch", priority: "low", workers: 40, jobs: 80, pause: Duration::ZERO },
];

/// How calls are made.
#[derive(Clone, Copy)]
pub enum Manner {
    /// Directly to the API: refused calls are retried after a pause that doubles, and given up in the end.
    TriesAgain,
    /// Through the sidecar, once.
    ThroughTheSidecar,
}

/// The retries of a client that knows of no limits: their number, and the first pause.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

const BODY: &str =
    r#"{"model": "demo", "messages": [{"role": "user", "content": "What is a tide?"}], "max_tokens": 8}"#;

/// Longer than any call of the demo waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// All callers of one API.
pub struct Side {
    peer: Peer,
    manner: Manner,
}

impl Side {
    pub fn new(authority: String, manner: Manner) -> Side {
        Side { peer: Peer::Tcp(authority), manner }
    }

    /// Runs all jobs of all loops.
    pub fn run(&self, tally: &Tally) {
        std::thread::scope(|scope| {
            for (number, of) in LOOPS.iter().enumerate() {
                let left = std::sync::Arc::new(AtomicU32::new(of.jobs));
                for _ in 0..of.workers {
                    let left = left.clone();
                    scope.spawn(move || {
                        while left
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                            .is_ok()
                        {
                            let began = Instant::now();
                            let done = self.job(of);
                            tally.ended(number, done, began.elapsed());
                            std::thread::sleep(of.pause);
                        }
                    });
                }
            }
        });
        tally.over();
    }

    /// Returns whether a job was done.
    fn job(&self, of: &Loop) -> bool {
        let chat = "/v1/chat/completions";
        match self.manner {
            Manner::ThroughTheSidecar => self.call(&format!("/~{},{}/api{chat}", of.name, of.priority)),
            Manner::TriesAgain => {
                let mut pause = FIRST_PAUSE;
                for attempt in 1..=ATTEMPTS {
                    if self.call(chat) {
                        return true;
                    }
                    if attempt < ATTEMPTS {
                        std::thread::sleep(pause);
                        pause *= 2;
                    }
                }
                false
            }
        }
    }

    fn call(&self, path: &str) -> bool {
        let headers = "content-type: application/json\r\n";
        let request = Request { method: "POST", path, headers, body: BODY };
        ask(&self.peer, request, PATIENCE).is_ok_and(|answer| answer.status == 200)
    }
}
