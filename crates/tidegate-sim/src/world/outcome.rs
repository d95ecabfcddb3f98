//! What a run came to.

use tidegate_core::Nanos;

use super::World;
use crate::report::{Report, Violation};

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
            let Some(spec) = self.scenario.upstreams.get(&self.service_names[service]) else { continue };
            let mut warm = self.warm.parts(service, spec, &mut self.upstreams, end);
            let counts = self.tally.service(service);
            counts.upstream = warm.pop().map(|part| part.upstream).unwrap_or_default();
            counts.phases = self.phases.parts(service, spec, &mut self.upstreams, end);
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
            digest: self.story.digest.value(),
            story,
        }
    }
}
