//! Spans of time in which something was so, and how long that was in all.

use std::time::Duration;

use tidegate_core::Nanos;

/// Spans in the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    spans: Vec<(Nanos, Nanos)>,
    /// What lies between spans that became one.
    gaps: Duration,
}

impl Spans {
    /// It is so from now until then at least. Spans closer together than `grain` become one, so that however long a
    /// run, there are not too many.
    pub fn extend(&mut self, until: Nanos, now: Nanos, grain: Duration) {
        match self.spans.last_mut() {
            Some((_, last)) if last.after(grain) >= now => {
                self.gaps += now.since(*last);
                *last = until.max(*last);
            }
            _ => self.spans.push((now, until)),
        }
    }

    /// It is so until then at most.
    pub fn cut(&mut self, until: Nanos) {
        if let Some((_, last)) = self.spans.last_mut() {
            *last = until.min(*last);
        }
    }

    /// How long it was so, and when, up to `end`.
    pub fn finish(mut self, end: Nanos) -> (Duration, Vec<(Duration, Duration)>) {
        self.cut(end);
        let all: Duration = self.spans.iter().map(|(from, until)| until.since(*from)).sum();
        let spans =
            self.spans.iter().map(|(from, until)| (from.since(Nanos::ZERO), until.since(Nanos::ZERO)));
        (all.saturating_sub(self.gaps), spans.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Nanos {
        Nanos::ZERO.after(Duration::from_secs(n))
    }

    #[test]
    fn what_is_close_together_is_one_span_and_counts_without_its_gaps() {
        let grain = Duration::from_secs(5);
        let mut spans = Spans::default();
        spans.extend(second(20), second(10), grain);
        spans.extend(second(15), second(12), grain);
        spans.extend(second(30), second(24), grain);
        spans.extend(second(90), second(60), grain);
        spans.cut(second(80));
        let (all, shown) = spans.finish(second(70));
        assert_eq!(all, Duration::from_secs(10 + 6 + 10));
        assert_eq!(
            shown,
            [(10, 30), (60, 70)]
                .map(|(from, to)| (second(from), second(to)))
                .map(|(from, to)| { (from.since(Nanos::ZERO), to.since(Nanos::ZERO)) })
        );
    }
}
