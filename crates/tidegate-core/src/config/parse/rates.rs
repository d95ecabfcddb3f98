//! One rate limit in each of its forms: a string, a table, or an array of both.

use toml::de::DeValue;

use super::keys::RATE;
use super::walk::{Field, Kind, Walk};
use crate::config::units::{parse_rate_of, parse_units_of};
use crate::config::{Origin, RateLimit};
use crate::model::dimension::Dimension;
use crate::model::rate::{Algorithm, Rate};

const RATE_KIND: Kind = Kind { name: "a rate", example: "write it like \"500/min\"" };
const BURST_KIND: Kind = Kind { name: "a burst", example: "write it like 100 or \"10k\"" };

/// A limit, and where it and its parts were written.
pub(super) struct RateAt {
    pub limit: RateLimit,
    pub at: usize,
    /// Paths below the limit's own, with their places.
    pub parts: Vec<(String, usize)>,
}

impl Walk<'_> {
    /// A plain rate of a dimension, such as `"500/min"`, that follows no calendar.
    pub fn rate_of(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<Rate> {
        let limit = self.limit(field, dimension)?;
        if limit.calendar.is_some() {
            let hint = "leave the time zone away".to_owned();
            self.fault(field.at, format!("`{}` cannot follow a calendar", field.name), hint);
            return None;
        }
        Some(limit.rate)
    }

    /// All rates that one key gives.
    pub(super) fn rates(&mut self, field: &Field<'_>, dimension: &Dimension, rates: &mut Vec<RateAt>) {
        let DeValue::Array(array) = field.value else {
            rates.extend(self.rate(field, dimension));
            return;
        };
        if array.is_empty() {
            let message = format!("`{}` lists no rates", field.name);
            self.fault(field.at, message, RATE_KIND.example.to_owned());
        }
        for (index, item) in array.iter().enumerate() {
            let item = Field {
                path: format!("{}[{index}]", field.path),
                at: item.span().start,
                value: item.get_ref(),
                ..field.clone()
            };
            rates.extend(self.rate(&item, dimension));
        }
    }

    fn rate(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<RateAt> {
        match field.value {
            DeValue::String(_) => {
                let limit = self.plain_rate(field, dimension)?;
                Some(RateAt { limit, at: field.at, parts: Vec::new() })
            }
            DeValue::Table(_) => self.detailed_rate(field, dimension),
            DeValue::Integer(number) if !number.as_str().starts_with('-') => {
                let hint = format!("write how long: \"{number}/min\"");
                self.wrong_kind(field, RATE_KIND.name, field.value, hint);
                None
            }
            other => {
                self.wrong_kind(field, RATE_KIND.name, other, RATE_KIND.example.to_owned());
                None
            }
        }
    }

    /// `"500/min"`
    fn plain_rate(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<RateLimit> {
        let text = self.text(field)?;
        let (rate, calendar) = self.read(field, &text, &RATE_KIND, |text| {
            let written = parse_rate_of(text, dimension)?;
            Ok((written.rate(dimension)?, written.calendar().map(str::to_owned)))
        })?;
        Some(RateLimit {
            dimension: dimension.clone(),
            rate,
            // A calendar has fixed windows and no others.
            algorithm: calendar.is_some().then_some(Algorithm::FixedWindow),
            burst: None,
            calendar,
            reserve: None,
            origin: Origin::Written,
        })
    }

    /// `{ limit = "200k/min", algorithm = "token-bucket", burst = "200k", reserve = { high = 0.1 } }`
    fn detailed_rate(&mut self, section: &Field<'_>, dimension: &Dimension) -> Option<RateAt> {
        let fields = self.table(section);
        let mut limit = None;
        let mut algorithm = None;
        let mut burst = None;
        let mut reserve = None;
        let mut parts = Vec::new();
        for field in &fields {
            match field.name {
                "limit" => limit = self.limit(field, dimension),
                "algorithm" => {
                    let all = [Algorithm::SlidingWindow, Algorithm::TokenBucket, Algorithm::FixedWindow];
                    algorithm = self.choice(field, &all.map(|algorithm| (algorithm.name(), algorithm)));
                    parts.push(("algorithm".into(), field.at));
                }
                "burst" => {
                    burst = self.burst(field, dimension);
                    parts.push(("burst".into(), field.at));
                }
                "reserve" => {
                    reserve = Some(self.reserve(field));
                    parts.push(("reserve".into(), field.key_at));
                    if let DeValue::Table(shares) = field.value {
                        let shares = shares.iter().map(|(name, share)| (name.get_ref(), share.span().start));
                        parts.extend(shares.map(|(name, at)| (format!("reserve.{name}"), at)));
                    }
                }
                _ => self.unknown_key(field, &section.path, RATE, None),
            }
        }
        if section.value.is_table() && !fields.iter().any(|field| field.name == "limit") {
            let message = format!("`{}` has no `limit`", section.name);
            self.fault(section.at, message, "add limit = \"500/min\"".to_owned());
        }
        let mut limit = limit?;
        limit.algorithm = algorithm.or(limit.algorithm);
        limit.burst = burst;
        limit.reserve = reserve;
        Some(RateAt { limit, at: section.at, parts })
    }

    fn limit(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<RateLimit> {
        if let DeValue::String(_) = field.value {
            return self.plain_rate(field, dimension);
        }
        self.wrong_kind(field, RATE_KIND.name, field.value, RATE_KIND.example.to_owned());
        None
    }

    /// A number in the dimension's own units: money may have a fraction.
    fn burst(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<u64> {
        let parse = |text: &str| parse_units_of(text, dimension);
        let written = match field.value {
            DeValue::String(_) => {
                let text = self.text(field)?;
                return self.read(field, &text, &BURST_KIND, parse);
            }
            DeValue::Integer(_) => return self.scaled_count(field, dimension),
            DeValue::Float(float) => float.as_str(),
            other => {
                self.wrong_kind(field, BURST_KIND.name, other, BURST_KIND.example.to_owned());
                return None;
            }
        };
        parse(written)
            .map_err(|error| {
                let hint = error.hint().unwrap_or(BURST_KIND.example).to_owned();
                self.fault(field.at, error.message(), hint);
            })
            .ok()
    }

    fn scaled_count(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<u64> {
        let units = self.count(field)?.checked_mul(dimension.scale());
        if units.is_none() {
            self.fault(field.at, "the burst is too large: at most 2^63", None);
        }
        units
    }
}
