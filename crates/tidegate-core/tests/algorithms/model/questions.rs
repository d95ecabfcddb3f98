//! The answers of one meter agree with one another, whatever it counts.

use tidegate_core::Nanos;
use tidegate_core::limits::meters::Meter;

use super::plan::Probe;

/// Asks `meter` everything about one call, and tries out every answer on a copy.
pub fn consistent(meter: &Meter, probe: &Probe, window: u64, now: u64) {
    let capacity = meter.capacity();
    let (cost, withheld) = (probe.cost.of(capacity), probe.withheld.of(capacity));
    let mut current = meter.clone();
    current.used(Nanos(now));

    let earliest = current.earliest(cost, withheld);
    earliest_is_the_first_time_that_fits(&current, cost, withheld, now);
    asking_later_changes_no_booking(meter.earliest(cost, withheld), earliest, now);
    room_is_the_largest_cost_that_fits(&current, withheld, now);
    if !meter.is_in_flight() {
        full_at_is_the_first_time_at_which_all_is_available(&current, now);
    }
    the_flow_is_told_without_overflow(&current, cost, withheld, now);
    if !earliest.is_never() && !meter.is_in_flight() {
        let at = earliest.0.max(now);
        let later = probe.later.after(at, window, at);
        for at in [at, later] {
            let booking = Booking { cost, withheld, at };
            let room = current.room(probe.other_withheld.of(capacity), Nanos(now));
            spare_is_the_most_that_moves_no_booking(&current, booking, room, now);
        }
    }
}

struct Booking {
    cost: u64,
    withheld: u64,
    at: u64,
}

fn fits_at(meter: &Meter, cost: u64, withheld: u64, at: u64) -> bool {
    meter.clone().fits(cost, withheld, Nanos(at))
}

fn earliest_is_the_first_time_that_fits(meter: &Meter, cost: u64, withheld: u64, now: u64) {
    let earliest = meter.earliest(cost, withheld);
    let fits = fits_at(meter, cost, withheld, now);
    assert_eq!(fits, earliest.0 <= now, "{cost} with {withheld} withheld at {now}: earliest {earliest:?}");
    if fits || earliest.is_never() {
        return;
    }
    assert!(fits_at(meter, cost, withheld, earliest.0), "{cost} does not fit when promised, at {earliest:?}");
    assert!(
        !fits_at(meter, cost, withheld, earliest.0 - 1),
        "{cost} fits sooner than promised for {earliest:?}"
    );
}

fn asking_later_changes_no_booking(before: Nanos, after: Nanos, now: u64) {
    assert!(before == after || before.0.max(after.0) <= now, "booked for {before:?}, then for {after:?}");
}

fn room_is_the_largest_cost_that_fits(meter: &Meter, withheld: u64, now: u64) {
    let room = meter.clone().room(withheld, Nanos(now));
    // In debt nothing fits, not even a call that costs nothing; the room is zero then too.
    assert!(room == 0 || fits_at(meter, room, withheld, now), "room for {room} that does not fit");
    assert!(
        room == u64::MAX || !fits_at(meter, room + 1, withheld, now),
        "more than the room of {room} fits with {withheld} withheld at {now}"
    );
}

fn full_at_is_the_first_time_at_which_all_is_available(meter: &Meter, now: u64) {
    let full_at = meter.full_at();
    let full = |at| meter.clone().room(0, Nanos(at)) == meter.capacity();
    assert_eq!(full(now), full_at.0 <= now, "full at {full_at:?}, and it is {now}");
    if full_at.0 > now && !full_at.is_never() {
        assert!(full(full_at.0), "not full when promised, at {full_at:?}");
        assert!(!full(full_at.0 - 1), "full before {full_at:?}");
    }
}

/// Whoever goes now before a booked call may take what is spare of the room there is, and not a unit more.
fn spare_is_the_most_that_moves_no_booking(meter: &Meter, booking: Booking, room: u64, now: u64) {
    let Booking { cost, withheld, at } = booking;
    let spare = meter.clone().spare(Nanos(now), cost, withheld, Nanos(at));
    let booked_after = |taken| {
        let mut meter = meter.clone();
        meter.take(taken, Nanos(now), Nanos(now));
        meter.earliest(cost, withheld).0
    };
    let most = spare.min(room);
    assert!(booked_after(most) <= at, "{most} are said to be spare, but move {cost} from {at}");
    if most < room {
        assert!(
            booked_after(most + 1) > at,
            "{} could go without moving {cost} from {at}, but only {most} are said to be spare",
            most + 1
        );
    }
}

fn the_flow_is_told_without_overflow(meter: &Meter, cost: u64, withheld: u64, now: u64) {
    let whole = u128::from(meter.capacity());
    let mut amounts = [0, 1, cost.into(), whole, whole * 3 / 2, whole << 20, u128::MAX - 1, u128::MAX];
    amounts.sort_unstable();
    let mut last = Nanos(now);
    for units in amounts {
        let by = meter.clone().flows_by(units, withheld, Nanos(now));
        assert!(by >= last, "{units} units flow by {by:?}, and fewer by {last:?}");
        last = by;
    }
}
