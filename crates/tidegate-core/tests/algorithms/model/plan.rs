//! Random plans: what is done to a meter, and what it is asked in between.

use proptest::prelude::*;
use proptest::sample::{Index, select};

pub type Plan = Vec<Step>;

#[derive(Clone, Debug)]
pub struct Step {
    pub op: Op,
    pub probe: Probe,
}

#[derive(Clone, Debug)]
pub enum Op {
    Wait(Wait),
    /// A cost, if it fits, leaving so much alone.
    Take(Amount, Amount),
    Charge(Amount),
    /// A part of what an earlier call took.
    Refund(IndexOf, Amount),
    Change(Amount),
}

/// Which of the calls so far.
#[derive(Clone, Debug)]
pub struct IndexOf(Index);

impl IndexOf {
    pub fn get_mut<'a, T>(&self, all: &'a mut [T]) -> &'a mut T {
        self.0.get_mut(all)
    }
}

/// What a meter is asked after a step: about a call, and about another that would go before it.
#[derive(Clone, Debug)]
pub struct Probe {
    pub cost: Amount,
    pub withheld: Amount,
    pub other_withheld: Amount,
    pub later: Wait,
}

/// A number of units, as seen from a whole: the capacity, or what a call took.
#[derive(Clone, Debug)]
pub enum Amount {
    Exactly(u64),
    /// So many 65536ths of it.
    Share(u16),
    /// All of it, and so many more or less.
    Whole(i8),
    Times(u8),
}

impl Amount {
    pub fn of(&self, whole: u64) -> u64 {
        let units = match *self {
            Amount::Exactly(units) => units,
            Amount::Share(share) => ((u128::from(whole) * u128::from(share)) >> 16) as u64,
            Amount::Whole(more) => whole.saturating_add_signed(more.into()),
            Amount::Times(times) => whole.saturating_mul(times.into()),
        };
        // No call states more.
        units.min(1 << 63)
    }
}

/// A stretch of time, as seen from a window.
#[derive(Clone, Debug)]
pub enum Wait {
    Nanos(u64),
    /// To the next multiple of W/256, and so many nanoseconds more or less.
    Grain(i8),
    /// To the next multiple of W, and so many more or less.
    Turn(i8),
    Window(i8),
    WindowAndGrain(i8),
    /// So many 65536ths of it.
    Part(u16),
    Windows(u16),
    Years(u8),
    /// To the time that the last refusal named, and so many more or less.
    Refused(i8),
}

impl Wait {
    /// Never back, and never to the time that never comes.
    pub fn after(&self, now: u64, window: u64, refused_until: u64) -> u64 {
        let grain = window.div_ceil(256);
        let next = |step: u64| (now / step + 1).saturating_mul(step);
        let off = |at: u64, more: i8| at.saturating_add_signed(more.into());
        let at = match *self {
            Wait::Nanos(nanos) => now.saturating_add(nanos),
            Wait::Grain(more) => off(next(grain), more),
            Wait::Turn(more) => off(next(window), more),
            Wait::Window(more) => off(now.saturating_add(window), more),
            Wait::WindowAndGrain(more) => off(now.saturating_add(window + grain), more),
            Wait::Part(part) => now.saturating_add(((u128::from(window) * u128::from(part)) >> 16) as u64),
            Wait::Windows(windows) => now.saturating_add(window.saturating_mul(windows.into())),
            Wait::Years(years) => now.saturating_add(u64::from(years) * 365 * 86_400_000_000_000),
            Wait::Refused(more) => off(refused_until, more),
        };
        at.clamp(now, u64::MAX - 1)
    }
}

pub fn plans(steps: usize, changes: bool) -> impl Strategy<Value = Plan> {
    let change = if changes { 1 } else { 0 };
    let op = prop_oneof![
        6 => some_wait().prop_map(Op::Wait),
        8 => (some_amount(), withheld()).prop_map(|(cost, withheld)| Op::Take(cost, withheld)),
        1 => some_amount().prop_map(Op::Charge),
        3 => (any::<Index>(), some_amount()).prop_map(|(which, part)| Op::Refund(IndexOf(which), part)),
        change => some_amount().prop_map(Op::Change),
    ];
    let probe = (some_amount(), withheld(), withheld(), some_wait())
        .prop_map(|(cost, withheld, other_withheld, later)| Probe { cost, withheld, other_withheld, later });
    prop::collection::vec((op, probe).prop_map(|(op, probe)| Step { op, probe }), 1..steps)
}

pub fn some_amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        4 => (0_u64..20).prop_map(Amount::Exactly),
        6 => (0_u16..20_000).prop_map(Amount::Share),
        2 => any::<u16>().prop_map(Amount::Share),
        2 => (-1_i8..=1).prop_map(Amount::Whole),
        1 => (2_u8..5).prop_map(Amount::Times),
        1 => select(vec![0x7fff, 0x8000, 0xffff, 0x1_0000, 1 << 32, 1 << 63]).prop_map(Amount::Exactly),
    ]
}

fn withheld() -> impl Strategy<Value = Amount> {
    prop_oneof![
        3 => Just(Amount::Exactly(0)),
        2 => (0_u16..30_000).prop_map(Amount::Share),
        1 => some_amount(),
    ]
}

fn some_wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        2 => (0_u64..5).prop_map(Wait::Nanos),
        1 => (0_u64..1_000_000).prop_map(Wait::Nanos),
        4 => (-1_i8..=1).prop_map(Wait::Grain),
        2 => (-1_i8..=1).prop_map(Wait::Turn),
        3 => (-1_i8..=1).prop_map(Wait::Window),
        3 => (-1_i8..=1).prop_map(Wait::WindowAndGrain),
        4 => any::<u16>().prop_map(Wait::Part),
        4 => (0_u16..2_000).prop_map(Wait::Part),
        1 => (1_u16..600).prop_map(Wait::Windows),
        1 => (1_u8..100).prop_map(Wait::Years),
        4 => (-1_i8..=1).prop_map(Wait::Refused),
    ]
}

/// 1 ms to 31 days, in nanoseconds: those that people write, and any other.
pub fn any_window() -> impl Strategy<Value = u64> {
    const MAX: u64 = 31 * 86_400_000_000_000;
    prop_oneof![
        3 => select(vec![1, 250, 1_000, 10_000, 60_000, 3_600_000, 86_400_000])
            .prop_map(|millis| millis * 1_000_000),
        1 => select(vec![1_000_001, 1_000_003, 256_000_000, 999_999_999, MAX - 1, MAX]),
        1 => 1_000_000..=MAX,
    ]
}

pub fn any_units() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1_u64..12,
        3 => select(vec![60, 500, 10_000, 0x7fff, 0x8000, 200_000, 1_000_000_000]),
        1 => select(vec![(1 << 63) - 1, 1 << 63]),
        1 => 1_u64..=1 << 63,
    ]
}

/// Now and then so late that the clock's range ends soon.
pub fn any_start() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0),
        3 => 0_u64..10_000_000_000_000_000,
        1 => (1_u64..10_000_000_000_000).prop_map(|before| u64::MAX - before),
    ]
}
