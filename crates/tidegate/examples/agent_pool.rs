//! Fifty agents and the user at the keyboard share one API key, and the user comes first.
//!
//! Every agent is a loop with a fair share of its own. The user's calls pass all of theirs that wait, so they go
//! out almost at once though the limit is spent to the last request.
//!
//! ```sh
//! cargo run --example agent_pool
//! ```

mod common;

use std::time::Duration;

use reqwest::Client;
use tidegate::{Call, Gate, Outcome, Priority};
use tokio::task::JoinSet;

type Error = Box<dyn std::error::Error + Send + Sync>;

const AGENTS: usize = 50;
const CALLS: usize = 4;
const USER_CALLS: usize = 8;

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let server = common::upstream(0.0).await?;
    let (gate, client) = (common::gate()?, Client::new());
    let mut summary = common::Summary::begin();
    let mut loops = JoinSet::new();

    for agent in 0..AGENTS {
        let call = Call::to("api").loop_id(&format!("agent-{agent}"));
        loops.spawn(make(gate.clone(), call, client.clone(), server.url(), CALLS, Duration::ZERO));
    }
    let user = Call::to("api").loop_id("user").priority(Priority::High);
    let pause = Duration::from_millis(200);
    loops.spawn(make(gate, user, client, server.url(), USER_CALLS, pause));

    while let Some(waits) = loops.join_next().await {
        let waits = waits??;
        let priority = if waits.len() == USER_CALLS { Priority::High } else { Priority::Normal };
        waits.into_iter().for_each(|waited| summary.done(priority, waited));
    }
    summary.print("agents and a user", AGENTS * CALLS + USER_CALLS, &server);
    Ok(())
}

/// Makes calls one after the other; how long each waited.
async fn make(
    gate: Gate,
    call: Call,
    client: Client,
    url: String,
    calls: usize,
    pause: Duration,
) -> Result<Vec<Duration>, Error> {
    let mut waits = Vec::new();
    for _ in 0..calls {
        tokio::time::sleep(pause).await;
        let done = gate
            .execute(&call, |_| async {
                let reply =
                    client.get(&url).send().await.map_err(|error| Outcome::failed().because(error))?;
                match reply.status() {
                    status if status.is_success() => Ok(()),
                    status => Err(Outcome::reply(status, reply.headers()).because("refused")),
                }
            })
            .with_report()
            .await?;
        waits.push(done.waited);
    }
    Ok(waits)
}
