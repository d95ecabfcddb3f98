//! Behind the gate: a call reaches its upstream, is answered, and gives back what it holds.

use std::time::Duration;

use tidegate_core::Grant;

use super::calls::{Reply, Stage};
use super::story::Line;
use super::tally::Fate;
use super::{CallId, Event, Stop, World};
use crate::check::{End, Happening};
use crate::spread::Spread;
use crate::upstream::{Answer, Held};

/// After so long a reply that does not come is given up.
const LOST_AFTER: Duration = Duration::from_secs(60);

impl World<'_> {
    /// A call reaches its upstream.
    pub(super) fn reach(&mut self, id: CallId) -> Result<(), Stop> {
        let Some(place) = self.find(id) else { return Ok(()) };
        let service = self.routes.kind(self.calls[place as usize].kind).service;
        let grant = match std::mem::replace(&mut self.calls[place as usize].stage, Stage::Over) {
            Stage::Sent(grant) => Some(grant),
            // It had left when its process died.
            Stage::Orphan(_) => None,
            stage => {
                self.calls[place as usize].stage = stage;
                return Ok(());
            }
        };
        self.warm_up();
        let answer = match &mut self.upstreams[service] {
            Some(upstream) => Some(upstream.receive(&self.calls[place as usize].real, self.now)),
            None => None,
        };
        let spec = self.spec(place);
        let latency = match self.calls[place as usize].runs {
            Some(runs) => runs,
            None => spec.map_or(Spread::ZERO, |spec| spec.latency).draw_span(&mut self.wire),
        };
        let lost = spec.is_some_and(|spec| self.wire.happens(spec.lost));
        let (reply, status) = self.told(answer, lost, service);
        let no = self.calls[place as usize].no;
        self.note(Line::Reached { no, status });
        let after = match reply {
            Reply::Lost(_) => LOST_AFTER,
            _ => latency,
        };
        self.calls[place as usize].stage = match grant {
            Some(grant) => Stage::Answered(grant, reply),
            None => Stage::Orphan(reply.held()),
        };
        self.foresee(self.now.after(after), Event::Reply(id));
        Ok(())
    }

    /// Counts an upstream's answer.
    pub(super) fn told(&mut self, answer: Option<Answer>, lost: bool, service: usize) -> (Reply, u16) {
        let counts = self.tally.service(service);
        counts.sent += 1;
        match answer {
            Some(Answer::Refused(by)) => {
                self.tally.rejected(service, self.now);
                let says = self.scenario.upstreams.get(&self.service_names[service]);
                let tells = says.is_some_and(|spec| spec.headers != crate::scenario::HeaderStyle::None);
                (Reply::Refused(by.wait.filter(|_| tells)), 429)
            }
            Some(Answer::Failed(status)) => {
                self.tally.failed(service, self.now);
                (Reply::Failed, status)
            }
            accepted => {
                let held = match accepted {
                    Some(Answer::Accepted(held)) => Some(held),
                    _ => None,
                };
                counts.accepted += 1;
                counts.lost += u64::from(lost);
                (if lost { Reply::Lost(held) } else { Reply::Done(held) }, 200)
            }
        }
    }

    /// The reply is back, or nobody waits for it any more.
    pub(super) fn reply(&mut self, id: CallId) -> Result<(), Stop> {
        let Some(place) = self.find(id) else { return Ok(()) };
        match std::mem::replace(&mut self.calls[place as usize].stage, Stage::Over) {
            Stage::Orphan(held) => {
                self.end_upstream(place, held);
                self.vacate(place);
                Ok(())
            }
            Stage::Answered(grant, reply) => self.answered(place, grant, reply),
            stage => {
                self.calls[place as usize].stage = stage;
                Ok(())
            }
        }
    }

    pub(super) fn answered(&mut self, place: u32, grant: Grant, reply: Reply) -> Result<(), Stop> {
        let no = self.calls[place as usize].no;
        let (done, hint, refunds) = match reply {
            Reply::Done(held) => {
                self.end_upstream(place, held);
                (true, None, false)
            }
            Reply::Lost(held) => {
                self.end_upstream(place, held);
                (false, None, false)
            }
            Reply::Refused(wait) => (false, wait, !self.spec(place).is_some_and(|spec| spec.refused_cost)),
            Reply::Failed => (false, None, false),
        };
        let actual =
            (done && self.calls[place as usize].differs).then(|| self.calls[place as usize].real.clone());
        let event = if refunds {
            self.note(Line::Cancelled { no });
            self.settle(place, grant, &End::Cancelled)?
        } else {
            let keep = self.routes.kind(self.calls[place as usize].kind).keep;
            self.note(Line::Ended { no });
            self.settle(place, grant, &End::Finished { actual: actual.as_ref(), keep })?
        };
        self.collect(event)?;
        if done {
            self.over(place, Fate::Succeeded);
        } else {
            self.rest(place, hint);
        }
        Ok(())
    }

    /// Gives a grant back to the engine.
    pub(super) fn settle(&mut self, place: u32, grant: Grant, end: &End<'_>) -> Result<Happening, Stop> {
        let mut event = Happening { ended: Some(place), ..Happening::default() };
        let Some(engine) = &mut self.engine else { return Ok(event) };
        if let Some(judge) = &mut self.judge {
            match judge.ends(place, end, engine, &self.routes, self.now) {
                Ok(debt) => event.unsettled = debt,
                Err((invariant, message)) => return Err(self.broken(invariant, message)),
            }
        }
        let kind = self.routes.kind(self.calls[place as usize].kind);
        match end {
            End::Cancelled => engine.cancel(grant, self.now),
            End::Finished { actual, .. } => engine.finish(grant, *actual, self.now),
        }
        // What a limit was used for is what calls really cost, as far as it took notice.
        let estimated = self.scenario.workloads[self.calls[place as usize].source].estimated;
        self.routes.costs(
            self.calls[place as usize].kind,
            &self.calls[place as usize].call,
            estimated,
            &mut self.costs,
        );
        for (used, reserved) in kind.limits.iter().zip(&self.costs) {
            let change = i128::from(end.cost(used, *reserved)) - i128::from(*reserved);
            if change != 0 {
                self.tally.spent(used.limit, change, self.now);
            }
        }
        Ok(event)
    }

    pub(super) fn end_upstream(&mut self, place: u32, held: Option<Held>) {
        let state = &self.calls[place as usize];
        let service = self.routes.kind(state.kind).service;
        if let (Some(upstream), Some(held)) = (&mut self.upstreams[service], held) {
            upstream.end(held, &state.real, self.now);
        }
    }
}
