//! What is written down before it is spent, so that nothing is spent twice after a crash.
//!
//! With a book, every limit that counts spends from a *promise*: units that are on disk as spent before a call may have
//! them. A *page* is one limit as it is kept: its state, which says everything that was spent until then, and the promise
//! beside it. The driver takes pages, writes them, makes sure that they will be found again whatever happens, and only
//! then says so; from then on what they promise may be spent.
//!
//! What holds at every moment, whichever pages a crash leaves behind: what was spent since the page on disk was taken is at
//! most what that page promises. For
//!
//! * a call goes only for units that are left of promises that are on disk ([`Allowance`]);
//! * of each limit one page at most is on its way;
//! * a page promises what is left of those, which may be spent while it is on its way, and the units that are lent once
//!   it is there. If it gets lost, the page before it still covers what was left;
//! * what is not asked for (debt, others' units that a reply tells of) is taken from the promise too. What the promise does
//!   not cover is owed: nobody goes until a page says it. That much is lost if the crash comes first, as if the reply
//!   had not come yet;
//! * units that come back raise nothing that is on disk, and are not spent again from a promise that was made before
//!   they came back: they counted where they were taken, and would count later than the page knows.
//!
//! After a crash everything promised counts as spent at the restart, which is no earlier than it was: so no window and no
//! bucket has more room than it truly has, at any time.
//!
//! Loops and API keys have limits of their own, made when they first call. They may spend a first promise, the *seed*, at
//! once: that every such limit may have done so is written down once for all of them. After a crash one that is not in
//! the book has spent its seed.
//!
//! If what is on disk is not all that was written there, or cannot be read, it is not known what was spent
//! ([`Unknown`]). Then every limit begins as spent, for a window: the ones that there are at once, those of loops and keys
//! when they are made within a window of the restart.
//!
//! In-flight limits do the same with slots: a page promises how many more may be held than are. Those count as held after
//! a crash, until their calls can be expected to have ended.

use crate::funding::durations::Durations;
use crate::limits::limit::Definition;
use crate::limits::snapshot::Kept;
use crate::limits::store::Limits;
use crate::model::time::Nanos;
use crate::model::{LimitId, ServiceId};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A promise is this part of a limit, or what flows in the time that a page takes, if that is more.
const PART: u64 = 100;

/// It is never more than this part, unless calls wait for more.
const MOST: u64 = 10;

/// At least so many calls.
pub(crate) const CALLS: u64 = 2;

/// The time that a page takes, until it is known better.
pub(crate) const SPAN: Duration = Duration::from_millis(100);

/// Calls that are in flight for longer than this are assumed to have ended.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// What is to be written, and what is known to be.
#[derive(Debug)]
pub(crate) struct Book {
    /// Those that are no more, and have a page perhaps.
    pub gone: Vec<Arc<str>>,
    /// Pages of limits that are not there (yet).
    pub unclaimed: HashMap<Arc<str>, Kept>,
    /// What these promise counts as spent.
    pub lost: bool,
    /// When a crash was last found, and what each limit of a loop or key may have spent before that, by their level.
    pub crashed: Option<(Nanos, BTreeMap<Arc<str>, u64>)>,
    /// Slots of calls that were in flight at the crash: until when, where, how many.
    pub orphans: Vec<(Nanos, LimitId, u64)>,
    /// When it was found that what was spent is not known: of any limit, and of those of keys.
    pub unknown: Option<Nanos>,
    pub unknown_keys: Option<Nanos>,
    /// Limits that began as spent, to be told of.
    pub began_spent: Vec<Arc<str>>,
    /// Nothing that was written is on disk any more.
    pub(crate) rewrite: bool,
    /// Something beside limits is to be written.
    pub facts_due: bool,
    /// How long a page takes, twice.
    pub(crate) span: Duration,
    /// How long calls are in flight, by service.
    pub durations: HashMap<ServiceId, Durations>,
}

/// How much is promised at a time, where `taken` was in the time that a page takes.
pub(crate) fn size_of(definition: &Definition, taken: u64, span: Duration) -> u64 {
    let whole = definition.whole();
    let flows = definition.rate_of().map_or(0, |rate| {
        (rate.units() as f64 * span.as_secs_f64() / rate.window().as_secs_f64()).ceil() as u64
    });
    // Slots have no rate but that at which they are taken.
    let most = if definition.rate_of().is_some() { (whole / MOST).max(flows) } else { whole };
    (whole / PART).max(flows).max(taken.min(most)).max(CALLS)
}

/// What limits spend that a lender must grant first.
#[derive(Debug, Default)]
pub(crate) struct Funding {
    /// Which limits want how many units, and what they have spent since they last asked.
    pub loan_requests: Vec<(LimitId, u64, u64)>,
    pub funded_limits: BTreeSet<LimitId>,
    /// What is written down before it is spent, if anything is.
    pub book: Option<Box<Book>>,
}

/// How much a limit is promised at a time.
pub(crate) fn promise_size(funding: &Funding, limits: &Limits, limit: LimitId) -> u64 {
    let Some(book) = &funding.book else { return CALLS };
    let held = &limits[limit];
    let taken = held.lent.as_ref().map_or(0, |lent| lent.at_a_time(book.span));
    size_of(&limits.specs[held.spec].definition, taken, book.span)
}

/// Something beside the limits is to be written.
pub(crate) fn facts_changed(funding: &mut Funding) {
    if let Some(book) = &mut funding.book {
        book.facts_due = true;
    }
}
