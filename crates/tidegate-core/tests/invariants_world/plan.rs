//! What a random world is made of: limits on every level, and the kinds of calls that are made.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::config::{
    Limits, LoopTypeConfig, QueueConfig, RateLimit, Reserve, ServiceConfig, SettleRule,
};
use tidegate_core::{Algorithm, Call, Config, Dimension, Priority, Rate, WindowName};

use crate::common::dice::Dice;

/// Which worlds are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything at once.
    Any,
    /// Unit costs, and at most one limit on a rate: there it is plain when a call must go.
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Global,
    Service,
    Endpoint,
    Model,
    LoopType,
    Loop,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Counts {
    Rate(RateLimit),
    Slots(u64),
    Bytes(u64),
}

/// One limit as the test knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitPlan {
    pub level: Level,
    pub counts: Counts,
    pub reserve: Reserve,
}

impl LimitPlan {
    pub fn suffix(&self) -> String {
        match &self.counts {
            Counts::Rate(rate) => format!("{}/{}", rate.dimension, WindowName(rate.rate.window())),
            Counts::Slots(_) => "concurrency".into(),
            Counts::Bytes(_) => "byte_budget".into(),
        }
    }

    /// The name of the instance that a call passes.
    pub fn name(&self, call: &CallPlan) -> String {
        let level = match self.level {
            Level::Global => "global".into(),
            Level::Service => "s".into(),
            Level::Endpoint => "s/endpoint:POST /e".into(),
            Level::Model => "s/model:m".into(),
            Level::LoopType => format!("loop_type:{}", HEAVY),
            Level::Loop => format!("loop:{}", call.loop_.as_deref().unwrap_or("")),
        };
        format!("{level}/{}", self.suffix())
    }

    pub fn cost(&self, call: &CallPlan) -> u64 {
        match &self.counts {
            Counts::Slots(_) => 1,
            Counts::Bytes(_) => call.bytes,
            Counts::Rate(rate) if rate.dimension == Dimension::Tokens => call.tokens,
            Counts::Rate(rate) if rate.dimension == Dimension::Bytes => call.bytes,
            Counts::Rate(_) => call.requests,
        }
    }

    /// What the shares of a reserve are of.
    pub fn whole(&self) -> u64 {
        match &self.counts {
            Counts::Rate(rate) if rate.algorithm == Some(Algorithm::TokenBucket) => {
                rate.burst.unwrap_or(rate.rate.units())
            }
            Counts::Rate(rate) => rate.rate.units(),
            Counts::Slots(bound) | Counts::Bytes(bound) => *bound,
        }
    }

    pub fn withheld(&self, class: Priority) -> u64 {
        (self.reserve.withheld_from(class) * self.whole() as f64) as u64
    }

    /// The most a call of this class may ever take here.
    pub fn most(&self, class: Priority) -> u64 {
        match &self.counts {
            Counts::Bytes(_) => u64::MAX,
            _ => self.whole() - self.withheld(class),
        }
    }

    pub fn is_rate(&self) -> bool {
        matches!(self.counts, Counts::Rate(_))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    pub service: &'static str,
    pub endpoint: bool,
    pub model: bool,
    pub loop_: Option<String>,
    pub loop_type: Option<&'static str>,
    pub class: Priority,
    pub requests: u64,
    pub tokens: u64,
    pub bytes: u64,
    pub estimated: bool,
}

impl CallPlan {
    pub fn to_call(&self) -> Call {
        let mut call = Call::to(self.service)
            .priority(self.class)
            .requests(self.requests)
            .tokens(self.tokens)
            .bytes(self.bytes);
        if self.endpoint {
            call = call.endpoint("POST /e");
        }
        if self.model {
            call = call.model("m");
        }
        if let Some(id) = &self.loop_ {
            call = call.loop_id(id);
        }
        if let Some(name) = self.loop_type {
            call = call.loop_type(name);
        }
        if self.estimated { call.estimated() } else { call }
    }

    pub fn passes(&self, level: Level) -> bool {
        match level {
            Level::Global => true,
            Level::Service => self.service == "s",
            Level::Endpoint => self.service == "s" && self.endpoint,
            Level::Model => self.service == "s" && self.model,
            Level::LoopType => self.loop_type == Some(HEAVY),
            Level::Loop => self.loop_.is_some(),
        }
    }

    pub fn units_at_most(&self, other: &CallPlan) -> bool {
        self.requests <= other.requests && self.tokens <= other.tokens && self.bytes <= other.bytes
    }

    pub fn lane(&self) -> impl PartialEq + use<> {
        (self.service, self.endpoint, self.model, self.loop_.clone(), self.loop_type, self.class)
    }
}

pub const HEAVY: &str = "heavy";
pub const LIGHT: &str = "light";

#[derive(Clone, Debug)]
pub struct Plan {
    pub kind: Kind,
    pub limits: Vec<LimitPlan>,
    pub queue: QueueConfig,
    pub keep: bool,
    pub heavy: f64,
    pub calls: u64,
    pub loops: u64,
    /// How late the driver wakes at most.
    pub late: u64,
}

impl Plan {
    pub fn random(kind: Kind, dice: &mut Dice) -> Plan {
        let mut queue = QueueConfig::default();
        queue.aging = Duration::from_millis(dice.pick(&[50, 300, 30_000]));
        queue.aging_share = dice.pick(&[0.1, 0.5, 1.0]);
        queue.max_waiting = dice.pick(&[5, 40, 10_000]);
        let mut plan = Plan {
            kind,
            limits: Vec::new(),
            queue,
            keep: kind == Kind::Any && dice.one_in(4),
            heavy: dice.pick(&[3.0, 0.5, 1.0]),
            calls: 60 + dice.below(240),
            loops: dice.pick(&[2, 5, 5, 90]),
            late: dice.pick(&[0, 0, 5_000_000]),
        };
        plan.draw_limits(dice);
        plan
    }

    /// Other limits for the same world. Every dimension stays counted by a limit that never holds anybody
    /// back, so that a reload forgets no waiting call's cost.
    pub fn draw_limits(&mut self, dice: &mut Dice) {
        self.limits.clear();
        for dimension in [Dimension::Requests, Dimension::Tokens, Dimension::Bytes] {
            let mut rate = plain(dimension, 1 << 50, Duration::from_secs(7));
            rate.algorithm = Some(Algorithm::TokenBucket);
            self.add(Level::Global, Counts::Rate(rate), Reserve::default());
        }
        let levels =
            [Level::Global, Level::Service, Level::Endpoint, Level::Model, Level::LoopType, Level::Loop];
        if self.kind == Kind::Plain && dice.below(4) > 0 {
            let level = dice.pick(&levels[..5]);
            let rate = Counts::Rate(random_rate(dice, level, true));
            self.add(level, rate, Reserve::default());
        }
        for _ in 0..1 + dice.below(10) {
            let level = dice.pick(&levels);
            let reserve = random_reserve(dice);
            let counts = match dice.below(8) {
                0 | 1 => Counts::Slots(1 + dice.below(10)),
                2 => Counts::Bytes(1 + dice.below(30)),
                _ if self.kind == Kind::Plain => Counts::Slots(1 + dice.below(10)),
                _ => Counts::Rate(random_rate(dice, level, false)),
            };
            self.add(level, counts, reserve);
        }
        self.limits.sort_by_key(|limit| limit.level);
    }

    fn add(&mut self, level: Level, counts: Counts, mut reserve: Reserve) {
        let limit = LimitPlan { level, counts, reserve: Reserve::default() };
        let same = |known: &&LimitPlan| known.level == level && known.suffix() == limit.suffix();
        if self.limits.iter().any(|known| same(&known)) {
            return;
        }
        // In flight a reserve is the level's, and there is one such limit at most that has one.
        if !limit.is_rate() && self.limits.iter().any(|known| known.level == level && !known.is_rate()) {
            reserve = self
                .limits
                .iter()
                .find(|known| known.level == level && !known.is_rate())
                .map_or(reserve, |known| known.reserve);
        }
        self.limits.push(LimitPlan { reserve, ..limit });
    }

    pub fn config(&self) -> Config {
        let mut config = Config::default();
        let mut service = ServiceConfig::default();
        let mut heavy = LoopTypeConfig::default();
        heavy.weight = self.heavy;
        for limit in &self.limits {
            let limits: &mut Limits = match limit.level {
                Level::Global => &mut config.global,
                Level::Service => &mut service.limits,
                Level::Endpoint => service.endpoints.entry("POST /e".into()).or_default(),
                Level::Model => service.models.entry("m".into()).or_default(),
                Level::LoopType => &mut heavy.limits,
                Level::Loop => &mut config.loops,
            };
            match &limit.counts {
                Counts::Rate(rate) => {
                    let rate = RateLimit { reserve: Some(limit.reserve), ..rate.clone() };
                    limits.rates.push(rate);
                }
                Counts::Slots(bound) => {
                    limits.concurrency = Some(*bound);
                    limits.reserve = limit.reserve;
                }
                Counts::Bytes(bound) => {
                    limits.byte_budget = Some(*bound);
                    limits.reserve = limit.reserve;
                }
            }
        }
        service.queue = self.queue.clone();
        service.settle = if self.keep { SettleRule::Keep } else { SettleRule::Refund };
        let mut other = ServiceConfig::default();
        other.queue = self.queue.clone();
        config.services = BTreeMap::from([("s".into(), service), ("t".into(), other)]);
        config.loop_types =
            BTreeMap::from([(HEAVY.to_owned(), heavy), (LIGHT.to_owned(), LoopTypeConfig::default())]);
        config
    }

    pub fn random_call(&self, dice: &mut Dice) -> CallPlan {
        let plain = self.kind == Kind::Plain;
        CallPlan {
            service: if dice.one_in(5) { "t" } else { "s" },
            endpoint: dice.one_in(2),
            model: dice.one_in(2),
            loop_: (!dice.one_in(4)).then(|| format!("l{}", dice.below(self.loops))),
            loop_type: dice.pick(&[None, Some(LIGHT), Some(HEAVY)]),
            class: dice.pick(&Priority::ALL),
            requests: if plain { 1 } else { dice.pick(&[1, 1, 1, 1, 0, 2, 3, 5]) },
            tokens: if plain { 1 } else { dice.below(12) },
            bytes: if plain { 1 } else { dice.pick(&[0, 1, 3, 10, 40]) },
            estimated: dice.one_in(4),
        }
    }
}

fn plain(dimension: Dimension, units: u64, window: Duration) -> RateLimit {
    RateLimit::plain(dimension, Rate::new(units, window).expect("in range"))
}

/// `counted` asks for one that is not paced, so that its state is known from outside.
pub fn random_rate(dice: &mut Dice, level: Level, counted: bool) -> RateLimit {
    let dimension =
        dice.pick(&[Dimension::Requests, Dimension::Requests, Dimension::Tokens, Dimension::Bytes]);
    let units = 1 + dice.below(if dimension == Dimension::Requests { 12 } else { 60 });
    let window = Duration::from_millis(dice.pick(&[20, 100, 300, 1000]));
    let mut rate = plain(dimension, units, window);
    // A loop's window begins when the loop does, which cannot be seen from outside.
    let kinds = if level == Level::Loop { 4 } else { 5 };
    match dice.below(kinds) {
        0 | 1 => {
            rate.algorithm = Some(Algorithm::TokenBucket);
            rate.burst = (!dice.one_in(3)).then(|| 1 + dice.below(2 * units));
        }
        2 => rate.burst = Some(units),
        3 if counted => rate.burst = Some(units),
        3 => rate.burst = (!dice.one_in(3)).then(|| 1 + dice.below(units)),
        _ => rate.algorithm = Some(Algorithm::FixedWindow),
    }
    rate
}

fn random_reserve(dice: &mut Dice) -> Reserve {
    let mut reserve = Reserve::default();
    if dice.one_in(3) {
        reserve.share[Priority::High as usize] = 0.3;
    }
    if dice.one_in(6) {
        reserve.share[Priority::Critical as usize] = 0.2;
    }
    reserve
}
