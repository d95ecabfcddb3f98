//! `tidegate explain reply` as a user runs it.

use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn explain(arguments: &[&str], reply: &str) -> Output {
    let mut command = Command::cargo_bin("tidegate").unwrap();
    command.args(["explain", "reply"]).args(arguments).write_stdin(reply).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

const LIMITED: &str = "HTTP/2 429 \r\nretry-after: 2\r\nretry-after-ms: 1873\r\nx-ratelimit-limit-tokens: 60\r\n\
    x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 2\r\n\r\n{\"error\":{\"code\":\"rate_limit_exceeded\"}}";

#[test]
fn a_program_gets_json() {
    let output = explain(&["--vendor", "azure-openai"], LIMITED);
    assert_eq!(output.status.code(), Some(0));
    let json = json(&output);
    assert_eq!(json["verdict"], "rate_limited");
    assert_eq!(json["retry_after_ms"], 1873);
    assert_eq!(json["body_retry_after_ms"], Value::Null);
    assert_eq!(json["limits"][0]["remaining"], 0);
    assert_eq!(json["limits"][0]["name"], Value::Null);
    assert_eq!(json["wait_ms"], 1873);
}

#[test]
fn a_person_gets_words() {
    let output = explain(&["--text"], LIMITED);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("rate limited (429)"), "{text}");
    assert!(text.contains("retry in 1.9 s"), "{text}");
    assert!(text.contains("0 of 60 left") && text.contains("used up"), "{text}");
}

#[test]
fn the_time_and_the_profile_are_the_users() {
    let reply = "HTTP/1.1 200 OK\nX-Rate-Limit-Limit: 10\nX-Rate-Limit-Remaining: 1\nX-Rate-Limit-Reset: 1700000060\n\n";
    let output = explain(&["--now", "1700000000", "-"], reply);
    assert_eq!(json(&output)["limits"][0]["reset_ms"], 60_000);

    let folder = std::env::temp_dir().join(format!("tidegate-explain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("tidegate.toml");
    std::fs::write(&config, "[profiles.prisjakt]\nreset = \"milliseconds\"\nsigns = [\"x-price-*\"]\n")
        .unwrap();
    let reply = "HTTP/1.1 429 X\nX-Price-Id: 1\nX-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 600000\n\n";
    let config_path = config.to_str().unwrap();
    for arguments in [&["--config", config_path][..], &["--config", config_path, "--vendor", "prisjakt"]] {
        let output = json(&explain(arguments, reply));
        assert_eq!(output["limits"][0]["reset_ms"], 600_000);
        assert_eq!(output["vendor"], "prisjakt");
    }
    std::fs::write(&config, "[profiles.x]\nreset = \"soon\"\n").unwrap();
    let output = explain(&["--config", config_path], reply);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tidegate.toml:2:9: unknown reset `soon`"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn mistakes_have_their_exit_codes() {
    let unknown = explain(&["--vendor", "nobody"], LIMITED);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("anthropic"));
    assert_eq!(explain(&["--now", "noon"], LIMITED).status.code(), Some(2));
    assert_eq!(explain(&[], "hello").status.code(), Some(1));
    assert_eq!(explain(&["no-such-file"], "").status.code(), Some(1));
}
