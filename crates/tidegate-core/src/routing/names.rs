//! Names of limits: `openai/requests/1m`, `openai/key:1f…/requests/1m`, `loop:agent-7/requests/1m`.
//!
//! Each definition has a name, which one map leads to. A limit that all calls share is called as its definition. The
//! limits of loops and API keys have the loop or the key in their names: the definition is found by the rest of the name,
//! and the limit by the table of loops or keys. No look-up goes through all limits.

use crate::limits::keys::OF_KEY;
use crate::limits::limit::Counts;
use crate::model::{LimitId, ServiceId, SpecId};
use crate::routing::loop_table;
use crate::routing::state::Base;
use std::sync::Arc;

/// What the names of limits that all loops have begin with.
const OF_LOOP: &str = "loop:";

/// The service whose limits a definition is one of.
pub(crate) fn service_at(base: &Base, spec: SpecId) -> Option<ServiceId> {
    let level = &base.limits.specs[spec].level;
    base.routing.service_index.get(level.split('/').next().unwrap_or_default()).copied()
}

/// Returns a limit's name: its level, what it counts, its window.
pub(crate) fn limit_name(base: &Base, limit: LimitId) -> Arc<str> {
    let held = &base.limits[limit];
    let spec = &base.limits.specs[held.spec];
    if !held.owner.is_nil() {
        let name = loop_table::loop_name(base, held.owner).unwrap_or_default();
        return format!("{OF_LOOP}{name}/{}", spec.suffix).into();
    }
    if matches!(spec.definition.counts, Counts::Window) {
        let window = base.routing.overlays.iter().find(|window| window.limit == limit);
        return format!("{}/{}", window.map_or("", |window| &window.key), spec.suffix).into();
    }
    if spec.per_key {
        let key = base.limits.key_limits.key_of(limit).unwrap_or_default();
        let (service, rest) = spec.service_and_rest();
        return format!("{service}{OF_KEY}{key}{rest}").into();
    }
    spec.name.clone()
}

/// Returns the limit of that name, unless it counts nothing.
pub(crate) fn limit_named(base: &Base, name: &str) -> Option<LimitId> {
    let shared = base.limits.spec_names.get(name).map(|spec| &base.limits.specs[*spec]);
    let shared = shared.filter(|spec| !spec.per_key).map(|spec| spec.shared);
    let limit = match shared.filter(|limit| !limit.is_nil()) {
        Some(limit) => limit,
        None => match name.strip_prefix(OF_LOOP) {
            Some(of_loop) => loop_limit_named(base, of_loop)?,
            None => base.limits.key_limit_named(name)?,
        },
    };
    base.limits[limit].meter.counts().then_some(limit)
}

/// Finds `agent-7/requests/1m`. A loop's own name may have slashes in it.
fn loop_limit_named(base: &Base, name: &str) -> Option<LimitId> {
    base.routing.loop_specs.iter().find_map(|&spec| {
        let id = name.strip_suffix(&*base.limits.specs[spec].suffix)?.strip_suffix('/')?;
        let record =
            &base.routing.loops.all[loop_table::loop_found(base, id, loop_table::loop_hash(base, id))?];
        let mut limit = record.first;
        while !limit.is_nil() && base.limits[limit].spec != spec {
            limit = base.limits[limit].sibling;
        }
        (!limit.is_nil()).then_some(limit)
    })
}

/// A service of the config by its name. A call that names none goes to the only one there is.
pub(crate) fn service_named(base: &Base, name: &str) -> Option<ServiceId> {
    let lives = |service: &ServiceId| !base.routing.services[*service].gone;
    match base.routing.service_index.get(name) {
        None if name.is_empty() => {
            let mut living = base.routing.service_index.values().copied().filter(lives);
            living.next().filter(|_| living.next().is_none())
        }
        known => known.copied().filter(lives),
    }
}
