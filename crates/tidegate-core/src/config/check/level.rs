//! The limits of one level.

use super::Check;
use crate::config::hint::quoted;
use crate::config::path::{is_bare, join};
use crate::config::units::{Amount, check_calendar};
use crate::config::{Adaptation, Limits, Origin, RateLimit, Reserve};
use crate::model::dimension::Dimension;
use crate::model::priority::Priority;
use crate::model::rate::{Algorithm, MAX_UNITS, WindowName};

/// The path of one rate: its dimension, and its place among several of them.
pub(in crate::config) fn rate_path(level: &str, rates: &[RateLimit], index: usize) -> String {
    let dimension = &rates[index].dimension;
    let path = join(level, dimension.name());
    let alike = |rates: &[RateLimit]| rates.iter().filter(|rate| rate.dimension == *dimension).count();
    if alike(rates) > 1 { format!("{path}[{}]", alike(&rates[..index])) } else { path }
}

impl Check {
    pub(super) fn level(&mut self, path: &str, limits: &Limits) {
        let in_flight = [
            ("concurrency", limits.concurrency),
            ("throttled_concurrency", limits.throttled_concurrency),
            ("byte_budget", limits.byte_budget),
        ];
        for (name, limit) in in_flight {
            let path = join(path, name);
            match limit {
                Some(0) => {
                    let message = format!("a {name} of 0 lets nothing pass");
                    self.report(&path, message, "use at least 1, or remove the line for no limit");
                }
                Some(limit) if limit > MAX_UNITS => {
                    self.report(&path, format!("{limit} is too large: at most 2^63"), None);
                }
                _ => {}
            }
        }
        if let (Some(all), Some(throttled)) = (limits.concurrency, limits.throttled_concurrency)
            && throttled > all
        {
            let whose = match limits.concurrency_origin {
                Origin::Written => "",
                Origin::Preset => "the preset's ",
            };
            let message = format!("throttled_concurrency {throttled} is above {whose}concurrency {all}");
            let hint = format!("use at most {all}");
            self.report(&join(path, "throttled_concurrency"), message, hint.as_str());
        }
        self.adaptive(&join(path, "concurrency"), limits);
        self.reserve(&join(path, "reserve"), &limits.reserve);
        for index in 0..limits.rates.len() {
            self.rate(&rate_path(path, &limits.rates, index), &limits.rates[index]);
            self.duplicate(path, &limits.rates, index);
        }
    }

    fn adaptive(&mut self, path: &str, limits: &Limits) {
        let Some(adaptive) = &limits.adaptive else { return };
        if !path.starts_with("services.") {
            let message = "what adapts follows one upstream";
            let hint = "write a number here, and let the concurrency of services, endpoints or models adapt";
            self.report(path, message, hint);
        }
        if adaptive.min == 0 {
            self.report(&join(path, "min"), "a least of 0 lets nothing pass", "use at least 1");
        }
        if let Some(most) = limits.concurrency.filter(|most| adaptive.min > *most) {
            let message = format!("the least, {}, is above the most, {most}", adaptive.min);
            self.report(&join(path, "min"), message, format!("use at most {most}").as_str());
        }
        if adaptive.latency.is_some() && adaptive.by == Adaptation::Gradient {
            let hint = "remove `latency`, or use adaptive = \"aimd\"";
            self.report(&join(path, "latency"), "a gradient finds out itself how long replies take", hint);
        }
        if adaptive.latency.is_some_and(|latency| latency.is_zero()) {
            self.report(&join(path, "latency"), "no reply comes in no time", "use a time such as \"2s\"");
        }
    }

    fn rate(&mut self, path: &str, limit: &RateLimit) {
        if let Dimension::Custom(name) = &limit.dimension
            && (!is_bare(name) || Dimension::from_name(name) != limit.dimension)
        {
            let message = format!("{} cannot be the name of a custom unit", quoted(name));
            self.report(path, message, "use letters, digits, `-` and `_`, and no known unit's name");
        }
        if let Some(zone) = &limit.calendar {
            if let Err(error) = check_calendar(limit.rate.window(), zone) {
                self.report(path, error.message(), error.hint());
            }
            if let Some(algorithm @ (Algorithm::SlidingWindow | Algorithm::TokenBucket)) = limit.algorithm {
                let message = format!("a {} cannot follow a calendar", algorithm.name());
                let hint = "use \"fixed-window\", or leave the algorithm away";
                self.report(&join(path, "algorithm"), message, hint);
            }
        }
        if let Some(reserve) = &limit.reserve {
            self.reserve(&join(path, "reserve"), reserve);
        }
        if let Some(burst) = limit.burst {
            self.burst(&join(path, "burst"), burst, limit);
        }
    }

    fn burst(&mut self, path: &str, burst: u64, limit: &RateLimit) {
        let units = limit.rate.units();
        let written = |units| Amount::of(units, limit.dimension.scale());
        let is_window = limit.counts_by() != Algorithm::TokenBucket;
        if burst == 0 {
            self.report(
                path,
                "a burst of 0 lets nothing pass",
                "use at least 1, or remove it for the default",
            );
        } else if burst > MAX_UNITS {
            self.report(path, format!("a burst of {} is too large: at most 2^63", written(burst)), None);
        } else if is_window && burst > units {
            let window = WindowName(limit.rate.window());
            let (burst, units) = (written(burst), written(units));
            let message = format!("a burst of {burst} is above the limit of {units} per {window}");
            let hint = match limit.calendar {
                Some(_) => format!("use at most {units}"),
                None => format!("use at most {units}, or algorithm = \"token-bucket\""),
            };
            self.report(path, message, hint.as_str());
        }
    }

    fn reserve(&mut self, path: &str, reserve: &Reserve) {
        let mut each_fits = true;
        for (priority, share) in Priority::ALL.into_iter().zip(reserve.share) {
            if !(0.0..1.0).contains(&share) {
                each_fits = false;
                let message = format!("a reserve of {share} is not from 0 to below 1");
                self.report(&join(path, priority.name()), message, "write 10 % as 0.1");
            }
        }
        let sum: f64 = reserve.share.iter().sum();
        if each_fits && sum >= 1.0 {
            let message = format!("reserves of {sum} in all leave nothing for anyone else");
            self.report(path, message, "keep their sum below 1");
        }
    }

    /// A limit's name is its dimension and window: two of one name could not be told apart.
    fn duplicate(&mut self, level: &str, rates: &[RateLimit], index: usize) {
        let limit = &rates[index];
        let same = |other: &RateLimit| {
            other.dimension == limit.dimension && other.rate.window() == limit.rate.window()
        };
        if rates[..index].iter().any(same) {
            let window = WindowName(limit.rate.window());
            let message = format!("a second limit on {} per {window}", limit.dimension);
            self.report(&rate_path(level, rates, index), message, "keep the lower one");
        }
    }
}
