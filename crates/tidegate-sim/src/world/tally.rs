//! Counting what happened: sums, percentiles and parts of time, of a size that does not grow with the run.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::engine::Terms;
use tidegate_core::{Dimension, Nanos, Priority};

use super::histogram::Histogram;
use super::spans::Spans;
use crate::report::{GroupReport, LimitReport, LoopReport, MAX_LOOPS, Series, ServiceReport, ServiceSeries};
use crate::routes::{Kind, Routes};

/// Parts of time in a series.
const PARTS: u64 = 240;

/// What becomes of a call at the gate and behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Called,
    Succeeded,
    Refused,
    TimedOut,
    Shed,
    Cancelled,
    GivenUp,
    Crashed,
    Unfinished,
}

#[derive(Clone, Debug, Default)]
struct Group {
    counts: GroupReport,
    waits: Histogram,
}

impl Group {
    fn count(&mut self, fate: Fate) {
        let counts = &mut self.counts;
        *match fate {
            Fate::Called => &mut counts.calls,
            Fate::Succeeded => &mut counts.succeeded,
            Fate::Refused => &mut counts.refused,
            Fate::TimedOut => &mut counts.timed_out,
            Fate::Shed => &mut counts.shed,
            Fate::Cancelled => &mut counts.cancelled,
            Fate::GivenUp => &mut counts.given_up,
            Fate::Crashed => &mut counts.crashed,
            Fate::Unfinished => &mut counts.unfinished,
        } += 1;
    }

    fn report(&self, name: &str) -> GroupReport {
        GroupReport { name: name.into(), wait: self.waits.waits(), ..self.counts.clone() }
    }
}

/// All counts of a run.
#[derive(Debug)]
pub(crate) struct Tally {
    step: Duration,
    duration: Duration,
    warmup: Nanos,
    workloads: Vec<Group>,
    priorities: [Group; 4],
    services: Vec<(ServiceReport, ServiceSeries)>,
    /// When each service's backoff windows were open.
    backoff: Vec<Spans>,
    waiting: Vec<u64>,
    /// The part of time up to which that is written down.
    carried: Vec<usize>,
    /// Grants by loop, and each service's.
    loops: HashMap<u32, (usize, u64)>,
    granted: Vec<u64>,
    /// By limit: units since the warm-up, the supply up to a time, and from then on the rate.
    used: Vec<i128>,
    supply: Vec<(f64, Nanos)>,
    pub down: Vec<(Duration, Duration)>,
    pub peak: usize,
}

impl Tally {
    pub fn new(workloads: usize, services: &[String], duration: Duration, warmup: Duration) -> Tally {
        let parts = PARTS as usize;
        let service = |name: &String| {
            let series = ServiceSeries {
                granted: vec![[0; 4]; parts],
                rejected: vec![0; parts],
                failed: vec![0; parts],
                waiting: vec![0; parts],
                allowed: vec![None; parts],
                backoff: Vec::new(),
            };
            (ServiceReport { name: name.clone(), ..ServiceReport::default() }, series)
        };
        Tally {
            step: (duration / PARTS as u32).max(Duration::from_nanos(1)),
            duration,
            warmup: Nanos::ZERO.after(warmup),
            workloads: vec![Group::default(); workloads],
            priorities: Default::default(),
            services: services.iter().map(service).collect(),
            backoff: vec![Spans::default(); services.len()],
            waiting: vec![0; services.len()],
            carried: vec![0; services.len()],
            loops: HashMap::new(),
            granted: vec![0; services.len()],
            used: Vec::new(),
            supply: Vec::new(),
            down: Vec::new(),
            peak: 0,
        }
    }

    pub fn count(&mut self, workload: usize, class: Priority, fate: Fate) {
        self.workloads[workload].count(fate);
        self.priorities[class as usize].count(fate);
    }

    /// A call goes after it has waited since `arrived`.
    pub fn went(&mut self, workload: usize, kind: &Kind, costs: &[u64], arrived: Nanos, now: Nanos) {
        let waited = now.0.saturating_sub(arrived.0);
        for group in [&mut self.workloads[workload], &mut self.priorities[kind.class as usize]] {
            group.counts.went += 1;
            group.waits.add(waited);
        }
        let part = self.part(now);
        self.services[kind.service].1.granted[part][kind.class as usize] += 1;
        self.granted[kind.service] += 1;
        if kind.loop_ > 0 {
            self.loops.entry(kind.loop_).or_insert((workload, 0)).1 += 1;
        }
        for (used, cost) in kind.limits.iter().zip(costs) {
            self.spent(used.limit, i128::from(*cost), now);
        }
    }

    /// Units were spent or came back.
    pub fn spent(&mut self, limit: u32, units: i128, now: Nanos) {
        if now < self.warmup {
            return;
        }
        if self.used.len() <= limit as usize {
            self.used.resize(limit as usize + 1, 0);
        }
        self.used[limit as usize] += units;
    }

    pub fn waits(&mut self, service: usize, by: i64, now: Nanos) {
        let part = self.part(now);
        self.carry_waiting(service, part);
        self.waiting[service] = self.waiting[service].saturating_add_signed(by);
        let most = &mut self.services[service].1.waiting[part];
        *most = (*most).max(self.waiting[service]);
    }

    /// Whoever waits at the end of a part still does at the beginning of the next.
    fn carry_waiting(&mut self, service: usize, until: usize) {
        let parts = &mut self.services[service].1.waiting;
        let from = self.carried[service];
        if until > from {
            parts[from + 1..=until].fill(self.waiting[service]);
            self.carried[service] = until;
        }
    }

    pub fn waiting_now(&mut self, waiting: usize) {
        self.peak = self.peak.max(waiting);
    }

    pub fn service(&mut self, service: usize) -> &mut ServiceReport {
        &mut self.services[service].0
    }

    pub fn rejected(&mut self, service: usize, now: Nanos) {
        let part = self.part(now);
        self.services[service].0.rejected += 1;
        self.services[service].1.rejected[part] += 1;
    }

    pub fn failed(&mut self, service: usize, now: Nanos) {
        let part = self.part(now);
        self.services[service].0.failed += 1;
        self.services[service].1.failed[part] += 1;
    }

    /// A backoff window of a service is open until then; `opened` says that it was not before.
    pub fn backs_off(&mut self, service: usize, opened: bool, until: Nanos, now: Nanos) {
        self.services[service].0.windows += u64::from(opened);
        if until > now {
            self.backoff[service].extend(until, now, self.step);
        }
    }

    /// Windows of a service were ended by hand: none is open any longer than that.
    pub fn backs_off_until(&mut self, service: usize, until: Nanos) {
        self.backoff[service].cut(until);
    }

    /// Limits are known, or have changed: what they give from now on is counted by their new rates.
    pub fn limits_are(&mut self, routes: &Routes, now: Nanos) {
        for limit in 0..routes.limit_count() {
            if self.supply.len() <= limit as usize {
                self.supply.push((0.0, now.max(self.warmup)));
            }
        }
        let end = Nanos::ZERO.after(self.duration);
        for service in 0..self.services.len() {
            let allowed = self.allowed(service, routes);
            let series = &mut self.services[service].1;
            let from = (now.0 / whole(self.step).max(1)) as usize;
            for part in series.allowed.iter_mut().skip(if now < end { from } else { usize::MAX }) {
                *part = allowed;
            }
        }
    }

    /// Adds up what limits gave up to now under the terms that end here.
    pub fn supply_until(&mut self, routes: &Routes, now: Nanos) {
        for (limit, supply) in (0..).zip(&mut self.supply) {
            let (Terms::TokenBucket { rate, .. }
            | Terms::SlidingWindow { rate, .. }
            | Terms::FixedWindow { rate }) = routes.terms(limit)
            else {
                continue;
            };
            let span = now.since(supply.1).as_secs_f64();
            supply.0 += rate.units() as f64 * span / rate.window().as_secs_f64();
            supply.1 = supply.1.max(now);
        }
    }

    /// What the tightest of a service's own limits on requests gives in one part of time.
    fn allowed(&self, service: usize, routes: &Routes) -> Option<f64> {
        let prefix = format!("{}/requests/", self.services[service].0.name);
        let rates = (0..routes.limit_count()).filter(|limit| routes.name(*limit).starts_with(&prefix));
        let per_part = rates.filter_map(|limit| match routes.terms(limit) {
            Terms::TokenBucket { rate, .. }
            | Terms::SlidingWindow { rate, .. }
            | Terms::FixedWindow { rate } => {
                Some(rate.units() as f64 * self.step.as_secs_f64() / rate.window().as_secs_f64())
            }
            _ => None,
        });
        per_part.min_by(f64::total_cmp)
    }

    fn part(&self, now: Nanos) -> usize {
        (now.0 / whole(self.step).max(1)).min(PARTS - 1) as usize
    }

    pub fn workloads(&self, names: impl Iterator<Item = String>) -> Vec<GroupReport> {
        self.workloads.iter().zip(names).map(|(group, name)| group.report(&name)).collect()
    }

    pub fn priorities(&self) -> Vec<GroupReport> {
        let groups = Priority::ALL.into_iter().rev().map(|class| (class, &self.priorities[class as usize]));
        let called = groups.filter(|(_, group)| group.counts.calls > 0);
        called.map(|(class, group)| group.report(class.name())).collect()
    }

    /// Each loop's part of its service's grants.
    pub fn loops(&self, routes: &Routes, workloads: &[String], names: &[String]) -> Vec<LoopReport> {
        let mut services: HashMap<u32, usize> = HashMap::new();
        for kind in 0..routes.kind_count() {
            services.insert(routes.kind(kind).loop_, routes.kind(kind).service);
        }
        let mut loops: Vec<LoopReport> = self
            .loops
            .iter()
            .map(|(number, &(workload, went))| {
                let all = services.get(number).map_or(0, |service| self.granted[*service]).max(1);
                LoopReport {
                    name: names[*number as usize].clone(),
                    workload: workloads[workload].clone(),
                    went,
                    share: went as f64 / all as f64,
                }
            })
            .collect();
        loops.sort_by(|a, b| (b.went, &a.name).cmp(&(a.went, &b.name)));
        if loops.len() > MAX_LOOPS {
            loops.drain(MAX_LOOPS / 2..loops.len() - MAX_LOOPS / 2);
        }
        loops
    }

    pub fn loop_count(&self) -> usize {
        self.loops.len()
    }

    /// Services with their limits, and the series.
    pub fn finish(mut self, routes: &Routes, end: Nanos) -> (Vec<ServiceReport>, Series) {
        self.supply_until(routes, end);
        let last = self.part(end);
        (0..self.services.len()).for_each(|service| self.carry_waiting(service, last));
        for limit in 0..routes.limit_count() {
            let (name, terms) = (routes.name(limit), routes.terms(limit));
            if terms.is_in_flight() || name.starts_with("loop:") {
                continue;
            }
            let used = self.used.get(limit as usize).copied().unwrap_or(0);
            let report = LimitReport {
                name: name.to_string(),
                supply: self.supply[limit as usize].0,
                used: u64::try_from(used.max(0)).unwrap_or(u64::MAX),
                neighbours: 0,
            };
            let owner = name.split('/').next().unwrap_or_default();
            let own = self.services.iter_mut().filter(|(service, _)| service.name == owner);
            let mut own: Vec<_> = own.collect();
            if own.is_empty() {
                // Limits above all services, or across them, are shown with each that passes them.
                own = self
                    .services
                    .iter_mut()
                    .filter(|(service, _)| passes(routes, &service.name, limit))
                    .collect();
            }
            for (service, _) in own {
                service.limits.push(report.clone());
            }
        }
        for ((service, series), spans) in self.services.iter_mut().zip(self.backoff) {
            (service.in_windows, series.backoff) = spans.finish(end);
        }
        let (services, series) = self.services.into_iter().unzip();
        (services, Series { step: self.step, services: series, down: self.down })
    }
}

fn passes(routes: &Routes, service: &str, limit: u32) -> bool {
    let mut kinds = (0..routes.kind_count()).map(|kind| routes.kind(kind));
    kinds.any(|kind| kind.call.service() == service && kind.limits.iter().any(|used| used.limit == limit))
}

fn whole(span: Duration) -> u64 {
    tidegate_core::whole_nanos(span)
}

/// The dimension that a limit's name states.
pub(crate) fn dimension_in(name: &str) -> Dimension {
    Dimension::from_name(name.rsplit('/').nth(1).unwrap_or_default())
}
