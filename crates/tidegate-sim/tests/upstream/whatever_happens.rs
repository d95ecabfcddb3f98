//! Random upstreams, random calls, random neighbours: what is accepted obeys the definition, and what is
//! refused could not be accepted.

use proptest::prelude::*;
use tidegate_sim::{Neighbour, Spread};

use super::definition::Definition;
use super::*;

/// How long a neighbour's call holds a slot.
const HOLDS: Duration = Duration::from_millis(13);

/// A call of ours: how long after the last one, what it announces, what it costs, how long it runs.
type OurCall = (u64, u64, u64, u64);

fn limits() -> impl Strategy<Value = Vec<UpstreamLimit>> {
    let models = [RATE_MODELS.as_slice(), &[Model::Concurrency]].concat();
    let limit = (prop::sample::select(models), any::<bool>(), 1..60_u64, 1..40_u64, 0..90_u64).prop_map(
        |(model, requests_only, units, window, burst)| {
            let limit = match requests_only {
                true => requests(model, units, window),
                false => tokens(model, units, window),
            };
            UpstreamLimit { burst: (burst > 0).then_some(burst), ..limit }
        },
    );
    prop::collection::vec(limit, 1..4)
}

fn calls() -> impl Strategy<Value = Vec<OurCall>> {
    let gap = prop_oneof![Just(0), 0..3_000_000_u64, 0..30_000_000_u64];
    prop::collection::vec((gap, 0..50_u64, 0..60_u64, 0..60_000_000_u64), 1..120)
}

fn neighbours() -> impl Strategy<Value = Vec<Neighbour>> {
    let neighbour = (1..20_u64, 1..40_u64, 0..9_u64).prop_map(|(units, window, dearest)| Neighbour {
        rate: rate(units, window),
        from: Duration::ZERO,
        until: None,
        tokens: Spread::Between(0, dearest),
    });
    prop::collection::vec(neighbour, 0..3)
}

/// The upstream, and beside it the definitions of all its limits.
struct Watched {
    upstream: Upstream,
    limits: Vec<UpstreamLimit>,
    definitions: Vec<Definition>,
    running: Vec<Running>,
}

struct Running {
    ends: u64,
    held: Held,
    tokens: u64,
    /// Its place in each definition.
    places: Vec<usize>,
}

impl Watched {
    fn allowed(&self, tokens: u64, at: u64) -> bool {
        self.limits
            .iter()
            .zip(&self.definitions)
            .all(|(limit, definition)| definition.allows(units(limit, tokens), at))
    }

    fn count(&mut self, tokens: u64, at: u64) -> Vec<usize> {
        self.limits
            .iter()
            .zip(&mut self.definitions)
            .map(|(limit, definition)| definition.count(units(limit, tokens), at))
            .collect()
    }

    /// Lets happen all that is due until `now`, one thing at a time, and judges what neighbours got. Says whether
    /// they could be told apart: two that come in the same nanosecond cannot, and prove nothing.
    #[must_use]
    fn advance(&mut self, now: u64) -> bool {
        loop {
            let own = self.upstream.next_event().0;
            let ends = self.running.iter().map(|running| running.ends).min().unwrap_or(u64::MAX);
            if own.min(ends) > now {
                return true;
            }
            if ends <= own {
                self.end(ends);
                continue;
            }
            let before = self.upstream.counts().neighbours.clone();
            self.upstream.advance(Nanos(own));
            let after = self.upstream.counts().neighbours.clone();
            if after.received > before.received + 1 {
                return false;
            }
            if after.received == before.received {
                continue;
            }
            let counted: Vec<u64> = after.units.iter().zip(&before.units).map(|(a, b)| a - b).collect();
            // What a refused neighbour wanted is not told; what an accepted one got is.
            if after.accepted > before.accepted {
                for ((limit, definition), cost) in self.limits.iter().zip(&mut self.definitions).zip(counted)
                {
                    assert!(definition.allows(cost, own), "a neighbour got {cost} of {limit:?}");
                    let place = definition.count(cost, own);
                    if limit.model == Model::Concurrency {
                        definition.amend(place, Nanos(own).after(HOLDS).0);
                    }
                }
            }
        }
    }

    fn end(&mut self, at: u64) {
        let place = self.running.iter().position(|running| running.ends == at).unwrap();
        let ended = self.running.swap_remove(place);
        // What a bucket gets back it cannot have above its size, which no sum over the past shows.
        let no_less = self.limits.iter().any(|limit| matches!(limit.model, Model::TokenBucket | Model::Gcra));
        let announced = ended.held.cost().units(&Dimension::Tokens);
        let actual = if no_less { ended.tokens.max(announced) } else { ended.tokens };
        for ((limit, definition), place) in self.limits.iter().zip(&mut self.definitions).zip(&ended.places) {
            if limit.model == Model::Concurrency {
                definition.amend(*place, at);
            } else if limit.dimension == Dimension::Tokens && actual > announced {
                definition.count(actual - announced, at);
            } else if limit.dimension == Dimension::Tokens {
                definition.amend(*place, actual);
            }
        }
        self.upstream.end(ended.held, &Cost::nothing().with(Dimension::Tokens, actual), Nanos(at));
    }
}

fn units(limit: &UpstreamLimit, tokens: u64) -> u64 {
    if limit.dimension == Dimension::Requests { 1 } else { tokens }
}

proptest! {
    #[test]
    fn what_is_accepted_obeys_the_definition_and_what_is_refused_could_not(
        limits in limits(), neighbours in neighbours(), calls in calls(), seed: u64,
    ) {
        let spec = UpstreamSpec { latency: Spread::span(HOLDS), neighbours, ..only(&limits) };
        let mut watched = Watched {
            upstream: Upstream::new(&spec, seed, Nanos::ZERO),
            definitions: limits.iter().map(Definition::of).collect(),
            limits,
            running: Vec::new(),
        };
        let mut now = 0;
        for (gap, announced, tokens, runs) in calls {
            now += gap;
            prop_assume!(watched.advance(now));
            let allowed = watched.allowed(announced, now);
            match watched.upstream.receive(&of_tokens(announced), Nanos(now)) {
                Answer::Accepted(held) => {
                    prop_assert!(allowed);
                    let places = watched.count(announced, now);
                    watched.running.push(Running { ends: now + runs, held, tokens, places });
                }
                Answer::Refused(_) => prop_assert!(!allowed),
                Answer::Failed(status) => prop_assert!(false, "failed with {}", status),
            }
        }
    }

    #[test]
    fn calls_that_cost_although_refused_take_nothing_from_the_promise(
        limits in limits(), neighbours in neighbours(), calls in calls(), seed: u64,
    ) {
        let spec = UpstreamSpec { refused_cost: true, neighbours, ..only(&limits) };
        let mut upstream = Upstream::new(&spec, seed, Nanos::ZERO);
        let mut definitions: Vec<_> = limits.iter().map(Definition::of).collect();
        let mut now = 0;
        for (gap, announced, ..) in calls {
            now += gap;
            if let Answer::Accepted(held) = upstream.receive(&of_tokens(announced), Nanos(now)) {
                for (limit, definition) in limits.iter().zip(&mut definitions) {
                    prop_assert!(definition.allows(units(limit, announced), now));
                    let place = definition.count(units(limit, announced), now);
                    if limit.model == Model::Concurrency {
                        definition.amend(place, now);
                    }
                }
                upstream.end(held, &Cost::nothing(), Nanos(now));
            }
        }
    }
}
