//! Limiters behind a pointer.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{RateLimiter, SlidingWindow, TokenBucket};

const DAY: Duration = Duration::from_secs(86_400);

async fn drain(limiter: impl RateLimiter) -> u64 {
    let mut taken = 0;
    while limiter.try_consume(1).await {
        taken += 1;
    }
    assert_eq!(limiter.available_tokens(), 0);
    assert!(limiter.reset_time().is_some());
    assert!(limiter.check_and_consume(1).await.unwrap_err().wait().is_some());
    taken
}

#[tokio::test]
async fn a_boxed_or_shared_limiter_is_a_limiter() {
    let boxed: Box<dyn RateLimiter> = Box::new(TokenBucket::new(5, 1, DAY).unwrap());
    assert_eq!(drain(boxed).await, 5);
    let shared: Arc<dyn RateLimiter> = Arc::new(SlidingWindow::new(7, DAY).unwrap());
    assert_eq!(drain(Arc::clone(&shared)).await, 7);
    assert_eq!(drain(shared).await, 0);
    assert_eq!(drain(Arc::new(TokenBucket::new(3, 1, DAY).unwrap())).await, 3);
}

#[tokio::test]
async fn a_limiter_can_be_used_from_a_spawned_task() {
    let limiter: Arc<dyn RateLimiter> = Arc::new(TokenBucket::new(2, 1, DAY).unwrap());
    let task = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.check_and_consume(2).await }
    });
    assert!(task.await.unwrap().is_ok());
    assert!(!limiter.try_consume(1).await);
}
