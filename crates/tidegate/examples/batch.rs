//! A batch in which every job must be done, against an API on which one call in twenty fails.
//!
//! All jobs are started at once; the gate lets them go as fast as the quota allows, and makes those again that
//! failed. A job's input stays with the job until it has succeeded.
//!
//! ```sh
//! cargo run --example batch
//! ```

mod common;

use reqwest::Client;
use tidegate::{Call, Outcome, Priority};
use tokio::task::JoinSet;

const JOBS: usize = 200;

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = common::upstream(0.05).await?;
    let (gate, client) = (common::gate()?, Client::new());
    let mut summary = common::Summary::begin();

    let mut jobs = JoinSet::new();
    for job in 0..JOBS {
        let (gate, client, url) = (gate.clone(), client.clone(), format!("{}/jobs/{job}", server.url()));
        jobs.spawn(async move {
            let call = Call::to("api").endpoint("PUT /jobs/*");
            gate.execute(call, |_| async {
                let input = format!("the input of job {job}");
                let reply = client.put(&url).body(input).send().await;
                let reply = reply.map_err(|error| Outcome::failed().because(error))?;
                match reply.status() {
                    status if status.is_success() => Ok(job),
                    status => {
                        Err(Outcome::reply(status, reply.headers()).because(format!("job {job}: {status}")))
                    }
                }
            })
            .repeatable(true)
            .with_report()
            .await
        });
    }
    let mut undone: Vec<usize> = (0..JOBS).collect();
    while let Some(job) = jobs.join_next().await {
        let done = job??;
        undone.retain(|job| *job != done.value);
        summary.done(Priority::Normal, done.waited);
    }
    assert!(undone.is_empty(), "{undone:?}");
    summary.print("batch", JOBS, &server);
    Ok(())
}
