//! What limits ask of their lender, and what they spend of what it lent.

use crate::funding::book::Funding;
use crate::limits::store::Limits;
use crate::model::LimitId;
use crate::model::time::Nanos;

/// Charges units that were not asked for: debt, or usage by others.
pub(crate) fn charge_funded(
    funding: &mut Funding,
    limits: &mut Limits,
    limit: LimitId,
    units: u64,
    now: Nanos,
) {
    if let Some(lent) = &mut limits[limit].lent {
        lent.charge(units, now);
        want_loan(funding, limits, limit, 0, now);
    }
}

pub(crate) fn spend_funded(
    funding: &mut Funding,
    limits: &mut Limits,
    limit: LimitId,
    units: u64,
    now: Nanos,
) {
    if let Some(lent) = &mut limits[limit].lent {
        lent.spend(units, now);
        want_loan(funding, limits, limit, 0, now);
    }
}

/// Asks the lender if little is left, or less than `need`.
/// Returns when it is time to ask again.
pub(crate) fn want_loan(
    funding: &mut Funding,
    limits: &mut Limits,
    limit: LimitId,
    need: u64,
    now: Nanos,
) -> Nanos {
    let Some(lent) = &mut limits[limit].lent else { return Nanos::NEVER };
    if let Some((units, spent)) = lent.ask(need, now)
        && !limits.note_unsaved(limit)
    {
        funding.loan_requests.push((limit, units, spent));
    }
    limits[limit].lent.as_ref().map_or(Nanos::NEVER, |lent| lent.ask_at())
}
