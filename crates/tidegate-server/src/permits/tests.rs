use std::collections::HashSet;

use tidegate::{Call, Config, Gate};

use super::*;

const LEASE: Duration = Duration::from_secs(300);

fn gate() -> Gate {
    let config = "[services.git]\nconcurrency = 3\nrequests = { limit = \"100/h\", burst = 100 }\n";
    Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid")
}

fn here() -> ShareOwner {
    ShareOwner::new(Origin::Socket, None)
}

fn used(gate: &Gate) -> (u64, u64) {
    let used = |name| gate.limit(name).expect("known").used;
    (used("git/concurrency"), used("git/requests/1h"))
}

fn granted(permits: &Arc<Permits>, gate: &Gate, id: Option<&str>) -> PermitId {
    let permit = gate.try_acquire(Call::to("git")).expect("there is room");
    permits.claim(None, here(), id, "git").expect("free").grant(permit, LEASE).expect("there is room")
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_frees_the_slot_and_keeps_the_cost() {
    let (permits, gate) = (Arc::new(Permits::new()), gate());
    let sweeper = tokio::spawn(permits.clone().expire());
    let (first, second) = (granted(&permits, &gate, None), granted(&permits, &gate, Some("b")));
    tokio::time::sleep(LEASE - Duration::from_secs(1)).await;
    permits.renew(second, &None, LEASE).expect("it lives");
    assert_eq!(used(&gate), (2, 2));
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert_eq!(used(&gate), (1, 2));
    assert_eq!(permits.take(first, &None, End::Completed).err(), Some(NoPermit::Ended(End::Expired)));
    assert_eq!(permits.renew(first, &None, LEASE), Err(NoPermit::Ended(End::Expired)));
    tokio::time::sleep(LEASE).await;
    assert_eq!((used(&gate), permits.live()), ((0, 2), 0));
    assert!(permits.claim(None, here(), Some("b"), "other").is_ok(), "its id is free again");
    sweeper.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shorter_lease_than_all_others_ends_first() {
    let (permits, gate) = (Arc::new(Permits::new()), gate());
    let sweeper = tokio::spawn(permits.clone().expire());
    let long = granted(&permits, &gate, None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let permit = gate.try_acquire(Call::to("git")).expect("there is room");
    let claim = permits.claim(None, here(), None, "").expect("free");
    claim.grant(permit, Duration::from_secs(2)).expect("there is room");
    tokio::time::sleep(Duration::from_millis(2_001)).await;
    assert_eq!(permits.live(), 1);
    permits.take(long, &None, End::Cancelled).expect("it lives").cancel();
    assert_eq!(used(&gate), (0, 1));
    sweeper.abort();
}

#[tokio::test(start_paused = true)]
async fn an_id_is_claimed_while_its_call_waits_and_while_its_permit_lives() {
    let (permits, gate) = (Arc::new(Permits::new()), gate());
    let claim = permits.claim(None, here(), Some("a"), "git").expect("free");
    assert_eq!(permits.claim(None, here(), Some("a"), "git").err(), Some(Claimed::Taken));
    drop(claim);
    let number = granted(&permits, &gate, Some("a"));
    assert_eq!(permits.claim(None, here(), Some("a"), "git").err(), Some(Claimed::Granted(number, LEASE)));
    assert_eq!(permits.claim(None, here(), Some("a"), "other").err(), Some(Claimed::Taken));
    assert!(
        permits.claim(Some("ci".into()), here(), Some("a"), "git").is_ok(),
        "everybody has ids of their own"
    );
    drop(permits.take(number, &None, End::Completed).expect("it lives"));
    assert!(permits.claim(None, here(), Some("a"), "other").is_ok());
}

#[tokio::test(start_paused = true)]
async fn how_the_latest_ended_is_remembered_and_no_more_than_a_bounded_number() {
    let (permits, gate) = (Arc::new(Permits::new()), gate());
    let first = granted(&permits, &gate, None);
    permits.take(first, &None, End::Cancelled).expect("it lives").cancel();
    assert_eq!(permits.take(first, &None, End::Completed).err(), Some(NoPermit::Ended(End::Cancelled)));
    for _ in 0..MAX_PERMITS {
        let number = granted(&permits, &gate, None);
        permits.take(number, &None, End::Cancelled).expect("it lives").cancel();
    }
    assert_eq!(permits.take(first, &None, End::Completed).err(), Some(NoPermit::Unknown));
}

#[tokio::test]
async fn numbers_are_unlike_each_other_and_are_read_as_they_are_written() {
    let permits = Permits::new();
    let numbers: HashSet<PermitId> = (0..1_000).map(|_| permits.fresh_id().expect("random")).collect();
    assert_eq!(numbers.len(), 1_000);
    for number in numbers {
        assert_eq!(PermitId::parse(&number.to_string()), Some(number));
    }
    for text in ["", "1", &"x".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
        assert_eq!(PermitId::parse(text), None, "{text}");
    }
}

#[tokio::test]
async fn a_permit_that_ends_in_any_way_frees_its_place_in_its_callers_share() {
    let (permits, gate) = (Arc::new(Permits::new()), gate());
    let [first, second] = [granted(&permits, &gate, None), granted(&permits, &gate, Some("b"))];
    assert!(!permits.table.lock().shares.are_empty());
    permits.take(first, &None, End::Cancelled).expect("it lives").cancel();
    drop(permits.take(second, &None, End::Completed).expect("it lives"));
    assert!(permits.table.lock().shares.are_empty());
}

/// Takes permits for an owner until its share is used up.
fn take_all(permits: &Arc<Permits>, gate: &Gate, share_owner: &ShareOwner) -> (usize, Full) {
    for number in 0.. {
        let claim = match permits.claim(None, share_owner.clone(), None, "git") {
            Ok(claim) => claim,
            Err(Claimed::Full(full)) => return (number, full),
            Err(other) => panic!("{other:?}"),
        };
        let permit = gate.try_acquire(Call::to("git")).expect("there is room");
        claim.grant(permit, LEASE).expect("its share was asked for");
    }
    unreachable!("the table is bounded")
}

#[tokio::test]
async fn one_greedy_caller_never_makes_others_go_without() {
    let config = Config::parse("[services.git]\n").expect("valid");
    let gate = Gate::builder().config(config).build().expect("valid");
    let permits = Arc::new(Permits::new());
    let local = |loop_id| ShareOwner::new(Origin::Address([127, 0, 0, 1].into()), loop_id);
    let (taken, full) = take_all(&permits, &gate, &local(Some("greedy")));
    assert_eq!(taken, MAX_PERMITS / 4);
    assert!(full.to_string().contains("the loop `greedy` of 127.0.0.1 holds 16384 permits"), "{full}");
    for other in [local(None), local(Some("b")), here(), ShareOwner::new(Origin::Token("ci".into()), None)] {
        let claim = permits.claim(None, other, None, "git").expect("a share of its own");
        let permit = gate.try_acquire(Call::to("git")).expect("there is room");
        claim.grant(permit, LEASE).expect("there is room");
    }
    // Calls that waited side by side are counted again when they are granted.
    let share_owner = local(Some("greedy"));
    permits.table.lock().expire(Instant::now() + LEASE);
    let early = permits.claim(None, share_owner.clone(), None, "git").expect("there is room");
    take_all(&permits, &gate, &share_owner);
    let permit = gate.try_acquire(Call::to("git")).expect("there is room");
    let (permit, full) = early.grant(permit, LEASE).expect_err("its share is used up");
    permit.cancel();
    assert!(full.is_some());
}
