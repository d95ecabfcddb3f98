//! Clients on keep-alive connections: as fast as they are answered, or at a fixed rate.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::message;

/// How often they ask.
#[derive(Clone, Copy)]
pub enum Pace {
    /// As soon as the last one was answered.
    Flat,
    /// So many a second, all of them together.
    PerSecond(f64),
}

/// How long each answer took.
pub struct Answered {
    pub seconds: Vec<f64>,
    pub span: Duration,
}

impl Answered {
    pub fn per_second(&self) -> f64 {
        self.seconds.len() as f64 / self.span.as_secs_f64()
    }
}

/// Asks for so long on so many connections. Every answer must be a 200.
pub fn ask(
    to: SocketAddr,
    request: Vec<u8>,
    connections: u32,
    pace: Pace,
    span: Duration,
) -> Result<Answered> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(asked(to, request, connections, pace, span))
}

/// Asks so many times on one connection, each time as soon as it was answered. Every answer must be a 200.
pub fn ask_times(to: SocketAddr, request: &[u8], times: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stream = TcpStream::connect(to).await.context("it listens")?;
        stream.set_nodelay(true)?;
        let mut seen = Vec::with_capacity(16 << 10);
        for _ in 0..times {
            exchange(&mut stream, request, &mut seen).await?;
        }
        Ok(())
    })
}

/// [`ask`] on the thread of another runtime, so that the kernel need not choose between the two.
pub fn ask_from(
    thread: &Handle,
    to: SocketAddr,
    request: Vec<u8>,
    connections: u32,
    pace: Pace,
    span: Duration,
) -> Result<Answered> {
    let (tell, told) = std::sync::mpsc::channel();
    thread.spawn(async move { tell.send(asked(to, request, connections, pace, span).await) });
    told.recv().context("the thread is there")?
}

async fn asked(
    to: SocketAddr,
    request: Vec<u8>,
    connections: u32,
    pace: Pace,
    span: Duration,
) -> Result<Answered> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(to).await.context("it listens")?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let start = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for (number, stream) in streams.into_iter().enumerate() {
        let turns = match pace {
            Pace::Flat => None,
            Pace::PerSecond(rate) => {
                let every = Duration::from_secs_f64(f64::from(connections) / rate);
                Some((start + every.mul_f64(number as f64 / f64::from(connections)), every))
            }
        };
        clients.spawn(client(stream, request.clone(), turns, start + span));
    }
    let mut seconds = Vec::new();
    while let Some(done) = clients.join_next().await {
        seconds.extend(done??);
    }
    Ok(Answered { seconds, span: start.elapsed() })
}

async fn client(
    mut stream: TcpStream,
    request: Vec<u8>,
    mut turns: Option<(Instant, Duration)>,
    until: Instant,
) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    let mut seen = Vec::with_capacity(16 << 10);
    loop {
        let mut begun = Instant::now();
        if let Some((turn, every)) = &mut turns {
            // Who is late because the last answer was late counts from when it should have asked; a timer's own
            // delay is not the proxy's.
            if begun < *turn {
                sleep_until(*turn).await;
                begun = Instant::now();
            } else {
                begun = *turn;
            }
            *turn += *every;
        }
        if begun >= until {
            return Ok(took);
        }
        exchange(&mut stream, &request, &mut seen).await?;
        took.push(begun.elapsed().as_secs_f64());
    }
}

/// Sends a request and reads its answer, which must be a 200.
async fn exchange(stream: &mut TcpStream, request: &[u8], seen: &mut Vec<u8>) -> Result<()> {
    stream.write_all(request).await?;
    seen.clear();
    while message(seen).is_none() {
        if stream.read_buf(seen).await? == 0 {
            bail!("it hung up: {}", String::from_utf8_lossy(seen));
        }
    }
    if !seen.starts_with(b"HTTP/1.1 200") {
        bail!("{}", String::from_utf8_lossy(seen));
    }
    Ok(())
}
