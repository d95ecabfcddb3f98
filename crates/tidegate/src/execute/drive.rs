//! The state machine that asks for permits, runs attempts and waits between them.
//!
//! One for tasks and for threads: a task is woken by its runtime, a thread parks until the same wakers unpark it
//! or its alarm is due. Each step takes the state out and puts the next one in, so that code of the caller's that
//! panics leaves nothing half done behind: what was taken out is dropped on the way up.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::replace;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::engine::{Arrived, Fate};
use tidegate_core::retry::GiveUp;
use tidegate_core::{Call, Nanos};
use tokio::time::Instant;
use tracing::Span;

use super::alarm::Alarm;
use super::attempt::{Attempt, Running, Said};
use super::course::{Bounds, Course};
use super::ends::{ExecuteError, GaveUp, Report};
use super::progress::Progress;
use super::settings::Settings;
use super::trace;
use crate::gate::{Acquire, Permit, QueueTerms, Shared, Unpark};
use crate::outcome::{Outcome, outcome_of};
use crate::refused::Refused;
use crate::rules::Rules;

/// How long all stay away at most from an upstream that does not say for how long.
const UNSTATED: Duration = Duration::from_secs(1);
/// How often a waiting call tells of itself.
const TICK: Duration = Duration::from_secs(1);

/// A call on its way through its attempts.
pub(super) struct Drive<'a, T, E, F, Fut> {
    gate: Arc<Shared>,
    call: Call,
    op: F,
    pub settings: Settings<'a, E>,
    alarm: Alarm,
    /// The error of the latest attempt.
    last: Option<E>,
    state: State<Fut>,
    value: PhantomData<fn() -> T>,
}

enum State<Fut> {
    New,
    Queued(Acquire, Way),
    Running(Run<Fut>, Way),
    Resting(Rest, Way),
    Done,
}

/// What goes with a call from attempt to attempt.
struct Way {
    arrived: Arrived,
    /// When it came into the queue for the coming attempt.
    entered: Nanos,
    course: Course,
    rules: Arc<Rules>,
    /// When to tell of the call next.
    tick: Nanos,
    /// What it waited for longest, and how long, if that is to be known.
    held_by: Option<(Arc<str>, Duration)>,
}

struct Run<Fut> {
    // Before the permit, so that it is dropped first: a slot is free once nothing runs in it.
    future: Pin<Box<Fut>>,
    running: Running,
    since: Nanos,
    span: Span,
}

#[derive(Clone, Copy)]
struct Rest {
    since: Nanos,
    until: Nanos,
}

/// What a step comes to: another state, with which to go on or to wait, or the end of the call.
enum Step<T, E, Fut> {
    On(State<Fut>),
    Wait(State<Fut>),
    End(Result<Report<T>, ExecuteError<E>>),
}

impl<T, E, F, Fut> Drive<'_, T, E, F, Fut>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: 'static,
{
    pub fn new(gate: Arc<Shared>, call: Call, op: F) -> Self {
        let call = gate.priced(call);
        let (alarm, state) = (Alarm::Task(None), State::New);
        let settings = Settings::default();
        Drive { gate, call, op, settings, alarm, last: None, state, value: PhantomData }
    }

    /// Runs the call in this thread, which parks while the call waits.
    pub fn block(&mut self) -> Result<Report<T>, ExecuteError<E>> {
        self.alarm = Alarm::Thread(None);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = self.poll(&mut context) {
                return result;
            }
            // A thread that is unparked without cause polls again.
            match self.alarm.take_due() {
                Some(due) => std::thread::park_timeout(due.since(self.gate.now())),
                None => std::thread::park(),
            }
        }
    }

    /// Takes steps until the call waits or ends.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Report<T>, ExecuteError<E>>> {
        loop {
            let step = match replace(&mut self.state, State::Done) {
                State::New => self.set_out(),
                State::Queued(acquire, way) => self.queue(acquire, way, context),
                State::Running(run, way) => self.run(run, way, context),
                State::Resting(rest, way) => self.rest(rest, way, context),
                State::Done => Step::Wait(State::Done),
            };
            match step {
                Step::On(state) => self.state = state,
                Step::Wait(state) => {
                    self.state = state;
                    return Poll::Pending;
                }
                Step::End(result) => {
                    // Whoever follows the progress as a stream is to see its end.
                    self.settings.listeners.clear();
                    return Poll::Ready(result);
                }
            }
        }
    }

    fn set_out(&mut self) -> Step<T, E, Fut> {
        let rules = self.gate.rules();
        let retries = rules.retries(rules.service(&self.call));
        let policy = self.settings.policy.take().unwrap_or(retries.policy);
        let (arrived, timeout) = self.gate.arrive(&self.call);
        let ahead = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let bounds = Bounds {
            timeout,
            deadline: self.settings.deadline.map_or(Nanos::NEVER, |at| arrived.at().after(ahead(at))),
            max_elapsed: self.settings.max_elapsed,
        };
        let repeatable = self.settings.is_repeatable(&self.call, &rules);
        let course = Course::new(policy, retries.budget, repeatable, bounds, arrived.at());
        self.enter(Way { arrived, entered: arrived.at(), course, tick: Nanos::ZERO, rules, held_by: None })
    }

    /// Into the queue, at the call's first arrival.
    fn enter(&self, way: Way) -> Step<T, E, Fut> {
        let acquire = Acquire::new(self.gate.clone(), self.call.clone());
        Step::On(State::Queued(acquire, Way { tick: Nanos::ZERO, ..way }))
    }

    fn queue(&mut self, mut acquire: Acquire, mut way: Way, context: &mut Context<'_>) -> Step<T, E, Fut> {
        // A new call is refused at once where one that is tried again waits, as for a breaker that is open.
        let arrived = way.course.has_been_granted().then_some(way.arrived);
        let terms = || Some(QueueTerms { arrived, timeout: way.course.queue_time(way.entered) });
        match acquire.poll_with(context, self.alarm.sleeper(), terms) {
            Poll::Ready(Ok(permit)) => self.begin(permit, way),
            Poll::Ready(Err(refused)) => Step::End(Err(self.turned_down(refused, way))),
            Poll::Pending => {
                while !self.settings.listeners.is_empty()
                    && self.alarm.poll(way.tick, &self.gate, context).is_ready()
                {
                    let Some(place) = acquire.place() else { break };
                    let tokens_left = self.gate.tightest(&self.call);
                    self.tell(&mut way, |attempt| Progress {
                        attempt,
                        delay: place.expected.map(|expected| place.waited + expected),
                        expected_wait: place.expected,
                        tokens_left,
                        limit: Some(place.limit),
                        position: Some(place.position),
                    });
                }
                Step::Wait(State::Queued(acquire, way))
            }
        }
    }

    /// The attempt may go.
    fn begin(&mut self, permit: Permit, mut way: Way) -> Step<T, E, Fut> {
        let since = self.gate.now();
        let queued = permit.waited();
        way.course.went(queued, since);
        if self.settings.name_limits
            && way.held_by.as_ref().map_or(Duration::ZERO, |(_, longest)| *longest) < queued
            && let Some(limit) = permit.held_by()
        {
            way.held_by = Some((limit, queued));
        }
        let said = Said::default();
        let attempt = Attempt {
            number: way.course.attempts(),
            queued,
            waited: way.course.waited(),
            held_by: way.held_by.as_ref().map(|(limit, _)| limit.clone()),
            granted_at: permit.granted_at(),
            departure: permit.departure(),
            gate: self.gate.clone(),
            said: said.clone(),
        };
        let span = trace::attempt(way.rules.service(&self.call), attempt.number);
        let future = span.in_scope(|| Box::pin((self.op)(attempt)));
        Step::On(State::Running(Run { future, running: Running::new(permit, said), since, span }, way))
    }

    fn run(&mut self, mut run: Run<Fut>, mut way: Way, context: &mut Context<'_>) -> Step<T, E, Fut> {
        let polled = run.span.in_scope(|| run.future.as_mut().poll(context));
        let Poll::Ready(result) = polled else {
            return Step::Wait(State::Running(run, way));
        };
        let Run { future, mut running, since, span } = run;
        span.in_scope(|| drop(future));
        let Some(permit) = running.take_permit() else { return Step::Wait(State::Done) };
        let said = &running.said;
        match result {
            Ok(value) => {
                said.succeeded(permit);
                let (attempts, waited) = (way.course.attempts(), way.course.waited());
                trace::succeeded(way.rules.service(&self.call), attempts);
                Step::End(Ok(Report { value, attempts, waited, history: way.course.take_history() }))
            }
            Err(_) if said.is_given_back() => {
                permit.cancel();
                way.course.gave_back();
                self.enter(Way { entered: self.gate.now(), ..way })
            }
            Err(error) => {
                let outcome = said.take().unwrap_or_else(|| self.outcome_of(&error));
                self.after_failure(error, outcome, permit, (since, said.ends_call()), way)
            }
        }
    }

    /// The attempt failed: it gives its permit back before it waits for the next one, if there is one.
    fn after_failure(
        &mut self,
        error: E,
        outcome: Outcome,
        permit: Permit,
        (since, ends_call): (Nanos, bool),
        mut way: Way,
    ) -> Step<T, E, Fut> {
        let (mut ended, failure) = permit.read(outcome);
        let now = self.gate.now();
        let next = way.course.failed(failure, now.since(since), self.gate.chance.draw(), now);
        // Where the upstream does not say how long to stay away, the others need not stay away for longer than
        // this call does, nor for as long as it does after its fifth failure.
        if let (Fate::TurnedAway { wait: wait @ None, in_flight: false, .. }, Ok(delay)) =
            (&mut ended.fate, next)
        {
            *wait = Some(delay.min(UNSTATED));
        }
        permit.end(&ended);
        trace::failed(way.rules.service(&self.call), way.course.attempts(), failure, next);
        let why = match next {
            Ok(_) if ends_call => GaveUp::InputGone,
            Ok(delay) => {
                self.last = Some(error);
                let rest = Rest { since: now, until: now.after(delay) };
                return Step::On(State::Resting(rest, Way { tick: Nanos::ZERO, ..way }));
            }
            Err(GiveUp::Final | GiveUp::NotRepeatable) => return Step::End(Err(ExecuteError::Failed(error))),
            Err(GiveUp::RetriesSpent) => GaveUp::RetriesSpent,
            Err(GiveUp::TimeSpent) => GaveUp::TimeSpent,
            Err(GiveUp::TooFar { come_back }) => GaveUp::TooFar { come_back },
            Err(GiveUp::BudgetSpent) => GaveUp::BudgetSpent,
        };
        Step::End(Err(exhausted(error, why, way)))
    }

    fn rest(&mut self, rest: Rest, mut way: Way, context: &mut Context<'_>) -> Step<T, E, Fut> {
        loop {
            let listened = !self.settings.listeners.is_empty();
            let at = if listened { rest.until.min(way.tick) } else { rest.until };
            if self.alarm.poll(at, &self.gate, context).is_pending() {
                return Step::Wait(State::Resting(rest, way));
            }
            let now = self.gate.now();
            if now >= rest.until {
                way.course.rested(now.since(rest.since));
                return self.enter(Way { entered: now, ..way });
            }
            let tokens_left = self.gate.tightest(&self.call);
            self.tell(&mut way, |attempt| Progress {
                attempt,
                delay: Some(rest.until.since(rest.since)),
                expected_wait: Some(rest.until.since(now)),
                tokens_left,
                limit: None,
                position: None,
            });
        }
    }

    fn tell(&mut self, way: &mut Way, progress: impl FnOnce(u32) -> Progress) {
        way.tick = self.gate.now().after(TICK);
        self.settings.listeners.tell(&progress(way.course.attempts() + 1));
    }

    fn outcome_of(&mut self, error: &E) -> Outcome {
        match &mut self.settings.classify {
            Some(classify) => classify(error),
            None => outcome_of(error).unwrap_or_else(Outcome::unknown),
        }
    }

    /// The gate did not let an attempt go: the first one, or one more.
    fn turned_down(&mut self, refused: Refused, mut way: Way) -> ExecuteError<E> {
        way.course.rested(self.gate.now().since(way.entered));
        trace::refused(way.rules.service(&self.call), way.course.attempts() + 1, &refused);
        match self.last.take() {
            Some(last) => exhausted(last, GaveUp::Refused(Box::new(refused)), way),
            None => ExecuteError::Refused(refused),
        }
    }
}

fn exhausted<E>(last: E, why: GaveUp, mut way: Way) -> ExecuteError<E> {
    let (attempts, waited) = (way.course.attempts(), way.course.waited());
    ExecuteError::Exhausted { attempts, waited, last, why, history: way.course.take_history() }
}

impl<T, E, F, Fut> fmt::Debug for Drive<'_, T, E, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execute").field("call", &self.call).finish_non_exhaustive()
    }
}
