//! Explains a call: which limits apply, which one binds, its position, how long it would wait, and what would free it. All
//! of it comes from the engine, and no units are taken.
//!
//! ```
//! use tidegate::{Call, Config, Gate};
//!
//! let gate = Gate::builder().config(Config::parse("[services.git]\nrequests = \"60/min\"\n")?).build()?;
//! let told = tidegate_server::explain::call(&gate, &Call::to("git"))?;
//! assert_eq!((&told["goes_now"], &told["limits"][0]["name"]), (&true.into(), &"git/requests/1m".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Call, Explained, Gate, Outlook, Refused, Terms};
use tidegate_core::Rate;

use crate::learned;
use crate::refusal::millis;

/// Explains what a call would meet now, as JSON.
///
/// # Errors
/// Returns a refusal if the call names a service or a unit that does not exist.
pub fn call(gate: &Gate, call: &Call) -> Result<Value, Refused> {
    let explained = gate.explain(call)?;
    let all: Vec<(&Explained, &Terms)> = explained.limits.iter().zip(&explained.terms).collect();
    let (binding, position, expected) = match &explained.outlook {
        Outlook::Waits { limit, position, expected } => {
            (Some(&**limit), Some(*position), expected.map(millis))
        }
        Outlook::Never { limit, .. } => (Some(&**limit), None, None),
        _ => (None, None, Some(0)),
    };
    let bound = binding.and_then(|name| all.iter().find(|(limit, _)| *limit.limit == *name));
    Ok(json!({
        "service": call.service(),
        "priority": explained.priority.name(),
        "goes_now": explained.outlook == Outlook::Goes,
        "fits": !matches!(explained.outlook, Outlook::Never { .. }),
        "binding": binding,
        "position": position,
        "expected_wait_ms": expected,
        "freed_by": binding.map(|name| freed_by(name, &explained.outlook, bound)),
        "limits": all.iter().map(|(limit, terms)| one(limit, terms)).collect::<Vec<_>>(),
        "expected_output": explained.expected_output,
        "advice": learned::advice(explained.advice),
    }))
}

fn one(limit: &Explained, terms: &Terms) -> Value {
    let rate = rate_of(terms);
    json!({
        "name": *limit.limit,
        "units": rate.map_or(limit.capacity, |rate| rate.units()),
        "window_ms": rate.map(|rate| millis(rate.window())),
        "capacity": limit.capacity,
        "cost": limit.cost,
        "withheld": limit.withheld,
        "used": limit.used,
        "waiting": limit.waiting,
        "fits": limit.fits_in == Some(Duration::ZERO),
        "fits_in_ms": limit.fits_in.map(millis),
        "learned": limit.learned.as_ref().map(learned::of_limit),
    })
}

fn rate_of(terms: &Terms) -> Option<Rate> {
    match terms {
        Terms::TokenBucket { rate, .. } | Terms::SlidingWindow { rate, .. } | Terms::FixedWindow { rate } => {
            Some(*rate)
        }
        Terms::Concurrency(_) | Terms::ByteBudget(_) => None,
    }
}

/// Returns a sentence that says what would let the call go.
fn freed_by(name: &str, outlook: &Outlook, bound: Option<&(&Explained, &Terms)>) -> String {
    if let Outlook::Never { capacity, .. } = outlook {
        return format!("a call of at most {capacity} there, or `tidegate limit set '{name}' …` with more");
    }
    if let Some(key) = name.strip_suffix("/backoff") {
        return format!("the end of the backoff window, or `tidegate backoff clear '{key}'`");
    }
    if name.ends_with("/breaker") {
        return "a probe that succeeds: the upstream only failed lately".into();
    }
    match bound.map(|(limit, terms)| (limit.used, rate_of(terms))) {
        Some((_, Some(rate))) => format!(
            "time ({} come back in {:?}), or `tidegate limit set '{name}' …`",
            rate.units(),
            rate.window()
        ),
        Some((used, None)) => format!("the end of one of {used} in flight"),
        None => "the end of a call in flight".into(),
    }
}
