//! The last events of a run, kept as numbers and told as sentences when somebody asks.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::Nanos;

use super::digest::Digest;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    Woke,
    Arrived {
        no: u64,
        kind: u32,
    },
    CameBack {
        no: u64,
    },
    Waits {
        no: u64,
    },
    Went {
        no: u64,
    },
    Refused {
        no: u64,
        why: &'static str,
    },
    Withdrawn {
        no: u64,
    },
    Reached {
        no: u64,
        status: u16,
    },
    Ended {
        no: u64,
    },
    Cancelled {
        no: u64,
    },
    Crashed,
    Restarted,
    ClockStepped,
    Changed,
    Lent {
        units: u64,
    },
    NotLent,
    /// A backoff window was opened or ended by hand.
    Window,
}

/// The last events, and the digest of all of them.
#[derive(Debug)]
pub(crate) struct Story {
    keep: usize,
    lines: VecDeque<(u64, Nanos, Line)>,
    pub digest: Digest,
}

impl Story {
    pub fn new(keep: usize) -> Story {
        Story { keep, lines: VecDeque::new(), digest: Digest::default() }
    }

    pub fn note(&mut self, event: u64, at: Nanos, line: Line) {
        let (tag, a) = match line {
            Line::Woke => (1, 0),
            Line::Arrived { no, .. } => (2, no),
            Line::Waits { no } => (3, no),
            Line::Went { no } => (4, no),
            Line::Refused { no, why } => (5 + ((why.len() as u64) << 8), no),
            Line::Withdrawn { no } => (6, no),
            Line::Reached { no, status } => (7 + (u64::from(status) << 8), no),
            Line::Ended { no } => (8, no),
            Line::Cancelled { no } => (9, no),
            Line::Crashed => (10, 0),
            Line::Restarted => (11, 0),
            Line::ClockStepped => (12, 0),
            Line::Changed => (13, 0),
            Line::Lent { units } => (14, units),
            Line::NotLent => (15, 0),
            Line::CameBack { no } => (16, no),
            Line::Window => (17, 0),
        };
        self.digest.add(&[tag, a, at.0]);
        if self.keep > 0 {
            if self.lines.len() == self.keep {
                self.lines.pop_front();
            }
            self.lines.push_back((event, at, line));
        }
    }

    /// The lines as sentences; `what` says what a kind of calls is.
    pub fn tell(&self, what: impl Fn(u32) -> String) -> Vec<String> {
        let tell = |&(event, at, line): &(u64, Nanos, Line)| {
            let text = match line {
                Line::Woke => "the engine is woken".into(),
                Line::Arrived { no, kind } => format!("call {no} comes: {}", what(kind)),
                Line::CameBack { no } => format!("call {no} comes back"),
                Line::Waits { no } => format!("call {no} waits"),
                Line::Went { no } => format!("call {no} goes"),
                Line::Refused { no, why } => format!("call {no} is refused: {why}"),
                Line::Withdrawn { no } => format!("call {no} is given up by its caller"),
                Line::Reached { no, status } => format!("call {no} reaches the upstream: {status}"),
                Line::Ended { no } => format!("call {no} ends"),
                Line::Cancelled { no } => format!("call {no} gives all back"),
                Line::Crashed => "the process dies".into(),
                Line::Restarted => "the process is back".into(),
                Line::ClockStepped => "the wall clock is set".into(),
                Line::Changed => "a limit is changed".into(),
                Line::Lent { units } => format!("{units} units are lent"),
                Line::NotLent => "the lender fails".into(),
                Line::Window => "a backoff window is opened or ended by hand".into(),
            };
            format!("event {event} at {:?}: {text}", Duration::from_nanos(at.0))
        };
        self.lines.iter().map(tell).collect()
    }
}
