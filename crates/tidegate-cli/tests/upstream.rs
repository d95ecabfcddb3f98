//! `tidegate upstream`, as a script starts it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use assert_cmd::cargo::cargo_bin_cmd;
use serde_json::Value;

/// A running server, killed when dropped.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Running {
    fn start(arguments: &str) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .arg("upstream")
            .args(arguments.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().to_owned();
        Running { child, out, address }
    }

    fn counts(&self) -> Value {
        let reply = self.ask("GET /_sim/counts HTTP/1.1");
        serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{request}\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn its_first_line_is_where_it_listens_and_it_limits_as_told() {
    let server = Running::start("--requests 2/min --model fixed-window --headers ietf-old");
    assert!(server.ask("GET /a HTTP/1.1").starts_with("HTTP/1.1 200"));
    assert!(server.ask("GET /b HTTP/1.1").contains("ratelimit-remaining: 0"));
    let refused = server.ask("GET /c HTTP/1.1");
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after: "), "{refused}");
}

#[test]
fn all_its_options_reach_the_model() {
    let server = Running::start(
        "--tokens 10k/min --input-tokens 9k/min --output-tokens 8k/min --bytes 1MB/min --hidden 5/s --burst 3 \
         --concurrency 4 --model gcra --headers none --latency 1ms..2ms --jitter 1ms --errors 1 --lost 0.5 \
         --refused-cost --outage 1h+1m --neighbour 60/min,7 --seed 9",
    );
    assert!(server.ask("GET /a HTTP/1.1").starts_with("HTTP/1.1 50"));
    let mut counts = server.counts();
    // A minute is more than a neighbour that calls once a second may take.
    for _ in 0..3_000 {
        if counts["neighbours"]["accepted"] != 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        counts = server.counts();
    }
    assert_ne!(counts["neighbours"]["accepted"], 0, "the neighbour never came");
    let neighbours = &counts["neighbours"];
    assert_eq!(neighbours["units"][0].as_u64(), neighbours["accepted"].as_u64().map(|calls| 7 * calls));
    let limits: Vec<String> = counts["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| format!("{} {} {}", limit["name"].as_str().unwrap(), limit["limit"], limit["hidden"]))
        .collect();
    assert_eq!(
        limits,
        [
            "tokens/1m 10000 false",
            "input_tokens/1m 9000 false",
            "output_tokens/1m 8000 false",
            "bytes/1m 1000000 false",
            "requests/1s 5 true",
            "concurrency 4 false",
        ]
    );
    assert_eq!(counts["us"]["failed"], 1);
}

#[cfg(unix)]
#[test]
fn told_to_stop_it_says_what_it_counted() {
    let mut server = Running::start("--requests 5/min");
    for _ in 0..7 {
        server.ask("GET / HTTP/1.1");
    }
    let id = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let mut said = String::new();
    server.out.read_to_string(&mut said).unwrap();
    let counts: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(counts["statuses"], serde_json::json!({ "200": 5, "429": 2 }));
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_wrong_option_is_explained() {
    for (arguments, expected) in [
        (["--requests", "fast"], "is not a rate"),
        (["--model", "leaky"], "fixed-window, sliding-log, token-bucket, gcra"),
        (["--headers", "x"], "openai, azure"),
        (["--latency", "2s..1s"], "smaller one first"),
        (["--errors", "5"], "from 0 to 1"),
        (["--outage", "5s"], "10s+5s"),
    ] {
        let output = cargo_bin_cmd!("tidegate").arg("upstream").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn it_is_not_among_the_commands_that_users_see() {
    let output = cargo_bin_cmd!("tidegate").arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.lines().any(|line| line.trim_start().starts_with("simulate ")));
    assert!(!help.lines().any(|line| line.trim_start().starts_with("upstream")));
}
