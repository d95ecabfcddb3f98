//! `tidegate explain reply`: prints what an upstream's reply says about its limits.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use tidegate_core::reply::{Reader, Reading, UnixMillis};
use tidegate_core::vendors::{Profiles, all, by_name};

use super::raw_reply::RawReply;
use super::text;
use crate::{Misuse, config_text, environment};

/// The most that is read of a reply: more than any that is worth explaining.
const MAX_REPLY: u64 = 64 << 20;

/// Say what a reply means: which limit, how much is left, when to come back.
///
/// Reads a raw HTTP reply as `curl -i` prints it:  curl -si https://… | tidegate explain reply
#[derive(Args)]
pub struct ExplainReply {
    /// The file with the reply; `-` or nothing means standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Whose reply it is; without it, the reply's own headers decide.
    #[arg(long, value_name = "NAME")]
    vendor: Option<String>,
    /// The time the reply came, in seconds since 1970; used only if it has no Date. Default: the clock.
    #[arg(long, value_name = "UNIX", value_parser = seconds, allow_negative_numbers = true)]
    now: Option<UnixMillis>,
    /// A config file with profiles of your own.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// JSON, also on a terminal.
    #[arg(long, conflicts_with = "text")]
    json: bool,
    /// Text for a person, also when not on a terminal.
    #[arg(long)]
    text: bool,
}

impl ExplainReply {
    pub fn run(self) -> anyhow::Result<()> {
        let profiles = self.profiles()?;
        let reader = self.reader(&profiles)?;
        let bytes = self.bytes()?;
        let Some(reply) = RawReply::parse(&bytes) else {
            bail!(
                "this is no HTTP reply: it must begin with a status line such as `HTTP/1.1 200 OK` (curl -i prints it)"
            );
        };
        let names = || reply.headers.iter().map(|(name, _)| name.as_str());
        let reader = match reader {
            Some(reader) => reader,
            None => match profiles.recognise(names()) {
                Some((name, profile)) => Reader::with_profile(name, profile),
                None => Reader::default(),
            },
        };
        let headers = reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let reading = reader.read(reply.status, headers, reply.body, self.now.unwrap_or_else(clock));

        let mut out = io::stdout().lock();
        let for_a_person = self.text || (!self.json && out.is_terminal());
        let written = if for_a_person {
            text::write(&mut out, reply.status, &reading)
        } else {
            write_json(&mut out, &reading)
        };
        match written {
            // The reader of the output has closed it, which is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write to standard output"),
        }
    }

    fn profiles(&self) -> anyhow::Result<Profiles> {
        let Some(path) = &self.config else { return Ok(Profiles::default()) };
        let text = config_text(path)?;
        // Only the profiles: a mistake elsewhere in the file does not matter here.
        let profiles = Profiles::parse_with(&text, &path.display().to_string(), &environment);
        Ok(profiles.map_err(|errors| Misuse(errors.to_string()))?)
    }

    fn reader<'p>(&'p self, profiles: &'p Profiles) -> anyhow::Result<Option<Reader<'p>>> {
        let Some(name) = &self.vendor else { return Ok(None) };
        if let Some(profile) = profiles.get(name) {
            return Ok(Some(Reader::with_profile(name, profile)));
        }
        if let Some(vendor) = by_name(name) {
            return Ok(Some(Reader::of(vendor)));
        }
        let mut known: Vec<&str> = all().map(|vendor| vendor.name).chain(profiles.names()).collect();
        known.sort_unstable();
        Err(Misuse(format!("unknown vendor `{name}`: use one of {}", known.join(", "))).into())
    }

    fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if self.file.as_os_str() == "-" {
            io::stdin()
                .lock()
                .take(MAX_REPLY)
                .read_to_end(&mut bytes)
                .context("cannot read standard input")?;
        } else {
            File::open(&self.file)
                .and_then(|file| file.take(MAX_REPLY).read_to_end(&mut bytes))
                .with_context(|| format!("cannot read {}", self.file.display()))?;
        }
        Ok(bytes)
    }
}

fn write_json(out: &mut impl Write, reading: &Reading) -> io::Result<()> {
    #[derive(Serialize)]
    struct Output<'r> {
        #[serde(flatten)]
        reading: &'r Reading,
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    }
    let output = Output { reading, wait_ms: reading.wait().map(|wait| wait.ms) };
    serde_json::to_writer(&mut *out, &output)?;
    writeln!(out)
}

fn clock() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn seconds(text: &str) -> Result<UnixMillis, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds since 1970"))?;
    if !seconds.is_finite() || seconds.abs() > 1e12 {
        return Err(format!("`{text}` is out of range"));
    }
    #[allow(clippy::cast_possible_truncation)] // within ±1e15
    Ok(UnixMillis((seconds * 1000.0).round() as i64))
}
