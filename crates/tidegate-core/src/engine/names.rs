//! Names of limits: `openai/requests/1m`, `openai/key:1f…/requests/1m`, `loop:agent-7/requests/1m`.
//!
//! Each definition has a name, which one map leads to. A limit that all calls share is called as its definition. The
//! limits of loops and API keys have the loop or the key in their names: the definition is found by the rest of the name,
//! and the limit by the table of loops or keys. No look-up goes through all limits.

use std::sync::Arc;

use hashbrown::HashMap;

use super::Engine;
use crate::limit::Counts;
use crate::model::{LimitId, SpecId};

/// What the names of limits that all loops have begin with.
const OF_LOOP: &str = "loop:";
/// What stands between the service and an API key.
const OF_KEY: &str = "/key:";
/// What calls without an API key are called, where keys have limits of their own.
const NO_KEY: &str = "none";

/// The limits that single API keys have, by definition and key.
#[derive(Debug, Default)]
pub(super) struct KeyLimits {
    limits: HashMap<(SpecId, Box<str>), LimitId>,
    keys: HashMap<LimitId, Box<str>>,
}

impl KeyLimits {
    /// Returns the limit of a key; calls without one have the key "".
    pub fn get(&self, spec: SpecId, key: &str) -> Option<LimitId> {
        self.limits.get(&(spec, key.into())).copied()
    }

    pub fn insert(&mut self, spec: SpecId, key: &str, limit: LimitId) {
        self.limits.insert((spec, key.into()), limit);
        self.keys.insert(limit, key.into());
    }

    /// Returns the limits of which `is_it` says yes by definition and key, in the order of their ids.
    pub fn matching(&self, is_it: impl Fn(SpecId, &str) -> bool) -> Vec<LimitId> {
        let matching = self.limits.iter().filter(|((spec, key), _)| is_it(*spec, key));
        let mut limits: Vec<LimitId> = matching.map(|(_, limit)| *limit).collect();
        limits.sort_unstable();
        limits
    }

    /// Forgets the limits of which `is_it` says yes.
    pub fn forget(&mut self, is_it: impl Fn(SpecId, &str) -> bool) {
        let keys = &mut self.keys;
        self.limits.retain(|(spec, key), limit| {
            let gone = is_it(*spec, key);
            if gone {
                keys.remove(limit);
            }
            !gone
        });
    }

    fn key_of(&self, limit: LimitId) -> Option<&str> {
        self.keys.get(&limit).map(|key| if key.is_empty() { NO_KEY } else { key })
    }
}

impl Engine {
    /// Returns a limit's name: its level, what it counts, its window.
    pub(super) fn limit_name(&self, limit: LimitId) -> Arc<str> {
        let held = &self.limits[limit];
        let spec = &self.limits.specs[held.spec];
        if !held.owner.is_nil() {
            let name = self.loop_name(held.owner).unwrap_or_default();
            return format!("{OF_LOOP}{name}/{}", spec.suffix).into();
        }
        if matches!(spec.definition.counts, Counts::Window) {
            let window = self.routing.overlays.iter().find(|window| window.limit == limit);
            return format!("{}/{}", window.map_or("", |window| &window.key), spec.suffix).into();
        }
        if spec.per_key {
            let key = self.limits.key_limits.key_of(limit).unwrap_or_default();
            let (service, rest) = spec.service_and_rest();
            return format!("{service}{OF_KEY}{key}{rest}").into();
        }
        spec.name.clone()
    }

    /// Returns the limit of that name, unless it counts nothing.
    pub(super) fn limit_named(&self, name: &str) -> Option<LimitId> {
        let shared = self.limits.spec_names.get(name).map(|spec| &self.limits.specs[*spec]);
        let shared = shared.filter(|spec| !spec.per_key).map(|spec| spec.shared);
        let limit = match shared.filter(|limit| !limit.is_nil()) {
            Some(limit) => limit,
            None => match name.strip_prefix(OF_LOOP) {
                Some(of_loop) => self.loop_limit_named(of_loop)?,
                None => self.key_limit_named(name)?,
            },
        };
        self.limits[limit].meter.counts().then_some(limit)
    }

    /// Finds `agent-7/requests/1m`. A loop's own name may have slashes in it.
    fn loop_limit_named(&self, name: &str) -> Option<LimitId> {
        self.routing.loop_specs.iter().find_map(|&spec| {
            let id = name.strip_suffix(&*self.limits.specs[spec].suffix)?.strip_suffix('/')?;
            let record = &self.routing.loops.all[self.loop_found(id, self.loop_hash(id))?];
            let mut limit = record.first;
            while !limit.is_nil() && self.limits[limit].spec != spec {
                limit = self.limits[limit].sibling;
            }
            (!limit.is_nil()).then_some(limit)
        })
    }

    /// Finds `openai/key:1f…/model:gpt-4o*/tokens/1m`.
    fn key_limit_named(&self, name: &str) -> Option<LimitId> {
        let (service, of_key) = name.split_once(OF_KEY)?;
        self.limits.specs.ids().find_map(|index| {
            let spec = &self.limits.specs[index];
            let (own, rest) = spec.service_and_rest();
            if !spec.per_key || spec.gone || own != service {
                return None;
            }
            match of_key.strip_suffix(rest)? {
                "" => Some(spec.shared).filter(|limit| !limit.is_nil()),
                NO_KEY => self.limits.key_limits.get(index, ""),
                key => self.limits.key_limits.get(index, key),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config::Config;
    use crate::engine::Engine;
    use crate::model::call::Call;
    use crate::model::time::Nanos;

    const CONFIG: &str = r#"
        [global]
        requests = "1000/min"
        [services.api]
        per_key = true
        requests = ["60/min", "1k/day"]
        concurrency = 9
        [services.api.endpoints."POST /v1/*"]
        requests = "30/min"
        [services.api.models."big/key:*"]
        tokens = "9k/min"
        [services.other]
        requests = "5/min"
        [loop_types.code]
        requests = "20/min"
        [loops]
        requests = "10/min"
        concurrency = 3
    "#;

    #[test]
    fn every_name_leads_back_to_its_limit() {
        let config = Config::parse(CONFIG, "test.toml").expect("valid");
        let mut engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect("valid");
        let calls = [
            Call::to("api").key("sk-1").endpoint("POST /v1/chat").model("big/key:7").loop_id("a/requests/1m"),
            Call::to("api").key("sk-2").loop_id("b").loop_type("code"),
            Call::to("api"),
            Call::to("other").loop_id("loop:c"),
        ];
        for call in &calls {
            let grant = engine.try_admit(call, Nanos::ZERO).expect("fits");
            engine.finish(grant, None, Nanos::ZERO);
        }
        let counting: Vec<_> =
            engine.limits.all.live().filter(|limit| engine.limits[*limit].meter.counts()).collect();
        assert!(counting.len() > 18, "{}", counting.len());
        for limit in counting {
            let name = engine.limit_name(limit);
            assert_eq!(engine.limit_named(&name), Some(limit), "{name}");
        }
        for unknown in
            ["", "/", "api", "api/requests/1m", "api/key:/requests/1m", "loop:z/requests/1m", "loop:"]
        {
            assert_eq!(engine.limit_named(unknown), None, "{unknown}");
        }
    }
}
