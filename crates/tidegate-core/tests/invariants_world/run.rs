//! Runs a world: calls come, end, go away; limits change; and after every step everything that must hold is
//! looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_core::config::RateLimit;
use tidegate_core::{
    Admission, Algorithm, Cost, Dimension, Engine, Grant, Nanos, Priority, Rate, Reason, Refusal, Ticket,
    Verdict,
};

use super::ledger::Ledger;
use super::plan::{CallPlan, Counts, Kind, Level, LimitPlan, Plan};
use crate::common::dice::Dice;

const MILLI: u64 = 1_000_000;

/// What happened, for comparing two runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Went(usize, Nanos),
    Waits(usize, Nanos),
    Refused(usize, Nanos, Refusal),
    Woke(Nanos),
    Stands(Vec<(String, u64)>),
}

struct CallState {
    plan: CallPlan,
    deadline: Nanos,
    epoch: usize,
    /// The levels that the config had limits at when it went: a pattern that comes later is not known of it.
    levels: BTreeSet<Level>,
}

struct Run {
    engine: Engine,
    plan: Plan,
    dice: Dice,
    now: Nanos,
    epoch: usize,
    /// Since when a limit has been there, by level and suffix.
    since: BTreeMap<(Level, String), (usize, Nanos)>,
    ledgers: BTreeMap<String, Ledger>,
    calls: Vec<CallState>,
    tickets: BTreeMap<Ticket, usize>,
    held: BTreeMap<usize, Grant>,
    log: Vec<Entry>,
    idle_wakes: usize,
}

/// Runs the world of a seed and says what happened in it.
pub fn run(plan: Plan, seed: u64) -> Vec<Entry> {
    let engine = Engine::new(&plan.config(), Nanos::ZERO, Duration::from_secs(1_700_000_000));
    let mut run = Run {
        engine: engine.expect("a valid config"),
        dice: Dice::new(!seed),
        now: Nanos::ZERO,
        epoch: 0,
        since: BTreeMap::new(),
        ledgers: BTreeMap::new(),
        calls: Vec::new(),
        tickets: BTreeMap::new(),
        held: BTreeMap::new(),
        log: Vec::new(),
        idle_wakes: 0,
        plan,
    };
    run.note_limits();
    while (run.calls.len() as u64) < run.plan.calls {
        run.step();
        run.look();
    }
    run.end();
    run.log
}

impl Run {
    fn step(&mut self) {
        match self.dice.below(100) {
            0..45 => self.arrive(),
            45..53 => self.attempt(),
            53..60 => self.withdraw(),
            60..76 => self.finish(),
            76..80 => self.cancel(),
            80..82 => self.change(),
            82 => self.reload(),
            _ => self.pass_time(),
        }
    }

    // ---- what happens ----

    fn arrive(&mut self) {
        let plan = self.plan.random_call(&mut self.dice);
        let timeout = self.dice.pick(&[30 * MILLI, 400 * MILLI, 86_400_000 * MILLI, 86_400_000 * MILLI]);
        let number = self.new_call(plan, timeout);
        let call = self.calls[number].plan.to_call();
        let own = match self.engine.enqueue(&call, Duration::from_nanos(timeout), self.now) {
            Ok(Admission::Granted(grant)) => Some(grant),
            Ok(Admission::Waiting(ticket)) => {
                self.log.push(Entry::Waits(number, self.now));
                self.tickets.insert(ticket, number);
                self.clamp(number);
                None
            }
            Err(refusal) => {
                self.check_refusal(number, &refusal, true);
                self.log.push(Entry::Refused(number, self.now, refusal));
                None
            }
        };
        if own.is_some() {
            self.clamp(number);
        }
        self.collect(own.map(|grant| (number, grant)));
    }

    /// A call that does not wait; refused, it must have changed nothing.
    fn attempt(&mut self) {
        let plan = self.plan.random_call(&mut self.dice);
        let number = self.new_call(plan, 0);
        self.engine.advance(self.now);
        self.collect(None);
        let before = self.stands();
        let call = self.calls[number].plan.to_call();
        match self.engine.try_admit(&call, self.now) {
            Ok(grant) => {
                self.clamp(number);
                self.collect(Some((number, grant)));
            }
            Err(refusal) => {
                self.check_refusal(number, &refusal, false);
                self.log.push(Entry::Refused(number, self.now, refusal));
                assert!(!self.engine.has_verdicts(), "a refused call let another go or refused it");
                let after = self.stands();
                for (name, stood) in &before {
                    // A loop that was idle may have been forgotten.
                    let stands = after.get(name).copied().unwrap_or((0, 0));
                    assert_eq!(stands, *stood, "a refused call changed `{name}`");
                }
                let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
                for (name, stands) in new {
                    assert_eq!(*stands, (0, 0), "a refused call spent at `{name}`");
                }
            }
        }
    }

    fn withdraw(&mut self) {
        let Some((ticket, _)) = self.pick_waiting() else { return };
        let before = self.stands();
        self.tickets.remove(&ticket);
        assert!(self.engine.withdraw(ticket, self.now));
        assert!(!self.engine.withdraw(ticket, self.now), "a call goes away once");
        let went = self.collect(None);
        if went == 0 {
            for (name, (used, _)) in self.stands() {
                assert_eq!(Some(used), before.get(&name).map(|stood| stood.0), "spent at `{name}`");
            }
        }
    }

    /// Head, middle or tail of the queue.
    fn pick_waiting(&mut self) -> Option<(Ticket, usize)> {
        let mut waiting: Vec<(Ticket, usize)> = self.tickets.iter().map(|(t, n)| (*t, *n)).collect();
        waiting.sort_by_key(|(_, number)| *number);
        match self.dice.below(3) {
            0 => waiting.first().copied(),
            1 => waiting.last().copied(),
            _ if waiting.is_empty() => None,
            _ => Some(self.dice.pick(&waiting)),
        }
    }

    fn pick_held(&mut self) -> Option<(usize, Grant)> {
        let held: Vec<usize> = self.held.keys().copied().collect();
        if held.is_empty() {
            return None;
        }
        let number = self.dice.pick(&held);
        self.held.remove(&number).map(|grant| (number, grant))
    }

    fn finish(&mut self) {
        let Some((number, grant)) = self.pick_held() else { return };
        let tokens = self.dice.one_in(2).then(|| self.dice.below(16));
        let actual = tokens.map(|tokens| Cost::nothing().with(Dimension::Tokens, tokens));
        let plan = self.calls[number].plan.clone();
        let keep = self.plan.keep && plan.service == "s";
        let now = self.now;
        self.each_ledger(number, |ledger, reserved| {
            let counts_tokens =
                matches!(&ledger.plan.counts, Counts::Rate(rate) if rate.dimension == Dimension::Tokens);
            let actual = tokens.filter(|_| counts_tokens).unwrap_or(reserved);
            let back = if keep { 0 } else { reserved.saturating_sub(actual) };
            ledger.end(number, reserved, back, now);
            ledger.owe(actual.saturating_sub(reserved), now);
        });
        self.engine.finish(grant, actual.as_ref(), now);
        self.collect(None);
    }

    fn cancel(&mut self) {
        let Some((number, grant)) = self.pick_held() else { return };
        let now = self.now;
        self.each_ledger(number, |ledger, reserved| ledger.end(number, reserved, reserved, now));
        self.engine.cancel(grant, now);
        self.collect(None);
    }

    /// One limit gets another number.
    fn change(&mut self) {
        let changeable: Vec<usize> =
            (0..self.plan.limits.len()).filter(|index| self.plan.limits[*index].whole() < 1 << 49).collect();
        if changeable.is_empty() {
            return;
        }
        let index = self.dice.pick(&changeable);
        let limit = &mut self.plan.limits[index];
        let units = 1 + self.dice.below(limit.whole() * 2);
        match &mut limit.counts {
            Counts::Slots(bound) | Counts::Bytes(bound) => *bound = units,
            Counts::Rate(rate) => {
                rate.rate = Rate::new(units, rate.rate.window()).expect("in range");
                if rate.algorithm != Some(Algorithm::TokenBucket) {
                    rate.burst = rate.burst.map(|burst| burst.min(units));
                }
            }
        }
        let limit = limit.clone();
        // A loop's limit is named by any of its instances.
        let names: BTreeSet<String> =
            self.engine.limits(self.now).iter().map(|l| l.name.to_string()).collect();
        let name = match limit.level {
            Level::Loop => {
                let suffix = format!("/{}", limit.suffix());
                names.into_iter().find(|name| name.starts_with("loop:") && name.ends_with(&suffix))
            }
            _ => Some(limit.name(&nobody())),
        };
        let changed = match (&name, &limit.counts) {
            (None, _) => self.engine.reconfigure(&self.plan.config(), self.now),
            (Some(name), Counts::Rate(rate)) => {
                let rate = RateLimit { reserve: None, ..rate.clone() };
                self.engine.set_rate(name, &rate, self.now)
            }
            (Some(name), _) => self.engine.set_in_flight(name, units, self.now),
        };
        changed.expect("a valid change");
        if name.is_none() {
            self.epoch += 1;
        }
        self.redefine();
    }

    fn reload(&mut self) {
        match self.dice.below(3) {
            0 => self.plan.draw_limits(&mut self.dice),
            1 => self.plan.heavy = self.dice.pick(&[3.0, 0.5, 1.0]),
            _ => {
                // Some limits go, the others stay as they are.
                let mut dice = self.dice.clone();
                self.plan.limits.retain(|limit| limit.whole() >= 1 << 49 || !dice.one_in(4));
            }
        }
        self.engine.reconfigure(&self.plan.config(), self.now).expect("a valid config");
        self.epoch += 1;
        self.redefine();
    }

    fn redefine(&mut self) {
        let plans = self.plan.limits.clone();
        let same = |a: &LimitPlan, b: &LimitPlan| a.level == b.level && a.suffix() == b.suffix();
        let now = self.now;
        self.ledgers.retain(|_, ledger| match plans.iter().find(|plan| same(plan, &ledger.plan)) {
            Some(plan) => {
                ledger.redefine(plan, now);
                true
            }
            None => false,
        });
        self.note_limits();
        for number in self.tickets.values().copied().collect::<Vec<_>>() {
            self.clamp(number);
        }
        self.collect(None);
    }

    fn note_limits(&mut self) {
        let known: BTreeSet<(Level, String)> =
            self.plan.limits.iter().map(|limit| (limit.level, limit.suffix())).collect();
        self.since.retain(|limit, _| known.contains(limit));
        let new: BTreeSet<(Level, String)> =
            known.into_iter().filter(|limit| !self.since.contains_key(limit)).collect();
        for limit in self.plan.limits.iter().filter(|limit| new.contains(&(limit.level, limit.suffix()))) {
            // A limit on calls in flight counts those that are in flight when it comes.
            let since = if matches!(limit.counts, Counts::Slots(_)) { 0 } else { self.epoch };
            self.since.insert((limit.level, limit.suffix()), (since, self.now));
        }
        for number in self.held.keys().copied().collect::<Vec<_>>() {
            let now = self.now;
            for (name, limit) in self.route(number) {
                let is_new = new.contains(&(limit.level, limit.suffix()));
                if is_new && matches!(limit.counts, Counts::Slots(_)) && self.is_known(number, limit.level) {
                    let cost = limit.cost(&self.calls[number].plan);
                    self.ledger(&name, number).take(number, cost, now);
                }
            }
        }
    }

    fn pass_time(&mut self) {
        let span = self.dice.pick(&[MILLI / 3, 3 * MILLI, 20 * MILLI, 50 * MILLI, 150 * MILLI, 700 * MILLI]);
        let until = Nanos(self.now.0 + 1 + self.dice.below(span));
        let mut wakes = 0;
        while let Some(wake) = self.engine.next_wake() {
            let late = if self.plan.late > 0 { self.dice.below(self.plan.late) } else { 0 };
            let wake = Nanos(wake.0.saturating_add(late)).max(self.now);
            if wake > until {
                break;
            }
            self.now = wake;
            self.log.push(Entry::Woke(wake));
            self.engine.advance(wake);
            let went = self.collect(None);
            self.idle_wakes += usize::from(went == 0);
            assert!(self.engine.next_wake().is_none_or(|next| next > wake), "it wants to be woken at once");
            wakes += 1;
            assert!(wakes < 5_000, "it wants to be woken without end");
        }
        self.now = until;
    }

    // ---- what became of it ----

    fn new_call(&mut self, plan: CallPlan, timeout: u64) -> usize {
        let deadline = Nanos(self.now.0.saturating_add(timeout));
        self.calls.push(CallState { plan, deadline, epoch: self.epoch, levels: BTreeSet::new() });
        self.calls.len() - 1
    }

    /// An estimate counts as what can ever fit.
    fn clamp(&mut self, number: usize) {
        let call = &mut self.calls[number].plan;
        if !call.estimated {
            return;
        }
        for limit in &self.plan.limits {
            if let (true, Counts::Rate(rate)) = (call.passes(limit.level), &limit.counts) {
                let most = limit.most(call.class);
                let units = match rate.dimension {
                    Dimension::Tokens => &mut call.tokens,
                    Dimension::Bytes => &mut call.bytes,
                    _ => &mut call.requests,
                };
                *units = (*units).min(most);
            }
        }
    }

    /// Writes down what the engine decided, and checks each grant against the books. How many went.
    fn collect(&mut self, own: Option<(usize, Grant)>) -> usize {
        let mut went: Vec<(usize, Grant)> = own.into_iter().collect();
        // The newest may have been passed by one of age in the same instant in which it came and was let go
        // or refused.
        let waited = self.tickets.values().map(|number| &self.calls[*number]).chain(self.calls.last());
        let waiting: Vec<Priority> = waited.map(|call| call.plan.class).collect();
        let verdicts: Vec<_> = self.engine.verdicts().collect();
        for (ticket, verdict) in verdicts {
            let number = self.tickets.remove(&ticket).expect("a verdict for a call that waits");
            match verdict {
                Verdict::Granted(grant) => went.push((number, grant)),
                Verdict::Refused(refusal) => {
                    let deadline = self.calls[number].deadline;
                    match refusal.reason {
                        Reason::Timeout => assert!(deadline <= self.now, "timed out too early"),
                        Reason::QueueFull | Reason::TooLarge { .. } => {}
                        ref other => panic!("a waiting call was refused: {other:?}"),
                    }
                    self.log.push(Entry::Refused(number, self.now, refusal));
                }
            }
        }
        let numbers: Vec<usize> = went.iter().map(|(number, _)| *number).collect();
        for number in &numbers {
            self.log.push(Entry::Went(*number, self.now));
            assert!(self.plan.late > 0 || self.now <= self.calls[*number].deadline, "{number} went too late");
        }
        self.check_budgets(&numbers);
        // Of those that went at one instant the lower ones are judged first: whatever the order was, they
        // had to leave alone what is kept for the higher.
        let mut by_class = numbers.clone();
        by_class.sort_by_key(|number| self.calls[*number].plan.class);
        for number in by_class {
            let class = self.calls[number].plan.class;
            // Age may let it pass one that waits and is of a higher class, and then what is kept for that.
            let highest = waiting.iter().copied().max().unwrap_or(class).max(class);
            self.calls[number].epoch = self.epoch;
            self.calls[number].levels = self.plan.limits.iter().map(|limit| limit.level).collect();
            let now = self.now;
            self.each_ledger(number, |ledger, cost| {
                ledger.take(number, cost, now);
                let withheld = ledger.plan.withheld(highest);
                if let Err(wrong) = ledger.check(cost, withheld, now) {
                    panic!("{number} overshoots {:?} at {now:?}: {wrong}", ledger.plan);
                }
            });
        }
        for (number, grant) in went {
            assert_eq!(grant.granted_at(), self.now);
            self.held.insert(number, grant);
        }
        for number in &numbers {
            let gone = &self.calls[*number].plan;
            for other in self.tickets.values().filter(|other| *other < number) {
                let waits = &self.calls[*other].plan;
                let passed = waits.lane() == gone.lane() && waits.units_at_most(gone);
                assert!(!passed, "{number} went past {other}, which came before it and costs no more");
            }
        }
        numbers.len()
    }

    /// A byte budget is judged before each call: at most one of a batch may end it.
    fn check_budgets(&mut self, numbers: &[usize]) {
        let mut batches: BTreeMap<String, Vec<(u64, usize)>> = BTreeMap::new();
        for &number in numbers {
            for (name, limit) in self.route(number) {
                if let Counts::Bytes(_) = limit.counts {
                    let cost = limit.cost(&self.calls[number].plan);
                    batches.entry(name).or_default().push((cost, number));
                }
            }
        }
        for (name, batch) in batches {
            let ledger = self.ledger(&name, batch[0].1);
            let Counts::Bytes(bound) = ledger.plan.counts else { continue };
            let most = batch.iter().map(|(cost, _)| *cost).max().unwrap_or(0);
            let sum: u64 = batch.iter().map(|(cost, _)| *cost).sum();
            let held = ledger.held();
            assert!(held + sum - most <= bound, "{held} + {sum} bytes in flight at `{name}` of {bound}");
        }
    }

    fn check_refusal(&self, number: usize, refusal: &Refusal, waits: bool) {
        let call = &self.calls[number].plan;
        match &refusal.reason {
            Reason::TooLarge { cost, capacity } => {
                assert!(cost > capacity && !call.estimated);
                let limits = self.plan.limits.iter().filter(|limit| call.passes(limit.level));
                assert!(limits.into_iter().any(|limit| limit.cost(call) > limit.most(call.class)));
            }
            Reason::Hopeless | Reason::QueueFull => assert!(waits),
            Reason::Timeout => assert!(!waits && refusal.limit.is_some()),
            other => panic!("refused: {other:?}"),
        }
    }

    fn route(&self, number: usize) -> Vec<(String, LimitPlan)> {
        let call = &self.calls[number].plan;
        let passed = self.plan.limits.iter().filter(|limit| call.passes(limit.level));
        passed.map(|limit| (limit.name(call), limit.clone())).collect()
    }

    fn ledger(&mut self, name: &str, number: usize) -> &mut Ledger {
        if !self.ledgers.contains_key(name) {
            let (_, limit) =
                self.route(number).into_iter().find(|(known, _)| known == name).expect("on the route");
            let (epoch, at) = self.since[&(limit.level, limit.suffix())];
            self.ledgers.insert(name.to_owned(), Ledger::new(&limit, epoch, at));
        }
        self.ledgers.get_mut(name).expect("just made")
    }

    /// Whether the engine knows of a call in flight that it is of this level's pattern.
    fn is_known(&self, number: usize, level: Level) -> bool {
        !matches!(level, Level::Endpoint | Level::Model) || self.calls[number].levels.contains(&level)
    }

    fn each_ledger(&mut self, number: usize, mut with: impl FnMut(&mut Ledger, u64)) {
        let epoch = self.calls[number].epoch;
        for (name, limit) in self.route(number) {
            let cost = limit.cost(&self.calls[number].plan);
            let is_known = self.is_known(number, limit.level);
            let ledger = self.ledger(&name, number);
            if ledger.since <= epoch && is_known {
                with(ledger, cost);
            }
        }
    }

    // ---- what must hold at rest ----

    fn stands(&mut self) -> BTreeMap<String, (u64, usize)> {
        let limits = self.engine.limits(self.now);
        limits.into_iter().map(|limit| (limit.name.to_string(), (limit.used, limit.waiting))).collect()
    }

    fn look(&mut self) {
        self.engine.advance(self.now);
        self.collect(None);
        let now = self.now;
        assert_eq!(self.engine.waiting(), self.tickets.len());
        assert!(self.engine.next_wake().is_none_or(|next| next > now), "something is left undone");
        for number in self.tickets.values() {
            assert!(self.calls[*number].deadline > now, "{number} waits beyond its timeout");
        }
        for service in ["s", "t"] {
            let waiting = self.tickets.values().filter(|n| self.calls[**n].plan.service == service).count();
            assert!(waiting <= self.plan.queue.max_waiting, "{waiting} wait for `{service}`");
        }
        let stands = self.stands();
        let bound: usize = stands.values().map(|(_, waiting)| waiting).sum();
        assert_eq!(bound, self.tickets.len(), "every call waits at one limit");
        for (name, ledger) in &self.ledgers {
            let (least, most) = ledger.used(now);
            // A loop that is not there any more is whole.
            let used = stands.get(name).map_or(0, |(used, _)| *used);
            assert!(
                least <= used && used <= most,
                "`{name}` says {used}, its book says {least}..={most}: {ledger:?} at {now:?}"
            );
        }
        self.check_work_conserving(&stands);
    }

    /// A call waits because a limit has no room for it, or because a call that has none and shares a limit
    /// on a rate with it would have to wait longer.
    fn check_work_conserving(&mut self, stands: &BTreeMap<String, (u64, usize)>) {
        let waiting: Vec<usize> = self.tickets.values().copied().collect();
        let mut held_back: Vec<(usize, bool)> = Vec::new();
        for &number in &waiting {
            let mut held = false;
            for (name, limit) in self.route(number) {
                let call = &self.calls[number].plan;
                let (cost, withheld) = (limit.cost(call), limit.withheld(call.class));
                let used = stands.get(&name).map_or(0, |(used, _)| *used);
                let counts = cost > 0 || !limit.is_rate();
                let ledger = self.ledger(&name, number);
                held |= counts && (ledger.is_paced() || !ledger.has_room(cost, withheld, used));
            }
            held_back.push((number, held));
        }
        for &(number, held) in &held_back {
            if held {
                continue;
            }
            assert!(self.plan.kind == Kind::Any, "{number} waits although it fits");
            let call = &self.calls[number].plan;
            let shares = |other: &CallPlan| {
                self.plan.limits.iter().any(|limit| {
                    limit.is_rate()
                        && call.passes(limit.level)
                        && other.passes(limit.level)
                        && (limit.level != Level::Loop || call.loop_ == other.loop_)
                        && limit.cost(call) > 0
                        && limit.cost(other) > 0
                })
            };
            let behind = held_back.iter().any(|(other, held)| *held && shares(&self.calls[*other].plan));
            assert!(behind, "{number} fits and waits behind nobody: {call:?}");
        }
    }

    /// When all is over nothing is left.
    fn end(&mut self) {
        let stands = self.stands().into_iter().map(|(name, (used, _))| (name, used)).collect();
        self.log.push(Entry::Stands(stands));
        // Half of the worlds wait for everybody, the others send everybody away.
        if self.dice.one_in(2) {
            for ticket in self.tickets.keys().copied().collect::<Vec<_>>() {
                if self.tickets.remove(&ticket).is_some() {
                    self.engine.withdraw(ticket, self.now);
                    self.collect(None);
                }
            }
        }
        let mut rounds = 0;
        while !self.tickets.is_empty() || !self.held.is_empty() {
            while let Some((number, grant)) = self.pick_held() {
                let now = self.now;
                self.each_ledger(number, |ledger, reserved| ledger.end(number, reserved, 0, now));
                self.engine.finish(grant, None, now);
                self.collect(None);
            }
            self.pass_time();
            self.look();
            rounds += 1;
            assert!(rounds < 20_000, "{} calls never go", self.tickets.len());
        }
        self.now = Nanos(self.now.0 + 3_600_000 * MILLI);
        self.engine.advance(self.now);
        assert_eq!((self.engine.waiting(), self.engine.next_wake()), (0, None));
        for limit in self.engine.limits(self.now) {
            assert_eq!((limit.used, limit.waiting), (0, 0), "`{}` is not whole again", limit.name);
            assert_eq!(limit.reset, Some(self.now), "`{}` is not whole again", limit.name);
        }
        assert!(self.idle_wakes <= 40 * self.calls.len() + 20_000, "{} wakes for nothing", self.idle_wakes);
        self.forget_loops();
    }

    /// New loops push out the old ones, to which nothing is owed.
    fn forget_loops(&mut self) {
        let old = self.engine.live_loops();
        for number in 0..2 * old + 4 {
            self.now = Nanos(self.now.0 + 60_000 * MILLI);
            let call = CallPlan { loop_: Some(format!("fresh-{number}")), ..nobody() };
            if let Ok(grant) = self.engine.try_admit(&call.to_call(), self.now) {
                self.engine.cancel(grant, self.now);
            }
        }
        let mut limits = self.engine.limits(self.now).into_iter();
        let left = limits.find(|limit| limit.name.starts_with("loop:l"));
        assert!(left.is_none(), "not forgotten: {left:?}");
        let most = (self.plan.loops as usize).max(old) / 2 + 8;
        assert!(self.engine.live_loops() <= most, "{} loops", self.engine.live_loops());
    }
}

fn nobody() -> CallPlan {
    CallPlan {
        service: "t",
        endpoint: false,
        model: false,
        loop_: None,
        loop_type: None,
        class: Priority::Critical,
        requests: 1,
        tokens: 0,
        bytes: 0,
        estimated: false,
    }
}
