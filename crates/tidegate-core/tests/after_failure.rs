//! Windows, throttling, breakers and returning calls together, in random order: nothing leaks, nobody is forgotten, and
//! nobody goes who must not.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::engine::{Arrived, BreakerState, Engine, Fate};
use tidegate_core::{Admission, Call, Config, Grant, Nanos, Priority, Ticket, Verdict};

const LONG: Duration = Duration::from_secs(36_000);
const CONFIG: &str = "[services.a]\nconcurrency = 3\nthrottled_concurrency = 1\nbyte_budget = 100\n\
                      requests = \"50/s\"\nbackoff = { window = \"2s\", byte_penalty_multiplier = 5 }\n\
                      breaker = { failures = 3, open_for = \"5s\", max_open = \"10s\", probes = 2 }\n\
                      [services.a.models.\"big*\"]\ntokens = \"100/s\"\nthrottled_concurrency = 2\n\
                      [services.b]\nbyte_budget = 60\n[global]\nconcurrency = 4\n";

#[derive(Clone, Debug)]
enum Step {
    Come { service: bool, model: u8, bytes: u64, tokens: u64, low: bool },
    End { pick: u16, how: u8 },
    Return { pick: u16 },
    Leave { pick: u16 },
    Set { key: u8, ms: u64 },
    Clear { key: u8 },
    Pass { ms: u64 },
    Reload,
}

const KEYS: [&str; 6] = ["a", "b", "a/model:big*", "a/model:x", "a/requests/1s", "global"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 0u8..3, 0u64..40, 0u64..60, any::<bool>())
            .prop_map(|(service, model, bytes, tokens, low)| Step::Come { service, model, bytes, tokens, low }),
        6 => (any::<u16>(), 0u8..7).prop_map(|(pick, how)| Step::End { pick, how }),
        2 => any::<u16>().prop_map(|pick| Step::Return { pick }),
        1 => any::<u16>().prop_map(|pick| Step::Leave { pick }),
        1 => (0u8..6, 0u64..3_000).prop_map(|(key, ms)| Step::Set { key, ms }),
        1 => (0u8..6).prop_map(|key| Step::Clear { key }),
        4 => (0u64..1_500).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Reload),
    ]
}

struct World {
    engine: Engine,
    now: Nanos,
    waiting: BTreeMap<Ticket, (Call, Arrived, u64, usize)>,
    running: Vec<(Grant, Call, Arrived, u64, usize)>,
    away: Vec<(Call, Arrived, u64, usize)>,
}

impl World {
    /// Brings the engine to a time, by its own wake-ups and no others.
    fn pass(&mut self, until: Nanos) {
        while let Some(wake) = self.engine.next_wake().filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.engine.advance(self.now);
            self.take_verdicts();
        }
        self.now = until;
    }

    fn enter(&mut self, call: Call, arrived: Arrived, bytes: u64, service: usize) {
        match self.engine.enqueue_again(&call, arrived, LONG, self.now) {
            Ok(Admission::Granted(grant)) => self.went(grant, call, arrived, bytes, service),
            Ok(Admission::Waiting(ticket)) => {
                self.waiting.insert(ticket, (call, arrived, bytes, service));
            }
            Err(refusal) => panic!("{refusal}"),
        }
        self.take_verdicts();
    }

    fn went(&mut self, grant: Grant, call: Call, arrived: Arrived, bytes: u64, service: usize) {
        let name = ["a", "b"][service];
        let open = self.engine.backoffs(self.now);
        let open: Vec<_> =
            open.iter().filter(|window| !window.open_for.is_zero()).map(|window| &*window.key).collect();
        assert!(!open.contains(&"global") && !open.contains(&name), "through {open:?}");
        self.running.push((grant, call, arrived, bytes, service));
    }

    fn take_verdicts(&mut self) {
        for (ticket, verdict) in self.engine.verdicts().collect::<Vec<_>>() {
            let (call, arrived, bytes, service) = self.waiting.remove(&ticket).expect("it waited");
            match verdict {
                Verdict::Granted(grant) => self.went(grant, call, arrived, bytes, service),
                Verdict::Refused(refusal) => panic!("{refusal}"),
            }
        }
        self.check();
    }

    /// What is in use is what those that run took, no more and no less.
    fn check(&mut self) {
        let in_use = |world: &World, service: usize| {
            let own = world.running.iter().filter(|(.., of)| *of == service);
            let penalty = |grant: &Grant| world.engine.byte_penalty(grant);
            let bytes: u64 = own
                .clone()
                .map(|(grant, _, _, bytes, _)| bytes * u64::from(penalty(grant).unwrap_or(1)))
                .sum();
            let throttled = own.clone().filter(|(grant, ..)| penalty(grant).is_some()).count();
            (own.count() as u64, throttled as u64, bytes)
        };
        let (a, throttled, bytes) = in_use(self, 0);
        let (b, _, b_bytes) = in_use(self, 1);
        let mut used = |name: &str| self.engine.limit(name, self.now).expect("it is there").used;
        assert_eq!(used("a/concurrency"), a);
        assert_eq!(used("a/throttled_concurrency"), throttled);
        assert_eq!(used("a/byte_budget"), bytes);
        assert_eq!(used("b/byte_budget"), b_bytes);
        assert_eq!(used("global/concurrency"), a + b);
        assert!(a <= 3 && throttled <= 1 && a + b <= 4);
        let BreakerState::HalfOpen { probes } = self.engine.breakers(self.now)[0].state else { return };
        assert!(probes <= 2);
    }

    fn end(&mut self, index: usize, how: u8) {
        let (grant, call, arrived, bytes, service) = self.running.swap_remove(index);
        let again = (call, arrived, bytes, service);
        let turned_away = |in_flight| Fate::TurnedAway {
            wait: Some(Duration::from_millis(700)),
            by: Vec::new(),
            in_flight,
        };
        match how {
            0 => self.engine.finish(grant, None, self.now),
            1 => self.engine.cancel(grant, self.now),
            2 | 3 => self.engine.end_call(grant, &Fate::Answered.into(), self.now),
            4 => self.engine.end_call(grant, &Fate::Failed { wait: None }.into(), self.now),
            5 => self.engine.end_call(grant, &turned_away(false).into(), self.now),
            _ => self.engine.end_call(grant, &turned_away(true).into(), self.now),
        }
        if how >= 4 {
            self.away.push(again);
        }
        self.take_verdicts();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_leaks_and_everybody_goes_in_the_end(steps in prop::collection::vec(step(), 1..80)) {
        let config = Config::parse(CONFIG, "test.toml").unwrap();
        let mut engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO).unwrap();
        engine.wait_for_breakers(true);
        let (waiting, running, away) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut world = World { engine, now: Nanos::ZERO, waiting, running, away };
        for step in steps {
            match step {
                Step::Come { service, model, bytes, tokens, low } => {
                    let call = Call::to(if service { "b" } else { "a" }).bytes(bytes).tokens(tokens);
                    let call = match model { 0 => call, 1 => call.model("big-1"), _ => call.model("x") };
                    let call = if low { call.priority(Priority::Low).loop_id("low") } else { call };
                    let arrived = world.engine.arrived(world.now);
                    world.enter(call, arrived, bytes, usize::from(service));
                }
                Step::End { pick, how } if !world.running.is_empty() => {
                    let index = usize::from(pick) % world.running.len();
                    world.end(index, how);
                }
                Step::Return { pick } if !world.away.is_empty() => {
                    let index = usize::from(pick) % world.away.len();
                    let (call, arrived, bytes, service) = world.away.swap_remove(index);
                    world.enter(call, arrived, bytes, service);
                }
                Step::Leave { pick } if !world.waiting.is_empty() => {
                    let ticket = *world.waiting.keys().nth(usize::from(pick) % world.waiting.len()).unwrap();
                    world.waiting.remove(&ticket);
                    prop_assert!(world.engine.withdraw(ticket, world.now));
                    world.take_verdicts();
                }
                Step::Set { key, ms } => {
                    let span = Duration::from_millis(ms);
                    world.engine.set_backoff(KEYS[key as usize], span, world.now).unwrap();
                    world.take_verdicts();
                }
                Step::Clear { key } => {
                    world.engine.clear_backoff(KEYS[key as usize], world.now);
                    world.take_verdicts();
                }
                Step::Pass { ms } => {
                    let until = world.now.after(Duration::from_millis(ms));
                    world.pass(until);
                }
                Step::Reload => {
                    world.engine.reconfigure(&config, world.now).unwrap();
                    world.take_verdicts();
                }
                Step::End { .. } | Step::Return { .. } | Step::Leave { .. } => {}
            }
        }
        // All is well again: everybody goes, in the time that the limits need.
        for _ in 0..2_000 {
            if world.waiting.is_empty() && world.running.is_empty() {
                break;
            }
            let until = world.now.after(Duration::from_millis(100));
            world.pass(until);
            while !world.running.is_empty() {
                world.end(0, 2);
            }
        }
        prop_assert!(world.waiting.is_empty(), "{} wait for ever", world.waiting.len());
        let end = world.now.after(Duration::from_secs(60));
        world.engine.advance(end);
        prop_assert!(world.engine.backoffs(end).is_empty());
        for limit in world.engine.limits(end) {
            prop_assert_eq!((limit.used, limit.waiting), (0, 0), "{}", limit.name);
        }
    }
}
