//! Starting slowly after a time without calls.
//!
//! Some upstreams turn away whoever comes back with all that the limit allows at once (Anthropic calls that acceleration
//! limits). After a stretch without calls the pace is a share of the usual one; from the first call on it grows, evenly,
//! until it is whole. An upstream that was never called is one that was not called for long.

use std::time::Duration;

use crate::config::RampConfig;
use crate::model::time::Nanos;

/// The pace grows in so many steps.
const STEPS: u32 = 10;

/// The pace after a time without calls.
#[derive(Clone, Debug)]
pub(crate) struct Ramp {
    rules: RampConfig,
    /// The latest call.
    last: Nanos,
    /// When the first call after the rest went; none while it lasts.
    began: Option<Nanos>,
    pace: f64,
}

impl Ramp {
    /// Nobody has called yet.
    pub fn new(rules: RampConfig) -> Ramp {
        Ramp { pace: rules.from, rules, last: Nanos::ZERO, began: None }
    }

    pub fn rules(&self) -> &RampConfig {
        &self.rules
    }

    /// The share of the usual pace that is right now.
    pub fn pace(&self) -> f64 {
        self.pace
    }

    /// When it is to be looked at again.
    pub fn due(&self) -> Nanos {
        match self.began {
            None => Nanos::NEVER,
            Some(began) if self.pace < 1.0 => self.next_step(began),
            Some(_) => self.last.after(self.rules.idle),
        }
    }

    /// A call goes. Says whether it is the first after a rest.
    pub fn goes(&mut self, now: Nanos) -> bool {
        self.last = now;
        let first = self.began.is_none();
        self.began.get_or_insert(now);
        first
    }

    /// Its time has come. Says whether the pace is another one now.
    pub fn look(&mut self, now: Nanos) -> bool {
        let Some(began) = self.began else { return false };
        let before = self.pace;
        if now >= self.last.after(self.rules.idle) {
            (self.began, self.pace) = (None, self.rules.from);
        } else {
            let steps = now.since(began).as_nanos() / self.step().as_nanos();
            let grown = (steps as f64 / f64::from(STEPS)).min(1.0);
            self.pace = self.rules.from + (1.0 - self.rules.from) * grown;
        }
        self.pace != before
    }

    fn step(&self) -> Duration {
        (self.rules.over / STEPS).max(Duration::from_millis(1))
    }

    /// When the pace is to be the next step's, by what it is.
    fn next_step(&self, began: Nanos) -> Nanos {
        let grown = (self.pace - self.rules.from) / (1.0 - self.rules.from);
        began.after(self.step() * ((grown * f64::from(STEPS)).round() as u32 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::ZERO.after(Duration::from_secs(seconds))
    }

    fn ramp() -> Ramp {
        let [idle, over] = [100, 20].map(Duration::from_secs);
        Ramp::new(RampConfig { idle, from: 0.5, over })
    }

    #[test]
    fn it_begins_at_a_share_and_grows_evenly_from_the_first_call_on() {
        let mut ramp = ramp();
        assert_eq!((ramp.pace(), ramp.due()), (0.5, Nanos::NEVER), "it rests for as long as nobody calls");
        assert!(ramp.goes(at(1_000)));
        assert!(!ramp.goes(at(1_001)));
        let mut paces = Vec::new();
        while ramp.pace() < 1.0 {
            let now = ramp.due();
            assert!(ramp.look(now));
            paces.push((now.since(at(1_000)).as_secs(), (ramp.pace() * 100.0).round() as u32));
        }
        assert_eq!(paces[..3], [(2, 55), (4, 60), (6, 65)]);
        assert_eq!(paces.last(), Some(&(20, 100)));
    }

    #[test]
    fn it_begins_again_after_a_rest_and_not_while_calls_go() {
        let mut ramp = ramp();
        ramp.goes(at(0));
        ramp.look(at(20));
        assert_eq!((ramp.pace(), ramp.due()), (1.0, at(100)));
        ramp.goes(at(90));
        assert!(!ramp.look(at(100)));
        assert_eq!(ramp.due(), at(190), "the latest call counts");
        assert!(ramp.look(at(190)));
        assert_eq!(ramp.pace(), 0.5);
    }
}
