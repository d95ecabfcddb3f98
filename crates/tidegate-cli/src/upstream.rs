//! `tidegate upstream`: a limited API on a loopback port, to try things against. Hidden, since it is for tests, examples
//! and benchmarks. `docs/upstream.md` describes it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tidegate_core::config::units::{UnitError, WrittenRate, parse_count, parse_duration, parse_rate_of};
use tidegate_core::{Dimension, Rate, whole_nanos};
use tidegate_sim::upstream::http::{LimitedServer, Options};
use tidegate_sim::{HeaderStyle, Model, Neighbour, Outage, Spread, UpstreamLimit, UpstreamSpec};

use crate::signals::Stop;

/// Serve a limited API that answers like OpenAI's and Anthropic's, and counts every request.
///
/// Its first line is the URL it listens on. When it is told to stop it prints its own count as JSON.
#[derive(Args)]
pub struct Upstream {
    /// Where to listen; port 0 takes one that is free.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    listen: SocketAddr,
    /// A limit on requests, such as 600/min; may be repeated, like all limits.
    #[arg(long, value_name = "RATE", value_parser = rate_of(Dimension::Requests))]
    requests: Vec<Rate>,
    /// A limit on tokens.
    #[arg(long, value_name = "RATE", value_parser = rate_of(Dimension::Tokens))]
    tokens: Vec<Rate>,
    /// A limit on tokens sent.
    #[arg(long, value_name = "RATE", value_parser = rate_of(Dimension::InputTokens))]
    input_tokens: Vec<Rate>,
    /// A limit on tokens received.
    #[arg(long, value_name = "RATE", value_parser = rate_of(Dimension::OutputTokens))]
    output_tokens: Vec<Rate>,
    /// A limit on the bytes of request bodies.
    #[arg(long, value_name = "RATE", value_parser = rate_of(Dimension::Bytes))]
    bytes: Vec<Rate>,
    /// A limit on requests that headers do not mention.
    #[arg(long, value_name = "RATE", value_parser = rate_of(Dimension::Requests))]
    hidden: Vec<Rate>,
    /// How many requests may run at the same time.
    #[arg(long, value_name = "N", value_parser = slots)]
    concurrency: Option<Rate>,
    /// How it counts: token-bucket, fixed-window, sliding-log or gcra.
    #[arg(long, default_value = "token-bucket", value_parser = model)]
    model: Model,
    /// How many requests a bucket holds, or a GCRA lets through at once; as many as the limit if not said.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    burst: Option<u64>,
    /// What replies say about the limits: openai, azure, anthropic, github, ietf-old, ietf-new, retry-after or
    /// none.
    #[arg(long, default_value = "openai", value_name = "STYLE", value_parser = headers)]
    headers: HeaderStyle,
    /// How long an accepted request takes: 300ms, or 300ms..1500ms.
    #[arg(long, default_value = "0", value_name = "TIME", value_parser = times)]
    latency: Spread,
    /// How long a request takes to arrive, before it is counted.
    #[arg(long, default_value = "0", value_name = "TIME", value_parser = times)]
    jitter: Spread,
    /// The share of accepted requests that fail with a 5xx.
    #[arg(long, default_value = "0", value_name = "SHARE", value_parser = share)]
    errors: f64,
    /// The share of accepted requests whose reply is lost: the connection is closed without an answer.
    #[arg(long, default_value = "0", value_name = "SHARE", value_parser = share)]
    lost: f64,
    /// Refused requests count like accepted ones.
    #[arg(long)]
    refused_cost: bool,
    /// When it is down, from its start, and for how long: 10s+5s.
    #[arg(long, value_name = "AT+FOR", value_parser = outage)]
    outage: Vec<Outage>,
    /// Somebody else on the same limits: 180/min, or 180/min,500 for 500 tokens a call.
    #[arg(long, value_name = "RATE[,TOKENS]", value_parser = neighbour)]
    neighbour: Vec<Neighbour>,
    /// What chances are drawn from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl Upstream {
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let mut stop = Stop::new().context("cannot wait for a signal")?;
        let options = Options { listen: self.listen, seed: self.seed, ..Options::default() };
        let server = LimitedServer::start(&self.spec(), options)
            .await
            .with_context(|| format!("cannot listen on {}", self.listen))?;
        say(&server.url())?;
        stop.received().await;
        say(&server.counts_json().to_string())
    }

    fn spec(&self) -> UpstreamSpec {
        let mut limits = Vec::new();
        let mut add = |dimension: Dimension, rates: &[Rate], hidden: bool| {
            limits.extend(rates.iter().map(|rate| UpstreamLimit {
                model: self.model,
                dimension: dimension.clone(),
                rate: *rate,
                burst: self.burst.filter(|_| dimension == Dimension::Requests),
                hidden,
            }));
        };
        add(Dimension::Requests, &self.requests, false);
        add(Dimension::Tokens, &self.tokens, false);
        add(Dimension::InputTokens, &self.input_tokens, false);
        add(Dimension::OutputTokens, &self.output_tokens, false);
        add(Dimension::Bytes, &self.bytes, false);
        add(Dimension::Requests, &self.hidden, true);
        limits.extend(self.concurrency.map(|rate| UpstreamLimit {
            model: Model::Concurrency,
            dimension: Dimension::Requests,
            rate,
            burst: None,
            hidden: false,
        }));
        UpstreamSpec {
            limits,
            headers: self.headers,
            refused_cost: self.refused_cost,
            jitter: self.jitter,
            latency: self.latency,
            errors: self.errors,
            lost: self.lost,
            outages: self.outage.clone(),
            neighbours: self.neighbour.clone(),
            // This upstream has no other features of a simulated one.
            ..UpstreamSpec::default()
        }
    }
}

/// Writes a line and flushes it, since the process that started this one waits for it.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot write to standard output")
}

fn rate_of(dimension: Dimension) -> impl Fn(&str) -> Result<Rate, UnitError> + Clone + Send + Sync + 'static {
    move |text| parse_rate_of(text, &dimension).and_then(|rate: WrittenRate| rate.rate(&dimension))
}

fn slots(text: &str) -> Result<Rate, String> {
    let slots = parse_count(text).map_err(|error| error.to_string())?;
    // Slots have no window; any will do.
    Rate::new(slots, Duration::from_secs(1)).map_err(|error| error.to_string())
}

fn model(text: &str) -> Result<Model, String> {
    choice(text, &Model::NAMED)
}

fn headers(text: &str) -> Result<HeaderStyle, String> {
    choice(text, &HeaderStyle::NAMED)
}

fn choice<T: Copy>(text: &str, of: &[(&str, T)]) -> Result<T, String> {
    let names = || of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let known = of.iter().find(|(name, _)| *name == text);
    known.map(|(_, value)| *value).ok_or_else(|| format!("it is none of {}", names()))
}

fn times(text: &str) -> Result<Spread, String> {
    let nanos = |text: &str| parse_duration(text).map(whole_nanos).map_err(|error| error.to_string());
    let Some((from, to)) = text.split_once("..") else { return nanos(text).map(Spread::Exactly) };
    let (from, to) = (nanos(from)?, nanos(to)?);
    if from > to { Err("write the smaller one first".to_owned()) } else { Ok(Spread::Between(from, to)) }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a number from 0 to 1, such as 0.05".to_owned())
}

fn outage(text: &str) -> Result<Outage, String> {
    let (at, lasts) = text.split_once('+').ok_or("write when and for how long: 10s+5s")?;
    let span = |text: &str| parse_duration(text).map_err(|error| error.to_string());
    Ok(Outage { at: span(at)?, lasts: span(lasts)? })
}

fn neighbour(text: &str) -> Result<Neighbour, String> {
    let (rate, tokens) = text.split_once(',').unwrap_or((text, "0"));
    Ok(Neighbour {
        rate: rate_of(Dimension::Requests)(rate).map_err(|error| error.to_string())?,
        from: Duration::ZERO,
        until: None,
        tokens: Spread::Exactly(parse_count(tokens).map_err(|error| error.to_string())?),
    })
}
