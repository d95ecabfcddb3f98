//! A random small world: a few limits, a few calls, and what happens to them.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::config::{Limits, Origin, QueueConfig, RateLimit, Reserve};
use tidegate_core::{Algorithm, Call, Config, Dimension, Nanos, Priority, Rate};

/// Where a limit stands. A call's route is made of the places it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Global,
    Service,
    Endpoint,
    Model,
}

#[derive(Clone, Debug)]
pub struct LimitPlan {
    pub place: Place,
    /// None counts calls in flight.
    pub rate: Option<RateLimit>,
    pub units: u64,
    pub reserve: Reserve,
}

#[derive(Clone, Debug)]
pub struct CallPlan {
    pub service: &'static str,
    pub endpoint: bool,
    pub model: bool,
    pub loop_: Option<&'static str>,
    pub priority: Priority,
    pub requests: u64,
    pub tokens: u64,
}

impl CallPlan {
    pub fn to_call(&self) -> Call {
        let mut call =
            Call::to(self.service).priority(self.priority).requests(self.requests).tokens(self.tokens);
        if self.endpoint {
            call = call.endpoint("POST /e");
        }
        if self.model {
            call = call.model("m");
        }
        match self.loop_ {
            Some(id) => call.loop_id(id).loop_type(if id == "heavy" { "heavy" } else { "light" }),
            None => call,
        }
    }

    pub fn passes(&self, place: Place) -> bool {
        match place {
            Place::Global => true,
            Place::Service => self.service == "s",
            Place::Endpoint => self.service == "s" && self.endpoint,
            Place::Model => self.service == "s" && self.model,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Event {
    Arrive(CallPlan),
    Withdraw(usize),
    Finish(usize, Option<u64>),
    Change(usize, u64),
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub limits: Vec<LimitPlan>,
    pub events: Vec<(Nanos, Event)>,
    pub aging: Duration,
    pub aging_share: f64,
    pub end: Nanos,
}

/// The weight of the heavy loop.
pub const HEAVY: f64 = 3.0;

impl Scenario {
    pub fn random(seed: u64) -> Scenario {
        Scenario::of(Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed), 1, false)
    }

    /// More calls, many of them alike, so that they wait behind each other.
    pub fn crowded(seed: u64) -> Scenario {
        Scenario::of(Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xc0de), 6, true)
    }

    fn of(mut dice: Dice, least: u64, alike: bool) -> Scenario {
        let places = [Place::Global, Place::Service, Place::Endpoint, Place::Model];
        let mut limits = Vec::new();
        let count = 1 + dice.below(3) as usize;
        let start = dice.below(4) as usize;
        for index in 0..count {
            limits.push(random_limit(&mut dice, places[(start + index) % 4]));
        }
        limits.sort_by_key(|limit| limit.place);
        let calls = (least + dice.below(6)) as usize;
        let mut plans: Vec<CallPlan> = Vec::new();
        let mut events = Vec::new();
        for _ in 0..calls {
            let at = random_time(&mut dice);
            let plan = if alike && !plans.is_empty() && dice.below(3) > 0 {
                plans[dice.below(plans.len() as u64) as usize].clone()
            } else {
                random_call(&mut dice)
            };
            plans.push(plan.clone());
            events.push((at, Event::Arrive(plan)));
        }
        for _ in 0..dice.below(5) {
            let number = dice.below(calls as u64) as usize;
            let event = match dice.below(4) {
                0 => Event::Withdraw(number),
                1 => Event::Change(dice.below(count as u64) as usize, 1 + dice.below(8)),
                2 => Event::Finish(number, Some(dice.below(6))),
                _ => Event::Finish(number, None),
            };
            events.push((random_time(&mut dice), event));
        }
        events.sort_by_key(|(at, _)| *at);
        let aging = Duration::from_millis([10_000, 40, 100][dice.below(3) as usize]);
        let aging_share = [0.1, 0.5, 1.0][dice.below(3) as usize];
        Scenario { limits, events, aging, aging_share, end: Nanos(5_000_000_000) }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::default();
        let mut services = BTreeMap::new();
        let mut service = tidegate_core::config::ServiceConfig::default();
        let mut other = tidegate_core::config::ServiceConfig::default();
        for limit in &self.limits {
            let limits = match limit.place {
                Place::Global => &mut config.global,
                Place::Service => &mut service.limits,
                Place::Endpoint => service.endpoints.entry("POST /e".into()).or_default(),
                Place::Model => service.models.entry("m".into()).or_default(),
            };
            add(limits, limit);
        }
        for queue in [&mut service.queue, &mut other.queue] {
            let mut rules = QueueConfig::default();
            rules.aging = self.aging;
            rules.aging_share = self.aging_share;
            *queue = rules;
        }
        services.insert("s".to_owned(), service);
        services.insert("t".to_owned(), other);
        config.services = services;
        let mut heavy = tidegate_core::config::LoopTypeConfig::default();
        heavy.weight = HEAVY;
        config.loop_types.insert("heavy".into(), heavy);
        config
    }

    /// A limit's name, and its rate with other units; none for a bound in flight.
    pub fn changed(&self, index: usize, units: u64) -> (String, Option<RateLimit>) {
        let limit = &self.limits[index];
        let level = match limit.place {
            Place::Global => "global",
            Place::Service => "s",
            Place::Endpoint => "s/endpoint:POST /e",
            Place::Model => "s/model:m",
        };
        match &limit.rate {
            None => (format!("{level}/concurrency"), None),
            Some(rate) => {
                let window = tidegate_core::WindowName(rate.rate.window());
                let name = format!("{level}/{}/{window}", rate.dimension);
                (name, Some(with_units(rate, units)))
            }
        }
    }

    pub fn double_limits(&mut self) {
        for limit in &mut self.limits {
            limit.units *= 2;
            limit.rate = limit.rate.as_ref().map(|rate| with_units(rate, rate.rate.units() * 2));
        }
    }

    pub fn describe(&self) -> String {
        let mut text = format!("aging {:?} share {}\n", self.aging, self.aging_share);
        for limit in &self.limits {
            text += &format!("{limit:?}\n");
        }
        let mut number = 0;
        for (at, event) in &self.events {
            let label = if matches!(event, Event::Arrive(_)) { number.to_string() } else { String::new() };
            number += usize::from(matches!(event, Event::Arrive(_)));
            text += &format!("{at:?} {label} {event:?}\n");
        }
        text
    }
}

pub fn with_units(rate: &RateLimit, units: u64) -> RateLimit {
    let mut changed = rate.clone();
    changed.rate = Rate::new(units, rate.rate.window()).expect("in range");
    changed.burst = rate.burst.map(|burst| burst.min(units));
    changed
}

fn add(limits: &mut Limits, plan: &LimitPlan) {
    match &plan.rate {
        Some(rate) => limits.rates.push(rate.clone()),
        None => limits.concurrency = Some(plan.units),
    }
    limits.reserve = plan.reserve;
}

fn random_limit(dice: &mut Dice, place: Place) -> LimitPlan {
    let units = 1 + dice.below(8);
    let window = Duration::from_millis([20, 100, 300][dice.below(3) as usize]);
    let dimension = if dice.below(3) == 0 { Dimension::Tokens } else { Dimension::Requests };
    let mut rate = RateLimit {
        dimension,
        rate: Rate::new(units, window).expect("in range"),
        algorithm: None,
        burst: None,
        calendar: None,
        reserve: None,
        origin: Origin::Written,
    };
    let rate = match dice.below(6) {
        0 => None,
        1 => {
            rate.algorithm = Some(Algorithm::TokenBucket);
            rate.burst = (dice.below(2) == 0).then(|| 1 + dice.below(10));
            Some(rate)
        }
        2 => {
            rate.algorithm = Some(Algorithm::FixedWindow);
            Some(rate)
        }
        3 => {
            rate.burst = Some(units);
            Some(rate)
        }
        4 => {
            rate.burst = Some(1 + dice.below(units));
            Some(rate)
        }
        _ => Some(rate),
    };
    let mut reserve = Reserve::default();
    if dice.below(3) == 0 {
        reserve.share[Priority::High as usize] = 0.3;
    }
    if dice.below(6) == 0 {
        reserve.share[Priority::Critical as usize] = 0.2;
    }
    LimitPlan { place, rate, units, reserve }
}

fn random_call(dice: &mut Dice) -> CallPlan {
    CallPlan {
        service: if dice.below(5) == 0 { "t" } else { "s" },
        endpoint: dice.below(2) == 0,
        model: dice.below(2) == 0,
        loop_: [None, Some("a"), Some("b"), Some("heavy")][dice.below(4) as usize],
        priority: Priority::ALL[dice.below(4) as usize],
        requests: [1, 1, 1, 2, 3, 5, 0][dice.below(7) as usize],
        tokens: dice.below(6),
    }
}

fn random_time(dice: &mut Dice) -> Nanos {
    // Often at the same instants, so that ties are common.
    Nanos(match dice.below(3) {
        0 => 0,
        1 => dice.below(8) * 20_000_000,
        _ => dice.below(400) * 1_000_000 + dice.below(2),
    })
}

/// Chance that can be repeated (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound
    }
}
