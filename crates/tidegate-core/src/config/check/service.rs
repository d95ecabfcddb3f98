//! One service.

use super::{Check, names};
use crate::config::expand::is_variable_name;
use crate::config::hint::{did_you_mean, did_you_mean_or_list, quoted};
use crate::config::path::join;
use crate::config::presets;
use crate::config::{QueueConfig, RampConfig, ServiceConfig};
use crate::model::endpoint;
use crate::vendors::{self, Profiles};

impl Check {
    pub(super) fn service(&mut self, name: &str, service: &ServiceConfig, profiles: &Profiles) {
        let path = join("services", name);
        if let Some((message, hint)) = names::wrong_service_name(name) {
            self.report(&path, message, hint);
        }
        self.preset(&path, service);
        if let Some(profile) = &service.profile
            && service.profile_base(profiles).is_none()
        {
            let known: Vec<&str> = profiles.names().chain(vendors::all().map(|vendor| vendor.name)).collect();
            let hint = did_you_mean(profile, known)
                .unwrap_or_else(|| "write it as [profiles.<name>], or name a vendor".into());
            self.report(
                &join(&path, "profile"),
                format!("unknown profile {}", quoted(profile)),
                hint.as_str(),
            );
        }
        if let Some(upstream) = &service.upstream {
            self.http_url(&join(&path, "upstream"), upstream);
        }
        // What stands here may be the key itself, put in the wrong place: it is not repeated.
        if service.api_key_env.as_ref().is_some_and(|name| !is_variable_name(name)) {
            let hint = "name the variable that holds the key, such as `OPENAI_API_KEY`";
            self.report(&join(&path, "api_key_env"), "this is not the name of an environment variable", hint);
        }
        self.level(&path, &service.limits);
        for (pattern, limits) in &service.endpoints {
            let path = join(&join(&path, "endpoints"), pattern);
            if let Some((message, hint)) = names::wrong_endpoint(pattern) {
                self.report(&path, message, hint.as_str());
            }
            let normal = endpoint::normal(pattern);
            let twin = |other: &&String| *other < pattern && endpoint::normal(other) == normal;
            if let Some(twin) = service.endpoints.keys().find(twin) {
                let message = format!("{} is the same endpoint as {}", quoted(pattern), quoted(twin));
                self.report(&path, message, "keep one of the two");
            }
            self.level(&path, limits);
        }
        for (pattern, limits) in &service.models {
            let path = join(&join(&path, "models"), pattern);
            if !names::is_model_pattern(pattern) {
                let message = format!("{} is not a model pattern", quoted(pattern));
                self.report(&path, message, "write a model's name, with `*` for anything, such as `gpt-4o*`");
            }
            self.level(&path, limits);
        }
        self.retry(&join(&path, "retry"), &service.retry);
        if let Some(breaker) = &service.breaker {
            self.breaker(&join(&path, "breaker"), breaker);
        }
        self.backoff(&join(&path, "backoff"), &service.backoff);
        self.queue(&join(&path, "queue"), &service.queue);
        if let Some(ramp) = &service.ramp {
            self.ramp(&join(&path, "ramp"), ramp);
        }
    }

    fn preset(&mut self, path: &str, service: &ServiceConfig) {
        let preset = service.preset.as_deref().and_then(presets::by_name);
        if let (Some(written), None) = (&service.preset, preset) {
            let known: Vec<&str> = presets::all().map(|preset| preset.name).chain([presets::NONE]).collect();
            let hint = did_you_mean_or_list(written, &known);
            let message = format!("unknown preset {}", quoted(written));
            self.report(&join(path, "preset"), message, hint.as_str());
        }
        let Some(tier) = &service.tier else { return };
        let path = join(path, "tier");
        match preset {
            // Without a known preset no tier can be judged.
            None if service.preset.is_some() => {}
            None => self.report(&path, "a tier is one of a preset's", "add `preset`, or remove `tier`"),
            Some(preset) if preset.tiers.is_empty() => {
                let message = format!("the preset `{}` knows no tiers", preset.name);
                self.report(&path, message, "remove `tier`, and write the limits themselves");
            }
            Some(preset) if preset.tier(tier).is_none() => {
                let known: Vec<&str> = preset.tiers.iter().map(|tier| tier.name).collect();
                let message = format!("unknown tier {} of the preset `{}`", quoted(tier), preset.name);
                self.report(&path, message, format!("use one of {}", known.join(", ")).as_str());
            }
            Some(_) => {}
        }
    }

    fn ramp(&mut self, path: &str, ramp: &RampConfig) {
        if !(ramp.from > 0.0 && ramp.from <= 1.0) {
            let message = format!("a share of {} is not above 0 and at most 1", ramp.from);
            self.report(&join(path, "from"), message, "write half of the pace as 0.5, and no ramp as 1");
        }
        for (key, time) in [("idle", ramp.idle), ("over", ramp.over)] {
            if time.is_zero() {
                let message = format!("a ramp with an `{key}` of 0 is none");
                self.report(&join(path, key), message, "use a time such as \"1m\", or write from = 1");
            }
        }
    }

    fn queue(&mut self, path: &str, queue: &QueueConfig) {
        if queue.aging.is_zero() {
            let message = "with an aging of 0 every call would outrank every other";
            self.report(&join(path, "aging"), message, "use a time such as \"30s\"");
        }
        self.share(&join(path, "aging_share"), queue.aging_share);
    }
}
