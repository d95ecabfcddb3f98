//! Permits for work that is not forwarded: acquire, work, report.
//!
//! A caller waits on its open connection, in rank order. It leaves the queue when the connection closes. A permit that
//! could not be delivered is refunded as a whole.

mod acquire_request;
mod completion_report;

use std::time::Instant;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use tracing::{Instrument, debug};

use super::json_body::read;
use crate::auth::Caller;
use crate::body::{Body, json as answer};
use crate::error_format::{self, ErrorFormat};
use crate::events::Event;
use crate::permits::{Claimed, Delivery, End, NoPermit, Owner, PermitId};
use crate::refusal::millis;
use crate::span;
use crate::v1::Api;
use completion_report::CompletionReport;

pub(super) use acquire_request::AcquireRequest;

/// `POST /v1/acquire`
pub(super) async fn acquire(api: &Api, caller: &Caller, body: Incoming) -> Response<Body> {
    let (request, call) = match AcquireRequest::read(api, caller, body).await {
        Ok(request) => request,
        Err(response) => return *response,
    };
    if let Some(loop_id) = request.loop_id() {
        api.shared.loop_counts.count(loop_id);
    }
    if !api.shared.lifecycle.is_ready() {
        return error_format::plain(StatusCode::SERVICE_UNAVAILABLE, "stopping", "no new calls are taken");
    }
    let owner: Owner = caller.holder().cloned();
    let share_owner = caller.share_owner(call.stated_loop());
    let identity = request.identity(|key| api.shared.gate.fingerprint(key));
    let claim = match api.permits.claim(owner.clone(), share_owner, request.id(), &identity) {
        Ok(claim) => claim,
        Err(Claimed::Granted(permit, left)) => {
            let again = json!({ "permit": permit.to_string(), "waited_ms": 0, "expires_ms": millis(left) });
            return answer(StatusCode::OK, &again);
        }
        Err(Claimed::Taken) => {
            let message = "a call of this id waits, or its permit is still out for another call";
            return error_format::plain(StatusCode::CONFLICT, "duplicate_id", message);
        }
        Err(Claimed::Full(why)) => return full(&why.to_string()),
    };
    let lease = api.shared.config.active().config.permit_lease;
    let _counted = api.shared.lifecycle.count_call();
    let (span, began) = (span::of(&call, &api.shared.config), Instant::now());
    let permit = match api.shared.gate.acquire(call).instrument(span.clone()).await {
        Ok(permit) => permit,
        Err(refused) => {
            api.shared.events.publish(|| Event::refused(request.service(), &refused));
            let response = ErrorFormat::Plain.refused(&refused);
            span::ended(&span, began.elapsed(), 0, response.status());
            span.in_scope(|| debug!("no permit is given"));
            return response;
        }
    };
    let waited = permit.waited();
    span::ended(&span, waited, 1, StatusCode::OK);
    span.in_scope(|| debug!("a permit is given"));
    match claim.grant(permit, lease) {
        Ok(permit) => {
            let granted = json!({
                "permit": permit.to_string(),
                "waited_ms": millis(waited),
                "expires_ms": millis(lease),
            });
            let delivery = Delivery::new(permit, owner, api.permits.clone());
            answer(StatusCode::OK, &granted).map(|body| body.with_delivery(delivery))
        }
        Err((permit, why)) => {
            permit.cancel();
            full(&why.map_or_else(|| "there is no random number for a permit".into(), |why| why.to_string()))
        }
    }
}

/// `POST /v1/permits/{id}/complete`
pub(super) async fn complete(api: &Api, caller: &Caller, id: &str, body: Incoming) -> Response<Body> {
    let report: CompletionReport = match read(api, body).await {
        Ok((report, _)) => report,
        Err(response) => return *response,
    };
    // Parsed before the permit is taken: after an invalid report the caller may report again.
    let outcome = match report.outcome() {
        Ok(outcome) => outcome,
        Err((code, message)) => return error_format::plain(StatusCode::BAD_REQUEST, code, &message),
    };
    end(api, caller, id, End::Completed, |permit| permit.finish(outcome))
}

/// `DELETE /v1/permits/{id}`
pub(super) fn cancel(api: &Api, caller: &Caller, id: &str) -> Response<Body> {
    end(api, caller, id, End::Cancelled, tidegate::Permit::cancel)
}

/// `POST /v1/permits/{id}/renew`
pub(super) fn renew(api: &Api, caller: &Caller, id: &str) -> Response<Body> {
    let Some(number) = PermitId::parse(id) else { return no_permit(id, NoPermit::Unknown) };
    let lease = api.shared.config.active().config.permit_lease;
    match api.permits.renew(number, &caller.holder().cloned(), lease) {
        Ok(()) => answer(StatusCode::OK, &json!({ "permit": id, "expires_ms": millis(lease) })),
        Err(why) => no_permit(id, why),
    }
}

/// Ends a permit. A second request to end it in the same way gets the same answer.
fn end(api: &Api, caller: &Caller, id: &str, end: End, how: impl FnOnce(tidegate::Permit)) -> Response<Body> {
    let Some(number) = PermitId::parse(id) else { return no_permit(id, NoPermit::Unknown) };
    match api.permits.take(number, &caller.holder().cloned(), end) {
        Ok(permit) => how(permit),
        Err(NoPermit::Ended(before)) if before == end => {}
        Err(why) => return no_permit(id, why),
    }
    answer(StatusCode::OK, &json!({ "permit": id, "state": end_name(end) }))
}

fn no_permit(id: &str, why: NoPermit) -> Response<Body> {
    match why {
        NoPermit::Unknown => error_format::plain(
            StatusCode::NOT_FOUND,
            "unknown_permit",
            "there is no such permit, or it is not yours",
        ),
        NoPermit::Ended(End::Expired) => {
            let message = format!("the lease of {id} is over: its slot is free again, and its cost is kept");
            error_format::plain(StatusCode::GONE, "expired", &message)
        }
        NoPermit::Ended(end) => {
            let message = format!("{id} has ended: it was {}", end_name(end));
            error_format::plain(StatusCode::CONFLICT, "already_ended", &message)
        }
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Completed => "completed",
        End::Cancelled => "cancelled",
        End::Expired => "expired",
    }
}

fn full(message: &str) -> Response<Body> {
    error_format::plain(StatusCode::SERVICE_UNAVAILABLE, "too_many_permits", message)
}
