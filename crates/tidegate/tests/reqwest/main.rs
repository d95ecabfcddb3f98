//! A gate in front of a reqwest client, on paused time: the upstream is the last middleware, and no socket.

mod bodies;
mod every_poll;
mod real;
mod retries;
mod upstream;

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tidegate::reqwest::Limited;
use tidegate::{Call, Config, Gate};

use upstream::Upstream;

/// One slot, a thousand tokens an hour, and half of them for one model.
const CONFIG: &str = r#"
[services.api]
concurrency = 1
tokens = { limit = "1000/h", burst = 1000 }
retry = { max_retries = 2 }

[services.api.models."small*"]
tokens = { limit = "500/h", burst = 500 }

[services.openai]
preset = "openai"
"#;

const CHAT: &str =
    r#"{"model": "sea-1", "messages": [{"role": "user", "content": "What is the sea?"}], "max_tokens": 96}"#;

fn gate() -> Gate {
    Gate::builder().config(Config::parse(CONFIG).expect("valid")).build().expect("valid")
}

fn client(gate: &Gate, upstream: &Upstream) -> ClientWithMiddleware {
    limited(Limited::new(gate.clone(), Call::to("api")), upstream)
}

fn limited(limited: Limited, upstream: &Upstream) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(limited).with(upstream.clone()).build()
}

/// What is in flight, and how many tokens are spent.
fn used(gate: &Gate) -> (u64, u64) {
    let used = |name| gate.limit(name).expect("known").used;
    (used("api/concurrency"), used("api/tokens/1h"))
}
