//! The client of a running sidecar: finds it and sends requests to it.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use tidegate::Config;
use tidegate_core::config::Document;

use crate::config_file::config_path;
use crate::http::{Answer, Peer, Request, ask, encoded};
use crate::running::{self, Running};
use crate::{Misuse, environment};

/// The timeout of requests to a sidecar on this machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The variable that holds the token unless another one is named.
const TOKEN: &str = "TIDEGATE_TOKEN";

/// Which sidecar is meant.
#[derive(Args, Debug)]
pub struct Which {
    /// Where the sidecar listens, if not where the config says: 127.0.0.1:8429.
    #[arg(long, value_name = "ADDR")]
    sidecar: Option<String>,
    /// The Unix socket on which it listens, in the place of an address.
    #[arg(long, value_name = "PATH", conflicts_with = "sidecar")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    token: Token,
    /// The config file that it was started with or that says where it listens; tidegate.toml in the working directory if
    /// not said. What else is wrong with the file does not matter here.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What to show to a sidecar that asks for a token. Never on the command line itself, where everybody could read it.
#[derive(Args, Clone, Debug, Default)]
pub struct Token {
    /// The variable that holds the token, if the sidecar asks for one; TIDEGATE_TOKEN if not said.
    #[arg(long, value_name = "VARIABLE")]
    token_env: Option<String>,
}

impl Token {
    /// Returns the token, if there is one.
    fn read(&self) -> Result<Option<String>, Misuse> {
        let named = self.token_env.as_deref();
        let token = std::env::var(named.unwrap_or(TOKEN)).ok().filter(|token| !token.is_empty());
        match (named, &token) {
            (Some(name), None) => Err(Misuse(format!("--token-env: the variable {name} is not set"))),
            _ if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) => {
                Err(Misuse("the token has characters that no header can carry".into()))
            }
            _ => Ok(token),
        }
    }
}

impl Which {
    /// Returns the sidecar, if one is running.
    pub fn find(&self) -> anyhow::Result<Option<Sidecar>> {
        let token = self.token.read()?;
        for peer in self.peers()? {
            if let Some(sidecar) = Sidecar::at(peer, token.clone())? {
                return Ok(Some(sidecar));
            }
        }
        Ok(None)
    }

    /// Returns the sidecar, or an error that says why there is none.
    pub fn sidecar(&self) -> anyhow::Result<Sidecar> {
        self.find()?.with_context(|| {
            let peers: Vec<String> = self.peers().unwrap_or_default().iter().map(Peer::to_string).collect();
            format!("no sidecar listens on {}: {}", peers.join(" or "), others())
        })
    }

    /// Returns the addresses to try, the likeliest first: that of the sidecar that was started with this config file,
    /// whatever the file says now; then the one in the file, whatever else is wrong with it.
    fn peers(&self) -> anyhow::Result<Vec<Peer>> {
        match (&self.socket, &self.sidecar) {
            (Some(path), _) => return Ok(vec![Peer::Unix(path.clone())]),
            (None, Some(address)) => {
                let address = address.strip_prefix("http://").unwrap_or(address);
                return Ok(vec![Peer::Tcp(address.trim_end_matches('/').to_owned())]);
            }
            (None, None) => {}
        }
        let path = config_path(self.config.as_deref());
        let recorded = running::with_config(path).map(|running| running.address);
        let written = match std::fs::read_to_string(path) {
            Ok(text) => {
                let file = path.display().to_string();
                Document::new(&text, &file, &environment).listen()
            }
            // A named file must exist, unless a sidecar still runs with it.
            Err(error) if self.config.is_some() && recorded.is_none() => {
                return Err(Misuse(format!("cannot read the config {}: {error}", path.display())).into());
            }
            Err(_) => None,
        };
        let written = written.unwrap_or_else(|| Config::default().listen.clone());
        let mut peers: Vec<String> = recorded.into_iter().collect();
        if !peers.contains(&written) {
            peers.push(written);
        }
        Ok(peers.into_iter().map(Peer::Tcp).collect())
    }
}

/// Returns what to do when no sidecar is found: names those that run with other configs.
fn others() -> String {
    let shown = |running: Running| match running.config {
        Some(config) => format!("{} ({})", running.address, config.display()),
        None => format!("{} (no config)", running.address),
    };
    let running: Vec<String> = running::all().into_iter().map(shown).collect();
    if running.is_empty() {
        return "start one with `tidegate serve`, or say --sidecar ADDR".into();
    }
    format!(
        "start one with `tidegate serve`, or say --sidecar ADDR; with other configs run {}",
        running.join(", ")
    )
}

/// A sidecar that answered.
#[derive(Clone, Debug)]
pub struct Sidecar {
    peer: Peer,
    /// Returns a line of a request's head, or nothing.
    token: String,
}

impl Sidecar {
    /// Returns the sidecar that listens at an address, if a process does.
    ///
    /// # Errors
    /// Returns an error if another program listens there.
    pub fn listening(listen: &str, token: &Token) -> anyhow::Result<Option<Sidecar>> {
        Ok(Sidecar::at(Peer::Tcp(listen.to_owned()), token.read()?)?)
    }

    fn at(peer: Peer, token: Option<String>) -> io::Result<Option<Sidecar>> {
        let listen = peer.to_string();
        let peer = match peer {
            Peer::Tcp(listen) => Peer::Tcp(reachable(&listen)),
            socket => socket,
        };
        let token = token.map_or_else(String::new, |token| format!("x-tidegate-token: {token}\r\n"));
        let sidecar = Sidecar { peer, token };
        let request = Request { method: "GET", path: "/healthz", ..Request::default() };
        let answer = match ask(&sidecar.peer, request, TIMEOUT) {
            Ok(answer) => answer,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            // It accepted and closed at once: it is ending.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            // The socket never existed, or was removed.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && matches!(sidecar.peer, Peer::Unix(_)) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(io::Error::new(error.kind(), format!("{listen}: {error}"))),
        };
        let is_ours = |health: Value| health["tidegate"].is_string();
        if serde_json::from_str(&answer.body).is_ok_and(is_ours) {
            return Ok(Some(sidecar));
        }
        let words = format!("something that is no tidegate listens on {listen}: choose another `listen`");
        Err(io::Error::new(io::ErrorKind::AddrInUse, words))
    }

    /// Returns its URL without a path, or the path of its socket.
    pub fn url(&self) -> String {
        match &self.peer {
            Peer::Tcp(authority) => format!("http://{authority}"),
            socket => socket.to_string(),
        }
    }

    /// Returns the JSON under a path.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path, "")
    }

    /// Returns how many calls of a loop reached it, if it knows and answers soon.
    pub fn calls_of(&self, loop_id: &str) -> Option<u64> {
        self.get_soon(&format!("/v1/loops/{}", encoded(loop_id)))?["calls"].as_u64()
    }

    /// Returns whether the process that answers now is at least this old. False if it does not answer soon.
    pub fn has_run_for(&self, age: Duration) -> bool {
        let uptime = self.get_soon("/v1/status").and_then(|status| status["uptime_ms"].as_u64());
        uptime.is_some_and(|ms| u128::from(ms) >= age.as_millis())
    }

    /// Returns the JSON under a path, if it answers within a second.
    fn get_soon(&self, path: &str) -> Option<Value> {
        let request = Request { method: "GET", path, headers: &self.token, ..Request::default() };
        let answer = ask(&self.peer, request, Duration::from_secs(1)).ok()?;
        serde_json::from_str(&answer.body).ok()
    }

    /// Sends a `POST` request.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask("POST", path, &body.to_string())
    }

    /// Sends a `PUT` request.
    pub fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask("PUT", path, &body.to_string())
    }

    /// Sends a `DELETE` request.
    pub fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("DELETE", path, "")
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let headers = &format!("{}{kind}", self.token);
        let answer = ask(&self.peer, Request { method, path, headers, body }, TIMEOUT)
            .with_context(|| format!("the sidecar on {} does not answer", self.peer))?;
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if (200..300).contains(&answer.status) {
            return Ok(value);
        }
        let error =
            ErrorReply { status: answer.status, message: self.error_message(method, &answer, &value) };
        Err(error.into())
    }

    fn error_message(&self, method: &str, answer: &Answer, value: &Value) -> String {
        match (answer.status, value["error"]["message"].as_str()) {
            (401, _) if self.token.is_empty() => format!(
                "the sidecar on {} asks for a token: put it into {TOKEN}, or name another variable by --token-env",
                self.peer
            ),
            (401, _) => format!("the sidecar on {} does not know the token that was sent", self.peer),
            (_, Some(message)) => message.to_owned(),
            (status, None) => format!("the sidecar on {} answers {method} with {status}", self.peer),
        }
    }
}

/// An error reply of a sidecar.
#[derive(Debug)]
pub struct ErrorReply {
    pub status: u16,
    message: String,
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ErrorReply {}

/// Returns the address at which this machine reaches a listener: the address of all interfaces is none.
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
