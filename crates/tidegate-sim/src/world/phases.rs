//! The run in parts: what upstreams had counted when each of them began.
//!
//! A moment is passed when something next reaches an upstream, or ends there. Until then nothing has changed but by
//! the neighbours, who are let call up to the moment first, so the counts are those of the moment itself.

use std::time::Duration;

use tidegate_core::Nanos;

use crate::report::{LimitReport, Phase};
use crate::scenario::{Model, UpstreamSpec};
use crate::upstream::{Tally, Upstream, UpstreamCounts};

/// Moments, and what was counted up to each that has passed.
#[derive(Debug)]
pub(crate) struct Phases {
    moments: Vec<Nanos>,
    /// By moment, by service.
    passed: Vec<Vec<Counted>>,
    /// By service: rejections so far that need not have been.
    late: Vec<u64>,
    /// By service: until when a caller stays away that heeds the first rejection of the part.
    away: Vec<Option<Nanos>>,
}

/// What an upstream had counted.
#[derive(Clone, Debug, Default)]
struct Counted {
    counts: UpstreamCounts,
    late: u64,
}

impl Phases {
    pub fn new(moments: &[Duration], services: usize) -> Phases {
        Phases {
            moments: moments.iter().map(|at| Nanos::ZERO.after(*at)).collect(),
            passed: Vec::new(),
            late: vec![0; services],
            away: vec![None; services],
        }
    }

    /// Time goes on: remembers what was counted at the moments that it passes.
    pub fn pass(&mut self, upstreams: &mut [Option<Upstream>], now: Nanos) {
        while let Some(at) = self.moments.get(self.passed.len()).copied()
            && at <= now
        {
            for upstream in upstreams.iter_mut().flatten() {
                upstream.advance(at);
            }
            self.passed.push(self.counted(upstreams));
            self.away.fill(None);
        }
    }

    /// An upstream rejects a call; its caller knows after `latency`, and is told to wait for so long, if at all.
    pub fn rejected(&mut self, service: usize, latency: Duration, wait: Option<Duration>, now: Nanos) {
        match self.away[service] {
            None => self.away[service] = Some(now.after(latency).after(wait.unwrap_or_default())),
            Some(away) => self.late[service] += u64::from(now > away),
        }
    }

    /// The parts of a service's run, which ends at `end`.
    pub fn parts(
        &mut self,
        service: usize,
        spec: &UpstreamSpec,
        upstreams: &mut [Option<Upstream>],
        end: Nanos,
    ) -> Vec<Phase> {
        self.pass(upstreams, end);
        for upstream in upstreams.iter_mut().flatten() {
            upstream.advance(end);
        }
        let (nothing, last) = (Counted::default(), self.counted(upstreams));
        let ends = self.moments.iter().copied().zip(&self.passed).chain([(end, &last)]);
        let mut from = (Nanos::ZERO, &nothing);
        let mut parts = Vec::new();
        for (at, counted) in ends {
            let until = (at, &counted[service]);
            parts.push(part(from, until, spec));
            from = until;
        }
        parts
    }

    fn counted(&self, upstreams: &[Option<Upstream>]) -> Vec<Counted> {
        let counts = upstreams.iter().map(|upstream| upstream.as_ref().map(Upstream::counts));
        let each = counts.zip(&self.late);
        each.map(|(counts, late)| Counted { counts: counts.cloned().unwrap_or_default(), late: *late })
            .collect()
    }
}

/// What came between two moments.
fn part((from, before): (Nanos, &Counted), (until, then): (Nanos, &Counted), spec: &UpstreamSpec) -> Phase {
    let (from, until) = (from.since(Nanos::ZERO), until.since(Nanos::ZERO));
    // Nothing was counted before the start; and what ends may give back units of the part before.
    let more = |then: &Tally, before: &Tally, place: usize| {
        then.units[place].saturating_sub(before.units.get(place).copied().unwrap_or_default())
    };
    let (us, others) = (&then.counts.us, &then.counts.neighbours);
    let limits = spec.limits.iter().enumerate().filter(|(_, limit)| limit.model != Model::Concurrency);
    let upstream = limits.map(|(place, limit)| LimitReport {
        name: format!("{} per {:?}", limit.dimension, limit.rate.window()),
        supply: spec.supply(place, from, until),
        used: more(us, &before.counts.us, place),
        neighbours: more(others, &before.counts.neighbours, place),
    });
    Phase {
        from,
        until,
        sent: us.received - before.counts.us.received,
        accepted: us.accepted - before.counts.us.accepted,
        rejected: us.refused - before.counts.us.refused,
        rejected_late: then.late - before.late,
        upstream: upstream.collect(),
    }
}
