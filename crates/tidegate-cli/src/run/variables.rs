//! The environment variables that lead a program to the sidecar.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::Priority;
use tidegate_core::config::presets;

use crate::http::encoded;

/// The caller, as the URL carries it.
pub struct Caller {
    pub loop_id: String,
    pub loop_type: Option<String>,
    pub priority: Option<Priority>,
}

/// A service of the sidecar that has a preset: its name, and the preset's.
pub type Service = (String, String);

/// Returns the services in a sidecar's status that have a preset and can be forwarded to.
pub fn services(status: &Value) -> Vec<Service> {
    let services = status["services"].as_object().into_iter().flatten();
    let known = services.filter(|(_, service)| service["upstream"].is_string());
    known.filter_map(|(name, service)| Some((name.clone(), service["preset"].as_str()?.to_owned()))).collect()
}

impl Caller {
    /// Returns every base URL variable of these services' SDKs with its value.
    pub fn variables(&self, url: &str, services: &[Service]) -> BTreeMap<&'static str, String> {
        let base = format!("{url}/{}", self.hints());
        let mut set = BTreeMap::new();
        // If two services have one preset, the one with the preset's name counts, else the first.
        let (named, others): (Vec<_>, Vec<_>) = services.iter().partition(|(name, preset)| name == preset);
        for (service, preset) in named.into_iter().chain(others) {
            let variables = presets::by_name(preset).map_or(&[][..], |preset| preset.base_url_env);
            for (variable, path) in variables {
                set.entry(*variable).or_insert_with(|| format!("{base}/{service}{path}"));
            }
        }
        set
    }

    fn hints(&self) -> String {
        let loop_type = self.loop_type.as_ref().map(|name| format!(":{}", encoded(name)));
        let priority = self.priority.map(|priority| format!(",{priority}"));
        let (loop_type, priority) = (loop_type.unwrap_or_default(), priority.unwrap_or_default());
        format!("~{}{loop_type}{priority}", encoded(&self.loop_id))
    }
}

/// Returns the variables that keep a program from sending its calls to the sidecar through a proxy.
pub fn past_proxies(variable: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let proxies = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    if !proxies.iter().any(|name| variable(name).is_some_and(|proxy| !proxy.is_empty())) {
        return Vec::new();
    }
    const OWN: &str = "127.0.0.1,localhost,::1";
    let direct =
        ["no_proxy", "NO_PROXY"].iter().find_map(|name| variable(name).filter(|list| !list.is_empty()));
    let list = direct.map_or(OWN.to_owned(), |direct| format!("{direct},{OWN}"));
    vec![("NO_PROXY", list.clone()), ("no_proxy", list)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        Caller {
            loop_id: "my agent/7".into(),
            loop_type: Some("code".into()),
            priority: Some(Priority::High),
        }
    }

    fn service(name: &str, preset: &str) -> Service {
        (name.into(), preset.into())
    }

    #[test]
    fn every_service_with_a_known_sdk_has_its_variable_with_the_hints_in_it() {
        let services =
            [service("anthropic", "anthropic"), service("gh", "github"), service("openai", "openai")];
        let set = caller().variables("http://127.0.0.1:8429", &services);
        assert_eq!(set["OPENAI_BASE_URL"], "http://127.0.0.1:8429/~my%20agent%2F7:code,high/openai/v1");
        assert_eq!(set["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8429/~my%20agent%2F7:code,high/anthropic");
        let plain = Caller { loop_id: "a".into(), loop_type: None, priority: None };
        assert_eq!(plain.variables("http://h", &services)["OPENAI_BASE_URL"], "http://h/~a/openai/v1");
    }

    #[test]
    fn of_two_services_with_one_preset_the_one_named_like_it_counts() {
        let services = [service("a", "openai"), service("openai", "openai"), service("z", "anthropic")];
        let set = caller().variables("http://h", &services);
        assert!(set["OPENAI_BASE_URL"].ends_with("/openai/v1"), "{set:?}");
        assert!(set["ANTHROPIC_BASE_URL"].ends_with("/z"), "{set:?}");
    }

    #[test]
    fn a_service_without_an_upstream_or_a_preset_has_no_variable() {
        let status = serde_json::json!({"services": {
            "openai": {"preset": "openai", "upstream": "https://a.example"},
            "azure": {"preset": "azure-openai", "upstream": null},
            "local": {"preset": null, "upstream": "http://127.0.0.1:1"},
        }});
        assert_eq!(services(&status), [service("openai", "openai")]);
    }

    #[test]
    fn a_proxy_in_the_environment_is_not_asked_for_the_sidecar() {
        let environment = |name: &str| match name {
            "http_proxy" => Some("http://proxy.example:3128".to_owned()),
            "NO_PROXY" => Some(".example".to_owned()),
            _ => None,
        };
        let set = past_proxies(environment);
        assert_eq!(set[0], ("NO_PROXY", ".example,127.0.0.1,localhost,::1".to_owned()));
        assert_eq!(set[1].0, "no_proxy");
        assert!(past_proxies(|_| None).is_empty());
    }
}
