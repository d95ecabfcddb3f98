//! Where chance comes from.
//!
//! The rules in `tidegate_core` draw no random numbers: they are given one. A [`Chance`] is what gives it, so
//! that a test, or a simulation that must be the same every time, can give a source with a seed.

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;

/// A source of random numbers: the machine's own, or one that starts from a seed.
///
/// Clones of a seeded source draw from one sequence. It is for spreading calls out, not for secrets.
///
/// ```
/// use tidegate::Chance;
///
/// let (one, other) = (Chance::seeded(7), Chance::seeded(7));
/// assert_eq!(one.draw(), other.draw());
/// assert_ne!(one.draw(), one.clone().draw());
/// let _different_in_every_process = Chance::new().draw();
/// ```
#[derive(Clone, Default)]
pub struct Chance(Source);

#[derive(Clone, Default)]
enum Source {
    /// A generator in each thread, seeded by the machine.
    #[default]
    Threads,
    Seeded(Arc<Mutex<Rng>>),
}

impl Chance {
    /// Chance as it comes.
    #[must_use]
    pub fn new() -> Chance {
        Chance::default()
    }

    /// The sequence that belongs to this seed: the same on every machine and in every run.
    #[must_use]
    pub fn seeded(seed: u64) -> Chance {
        Chance(Source::Seeded(Arc::new(Mutex::new(Rng::with_seed(seed)))))
    }

    /// The next number; every one of the 2⁶⁴ is as likely as any other.
    #[must_use]
    pub fn draw(&self) -> u64 {
        match &self.0 {
            Source::Threads => fastrand::u64(..),
            Source::Seeded(generator) => generator.lock().u64(..),
        }
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Threads => "Chance(as it comes)",
            Source::Seeded(_) => "Chance(seeded)",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_is_a_sequence_and_clones_go_on_with_it() {
        let draws = |chance: &Chance| (0..100).map(|_| chance.draw()).collect::<Vec<_>>();
        let chance = Chance::seeded(42);
        let first = draws(&chance);
        assert_eq!(first, draws(&Chance::seeded(42)));
        assert_ne!(first, draws(&Chance::seeded(43)));
        assert_ne!(first, draws(&chance.clone()), "a clone does not start again");
    }

    #[test]
    fn chance_as_it_comes_differs_between_threads() {
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| Chance::new().draw())).collect();
        let draws: HashSet<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(draws.len(), 4);
    }
}
