//! How much output calls have, by experience.
//!
//! What a call will cost is known only when its last word is there, but its cost is reserved before it goes. Reserving the
//! most that it may have leaves much of a quota unused; what calls of the same service, model and endpoint had on average
//! is right on average, and what is above it is debt that is paid first.
//!
//! ```
//! use tidegate_core::Call;
//! use tidegate_core::Outputs;
//!
//! let mut outputs = Outputs::default();
//! let call = Call::to("openai").model("gpt-4o");
//! for output in [400, 600, 500, 700, 300, 500, 450, 550] {
//!     outputs.hear(&call, output, Some(4096));
//! }
//! assert_eq!(outputs.expected(&call), Some(500));
//! let experience = outputs.all().next().unwrap();
//! assert!(experience.advice.unwrap().max_tokens < 4096, "much less would do");
//! ```

use hashbrown::{Equivalent, HashMap};
use serde::{Deserialize, Serialize};

use crate::model::call::Call;

/// Fewer are no experience.
const ENOUGH: usize = 8;
/// The latest of each kind count.
const LATEST: usize = 128;
/// So many kinds are remembered; then those that were not heard of for the longest are forgotten.
const KINDS: usize = 512;
/// More output than any model has: one absurd reply must not become what is expected of the next hundred.
const MOST: u64 = 1 << 20;
/// `max_tokens` should leave room for nearly all, and half as much again.
const NEARLY_ALL: f64 = 0.99;
const ROOM: f64 = 1.5;

/// Experience with calls, by service, model and endpoint.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    kinds: HashMap<Kind, Seen>,
    heard: u64,
}

/// Service, model and endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Kind(Box<str>, Option<Box<str>>, Option<Box<str>>);

/// The same of a call: it is looked for more than once for each, and known nearly always.
#[derive(Hash)]
struct KindOf<'c>(&'c str, Option<&'c str>, Option<&'c str>);

impl<'c> KindOf<'c> {
    fn call(call: &'c Call) -> KindOf<'c> {
        KindOf(call.service(), call.stated_model(), call.stated_endpoint())
    }

    fn own(&self) -> Kind {
        Kind(self.0.into(), self.1.map(Into::into), self.2.map(Into::into))
    }
}

impl Equivalent<Kind> for KindOf<'_> {
    fn equivalent(&self, kind: &Kind) -> bool {
        (self.0, self.1, self.2) == (&*kind.0, kind.1.as_deref(), kind.2.as_deref())
    }
}

/// Experience with one kind of calls, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptOutputs {
    service: Box<str>,
    model: Option<Box<str>>,
    endpoint: Option<Box<str>>,
    latest: Vec<u64>,
    asked: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    latest: Vec<u64>,
    next: usize,
    sum: u64,
    /// The least that they asked for at most.
    asked: Option<u64>,
    heard: u64,
}

/// What calls could ask for instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What they ask for at most.
    pub asked: u64,
    /// What would do.
    pub max_tokens: u64,
}

impl Outputs {
    /// A call ended with that much output; it had asked for at most `asked`. An output that no model has is ignored.
    pub fn hear(&mut self, call: &Call, output: u64, asked: Option<u64>) {
        if output > MOST {
            return;
        }
        self.heard += 1;
        let kind = KindOf::call(call);
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&kind) {
            let oldest = self.kinds.iter().min_by_key(|(_, seen)| seen.heard).map(|(kind, _)| kind.clone());
            oldest.map(|kind| self.kinds.remove(&kind));
        }
        let seen = match self.kinds.get_mut(&kind) {
            Some(seen) => seen,
            None => self.kinds.entry(kind.own()).or_default(),
        };
        (seen.heard, seen.asked) = (self.heard, asked.or(seen.asked));
        seen.sum = seen.sum.saturating_add(output);
        match seen.latest.get_mut(seen.next) {
            Some(place) => seen.sum = seen.sum.saturating_sub(std::mem::replace(place, output)),
            None => seen.latest.push(output),
        }
        seen.next = (seen.next + 1) % LATEST;
    }

    /// Such a call asks for at most so much.
    pub fn asks(&mut self, call: &Call, most: u64) {
        if let Some(seen) = self.kinds.get_mut(&KindOf::call(call)) {
            seen.asked = Some(most);
        }
    }

    /// What such a call is expected to have, if there is experience.
    #[must_use]
    pub fn expected(&self, call: &Call) -> Option<u64> {
        let seen = self.kinds.get(&KindOf::call(call))?;
        (seen.latest.len() >= ENOUGH).then(|| seen.sum.div_ceil(seen.latest.len() as u64))
    }

    /// What such calls could ask for at most, if they ask for much more than they need.
    #[must_use]
    pub fn advice(&self, call: &Call) -> Option<Advice> {
        self.kinds.get(&KindOf::call(call))?.advice()
    }

    /// All of it, to be kept for the next start.
    #[must_use]
    pub fn kept(&self) -> Vec<KeptOutputs> {
        let one = |(Kind(service, model, endpoint), seen): (&Kind, &Seen)| KeptOutputs {
            service: service.clone(),
            model: model.clone(),
            endpoint: endpoint.clone(),
            latest: seen.latest.clone(),
            asked: seen.asked,
        };
        self.in_order().map(one).collect()
    }

    /// The other way round.
    #[must_use]
    pub fn from_kept(kept: Vec<KeptOutputs>) -> Outputs {
        let mut outputs = Outputs::default();
        for KeptOutputs { service, model, endpoint, mut latest, asked } in kept.into_iter().take(KINDS) {
            latest.retain(|output| *output <= MOST);
            latest.truncate(LATEST);
            outputs.heard += latest.len() as u64;
            let sum = latest.iter().fold(0_u64, |sum, output| sum.saturating_add(*output));
            let seen = Seen { next: latest.len() % LATEST, latest, sum, asked, heard: outputs.heard };
            outputs.kinds.insert(Kind(service, model, endpoint), seen);
        }
        outputs
    }

    /// How many calls it is from.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Everything that there is experience with.
    pub fn all(&self) -> impl Iterator<Item = Experience<'_>> {
        self.in_order().filter(|(_, seen)| seen.latest.len() >= ENOUGH).map(
            |(Kind(service, model, endpoint), seen)| Experience {
                service,
                model: model.as_deref(),
                endpoint: endpoint.as_deref(),
                expected: seen.sum.div_ceil(seen.latest.len() as u64),
                advice: seen.advice(),
            },
        )
    }

    fn in_order(&self) -> impl Iterator<Item = (&Kind, &Seen)> {
        let mut all: Vec<_> = self.kinds.iter().collect();
        all.sort_unstable_by_key(|(kind, _)| *kind);
        all.into_iter()
    }
}

/// Experience with one kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Experience<'a> {
    /// Where they go.
    pub service: &'a str,
    /// The model they ask for.
    pub model: Option<&'a str>,
    /// The endpoint they go to.
    pub endpoint: Option<&'a str>,
    /// The output that is expected of them.
    pub expected: u64,
    /// What they could ask for at most, if they ask for more than they ever need: an upstream that reserves what is
    /// asked for would let more of them through.
    pub advice: Option<Advice>,
}

impl Seen {
    fn advice(&self) -> Option<Advice> {
        let asked = self.asked.filter(|_| self.latest.len() >= ENOUGH)?;
        let mut sorted = self.latest.clone();
        sorted.sort_unstable();
        let nearly_all = sorted[((sorted.len() - 1) as f64 * NEARLY_ALL).ceil() as usize];
        let max_tokens = ((nearly_all as f64 * ROOM).ceil() as u64).max(1);
        (max_tokens < asked).then_some(Advice { asked, max_tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(model: &str) -> Call {
        Call::to("s").model(model)
    }

    fn with(outputs: &[u64], asked: Option<u64>) -> Outputs {
        let mut known = Outputs::default();
        outputs.iter().for_each(|output| known.hear(&to("m"), *output, asked));
        known
    }

    #[test]
    fn few_calls_are_no_experience() {
        assert_eq!(with(&[100; ENOUGH - 1], None).expected(&to("m")), None);
        assert_eq!(with(&[100; ENOUGH], None).expected(&to("m")), Some(100));
        assert_eq!(with(&[100; ENOUGH], None).expected(&to("other")), None);
    }

    #[test]
    fn what_is_kept_is_known_again() {
        let mut known = with(&[1_000; LATEST], Some(4_096));
        known.hear(&to("m"), 10, None);
        let again = Outputs::from_kept(known.kept());
        assert_eq!(
            (again.expected(&to("m")), again.advice(&to("m"))),
            (known.expected(&to("m")), known.advice(&to("m")))
        );
        assert_eq!(Outputs::from_kept(again.kept()).kept(), known.kept());
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut known = with(&[1_000; LATEST], None);
        (0..LATEST).for_each(|_| known.hear(&to("m"), 10, None));
        assert_eq!(known.expected(&to("m")), Some(10));
    }

    #[test]
    fn who_asks_for_much_more_than_is_needed_is_told() {
        let known = with(&[100, 200, 300, 400, 100, 200, 300, 400], Some(4_096));
        let advice = known.kinds[&KindOf::call(&to("m"))].advice();
        assert_eq!(advice, Some(Advice { asked: 4_096, max_tokens: 600 }));
        assert_eq!(
            with(&[100; 20], Some(120)).kinds[&KindOf::call(&to("m"))].advice(),
            None,
            "it is right already"
        );
    }

    #[test]
    fn kinds_that_nobody_calls_any_more_make_room() {
        let mut known = with(&[1; 20], None);
        for n in 0..KINDS {
            known.hear(&to(&n.to_string()), 1, None);
        }
        assert_eq!(known.expected(&to("m")), None);
        assert_eq!(known.kinds.len(), KINDS);
    }
}
