//! Quantities that vary: `"50ms"`, `"20ms..80ms"`, `{ p50 = "30ms", p99 = "200ms" }`.

use tidegate_core::Dimension;
use tidegate_core::config::units::{UnitError, parse_duration, parse_units_of};
use tidegate_core::config::{Field, Kind};
use tidegate_core::time::whole_nanos;

use super::Reader;
use crate::spread::Spread;

const TIMES: Kind = Kind {
    name: "a duration or a spread of them",
    example: "write it like \"50ms\", \"20ms..80ms\" or { p50 = \"30ms\", p99 = \"200ms\" }",
};
const UNITS: Kind = Kind {
    name: "a number or a spread of them",
    example: "write it like 500, \"200..2000\" or { p50 = 400, p99 = 3000 }",
};
const TAIL: &[&str] = &["p50", "p99"];

impl Reader<'_, '_> {
    /// A stretch of time.
    pub fn times(&mut self, field: &Field<'_>) -> Option<Spread> {
        self.spread(field, &TIMES, |text| Ok(whole_nanos(parse_duration(text)?)))
    }

    /// So much of a dimension.
    pub fn units(&mut self, field: &Field<'_>, dimension: &Dimension) -> Option<Spread> {
        self.spread(field, &UNITS, |text| parse_units_of(text, dimension))
    }

    /// Whole per cent.
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
            return self.tail(field, kind, parse);
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

    /// `{ p50 = …, p99 = … }`
    fn tail(
        &mut self,
        section: &Field<'_>,
        kind: &Kind,
        parse: impl Fn(&str) -> Result<u64, UnitError>,
    ) -> Option<Spread> {
        let fields = self.walk.table(section);
        for field in fields.iter().filter(|field| !TAIL.contains(&field.name)) {
            self.walk.no_such_key(field, &section.path, TAIL);
        }
        let mut value = |name: &str| {
            self.walk.must_have(section, &fields, name, "both p50 and p99");
            let field = fields.iter().find(|field| field.name == name)?;
            Some((field, self.walk.parse(field, kind, &parse)?))
        };
        let (low, high) = (value("p50"), value("p99"));
        let ((low, p50), (high, p99)) = (low?, high?);
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
}
