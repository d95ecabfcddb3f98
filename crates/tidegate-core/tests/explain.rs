//! What the engine tells about a call's way.

use std::time::Duration;

use tidegate_core::engine::{Stand, Terms};
use tidegate_core::{Admission, Call, Config, Dimension, Engine, Nanos, Priority};

const CONFIG: &str = r#"
[services.api]
requests = { limit = "10/s", algorithm = "token-bucket", burst = 2 }
concurrency = 3
reserve = { high = 0.5 }

[loop_types.user]
priority = "high"

[loops]
requests = "30/min"
"#;

fn engine() -> Engine {
    let config = Config::parse(CONFIG, "test").expect("valid");
    Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect("valid")
}

#[test]
fn the_way_of_a_call_is_told_before_its_loop_ever_called() {
    let mut engine = engine();
    let call = Call::to("api").loop_id("a");
    let before = engine.passages(&call, Nanos::ZERO).expect("known");
    let names: Vec<&str> = before.iter().map(|passage| &*passage.limit).collect();
    assert_eq!(names, ["api/requests/1s", "api/concurrency", "loop:a/requests/1m"]);
    assert!(matches!(before[0].terms, Terms::TokenBucket { burst: 2, .. }));
    assert_eq!(before[0].withheld, [1, 1, 0, 0]);
    assert_eq!((before[0].dimension.clone(), before[1].dimension.clone()), (Some(Dimension::Requests), None));

    let grant = engine.try_admit(&call, Nanos::ZERO).expect("fits");
    assert_eq!(engine.passages(&call, Nanos::ZERO).expect("known"), before);
    let mut stands = Vec::new();
    engine.stands(&call, Nanos::ZERO, &mut stands);
    assert_eq!(stands.iter().map(|stand| stand.used).collect::<Vec<_>>(), [1, 1, 1]);
    engine.finish(grant, None, Nanos::ZERO);

    let mut stranger = Vec::new();
    engine.stands(&Call::to("api").loop_id("b"), Nanos::ZERO, &mut stranger);
    assert_eq!(stranger[2], Stand::default());
}

#[test]
fn an_estimate_is_shown_as_what_can_ever_fit() {
    let mut engine = engine();
    let call = Call::to("api").requests(9).estimated();
    assert_eq!(engine.passages(&call, Nanos::ZERO).expect("known")[0].cost, 1);
    assert_eq!(engine.priority_of(&call.loop_type("user"), Nanos::ZERO).expect("known"), Priority::High);
}

#[test]
fn the_first_in_line_has_a_booking_and_those_behind_it_may_have_room() {
    let mut engine = engine();
    let first = engine.try_admit(&Call::to("api").priority(Priority::High).requests(2), Nanos::ZERO);
    let first = first.expect("fits");
    let call = Call::to("api").priority(Priority::High);
    let Ok(Admission::Waiting(ticket)) = engine.enqueue(&call, Duration::from_secs(5), Nanos::ZERO) else {
        panic!("it should wait");
    };
    let mut line = Vec::new();
    engine.first_in_line(&call, Nanos::ZERO, &mut line);
    assert_eq!(line.len(), 1);
    assert_eq!((line[0].place, line[0].ticket, line[0].booked), (0, ticket, Nanos(100_000_000)));
    assert!(!engine.has_room(ticket, Nanos(99_999_999)));
    assert!(engine.has_room(ticket, Nanos(100_000_000)), "nobody called advance yet");
    engine.finish(first, None, Nanos(100_000_000));
}
