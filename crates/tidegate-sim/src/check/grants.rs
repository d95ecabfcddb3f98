//! What grants take: every limit's definition holds over its book, and nobody goes who has to stay away.

use tidegate_core::engine::Terms;
use tidegate_core::{Engine, Nanos};

use super::{Broken, Happening, Judge};
use crate::report::Invariant;
use crate::routes::Routes;

impl Judge {
    pub(super) fn note_grants(
        &mut self,
        routes: &Routes,
        event: &Happening,
        now: Nanos,
    ) -> Result<(), Broken> {
        if event.granted.is_empty() {
            return Ok(());
        }
        for &call in &event.granted {
            self.stays_away(call, routes, now)?;
        }
        self.check_budgets(routes, &event.granted)?;
        // Age may let one pass a call of a higher class that waits, and then what is kept for that.
        let highest = self.roll.highest().max(event.newcomer.map(|call| self.class(call, routes)));
        let mut granted = event.granted.clone();
        // Whatever their order was, the lower ones had to leave alone what is kept for the higher.
        granted.sort_by_key(|call| self.class(*call, routes));
        for &call in &granted {
            let record = &mut self.calls[call as usize];
            if std::mem::replace(&mut record.in_flight, true) {
                return Err((Invariant::Conservation, format!("call {} was let go twice", record.no)));
            }
            if record.deadline < now && self.late == 0 {
                return Err((Invariant::NoStarvation, format!("call {} went after its timeout", record.no)));
            }
            record.granted = now;
            let kind = routes.kind(record.kind);
            let class = highest.map_or(kind.class, |highest| highest.max(kind.class));
            for (at, used) in kind.limits.iter().enumerate() {
                let desk = &mut self.desks[used.limit as usize];
                let cost = record.costs[at];
                record.marks.push(desk.book.take(cost, now));
                if kind.observed {
                    continue;
                }
                desk.book.check(cost, used.withheld[class as usize]).map_err(|wrong| {
                    let (no, name) = (record.no, routes.name(used.limit));
                    (Invariant::NoOvershoot, format!("call {no} overshoots `{name}`: {wrong}"))
                })?;
            }
            self.takes_throttled(call, routes, now)?;
        }
        Ok(())
    }

    /// A call goes: windows and breakers let it, and from now on it is known how.
    fn stays_away(&mut self, call: u32, routes: &Routes, now: Nanos) -> Result<(), Broken> {
        let record = &mut self.calls[call as usize];
        let kind = routes.kind(record.kind);
        self.windows.goes(record.kind, kind, &record.costs, routes, now)?;
        record.pass = self.breakers.goes(kind, now)?;
        record.throttled = self.windows.throttle(record.kind, kind, routes, now);
        if record.throttled {
            // Its bytes in flight count several times, and that many come back.
            for (used, cost) in kind.limits.iter().zip(&mut record.costs) {
                if matches!(routes.terms(used.limit), Terms::ByteBudget(_)) {
                    *cost = cost.saturating_mul(kind.after.backoff.byte_penalty_multiplier.max(1).into());
                }
            }
        }
        Ok(())
    }

    /// A throttled call takes a slot of every limit on such calls.
    fn takes_throttled(&mut self, call: u32, routes: &Routes, now: Nanos) -> Result<(), Broken> {
        let record = &self.calls[call as usize];
        let kind = routes.kind(record.kind);
        if !record.throttled {
            return Ok(());
        }
        for &limit in &kind.throttles {
            let book = &mut self.desks[limit as usize].book;
            book.take(1, now);
            let checked = if kind.observed { Ok(()) } else { book.check(1, 0) };
            checked.map_err(|wrong| {
                let message = format!("call {} overshoots `{}`: {wrong}", record.no, routes.name(limit));
                (Invariant::NoOvershoot, message)
            })?;
        }
        self.throttles.extend(&kind.throttles);
        Ok(())
    }

    /// A call that went throttled gives its slots back, though others may no longer go so.
    pub(super) fn gives_back_throttled(&mut self, call: u32, routes: &Routes) -> Result<(), Broken> {
        let record = &mut self.calls[call as usize];
        if !std::mem::take(&mut record.throttled) {
            return Ok(());
        }
        for &limit in &routes.kind(record.kind).throttles {
            let ended = self.desks[limit as usize].book.give_back(1);
            ended.map_err(|wrong| (Invariant::Conservation, format!("`{}`: {wrong}", routes.name(limit))))?;
            self.throttles.push(limit);
        }
        Ok(())
    }

    /// What the engine says is used by throttled calls must be what the books say, where that has changed.
    pub(super) fn compare_throttles(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        now: Nanos,
    ) -> Result<(), Broken> {
        self.throttles.sort_unstable();
        self.throttles.dedup();
        for limit in self.throttles.drain(..) {
            let (name, book) = (routes.name(limit), self.desks[limit as usize].book.used().0);
            let said = engine.limit(name, now).map_or(0, |said| said.used);
            if said != book {
                let message = format!("`{name}` says that {said} are used; by its book {book}");
                return Err((Invariant::Conservation, message));
            }
        }
        Ok(())
    }

    fn check_budgets(&mut self, routes: &Routes, granted: &[u32]) -> Result<(), Broken> {
        let mut batches: Vec<(u32, u64, u64)> = Vec::new();
        for &call in granted {
            let record = &self.calls[call as usize];
            let kind = routes.kind(record.kind);
            for (used, cost) in kind.limits.iter().zip(&record.costs) {
                if used.in_flight && used.dimension.is_some() && !kind.observed {
                    match batches.iter_mut().find(|batch| batch.0 == used.limit) {
                        Some(batch) => (batch.1, batch.2) = (batch.1 + cost, batch.2.max(*cost)),
                        None => batches.push((used.limit, *cost, *cost)),
                    }
                }
            }
        }
        for (limit, sum, largest) in batches {
            let checked = self.desks[limit as usize].book.check_budget(sum, largest);
            checked
                .map_err(|wrong| (Invariant::NoOvershoot, format!("`{}`: {wrong}", routes.name(limit))))?;
        }
        Ok(())
    }
}
