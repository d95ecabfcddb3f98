//! What a kind of calls meets after a failure, found in the config alone: whose windows hold it, which breaker it
//! reports to, and what it must pass besides while it goes throttled.

use tidegate_core::config::{BackoffConfig, BreakerConfig, BreakerScope, Limits};
use tidegate_core::{Config, Salt};

/// What a call names, as far as levels of the config are about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub service: &'a str,
    pub endpoint: Option<&'a str>,
    pub model: Option<&'a str>,
    pub key: Option<&'a str>,
    pub loop_type: Option<&'a str>,
}

/// What a kind of calls meets after a failure.
#[derive(Clone, Debug)]
pub(crate) struct After {
    pub model: Option<String>,
    /// The windows that concern it, apart from those of the limits on its way.
    pub windows: Vec<String>,
    /// The window that opens when it is turned away by nothing in particular.
    pub narrowest: String,
    /// The limits that it passes besides while it goes throttled.
    pub throttles: Vec<String>,
    pub backoff: BackoffConfig,
    pub breaker: Option<(String, BreakerConfig)>,
    /// A call that is turned away counts all the same.
    pub failures_count: bool,
}

impl After {
    pub fn of(named: &Named<'_>, config: &Config) -> After {
        let Named { service: name, .. } = *named;
        let service = &config.services[name];
        let endpoint = named.endpoint.and_then(|text| most_specific(service.endpoints.keys(), text));
        let pattern = named.model.and_then(|text| most_specific(service.models.keys(), text));
        let model = pattern.or(named.model).map(|model| format!("{name}/model:{model}"));
        let own = named.key.filter(|_| service.per_key).map(|key| Salt::default().fingerprint(key));
        let loop_type = named.loop_type.and_then(|text| config.loop_types.get_key_value(text));

        let key = own.as_ref().map(|own| format!("{name}/key:{own}"));
        let narrowest = model.clone().or(key.clone()).unwrap_or_else(|| name.to_owned());
        let mut windows = vec!["global".to_owned(), name.to_owned()];
        windows.extend(endpoint.map(|endpoint| format!("{name}/endpoint:{endpoint}")));
        windows.extend(model);
        windows.extend(key.clone());
        windows.extend(loop_type.map(|(name, _)| format!("loop_type:{name}")));

        let whose = key.unwrap_or_else(|| name.to_owned());
        let mut levels: Vec<(String, &Limits)> = vec![("global".into(), &config.global)];
        levels.push((whose.clone(), &service.limits));
        levels.extend(endpoint.map(|text| (format!("{whose}/endpoint:{text}"), &service.endpoints[text])));
        levels.extend(pattern.map(|text| (format!("{whose}/model:{text}"), &service.models[text])));
        levels.extend(loop_type.map(|(name, held)| (format!("loop_type:{name}"), &held.limits)));
        let throttled = levels.into_iter().filter(|(_, limits)| limits.throttled_concurrency.is_some());
        let throttles = throttled.map(|(level, _)| format!("{level}/throttled_concurrency")).collect();

        let breaker = service.breaker.clone().map(|rules| match (rules.per, endpoint) {
            (BreakerScope::Endpoint, Some(text)) => (format!("{name}/endpoint:{text}/breaker"), rules),
            _ => (format!("{name}/breaker"), rules),
        });
        After {
            model: named.model.map(str::to_owned),
            windows,
            narrowest,
            throttles,
            backoff: service.backoff.clone(),
            breaker,
            failures_count: service.failures_count,
        }
    }
}

/// The pattern with the most letters, then the fewest stars, of those that mean a text; the first where two are
/// alike.
fn most_specific<'a>(patterns: impl Iterator<Item = &'a String>, text: &str) -> Option<&'a str> {
    let stars = |pattern: &str| pattern.matches('*').count();
    let meant = patterns.map(String::as_str).filter(|pattern| means(pattern.as_bytes(), text.as_bytes()));
    meant.min_by_key(|pattern| (std::cmp::Reverse(pattern.len() - stars(pattern)), stars(pattern), *pattern))
}

fn means(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skip| means(rest, &text[skip..])),
        Some((letter, rest)) => {
            text.split_first().is_some_and(|(first, text)| first == letter && means(rest, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_of_its_most_specific_levels() {
        let text = "[services.api]\nthrottled_concurrency = 2\nbreaker = { per = \"endpoint\" }\n\
                    [services.api.endpoints.\"POST /e\"]\n[services.api.models.\"*\"]\nconcurrency = 3\n\
                    [services.api.models.\"gpt*\"]\nthrottled_concurrency = 1\n";
        let config = Config::parse(text, "test").expect("valid");
        let named = Named {
            service: "api",
            endpoint: Some("POST /e"),
            model: Some("gpt-4o"),
            key: None,
            loop_type: Some("none"),
        };
        let after = After::of(&named, &config);
        assert_eq!(after.windows, ["global", "api", "api/endpoint:POST /e", "api/model:gpt*"]);
        assert_eq!(after.narrowest, "api/model:gpt*");
        assert_eq!(after.throttles, ["api/throttled_concurrency", "api/model:gpt*/throttled_concurrency"]);
        assert_eq!(after.breaker.expect("it has one").0, "api/endpoint:POST /e/breaker");
    }
}
