//! The wire and the upstreams behind it: how long a call is on its way, what becomes of it there, and what each
//! upstream has counted in the parts of the run.

use std::time::Duration;

use tidegate_core::{Cost, Nanos};

use super::phases::Phases;
use crate::dice::Dice;
use crate::report::Phase;
use crate::scenario::{HeaderStyle, Scenario, UpstreamSpec};
use crate::spread::Spread;
use crate::upstream::{Answer, Headers, Held, RefusedBy, Upstream};

/// What becomes of a request that reaches its upstream.
#[derive(Debug)]
pub(crate) struct Received {
    /// Absent where no upstream stands behind the service.
    pub answer: Option<Answer>,
    /// How long its reply takes.
    pub latency: Duration,
    /// The connection breaks before the reply.
    pub broken: bool,
    /// The reply never comes.
    pub lost: bool,
}

/// All upstreams, by the places of their services in the config.
#[derive(Debug)]
pub(crate) struct Wire {
    upstreams: Vec<Option<Upstream>>,
    /// What they had counted when the warm-up was over, and where the parts of the run begin.
    warm: Phases,
    phases: Phases,
    dice: Dice,
}

impl Wire {
    pub fn new(scenario: &Scenario, services: &[String], seed: u64) -> Wire {
        let upstream = |name: &String| {
            let spec = scenario.upstreams.get(name)?;
            Some(Upstream::new(spec, Dice::part(seed, name, 0).draw(), Nanos::ZERO))
        };
        Wire {
            upstreams: services.iter().map(upstream).collect(),
            warm: Phases::new(&[scenario.warmup], services.len()),
            phases: Phases::new(&scenario.phases, services.len()),
            dice: Dice::part(seed, "wire", 0),
        }
    }

    /// Draws how many nanoseconds a call is on its way to its upstream.
    pub fn jitter(&mut self, spec: Option<&UpstreamSpec>) -> u64 {
        spec.map_or(0, |spec| spec.jitter.draw(&mut self.dice))
    }

    /// Hands a request to the upstream of a service. It takes as long as it `runs`, if that is known.
    pub fn receive(
        &mut self,
        service: usize,
        spec: Option<&UpstreamSpec>,
        cost: &Cost,
        runs: Option<Duration>,
        now: Nanos,
    ) -> Received {
        self.pass_moments(now);
        let answer = self.upstreams[service].as_mut().map(|upstream| upstream.receive(cost, now));
        let latency = match runs {
            Some(runs) => runs,
            None => {
                let usual = spec.map_or(Spread::ZERO, |spec| spec.latency).draw_span(&mut self.dice);
                let slowness = self.upstreams[service].as_ref().map_or(1.0, |upstream| upstream.slowness());
                if slowness > 1.0 { usual.mul_f64(slowness) } else { usual }
            }
        };
        let broken = spec.is_some_and(|spec| self.dice.happens(spec.resets));
        let lost = spec.is_some_and(|spec| self.dice.happens(spec.lost));
        if let Some(Answer::Refused(by)) = &answer {
            let told = by.wait.filter(|_| spec.is_some_and(|spec| spec.headers != HeaderStyle::None));
            self.phases.rejected(service, latency, told, now);
        }
        Received { answer, latency, broken, lost }
    }

    /// Returns the status of a reply that refuses.
    pub fn refused_status(&self, service: usize, by: &RefusedBy) -> u16 {
        self.upstreams[service].as_ref().map_or(429, |known| known.refused_status(by))
    }

    /// Returns what an upstream tells of its limits. `unix` is the Unix time by its own clock.
    pub fn headers(
        &self,
        service: usize,
        refused: Option<&RefusedBy>,
        now: Nanos,
        unix: Duration,
    ) -> Headers {
        let upstream = self.upstreams[service].as_ref();
        upstream.map_or(Vec::new(), |upstream| upstream.headers(refused, now, unix))
    }

    /// Ends a request at the upstream of a service, if one holds it, with what is counted for it in the end.
    pub fn end(&mut self, service: usize, held: Option<(Held, Cost)>, now: Nanos) {
        self.pass_moments(now);
        if let (Some((held, cost)), Some(upstream)) = (held, &mut self.upstreams[service]) {
            upstream.end(held, &cost, now);
        }
    }

    /// Returns what an upstream counted after the warm-up, and in each part of the run, which ends at `end`.
    pub fn parts(&mut self, service: usize, spec: &UpstreamSpec, end: Nanos) -> (Option<Phase>, Vec<Phase>) {
        let warm = self.warm.parts(service, spec, &mut self.upstreams, end).pop();
        (warm, self.phases.parts(service, spec, &mut self.upstreams, end))
    }

    /// Passes the moments that are not after `now`, before an upstream counts anything.
    fn pass_moments(&mut self, now: Nanos) {
        self.warm.pass(&mut self.upstreams, now);
        self.phases.pass(&mut self.upstreams, now);
    }
}
