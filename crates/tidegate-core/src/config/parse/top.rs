//! The file as a whole, and its small sections.

use toml::de::{DeTable, DeValue};

use super::keys::{ALERTS, LOOP_TYPE, STATE, TOP};
use super::walk::{Field, Walk};
use crate::config::path::join;
use crate::config::presets;
use crate::config::{AlertsConfig, Config, LoopTypeConfig, StateConfig, StateFailure};
use crate::model::priority::Priority;

impl Walk<'_> {
    pub(super) fn config(&mut self, document: &DeTable<'_>) -> Config {
        let mut config = Config::default();
        let fields = self.fields("", document);
        // Services name profiles, wherever in the file these stand.
        if let Some(field) = fields.iter().find(|field| field.name == "profiles") {
            config.profiles = self.profiles(field);
        }
        for field in fields {
            match field.name {
                "listen" => {
                    if let Some(listen) = self.string(&field) {
                        config.listen = listen;
                    }
                }
                "listen_unix" => config.listen_unix = self.string(&field),
                "auth" => config.auth = self.auth(&field),
                "permit_lease" => {
                    config.permit_lease = self.duration(&field).unwrap_or(config.permit_lease);
                }
                "buffer_memory" => {
                    config.buffer_memory = self.size(&field).unwrap_or(config.buffer_memory);
                }
                "state" => config.state = self.state(&field),
                "global" => config.global = self.plain_level(&field),
                "loops" => config.loops = self.plain_level(&field),
                "alerts" => config.alerts = Some(self.alerts(&field)),
                "services" => {
                    for field in self.table(&field) {
                        let service = self.service(&field, &config.profiles);
                        config.services.insert(field.name.to_owned(), service);
                    }
                }
                "loop_types" => {
                    for field in self.table(&field) {
                        config.loop_types.insert(field.name.to_owned(), self.loop_type(&field));
                    }
                }
                // Profiles have been read; a simulation is for the simulator to read.
                "profiles" | "simulation" => {}
                name => {
                    let service = matches!(field.value, DeValue::Table(_))
                        .then(|| format!("a service is written [{}]", join("services", name)));
                    self.unknown_key(&field, "", TOP, service);
                }
            }
        }
        if config.services.is_empty() {
            config.services = presets::served();
        }
        config
    }

    fn state(&mut self, section: &Field<'_>) -> StateConfig {
        let mut state = StateConfig::default();
        for field in self.table(section) {
            match field.name {
                "path" => state.path = self.string(&field),
                "redis" => state.redis = self.string(&field),
                "on_failure" => {
                    let choices = [("memory", StateFailure::Memory), ("refuse", StateFailure::Refuse)];
                    state.on_failure = self.choice(&field, &choices).unwrap_or_default();
                }
                _ => self.unknown_key(&field, &section.path, STATE, None),
            }
        }
        state
    }

    fn alerts(&mut self, section: &Field<'_>) -> AlertsConfig {
        let mut alerts = AlertsConfig::default();
        for field in self.table(section) {
            match field.name {
                "approaching" => alerts.approaching = self.number(&field).unwrap_or(alerts.approaching),
                "webhook" => alerts.webhook = self.string(&field),
                _ => self.unknown_key(&field, &section.path, ALERTS, None),
            }
        }
        alerts
    }

    fn loop_type(&mut self, section: &Field<'_>) -> LoopTypeConfig {
        let mut loop_type = LoopTypeConfig::default();
        let fields = self.table(section);
        loop_type.limits = self.level(&section.path, &fields, LOOP_TYPE);
        for field in &fields {
            match field.name {
                "priority" => {
                    let names = Priority::ALL.map(|priority| (priority.name(), priority));
                    loop_type.priority = self.choice(field, &names);
                }
                "weight" => loop_type.weight = self.number(field).unwrap_or(loop_type.weight),
                // All others are the level's, known or not.
                _ => {}
            }
        }
        loop_type
    }
}
