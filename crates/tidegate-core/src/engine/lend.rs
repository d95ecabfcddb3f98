//! The lender's side of the engine: which limits spend from allotments, and what they ask for.

use std::sync::Arc;

use super::layout::Use;
use super::{Engine, Units};
use crate::algorithm::UNBOUNDED;
use crate::allotment::{Allotment, Loan};
use crate::model::LimitId;
use crate::model::time::Nanos;

/// A limit wants units from its lender. The answer comes by [`Engine::lend`] or [`Engine::loan_failed`];
/// without one it asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoanRequest {
    /// Which limit, by name.
    pub limit: Arc<str>,
    /// How many units it wants.
    pub units: u64,
    /// How many it has spent since it last asked.
    pub spent: u64,
}

impl Engine {
    /// From now on the limit of that name spends only what it is lent, about `size` units at a time. Says
    /// whether there is such a limit.
    pub fn spend_from_loans(&mut self, name: &str, size: u64, now: Nanos) -> bool {
        let now = self.clock(now);
        let Some(limit) = self.limit_named(name) else { return false };
        self.limits[limit].lent = Some(Box::new(Allotment::new(size, now)));
        self.funding.lent_limits.insert(limit);
        self.see_if_plain(limit);
        self.want_loan(limit, 1, now);
        true
    }

    /// What limits ask of their lender, since this was last asked.
    pub fn loan_requests(&mut self) -> Vec<LoanRequest> {
        let requests = std::mem::take(&mut self.funding.loan_requests).into_iter();
        requests
            .map(|(limit, units, spent)| LoanRequest { limit: self.limit_name(limit), units, spent })
            .collect()
    }

    /// The lender gives units to a limit.
    pub fn lend(&mut self, name: &str, loan: Loan, now: Nanos) {
        let now = self.clock(now);
        let Some(limit) = self.limit_named(name) else { return };
        if let Some(lent) = &mut self.limits[limit].lent {
            lent.lend(loan, now);
            self.effects.touch(limit, &self.limits);
            self.pump(now);
        }
    }

    /// The lender could not lend; it is asked again at `retry`.
    pub fn loan_failed(&mut self, name: &str, retry: Nanos, now: Nanos) {
        self.clock(now);
        let Some(limit) = self.limit_named(name) else { return };
        if let Some(lent) = &mut self.limits[limit].lent {
            lent.fail(retry);
            self.arm_sooner(limit, retry.max(self.now));
        }
    }

    pub(super) fn spend_lent(&mut self, limit: LimitId, units: u64, now: Nanos) {
        if let Some(lent) = &mut self.limits[limit].lent {
            lent.spend(units, now);
            self.want_loan(limit, 0, now);
        }
    }

    /// Asks the lender if little is left, or less than `need`.
    /// Returns when it is time to ask again.
    pub(super) fn want_loan(&mut self, limit: LimitId, need: u64, now: Nanos) -> Nanos {
        let Some(lent) = &mut self.limits[limit].lent else { return Nanos::NEVER };
        if let Some((units, spent)) = lent.ask(need, now)
            && !self.limits.note_unsaved(limit)
        {
            self.funding.loan_requests.push((limit, units, spent));
        }
        self.limits[limit].lent.as_ref().map_or(Nanos::NEVER, |lent| lent.ask_at())
    }

    /// Asks the lender on behalf of the call that is first at a limit, which is looked at again when it is time to ask again.
    pub(super) fn want_loan_and_wake(&mut self, limit: LimitId, need: u64, now: Nanos) {
        let again = self.want_loan(limit, need, now);
        if need > 0 && again > now {
            self.arm_sooner(limit, again);
        }
    }

    /// A call that will not wait found too little: asks on behalf of the next one.
    pub(super) fn want_loans(&mut self, route: &[Use], units: &Units, now: Nanos) {
        for &(limit, slot) in route {
            self.want_loan_and_wake(limit, units[slot as usize], now);
        }
    }

    /// How much of what is lent to a limit may go to others while a call of `cost` is first.
    pub(super) fn lent_spare(&self, limit: LimitId, cost: u64, now: Nanos) -> u64 {
        let lent = self.limits[limit].lent.as_ref();
        lent.map_or(UNBOUNDED, |lent| lent.spare(cost, now))
    }
}
