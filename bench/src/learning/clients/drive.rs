//! Many callers who share a client, against one upstream: each calls, waits for the reply, and calls again; a call that
//! was refused is made again after its pause, until it is accepted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use tidegate_core::{Cost, Nanos};
use tidegate_sim::upstream::{Answer, Held, Upstream, UpstreamCounts};
use tidegate_sim::{Dice, UpstreamSpec};

use super::Client;

/// What the upstream had counted when the first window was over, and in the end.
pub struct Counted {
    /// After the first window.
    pub warm: UpstreamCounts,
    /// In the end.
    pub last: UpstreamCounts,
}

/// Plays `client` with so many callers for so long.
pub fn drive(
    client: &mut dyn Client,
    spec: &UpstreamSpec,
    workers: u64,
    warmup: Duration,
    lasts: Duration,
    seed: u64,
) -> Counted {
    let mut world = World {
        client,
        spec,
        upstream: Upstream::new(spec, Dice::part(seed, "api", 0).draw(), Nanos::ZERO),
        wire: Dice::part(seed, "wire", 0),
        pauses: Dice::part(seed, "retries", 0),
        now: Nanos::ZERO,
        plan: BinaryHeap::new(),
        calls: Vec::new(),
        ready: (0..workers as usize).collect(),
        asked_again: Nanos::NEVER,
    };
    world.calls.resize_with(workers as usize, Attempt::default);
    world.play(Nanos::ZERO.after(warmup));
    let warm = world.counts_at(Nanos::ZERO.after(warmup));
    world.play(Nanos::ZERO.after(lasts));
    let last = world.counts_at(Nanos::ZERO.after(lasts));
    Counted { warm, last }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Whoever is first in line asks again.
    Ask,
    /// A call reaches the upstream.
    Reach(usize),
    /// Its reply is back.
    Reply(usize),
    /// A call is made, or made again.
    Ready(usize),
}

/// A caller's present call.
#[derive(Default)]
struct Attempt {
    sent: Nanos,
    refusals: u32,
    answer: Option<Answered>,
}

enum Answered {
    Well(Held),
    Refused { hint: Option<f64> },
}

struct World<'w> {
    client: &'w mut dyn Client,
    spec: &'w UpstreamSpec,
    upstream: Upstream,
    wire: Dice,
    pauses: Dice,
    now: Nanos,
    plan: BinaryHeap<Reverse<(Nanos, Event)>>,
    calls: Vec<Attempt>,
    /// Callers whose call may go as soon as the client lets it, first come first served.
    ready: VecDeque<usize>,
    /// When whoever is first asks again, if that is planned.
    asked_again: Nanos,
}

impl World<'_> {
    fn play(&mut self, until: Nanos) {
        self.send();
        while let Some(Reverse((at, event))) = self.plan.peek().copied()
            && at < until
        {
            self.plan.pop();
            self.now = at;
            match event {
                Event::Ask => self.asked_again = Nanos::NEVER,
                Event::Reach(caller) => self.reach(caller),
                Event::Reply(caller) => self.reply(caller),
                Event::Ready(caller) => self.ready.push_back(caller),
            }
            self.send();
        }
    }

    /// Sends whatever may go.
    fn send(&mut self) {
        while let Some(caller) = self.ready.front().copied() {
            if let Err(again) = self.client.ask(seconds(self.now)) {
                // A nanosecond later at least: what is left may be too little to see.
                let again = nanos(again).max(Nanos(self.now.0 + 1));
                if again < self.asked_again {
                    self.asked_again = again;
                    self.plan.push(Reverse((again, Event::Ask)));
                }
                return;
            }
            self.ready.pop_front();
            self.calls[caller].sent = self.now;
            let reaches = Nanos(self.now.0 + self.spec.jitter.draw(&mut self.wire));
            self.plan.push(Reverse((reaches, Event::Reach(caller))));
        }
    }

    fn reach(&mut self, caller: usize) {
        let answer = match self.upstream.receive(&Cost::new(), self.now) {
            Answer::Accepted(held) => Answered::Well(held),
            Answer::Refused(by) => {
                let headers = self.upstream.headers(Some(&by), self.now, self.now.since(Nanos::ZERO));
                Answered::Refused { hint: retry_after(&headers) }
            }
            Answer::Failed(_) => Answered::Refused { hint: None },
        };
        self.calls[caller].answer = Some(answer);
        let back = Nanos(self.now.0 + self.spec.latency.draw(&mut self.wire));
        self.plan.push(Reverse((back, Event::Reply(caller))));
    }

    fn reply(&mut self, caller: usize) {
        let call = &mut self.calls[caller];
        let (sent, now) = (seconds(call.sent), seconds(self.now));
        let next = match call.answer.take() {
            Some(Answered::Refused { hint }) => {
                call.refusals += 1;
                self.client.told(sent, true, now);
                now + self.client.pause(call.refusals, hint, &mut self.pauses)
            }
            well => {
                if let Some(Answered::Well(held)) = well {
                    self.upstream.end(held, &Cost::new(), self.now);
                }
                call.refusals = 0;
                self.client.told(sent, false, now);
                now
            }
        };
        self.plan.push(Reverse((nanos(next).max(self.now), Event::Ready(caller))));
    }

    fn counts_at(&mut self, at: Nanos) -> UpstreamCounts {
        self.upstream.advance(at);
        self.upstream.counts().clone()
    }
}

fn retry_after(headers: &[(String, String)]) -> Option<f64> {
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    value.parse().ok()
}

fn seconds(at: Nanos) -> f64 {
    at.0 as f64 / 1e9
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use tidegate_sim::{HeaderStyle, Model};

    use super::super::{Backoff, Bucket};
    use super::*;
    use crate::learning::scene::Scene;

    fn counted(client: &mut dyn Client, model: Model) -> Counted {
        let scene = Scene::alone(60, model, HeaderStyle::OpenAi);
        let scenario = scene.scenario(&[]).expect("valid");
        drive(client, &scenario.upstreams["api"], scene.workers, scenario.warmup, scenario.duration, 7)
    }

    #[test]
    fn a_fixed_window_is_used_up_in_every_window_by_whoever_never_stops_trying() {
        let counted = counted(&mut Backoff, Model::FixedWindow);
        assert_eq!((counted.warm.us.accepted, counted.last.us.accepted), (60, 600));
        assert!(counted.last.us.refused > 0);
    }

    #[test]
    fn whoever_does_as_the_upstream_does_is_refused_for_the_jitter_only() {
        let counted = counted(&mut Bucket::new(60), Model::TokenBucket);
        let us = &counted.last.us;
        assert!((650..=660).contains(&us.accepted) && us.refused < 10, "{us:?}");
    }

    #[test]
    fn a_refused_call_is_not_made_again_before_its_pause_is_over() {
        // Told to come back in the next window, each of the callers is refused once in a window at most.
        let counted = counted(&mut Bucket::new(600), Model::FixedWindow);
        let callers = Scene::alone(60, Model::FixedWindow, HeaderStyle::OpenAi).workers;
        assert!(counted.last.us.refused <= 10 * callers, "{:?}", counted.last.us);
    }
}
