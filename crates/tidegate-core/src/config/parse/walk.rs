//! Reading one value of the document by its kind, and noting where it stood.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::path::join;
use crate::config::check::Problem;
use crate::config::error::Fault;
use crate::config::expand::expand;
use crate::config::hint::{did_you_mean_or_list, quoted};
use crate::config::units::{UnitError, parse_count, parse_duration, parse_size};
use crate::model::rate::MAX_UNITS;

/// A key and its value.
#[derive(Clone)]
pub struct Field<'t> {
    /// The whole path, for messages and for the checks.
    pub path: String,
    /// The last part of the path.
    pub name: &'t str,
    /// Where the key stands.
    pub key_at: usize,
    /// Where the value stands.
    pub at: usize,
    pub(super) value: &'t DeValue<'t>,
}

impl Field<'_> {
    /// Whether the value is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// Whether the value is text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.value.is_str()
    }
}

/// A string after `${VAR}` was replaced.
pub(super) struct Text<'t> {
    pub value: String,
    pub written: &'t str,
}

impl Text<'_> {
    fn is_expanded(&self) -> bool {
        self.value != self.written
    }
}

/// What a string should be, in the words of an error.
pub struct Kind {
    /// With its article: `a rate`.
    pub name: &'static str,
    /// How it is written: `write it like "500/min"`.
    pub example: &'static str,
}

const COUNT: Kind = Kind { name: "a whole number", example: "write it like 100 or \"10k\"" };
const NUMBER: Kind = Kind { name: "a number", example: "write it like 0.1" };
const SIZE: Kind = Kind { name: "a size", example: "write it like \"5MB\" or \"64KiB\"" };
const DURATION: Kind = Kind { name: "a duration", example: "write it like \"250ms\", \"30s\" or \"2h\"" };

/// Where a field was written, for problems that are found later.
struct Place {
    at: usize,
    /// The text before and after variables were put in, if there were any.
    expanded: Option<(String, String)>,
}

/// The way through a document: what is read by its kind comes back, what is wrong is noted with its place.
pub struct Walk<'e> {
    env: &'e dyn Fn(&str) -> Option<String>,
    places: BTreeMap<String, Place>,
    pub(super) faults: Vec<Fault>,
}

impl<'e> Walk<'e> {
    pub(super) fn new(env: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Walk { env, places: BTreeMap::new(), faults: Vec::new() }
    }

    /// Notes a mistake; `at` is where a field or its key stands.
    pub fn fault(&mut self, at: usize, message: impl Into<String>, hint: impl Into<Option<String>>) {
        self.faults.push(Fault { at, message: message.into(), hint: hint.into() });
    }

    /// Notes where a field stands.
    pub(super) fn place(&mut self, path: &str, at: usize) {
        self.places.insert(path.to_owned(), Place { at, expanded: None });
    }

    /// Reports a problem of the model where its field, or the nearest thing around it, was written.
    pub(super) fn problem(&mut self, problem: Problem) {
        let mut path = problem.path.as_str();
        let place = loop {
            if let Some(place) = self.places.get(path) {
                break Some(place);
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => break None,
            }
        };
        let at = place.map_or(0, |place| place.at);
        let message = match place.and_then(|place| place.expanded.as_ref()) {
            Some((written, value)) => problem.message.replace(&quoted(value), &quoted(written)),
            None => problem.message,
        };
        self.fault(at, message, problem.hint);
    }

    /// The fields of a table, in the order of the file.
    pub(super) fn fields<'t>(&mut self, path: &str, table: &'t DeTable<'_>) -> Vec<Field<'t>> {
        let mut fields: Vec<Field<'t>> = table
            .iter()
            .map(|(key, value)| Field {
                path: join(path, key.get_ref()),
                name: key.get_ref(),
                key_at: key.span().start,
                at: value.span().start,
                value: value.get_ref(),
            })
            .collect();
        fields.sort_by_key(|field| field.key_at);
        for field in &fields {
            // A table's problems are about its name: `[services.v1]`.
            self.place(&field.path, if field.value.is_table() { field.key_at } else { field.at });
        }
        fields
    }

    /// The fields of a value that should be a table.
    pub fn table<'t>(&mut self, field: &Field<'t>) -> Vec<Field<'t>> {
        match field.value {
            DeValue::Table(table) => self.fields(&field.path, table),
            other => {
                let hint = format!("write [{}], with its keys below", field.path);
                self.wrong_kind(field, "a table", other, hint);
                Vec::new()
            }
        }
    }

    /// The items of a value that should be an array.
    pub fn items<'t>(&mut self, field: &Field<'t>, example: &str) -> Vec<Field<'t>> {
        let DeValue::Array(array) = field.value else {
            self.wrong_kind(field, "an array", field.value, format!("write {example}"));
            return Vec::new();
        };
        let item = |(index, item): (usize, &'t Spanned<DeValue<'t>>)| Field {
            path: format!("{}[{index}]", field.path),
            at: item.span().start,
            value: item.get_ref(),
            ..field.clone()
        };
        array.iter().enumerate().map(item).collect()
    }

    /// The fields of an item, if it is a table.
    pub fn item_table<'t>(&mut self, item: &Field<'t>, example: &str) -> Option<Vec<Field<'t>>> {
        if item.value.is_table() {
            return Some(self.table(item));
        }
        self.wrong_kind(item, "an array of tables", item.value, format!("write {example}"));
        None
    }

    /// Reports an item that lacks a key.
    pub fn must_have(&mut self, item: &Field<'_>, fields: &[Field<'_>], key: &str, example: &str) {
        if !fields.iter().any(|field| field.name == key) {
            self.fault(item.at, format!("{} has no `{key}`", item.path), format!("add {example}"));
        }
    }

    pub(super) fn text<'t>(&mut self, field: &Field<'t>) -> Option<Text<'t>> {
        let DeValue::String(written) = field.value else {
            self.wrong_kind(field, "a string", field.value, "put it in quotes".to_owned());
            return None;
        };
        match expand(written, self.env) {
            Ok(value) => {
                let text = Text { value, written };
                if text.is_expanded()
                    && let Some(place) = self.places.get_mut(&field.path)
                {
                    place.expanded = Some((text.written.to_owned(), text.value.clone()));
                }
                Some(text)
            }
            Err((message, hint)) => {
                self.fault(field.at, message, hint);
                None
            }
        }
    }

    /// A string, its variables put in.
    pub fn string(&mut self, field: &Field<'_>) -> Option<String> {
        self.text(field).map(|text| text.value)
    }

    /// One of a few names.
    pub fn choice<T: Copy>(&mut self, field: &Field<'_>, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(field)?;
        let found = choices.iter().find(|(name, _)| *name == text.value);
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let hint = did_you_mean_or_list(&text.value, &names);
            self.fault(field.at, format!("unknown {} {}", field.name, quoted(text.written)), hint);
        }
        found.map(|(_, choice)| *choice)
    }

    /// True or false.
    pub fn flag(&mut self, field: &Field<'_>) -> Option<bool> {
        if let DeValue::Boolean(flag) = field.value {
            return Some(*flag);
        }
        self.wrong_kind(field, "a boolean", field.value, "write true or false".to_owned());
        None
    }

    /// A whole number: `100`, `"10k"`.
    pub fn count(&mut self, field: &Field<'_>) -> Option<u64> {
        self.integer_or_text(field, &COUNT, parse_count)
    }

    /// The same below 2^32.
    pub fn count_u32(&mut self, field: &Field<'_>) -> Option<u32> {
        self.count_up_to(field, u32::MAX)
    }

    /// A count that fits its type.
    pub(super) fn count_up_to<T: TryFrom<u64> + fmt::Display>(
        &mut self,
        field: &Field<'_>,
        most: T,
    ) -> Option<T> {
        let count = self.count(field)?;
        let fits = T::try_from(count).ok();
        if fits.is_none() {
            self.fault(field.at, format!("{count} is too large: at most {most}"), None);
        }
        fits
    }

    /// A number of bytes: `"5MB"`.
    pub fn size(&mut self, field: &Field<'_>) -> Option<u64> {
        self.integer_or_text(field, &SIZE, parse_size)
    }

    /// A stretch of time: `"250ms"`, or `0`.
    pub fn duration(&mut self, field: &Field<'_>) -> Option<Duration> {
        match field.value {
            DeValue::Integer(integer) if whole(integer) == Some(0) => Some(Duration::ZERO),
            DeValue::String(_) => {
                let text = self.text(field)?;
                self.read(field, &text, &DURATION, parse_duration)
            }
            DeValue::Integer(integer) => {
                let hint = format!("write the unit: \"{integer}s\" or \"{integer}ms\"");
                self.wrong_kind(field, DURATION.name, field.value, hint);
                None
            }
            other => {
                self.wrong_kind(field, DURATION.name, other, DURATION.example.to_owned());
                None
            }
        }
    }

    /// A number that may have a fraction; whether it is in range is for the checks.
    pub fn number(&mut self, field: &Field<'_>) -> Option<f64> {
        let not_a_number = |text: &str| UnitError::new(format!("{} is not a number", quoted(text)));
        match field.value {
            // What does not even fit 128 bits is out of every range, as infinity is.
            DeValue::Integer(integer) => Some(whole(integer).map_or(f64::INFINITY, |number| number as f64)),
            DeValue::Float(float) => Some(float.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::String(_) => {
                let text = self.text(field)?;
                self.read(field, &text, &NUMBER, |text| text.trim().parse().map_err(|_| not_a_number(text)))
            }
            other => {
                self.wrong_kind(field, NUMBER.name, other, NUMBER.example.to_owned());
                None
            }
        }
    }

    /// A value of the caller's own kind, written as a string or a number.
    pub fn parse<T>(
        &mut self,
        field: &Field<'_>,
        kind: &Kind,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Option<T> {
        let number = match field.value {
            DeValue::String(_) => {
                let text = self.text(field)?;
                return self.read(field, &text, kind, parse);
            }
            DeValue::Integer(integer) => match whole(integer) {
                Some(number) => number.to_string(),
                None => integer.as_str().to_owned(),
            },
            DeValue::Float(float) => float.as_str().to_owned(),
            other => {
                self.wrong_kind(field, kind.name, other, kind.example.to_owned());
                return None;
            }
        };
        self.read(field, &Text { value: number.clone(), written: &number }, kind, parse)
    }

    fn integer_or_text(
        &mut self,
        field: &Field<'_>,
        kind: &Kind,
        parse: fn(&str) -> Result<u64, UnitError>,
    ) -> Option<u64> {
        match field.value {
            DeValue::Integer(integer) => match whole(integer) {
                Some(negative) if negative < 0 => {
                    let message = format!("`{}` must not be negative", field.name);
                    self.fault(field.at, message, kind.example.to_owned());
                    None
                }
                Some(number) if number <= i128::from(MAX_UNITS) => u64::try_from(number).ok(),
                _ => {
                    self.fault(
                        field.at,
                        format!("{} is too large: at most 2^63", quoted(integer.as_str())),
                        None,
                    );
                    None
                }
            },
            DeValue::String(_) => {
                let text = self.text(field)?;
                self.read(field, &text, kind, parse)
            }
            other => {
                self.wrong_kind(field, kind.name, other, kind.example.to_owned());
                None
            }
        }
    }

    /// Reads a string's value, and says what is wrong with it without repeating what a variable held.
    pub(super) fn read<T>(
        &mut self,
        field: &Field<'_>,
        text: &Text<'_>,
        kind: &Kind,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Option<T> {
        parse(&text.value)
            .map_err(|error| {
                if text.is_expanded() {
                    let message = format!("{} does not expand to {}", quoted(text.written), kind.name);
                    self.fault(field.at, message, kind.example.to_owned());
                } else {
                    let hint = error.hint().unwrap_or(kind.example).to_owned();
                    self.fault(field.at, error.message(), hint);
                }
            })
            .ok()
    }

    pub(super) fn wrong_kind(
        &mut self,
        field: &Field<'_>,
        expected: &str,
        found: &DeValue<'_>,
        hint: String,
    ) {
        let found = match found {
            DeValue::Array(_) => "an array".into(),
            DeValue::Integer(_) => "an integer".into(),
            other => format!("a {}", other.type_str()),
        };
        self.fault(field.at, format!("`{}` must be {expected}, not {found}", field.name), hint);
    }
}

fn whole(integer: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}
