//! What a gate has learned from the upstream, to be shown and kept.

use tidegate_core::Call;
use tidegate_core::engine::{Explained, LearnedLimit, Lesson};
use tidegate_core::learn::{Advice, Outputs};

use crate::gate::Gate;
use crate::refused::Refused;

/// What a call would meet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The limits on its way, in the order in which it passes them.
    pub limits: Vec<Explained>,
    /// The output that such calls have on average, if there is experience.
    pub expected_output: Option<u64>,
    /// What they could ask for at most, if they ask for much more than they need.
    pub advice: Option<Advice>,
}

impl Gate {
    /// The limits that a call must pass, how they stand, and what was learned about them.
    ///
    /// ```
    /// use tidegate::{Call, Config, Gate};
    ///
    /// let gate = Gate::builder().config(Config::parse("[services.openai]\nrequests = \"500/min\"")?).build()?;
    /// let explanation = gate.explain(&Call::to("openai"))?;
    /// assert_eq!(&*explanation.limits[0].limit, "openai/requests/1m");
    /// assert!(explanation.limits[0].learned.is_none(), "no reply has told anything yet");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the call names a service that is not there.
    pub fn explain(&self, call: &Call) -> Result<Explanation, Refused> {
        let limits = self.shared.act(|engine, now| engine.explain(call, now));
        let limits = limits.map_err(|refusal| self.shared.refused(refusal))?;
        let outputs = self.shared.outputs.lock();
        Ok(Explanation { limits, expected_output: outputs.expected(call), advice: outputs.advice(call) })
    }

    /// Every limit about which something was learned.
    #[must_use]
    pub fn learned(&self) -> Vec<LearnedLimit> {
        self.shared.act(|engine, now| engine.learned(now))
    }

    /// What another gate has learned about a limit, or this one before a restart. Says whether there is such a limit.
    pub fn remember(&self, learned: &LearnedLimit) -> bool {
        self.shared.act(|engine, now| engine.remember(learned, now))
    }

    /// What was learned since this was last asked, oldest first; of very many the latest.
    #[must_use]
    pub fn lessons(&self) -> Vec<Lesson> {
        self.shared.act(|engine, _| engine.lessons())
    }

    /// Experience with how much output calls have.
    #[must_use]
    pub fn outputs(&self) -> Outputs {
        self.shared.outputs.lock().clone()
    }
}
