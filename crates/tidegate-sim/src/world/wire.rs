//! Behind the gate: a call reaches its upstream, is answered, and gives back what it holds.

use std::time::Duration;

use tidegate_core::engine::{Ended, Fate};
use tidegate_core::reply::{Reading, UnixMillis};
use tidegate_core::retry::{Failure, Transport};
use tidegate_core::{Grant, Nanos};

use super::calls::{Reply, Stage};
use super::story::Line;
use super::{CallId, Event, Stop, UNIX, World, tally};
use crate::check::{End, Happening};
use crate::scenario::HeaderStyle;
use crate::spread::Spread;
use crate::upstream::{Answer, Headers, Held, RefusedBy};

/// After so long a reply that does not come is given up.
const LOST_AFTER: Duration = Duration::from_secs(60);

impl World<'_> {
    /// A call reaches its upstream.
    pub(super) fn reach(&mut self, id: CallId) -> Result<(), Stop> {
        let Some(place) = self.find(id) else { return Ok(()) };
        let no = self.calls[place as usize].no;
        let service = self.routes.kind(self.calls[place as usize].kind).service;
        let grant = match std::mem::replace(&mut self.calls[place as usize].stage, Stage::Over) {
            Stage::Sent(grant) => {
                self.ledger.reaches(no).map_err(|broken| self.broken_by(broken))?;
                Some(grant)
            }
            // It had left when its process died.
            Stage::Orphan(_) => None,
            stage => {
                self.calls[place as usize].stage = stage;
                return Ok(());
            }
        };
        self.pass_moments();
        let cost = self.counted_on_arrival(place);
        let answer = self.upstreams[service].as_mut().map(|upstream| upstream.receive(&cost, self.now));
        let spec = self.spec(place);
        let latency = match self.calls[place as usize].runs {
            Some(runs) => runs,
            None => {
                let usual = spec.map_or(Spread::ZERO, |spec| spec.latency).draw_span(&mut self.wire);
                let slowness = self.upstreams[service].as_ref().map_or(1.0, |upstream| upstream.slowness());
                if slowness > 1.0 { usual.mul_f64(slowness) } else { usual }
            }
        };
        let broken = spec.is_some_and(|spec| self.wire.happens(spec.resets));
        let lost = spec.is_some_and(|spec| self.wire.happens(spec.lost));
        if let Some(Answer::Refused(by)) = &answer {
            let told = by.wait.filter(|_| spec.is_some_and(|spec| spec.headers != HeaderStyle::None));
            self.phases.rejected(service, latency, told, self.now);
        }
        let (reply, status) = self.told(answer, broken, lost, service);
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

    /// Counts an upstream's answer, and says what comes of it.
    fn told(&mut self, answer: Option<Answer>, broken: bool, lost: bool, service: usize) -> (Reply, u16) {
        self.tally.service(service).sent += 1;
        let (refused, status) = match answer {
            Some(Answer::Refused(by)) => {
                self.tally.rejected(service, self.now);
                let status = self.upstreams[service].as_ref().map_or(429, |known| known.refused_status(&by));
                (Some(by), status)
            }
            Some(Answer::Failed(status)) => {
                self.tally.failed(service, self.now);
                (None, status)
            }
            accepted => {
                let held = match accepted {
                    Some(Answer::Accepted(held)) => Some(held),
                    _ => None,
                };
                let counts = self.tally.service(service);
                counts.accepted += 1;
                counts.lost += u64::from(broken || lost);
                let reply = match (broken, lost) {
                    (true, _) => Reply::Broken(held),
                    (false, true) => Reply::Lost(held),
                    (false, false) => Reply::Done(held, self.headers(service, None)),
                };
                return (reply, 200);
            }
        };
        (Reply::Bad { status, headers: self.headers(service, refused.as_ref()) }, status)
    }

    /// What an upstream tells of its limits.
    fn headers(&self, service: usize, refused: Option<&RefusedBy>) -> Headers {
        // The upstream's own clock is right, whatever ours was set to.
        let unix = UNIX + self.now.since(Nanos::ZERO);
        let upstream = self.upstreams[service].as_ref();
        upstream.map_or(Vec::new(), |upstream| upstream.headers(refused, self.now, unix))
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

    /// A reply is read as a gate reads it: what it means for those that come after, and for the call itself.
    pub(super) fn answered(&mut self, place: u32, grant: Grant, reply: Reply) -> Result<(), Stop> {
        let (ended, failure) = match reply {
            Reply::Done(held, headers) => {
                self.end_upstream(place, held);
                self.had_output(place);
                let told = match headers.is_empty() {
                    true => Vec::new(),
                    false => Ended::by_reply(200, &self.read(place, 200, &headers)).told,
                };
                let state = &self.calls[place as usize];
                let cost = state.differs.then(|| state.real.clone());
                (Ended { cost, told, ..Fate::Answered.into() }, None)
            }
            Reply::Broken(held) | Reply::Lost(held) => {
                self.end_upstream(place, held);
                (Fate::Failed { wait: None }.into(), Some(Failure::of_transport(Transport::Broken)))
            }
            Reply::Bad { status, headers } => {
                let reading = self.read(place, status, &headers);
                (Ended::by_reply(status, &reading), Some(Failure::of_reply(status, &reading)))
            }
        };
        let kind = self.routes.kind(self.calls[place as usize].kind);
        let ended = Ended { model: kind.after.model.as_deref().map(Into::into), ..ended };
        let event = self.settle(place, grant, &ended)?;
        if failure.is_some() {
            self.note_trouble();
        }
        self.collect(event)?;
        match failure {
            None => {
                let no = self.calls[place as usize].no;
                self.ledger.answered(no).map_err(|broken| self.broken_by(broken))?;
                self.over(place, tally::Fate::Succeeded)
            }
            Some(failure) => self.rest(place, &failure),
        }
    }

    fn read(&self, place: u32, status: u16, headers: &[(String, String)]) -> Reading {
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let unix = UnixMillis(i64::try_from(self.unix().as_millis()).unwrap_or(i64::MAX));
        let service = self.calls[place as usize].call.service();
        self.scenario.config.reader(service).read(status, headers, b"", unix)
    }

    /// Gives a grant back to the engine.
    fn settle(&mut self, place: u32, grant: Grant, ended: &Ended) -> Result<Happening, Stop> {
        // First what it tells, then what it gives back: that is also how the engine takes it.
        if let Some(engine) = self.engine.as_mut().filter(|_| !ended.told.is_empty()) {
            engine.hear(&grant, ended, self.now);
            self.collect(Happening { unsettled: true, ..Happening::default() })?;
        }
        let mut event = Happening { ended: Some(place), ..Happening::default() };
        let no = self.calls[place as usize].no;
        let kind = self.routes.kind(self.calls[place as usize].kind);
        let end = End { ended, kind };
        self.note(if end.comes_back() { Line::Cancelled { no } } else { Line::Ended { no } });
        let kind = self.routes.kind(self.calls[place as usize].kind);
        let end = End { ended, kind };
        let Some(engine) = &mut self.engine else { return Ok(event) };
        if let Some(judge) = &mut self.judge {
            match judge.ends(place, &end, engine, &self.routes, self.now) {
                Ok(unsettled) => event.unsettled = unsettled,
                Err(broken) => return Err(self.broken_by(broken)),
            }
        }
        engine.end_call(grant, ended, self.now);
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
        self.pass_moments();
        let Some(held) = held else { return };
        let cost = self.counted_in_the_end(place, &held);
        let service = self.routes.kind(self.calls[place as usize].kind).service;
        if let Some(upstream) = &mut self.upstreams[service] {
            upstream.end(held, &cost, self.now);
        }
    }

    /// Before an upstream counts anything, moments are passed that are not after it.
    fn pass_moments(&mut self) {
        self.warm.pass(&mut self.upstreams, self.now);
        self.phases.pass(&mut self.upstreams, self.now);
    }
}
