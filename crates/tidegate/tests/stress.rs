//! Many threads and tasks at once, some of which give up at any moment: nothing leaks, nothing is exceeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate::{Call, Config, Gate, Outcome, Priority};

const CONFIG: &str = r#"
[global]
concurrency = 6
[services.api]
concurrency = 4
requests = { limit = "20000/s", algorithm = "token-bucket", burst = 50 }
tokens = { limit = "1000k/s", algorithm = "token-bucket", burst = 5000 }
[loops]
concurrency = 3
"#;

#[test]
fn tasks_and_threads_that_give_up_at_any_moment_leak_nothing() {
    let gate = Gate::builder().config(Config::parse(CONFIG).expect("valid")).build().expect("valid");
    let inside = Arc::new(AtomicUsize::new(0));
    let went = Arc::new(AtomicUsize::new(0));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("runtime");
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let (gate, inside, went) = (gate.clone(), inside.clone(), went.clone());
            std::thread::spawn(move || {
                let call = Call::to("api").loop_id(&format!("thread-{number}")).tokens(20);
                for _ in 0..300 {
                    let permit = gate.acquire_blocking(&call).expect("in time");
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 4, "four at a time");
                    went.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    permit.finish(Outcome::done().tokens(10));
                }
            })
        })
        .collect();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..600_usize {
            let (gate, inside, went) = (gate.clone(), inside.clone(), went.clone());
            tasks.spawn(async move {
                let call = Call::to("api")
                    .loop_id(&format!("loop-{}", number % 7))
                    .priority(Priority::ALL[number % 4])
                    .tokens(number as u64 % 50);
                let work = async {
                    let permit = gate.acquire(call).await.expect("in time");
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 4, "four at a time");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    went.fetch_add(1, Ordering::SeqCst);
                    match number % 3 {
                        0 => permit.cancel(),
                        1 => permit.finish(Outcome::done()),
                        _ => drop(permit),
                    }
                };
                // Some wait for as long as it takes, some give up after a moment.
                if number % 5 == 0 {
                    let gave_up = tokio::time::timeout(Duration::from_micros(number as u64), async {
                        gate.acquire(Call::to("api").tokens(40)).await.map(drop)
                    });
                    let _ = gave_up.await;
                }
                work.await;
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
    });
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(went.load(Ordering::SeqCst), 1_500, "everybody who stayed went");
    assert_eq!(gate.waiting(), 0);
    for limit in gate.limits().iter().filter(|limit| limit.name.ends_with("concurrency")) {
        assert_eq!(limit.used, 0, "{}", limit.name);
    }
}
