//! The rules of the queue by brute force.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_core::config::{RateLimit, Reserve};
use tidegate_core::limits::meters::{Boundary, Bucket, FixedWindow, InFlight, Meter, SlidingWindow};
use tidegate_core::{Algorithm, Dimension, Nanos, Priority};

use super::scenario::{CallPlan, Event, HEAVY, LimitPlan, Place, Scenario, with_units};

/// Calls of one route, loop and priority.
type LaneId = (&'static str, bool, bool, Option<&'static str>, Priority);

/// The limit at which one may go, its lane, its number, and whether it is first there.
type Candidate = (usize, LaneId, usize, bool);

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Holder,
    Other,
    Behind,
}

struct RefLimit {
    place: Place,
    dimension: Option<Dimension>,
    meter: Meter,
    withheld: [u64; 4],
    units: u64,
    rate: Option<RateLimit>,
    whole: u64,
    classes: BTreeMap<Priority, RefClass>,
    credit: i128,
}

#[derive(Default)]
struct RefClass {
    vtime: u128,
    finish: BTreeMap<Option<&'static str>, u128>,
}

struct Waiting {
    number: usize,
    plan: CallPlan,
    lane: LaneId,
    enqueued: Nanos,
}

pub struct Reference {
    limits: Vec<RefLimit>,
    /// In order of arrival.
    waiting: Vec<Waiting>,
    bound: BTreeMap<LaneId, usize>,
    went: Vec<(usize, Nanos)>,
    held: BTreeMap<usize, (CallPlan, Nanos)>,
    aging: u64,
    share: i128,
    now: Nanos,
}

impl Reference {
    pub fn run(scenario: &Scenario) -> Vec<(usize, Nanos)> {
        let mut this = Reference {
            limits: scenario.limits.iter().map(new_limit).collect(),
            waiting: Vec::new(),
            bound: BTreeMap::new(),
            went: Vec::new(),
            held: BTreeMap::new(),
            aging: scenario.aging.as_nanos() as u64,
            share: (scenario.aging_share * 1e6) as i128,
            now: Nanos::ZERO,
        };
        let mut number = 0;
        for (at, event) in &scenario.events {
            this.pass_time(*at);
            match event {
                Event::Arrive(plan) => {
                    this.arrive(number, plan);
                    number += 1;
                }
                Event::Withdraw(number) => this.remove(*number),
                Event::Finish(number, tokens) => this.finish(*number, *tokens),
                Event::Change(index, units) => this.change(*index, *units, scenario),
            }
            this.settle();
        }
        this.pass_time(scenario.end);
        this.went
    }

    // ---- time ----

    fn pass_time(&mut self, until: Nanos) {
        while let Some(next) = self.next_time().filter(|next| *next <= until) {
            self.now = next;
            self.settle();
        }
        self.now = until;
        self.settle();
    }

    /// Every time at which anything could become possible.
    fn next_time(&self) -> Option<Nanos> {
        let mut times = BTreeSet::new();
        for call in &self.waiting {
            for (index, limit) in self.limits.iter().enumerate() {
                let passes = |plan: &CallPlan| plan.passes(limit.place) && self.cost(plan, index) > 0;
                if limit.dimension.is_none() || !passes(&call.plan) {
                    continue;
                }
                let cost = self.cost(&call.plan, index);
                let mut room =
                    |cost| times.extend(limit.withheld.map(|kept| limit.meter.earliest(cost, kept)));
                room(cost);
                // Beside another that is first but held elsewhere.
                for first in self.waiting.iter().filter(|first| passes(&first.plan)) {
                    room(cost + self.cost(&first.plan, index));
                }
            }
            let waited = self.now.0 - call.enqueued.0;
            times.insert(Nanos(call.enqueued.0 + (waited / self.aging + 1) * self.aging));
        }
        times.into_iter().find(|time| *time > self.now && !time.is_never())
    }

    // ---- what happens ----

    fn arrive(&mut self, number: usize, plan: &CallPlan) {
        let class = plan.priority;
        for (index, limit) in self.limits.iter().enumerate() {
            let capacity = limit.meter.capacity() - limit.withheld[class as usize];
            if plan.passes(limit.place) && self.cost(plan, index) > capacity {
                return;
            }
        }
        let has = |place| self.limits.iter().any(|limit| limit.place == place);
        let lane = (
            plan.service,
            plan.passes(Place::Endpoint) && has(Place::Endpoint),
            plan.passes(Place::Model) && has(Place::Model),
            plan.loop_,
            class,
        );
        let known = self.waiting.iter().any(|call| call.lane == lane);
        self.waiting.push(Waiting { number, plan: plan.clone(), lane, enqueued: self.now });
        if known {
            return;
        }
        match self.obstacle(lane, &plan.clone(), Role::Other) {
            None => {
                for index in 0..self.limits.len() {
                    if plan.passes(self.limits[index].place) {
                        self.earn(index, self.cost(plan, index));
                    }
                }
                self.let_go(number, false);
            }
            Some(limit) => self.bind(lane, limit),
        }
    }

    fn finish(&mut self, number: usize, tokens: Option<u64>) {
        let Some((plan, at)) = self.held.remove(&number) else { return };
        for index in 0..self.limits.len() {
            if !plan.passes(self.limits[index].place) {
                continue;
            }
            let reserved = self.cost(&plan, index);
            match self.limits[index].dimension {
                None => self.limits[index].meter.refund(reserved, at, self.now),
                Some(Dimension::Tokens) => {
                    let Some(tokens) = tokens else { continue };
                    if tokens > reserved {
                        self.limits[index].meter.charge(tokens - reserved, self.now);
                    } else if tokens < reserved {
                        self.limits[index].meter.refund(reserved - tokens, at, self.now);
                    }
                    self.charge(
                        index,
                        plan.loop_,
                        plan.priority,
                        i128::from(tokens) - i128::from(reserved),
                        false,
                    );
                }
                Some(_) => {}
            }
        }
    }

    fn change(&mut self, index: usize, units: u64, scenario: &Scenario) {
        let plan = &scenario.limits[index];
        let changed = LimitPlan {
            rate: plan.rate.as_ref().map(|rate| with_units(rate, units)),
            units,
            reserve: plan.reserve,
            place: plan.place,
        };
        let fresh = new_limit(&changed);
        if (fresh.units, &fresh.rate) == (self.limits[index].units, &self.limits[index].rate) {
            return;
        }
        let limit = &mut self.limits[index];
        let (rate, burst) = (
            changed.rate.as_ref().map(|r| r.rate),
            changed.rate.as_ref().and_then(|r| burst_of(r, plan.place)),
        );
        match (&mut limit.meter, rate) {
            (Meter::InFlight(held), _) => held.change(units),
            (Meter::Bucket(bucket), Some(rate)) => bucket.change(rate, burst.unwrap_or(units), self.now),
            (Meter::Sliding(window), Some(rate)) => {
                window.change(rate, burst.map(|burst| (rate, burst)), self.now);
            }
            (Meter::Fixed(window), _) => window.change(units, self.now),
            _ => unreachable!("a rate stays a rate"),
        }
        limit.withheld = fresh.withheld;
        limit.whole = fresh.whole;
        (limit.units, limit.rate) = (units, fresh.rate);
        let impossible: Vec<usize> = self
            .waiting
            .iter()
            .filter(|call| {
                self.limits.iter().enumerate().any(|(index, limit)| {
                    let kept = limit.withheld[call.lane.4 as usize];
                    call.plan.passes(limit.place)
                        && self.cost(&call.plan, index) > limit.meter.capacity() - kept
                })
            })
            .map(|call| call.number)
            .collect();
        for number in impossible {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: usize) {
        let Some(place) = self.waiting.iter().position(|call| call.number == number) else { return };
        let lane = self.waiting.remove(place).lane;
        if !self.waiting.iter().any(|call| call.lane == lane) {
            self.unbind(lane);
        }
        for index in 0..self.limits.len() {
            if !self.somebody_passes(index) {
                self.limits[index].credit = 0;
            }
        }
    }

    fn somebody_passes(&self, limit: usize) -> bool {
        self.waiting.iter().any(|call| call.plan.passes(self.limits[limit].place))
    }

    // ---- letting go ----

    fn settle(&mut self) {
        loop {
            let mut dirty: BTreeSet<usize> = (0..self.limits.len()).collect();
            let mut candidates: BTreeMap<usize, (LaneId, usize, bool)> = BTreeMap::new();
            while let Some(limit) = dirty.pop_first() {
                let before = self.bound.clone();
                candidates.remove(&limit);
                if let Some(candidate) = self.look(limit) {
                    candidates.insert(limit, candidate);
                }
                // Whoever moved may now be first elsewhere, which may matter here as well.
                if self.bound != before {
                    dirty.extend(0..self.limits.len());
                }
            }
            // Nobody goes who has to let another go first, unless all have.
            let all: Vec<Candidate> =
                candidates.into_iter().map(|(at, (lane, n, first))| (at, lane, n, first)).collect();
            let yields = |one: &Candidate| all.iter().any(|other| self.yields(one, other));
            let best = all
                .iter()
                .min_by_key(|one| (!one.3, yields(one), self.standing(one.1), one.0))
                .map(|&(_, _, number, in_turn)| (number, in_turn));
            let Some((number, in_turn)) = best else { return };
            self.let_go(number, in_turn);
        }
    }

    /// Whether the order of a limit on both ways says that the other one goes first, and none says the opposite.
    fn yields(&self, one: &Candidate, other: &Candidate) -> bool {
        let (&(own, lane, _, in_turn), &(theirs, rival, _, also)) = (one, other);
        let passes = |lane: LaneId, limit: usize| {
            let plan = self.head(lane).1;
            plan.passes(self.limits[limit].place) && self.cost(&plan, limit) > 0
        };
        let says = |limit: usize, a: LaneId, b: LaneId| {
            passes(a, limit) && passes(b, limit) && self.precedes(limit, a, b)
        };
        in_turn && also && lane != rival && says(theirs, rival, lane) && !says(own, lane, rival)
    }

    fn look(&mut self, limit: usize) -> Option<(LaneId, usize, bool)> {
        loop {
            let first = self.first(limit)?;
            let (number, plan) = self.head(first);
            match self.obstacle(first, &plan, Role::Holder) {
                None => return Some((first, number, true)),
                Some(other) if other != limit => {
                    self.unbind(first);
                    self.bind(first, other);
                }
                Some(_) if self.limits[limit].dimension.is_none() => return None,
                Some(_) => return self.backfill(limit, first),
            }
        }
    }

    fn backfill(&mut self, limit: usize, first: LaneId) -> Option<(LaneId, usize, bool)> {
        let booked = self.booking(first);
        let cost = self.cost(&self.head(first).1, limit);
        let withheld = self.withheld(limit, first);
        let now = self.now;
        let spare = match booked.is_never() {
            true => u64::MAX,
            false => self.limits[limit].meter.spare(now, cost, withheld, booked.max(now)),
        };
        let bound = self.limits[limit].meter.room(0, now).min(spare);
        for class in Priority::ALL.into_iter().rev() {
            let mut lanes: Vec<LaneId> = self
                .bound
                .iter()
                .filter(|(lane, at)| **at == limit && lane.4 == class)
                .map(|(l, _)| *l)
                .collect();
            lanes.sort_by_key(|lane| self.key(limit, *lane));
            for lane in lanes {
                let calls: Vec<(usize, CallPlan)> = self.calls(lane);
                if calls.iter().all(|(_, plan)| self.cost(plan, limit) > bound) {
                    continue;
                }
                for (number, plan) in &calls {
                    if self.obstacle(lane, plan, Role::Behind).is_none() {
                        return Some((lane, *number, false));
                    }
                }
                if lane != first
                    && let Some(other) =
                        self.obstacle(lane, &calls[0].1, Role::Other).filter(|at| *at != limit)
                {
                    self.unbind(lane);
                    self.bind(lane, other);
                }
            }
        }
        None
    }

    fn let_go(&mut self, number: usize, in_turn: bool) {
        let place = self.waiting.iter().position(|call| call.number == number).expect("it waits");
        let (plan, lane) = (self.waiting[place].plan.clone(), self.waiting[place].lane);
        let bound = self.bound.get(&lane).copied();
        let rate_bound = bound.is_some_and(|limit| self.limits[limit].dimension.is_some());
        let mut stamp = self.now;
        if in_turn && rate_bound {
            let late = Nanos(self.now.0.saturating_sub(20_000_000));
            stamp = self.booking(lane).max(self.waiting[place].enqueued).max(late).min(self.now);
        }
        for index in 0..self.limits.len() {
            if !plan.passes(self.limits[index].place) {
                continue;
            }
            let cost = self.cost(&plan, index);
            let here: Vec<LaneId> =
                self.bound.iter().filter(|(_, at)| **at == index).map(|(l, _)| *l).collect();
            let passes = in_turn && bound == Some(index) && here.iter().any(|other| other.4 > lane.4);
            let (now, kept) = (self.now, self.limits[index].withheld[lane.4 as usize]);
            let reserved = kept > 0 && cost > 0 && !self.limits[index].meter.fits(cost, kept, now);
            if passes || reserved {
                self.limits[index].credit -= i128::from(cost) * 1_000_000;
            } else if in_turn {
                self.earn(index, cost);
            }
            self.limits[index].meter.take(cost, stamp, self.now);
        }
        for index in 0..self.limits.len() {
            if plan.passes(self.limits[index].place) {
                let cost = i128::from(self.cost(&plan, index));
                self.charge(index, lane.3, lane.4, cost, in_turn && bound == Some(index));
            }
        }
        self.held.insert(number, (plan, self.now));
        self.went.push((number, self.now));
        self.remove(number);
    }

    // ---- rank ----

    fn bind(&mut self, lane: LaneId, limit: usize) {
        let class = self.limits[limit].classes.entry(lane.4).or_default();
        let active =
            self.bound.iter().any(|(other, at)| *at == limit && other.3 == lane.3 && other.4 == lane.4);
        if !active {
            let finish = class.finish.entry(lane.3).or_default();
            *finish = (*finish).max(class.vtime);
        }
        self.bound.insert(lane, limit);
    }

    fn unbind(&mut self, lane: LaneId) {
        let Some(limit) = self.bound.remove(&lane) else { return };
        if !self.bound.values().any(|at| *at == limit) {
            self.limits[limit].classes.clear();
        }
    }

    fn charge(
        &mut self,
        limit: usize,
        loop_: Option<&'static str>,
        class: Priority,
        units: i128,
        in_turn: bool,
    ) {
        let weight = if loop_ == Some("heavy") { HEAVY } else { 1.0 };
        let inverse = ((1_u64 << 32) as f64 / weight) as i128;
        let Some(class) = self.limits[limit].classes.get_mut(&class) else { return };
        let finish = class.finish.entry(loop_).or_default();
        let start = (*finish).max(class.vtime);
        *finish = start.saturating_add_signed(units * inverse);
        if in_turn {
            class.vtime = class.vtime.max(start);
        }
    }

    fn key(&self, limit: usize, lane: LaneId) -> (u128, usize) {
        let tag = self.limits[limit]
            .classes
            .get(&lane.4)
            .map_or(0, |class| class.finish.get(&lane.3).copied().unwrap_or(class.vtime).max(class.vtime));
        (tag, self.head(lane).0)
    }

    fn first(&self, limit: usize) -> Option<LaneId> {
        let mut best: Option<LaneId> = None;
        for class in Priority::ALL.into_iter().rev() {
            let lanes =
                self.bound.iter().filter(|(lane, at)| **at == limit && lane.4 == class).map(|(l, _)| *l);
            let Some(lane) = lanes.min_by_key(|lane| self.key(limit, *lane)) else { continue };
            best = match best {
                Some(higher) if !self.passes_by_age(limit, lane, higher) => Some(higher),
                _ => Some(lane),
            };
        }
        best
    }

    fn precedes(&self, limit: usize, a: LaneId, b: LaneId) -> bool {
        match a.4.cmp(&b.4) {
            std::cmp::Ordering::Equal => self.key(limit, a) < self.key(limit, b),
            std::cmp::Ordering::Greater => !self.passes_by_age(limit, b, a),
            std::cmp::Ordering::Less => self.passes_by_age(limit, a, b),
        }
    }

    fn passes_by_age(&self, limit: usize, low: LaneId, high: LaneId) -> bool {
        self.level(low) > self.level(high) && self.has_credit(limit, low)
    }

    fn has_credit(&self, limit: usize, lane: LaneId) -> bool {
        let cost = match self.head(lane).1.passes(self.limits[limit].place) {
            true => self.cost(&self.head(lane).1, limit),
            false => 0,
        };
        self.limits[limit].credit >= i128::from(cost.min(self.cap(limit))) * 1_000_000
    }

    /// What is granted where somebody waits, in turn or at once, lets the old pass by age.
    fn earn(&mut self, limit: usize, cost: u64) {
        if self.somebody_passes(limit) {
            let earned = self.limits[limit].credit + i128::from(cost) * self.share;
            self.limits[limit].credit = earned.min(i128::from(self.cap(limit)) * 1_000_000);
        }
    }

    fn cap(&self, limit: usize) -> u64 {
        ((i128::from(self.limits[limit].whole) * self.share / 1_000_000) as u64).max(1)
    }

    fn level(&self, lane: LaneId) -> u64 {
        let head = self.waiting.iter().find(|call| call.lane == lane).expect("not empty");
        lane.4 as u64 + (self.now.0 - head.enqueued.0) / self.aging
    }

    fn standing(&self, lane: LaneId) -> (Reverse<(u64, u8)>, usize) {
        (Reverse((self.level(lane), lane.4 as u8)), self.head(lane).0)
    }

    // ---- what holds a call ----

    fn obstacle(&mut self, lane: LaneId, plan: &CallPlan, role: Role) -> Option<usize> {
        let mut worst: Option<(usize, Nanos)> = None;
        for index in 0..self.limits.len() {
            let cost = self.cost(plan, index);
            let slots = self.limits[index].dimension.is_none();
            if !plan.passes(self.limits[index].place) || (cost == 0 && !slots) {
                continue;
            }
            let withheld = self.withheld(index, lane);
            let (now, meter) = (self.now, &mut self.limits[index].meter);
            if !meter.fits(cost, withheld, now) {
                let until = meter.earliest(cost, withheld);
                assert!(until > now, "what does not fit now fits later");
                if worst.is_none_or(|(_, worst)| until > worst) {
                    worst = Some((index, until));
                }
            }
        }
        if worst.is_some() {
            return worst.map(|(index, _)| index);
        }
        let bound = self.bound.get(&lane).copied();
        bound.into_iter().chain(0..self.limits.len()).find(|&index| {
            let cost = self.cost(plan, index);
            let rate = self.limits[index].dimension.is_some();
            plan.passes(self.limits[index].place)
                && rate
                && cost > 0
                && self.moves_a_booking(index, lane, role, cost)
        })
    }

    /// Whether taking `cost` at `limit` would move the booking of a first lane that ranks before this one.
    fn moves_a_booking(&mut self, limit: usize, lane: LaneId, role: Role, cost: u64) -> bool {
        for at in 0..self.limits.len() {
            if self.limits[at].dimension.is_none() {
                continue;
            }
            let Some(holder) = self.first(at) else { continue };
            if holder == lane && role != Role::Behind {
                continue;
            }
            let plan = self.head(holder).1;
            let wants = self.cost(&plan, limit);
            if !plan.passes(self.limits[limit].place) || wants == 0 {
                continue;
            }
            let booked = self.booking(holder);
            if booked.is_never() || (role == Role::Holder && booked <= self.now) {
                continue;
            }
            if holder != lane && !self.ranks_before(at, holder, lane) {
                continue;
            }
            let withheld = self.withheld(limit, holder);
            let now = self.now;
            if cost > self.limits[limit].meter.spare(now, wants, withheld, booked.max(now)) {
                return true;
            }
        }
        false
    }

    fn ranks_before(&self, at: usize, holder: LaneId, lane: LaneId) -> bool {
        if self.bound.get(&lane) == Some(&at) {
            return true;
        }
        let plan = self.head(lane).1;
        if plan.passes(self.limits[at].place) && self.cost(&plan, at) > 0 {
            self.precedes(at, holder, lane)
        } else {
            self.standing(holder) < self.standing(lane)
        }
    }

    fn booking(&self, lane: LaneId) -> Nanos {
        let plan = self.head(lane).1;
        let mut booked = Nanos::ZERO;
        for (index, limit) in self.limits.iter().enumerate() {
            let cost = self.cost(&plan, index);
            if plan.passes(limit.place) && limit.dimension.is_some() && cost > 0 {
                booked = booked.max(limit.meter.earliest(cost, self.withheld(index, lane)));
            }
        }
        booked
    }

    fn withheld(&self, limit: usize, lane: LaneId) -> u64 {
        let held = &self.limits[limit];
        let waits = |class: Priority| {
            self.waiting.iter().any(|call| call.lane.4 == class && call.plan.passes(held.place))
        };
        let outranked = Priority::ALL
            .into_iter()
            .rev()
            .find(|class| *class > lane.4 && (*class as u64) < self.level(lane) && waits(*class));
        match outranked {
            Some(higher) if self.has_credit(limit, lane) => held.withheld[higher as usize],
            _ => held.withheld[lane.4 as usize],
        }
    }

    // ---- small things ----

    fn cost(&self, plan: &CallPlan, limit: usize) -> u64 {
        match &self.limits[limit].dimension {
            None => 1,
            Some(Dimension::Tokens) => plan.tokens,
            Some(_) => plan.requests,
        }
    }

    fn calls(&self, lane: LaneId) -> Vec<(usize, CallPlan)> {
        let calls = self.waiting.iter().filter(|call| call.lane == lane);
        calls.map(|call| (call.number, call.plan.clone())).collect()
    }

    fn head(&self, lane: LaneId) -> (usize, CallPlan) {
        let head = self.waiting.iter().find(|call| call.lane == lane).expect("not empty");
        (head.number, head.plan.clone())
    }
}

fn new_limit(plan: &LimitPlan) -> RefLimit {
    let (meter, whole) = match &plan.rate {
        None => (Meter::InFlight(InFlight::slots(plan.units)), plan.units),
        Some(rate) => {
            let burst = burst_of(rate, plan.place);
            let units = rate.rate.units();
            match rate.algorithm.unwrap_or(Algorithm::SlidingWindow) {
                Algorithm::TokenBucket => {
                    let capacity = burst.unwrap_or(units);
                    (Meter::Bucket(Bucket::full(rate.rate, capacity, Nanos::ZERO)), capacity)
                }
                Algorithm::FixedWindow => {
                    let anchor = Boundary::Anchor(Nanos::ZERO);
                    (Meter::Fixed(FixedWindow::new(rate.rate, anchor, Nanos::ZERO)), units)
                }
                Algorithm::SlidingWindow => match burst {
                    Some(burst) => (
                        Meter::Sliding(SlidingWindow::paced(rate.rate, rate.rate, burst, Nanos::ZERO)),
                        units,
                    ),
                    None => (Meter::Sliding(SlidingWindow::new(rate.rate)), units),
                },
            }
        }
    };
    let withheld = |reserve: Reserve| Priority::ALL.map(|p| (reserve.withheld_from(p) * whole as f64) as u64);
    RefLimit {
        place: plan.place,
        dimension: plan.rate.as_ref().map(|rate| rate.dimension.clone()),
        meter,
        withheld: withheld(plan.reserve),
        units: plan.rate.as_ref().map_or(plan.units, |rate| rate.rate.units()),
        rate: plan.rate.clone(),
        whole,
        classes: BTreeMap::new(),
        credit: 0,
    }
}

/// The bucket's capacity or the pacer's burst.
fn burst_of(rate: &RateLimit, place: Place) -> Option<u64> {
    let units = rate.rate.units();
    match rate.algorithm {
        Some(Algorithm::TokenBucket) => Some(rate.burst.unwrap_or(units)),
        Some(Algorithm::FixedWindow) => None,
        _ => match rate.burst {
            Some(burst) => (burst < units).then_some(burst),
            None => {
                let paced = place != Place::Global && rate.rate.window() <= Duration::from_secs(60);
                paced.then(|| (units / 120).max(1))
            }
        },
    }
}
