//! Plain threads without a runtime share one limit.
//!
//! `acquire_blocking` parks the thread until its turn has come. Its permit is told the reply; a call that was
//! refused after all asks again, and the gate knows when that makes sense.
//!
//! ```sh
//! cargo run --example threads
//! ```

mod common;

use std::sync::Mutex;

use reqwest::blocking::Client;
use tidegate::{Call, Gate, Outcome, Priority};

const THREADS: usize = 8;
const CALLS: usize = 25;

pub fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // The upstream is what needs a runtime: this program does not.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let server = runtime.block_on(common::upstream(0.0))?;
    let (gate, client, url) = (common::gate()?, Client::new(), server.url());

    let summary = Mutex::new(common::Summary::begin());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gate, client, url, summary) = (&gate, &client, &url, &summary);
            scope.spawn(move || {
                let call = Call::to("api").loop_id(&format!("thread-{thread}"));
                for _ in 0..CALLS {
                    let waited = get(gate, &call, client, url).expect("an answer");
                    summary.lock().expect("no panic").done(Priority::Normal, waited);
                }
            });
        }
    });
    summary.into_inner()?.print("threads", THREADS * CALLS, &server);
    Ok(())
}

/// One call, until it is answered; how long it waited.
fn get(
    gate: &Gate,
    call: &Call,
    client: &Client,
    url: &str,
) -> Result<std::time::Duration, Box<dyn std::error::Error>> {
    let mut waited = std::time::Duration::ZERO;
    loop {
        let permit = gate.acquire_blocking(call)?;
        waited += permit.waited();
        let reply = client.get(url).send()?;
        permit.finish(Outcome::reply(reply.status(), reply.headers()));
        if reply.status().is_success() {
            return Ok(waited);
        }
    }
}
