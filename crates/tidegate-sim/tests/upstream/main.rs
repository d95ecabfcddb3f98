//! The models of upstreams: by hand, by brute force, by an oracle, and through the reader of replies.

mod by_hand;
mod definition;
mod every_millisecond;
mod headers;
mod oracle;
mod whatever_happens;

use std::time::Duration;

use tidegate_core::{Cost, Dimension, Nanos, Rate};
use tidegate_sim::upstream::{Answer, Held, RefusedBy, Upstream};
use tidegate_sim::{Model, UpstreamLimit, UpstreamSpec};

const RATE_MODELS: [Model; 4] = [Model::FixedWindow, Model::SlidingLog, Model::TokenBucket, Model::Gcra];

fn rate(units: u64, millis: u64) -> Rate {
    Rate::new(units, Duration::from_millis(millis)).unwrap()
}

fn requests(model: Model, units: u64, millis: u64) -> UpstreamLimit {
    UpstreamLimit {
        model,
        dimension: Dimension::Requests,
        rate: rate(units, millis),
        burst: None,
        hidden: false,
    }
}

fn tokens(model: Model, units: u64, millis: u64) -> UpstreamLimit {
    UpstreamLimit { dimension: Dimension::Tokens, ..requests(model, units, millis) }
}

fn only(limits: &[UpstreamLimit]) -> UpstreamSpec {
    UpstreamSpec { limits: limits.to_vec(), ..UpstreamSpec::default() }
}

fn upstream(limits: &[UpstreamLimit]) -> Upstream {
    Upstream::new(&only(limits), 1, Nanos::ZERO)
}

fn ms(millis: u64) -> Nanos {
    Nanos(millis * 1_000_000)
}

fn of_tokens(tokens: u64) -> Cost {
    Cost::new().with(Dimension::Tokens, tokens)
}

#[track_caller]
fn accepted(answer: Answer) -> Held {
    match answer {
        Answer::Accepted(held) => held,
        other => panic!("not accepted: {other:?}"),
    }
}

#[track_caller]
fn refused(answer: Answer) -> RefusedBy {
    match answer {
        Answer::Refused(by) => by,
        other => panic!("not refused: {other:?}"),
    }
}
