//! Definitions of limits come into force, and limits are made from them.

use crate::config::{BreakerScope, Reserve, ServiceConfig};
use crate::limits::breaker::BreakerPolicy;
use crate::limits::limit::{Counts, Definition, Limit, Spec};
use crate::limits::store::LOOP;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};
use crate::routing::adopt;
use crate::routing::service::Breakers;
use crate::routing::state::Base;

pub(crate) fn define_one(
    base: &mut Base,
    level: &str,
    definition: Definition,
    per_key: bool,
    now: Nanos,
) -> SpecId {
    let new = Spec::new(level, definition);
    let known = base.limits.spec_names.get(&new.name).copied();
    let index = match known {
        Some(index) => {
            redefine(base, index, new.written, now);
            index
        }
        None => {
            let name = new.name.clone();
            let index = base.limits.specs.insert(new);
            base.limits.spec_names.insert(name, index);
            if base.limits.expect_apart(index) {
                put_in_force(base, index, now);
            }
            index
        }
    };
    base.limits.specs[index].gone = false;
    if std::mem::replace(&mut base.limits.specs[index].per_key, per_key) != per_key {
        base.limits.start_anew(index, now);
    }
    if !per_key && level != LOOP {
        instance(base, index, None, now);
    }
    index
}

/// The breakers of a service: one that all share, or one for each endpoint and one for the rest.
pub(crate) fn define_breakers(base: &mut Base, name: &str, service: &ServiceConfig, now: Nanos) -> Breakers {
    let Some(config) = &service.breaker else { return Breakers::default() };
    // The config was checked: a policy that makes no sense does not come here.
    let policy = BreakerPolicy::from_config(config).unwrap_or_default();
    let mut define = |level: &str| {
        let definition = Definition::in_flight(Counts::Breaker(policy.clone()), Reserve::default());
        define_one(base, level, definition, false, now)
    };
    let endpoints = match config.per {
        BreakerScope::Service => Vec::new(),
        BreakerScope::Endpoint => {
            let each = service.endpoints.keys();
            each.map(|text| (text.as_str().into(), define(&format!("{name}/endpoint:{text}")))).collect()
        }
    };
    Breakers { endpoints, others: Some(define(name)) }
}

/// Gives a definition to a limit that keeps its name, and to all its instances.
pub(crate) fn redefine(base: &mut Base, spec: SpecId, definition: Definition, now: Nanos) {
    base.limits.specs[spec].written = definition;
    put_in_force(base, spec, now);
}

/// Brings a limit and all its instances to what is written, by what was learned. Says whether that is news.
pub(crate) fn put_in_force(base: &mut Base, spec: SpecId, now: Nanos) -> bool {
    let held = &base.limits.specs[spec];
    let fresh = Spec::new(&held.level, held.written.with(&held.learned));
    let held = &mut base.limits.specs[spec];
    let old = std::mem::replace(&mut held.definition, fresh.definition);
    held.withheld = fresh.withheld;
    let of_spec = |limit: &LimitId| base.limits[*limit].spec == spec;
    let instances: Vec<LimitId> = base.limits.all.ids().filter(of_spec).collect();
    for limit in &instances {
        base.limits.see_if_plain(*limit);
    }
    let held = &base.limits.specs[spec];
    if held.definition.counts == old.counts {
        return false;
    }
    let definition = held.definition.clone();
    for limit in instances {
        definition.change(&mut base.limits.all[limit].meter, now, base.limits.unix_offset, &old);
        base.limits.touch(limit, &mut base.effects);
        base.limits.note_unsaved(limit);
    }
    true
}

/// Brings a limit to what was learned. Who waits is planned anew when all that was told is known.
pub(crate) fn relearn(base: &mut Base, spec: SpecId, now: Nanos) {
    if put_in_force(base, spec, now) {
        base.effects.refit = true;
    }
}

/// The limit that a definition stands for: the one that all share, or the one of this API key.
pub(crate) fn instance(base: &mut Base, spec: SpecId, key: Option<&str>, now: Nanos) -> LimitId {
    let held = &base.limits.specs[spec];
    let key = match key {
        Some(key) if held.per_key => key,
        _ if !held.shared.is_nil() => return held.shared,
        // Calls without a key share an instance.
        _ => "",
    };
    if let Some(limit) = base.limits.key_limits.get(spec, key) {
        return limit;
    }
    let meter = base.limits.specs[spec].definition.meter(now, base.limits.unix_offset);
    let limit = base.limits.add_limit(Limit::new(spec, &base.limits.specs[spec], meter, base.limits.epoch));
    if key.is_empty() && !base.limits.specs[spec].per_key {
        base.limits.specs[spec].shared = limit;
    } else {
        base.limits.key_limits.insert(spec, key, limit);
    }
    adopt::promise_for(base, limit, now);
    limit
}
