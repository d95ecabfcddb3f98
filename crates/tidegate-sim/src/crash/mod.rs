//! `kill -9`, in virtual time, at every step of keeping a book.
//!
//! The real engine is driven as the state file drives it: it says what is to be written, that is written to a disk that
//! loses power at any moment, and only when it was synced the engine is told so. Calls come and end meanwhile; at
//! random the process dies or stops, and another one goes on from what the disk has. Ledgers that never die see
//! every call that went and say whether it should have.

mod disk;
mod ledger;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tidegate_core::engine::{Facts, Found, Page};
use tidegate_core::limits::snapshot::Kept;
use tidegate_core::{Admission, Call, Config, Cost, Dimension, Engine, Grant, Nanos, Ticket, Verdict};

use self::disk::Disk;
use self::ledger::{Counts, Ledger};
use crate::Dice;

/// What a driver may do wrong; a world with a fault must be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does everything right.
    None,
    /// It does not wait for the disk to have what was written.
    NoSync,
    /// It says that pages are written before they are.
    WrittenAfterUse,
    /// After a crash it does not count what was promised.
    ForgetsPromises,
    /// After a crash its clock is ahead by a window.
    MintsTime,
}

/// What became of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Calls that went.
    pub granted: u64,
    /// Deaths.
    pub crashes: u64,
    /// Clean stops.
    pub stops: u64,
    /// How often the disk was synced.
    pub syncs: u64,
}

const SECOND: u64 = 1_000_000_000;
/// Every window is this long.
const WINDOW: u64 = 2 * SECOND;
const LOOPS: u64 = 3;

/// A call that went.
struct Out {
    grant: Grant,
    tokens: u64,
    costs: u64,
    loop_: u64,
    at: Nanos,
    end: Nanos,
}

/// What the driver does at the moment.
enum Doing {
    Nothing,
    /// Pages are taken a few at a time, and calls go on between.
    Taking {
        pages: Vec<Page>,
        facts: Option<Facts>,
    },
    Writing {
        pages: Vec<Page>,
        facts: Option<Facts>,
        record: Vec<u8>,
        done: usize,
        begun: usize,
        at: Nanos,
    },
    Syncing {
        pages: Vec<Page>,
        facts: Option<Facts>,
        begun: usize,
        until: Nanos,
        at: Nanos,
    },
}

struct World {
    dice: Dice,
    fault: Fault,
    config: Config,
    engine: Engine,
    now: Nanos,
    disk: Disk,
    doing: Doing,
    waiting: BTreeMap<Ticket, (u64, u64)>,
    out: Vec<Out>,
    /// By limit, as calls meet them: requests, tokens, slots, and each loop's requests.
    ledgers: Vec<Ledger>,
    /// Debts that no page on disk can know of yet: which ledger, how much, when.
    fresh_debts: Vec<(usize, u64, Nanos)>,
    takes: u64,
    /// When the pages began to be taken that are on their way.
    taken_since: Nanos,
    survived: Survived,
}

/// Plays the world of that seed for a quarter of a minute of virtual time.
///
/// # Errors
/// The first call that went beyond a limit.
pub fn survive(seed: u64, fault: Fault) -> Result<Survived, String> {
    let mut world =
        World::new(Dice::part(seed, "crash", 0), fault).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
    let end = Nanos(15 * SECOND);
    while world.now < end {
        world.step().map_err(|wrong| format!("seed {seed}: {wrong}"))?;
    }
    Ok(world.survived)
}

impl World {
    fn new(mut dice: Dice, fault: Fault) -> Result<World, String> {
        let (text, counts) = limits(&mut dice);
        let config = Config::parse(&text, "crash").map_err(|error| error.to_string())?;
        let engine = begun(&config, Nanos::ZERO, Duration::ZERO)?;
        let takes = 50_000_000 + dice.below(SECOND);
        let mut world = World {
            dice,
            fault,
            config,
            engine,
            now: Nanos::ZERO,
            disk: Disk::default(),
            doing: Doing::Nothing,
            waiting: BTreeMap::new(),
            out: Vec::new(),
            ledgers: counts.into_iter().map(Ledger::new).collect(),
            fresh_debts: Vec::new(),
            takes,
            taken_since: Nanos::ZERO,
            survived: Survived::default(),
        };
        world.engine.keep_book(Found::default(), world.now).map_err(|error| error.to_string())?;
        // Nothing goes before every limit is in the book: a fixed window that is not would begin anew.
        let pages = world.engine.pages(usize::MAX, world.now);
        world.disk.append(&Disk::framed(&record(&pages, None, world.now, false)));
        world.disk.sync();
        world.engine.written(&pages, world.now);
        Ok(world)
    }

    fn step(&mut self) -> Result<(), String> {
        let step = *self.dice.pick(&[1_000, 100_000, 1_000_000, 20_000_000]);
        self.now = Nanos(self.now.0 + 1 + self.dice.below(step));
        self.engine.advance(self.now);
        self.collect()?;
        self.end_calls()?;
        if self.dice.below(2) == 0 {
            self.call()?;
        }
        self.collect()?;
        self.write();
        self.collect()?;
        self.compare()?;
        match self.dice.below(4_000) {
            0..6 => self.die(),
            6 => self.stop(),
            _ => Ok(()),
        }
    }

    /// The engine never believes that there is more room than there is.
    fn compare(&mut self) -> Result<(), String> {
        for (name, ledger) in ["api/requests/2s", "api/tokens/2s"].iter().zip(&mut self.ledgers) {
            let Some(known) = self.engine.limit(name, self.now).map(|limit| limit.used) else {
                return Err(format!("{name} is gone"));
            };
            let (truly, _) = ledger.standing(self.now);
            if known < truly {
                return Err(format!("{name} has {truly} used, and {known} are known, at {:?}", self.now));
            }
        }
        Ok(())
    }

    fn call(&mut self) -> Result<(), String> {
        let (tokens, loop_) = (1 + self.dice.below(20), self.dice.below(LOOPS));
        let call = Call::to("api").tokens(tokens).loop_id(&format!("l{loop_}"));
        if self.dice.below(3) == 0 {
            if let Ok(grant) = self.engine.try_admit(&call, self.now) {
                self.went(grant, tokens, loop_)?;
            }
            return Ok(());
        }
        match self.engine.enqueue(&call, Duration::from_secs(5), self.now) {
            Ok(Admission::Granted(grant)) => self.went(grant, tokens, loop_)?,
            Ok(Admission::Waiting(ticket)) => drop(self.waiting.insert(ticket, (tokens, loop_))),
            Err(_) => {}
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), String> {
        let verdicts: Vec<(Ticket, Verdict)> = self.engine.verdicts().collect();
        for (ticket, verdict) in verdicts {
            let Some((tokens, loop_)) = self.waiting.remove(&ticket) else {
                return Err(format!("{ticket:?} did not wait"));
            };
            if let Verdict::Granted(grant) = verdict {
                self.went(grant, tokens, loop_)?;
            }
        }
        Ok(())
    }

    fn went(&mut self, grant: Grant, tokens: u64, loop_: u64) -> Result<(), String> {
        self.survived.granted += 1;
        let (at, end) = (grant.granted_at(), Nanos(self.now.0 + self.takes));
        // Half of them cost less than they took, some more.
        let costs = match self.dice.below(4) {
            0 => tokens + self.dice.below(15),
            1 => tokens,
            _ => self.dice.below(tokens + 1),
        };
        for (limit, units) in [(0, 1), (1, tokens), (2, 1), (3 + loop_ as usize, 1)] {
            self.ledgers[limit].grant(units, end, at)?;
        }
        self.out.push(Out { grant, tokens, costs, loop_, at, end });
        Ok(())
    }

    fn end_calls(&mut self) -> Result<(), String> {
        let now = self.now;
        while let Some(place) = self.out.iter().position(|out| out.end <= now) {
            let Out { grant, tokens, costs, at, loop_, .. } = self.out.swap_remove(place);
            if self.dice.below(20) == 0 {
                // It never left.
                self.engine.cancel(grant, now);
                for (limit, units) in [(0, 1), (1, tokens), (3 + loop_ as usize, 1)] {
                    self.ledgers[limit].take_back(units, at, now);
                }
                self.collect()?;
                continue;
            }
            self.engine.finish(grant, Some(&Cost::nothing().with(Dimension::Tokens, costs)), now);
            if costs > tokens {
                self.ledgers[1].add(costs - tokens, now);
                self.fresh_debts.push((1, costs - tokens, now));
            } else {
                self.ledgers[1].take_back(tokens - costs, at, now);
            }
            self.collect()?;
        }
        Ok(())
    }

    /// One step of the driver.
    fn write(&mut self) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => {
                if self.engine.has_pages() && self.dice.below(3) == 0 {
                    let facts = self.engine.facts(self.now);
                    self.doing = Doing::Taking { pages: Vec::new(), facts };
                    self.taken_since = self.now;
                }
            }
            Doing::Taking { mut pages, facts } => {
                let some = self.engine.pages(1 + self.dice.below(3) as usize, self.now);
                let all = some.is_empty();
                pages.extend(some);
                self.doing = if all || self.dice.below(8) == 0 {
                    if self.fault == Fault::WrittenAfterUse {
                        self.engine.written(&pages, self.now);
                    }
                    let record = Disk::framed(&record(&pages, facts.as_ref(), self.now, false));
                    // What the first pages say was so when they were taken.
                    let (done, begun) = (0, self.disk.len());
                    let at = pages.first().map_or(self.now, |_| self.taken_since);
                    Doing::Writing { pages, facts, record, done, begun, at }
                } else {
                    Doing::Taking { pages, facts }
                };
            }
            Doing::Writing { pages, facts, begun, .. } if self.dice.below(50) == 0 => {
                // The disk is full.
                self.disk.cut_to(begun);
                self.failed(&pages, facts.is_some());
            }
            Doing::Writing { pages, facts, record, mut done, begun, at } => {
                let part = (1 + self.dice.below(record.len() as u64) as usize).min(record.len() - done);
                self.disk.append(&record[done..done + part]);
                done += part;
                self.doing = if done < record.len() {
                    Doing::Writing { pages, facts, record, done, begun, at }
                } else {
                    let until = Nanos(self.now.0 + self.dice.below(30_000_000));
                    Doing::Syncing { pages, facts, begun, until, at }
                };
            }
            Doing::Syncing { pages, facts, begun, until, at } if self.now < until => {
                self.doing = Doing::Syncing { pages, facts, begun, until, at };
            }
            Doing::Syncing { pages, facts, begun, .. } if self.dice.below(50) == 0 => {
                // Nobody knows what is on disk.
                if self.dice.below(2) == 0 {
                    self.disk.cut_to(begun);
                }
                self.failed(&pages, facts.is_some());
            }
            Doing::Syncing { pages, facts, at, .. } => {
                if self.fault != Fault::NoSync {
                    self.disk.sync();
                }
                self.survived.syncs += 1;
                if self.fault != Fault::WrittenAfterUse {
                    self.engine.written(&pages, self.now);
                }
                if let Some(facts) = facts {
                    self.engine.facts_written(&facts);
                }
                let has_tokens = pages.iter().any(|page| page.name.contains("tokens"));
                self.fresh_debts.retain(|(_, _, when)| *when > at || !has_tokens);
            }
        }
    }

    fn failed(&mut self, pages: &[Page], facts: bool) {
        let retry = Nanos(self.now.0 + self.dice.below(10_000_000));
        if self.fault != Fault::WrittenAfterUse {
            self.engine.not_written(pages, retry, self.now);
        }
        if facts {
            self.engine.facts_not_written();
        }
    }

    /// `kill -9`, and the power goes with it.
    fn die(&mut self) -> Result<(), String> {
        self.survived.crashes += 1;
        self.disk.crash(&mut self.dice);
        // What calls cost beyond what they took is not known before it is written down.
        for (limit, units, when) in std::mem::take(&mut self.fresh_debts) {
            self.ledgers[limit].take_back(units, when, self.now);
        }
        self.restart()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.survived.stops += 1;
        let begun = match &self.doing {
            Doing::Nothing | Doing::Taking { .. } => self.disk.len(),
            Doing::Writing { begun, .. } | Doing::Syncing { begun, .. } => *begun,
        };
        // What was on its way is written anew.
        self.disk.cut_to(begun);
        let pages = self.engine.last_pages(self.now);
        let facts = self.engine.all_facts(self.now);
        self.disk.append(&Disk::framed(&record(&pages, Some(&facts), self.now, true)));
        self.disk.sync();
        self.fresh_debts.clear();
        self.restart()
    }

    /// Another process goes on from what is on disk, after a while.
    fn restart(&mut self) -> Result<(), String> {
        let down = *self.dice.pick(&[1_000_000, 100_000_000, 3 * SECOND]);
        let down = self.dice.below(down);
        self.now = Nanos(self.now.0 + down);
        self.doing = Doing::Nothing;
        self.waiting.clear();
        self.out.clear();
        let mut found =
            found(&self.disk).map_err(|error| format!("what was written cannot be read: {error}"))?;
        if self.fault == Fault::ForgetsPromises {
            found.crashed = false;
        }
        let ahead = if self.fault == Fault::MintsTime { WINDOW } else { 0 };
        let now = Nanos(self.now.0 + ahead);
        self.engine = begun(&self.config, now, Duration::from_nanos(self.now.0))?;
        self.engine.keep_book(found, now).map_err(|error| format!("what was written cannot be: {error}"))
    }
}

/// A new engine, so long after the world began.
fn begun(config: &Config, now: Nanos, since: Duration) -> Result<Engine, String> {
    let unix = Duration::from_secs(1_700_000_000) + since;
    Engine::new(config, now, unix).map_err(|error| error.to_string())
}

/// What is written at a time: pages, what is beside them, and whether this is the end.
fn record(pages: &[Page], facts: Option<&Facts>, now: Nanos, clean: bool) -> Vec<u8> {
    let pages: BTreeMap<&str, &Option<Kept>> = pages.iter().map(|page| (&*page.name, &page.kept)).collect();
    json!({ "pages": pages, "facts": facts, "now": now.0, "clean": clean }).to_string().into_bytes()
}

/// A record, as it is read.
#[derive(Deserialize)]
struct Record {
    pages: BTreeMap<Arc<str>, Option<Kept>>,
    facts: Option<Facts>,
    clean: bool,
}

fn found(disk: &Disk) -> Result<Found, serde_json::Error> {
    let mut limits: BTreeMap<Arc<str>, Kept> = BTreeMap::new();
    let mut found = Found::default();
    for record in disk.records() {
        let record: Record = serde_json::from_slice(record)?;
        for (name, kept) in record.pages {
            match kept {
                Some(kept) => drop(limits.insert(name, kept)),
                None => drop(limits.remove(&name)),
            }
        }
        found.facts = record.facts.or(found.facts);
        found.crashed = !record.clean;
    }
    found.limits = limits.into_iter().collect();
    Ok(found)
}

/// Limits by chance, and how each of them counts.
fn limits(dice: &mut Dice) -> (String, Vec<Counts>) {
    let w = WINDOW;
    let mut rate = |n: u64| match dice.below(3) {
        0 => (format!("{{ limit = \"{n}/2s\", burst = {n} }}"), Counts::Sliding { n, w }),
        1 => {
            let size = 1 + dice.below(2 * n);
            (
                format!("{{ limit = \"{n}/2s\", algorithm = \"token-bucket\", burst = {size} }}"),
                Counts::Bucket { n, w, size },
            )
        }
        _ => (format!("{{ limit = \"{n}/2s\", algorithm = \"fixed-window\" }}"), Counts::Fixed { n, w }),
    };
    let (requests, by_requests) = rate(20);
    let (tokens, by_tokens) = rate(400);
    let (own, by_own) = rate(30);
    let slots = 1 + dice.below(12);
    let text = format!(
        "[services.api]\nrequests = {requests}\ntokens = {tokens}\nconcurrency = {slots}\n[loops]\nrequests = {own}\n"
    );
    let mut counts = vec![by_requests, by_tokens, Counts::Slots { n: slots }];
    counts.extend((0..LOOPS).map(|_| by_own));
    (text, counts)
}
