//! Logs on standard error: lines for people, or JSON for programs that collect them.

mod writer;

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum LogFormat {
    /// A line for each event.
    #[default]
    Text,
    /// A JSON object for each event.
    Json,
}

/// The level of tidegate's own events unless `TIDEGATE_LOG` names another one.
const DEFAULT: LevelFilter = LevelFilter::INFO;

pub use writer::LastLines;

/// Logs events until the returned guard is dropped.
pub fn init(format: LogFormat) -> io::Result<LastLines> {
    let level = std::env::var("TIDEGATE_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(DEFAULT);
    // Only warnings of other crates: their debug events may hold headers, and so keys.
    let filter = Targets::new().with_target("tidegate", level).with_default(level.min(LevelFilter::WARN));
    let (stderr, last) = writer::start(io::stderr())?;
    let registry = tracing_subscriber::registry().with(filter);
    // A subscriber that was set before stays.
    let _ = match format {
        LogFormat::Text => {
            let lines = fmt::layer().with_writer(stderr).with_target(false);
            registry.with(lines.with_ansi(io::stderr().is_terminal())).try_init()
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(stderr)).try_init(),
    };
    Ok(last)
}
