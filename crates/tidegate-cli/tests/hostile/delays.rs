//! How long a request may have been under way before the upstream saw it.
//!
//! The sidecar counts a request from when it leaves; an upstream stamps it when its head is parsed. On a busy machine
//! other work runs in between, so requests that left within a limit may arrive closer together than that limit says. The
//! judge must not call that an overshoot, and must not take the sidecar's own word for when a request left either: a
//! request that waits inside the sidecar after it was counted is one of the faults that this campaign looks for.
//!
//! So the delay is measured from outside. Probes go the whole way, through the sidecar to an upstream in this process and
//! back, on connections of their own and under no limit. A stall of either process, or of the machine, shows in the round
//! trips of the probes that meet it. A request is taken to have left at most `FLOOR` and twice the longest round trip near
//! it before it arrived. Twice, since a stalled thread need not be the one that carries a probe.
//!
//! A pause by SIGSTOP is known to the world, and not measured: only a request that arrives within that delay after the
//! sidecar goes on may have left before it was stopped. All others must have left after.

use std::time::Duration;

use super::records::{At, Seen};

/// What is allowed on an idle machine: a few time slices of its scheduler.
const FLOOR: Duration = Duration::from_millis(20);
/// How near a probe must be to say something about an arrival.
const NEAR: Duration = Duration::from_millis(150);

pub struct Delays {
    /// Round trips outside pauses, by when they began.
    probes: Vec<(At, At)>,
    pauses: Vec<(At, At)>,
}

impl Delays {
    pub fn of(seen: &Seen) -> Delays {
        let touches_pause =
            |from: At, to: At| seen.pauses.iter().any(|(stop, go)| from <= *go && to >= *stop);
        let whole = seen.probes.iter().filter_map(|(from, to)| Some((*from, (*to)?)));
        let mut probes: Vec<_> = whole.filter(|(from, to)| !touches_pause(*from, *to)).collect();
        probes.sort_unstable();
        Delays { probes, pauses: seen.pauses.clone() }
    }

    /// The longest delay of what arrives then, pauses apart.
    pub fn around(&self, at: At) -> Duration {
        let (from, to) = (at.saturating_sub(NEAR), at + NEAR);
        // No round trip takes so long that it matters where the search begins, except one that is itself the longest.
        let near = self.probes.iter().take_while(|(sent, _)| *sent <= to).filter(|(_, back)| *back >= from);
        FLOOR + 2 * near.map(|(sent, back)| *back - *sent).max().unwrap_or_default()
    }

    /// The longest in a stretch of time, pauses apart.
    pub fn between(&self, from: At, to: At) -> Duration {
        let met = self.probes.iter().take_while(|(sent, _)| *sent <= to).filter(|(_, back)| *back >= from);
        FLOOR + met.map(|(sent, back)| *back - *sent).max().unwrap_or_default()
    }

    /// The longest of all.
    pub fn longest(&self) -> Duration {
        self.probes.iter().map(|(sent, back)| *back - *sent).max().unwrap_or_default()
    }

    /// The earliest time at which what arrived at `at` may have left.
    pub fn earliest(&self, at: At) -> At {
        let mut earliest = at.saturating_sub(self.around(at));
        // Latest first: what one pause takes back may reach another.
        for (stop, go) in self.pauses.iter().rev() {
            if earliest <= *go && at >= *stop {
                earliest = earliest.min(stop.saturating_sub(self.around(*stop)));
            }
        }
        earliest
    }

    /// How long the sidecar was stopped in that stretch.
    pub fn paused(&self, from: At, to: At) -> Duration {
        let overlap = |(stop, go): &(At, At)| (*go).min(to).saturating_sub((*stop).max(from));
        self.pauses.iter().map(overlap).sum()
    }
}
