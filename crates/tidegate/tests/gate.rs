//! The gate as its users see it, on paused time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::{Call, Config, Gate, Outcome, Priority, Reason};
use tokio::time::Instant;

const BUCKET: &str = "[services.api]\nrequests = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 100 }\nqueue = { max_waiting = 1000000 }\n";

fn gate(config: &str) -> Gate {
    Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid")
}

fn drained() -> Gate {
    let gate = gate(BUCKET);
    gate.try_acquire(Call::to("api").requests(100)).expect("full at first").finish(Outcome::done());
    gate
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_turn_on_tokios_time() {
    let gate = drained();
    let start = Instant::now();
    let permit = gate.acquire(Call::to("api").requests(50)).await.expect("in time");
    assert_eq!(start.elapsed(), Duration::from_millis(500));
    assert_eq!(permit.waited(), Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn a_verdict_waits_for_its_call_though_others_come_to_wait_meanwhile() {
    let gate = drained();
    let mut first = gate.acquire(Call::to("api").requests(50));
    assert!(poll_once(&mut first).is_none());
    tokio::time::sleep(Duration::from_millis(600)).await;
    let mut second = gate.acquire(Call::to("api").requests(50));
    assert!(poll_once(&mut second).is_none());
    let permit = poll_once(&mut first).expect("it was granted").expect("in time");
    assert_eq!(permit.waited(), Duration::from_millis(500));
    assert!(poll_once(&mut second).is_none(), "it has a place of its own");
    assert_eq!(second.await.expect("in time").waited(), Duration::from_millis(400));
}

#[tokio::test(start_paused = true)]
async fn aborted_calls_leave_no_hole() {
    let gate = drained();
    let start = Instant::now();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let gate = gate.clone();
            tokio::spawn(async move {
                gate.acquire(Call::to("api").requests(50)).await.expect("in time").finish(Outcome::done());
                start.elapsed()
            })
        })
        .collect();
    while gate.waiting() < 10 {
        tokio::task::yield_now().await;
    }
    for (index, task) in tasks.iter().enumerate() {
        if index != 4 && index != 7 {
            task.abort();
        }
    }
    let mut survivors = Vec::new();
    for task in tasks {
        survivors.extend(task.await.ok());
    }
    assert_eq!(survivors, [Duration::from_millis(500), Duration::from_millis(1_000)]);
}

#[tokio::test(start_paused = true)]
async fn a_large_call_is_not_starved_by_small_ones() {
    let gate = drained();
    for index in 0..50 {
        let gate = gate.clone();
        tokio::spawn(async move {
            let call = Call::to("api").loop_id(&format!("loop-{index}"));
            loop {
                gate.acquire(&call).await.expect("in time").finish(Outcome::done());
            }
        });
    }
    while gate.waiting() < 50 {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    let large = gate.acquire(Call::to("api").loop_id("new").requests(80)).await.expect("in time");
    let took = start.elapsed();
    assert!(took <= Duration::from_millis(1_301), "{took:?}");
    drop(large);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_permit_frees_its_slot_and_keeps_its_cost_and_a_cancelled_one_gives_all_back() {
    let gate = gate("[services.api]\nconcurrency = 1\ntokens = { limit = \"100/h\", burst = 100 }\n");
    let used = || gate.limit("api/tokens/1h").expect("known").used;
    let call = Call::to("api").tokens(10);
    drop(gate.try_acquire(&call).expect("fits"));
    assert_eq!(used(), 10);
    gate.try_acquire(&call).expect("the slot is free").cancel();
    assert_eq!(used(), 10);
    gate.try_acquire(&call).expect("the slot is free").finish(Outcome::done().tokens(4));
    assert_eq!(used(), 14);
}

#[tokio::test(start_paused = true)]
async fn a_reply_settles_the_call_by_the_usage_that_it_reports() {
    let gate = gate(
        "[services.api]\nprofile = \"mistral\"\nconcurrency = 1\ntokens = { limit = \"100/h\", burst = 100 }\n",
    );
    let used = || gate.limit("api/tokens/1h").expect("known").used;
    let permit = gate.try_acquire(Call::to("api").tokens(50)).expect("fits");
    let body = br#"{"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}"#;
    permit.finish(Outcome::reply(200_u16, &http::HeaderMap::new()).body(body));
    assert_eq!(used(), 7);
    let permit = gate.try_acquire(Call::to("api").tokens(10)).expect("the slot is free");
    permit.finish(Outcome::reply(http::StatusCode::BAD_REQUEST, &http::HeaderMap::new()).tokens(0));
    assert_eq!(used(), 7);
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_call_gives_its_slot_back() {
    let gate = gate("[services.api]\nconcurrency = 1\n");
    let held = gate.clone();
    let panicked = tokio::spawn(async move {
        let _permit = held.acquire(Call::to("api")).await.expect("free");
        panic!("the call failed");
    });
    assert!(panicked.await.is_err());
    gate.try_acquire(Call::to("api")).expect("the slot is back").finish(Outcome::done());
}

#[tokio::test(start_paused = true)]
async fn a_slot_goes_to_the_highest_rank_as_soon_as_it_is_free() {
    let gate = gate("[services.api]\nconcurrency = 1\n");
    let permit = gate.try_acquire(Call::to("api")).expect("free");
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let wait = |priority| {
        let (gate, order) = (gate.clone(), order.clone());
        tokio::spawn(async move {
            let permit = gate.acquire(Call::to("api").priority(priority)).await.expect("in time");
            order.lock().expect("no panic").push(priority);
            drop(permit);
        })
    };
    let waiting = [wait(Priority::Low), wait(Priority::Normal), wait(Priority::High)];
    while gate.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    drop(permit);
    for task in waiting {
        task.await.expect("no panic");
    }
    assert_eq!(*order.lock().expect("no panic"), [Priority::High, Priority::Normal, Priority::Low]);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_beyond_its_timeout_and_the_refusal_says_why() {
    let gate = gate("[services.api]\nconcurrency = 1\n");
    let _held = gate.try_acquire(Call::to("api")).expect("free");
    let start = Instant::now();
    let refused =
        gate.acquire(Call::to("api").timeout(Duration::from_secs(5))).await.expect_err("never free");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!((refused.reason(), refused.limit()), (&Reason::Timeout, Some("api/concurrency")));
    let refused = gate.acquire(Call::to("api").timeout(Duration::ZERO)).await.expect_err("does not wait");
    assert_eq!(refused.reason(), &Reason::Timeout);
}

#[tokio::test(start_paused = true)]
async fn the_place_of_a_waiting_call_can_be_seen() {
    let gate = drained();
    let mut first = Box::pin(gate.acquire(Call::to("api").requests(50)));
    let mut second = Box::pin(gate.acquire(Call::to("api").requests(50)));
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    let place = second.place().expect("it waits");
    assert_eq!((place.position, &*place.limit), (2, "api/requests/1s"));
    assert_eq!(place.expected, Some(Duration::from_secs(1)));
    drop(first);
    assert_eq!(second.place().expect("it waits").position, 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_comes_for_is_given_back() {
    let gate = gate("[services.api]\nconcurrency = 1\ntokens = { limit = \"100/h\", burst = 100 }\n");
    let held = gate.try_acquire(Call::to("api").tokens(10)).expect("free");
    let mut waiting = Box::pin(gate.acquire(Call::to("api").tokens(20)));
    assert!(poll_once(&mut waiting).is_none());
    drop(held);
    assert_eq!(gate.limit("api/tokens/1h").expect("known").used, 30, "it was granted");
    drop(waiting);
    assert_eq!(gate.limit("api/tokens/1h").expect("known").used, 10);
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
}

#[tokio::test(start_paused = true)]
async fn changing_a_limit_wakes_those_who_wait_for_it() {
    let gate = drained();
    let waits = tokio::spawn({
        let gate = gate.clone();
        async move { gate.acquire(Call::to("api").requests(100)).await.map(drop) }
    });
    while gate.waiting() < 1 {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    gate.reconfigure(&Config::parse("[services.api]\n").expect("valid")).expect("valid");
    waits.await.expect("no panic").expect("nothing holds it any more");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_timer_task_does_not_outlive_its_gate() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let gate = drained();
    let mut waiting = Box::pin(gate.acquire(Call::to("api").requests(50)));
    assert!(poll_once(&mut waiting).is_none());
    assert_eq!(tasks(), before + 1, "one timer a gate");
    let mut another = Box::pin(gate.acquire(Call::to("api").requests(50)));
    assert!(poll_once(&mut another).is_none());
    assert_eq!(tasks(), before + 1, "not one a waiter");
    drop((waiting, another, gate));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tasks(), before);
}

#[test]
fn a_runtime_that_goes_away_does_not_strand_the_waiters_of_another() {
    let gate =
        gate("[services.api]\nrequests = { limit = \"50/s\", algorithm = \"token-bucket\", burst = 1 }\n");
    gate.try_acquire(Call::to("api")).expect("full at first").finish(Outcome::done());
    let first = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
    let mut stays = Box::pin(gate.acquire(Call::to("api")));
    first.block_on(async { assert!(poll_once(&mut stays).is_none()) });
    drop(first);
    let second = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
    second.block_on(async {
        let permit = tokio::time::timeout(Duration::from_secs(20), stays).await.expect("not stranded");
        permit.expect("granted").finish(Outcome::done());
    });
}

#[test]
fn a_runtime_that_is_kept_but_not_run_does_not_hold_up_the_waiters_of_another() {
    let gate =
        gate("[services.api]\nrequests = { limit = \"50/s\", algorithm = \"token-bucket\", burst = 1 }\n");
    gate.try_acquire(Call::to("api")).expect("full at first").finish(Outcome::done());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
    let idle = runtime();
    let mut first = Box::pin(gate.acquire(Call::to("api")));
    idle.block_on(async { assert!(poll_once(&mut first).is_none()) });
    runtime().block_on(async {
        let both = async {
            gate.acquire(Call::to("api")).await.expect("granted").finish(Outcome::done());
        };
        tokio::time::timeout(Duration::from_secs(20), both).await.expect("not held up");
    });
    drop((first, idle));
}

#[test]
fn threads_without_a_runtime_wait_too() {
    let gate =
        gate("[services.api]\nrequests = { limit = \"1000/s\", algorithm = \"token-bucket\", burst = 10 }\n");
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    gate.acquire_blocking(Call::to("api")).expect("in time").finish(Outcome::done());
                }
            });
        }
    });
    assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
    assert_eq!(gate.counts("api").expect("known").granted, 100);
}

#[test]
fn eight_threads_never_pass_more_than_a_limit_allows() {
    let gate = gate("[services.api]\nconcurrency = 3\nrequests = { limit = \"1000/day\", burst = 1000 }\n");
    let inside = AtomicUsize::new(0);
    let granted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    if let Ok(permit) = gate.try_acquire(Call::to("api")) {
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 3, "three at a time");
                        granted.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        permit.finish(Outcome::done());
                    }
                }
            });
        }
    });
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
    let granted = granted.load(Ordering::SeqCst) as u64;
    assert!(granted <= 1_000);
    assert_eq!(gate.limit("api/requests/1d").expect("known").used, granted);
}

/// Wherever a waiting call is dropped, nothing leaks: polled so many times, then dropped, then all is free.
#[tokio::test(start_paused = true)]
async fn dropping_at_any_poll_leaks_nothing() {
    for polls in 0..6 {
        let gate = gate(
            "[services.api]\nconcurrency = 2\nrequests = { limit = \"1/s\", algorithm = \"token-bucket\", burst = 1 }\n",
        );
        gate.try_acquire(Call::to("api")).expect("full at first").finish(Outcome::done());
        let mut waiting = Box::pin(gate.acquire(Call::to("api")));
        for _ in 0..polls {
            if poll_once(&mut waiting).is_some() {
                break;
            }
            tokio::time::advance(Duration::from_millis(400)).await;
        }
        drop(waiting);
        assert_eq!(gate.waiting(), 0);
        assert_eq!(gate.limit("api/concurrency").expect("known").used, 0, "after {polls} polls");
    }
}

/// One look at a future; what it came to, if it did.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let waker = Waker::from(Arc::new(Nobody));
    match std::pin::Pin::new(future).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_holds_the_model_that_it_was_for_and_no_other() {
    let gate = gate("[services.api]\nrequests = { limit = \"100/s\", burst = 100 }\n");
    let turned_away = || Outcome::refused().retry_after(Duration::from_secs(5));
    gate.acquire(Call::to("api").model("a")).await.expect("free").finish(turned_away());
    gate.try_acquire(Call::to("api").model("b")).expect("another model").finish(turned_away());
    for model in ["a", "b"] {
        let refused = gate.try_acquire(Call::to("api").model(model)).expect_err("its window is open");
        assert_eq!(refused.limit(), Some(&*format!("api/model:{model}/backoff")));
    }
    gate.try_acquire(Call::to("api").model("c")).expect("a third one").cancel();
    let start = tokio::time::Instant::now();
    gate.acquire(Call::to("api").model("a")).await.expect("in time").cancel();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_gate_is_never_made_from_a_config_with_redis() {
    let errors = Config::parse("[state]\nredis = \"redis://127.0.0.1:6379\"\n").expect_err("not supported");
    assert!(errors.to_string().starts_with("config:2:9: Redis is not supported yet"), "{errors}");
    let mut built = Config::default();
    built.state.redis = Some("redis://127.0.0.1:6379".into());
    let error = Gate::from_config(built).await.expect_err("refused when it is built in Rust as well");
    assert!(error.to_string().contains("Redis is not supported yet"), "{error}");
}
