//! The same without a runtime.

use super::*;

#[test]
fn a_thread_without_a_runtime_waits_and_retries_too() {
    let config = RateLimitConfig { initial_delay: 20 * MS, ..RateLimitConfig::default() };
    let gate = Gate::simple(config).expect("valid");
    let start = std::time::Instant::now();
    let value = gate.execute_blocking(Call::default(), |attempt| {
        if attempt.number() <= 2 { Err(nobody_there()) } else { Ok("data") }
    });
    assert_eq!(value.expect("done"), "data");
    assert!(start.elapsed() >= Duration::from_millis(54), "{:?}", start.elapsed());

    let mut told = 0;
    let op = |attempt: tidegate::Attempt| {
        std::future::ready(if attempt.is_retry() { Ok(1) } else { Err(nobody_there()) })
    };
    let report = gate.execute(Call::default(), op).on_progress(|_| told += 1).with_report().block();
    assert_eq!(report.expect("done").attempts, 2);
    assert_eq!(told, 1);
}

#[test]
fn threads_share_a_gate_with_one_slot() {
    let gate = gate("[services.api]\nconcurrency = 1\nretry = { initial = \"1ms\", max = \"5ms\" }\n");
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let done = gate.execute_blocking(Call::to("api"), |attempt| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if attempt.is_retry() { Ok(()) } else { Err(nobody_there()) }
                    });
                    done.expect("in time");
                }
            });
        }
    });
    assert_eq!(gate.limit("api/concurrency").expect("known").used, 0);
    assert_eq!(gate.waiting(), 0);
}
