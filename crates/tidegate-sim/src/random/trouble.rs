//! What random scenarios do after failures: retries, backoff windows, breakers. Times are short, since scenarios are.

use std::time::Duration;

use tidegate_core::config::{
    BackoffConfig, BreakerConfig, BreakerScope, JitterKind, Queued, RateLimit, RetryConfig, ServiceConfig,
};
use tidegate_core::retry::Growth;

use crate::dice::Dice;
use crate::scenario::WindowByHand;

/// Draws how a service goes on after failures.
pub(super) fn after_failures(dice: &mut Dice, service: &mut ServiceConfig) {
    service.retry = retry(dice);
    service.backoff = backoff(dice);
    service.breaker = dice.happens(0.4).then(|| breaker(dice));
    service.failures_count = dice.happens(0.2);
}

fn retry(dice: &mut Dice) -> RetryConfig {
    let mut retry = RetryConfig::default();
    if dice.happens(0.7) {
        retry.max_retries = Some(dice.below(6) as u32);
    }
    retry.initial = Some(millis(20 + dice.below(800)));
    retry.max = Some(millis(1_000 + dice.below(4_000)));
    retry.budget = Some(*dice.pick(&[0.0, 0.2, 1.0]));
    if dice.happens(0.1) {
        retry.max_elapsed = Some(millis(500 + dice.below(5_000)));
    }
    let growths = [Growth::Exponential, Growth::Linear, Growth::Constant, Growth::Decorrelated];
    retry.backoff = Some(*dice.pick(&growths));
    if retry.backoff != Some(Growth::Decorrelated) {
        retry.jitter_kind = Some(*dice.pick(&[
            JitterKind::Symmetric,
            JitterKind::Factor,
            JitterKind::Additive,
            JitterKind::Full,
        ]));
    }
    retry
}

fn backoff(dice: &mut Dice) -> BackoffConfig {
    let mut backoff = BackoffConfig::default();
    backoff.window = millis(*dice.pick(&[0, 50, 700, 3_000, 10_000]));
    backoff.byte_penalty_multiplier = *dice.pick(&[1, 2, 20]);
    backoff.waits = !dice.happens(0.1);
    backoff
}

fn breaker(dice: &mut Dice) -> BreakerConfig {
    let mut breaker = BreakerConfig::default();
    breaker.failures = 1 + dice.below(6) as u32;
    let longest = *dice.pick(&[200, 2_000]);
    breaker.open_for = millis(20 + dice.below(longest));
    breaker.max_open = dice.happens(0.5).then(|| breaker.open_for + millis(dice.below(2_000)));
    breaker.probes = 1 + dice.below(3) as u32;
    breaker.count_rate_limits = dice.happens(0.3);
    breaker.window = millis(500 + dice.below(5_000));
    breaker.min_calls = 1 + dice.below(10) as u32;
    breaker.failure_rate = dice.happens(0.3).then_some(0.4);
    if dice.happens(0.2) {
        (breaker.slow_rate, breaker.slow_after) = (Some(0.5), Some(millis(20 + dice.below(400))));
    }
    breaker.per = *dice.pick(&[BreakerScope::Service, BreakerScope::Endpoint]);
    breaker.queued = *dice.pick(&[Queued::Wait, Queued::Wait, Queued::Fail]);
    breaker
}

/// Windows that somebody opens, extends and ends; `names` are limits that may have one.
pub(super) fn windows(
    dice: &mut Dice,
    duration: Duration,
    names: &[(String, RateLimit)],
) -> Vec<WindowByHand> {
    let levels = ["global", "api", "api/model:tiny", "loop_type:heavy"];
    let mut keys: Vec<String> = levels.map(str::to_owned).into();
    keys.extend(names.iter().map(|(name, _)| name.clone()));
    let key = dice.pick(&keys).clone();
    let mut windows = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let key = if dice.happens(0.7) { key.clone() } else { dice.pick(&keys).clone() };
        let (at, lasts) = (duration.mul_f64(dice.unit()), millis(*dice.pick(&[0, 30, 500, 4_000])));
        if dice.happens(0.5) {
            let ended = at + lasts.mul_f64(dice.unit());
            windows.push(WindowByHand { at: ended, key: key.clone(), lasts: None });
        }
        windows.push(WindowByHand { at, key, lasts: Some(lasts) });
    }
    windows
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
