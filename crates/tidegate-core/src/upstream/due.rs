//! When something that was learned is to be reviewed.

use crate::model::LimitId;
use crate::model::time::Nanos;
use crate::routing::state::Base;
use crate::upstream::learning::mirror::Mirror;
use crate::upstream::state::Upstream;
use std::time::Duration;

pub(crate) fn see_what_is_due(u: &mut Upstream, base: &mut Base) {
    let window = |limit: &LimitId| {
        let spec = &base.limits.specs[base.limits[*limit].spec];
        spec.written.rate_of().map_or(Duration::ZERO, |rate| rate.window())
    };
    let due = |(limit, mirror): (&LimitId, &Mirror)| mirror.due(window(limit)).min(mirror.next_unheard());
    let mirrors = u.learning.mirrors.iter().map(due);
    let ceilings = u.learning.ceilings.values().map(|inferred| inferred.ceiling.due());
    let overloads = u.learning.overloads.values().map(|overload| overload.due());
    let ramp = u.learning.ramps.values().map(|ramp| ramp.due()).min().unwrap_or(Nanos::NEVER);
    u.learning.due = mirrors.chain(ceilings).chain(overloads).min().unwrap_or(Nanos::NEVER).min(ramp);
    // Before the first call after a rest goes, it is to be known that there was one.
    u.learning.ramp_due = ramp;
    base.limits.attention = base.limits.attention.min(ramp);
}
