//! The limits of one level, and the keys that may be custom units.

use toml::de::DeValue;

use super::keys::{self, ADAPTIVE, LEVEL};
use super::rates::RateAt;
use super::walk::{Field, Walk};
use crate::config::check::rate_path;
use crate::config::hint::did_you_mean_or_list;
use crate::config::path::is_bare;
use crate::config::{Adaptation, AdaptiveConfig, Limits, Reserve};
use crate::model::dimension::Dimension;
use crate::model::priority::Priority;

impl Walk<'_> {
    /// A level that has limits and nothing else.
    pub(super) fn plain_level(&mut self, section: &Field<'_>) -> Limits {
        let fields = self.table(section);
        self.level(&section.path, &fields, &[])
    }

    /// The limits among the fields of a section; its `others` are left to the caller.
    pub(super) fn level(&mut self, path: &str, fields: &[Field<'_>], others: &[&str]) -> Limits {
        let mut limits = Limits::default();
        let mut rates: Vec<RateAt> = Vec::new();
        for field in fields.iter().filter(|field| !others.contains(&field.name)) {
            match field.name {
                "concurrency" if field.is_table() => self.adaptive(field, &mut limits),
                "concurrency" => limits.concurrency = self.count(field),
                "throttled_concurrency" => limits.throttled_concurrency = self.count(field),
                "byte_budget" => limits.byte_budget = self.size(field),
                "reserve" => limits.reserve = self.reserve(field),
                dimension if LEVEL.contains(&dimension) => {
                    self.rates(field, &Dimension::from_name(dimension), &mut rates);
                }
                custom if self.is_custom_unit(field, others) => {
                    self.rates(field, &Dimension::from_name(custom), &mut rates);
                }
                _ => {
                    let known: Vec<&str> = LEVEL.iter().chain(others).copied().collect();
                    let custom = "a custom unit needs a plain name and a rate, such as credits = \"100/min\""
                        .to_owned();
                    self.unknown_key(field, path, &known, Some(custom));
                }
            }
        }
        limits.rates = rates.iter().map(|rate| rate.limit.clone()).collect();
        // Only now is it known which rates share a dimension, and so what the checks will call each.
        for (index, rate) in rates.iter().enumerate() {
            self.place_rate(&rate_path(path, &limits.rates, index), rate);
        }
        limits
    }

    /// `{ adaptive = "gradient", min = 1, max = 100 }`
    fn adaptive(&mut self, section: &Field<'_>, limits: &mut Limits) {
        let (mut by, mut min, mut latency) = (None, 1, None);
        let fields = self.table(section);
        for field in &fields {
            match field.name {
                "adaptive" => by = self.choice(field, &Adaptation::NAMES),
                "min" => min = self.count(field).unwrap_or(min),
                "max" => limits.concurrency = self.count(field),
                "latency" => latency = self.duration(field),
                _ => self.no_such_key(field, &section.path, ADAPTIVE),
            }
        }
        for (key, example) in [("adaptive", "adaptive = \"gradient\""), ("max", "max = 100")] {
            if fields.iter().all(|field| field.name != key) {
                let message = format!("a concurrency that adapts needs `{key}`");
                self.fault(section.at, message, format!("add {example}"));
            }
        }
        limits.adaptive = by.map(|by| AdaptiveConfig { by, min, latency });
    }

    fn is_custom_unit(&self, field: &Field<'_>, others: &[&str]) -> bool {
        is_bare(field.name)
            && looks_like_a_rate(field.value)
            && !keys::is_known_somewhere(field.name)
            && !keys::is_a_slip(field.name, LEVEL)
            && !keys::is_a_slip(field.name, others)
    }

    /// `{ high = 0.1 }`
    pub(super) fn reserve(&mut self, section: &Field<'_>) -> Reserve {
        let mut reserve = Reserve::default();
        for field in self.table(section) {
            match Priority::ALL.into_iter().find(|priority| priority.name() == field.name) {
                Some(priority) => {
                    reserve.share[priority as usize] = self.number(&field).unwrap_or_default();
                }
                None => {
                    let names = Priority::ALL.map(Priority::name);
                    let hint = did_you_mean_or_list(field.name, &names);
                    let message = format!("unknown priority `{}` in a reserve", field.name);
                    self.fault(field.key_at, message, hint);
                }
            }
        }
        reserve
    }

    fn place_rate(&mut self, path: &str, rate: &RateAt) {
        self.place(path, rate.at);
        for (part, at) in &rate.parts {
            self.place(&format!("{path}.{part}"), *at);
        }
    }
}

fn looks_like_a_rate(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(text) => text.contains('/'),
        DeValue::Table(table) => table.contains_key("limit"),
        DeValue::Array(array) => {
            !array.is_empty()
                && array.iter().all(|item| {
                    !matches!(item.get_ref(), DeValue::Array(_)) && looks_like_a_rate(item.get_ref())
                })
        }
        _ => false,
    }
}
