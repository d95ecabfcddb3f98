//! What every section is read with: the walk over the document, the config beside it, and values that several
//! sections have.

use std::path::Path;
use std::time::Duration;

use tidegate_core::Config;
use tidegate_core::config::{Field, Walk};

/// Loops, workers of a loop and calls at once that a machine can bear; of all workers ten times as many.
pub(super) const MOST: u64 = 1_000_000;

/// Reads a `[simulation]` beside its config.
pub(super) struct Reader<'r, 'w> {
    pub walk: &'r mut Walk<'w>,
    pub config: &'r Config,
    /// Where traces are.
    pub dir: &'r Path,
}

impl Reader<'_, '_> {
    /// Reads a duration that is not zero.
    pub fn some_time(&mut self, field: &Field<'_>) -> Option<Duration> {
        let time = self.walk.duration(field)?;
        if time.is_zero() {
            self.walk.fault(
                field.at,
                format!("`{}` must not be 0", field.name),
                "write it like \"30s\"".to_owned(),
            );
            return None;
        }
        Some(time)
    }

    /// Reads a time before the end of a simulation of `duration`.
    pub fn within(&mut self, field: &Field<'_>, duration: Duration) -> Option<Duration> {
        let at = self.walk.duration(field)?;
        if at >= duration {
            let message = format!("`{}` is not before the end of the simulation", field.name);
            self.walk.fault(field.at, message, format!("it lasts {duration:?}"));
            return None;
        }
        Some(at)
    }

    /// Reads when something begins and ends; `until` may be beyond the end.
    pub fn span(
        &mut self,
        from: Option<&Field<'_>>,
        until: Option<&Field<'_>>,
        duration: Duration,
    ) -> (Duration, Option<Duration>) {
        let begins = from.and_then(|field| self.within(field, duration)).unwrap_or_default();
        let ends = until.and_then(|field| self.walk.duration(field).map(|ends| (field, ends)));
        if let Some((field, ends)) = ends
            && ends <= begins
        {
            self.walk.fault(field.at, "`until` is not after `from`", format!("it begins at {begins:?}"));
        }
        (begins, ends.map(|(_, ends)| ends))
    }

    /// Reads a share from 0 to 1.
    pub fn share(&mut self, field: &Field<'_>) -> Option<f64> {
        let share = self.walk.number(field)?;
        if !(0.0..=1.0).contains(&share) {
            let message = format!("a share of {share} is not between 0 and 1");
            self.walk.fault(field.at, message, "write 10 % as 0.1".to_owned());
            return None;
        }
        Some(share)
    }

    /// Reads a whole number above zero.
    pub fn some(&mut self, field: &Field<'_>) -> Option<u64> {
        let count = self.walk.count(field)?;
        if count == 0 {
            self.walk.fault(field.at, format!("`{}` must not be 0", field.name), "use at least 1".to_owned());
            return None;
        }
        Some(count)
    }

    /// Reads a number of things that exist at the same time.
    pub fn crowd(&mut self, field: &Field<'_>) -> Option<u64> {
        let count = self.walk.count(field)?;
        if count > MOST {
            let message = format!("{count} are more than can be simulated");
            self.walk.fault(field.at, message, format!("use up to {MOST}"));
            return None;
        }
        Some(count)
    }

    /// Reads such a number above zero.
    pub fn some_crowd(&mut self, field: &Field<'_>) -> Option<u64> {
        self.some(field).and_then(|_| self.crowd(field))
    }

    /// Reads the fields of an item and faults those that are not `known`.
    pub fn item<'t>(&mut self, section: &Field<'t>, known: &[&str], example: &str) -> Option<Vec<Field<'t>>> {
        let fields = self.walk.item_table(section, example)?;
        for field in fields.iter().filter(|field| !known.contains(&field.name)) {
            self.walk.no_such_key(field, &section.path, known);
        }
        Some(fields)
    }
}
