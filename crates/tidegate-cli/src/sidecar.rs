//! The sidecar that runs: where it is, and what it answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::Value;

use crate::http::{Request, ask};
use crate::serve::config;

/// How long a sidecar on this machine may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which sidecar is meant.
#[derive(Args, Debug)]
pub struct Which {
    /// Where the sidecar listens, if not where the config says: 127.0.0.1:8429.
    #[arg(long, value_name = "ADDR")]
    sidecar: Option<String>,
    /// The config file that says where it listens; tidegate.toml in the working directory if there is one.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl Which {
    /// The sidecar, if one is there.
    pub fn find(&self) -> anyhow::Result<Option<Sidecar>> {
        Ok(Sidecar::at(&self.listen()?)?)
    }

    /// The sidecar, or the reason why there is none.
    pub fn sidecar(&self) -> anyhow::Result<Sidecar> {
        let listen = self.listen()?;
        Sidecar::at(&listen)?.with_context(|| {
            format!("no sidecar listens on {listen}: start one with `tidegate serve`, or say --sidecar ADDR")
        })
    }

    fn listen(&self) -> anyhow::Result<String> {
        match &self.sidecar {
            Some(address) => {
                let address = address.strip_prefix("http://").unwrap_or(address);
                Ok(address.trim_end_matches('/').to_owned())
            }
            None => Ok(config(self.config.as_deref())?.listen.clone()),
        }
    }
}

/// A sidecar that answered.
#[derive(Clone, Debug)]
pub struct Sidecar {
    authority: String,
}

impl Sidecar {
    /// The sidecar that listens there, if something does.
    ///
    /// # Errors
    /// If something else listens there.
    pub fn at(listen: &str) -> io::Result<Option<Sidecar>> {
        let sidecar = Sidecar { authority: reachable(listen) };
        let request = Request { method: "GET", path: "/healthz", ..Request::default() };
        let answer = match ask(&sidecar.authority, request, PATIENCE) {
            Ok(answer) => answer,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            // It accepted and closed at once: it ends.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(io::Error::new(error.kind(), format!("{listen}: {error}"))),
        };
        let is_ours = |health: Value| health["tidegate"].is_string();
        if serde_json::from_str(&answer.body).is_ok_and(is_ours) {
            return Ok(Some(sidecar));
        }
        let words = format!("something that is no tidegate listens on {listen}: choose another `listen`");
        Err(io::Error::new(io::ErrorKind::AddrInUse, words))
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// What it says of itself under a path.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path, "")
    }

    /// Has something changed.
    pub fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask("PUT", path, &body.to_string())
    }

    /// Has something ended.
    pub fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("DELETE", path, "")
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let headers = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let answer = ask(&self.authority, Request { method, path, headers, body }, PATIENCE)
            .with_context(|| format!("the sidecar on {} does not answer", self.authority))?;
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if (200..300).contains(&answer.status) {
            return Ok(value);
        }
        match value["error"]["message"].as_str() {
            Some(message) => Err(anyhow!("{message}")),
            None => bail!("the sidecar on {} answers {} with {}", self.authority, method, answer.status),
        }
    }
}

/// The address at which this machine reaches what listens there: that of all interfaces is none.
fn reachable(listen: &str) -> String {
    let Ok(address) = listen.parse::<SocketAddr>() else { return listen.to_owned() };
    let own = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(own, address.port()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_interfaces_are_reached_by_the_loopback() {
        assert_eq!(reachable("0.0.0.0:8429"), "127.0.0.1:8429");
        assert_eq!(reachable("[::]:8429"), "[::1]:8429");
        assert_eq!(reachable("127.0.0.2:1"), "127.0.0.2:1");
        assert_eq!(reachable("localhost:8429"), "localhost:8429");
    }
}
