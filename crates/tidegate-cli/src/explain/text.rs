//! An explained reply as text: what happened, what to do, what remains.

use std::fmt::Write as _;
use std::io::{self, Write};

use tidegate_core::reply::{Limit, Reading, Verdict, WaitSource};
use tidegate_core::vendors::by_name;

/// Writes an explained reply for people.
pub fn write(out: &mut impl Write, status: u16, reading: &Reading) -> io::Result<()> {
    writeln!(out, "{}", headline(status, reading))?;
    writeln!(out, "  {}", advice(reading))?;
    if let Some(vendor) = &reading.vendor {
        let scope = by_name(vendor).map(|vendor| vendor.scope).unwrap_or_default();
        let scope: Vec<&str> = scope.iter().map(|scope| scope.name()).collect();
        let counted =
            if scope.is_empty() { String::new() } else { format!(", counted per {}", scope.join(" and ")) };
        writeln!(out, "  read as {vendor}{counted}")?;
    }
    if let Some(model) = &reading.model {
        writeln!(out, "  about the model {model}")?;
    }
    for violated in &reading.violated {
        let limit = violated.limit.map(|limit| format!(" (limit {limit})")).unwrap_or_default();
        writeln!(out, "  violated: {}{limit}", violated.name)?;
    }
    for (title, limits) in [("limits", &reading.limits), ("limits told in the body", &reading.body_limits)] {
        if !limits.is_empty() {
            writeln!(out, "{title}:")?;
            write_limits(out, limits)?;
        }
    }
    if let Some(usage) = &reading.usage {
        let parts = [
            ("in", usage.input_tokens),
            ("of them from a cache", usage.cache_read_tokens),
            ("out", usage.output_tokens),
            ("of them reasoning", usage.reasoning_tokens),
            ("in all", usage.total_tokens),
        ];
        let parts: Vec<String> =
            parts.iter().filter_map(|(name, count)| count.map(|count| format!("{count} {name}"))).collect();
        writeln!(out, "tokens: {}", parts.join(", "))?;
    }
    Ok(())
}

fn headline(status: u16, reading: &Reading) -> String {
    match reading.verdict {
        Verdict::Ok if status < 400 => format!("ok ({status}): no limit stands in the way"),
        Verdict::Ok => format!("ok ({status}): the call failed, but not because of a limit"),
        Verdict::RateLimited => format!("rate limited ({status}): too fast, the same call passes later"),
        Verdict::Overloaded => format!(
            "overloaded ({status}): the upstream is short of capacity, your limits are not the reason"
        ),
        Verdict::ConcurrencyLimited => format!("concurrency limited ({status}): too many calls at once"),
        Verdict::QuotaExhausted => format!("quota exhausted ({status}): waiting does not help"),
    }
}

fn advice(reading: &Reading) -> String {
    if reading.verdict == Verdict::Ok && reading.should_retry.is_none() {
        return match reading
            .limits
            .iter()
            .filter(|limit| limit.is_exhausted())
            .filter_map(|limit| limit.reset_ms)
            .max()
        {
            Some(ms) => format!("but the next call should wait {}: a limit is used up", span(ms)),
            None => "go on".into(),
        };
    }
    if !reading.retry_makes_sense() {
        return match reading.should_retry {
            Some(_) => "do not retry: the upstream says so".into(),
            None => "do not retry: it needs another plan, more credit or a smaller request".into(),
        };
    }
    match reading.wait() {
        Some(wait) => {
            let who = match wait.from {
                WaitSource::RetryAfter => "the retry header says so",
                WaitSource::Reset => "then the limit is restored",
                WaitSource::Body => "the body says so",
            };
            format!("retry in {}: {who}", span(wait.ms))
        }
        None => "retry with growing pauses: the reply does not say when".into(),
    }
}

fn write_limits(out: &mut impl Write, limits: &[Limit]) -> io::Result<()> {
    let label = |limit: &Limit| match &limit.name {
        Some(name) => format!("{} ({name})", limit.kind),
        None => limit.kind.to_string(),
    };
    let width = limits.iter().map(|limit| label(limit).chars().count()).max().unwrap_or(0);
    for limit in limits {
        writeln!(out, "  {:<width$}  {}", label(limit), state(limit))?;
    }
    Ok(())
}

fn state(limit: &Limit) -> String {
    let mut text = match (limit.remaining, limit.limit) {
        (Some(left), Some(most)) => format!("{left} of {most} left"),
        (Some(left), None) => format!("{left} left"),
        (None, Some(most)) => format!("{most} allowed"),
        (None, None) => match limit.used {
            Some(used) => format!("{used} in use"),
            None => "no numbers".into(),
        },
    };
    if let Some(ms) = limit.window_ms {
        let _ = write!(text, ", per {}", span(ms));
    }
    if let Some(ms) = limit.reset_ms {
        let _ = write!(text, ", restored in {}", span(ms));
    }
    if let Some(cost) = limit.cost {
        let _ = write!(text, ", this call cost {cost}");
    }
    if limit.is_exhausted() {
        text.push_str("  <- used up");
    }
    text
}

/// Formats a duration with at most two units: `174 ms`, `6.6 s`, `2 min 59 s`, `33 h 39 min`.
fn span(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 if ms.is_multiple_of(1000) => format!("{seconds} s"),
        1000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ if seconds < 3600 => two(seconds / 60, "min", seconds % 60, "s"),
        _ if seconds < 48 * 3600 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "days", seconds % 86_400 / 3600, "h"),
    }
}

fn two(large: u64, large_name: &str, small: u64, small_name: &str) -> String {
    if small == 0 {
        format!("{large} {large_name}")
    } else {
        format!("{large} {large_name} {small} {small_name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_with_at_most_two_units() {
        assert_eq!(span(174), "174 ms");
        assert_eq!(span(6596), "6.6 s");
        assert_eq!(span(23_000), "23 s");
        assert_eq!(span(179_560), "3 min");
        assert_eq!(span(121_180_000), "33 h 39 min");
        assert_eq!(span(86_400_000), "24 h");
        assert_eq!(span(2_055_260_131), "23 days 18 h");
    }
}
