//! Observes how a call ended: what the reply states, and what the outcome means for windows, for what is inferred, for the
//! pace and for the bound on calls in flight.

use std::time::Duration;

use crate::calls::InFlightCall;
use crate::model::CallId;
use crate::model::time::Nanos;
use crate::routing::state::Base;
use crate::upstream::ended::{Ended, Fate};
use crate::upstream::state::Upstream;
use crate::upstream::{adaptive_concurrency, backoff, inference, review, slowdown};

/// Applies what the end of a call says about its upstream. `counted` says whether the upstream counted the call.
pub(crate) fn observe(
    u: &mut Upstream,
    base: &mut Base,
    index: CallId,
    call: &InFlightCall,
    ended: &Ended,
    counted: bool,
    now: Nanos,
) {
    let explained = review::read_stated_limits(u, base, index, call, &ended.told, counted, now);
    match &ended.fate {
        Fate::TurnedAway { wait, by, in_flight } => {
            inference::widen_jitter(base, call, now);
            if !explained && by.is_empty() && !in_flight {
                inference::rejected_without_reason(u, base, call, now);
            }
            if *in_flight {
                adaptive_concurrency::report_load(u, base, call, true, now);
            }
            let wait = if *in_flight { wait.or(Some(Duration::ZERO)) } else { *wait };
            backoff::rejected(u, base, call, by, ended.model.as_deref(), wait, now);
        }
        Fate::Failed { wait } => {
            slowdown::count_end(u, base, call, false, now);
            adaptive_concurrency::report_load(u, base, call, true, now);
            if let Some(wait) = wait {
                backoff::back_off_service(u, base, call, *wait, now);
            }
        }
        Fate::Answered => {
            backoff::end_rows(u, base, call);
            inference::count_passed(u, base, call, now);
            inference::took(u, base, call, now);
            slowdown::count_end(u, base, call, true, now);
            adaptive_concurrency::report_load(u, base, call, false, now);
        }
        Fate::Unknown | Fate::Unreached | Fate::Unprocessed | Fate::OutOfQuota => {}
    }
}
