//! Lines of calls that are alike: they move as calls do that are let go one by one.

mod common;

use std::time::Duration;

use common::dice::{Dice, for_seeds};
use common::plain::{LONG, at, engine};
use tidegate_core::engine::{Ended, Engine, Fate};
use tidegate_core::{Admission, Call, Config, Grant, Nanos, Priority, Ticket, Verdict};

const LIMITS: [&str; 6] = [
    "requests = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 7 }\n",
    "requests = { limit = \"20/s\", algorithm = \"sliding-window\", burst = 3 }\n",
    "requests = { limit = \"40/s\", algorithm = \"fixed-window\" }\n",
    "tokens = { limit = \"300/s\", algorithm = \"token-bucket\", burst = 60 }\n",
    "tokens = { limit = \"200/s\", algorithm = \"sliding-window\", burst = 20 }\nrequests = \"50/s\"\n",
    "concurrency = 3\nbyte_budget = 40\nthrottled_concurrency = 2\n",
];

fn config(dice: &mut Dice) -> String {
    let limits = dice.pick(&LIMITS);
    let most = 2 + dice.below(30);
    let timeout = dice.pick(&["300ms", "5s", "1h"]);
    format!(
        "[services.api]\n{limits}queue = {{ max_waiting = {most}, timeout = \"{timeout}\", aging = \"200ms\" }}\n\
         backoff = {{ window = \"200ms\", byte_penalty_multiplier = 3 }}\n\
         [loop_types.heavy]\nweight = 3.0\n"
    )
}

/// An engine, and what is to be known of its calls by their number.
struct World {
    engine: Engine,
    /// Whether calls that follow each other are alike, or differ in what makes no difference.
    alike: bool,
    waiting: Vec<(u32, Ticket)>,
    held: Vec<(u32, Grant)>,
    seen: Vec<String>,
}

impl World {
    fn new(config: &str, alike: bool) -> World {
        World { engine: engine(config), alike, waiting: Vec::new(), held: Vec::new(), seen: Vec::new() }
    }

    fn call(&self, number: u32, dice: &mut Dice) -> Call {
        // No limit is for these endpoints, but calls to different ones are not of one run.
        let endpoint = if self.alike || number.is_multiple_of(2) { "GET /a" } else { "GET /b" };
        let call =
            Call::to("api").endpoint(endpoint).tokens(dice.pick(&[1, 1, 1, 9])).bytes(dice.pick(&[4, 4, 30]));
        let call = match dice.below(4) {
            0 => call.loop_id("one"),
            1 => call.loop_id("two").loop_type("heavy"),
            _ => call,
        };
        if dice.one_in(6) { call.priority(Priority::High) } else { call }
    }

    fn step(&mut self, number: u32, now: Nanos, mut dice: Dice) {
        // Whoever joins a line leaves it to this whether it moves.
        self.engine.advance(now);
        self.hand_out();
        match dice.below(12) {
            0..7 => {
                let call = self.call(number, &mut dice);
                let timeout = if dice.one_in(4) { Duration::from_millis(100) } else { LONG };
                match self.engine.enqueue(&call, timeout, now) {
                    Ok(Admission::Granted(grant)) => self.goes(number, grant),
                    Ok(Admission::Waiting(ticket)) => self.waiting.push((number, ticket)),
                    Err(refusal) => self.seen.push(format!("{number} refused: {refusal}")),
                }
            }
            7 if !self.waiting.is_empty() => {
                let (_, ticket) = self.waiting.remove(dice.below(self.waiting.len() as u64) as usize);
                self.engine.withdraw(ticket, now);
            }
            8..11 if !self.held.is_empty() => {
                let (_, grant) = self.held.remove(dice.below(self.held.len() as u64) as usize);
                match dice.one_in(20) {
                    true => {
                        let wait = Some(Duration::from_millis(150));
                        let ended: Ended = Fate::TurnedAway { wait, by: Vec::new(), in_flight: false }.into();
                        self.engine.end_call(grant, &ended, now);
                    }
                    false => self.engine.finish(grant, None, now),
                }
            }
            _ => {}
        }
        self.engine.advance(now);
        self.hand_out();
        // Of those whose time is up at once any may be told first.
        self.seen.sort_by_key(|seen| seen.contains("refused").then(|| seen.clone()));
        let mut places = Vec::new();
        for (number, ticket) in self.waiting.clone() {
            let place = self.engine.place(ticket, now).expect("it waits");
            places.push(format!("{number} {place:?}"));
        }
        self.hand_out();
        self.seen.push(format!("{now:?} {places:?} {:?}", self.engine.limits(now)));
        self.seen.push(format!("{:?} {:?}", self.engine.counts("api"), self.engine.next_wake()));
    }

    fn hand_out(&mut self) {
        for (ticket, verdict) in self.engine.verdicts().collect::<Vec<_>>() {
            let place = self.waiting.iter().position(|(_, known)| *known == ticket).expect("it waited");
            let (number, _) = self.waiting.remove(place);
            match verdict {
                Verdict::Granted(grant) => self.goes(number, grant),
                Verdict::Refused(refusal) => self.seen.push(format!("{number} refused: {refusal}")),
            }
        }
    }

    fn goes(&mut self, number: u32, grant: Grant) {
        let held_by = self.engine.held_by(&grant);
        let known = (grant.granted_at(), grant.is_quiet(), self.engine.byte_penalty(&grant), held_by);
        self.seen.push(format!("{number} goes: {known:?}"));
        self.held.push((number, grant));
    }
}

/// Calls that are alike go many in one step, and those that differ in nothing that matters go one by one.
#[test]
fn a_line_that_moves_in_one_step_moves_as_one_by_one() {
    for_seeds(3_000, |seed| {
        let mut dice = Dice::new(seed);
        let config = config(&mut dice);
        let mut worlds = [World::new(&config, true), World::new(&config, false)];
        let mut now = Nanos(0);
        for number in 0..120 {
            now = Nanos(now.0 + dice.pick(&[0, 0, 1_000_000, 40_000_000, 300_000_000]));
            let same = Dice::new(dice.below(u64::MAX));
            for world in &mut worlds {
                world.step(number, now, same.clone());
            }
            let [alike, apart] = &mut worlds;
            assert_eq!(alike.seen, apart.seen, "step {number} of\n{config}");
            alike.seen.clear();
            apart.seen.clear();
        }
    });
}

/// A loop that comes back to a limit finds its time where the calls of the other one have brought it, all of them.
#[test]
fn what_goes_in_one_step_counts_whole() {
    let config = "[services.api]\ntokens = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 10 }\n";
    let mut engine = engine(config);
    let (one, two) = (Call::to("api").loop_id("one").tokens(1), Call::to("api").loop_id("two"));
    let enqueue = |engine: &mut Engine, call: &Call, now| match engine.enqueue(call, LONG, now) {
        Ok(Admission::Waiting(ticket)) => Some(ticket),
        admission => {
            assert!(matches!(admission, Ok(Admission::Granted(_))));
            None
        }
    };
    let waiting = (0..31).filter_map(|_| enqueue(&mut engine, &one, at(0))).count();
    assert_eq!(waiting, 21, "the bucket is drained");
    enqueue(&mut engine, &two.clone().tokens(5), at(0)).expect("it waits");
    let went = |engine: &mut Engine, ms: u64| {
        engine.advance(at(ms));
        engine.verdicts().map(|(ticket, _)| ticket).collect::<Vec<_>>()
    };
    assert_eq!(went(&mut engine, 10).len(), 1);
    assert_eq!(went(&mut engine, 60).len(), 1, "two is served five units at once, one has had one");
    assert_eq!(went(&mut engine, 160).len(), 10, "and then ten more, in one step");
    let back = enqueue(&mut engine, &two.tokens(1), at(161)).expect("it waits");
    assert_eq!(went(&mut engine, 170), [back]);
}

/// What went is no longer ahead of anybody, and each knows what it waited for and whether its end matters.
#[test]
fn a_line_that_has_moved_is_as_long_as_it_is() {
    let rate = "[services.api]\nrequests = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 10 }\n";
    for (config, quiet) in [(rate.to_owned(), true), (format!("{rate}concurrency = 100\n"), false)] {
        let mut engine = engine(&config);
        let urgent = Call::to("api").priority(Priority::High);
        for _ in 0..30 {
            engine.enqueue(&urgent, LONG, at(0)).expect("it may wait");
        }
        engine.advance(at(100));
        let mut went = 0;
        for (_, verdict) in engine.verdicts().collect::<Vec<_>>() {
            let Verdict::Granted(grant) = verdict else { panic!("it is refused") };
            assert_eq!(engine.held_by(&grant).as_deref(), Some("api/requests/1s"));
            assert_eq!(grant.is_quiet(), quiet);
            went += 1;
        }
        assert_eq!((went, engine.waiting()), (10, 10));
        let Ok(Admission::Waiting(ticket)) = engine.enqueue(&Call::to("api"), LONG, at(100)) else {
            panic!("it does not wait")
        };
        let place = engine.place(ticket, at(100)).expect("it waits");
        assert_eq!((place.position, place.expected), (11, Some(Duration::from_millis(110))));
    }
}

/// A busy program has its timers wait; a line is not left to one that is late.
#[test]
fn who_joins_a_line_that_should_long_have_moved_sees_to_it() {
    let config = "[services.api]\ntokens = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 1 }\n";
    // What is only estimated is brought down to what the bucket holds.
    for call in [Call::to("api").tokens(1), Call::to("api").tokens(50).estimated()] {
        let mut engine = engine(config);
        let mut come = |ms: u64| {
            engine.enqueue(&call, LONG, at(ms)).expect("it may wait");
            engine.verdicts().count()
        };
        assert_eq!([come(0), come(0), come(0)], [0; 3], "one goes, two wait");
        assert_eq!(come(11), 0, "it is for the timer to let the first of them go, a millisecond ago");
        assert_eq!(come(15), 1);
        assert_eq!(come(16), 0);
    }
}

/// Who comes to a service that is only observed does not wait, though others still do.
#[test]
fn nobody_joins_the_line_of_a_service_that_is_only_observed() {
    let enforced =
        "[services.api]\nrequests = { limit = \"1/s\", algorithm = \"token-bucket\", burst = 1 }\n";
    let mut engine = engine(enforced);
    let call = Call::to("api");
    assert!(matches!(engine.enqueue(&call, LONG, at(0)), Ok(Admission::Granted(_))));
    assert!(matches!(engine.enqueue(&call, LONG, at(0)), Ok(Admission::Waiting(_))));
    let observed = enforced.replace("[services.api]\n", "[services.api]\nmode = \"observe\"\n");
    engine.reconfigure(&Config::parse(&observed, "test.toml").unwrap(), at(1)).unwrap();
    assert!(matches!(engine.enqueue(&call, LONG, at(2)), Ok(Admission::Granted(_))));
}
