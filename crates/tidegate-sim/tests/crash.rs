//! `kill -9` at every step of keeping a book: nothing beyond a limit, whatever the disk has lost.

use tidegate_sim::crash::{Fault, Survived, survive};

/// Worlds in the test run; `TIDEGATE_CRASH_WORLDS` asks for another number.
fn worlds() -> u64 {
    std::env::var("TIDEGATE_CRASH_WORLDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

#[test]
fn whatever_a_crash_leaves_behind_nothing_goes_twice() {
    let play = |part: u64| {
        let mut all = Survived::default();
        for seed in (0..worlds()).filter(|seed| seed % 2 == part) {
            let survived = survive(seed, Fault::None).unwrap_or_else(|wrong| panic!("{wrong}"));
            all.granted += survived.granted;
            all.crashes += survived.crashes;
            all.stops += survived.stops;
        }
        all
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| play(1));
        (play(0), odd.join().expect("no world went wrong"))
    });
    for all in [even, odd] {
        assert!(all.crashes > all.stops && all.stops > 0 && all.granted > 5 * all.crashes, "{all:?}");
    }
}

/// A driver with a fault must be found out in one of thirty worlds at least.
fn is_found_out(fault: Fault) {
    let caught = (0..300).filter(|seed| survive(*seed, fault).is_err()).take(10).count();
    assert!(caught == 10, "{fault:?} was found out in {caught} of 300 worlds");
}

#[test]
fn who_does_not_wait_for_the_disk_is_found_out() {
    is_found_out(Fault::NoSync);
}

#[test]
fn who_spends_before_it_is_written_is_found_out() {
    is_found_out(Fault::WrittenAfterUse);
}

#[test]
fn who_forgets_promises_is_found_out() {
    is_found_out(Fault::ForgetsPromises);
}

#[test]
fn who_makes_time_out_of_nothing_is_found_out() {
    is_found_out(Fault::MintsTime);
}
