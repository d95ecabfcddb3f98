//! What was learned about a limit, to be shown and to be kept for the next start.

use crate::limits::adjustment::Adjustment;
use crate::limits::limit::Counts;
use crate::model::LimitId;
use crate::model::rate::Algorithm;
use crate::routing::names;
use crate::routing::state::Base;
use crate::upstream::state::Upstream;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What was learned about a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LearnedLimit {
    /// Its name.
    pub limit: Arc<str>,
    /// N as it is written.
    pub written: u64,
    /// N as replies state it, if they do.
    pub told: Option<u64>,
    /// What is in force: what may go in a window, or flows into a bucket in that time.
    pub in_force: u64,
    /// How it counts now; a bound on what is in flight does not count in any of these ways.
    pub algorithm: Option<Algorithm>,
    /// The upstream was seen to count as a bucket of this size does.
    pub bucket: Option<u64>,
    /// The share of N that goes through, by having been turned away without a reason; 1 if that did not happen.
    pub share: f64,
    /// What others take of the same limit, in units a second.
    pub others: f64,
    /// By how much calls may overtake each other on their way.
    pub jitter: Duration,
    /// What goes at once so that nothing is lost of what calls reserve and do not use; 0 if that is nothing special.
    pub burst: u64,
    /// The share of the usual pace at which calls go for a time: the upstream is overloaded, or was not called for long.
    pub pace: f64,
    /// The time that nine of ten replies of the service keep to, if that is known.
    pub latency: Option<Duration>,
}

pub(crate) fn learned_of(u: &Upstream, base: &Base, limit: LimitId) -> Option<LearnedLimit> {
    let index = base.limits[limit].spec;
    let spec = &base.limits.specs[index];
    let (written, in_force, algorithm) = match (spec.written.rate_of(), &spec.definition.counts) {
        (Some(written), Counts::Rate { rate, algorithm, .. }) => {
            (written.units(), rate.units(), Some(*algorithm))
        }
        (None, Counts::Concurrency(bound)) => (spec.written.whole(), *bound, None),
        _ => return None,
    };
    let others = u.learning.others_at(limit);
    // What is taken for granted before the first reply was not learned.
    let jitter = Some(spec.learned.jitter).filter(|jitter| *jitter != base.limits.apart).unwrap_or_default();
    let known = Adjustment { jitter, remote: false, wary: false, ..spec.learned.clone() };
    if known == Adjustment::default() && others == 0.0 {
        return None;
    }
    Some(LearnedLimit {
        limit: names::limit_name(base, limit),
        written,
        told: spec.learned.units,
        in_force,
        algorithm,
        bucket: spec.learned.bucket,
        share: spec.learned.share,
        others,
        jitter,
        burst: spec.learned.burst,
        pace: spec.learned.pace,
        latency: names::service_at(base, index)
            .and_then(|service| u.learning.spreads.get(&service).and_then(|spread| spread.most_keep_to())),
    })
}
