//! Recorded calls: CSV with a header line, or a JSON object on each line, with the same names.
//!
//! `at` is seconds, a duration or an RFC 3339 time, of one kind in all lines, and counts from the earliest.
//! `loop`, `loop_type`, `priority`, `model`, `runs` and the units of limits are optional, empty or null where
//! the workload's own hold.

mod csv;

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tidegate_core::config::units::{parse_duration, parse_units_of};
use tidegate_core::{Dimension, Priority};

use crate::scenario::TracedCall;

/// Mistakes that are told; more of them are seldom new.
const MISTAKES: usize = 10;

/// Why a trace could not be had.
#[derive(Debug)]
pub enum TraceError {
    /// The file could not be read.
    Unreadable(io::Error),
    /// Lines that are wrong, from 1, and what is wrong with them.
    Wrong(Vec<(usize, String)>),
}

/// Reads a trace, sorted by time.
pub fn load(path: &Path, dimensions: &[Dimension]) -> Result<Vec<TracedCall>, TraceError> {
    let text = std::fs::read_to_string(path).map_err(TraceError::Unreadable)?;
    parse(&text, dimensions)
}

fn parse(text: &str, dimensions: &[Dimension]) -> Result<Vec<TracedCall>, TraceError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_json = text.trim_start().starts_with('{');
    let mut reader = TraceReader { dimensions, calls: Vec::new(), wrong: Vec::new() };
    if is_json {
        reader.json_lines(text)
    } else {
        reader.csv(text)
    }
    if reader.wrong.is_empty() && reader.calls.is_empty() {
        reader.wrong.push((1, "there are no calls in it".into()));
    }
    if reader.wrong.is_empty() { reader.finish() } else { Err(TraceError::Wrong(reader.wrong)) }
}

/// When a call came, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    /// Since a beginning that the trace does not name.
    Since(u64),
    /// Since 1970.
    Wall(i128),
}

struct TraceReader<'d> {
    dimensions: &'d [Dimension],
    /// With the line of each.
    calls: Vec<(usize, At, TracedCall)>,
    wrong: Vec<(usize, String)>,
}

impl TraceReader<'_> {
    fn csv(&mut self, text: &str) {
        let mut names = Vec::new();
        for (line, record) in csv::records(text) {
            match record {
                Err(message) => self.mistake(line, message),
                Ok(cells) if names.is_empty() => {
                    names = cells.into_iter().map(|name| name.trim().to_owned()).collect();
                    if let Some(unknown) = names.iter().find(|name| !self.is_known(name)) {
                        self.mistake(line, self.unknown(unknown));
                        return;
                    }
                    if !names.iter().any(|name| name == "at") {
                        self.mistake(line, "there is no column `at`".into());
                        return;
                    }
                }
                Ok(cells) if cells.len() != names.len() => {
                    let message = format!("{} cells where the header has {}", cells.len(), names.len());
                    self.mistake(line, message);
                }
                Ok(cells) => {
                    let cells = names.iter().map(String::as_str).zip(cells.iter().map(|cell| cell.trim()));
                    self.call(line, cells.filter(|(_, cell)| !cell.is_empty()));
                }
            }
        }
    }

    fn json_lines(&mut self, text: &str) {
        for (index, written) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line = index + 1;
            let fields = match serde_json::from_str::<Value>(written) {
                Ok(Value::Object(fields)) => fields,
                Ok(_) => {
                    self.mistake(line, "this is not an object".into());
                    continue;
                }
                Err(error) => {
                    self.mistake(line, format!("not valid JSON at column {}", error.column()));
                    continue;
                }
            };
            let cells: Vec<(String, String)> = fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| match value {
                    Value::String(text) => (name, text),
                    other => (name, other.to_string()),
                })
                .collect();
            self.call(line, cells.iter().map(|(name, cell)| (name.as_str(), cell.as_str())));
        }
    }

    fn call<'c>(&mut self, line: usize, cells: impl Iterator<Item = (&'c str, &'c str)>) {
        let (mut at, mut call) = (None, TracedCall::default());
        for (name, cell) in cells {
            if let Err(message) = self.cell(&mut at, &mut call, name, cell) {
                self.mistake(line, message);
                return;
            }
        }
        match at {
            Some(at) => self.calls.push((line, at, call)),
            None => self.mistake(line, "it does not say when: `at` is missing".into()),
        }
    }

    fn cell(&self, at: &mut Option<At>, call: &mut TracedCall, name: &str, cell: &str) -> Result<(), String> {
        match name {
            "at" => *at = Some(moment(cell)?),
            "loop" => call.loop_id = Some(cell.into()),
            "loop_type" => call.loop_type = Some(cell.into()),
            "model" => call.model = Some(cell.into()),
            "priority" => call.priority = Some(cell.parse::<Priority>().map_err(|error| error.to_string())?),
            "runs" => call.runs = Some(span(cell)?),
            unit => {
                let dimension = self.dimensions.iter().find(|dimension| dimension.name() == unit);
                let dimension = dimension.ok_or_else(|| self.unknown(unit))?;
                let units = parse_units_of(cell, dimension).map_err(|error| error.to_string())?;
                call.cost.push((dimension.clone(), units));
            }
        }
        Ok(())
    }

    /// The calls in order, each by its time since the first.
    fn finish(mut self) -> Result<Vec<TracedCall>, TraceError> {
        let wall = |at: &At| matches!(at, At::Wall(_));
        let first_kind = self.calls.first().is_some_and(|(_, at, _)| wall(at));
        if let Some((line, ..)) = self.calls.iter().find(|(_, at, _)| wall(at) != first_kind) {
            let message = "its `at` is of another kind than that of the first call".to_owned();
            return Err(TraceError::Wrong(vec![(*line, message)]));
        }
        self.calls.sort_by_key(|(_, at, _)| *at);
        let first = self.calls.first().map_or(At::Since(0), |(_, at, _)| *at);
        let since = |at| match (at, first) {
            (At::Wall(at), At::Wall(first)) => u64::try_from(at - first).unwrap_or(u64::MAX),
            (At::Since(at), At::Since(first)) => at - first,
            _ => 0,
        };
        let timed = |(_, at, call)| TracedCall { at: Duration::from_nanos(since(at)), ..call };
        Ok(self.calls.into_iter().map(timed).collect())
    }

    fn is_known(&self, name: &str) -> bool {
        ["at", "loop", "loop_type", "priority", "model", "runs"].contains(&name)
            || self.dimensions.iter().any(|dimension| dimension.name() == name)
    }

    fn unknown(&self, name: &str) -> String {
        let units: Vec<&str> = self.dimensions.iter().map(Dimension::name).collect();
        format!(
            "unknown column `{name}`: there are at, loop, loop_type, priority, model, runs, {}",
            units.join(", ")
        )
    }

    fn mistake(&mut self, line: usize, message: String) {
        if self.wrong.len() < MISTAKES {
            self.wrong.push((line, message));
        }
    }
}

fn moment(text: &str) -> Result<At, String> {
    if let Some(nanos) = seconds(text) {
        return Ok(At::Since(nanos));
    }
    if text.contains('T') || text.contains(' ') {
        let time: Result<jiff::Timestamp, _> = text.parse();
        return time
            .map(|time| At::Wall(time.as_nanosecond()))
            .map_err(|_| format!("`{text}` is not a time"));
    }
    span(text).map(|span| At::Since(tidegate_core::whole_nanos(span)))
}

/// A stretch of time; a bare number is seconds.
fn span(text: &str) -> Result<Duration, String> {
    match seconds(text) {
        Some(nanos) => Ok(Duration::from_nanos(nanos)),
        None => parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// `12`, `0.25`: exact to the nanosecond, which a float of seconds since 1970 would not be.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}")[..9].parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests;
