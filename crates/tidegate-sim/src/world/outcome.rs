//! What a run came to.

use tidegate_core::Nanos;

use super::World;
use crate::report::{LimitReport, Report, Violation};
use crate::scenario::Model;
use crate::upstream::Upstream;

impl World<'_> {
    pub(super) fn report(mut self, violation: Option<Violation>) -> Report {
        let names: Vec<String> = self.scenario.workloads.iter().map(|load| load.name.clone()).collect();
        let story = self.tell();
        let workloads = self.tally.workloads(names.iter().cloned());
        let priorities = self.tally.priorities();
        let loops = self.tally.loops(&self.routes, &names, &self.loop_names);
        let (loop_count, peak_waiting) = (self.tally.loop_count(), self.tally.peak);
        let end = Nanos::ZERO.after(self.scenario.duration);
        for service in 0..self.service_names.len() {
            let limits = self.upstream_limits(service);
            self.tally.service(service).upstream = limits;
        }
        let (services, series) = self.tally.finish(&self.routes, self.now.min(end));
        Report {
            seed: self.seed,
            duration: self.scenario.duration,
            events: self.events,
            peak_waiting,
            services,
            priorities,
            workloads,
            loops,
            loop_count,
            series,
            violation,
            digest: self.story.digest(),
            story,
        }
    }

    /// When the warm-up is over, remembers what upstreams have counted so far.
    pub(super) fn warm_up(&mut self) {
        if self.warm.is_empty() && self.now >= Nanos::ZERO.after(self.scenario.warmup) {
            let units = |upstream: &Option<Upstream>| {
                upstream.as_ref().map_or(Vec::new(), |upstream| upstream.counts().us.units.clone())
            };
            self.warm = self.upstreams.iter().map(units).collect();
        }
    }

    fn upstream_limits(&self, service: usize) -> Vec<LimitReport> {
        let Some(upstream) = &self.upstreams[service] else { return Vec::new() };
        let Some(spec) = self.scenario.upstreams.get(&self.service_names[service]) else { return Vec::new() };
        let limits = spec.limits.iter().zip(&upstream.counts().us.units).enumerate();
        let rates = limits.filter(|(_, (limit, _))| limit.model != Model::Concurrency);
        let before = |place: usize| self.warm.get(service).and_then(|units| units.get(place)).copied();
        rates
            .map(|(place, (limit, units))| LimitReport {
                name: format!("{} per {:?}", limit.dimension, limit.rate.window()),
                supply: spec.supply(place, self.scenario.warmup, self.scenario.duration),
                used: units.saturating_sub(before(place).unwrap_or(*units)),
            })
            .collect()
    }
}
