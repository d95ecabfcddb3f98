//! The results of the jobs of one side.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts while the jobs run.
pub struct Tally {
    began: Instant,
    state: Mutex<(Vec<LoopCount>, Option<Duration>)>,
}

/// The state of one side.
pub struct Count {
    pub loops: Vec<LoopCount>,
    /// Requests that its API refused.
    pub refused: u64,
    /// How long it has been running, to its end if it is over.
    pub took: Duration,
    pub over: bool,
}

/// The state of one loop.
#[derive(Clone, Default)]
pub struct LoopCount {
    pub done: u32,
    pub lost: u32,
    /// The longest that a job took, done or lost.
    pub slowest: Duration,
}

impl Tally {
    pub fn new(loops: usize) -> Tally {
        Tally { began: Instant::now(), state: Mutex::new((vec![LoopCount::default(); loops], None)) }
    }

    pub fn ended(&self, of: usize, done: bool, took: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = &mut state.0[of];
        *(if done { &mut count.done } else { &mut count.lost }) += 1;
        count.slowest = count.slowest.max(took);
    }

    pub fn over(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(self.began.elapsed());
    }

    pub fn is_over(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1.is_some()
    }

    pub fn count(&self, refused: u64) -> Count {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (loops, end) = (state.0.clone(), state.1);
        Count { loops, refused, took: end.unwrap_or_else(|| self.began.elapsed()), over: end.is_some() }
    }
}

impl Count {
    pub fn done(&self) -> u32 {
        self.loops.iter().map(|of| of.done).sum()
    }

    pub fn lost(&self) -> u32 {
        self.loops.iter().map(|of| of.lost).sum()
    }
}
