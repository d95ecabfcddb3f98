//! Limits that were changed while the sidecar runs.
//!
//! A change lies over the written config, and both together are in force. So a limit comes into force in one way only. A
//! change records what the file said when it was made, and is dropped as soon as the file says something else about that
//! limit.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate::Config;
use tidegate_core::config::units::{WrittenRate, parse_rate_of};
use tidegate_core::config::{Limits, Origin, RateLimit};
use tidegate_core::{Algorithm, WindowName};

/// The size of a limit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Amount {
    Rate(RateLimit),
    Bound(u64),
}

/// The size that a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewLimit {
    /// A rate, as it is written in a config.
    Rate(String),
    /// A bound on what is in flight.
    Bound(u64),
}

/// Why a limit was not changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RejectedChange {
    /// There is no limit of that name.
    Unknown,
    /// The new size is invalid. The text says why.
    Invalid(String),
}

/// All changes, by the names of their limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitChanges(BTreeMap<String, Change>);

#[derive(Clone, Debug)]
struct Change {
    /// The size in the file.
    written: Amount,
    now: Amount,
}

impl LimitChanges {
    /// Adds a change to a limit of the file. A change to the size in the file removes an earlier change.
    pub fn set(&mut self, file: &Config, name: &str, wanted: &NewLimit) -> Result<(), RejectedChange> {
        let written = amount(file, name).ok_or(RejectedChange::Unknown)?;
        let now = match (&written, wanted) {
            (Amount::Rate(rate), NewLimit::Rate(text)) => Amount::Rate(other_rate(rate, text)?),
            (Amount::Bound(_), NewLimit::Bound(0)) => {
                return Err(RejectedChange::Invalid("a bound of 0 lets nothing pass".into()));
            }
            (Amount::Bound(_), NewLimit::Bound(bound)) => Amount::Bound(*bound),
            (Amount::Rate(_), NewLimit::Bound(_)) => {
                return Err(RejectedChange::Invalid(format!(
                    "`{name}` is a rate: send {{\"rate\": \"500/min\"}}"
                )));
            }
            (Amount::Bound(_), NewLimit::Rate(_)) => {
                return Err(RejectedChange::Invalid(format!(
                    "`{name}` bounds what is in flight: send {{\"bound\": 10}}"
                )));
            }
        };
        if now == written {
            self.0.remove(name);
        } else {
            self.0.insert(name.to_owned(), Change { written, now });
        }
        Ok(())
    }

    /// Returns the file's config with the changes over it. Drops changes of limits about which the file now says something
    /// else.
    pub fn over(&mut self, file: &Config) -> Config {
        self.0.retain(|name, change| amount(file, name).as_ref() == Some(&change.written));
        let mut config = file.clone();
        for (name, change) in &self.0 {
            put(&mut config, name, &change.now);
        }
        config
    }

    /// Returns all changes as text, to be kept across a restart.
    pub fn kept(&self) -> String {
        let one = |change: &Change| json!({ "written": change.written.json(), "now": change.now.json() });
        let all: serde_json::Map<String, Value> =
            self.0.iter().map(|(name, change)| (name.clone(), one(change))).collect();
        Value::from(all).to_string()
    }

    /// Restores kept changes, as far as the file says the same about their limits as it did then.
    pub fn from_kept(file: &Config, text: &str) -> LimitChanges {
        let mut changes = LimitChanges::default();
        let all: BTreeMap<String, Value> = serde_json::from_str(text).unwrap_or_default();
        for (name, change) in all {
            let wanted = match (&change["now"], change["now"].as_u64()) {
                (Value::String(rate), _) => NewLimit::Rate(rate.clone()),
                (_, Some(bound)) => NewLimit::Bound(bound),
                _ => continue,
            };
            if amount(file, &name).is_some_and(|written| written.json() == change["written"]) {
                // A change that has become invalid is dropped.
                let _ = changes.set(file, &name, &wanted);
            }
        }
        changes
    }

    /// Returns the size in the file of a limit that was changed.
    pub fn written(&self, name: &str) -> Option<Value> {
        Some(self.0.get(name)?.written.json())
    }
}

impl Amount {
    /// Returns the size as it is written in a config.
    fn json(&self) -> Value {
        match self {
            Amount::Rate(rate) => WrittenRate::from(rate).to_string().into(),
            Amount::Bound(bound) => (*bound).into(),
        }
    }
}

/// Returns the same limit with another number of units.
fn other_rate(written: &RateLimit, text: &str) -> Result<RateLimit, RejectedChange> {
    let wrong = |error: &dyn std::fmt::Display| RejectedChange::Invalid(error.to_string());
    let read = parse_rate_of(text, &written.dimension).map_err(|error| wrong(&error))?;
    let rate = read.rate(&written.dimension).map_err(|error| wrong(&error))?;
    if rate.window() != written.rate.window() {
        let window = WindowName(written.rate.window());
        return Err(RejectedChange::Invalid(format!(
            "the limit counts {window}, which is part of its name: write it so"
        )));
    }
    let is_window = written.counts_by() != Algorithm::TokenBucket;
    // A window's burst cannot be above its limit.
    let burst = written.burst.map(|burst| if is_window { burst.min(rate.units()) } else { burst });
    Ok(RateLimit { rate, burst, origin: Origin::Written, ..written.clone() })
}

fn amount(config: &Config, name: &str) -> Option<Amount> {
    let mut config = config.clone();
    at(&mut config, name, |slot| match slot {
        Slot::Rate(rate) => Amount::Rate(rate.clone()),
        Slot::Bound(bound, _) => Amount::Bound(*bound),
    })
}

fn put(config: &mut Config, name: &str, amount: &Amount) {
    at(config, name, |slot| match (slot, amount) {
        (Slot::Rate(held), Amount::Rate(rate)) => *held = rate.clone(),
        (Slot::Bound(held, origin), Amount::Bound(bound)) => {
            *held = *bound;
            if let Some(origin) = origin {
                *origin = Origin::Written;
            }
        }
        // The kind of a limit is part of its name, so it cannot differ.
        _ => {}
    });
}

/// The field of a config that holds a limit.
enum Slot<'c> {
    Rate(&'c mut RateLimit),
    Bound(&'c mut u64, Option<&'c mut Origin>),
}

/// Applies a function to the limit of that name.
fn at<T>(config: &mut Config, name: &str, act: impl FnOnce(Slot<'_>) -> T) -> Option<T> {
    for (level, limits) in levels(config) {
        let Some(rest) = name.strip_prefix(&*level).and_then(|rest| rest.strip_prefix('/')) else { continue };
        if let Some(slot) = slot(limits, rest) {
            return Some(act(slot));
        }
    }
    None
}

fn slot<'c>(limits: &'c mut Limits, rest: &str) -> Option<Slot<'c>> {
    match rest {
        "concurrency" => {
            let origin = &mut limits.concurrency_origin;
            limits.concurrency.as_mut().map(|bound| Slot::Bound(bound, Some(origin)))
        }
        "throttled_concurrency" => {
            limits.throttled_concurrency.as_mut().map(|bound| Slot::Bound(bound, None))
        }
        "byte_budget" => limits.byte_budget.as_mut().map(|bound| Slot::Bound(bound, None)),
        _ => {
            let named = |rate: &&mut RateLimit| {
                format!("{}/{}", rate.dimension, WindowName(rate.rate.window())) == rest
            };
            limits.rates.iter_mut().find(named).map(Slot::Rate)
        }
    }
}

/// Returns every level of a config with its name.
fn levels(config: &mut Config) -> Vec<(String, &mut Limits)> {
    let config = &mut **config;
    let mut all = vec![("global".to_owned(), &mut config.global), ("loop:*".to_owned(), &mut config.loops)];
    for (name, service) in &mut config.services {
        let endpoints = service.endpoints.iter_mut();
        all.extend(endpoints.map(|(pattern, limits)| (format!("{name}/endpoint:{pattern}"), limits)));
        let models = service.models.iter_mut();
        all.extend(models.map(|(pattern, limits)| (format!("{name}/model:{pattern}"), limits)));
        all.push((name.clone(), &mut service.limits));
    }
    let loop_types = config.loop_types.iter_mut();
    all.extend(loop_types.map(|(name, loop_type)| (format!("loop_type:{name}"), &mut loop_type.limits)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configured_limits;

    const FILE: &str = "[global]\nconcurrency = 9\n[services.api]\nrequests = [\"60/min\", \"1k/day\"]\n\
        byte_budget = \"1MB\"\n[services.api.endpoints.\"POST /v1/x\"]\ntokens = { limit = \"10/min\", burst = 5 }\n\
        [services.api.models.\"gpt*\"]\nusd = \"2/h\"\n[loop_types.code]\nrequests = \"5/min\"\n[loops]\nrequests = \"7/min\"\n";

    fn file() -> Config {
        Config::parse(FILE).expect("valid")
    }

    #[test]
    fn every_limit_that_is_in_force_can_be_named() {
        let file = file();
        for limit in configured_limits::limits(&file) {
            assert!(amount(&file, &limit.name).is_some(), "{}", limit.name);
        }
        assert_eq!(
            LimitChanges::default().set(&file, "api/tokens/1m", &NewLimit::Bound(1)),
            Err(RejectedChange::Unknown)
        );
    }

    #[test]
    fn a_change_is_put_over_the_file_and_yields_when_the_file_says_something_else_of_that_limit() {
        let file = file();
        let mut changes = LimitChanges::default();
        changes.set(&file, "api/requests/1m", &NewLimit::Rate("90/min".into())).expect("a rate");
        changes.set(&file, "global/concurrency", &NewLimit::Bound(3)).expect("a bound");
        let config = changes.over(&file);
        assert_eq!(config.services["api"].limits.rates[0].rate.units(), 90);
        assert_eq!(config.global.concurrency, Some(3));
        assert_eq!(changes.written("api/requests/1m"), Some("60/min".into()));

        let other = Config::parse(&FILE.replace("60/min", "70/min")).expect("valid");
        let config = changes.over(&other);
        assert_eq!(config.services["api"].limits.rates[0].rate.units(), 70);
        assert_eq!(config.global.concurrency, Some(3), "the file says the same of this one");
        assert_eq!(changes.written("api/requests/1m"), None);
    }

    #[test]
    fn what_was_kept_is_in_force_again_unless_the_file_says_something_else_by_now() {
        let file = file();
        let mut changes = LimitChanges::default();
        changes.set(&file, "api/requests/1m", &NewLimit::Rate("90/min".into())).expect("a rate");
        changes.set(&file, "global/concurrency", &NewLimit::Bound(3)).expect("a bound");
        let kept = changes.kept();
        assert_eq!(LimitChanges::from_kept(&file, &kept).kept(), kept);
        let other = Config::parse(&FILE.replace("60/min", "70/min")).expect("valid");
        let config = LimitChanges::from_kept(&other, &kept).over(&other);
        assert_eq!(config.services["api"].limits.rates[0].rate.units(), 70);
        assert_eq!(config.global.concurrency, Some(3));
        assert_eq!(LimitChanges::from_kept(&file, "no json").kept(), "{}");
    }

    #[test]
    fn what_makes_no_sense_is_told_and_what_the_file_says_is_no_change() {
        let (file, mut changes) = (file(), LimitChanges::default());
        for (name, wanted) in [
            ("api/requests/1m", NewLimit::Rate("90/h".into())),
            ("api/requests/1m", NewLimit::Rate("many".into())),
            ("api/requests/1m", NewLimit::Bound(5)),
            ("global/concurrency", NewLimit::Rate("5/min".into())),
            ("global/concurrency", NewLimit::Bound(0)),
        ] {
            assert!(
                matches!(changes.set(&file, name, &wanted), Err(RejectedChange::Invalid(_))),
                "{name} {wanted:?}"
            );
        }
        changes.set(&file, "global/concurrency", &NewLimit::Bound(9)).expect("a bound");
        assert_eq!(changes.written("global/concurrency"), None);
    }

    #[test]
    fn a_burst_never_stands_above_a_smaller_limit() {
        let (file, mut changes) = (file(), LimitChanges::default());
        changes
            .set(&file, "api/endpoint:POST /v1/x/tokens/1m", &NewLimit::Rate("3/min".into()))
            .expect("a rate");
        let config = changes.over(&file);
        assert_eq!(config.services["api"].endpoints["POST /v1/x"].rates[0].burst, Some(3));
        config.validate().expect("still valid");
    }
}
