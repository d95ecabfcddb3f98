//! A limit that spends only what it is lent, and lenders that are slow, fail and forget.

mod common;

use std::collections::BTreeMap;

use common::World;
use common::dice::{Dice, for_seeds};
use tidegate_core::engine::LoanRequest;
use tidegate_core::limits::allowance::Loan;
use tidegate_core::{Call, Nanos, Priority};

const NAME: &str = "api/requests/1s";
const MILLI: u64 = 1_000_000;
const CONFIG: &str = "[services.api]\nrequests = { limit = \"1000/s\", algorithm = \"token-bucket\", burst = 1000 }\nqueue = { max_waiting = 100000, aging = \"1h\" }\n";

fn lent(size: u64) -> World {
    let mut world = World::new(CONFIG);
    assert!(world.engine.spend_from_loans(NAME, size, world.now));
    world
}

fn lend(world: &mut World, units: u64, from: u64, until: u64) {
    let loan = Loan { units, from: Nanos(from * MILLI), until: Nanos(until * MILLI) };
    world.engine.lend(NAME, loan, world.now);
    world.collect();
}

fn asked(world: &mut World) -> Vec<LoanRequest> {
    world.engine.loan_requests()
}

#[test]
fn a_call_that_may_not_wait_asks_the_lender_for_the_next_one() {
    let mut world = lent(10);
    assert_eq!(asked(&mut world).len(), 1);
    world.engine.loan_failed(NAME, Nanos(100 * MILLI), world.now);
    world.try_call(&Call::to("api")).expect_err("nothing is lent");
    assert!(asked(&mut world).is_empty(), "not before the time that the lender named");
    world.run_to(200.0);
    world.try_call(&Call::to("api")).expect_err("nothing is lent");
    assert_eq!(asked(&mut world).len(), 1, "else it would be refused for ever");
}

#[test]
fn two_loans_that_never_meet_are_not_enough_for_one_large_call() {
    let mut world = lent(4);
    asked(&mut world);
    lend(&mut world, 5, 0, 300);
    lend(&mut world, 5, 500, 60_000);
    let large = world.call(Call::to("api").requests(8));
    world.run_to(1_100.0);
    let questions = asked(&mut world);
    assert!(questions.iter().any(|question| question.units >= 3), "{questions:?}");
    lend(&mut world, 3, 0, 60_000);
    assert_eq!(world.went_at(large), Some(1_100.0));
}

#[test]
fn a_loan_of_nothing_is_asked_for_again_only_after_a_while() {
    let mut world = lent(4);
    let waits = world.call(Call::to("api"));
    let mut questions = 0;
    for _ in 0..50 {
        questions += asked(&mut world).len();
        lend(&mut world, 0, 0, 60_000);
    }
    assert!(questions <= 2, "{questions} questions at one instant");
    world.run_to(5_000.0);
    assert!(!asked(&mut world).is_empty());
    lend(&mut world, 4, 0, 60_000);
    assert_eq!(world.went_at(waits), Some(5_000.0));
}

#[test]
fn what_comes_back_after_its_loan_is_over_is_not_lent_again() {
    let mut world = lent(4);
    asked(&mut world);
    lend(&mut world, 4, 0, 100);
    let early = world.call(Call::to("api").requests(4));
    world.run_to(50.0);
    lend(&mut world, 2, 0, 60_000);
    world.run_to(150.0);
    let grant = world.held.remove(&early).expect("went");
    world.engine.cancel(grant, world.now);
    world.collect();
    world.try_call(&Call::to("api").requests(3)).expect_err("two are lent");
    world.try_call(&Call::to("api").requests(2)).expect("two are lent");
}

#[test]
fn what_comes_back_in_time_may_be_spent_again() {
    let mut world = lent(4);
    asked(&mut world);
    lend(&mut world, 4, 0, 100);
    let first = world.call(Call::to("api").requests(4));
    let grant = world.held.remove(&first).expect("went");
    world.engine.cancel(grant, world.now);
    world.try_call(&Call::to("api").requests(4)).expect("all four came back");
    world.try_call(&Call::to("api")).expect_err("and no more");
}

#[test]
fn small_calls_do_not_spend_what_a_larger_one_waits_for() {
    let mut world = lent(4);
    asked(&mut world);
    let large = world.call(Call::to("api").priority(Priority::High).requests(8));
    let small = world.calls(10, &Call::to("api"));
    for step in 1..=4 {
        world.run_to(f64::from(step) * 10.0);
        lend(&mut world, 2, 0, 60_000);
        if step < 4 {
            assert!(world.went.is_empty(), "{:?} went before it", world.went);
        }
    }
    assert_eq!(world.went_at(large), Some(40.0));
    lend(&mut world, 10, 0, 60_000);
    assert!(small.iter().all(|call| world.went_at(*call) == Some(40.0)));
}

/// What a lender has promised to answer, and when.
enum Answer {
    Lend(Loan),
    Fail(Nanos),
}

struct Lender {
    dice: Dice,
    due: BTreeMap<(Nanos, usize), Answer>,
    loans: Vec<Loan>,
    questions: usize,
    answers: usize,
    /// Some of its loans begin later.
    ahead: bool,
    /// From then on it answers everything in full.
    recovers: Nanos,
}

impl Lender {
    fn hear(&mut self, world: &mut World) {
        for question in world.engine.loan_requests() {
            assert_eq!(&*question.limit, NAME);
            assert!(question.units > 0, "a question for nothing");
            self.questions += 1;
            let now = world.now;
            let (kind, delay) = match now >= self.recovers {
                true => (0, MILLI),
                false => (self.dice.below(6), self.dice.below(300) * MILLI),
            };
            let at = Nanos(now.0 + delay);
            let answer = match kind {
                // It forgets.
                5 => continue,
                4 => Answer::Fail(Nanos(at.0 + self.dice.below(400) * MILLI)),
                kind => {
                    let units = if kind == 0 { question.units } else { self.dice.below(question.units + 1) };
                    let ahead = if kind == 2 && self.ahead { self.dice.below(200) * MILLI } else { 0 };
                    let from = Nanos(at.0 + ahead);
                    let span = if kind == 0 { 3_600_000 } else { self.dice.below(500) };
                    Answer::Lend(Loan { units, from, until: Nanos(from.0 + span * MILLI) })
                }
            };
            self.due.insert((at, self.questions), answer);
        }
    }

    fn answer(&mut self, world: &mut World) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= world.now) {
            self.answers += 1;
            match entry.remove() {
                Answer::Lend(loan) => {
                    self.loans.push(loan);
                    world.engine.lend(NAME, loan, world.now);
                }
                Answer::Fail(retry) => world.engine.loan_failed(NAME, retry, world.now),
            }
            world.collect();
        }
    }
}

/// Whether `spent` (time and units) can be paid from `loans`: earliest deadline first is never wrong.
fn payable(spent: &[(Nanos, u64)], loans: &[Loan]) -> bool {
    let mut loans = loans.to_vec();
    loans.sort_by_key(|loan| loan.until);
    let mut spent = spent.to_vec();
    spent.sort_by_key(|(at, _)| *at);
    spent.iter().all(|(at, units)| {
        let mut left = *units;
        for loan in loans.iter_mut().filter(|loan| loan.from <= *at && *at < loan.until) {
            let part = left.min(loan.units);
            loan.units -= part;
            left -= part;
        }
        left == 0
    })
}

/// What was asked for, and what was spent and not given back.
#[derive(Default)]
struct Story {
    /// A loan may begin later; until then what would be over by that time may go to anybody.
    ahead: bool,
    calls: BTreeMap<usize, (Priority, u64)>,
    spent: BTreeMap<usize, (Nanos, u64)>,
    seen: usize,
}

impl Story {
    /// Whoever went, nobody of a higher priority was left waiting.
    fn read(&mut self, world: &World) {
        for &(number, at) in &world.went[self.seen..] {
            let (class, cost) = self.calls[&number];
            self.spent.insert(number, (at, cost));
            let mut above = self.calls.iter().filter(|(_, (other, _))| *other > class);
            let passed = above.find(|(other, _)| world.waits(**other));
            assert!(self.ahead || passed.is_none(), "{number} went before {passed:?}");
        }
        self.seen = world.went.len();
    }
}

#[test]
fn nothing_is_spent_that_was_not_lent_and_in_the_end_everybody_is_served_in_rank_order() {
    for_seeds(120, |seed| {
        let mut dice = Dice::new(seed);
        let mut world = lent(1 + dice.below(20));
        let recovers = Nanos(3_000 * MILLI);
        let mut lender = Lender {
            dice: dice.clone(),
            due: BTreeMap::new(),
            loans: Vec::new(),
            questions: 0,
            answers: 0,
            ahead: seed % 2 == 0,
            recovers,
        };
        let mut story = Story { ahead: lender.ahead, ..Story::default() };
        lender.hear(&mut world);
        while world.now < Nanos(8_000 * MILLI) {
            // The next thing that happens anywhere.
            let step = Nanos(world.now.0 + 1 + dice.below(60 * MILLI));
            let answer = lender.due.keys().next().map_or(Nanos::NEVER, |(at, _)| *at);
            world.run_to_nanos(step.min(answer.max(world.now)));
            story.read(&world);
            lender.answer(&mut world);
            story.read(&world);
            if world.now < recovers {
                match dice.below(4) {
                    0 | 1 => {
                        let (class, cost) = (dice.pick(&Priority::ALL), 1 + dice.below(25));
                        let call = Call::to("api").priority(class).requests(cost);
                        let number = world.call(call);
                        story.calls.insert(number, (class, cost));
                    }
                    2 => {
                        let held: Vec<usize> = world.held.keys().copied().collect();
                        if !held.is_empty() {
                            let number = dice.pick(&held);
                            let grant = world.held.remove(&number).expect("held");
                            if dice.one_in(2) {
                                world.engine.cancel(grant, world.now);
                                // What never left may be spent again; the loan decides whether.
                                story.spent.remove(&number);
                            } else {
                                world.engine.finish(grant, None, world.now);
                            }
                            world.collect();
                        }
                    }
                    _ => {
                        let waiting: Vec<usize> =
                            story.calls.keys().copied().filter(|number| world.waits(*number)).collect();
                        if !waiting.is_empty() {
                            let gone = dice.pick(&waiting);
                            world.withdraw(gone);
                            story.calls.remove(&gone);
                        }
                    }
                }
            }
            story.read(&world);
            lender.hear(&mut world);
            let paid: Vec<(Nanos, u64)> = story.spent.values().copied().collect();
            assert!(payable(&paid, &lender.loans), "{paid:?} is more than {:?}", lender.loans);
        }
        assert_eq!(world.engine.waiting(), 0, "the lender is back, and they still wait");
        let most = 2 * story.calls.len() + 2 * lender.answers + 40;
        assert!(lender.questions <= most, "{} questions, {} answers", lender.questions, lender.answers);
    });
}

#[test]
fn a_lender_that_never_answers_is_asked_about_once_a_second() {
    let mut world = lent(5);
    world.calls(10, &Call::to("api"));
    let mut questions = 0;
    let mut wakes = 0;
    while world.now < Nanos(60_000 * MILLI) {
        world.now = world.engine.next_wake().expect("it asks again");
        world.engine.advance(world.now);
        questions += asked(&mut world).len();
        wakes += 1;
    }
    assert!((55..=65).contains(&questions), "{questions}");
    assert!(wakes <= 130, "{wakes}");
    assert_eq!(world.went.len(), 0);
}
