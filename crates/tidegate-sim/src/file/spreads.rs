//! Quantities that vary: `"50ms"`, `"20ms..80ms"`, `{ from = 200, to = 4000, log = true }`,
//! `{ p50 = "30ms", p99 = "200ms" }`.

use tidegate_core::config::units::{UnitError, parse_duration, parse_units_of};
use tidegate_core::config::{Field, Kind};
use tidegate_core::{Dimension, whole_nanos};

use super::reader::Reader;
use crate::spread::Spread;

const TIMES: Kind = Kind {
    name: "a duration or a spread of them",
    example: "write it like \"50ms\", \"20ms..80ms\" or { p50 = \"30ms\", p99 = \"200ms\" }",
};
const UNITS: Kind = Kind {
    name: "a number or a spread of them",
    example: "write it like 500, \"200..2000\" or { p50 = 400, p99 = 3000 }",
};
/// A field, and what it says.
type Value<'f, 't> = (&'f Field<'t>, u64);

const TAIL: &[&str] = &["p50", "p99"];
const RANGE: &[&str] = &["from", "to", "log"];

impl Reader<'_, '_> {
    /// Reads a duration, or a spread of them, in nanoseconds.
    pub fn times(&mut self, field: &Field<'_>) -> Option<Spread> {
        self.spread(field, &TIMES, |text| Ok(whole_nanos(parse_duration(text)?)))
    }

    /// Reads units of a dimension, or a spread of them.
    pub fn units(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<Spread> {
        self.spread(field, &UNITS, |text| parse_units_of(text, dimension))
    }

    /// Reads whole per cent, or a spread of them.
    pub fn per_cent(&mut self, field: &Field<'_>) -> Option<Spread> {
        self.units(field, &Dimension::Requests)
    }

    fn spread(
        &mut self,
        field: &Field<'_>,
        kind: &Kind,
        parse: impl Fn(&str) -> Result<u64, UnitError>,
    ) -> Option<Spread> {
        if field.is_table() {
            let fields = self.walk.table(field);
            let is_range = fields.iter().any(|field| RANGE.contains(&field.name));
            return if is_range {
                self.range(field, &fields, kind, parse)
            } else {
                self.tail(field, &fields, kind, parse)
            };
        }
        self.walk.parse(field, kind, |text| match text.split_once("..") {
            None => parse(text).map(Spread::Exactly),
            Some((from, to)) => {
                let (from, to) = (parse(from)?, parse(to)?);
                if from > to {
                    let hint = "write the smaller one first".to_owned();
                    return Err(UnitError::new(format!("`{text}` goes backwards")).hint_with(hint));
                }
                Ok(Spread::Between(from, to))
            }
        })
    }

    /// `{ from = …, to = …, log = true }`
    fn range(
        &mut self,
        section: &Field<'_>,
        fields: &[Field<'_>],
        kind: &Kind,
        parse: impl Fn(&str) -> Result<u64, UnitError>,
    ) -> Option<Spread> {
        let ((low, from), (high, to)) = self.two(section, fields, RANGE, kind, parse)?;
        if to < from {
            self.walk.fault(
                high.at,
                "this range goes backwards",
                "write the smaller one as `from`".to_owned(),
            );
            return None;
        }
        let log = fields.iter().find(|field| field.name == "log").and_then(|field| self.walk.flag(field));
        match (log.unwrap_or(false), from) {
            (false, _) => Some(Spread::Between(from, to)),
            (true, 0) => {
                self.walk.fault(low.at, "0 has no size", "begin at 1 at least".to_owned());
                None
            }
            (true, _) => Some(Spread::LogBetween(from, to)),
        }
    }

    /// `{ p50 = …, p99 = … }`
    fn tail(
        &mut self,
        section: &Field<'_>,
        fields: &[Field<'_>],
        kind: &Kind,
        parse: impl Fn(&str) -> Result<u64, UnitError>,
    ) -> Option<Spread> {
        let ((low, p50), (high, p99)) = self.two(section, fields, TAIL, kind, parse)?;
        if p50 == 0 {
            self.walk.fault(low.at, "a median of 0 has no tail", "write a single value instead".to_owned());
            return None;
        }
        if p99 < p50 {
            self.walk.fault(high.at, "the p99 is below the p50", "write the larger one as p99".to_owned());
            return None;
        }
        Some(Spread::Tailed { p50, p99 })
    }

    /// The first two of some keys, which both must be there.
    fn two<'f, 't>(
        &mut self,
        section: &Field<'_>,
        fields: &'f [Field<'t>],
        keys: &[&str],
        kind: &Kind,
        parse: impl Fn(&str) -> Result<u64, UnitError>,
    ) -> Option<(Value<'f, 't>, Value<'f, 't>)> {
        for field in fields.iter().filter(|field| !keys.contains(&field.name)) {
            self.walk.no_such_key(field, &section.path, keys);
        }
        let mut value = |name: &str| {
            self.walk.must_have(section, fields, name, &format!("both {} and {}", keys[0], keys[1]));
            let field = fields.iter().find(|field| field.name == name)?;
            Some((field, self.walk.parse(field, kind, &parse)?))
        };
        let (first, second) = (value(keys[0]), value(keys[1]));
        Some((first?, second?))
    }
}
