//! A client that asks every millisecond is accepted exactly when the definition allows it.

use tidegate_sim::Dice;

use super::definition::Definition;
use super::*;

fn ask_every_millisecond(limit: &UpstreamLimit, dearest: u64) {
    let mut upstream = upstream(std::slice::from_ref(limit));
    let mut definition = Definition::of(limit);
    let mut dice = Dice::new(9);
    let (mut yes, mut no) = (0, 0);
    for at in (0..3_000).map(ms) {
        let cost = 1 + dice.below(dearest);
        let allowed = definition.allows(cost, at.0);
        match upstream.receive(&Cost::new().with(Dimension::Requests, cost), at) {
            Answer::Accepted(_) => {
                assert!(allowed, "{limit:?} accepted {cost} at {at:?}");
                definition.count(cost, at.0);
                yes += 1;
            }
            Answer::Refused(by) => {
                assert!(!allowed, "{limit:?} refused {cost} at {at:?}");
                let fits_at = at.after(by.wait.unwrap());
                assert!(definition.allows(cost, fits_at.0), "{limit:?}: {fits_at:?} is too early");
                assert!(!definition.allows(cost, fits_at.0 - 1), "{limit:?}: {fits_at:?} is too late");
                no += 1;
            }
            Answer::Failed(status) => panic!("failed with {status}"),
        }
    }
    assert!(yes > 50 && no > 50, "{limit:?}: {yes} accepted, {no} refused: nothing was tried");
}

#[test]
fn a_client_that_asks_every_millisecond_gets_exactly_what_the_definition_allows() {
    for model in RATE_MODELS {
        for (units, window, dearest) in [(40, 100, 1), (40, 100, 7), (97, 333, 20), (3, 7, 2), (1, 3, 1)] {
            ask_every_millisecond(&requests(model, units, window), dearest);
        }
    }
    for model in [Model::TokenBucket, Model::Gcra] {
        for (burst, dearest) in [(1, 1), (7, 7), (300, 40)] {
            let limit = UpstreamLimit { burst: Some(burst), ..requests(model, 97, 333) };
            ask_every_millisecond(&limit, dearest);
        }
    }
}

#[test]
fn a_gcra_is_a_bucket_written_otherwise() {
    let mut dice = Dice::new(3);
    for (units, window, burst) in [(7, 3, 5), (600, 60_000, 10), (1, 1, 1), (1_000_003, 997, 40)] {
        let limit = |model| [UpstreamLimit { burst: Some(burst), ..requests(model, units, window) }];
        let mut bucket = upstream(&limit(Model::TokenBucket));
        let mut gcra = upstream(&limit(Model::Gcra));
        let mut at = Nanos::ZERO;
        for _ in 0..20_000 {
            let mean = window * 1_000_000 / units;
            at.0 += dice.below(3 * mean);
            let cost = Cost::new().with(Dimension::Requests, dice.below(burst + 2));
            let (one, other) = (bucket.receive(&cost, at), gcra.receive(&cost, at));
            assert_eq!(one, other);
            assert_eq!(bucket.headers(None, at, Duration::ZERO), gcra.headers(None, at, Duration::ZERO));
        }
        assert!(bucket.counts().us.refused > 1000 && bucket.counts().us.accepted > 1000);
    }
}
