//! The largest and the smallest numbers, and clocks that jump: no panic, no endless loop.

mod common;

use std::time::Duration;

use common::dice::{Dice, for_seeds};
use tidegate_core::config::{Limits, RateLimit, ServiceConfig};
use tidegate_core::{
    Admission, Algorithm, Call, Config, Cost, Dimension, Engine, Grant, MAX_UNITS, MAX_WINDOW, MIN_WINDOW,
    Nanos, Priority, Rate, Ticket, Verdict,
};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

fn units(dice: &mut Dice) -> u64 {
    match dice.below(6) {
        0 => 1,
        1 => 1 + dice.below(10),
        2 => 1_000_000_000,
        3 => MAX_UNITS,
        4 => MAX_UNITS - dice.below(3),
        _ => 1 << dice.below(63),
    }
}

fn cost(dice: &mut Dice) -> u64 {
    if dice.one_in(6) { 0 } else { units(dice) }
}

fn rate(dice: &mut Dice) -> RateLimit {
    let window = match dice.below(5) {
        0 => MIN_WINDOW,
        1 => MAX_WINDOW,
        2 => Duration::from_secs(1),
        3 => Duration::from_secs(dice.pick(&[60, 3_600, 86_400])),
        _ => Duration::from_nanos(1_000_000 + dice.below(MAX_WINDOW.as_nanos() as u64 - 1_000_000)),
    };
    let units = units(dice);
    let algorithm = dice.pick(&[None, Some(Algorithm::TokenBucket), Some(Algorithm::FixedWindow), None]);
    let burst = match algorithm {
        Some(Algorithm::TokenBucket) => dice.one_in(2).then(|| self::units(dice)),
        _ => dice.one_in(2).then(|| 1 + dice.below(units)),
    };
    let fixed = algorithm == Some(Algorithm::FixedWindow);
    let turns = [60, 3_600, 86_400].map(Duration::from_secs).contains(&window);
    let calendar = (fixed && turns && dice.one_in(2)).then(|| "America/Los_Angeles".to_owned());
    let dimension = dice.pick(&[Dimension::Requests, Dimension::Tokens]);
    let rate = Rate::new(units, window).expect("in range");
    RateLimit { dimension, rate, algorithm, burst, calendar, reserve: None, origin: Default::default() }
}

fn limits(dice: &mut Dice) -> Limits {
    let mut limits = Limits::default();
    for _ in 0..dice.below(3) {
        let rate = rate(dice);
        let same = |known: &RateLimit| {
            known.dimension == rate.dimension && known.rate.window() == rate.rate.window()
        };
        if !limits.rates.iter().any(same) {
            limits.rates.push(rate);
        }
    }
    limits.concurrency = dice.one_in(3).then(|| units(dice));
    limits.byte_budget = dice.one_in(3).then(|| units(dice));
    if dice.one_in(3) {
        limits.reserve.share[Priority::High as usize] = 0.999_999;
    }
    limits
}

fn config(dice: &mut Dice) -> Config {
    let mut config = Config::default();
    config.global = limits(dice);
    config.loops = limits(dice);
    let mut service = ServiceConfig::default();
    service.limits = limits(dice);
    service.endpoints.insert("* /*".into(), limits(dice));
    service.queue.aging = Duration::from_nanos(dice.pick(&[1, 1_000_000, 30 * SECOND, u64::MAX]));
    service.queue.aging_share = dice.pick(&[0.0, 0.1, 1.0]);
    service.queue.max_waiting = dice.pick(&[0, 1, 100]);
    config.services.insert("api".into(), service);
    for (name, weight) in [("feather", 1e-300), ("lead", 1e300)] {
        let mut kind = tidegate_core::config::LoopTypeConfig::default();
        kind.weight = weight;
        config.loop_types.insert(name.into(), kind);
    }
    config
}

struct Storm {
    engine: Engine,
    now: Nanos,
    dice: Dice,
    tickets: Vec<Ticket>,
    held: Vec<Grant>,
    wakes: usize,
}

impl Storm {
    fn collect(&mut self) {
        let verdicts: Vec<_> = self.engine.verdicts().collect();
        for (ticket, verdict) in verdicts {
            self.tickets.retain(|known| *known != ticket);
            if let Verdict::Granted(grant) = verdict {
                self.held.push(grant);
            }
        }
        assert_eq!(self.engine.waiting(), self.tickets.len());
    }

    fn call(&mut self) -> Call {
        let dice = &mut self.dice;
        let mut call = Call::to("api")
            .endpoint("GET /")
            .priority(dice.pick(&Priority::ALL))
            .requests(cost(dice))
            .tokens(cost(dice))
            .bytes(cost(dice));
        if dice.one_in(2) {
            call =
                call.loop_id(dice.pick(&["a", "b", "c"])).loop_type(dice.pick(&["feather", "lead", "none"]));
        }
        if dice.one_in(2) { call.estimated() } else { call }
    }

    fn step(&mut self) {
        match self.dice.below(12) {
            0..=3 => {
                let call = self.call();
                let timeout = match self.dice.below(4) {
                    0 => Duration::ZERO,
                    1 => Duration::MAX,
                    _ => Duration::from_nanos(self.dice.below(400 * DAY)),
                };
                match self.engine.enqueue(&call, timeout, self.now) {
                    Ok(Admission::Granted(grant)) => self.held.push(grant),
                    Ok(Admission::Waiting(ticket)) => self.tickets.push(ticket),
                    Err(refusal) => drop(refusal.to_string()),
                }
            }
            4 => {
                let call = self.call();
                if let Ok(grant) = self.engine.try_admit(&call, self.now) {
                    self.held.push(grant);
                }
            }
            5 | 6 if !self.held.is_empty() => {
                let place = self.dice.below(self.held.len() as u64) as usize;
                let grant = self.held.swap_remove(place);
                let most = Cost::nothing().with(Dimension::Tokens, dice_cost(&mut self.dice));
                match self.dice.below(3) {
                    0 => self.engine.cancel(grant, self.now),
                    1 => self.engine.finish(grant, None, self.now),
                    _ => self.engine.finish(grant, Some(&most.with(Dimension::Requests, u64::MAX)), self.now),
                }
            }
            7 if !self.tickets.is_empty() => {
                let place = self.dice.below(self.tickets.len() as u64) as usize;
                let ticket = self.tickets.swap_remove(place);
                let _ = self.engine.place(ticket, self.now);
                assert!(self.engine.withdraw(ticket, self.now));
            }
            8 => {
                let limits = self.engine.limits(self.now);
                if !limits.is_empty() {
                    let name = self.dice.pick(&limits).name;
                    let bound = units(&mut self.dice);
                    let rate = rate(&mut self.dice);
                    let _ = self.engine.set_in_flight(&name, bound, self.now);
                    let _ = self.engine.set_rate(&name, &rate, self.now);
                }
            }
            9 if self.dice.one_in(3) => {
                let config = config(&mut self.dice);
                self.engine.reconfigure(&config, self.now).expect("a valid config");
            }
            _ => {
                let jump = match self.dice.below(6) {
                    0 => 1,
                    1 => self.dice.below(SECOND),
                    2 => self.dice.below(DAY),
                    3 => self.dice.below(400 * DAY),
                    4 => self.dice.below(20 * 365 * DAY),
                    _ => 0,
                };
                let until = Nanos(self.now.0.saturating_add(jump));
                // The driver follows some of the wakes, and sleeps through the others.
                for _ in 0..self.dice.below(20) {
                    let Some(wake) = self.engine.next_wake().filter(|wake| *wake <= until) else { break };
                    self.now = self.now.max(wake);
                    self.engine.advance(self.now);
                    self.collect();
                    let next = self.engine.next_wake();
                    assert!(next.is_none_or(|next| next > self.now), "woken at {:?} for nothing", self.now);
                    self.wakes += 1;
                }
                self.now = until;
                self.engine.advance(self.now);
            }
        }
        self.collect();
    }
}

fn dice_cost(dice: &mut Dice) -> u64 {
    if dice.one_in(4) { u64::MAX } else { cost(dice) }
}

#[test]
fn no_number_and_no_clock_makes_the_engine_panic_or_spin() {
    for_seeds(400, |seed| {
        let mut dice = Dice::new(seed);
        let start = Nanos(if dice.one_in(4) { u64::MAX - 3 * DAY } else { dice.below(DAY) });
        let unix = if dice.one_in(8) { Duration::MAX } else { Duration::from_secs(1_700_000_000) };
        let engine = Engine::new(&config(&mut dice), start, unix).expect("a valid config");
        let mut storm = Storm { engine, now: start, dice, tickets: Vec::new(), held: Vec::new(), wakes: 0 };
        for _ in 0..120 {
            storm.step();
        }
        for ticket in std::mem::take(&mut storm.tickets) {
            storm.engine.withdraw(ticket, storm.now);
            for (_, verdict) in storm.engine.verdicts() {
                if let Verdict::Granted(grant) = verdict {
                    storm.held.push(grant);
                }
            }
        }
        for grant in std::mem::take(&mut storm.held) {
            storm.engine.finish(grant, None, storm.now);
        }
        assert_eq!((storm.engine.waiting(), storm.engine.next_wake()), (0, None));
        for limit in storm.engine.limits(storm.now) {
            let in_flight = limit.name.ends_with("/concurrency") || limit.name.ends_with("/byte_budget");
            assert!(!in_flight || limit.used == 0, "{} left at `{}`", limit.used, limit.name);
        }
    });
}

#[test]
fn debts_of_the_largest_size_do_not_overflow() {
    for algorithm in ["token-bucket", "fixed-window", "sliding-window"] {
        let text =
            format!("[services.api]\nrequests = {{ limit = \"1/744h\", algorithm = \"{algorithm}\" }}\n");
        let config = Config::parse(&text, "test.toml").expect("valid");
        let mut engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect("valid");
        let mut now = Nanos::ZERO;
        let call = Call::to("api").requests(0);
        for round in 0..20_000_u64 {
            let grant = engine.try_admit(&call, now).expect("a cost of nothing passes");
            let most = Cost::nothing().with(Dimension::Requests, u64::MAX);
            engine.finish(grant, Some(&most), now);
            if round % 1_000 == 0 {
                let refused = engine.try_admit(&Call::to("api"), now).expect_err("in debt");
                let _ = refused.to_string();
                assert!(engine.limits(now)[0].used > 1);
                now = Nanos(now.0 + DAY);
            }
        }
    }
}
