//! How a vendor counts the tokens of a call: what to reserve before it goes, what it cost in the end.
//!
//! Vendors agree on what a token is and on nothing else. Some count the answer you allow, some the answer you
//! get, some only what you send; what was read from a cache is free with one and charged by another. A
//! [`Counting`] says which, so that a reservation follows the meter that will be read.

use crate::model::call::Cost;
use crate::model::dimension::Dimension;
use crate::model::settle_rule::SettleRule;
use crate::vendors::usage::Usage;

/// What is known of a call before it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Tokens sent, as well as they can be guessed.
    pub input: u64,
    /// The part of `input` that is expected to be read from a cache.
    pub cached_input: u64,
    /// The longest answer the call allows (`max_tokens` and its cousins), if it says.
    pub max_output: Option<u64>,
    /// How many answers are asked for (`n`, `best_of`); 0 and 1 mean one.
    pub answers: u32,
    /// The answer that is expected, from experience.
    pub expected_output: Option<u64>,
    /// The longest answer that the model can give.
    pub model_max_output: Option<u64>,
}

impl Estimate {
    fn max_output(&self) -> Option<u64> {
        Some(self.max_output?.saturating_mul(u64::from(self.answers.max(1))))
    }

    fn likely_output(&self) -> u64 {
        self.expected_output.or(self.max_output()).unwrap_or(0)
    }
}

/// What a call counts against each token limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Against a limit on `tokens`.
    pub tokens: u64,
    /// Against a limit on `input_tokens`.
    pub input_tokens: u64,
    /// Against a limit on `output_tokens`.
    pub output_tokens: u64,
}

/// How the answer is counted when a call is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The longest answer or the input, whichever is more (OpenAI).
    LargerOfInputAndMax,
    /// The input and the longest answer (Azure).
    InputPlusMax,
    /// The same, and where the call sets no longest answer, the model's (Bedrock, Cerebras).
    InputPlusModelMax,
    /// The input, and the answer as it is produced (Anthropic, and where nothing better is known).
    AsProduced,
    /// The input alone (Gemini).
    InputOnly,
}

/// A vendor's rule for counting tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// How the answer is counted when a call is admitted.
    pub admission: Admission,
    /// Whether tokens read from a cache count.
    pub cached_counts: bool,
    /// How much one token of the answer counts in the end (Bedrock's burndown).
    pub output_weight: u32,
    /// What becomes of a reservation above the actual cost.
    pub unspent: SettleRule,
    /// Whether refused and failed calls count as well.
    pub failures_count: bool,
}

impl Counting {
    /// Everything that went in and out, settled by the reported usage.
    pub const PLAIN: Counting = Counting {
        admission: Admission::AsProduced,
        cached_counts: true,
        output_weight: 1,
        unspent: SettleRule::Refund,
        failures_count: false,
    };

    /// What to reserve for a call: the number that the vendor is known to count.
    #[must_use]
    pub fn reserve(&self, call: &Estimate) -> Charge {
        let fresh =
            if self.cached_counts { call.input } else { call.input.saturating_sub(call.cached_input) };
        let (tokens, output) = match self.admission {
            Admission::LargerOfInputAndMax => {
                let output = call.max_output().or(call.expected_output).unwrap_or(0);
                (output.max(fresh), output)
            }
            Admission::InputPlusMax => {
                let output = call.max_output().or(call.expected_output).unwrap_or(0);
                (fresh.saturating_add(output), output)
            }
            Admission::InputPlusModelMax => {
                // Reads from a cache are reserved too, and given back when the call settles.
                let output =
                    call.max_output().or(call.model_max_output).or(call.expected_output).unwrap_or(0);
                (call.input.saturating_add(output), output)
            }
            Admission::AsProduced => {
                let output = call.likely_output();
                (fresh.saturating_add(output), output)
            }
            Admission::InputOnly => (fresh, call.likely_output()),
        };
        Charge { tokens, input_tokens: fresh, output_tokens: output }
    }

    /// The same on the safe side: the input and the longest answer, for a vendor whose own estimate we
    /// cannot know exactly.
    #[must_use]
    pub fn reserve_safely(&self, call: &Estimate) -> Charge {
        let charge = self.reserve(call);
        match self.admission {
            Admission::LargerOfInputAndMax => {
                Charge { tokens: charge.input_tokens.saturating_add(charge.output_tokens), ..charge }
            }
            _ => charge,
        }
    }

    /// What a call cost in the end, by the usage its reply reports.
    #[must_use]
    pub fn settle(&self, usage: &Usage) -> Charge {
        let input = usage.input_tokens.unwrap_or(0);
        let cached = if self.cached_counts { 0 } else { usage.cache_read_tokens.unwrap_or(0) };
        let input = input.saturating_sub(cached);
        let output = usage.output_tokens.unwrap_or(0);
        let tokens = match self.admission {
            Admission::InputOnly => input,
            _ if self.output_weight == 1 => match usage.total_tokens {
                // The vendor's own sum may hold tokens that neither part shows.
                Some(total) => total.saturating_sub(cached).max(input.saturating_add(output)),
                None => input.saturating_add(output),
            },
            _ => input.saturating_add(output.saturating_mul(u64::from(self.output_weight))),
        };
        Charge { tokens, input_tokens: input, output_tokens: output }
    }

    /// The same as a cost to settle a call with. A usage that is not known in full gives none: half of it would
    /// give back what was spent.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        usage.total_tokens?;
        let charge = self.settle(usage);
        let mut cost = Cost::nothing()
            .with(Dimension::InputTokens, charge.input_tokens)
            .with(Dimension::OutputTokens, charge.output_tokens)
            .with(Dimension::Tokens, charge.tokens);
        if let Some(dollars) = usage.cost_usd.filter(|dollars| dollars.is_finite() && *dollars >= 0.0) {
            cost.set_usd(dollars);
        }
        Some(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendors::by_name;

    fn counting(vendor: &str) -> Counting {
        by_name(vendor).unwrap().counting
    }

    const CALL: Estimate = Estimate {
        input: 1000,
        cached_input: 200,
        max_output: Some(4000),
        answers: 1,
        expected_output: Some(300),
        model_max_output: Some(64_000),
    };

    #[test]
    fn each_vendor_reserves_by_its_own_meter() {
        let tokens = |vendor: &str| counting(vendor).reserve(&CALL).tokens;
        assert_eq!(tokens("openai"), 4000);
        assert_eq!(counting("openai").reserve_safely(&CALL).tokens, 5000);
        assert_eq!(tokens("azure-openai"), 5000);
        assert_eq!(tokens("aws-bedrock"), 5000);
        assert_eq!(tokens("cerebras"), 5000);
        assert_eq!(tokens("google-gemini"), 1000);
        assert_eq!(tokens("groq"), 1100);
        assert_eq!(tokens("xai"), 1300);
        let anthropic = counting("anthropic").reserve(&CALL);
        assert_eq!((anthropic.input_tokens, anthropic.output_tokens), (800, 300));
        let unbounded = Estimate { max_output: None, ..CALL };
        assert_eq!(counting("aws-bedrock").reserve(&unbounded).tokens, 65_000);
        let several = Estimate { answers: 3, ..CALL };
        assert_eq!(counting("azure-openai").reserve(&several).tokens, 13_000);
    }

    #[test]
    fn each_vendor_settles_by_its_own_meter() {
        let usage = Usage {
            input_tokens: Some(1000),
            output_tokens: Some(100),
            cache_read_tokens: Some(400),
            cache_write_tokens: Some(50),
            total_tokens: Some(1100),
            ..Usage::default()
        };
        let tokens = |vendor: &str| counting(vendor).settle(&usage).tokens;
        assert_eq!(tokens("openai"), 1100);
        assert_eq!(tokens("groq"), 700);
        assert_eq!(tokens("xai"), 1100);
        assert_eq!(tokens("google-gemini"), 1000);
        assert_eq!(tokens("aws-bedrock"), 600 + 5 * 100);
        assert_eq!(counting("anthropic").settle(&usage).input_tokens, 600);
        assert_eq!(counting("openai").unspent, SettleRule::Keep);
        assert_eq!(counting("anthropic").unspent, SettleRule::Refund);
        assert!(counting("openai").failures_count);
    }
}
