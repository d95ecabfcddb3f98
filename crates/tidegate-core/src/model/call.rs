//! A call: who makes it, what it is for, and what it is expected to cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::model::Units;
use crate::model::dimension::Dimension;
use crate::model::fingerprint::{Salt, Secret};
use crate::model::priority::Priority;
use crate::model::rate::MAX_UNITS;

/// What a call costs in each dimension. A request unless stated otherwise, and nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The known dimensions, nothing, and the call itself, laid out as most routes have a call's units. Tokens
    /// that are not stated are the sum of input and output tokens.
    known: Units,
    stated: u8,
    custom: Vec<(Arc<str>, u64)>,
    /// The first cost that is no number of units.
    bad: Option<BadCost>,
}

/// A cost that is not a number of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BadCost {
    NotANumber,
    TooLarge,
}

impl Default for Cost {
    fn default() -> Self {
        Cost { known: [1, 0, 0, 0, 0, 0, 0, 1], stated: 0, custom: Vec::new(), bad: None }
    }
}

impl Cost {
    /// One request and nothing else.
    #[must_use]
    pub fn new() -> Cost {
        Cost::default()
    }

    /// Nothing at all, not even a request.
    #[must_use]
    pub fn nothing() -> Cost {
        Cost { known: [0, 0, 0, 0, 0, 0, 0, 1], ..Cost::default() }
    }

    /// The same with `units` of `dimension`.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, units: u64) -> Cost {
        self.set(dimension, units);
        self
    }

    /// States `units` of `dimension`.
    pub fn set(&mut self, dimension: Dimension, units: u64) {
        if units > MAX_UNITS {
            self.bad.get_or_insert(BadCost::TooLarge);
        }
        match known_index(&dimension) {
            Some(index) => {
                self.known[index] = units;
                self.stated |= 1 << index;
                if self.stated & 0b10 == 0 {
                    self.known[1] = self.known[2].saturating_add(self.known[3]);
                }
            }
            None => {
                let Dimension::Custom(name) = dimension else { return };
                match self.custom.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, held)) => *held = units,
                    None => self.custom.push((name, units)),
                }
            }
        }
    }

    /// States a cost in dollars. A negative or not finite number is refused when the call is made.
    pub fn set_usd(&mut self, dollars: f64) {
        if dollars.is_finite() && dollars >= 0.0 {
            // Saturating, and rounded up: money is never undercounted.
            self.set(Dimension::MicroUsd, (dollars * 1e6).ceil() as u64);
        } else {
            self.bad = Some(BadCost::NotANumber);
        }
    }

    /// The units of `dimension`. Tokens that are not stated are the sum of input and output tokens.
    #[must_use]
    pub fn units(&self, dimension: &Dimension) -> u64 {
        match known_index(dimension) {
            Some(index) => self.known[index],
            None => self.custom.iter().find(|(name, _)| **name == *dimension.name()).map_or(0, |(_, n)| *n),
        }
    }

    /// Whether `dimension` was stated; a cost that settles another says only what it states.
    #[must_use]
    pub fn states(&self, dimension: &Dimension) -> bool {
        match known_index(dimension) {
            Some(1) => self.stated & 0b00_1110 != 0,
            Some(index) => self.stated & (1 << index) != 0,
            None => self.custom.iter().any(|(name, _)| **name == *dimension.name()),
        }
    }

    /// The units of the known dimensions by [`known_index`], and one for the call itself.
    #[inline]
    pub(crate) fn known(&self) -> &Units {
        &self.known
    }

    /// Whether it is certain to be a cost: nothing is wrong with it, and all of it is in known dimensions.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.bad.is_none() && self.custom.is_empty()
    }

    pub(crate) fn bad(&self) -> Option<BadCost> {
        self.bad
    }

    pub(crate) fn custom(&self) -> &[(Arc<str>, u64)] {
        &self.custom
    }
}

/// The place of a known dimension in the array.
pub(crate) fn known_index(dimension: &Dimension) -> Option<usize> {
    Some(match dimension {
        Dimension::Requests => 0,
        Dimension::Tokens => 1,
        Dimension::InputTokens => 2,
        Dimension::OutputTokens => 3,
        Dimension::Bytes => 4,
        Dimension::MicroUsd => 5,
        Dimension::Custom(_) => return None,
    })
}

/// The parts of a call that choose its limits, the loop apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub service: Box<str>,
    pub endpoint: Option<Box<str>>,
    pub model: Option<Arc<str>>,
    /// Another model that the call may turn out to be for.
    pub other_model: Option<Arc<str>>,
    pub loop_type: Option<Box<str>>,
    pub key: Option<Secret>,
    pub found: Found,
}

/// Where the engine that saw a shape last found its route, for the copies of a call: they share the shape. It
/// says nothing about the call, so shapes are equal whatever it holds.
#[derive(Debug, Default)]
pub(crate) struct Found(pub AtomicU64);

impl Clone for Found {
    fn clone(&self) -> Self {
        Found::default()
    }
}

impl PartialEq for Found {
    fn eq(&self, _: &Found) -> bool {
        true
    }
}

impl Eq for Found {}

impl std::hash::Hash for Found {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// A call that wants to go. One that names no service goes to the only one there is.
///
/// ```
/// use tidegate_core::{Call, Priority};
/// let call = Call::to("openai").model("gpt-4o").loop_id("agent-7").priority(Priority::High).tokens(1_200);
/// assert_eq!(call.service(), "openai");
/// ```
///
/// A clone is the same call once more: cheap, however much it says. Who changes one changes no other.
#[derive(Clone, Debug, Default)]
pub struct Call {
    // Behind a pointer: whoever waits keeps its call, and a future is moved more than once on its way into a task.
    pub(crate) said: Arc<Said>,
}

/// What of a call's cost is a guess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Estimated {
    #[default]
    Nothing,
    /// Tokens, and what they cost.
    Tokens,
    All,
}

impl Estimated {
    /// Whether the units that a limit counts are a guess.
    pub fn covers(self, dimension: Option<&Dimension>) -> bool {
        use Dimension::{InputTokens, MicroUsd, OutputTokens, Tokens};
        match self {
            Estimated::Nothing => false,
            Estimated::Tokens => matches!(dimension, Some(Tokens | InputTokens | OutputTokens | MicroUsd)),
            Estimated::All => true,
        }
    }
}

/// What a call says.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub shape: Arc<Shape>,
    pub loop_id: Option<Arc<str>>,
    pub priority: Option<Priority>,
    pub cost: Cost,
    pub estimated: Estimated,
    pub timeout: Option<Duration>,
    /// Where the engine that saw it last found its route: a call made again costs no look-up.
    pub route: AtomicU64,
}

impl Clone for Said {
    fn clone(&self) -> Self {
        Said {
            shape: self.shape.clone(),
            loop_id: self.loop_id.clone(),
            priority: self.priority,
            cost: self.cost.clone(),
            estimated: self.estimated,
            timeout: self.timeout,
            route: AtomicU64::new(self.route.load(Ordering::Relaxed)),
        }
    }
}

impl From<&Call> for Call {
    fn from(call: &Call) -> Call {
        call.clone()
    }
}

impl Call {
    /// A call to a service, by its name in the config.
    #[must_use]
    pub fn to(service: &str) -> Call {
        let shape = Arc::new(Shape { service: service.into(), ..Shape::default() });
        Call { said: Arc::new(Said { shape, ..Said::default() }) }
    }

    /// Method and path, such as `POST /v1/embeddings`. Aliases of a path are one endpoint: what can be decoded is, and
    /// `//`, `.`, `..` and a slash at the end are resolved.
    ///
    /// ```
    /// use tidegate_core::Call;
    ///
    /// let call = Call::to("openai").endpoint("POST //v1/%65mbeddings/");
    /// assert_eq!(call.stated_endpoint(), Some("POST /v1/embeddings"));
    /// ```
    #[must_use]
    pub fn endpoint(self, endpoint: &str) -> Call {
        self.shaped(|shape| shape.endpoint = Some(crate::model::endpoint::normal(endpoint).into()))
    }

    /// The model it asks for.
    #[must_use]
    pub fn model(self, model: &str) -> Call {
        self.shaped(|shape| shape.model = Some(model.into()))
    }

    /// Another model that it asks for: its limits hold besides those of the first. For a request that names two, where
    /// the server decides which one it takes.
    #[must_use]
    pub fn other_model(self, model: &str) -> Call {
        self.shaped(|shape| shape.other_model = Some(model.into()))
    }

    /// The loop that makes it: an agent, a job, a tenant.
    #[must_use]
    pub fn loop_id(mut self, id: &str) -> Call {
        self.say().loop_id = Some(id.into());
        self
    }

    /// The type of that loop.
    #[must_use]
    pub fn loop_type(self, loop_type: &str) -> Call {
        self.shaped(|shape| shape.loop_type = Some(loop_type.into()))
    }

    /// The API key it uses. Only a fingerprint of it is kept and shown, which the gate makes under its own salt.
    #[must_use]
    pub fn key(self, key: &str) -> Call {
        self.shaped(|shape| shape.key = Some(Secret::new(key)))
    }

    /// How urgent it is; else its loop type's priority, else normal.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Call {
        self.say().priority = Some(priority);
        self
    }

    /// How many requests it counts as; 1 unless stated.
    #[must_use]
    pub fn requests(self, requests: u64) -> Call {
        self.units(Dimension::Requests, requests)
    }

    /// Tokens in all.
    #[must_use]
    pub fn tokens(self, tokens: u64) -> Call {
        self.units(Dimension::Tokens, tokens)
    }

    /// Tokens sent.
    #[must_use]
    pub fn input_tokens(self, tokens: u64) -> Call {
        self.units(Dimension::InputTokens, tokens)
    }

    /// Tokens expected back.
    #[must_use]
    pub fn output_tokens(self, tokens: u64) -> Call {
        self.units(Dimension::OutputTokens, tokens)
    }

    /// Bytes sent.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Call {
        self.units(Dimension::Bytes, bytes)
    }

    /// Dollars it will cost.
    #[must_use]
    pub fn usd(mut self, dollars: f64) -> Call {
        self.say().cost.set_usd(dollars);
        self
    }

    /// Units of any dimension.
    #[must_use]
    pub fn units(mut self, dimension: Dimension, units: u64) -> Call {
        self.say().cost.set(dimension, units);
        self
    }

    /// The cost is a guess: where it is above what can ever fit it counts as that much, instead of being
    /// refused.
    #[must_use]
    pub fn estimated(mut self) -> Call {
        self.say().estimated = Estimated::All;
        self
    }

    /// The tokens and the dollars are a guess, as with [`Call::estimated`]; all else is known exactly. A call whose bytes
    /// can never fit is refused, whatever is guessed besides.
    #[must_use]
    pub fn estimated_tokens(mut self) -> Call {
        self.say().estimated = Estimated::Tokens;
        self
    }

    /// How long it may wait; zero means not at all.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Call {
        self.say().timeout = Some(timeout);
        self
    }

    /// The service it goes to.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.said.shape.service
    }

    /// The model it asks for, if it says so.
    #[must_use]
    pub fn stated_model(&self) -> Option<&str> {
        self.said.shape.model.as_deref()
    }

    /// The other model it asks for, if it says so.
    #[must_use]
    pub fn stated_other_model(&self) -> Option<&str> {
        self.said.shape.other_model.as_deref()
    }

    /// The model it asks for, to be kept for longer than the call.
    #[must_use]
    pub fn shared_model(&self) -> Option<Arc<str>> {
        self.said.shape.model.clone()
    }

    /// How urgent it is, if it says so itself.
    #[must_use]
    pub fn stated_priority(&self) -> Option<Priority> {
        self.said.priority
    }

    /// Who makes it, if it says so.
    #[must_use]
    pub fn stated_loop(&self) -> Option<&str> {
        self.said.loop_id.as_deref()
    }

    /// The type of its loop, if it says so.
    #[must_use]
    pub fn stated_loop_type(&self) -> Option<&str> {
        self.said.shape.loop_type.as_deref()
    }

    /// Method and path, if it says so.
    #[must_use]
    pub fn stated_endpoint(&self) -> Option<&str> {
        self.said.shape.endpoint.as_deref()
    }

    /// Returns the fingerprint of the API key it uses, if it says which.
    #[must_use]
    pub fn key_fingerprint(&self, salt: &Salt) -> Option<Box<str>> {
        self.said.shape.key.as_ref().map(|key| key.fingerprint(salt))
    }

    /// Returns whether it says which API key it uses.
    #[must_use]
    pub fn states_key(&self) -> bool {
        self.said.shape.key.is_some()
    }

    /// How long it may wait, if it says so.
    #[must_use]
    pub fn stated_timeout(&self) -> Option<Duration> {
        self.said.timeout
    }

    /// What it costs.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.said.cost
    }

    fn shaped(mut self, change: impl FnOnce(&mut Shape)) -> Call {
        let said = self.say();
        let shape = Arc::make_mut(&mut said.shape);
        change(shape);
        shape.found = Found::default();
        said.route = AtomicU64::new(0);
        self
    }

    /// What it says, to be changed; its clones keep what they said.
    fn say(&mut self) -> &mut Said {
        Arc::make_mut(&mut self.said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_not_stated_are_input_plus_output_and_never_both() {
        let cost = Cost::new().with(Dimension::InputTokens, 30).with(Dimension::OutputTokens, 12);
        assert_eq!(cost.units(&Dimension::Tokens), 42);
        assert!(cost.states(&Dimension::Tokens));
        assert_eq!(cost.with(Dimension::Tokens, 40).units(&Dimension::Tokens), 40);
    }

    #[test]
    fn money_is_counted_in_whole_millionths_rounded_up() {
        let mut cost = Cost::new();
        cost.set_usd(0.000_000_1);
        assert_eq!(cost.units(&Dimension::MicroUsd), 1);
        cost.set_usd(f64::NAN);
        assert_eq!(cost.bad(), Some(BadCost::NotANumber));
    }

    #[test]
    fn an_api_key_is_not_kept() {
        let call = Call::to("openai").key("sk-secret");
        assert!(!format!("{call:?}").contains("secret"));
    }
}
