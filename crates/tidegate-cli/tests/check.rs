//! `tidegate check` as a user runs it.

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use serde_json::{Value, json};

/// A config file that is gone when the test is.
struct Config(PathBuf);

impl Config {
    fn new(name: &str, text: &str) -> Config {
        let path = std::env::temp_dir().join(format!("tidegate-check-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Config(path)
    }

    fn check(&self, arguments: &[&str]) -> Output {
        let mut command = Command::cargo_bin("tidegate").unwrap();
        command
            .env("UPSTREAM_PASSWORD", "hunter2")
            .arg("check")
            .arg(&self.0)
            .args(arguments)
            .output()
            .unwrap()
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const GOOD: &str = r#"
[global]
concurrency = 400
[services.openai]
preset = "openai"
tier = "tier-1"
requests = { limit = "500/min", burst = 9 }
models."gpt-4o*".tokens = "10k/min"
[services.hub]
preset = "github"
profile = "ours"
[services.own]
upstream = "https://me:${UPSTREAM_PASSWORD}@api.example.com:8443/base?key=${UPSTREAM_PASSWORD}"
usd = "2.50/day"
[loops]
requests = "30/min"
[profiles.ours]
base = "github"
"#;

#[test]
fn a_right_file_is_summed_up_with_where_each_limit_is_from() {
    let config = Config::new("good", GOOD);
    let output = config.check(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let squeezed: Vec<String> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "openai https://api.openai.com, preset openai, tier tier-1",
        "hub https://api.github.com, preset github, no tier (for its limits: user | unauthenticated | \
         actions-token | enterprise-app), profile ours",
        "own https://api.example.com:8443/base",
        "global/concurrency 400 file",
        "openai/requests/1m 500/min sliding-window, burst 9 file",
        "openai/model:gpt-4o*/tokens/1m 10k/min token-bucket file",
        "openai/model:gpt-4o*/requests/1m 500/min token-bucket preset openai, tier tier-1",
        "hub/concurrency 100 preset github, every tier",
        "preset openai, tier tier-1: model pages, by rizquuula/coding-plan data/rate_limits.yaml; older models \
         by texts of 429s (2026), 2026-08-28, confidence medium",
        "preset github, every tier: github/docs@6032175, 2026-08-07, confidence high",
        "own/usd/1d 2.5/day sliding-window file",
        "loop:*/requests/1m 30/min sliding-window file",
    ] {
        assert!(squeezed.iter().any(|shown| shown == line), "{line}\nis not in\n{shown}");
    }
    assert!(squeezed[0].ends_with("is right: 3 services, 1 profile, listening on 127.0.0.1:8429"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_program_gets_the_same_as_json() {
    let config = Config::new("json", GOOD);
    let output = config.check(&["--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!text(&output.stdout).contains("hunter2"));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["services"]["openai"]["tier"], "tier-1");
    assert_eq!(json["services"]["hub"]["profile"], "ours");
    let limit = |name: &str| {
        let mut limits = json["limits"].as_array().unwrap().iter();
        limits.find(|limit| limit["name"] == name).unwrap_or_else(|| panic!("{name} is not in {json}"))
    };
    assert_eq!(
        limit("openai/requests/1m"),
        &json!({
            "name": "openai/requests/1m", "from": "file", "rate": "500/min", "units": 500, "window_ms": 60_000,
            "algorithm": "sliding-window", "burst": 9, "calendar": null,
        })
    );
    let of_preset = limit("openai/model:gpt-4o-mini*/requests/1d");
    assert_eq!((&of_preset["from"], &of_preset["date"]), (&json!("preset"), &json!("2026-08-28")));
    assert_eq!((&of_preset["preset"], &of_preset["tier"]), (&json!("openai"), &json!("tier-1")));
    let shared = limit("hub/concurrency");
    assert_eq!(
        (&shared["from"], &shared["tier"], &shared["units"]),
        (&json!("preset"), &Value::Null, &json!(100))
    );
}

#[test]
fn an_empty_file_serves_the_presets() {
    let output = Config::new("empty", "").check(&[]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert!(shown.contains("https://api.openai.com, preset openai, no tier"), "{shown}");
    assert!(shown.contains("https://discord.com, preset discord\n"), "it has one tier: {shown}");
    assert!(!shown.contains("azure"), "{shown}");
}

#[test]
fn everything_that_is_wrong_is_told_and_the_exit_code_is_two() {
    let config = Config::new(
        "bad",
        "[services.s]\npreset = \"openai\"\ntier = \"free\"\nrequets = \"5/min\"\n[profiles.p]\nreset = \"soon\"\n",
    );
    let file = config.0.display();
    let output = config.check(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    assert_eq!(
        text(&output.stderr),
        format!(
            "{file}:3:8: unknown tier `free` of the preset `openai`\n  \
             hint: use one of tier-1, tier-2, tier-3, tier-4, tier-5\n\
             {file}:4:1: unknown key `requets` in [services.s]\n  hint: did you mean `requests`?\n\
             {file}:6:9: unknown reset `soon`\n  \
             hint: use one of auto, seconds, milliseconds, epoch-seconds, epoch-milliseconds\n\
             tidegate: 3 mistakes in {file}\n"
        )
    );

    let output = config.check(&["--json"]);
    assert_eq!(output.status.code(), Some(2));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["ok"], json["errors"].as_array().map(Vec::len)), (&json!(false), Some(3)));
    let second = &json["errors"][1];
    assert_eq!((&second["line"], &second["column"]), (&json!(4), &json!(1)));
    assert_eq!(second["hint"], "did you mean `requests`?");
}

#[test]
fn redis_is_an_error_since_it_would_leave_each_machine_with_the_whole_quota() {
    let config = Config::new("redis", "[services.s]\nrequests = \"5/min\"\n[state]\nredis = \"redis://x\"\n");
    let output = config.check(&[]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains(&format!("{}:4:9: Redis is not supported yet", config.0.display())), "{told}");
    assert!(told.contains("hint: remove `redis`"), "{told}");
}

#[test]
fn alerts_are_a_warning_and_the_file_is_right() {
    let config = Config::new("alerts", "[services.s]\nupstream = \"http://x\"\n\n[alerts]\n");
    let output = config.check(&[]);
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stderr);
    assert!(told.starts_with(&format!("warning: {}:4:", config.0.display())), "{told}");
    assert!(told.contains("[alerts] has no effect yet") && told.contains("\n  hint: "), "{told}");
    assert_eq!(told.matches("warning: ").count(), 1, "{told}");

    let json: Value = serde_json::from_slice(&config.check(&["--json"]).stdout).unwrap();
    assert_eq!((&json["ok"], &json["warnings"][0]["line"]), (&json!(true), &json!(4)));
}

#[test]
fn a_service_that_can_forward_nothing_is_a_warning() {
    let config = Config::new("nowhere", "[services.git]\nrequests = \"5/min\"\n[services.openai]\n");
    let output = config.check(&[]);
    assert_eq!(output.status.code(), Some(0));
    let (shown, told) = (text(&output.stdout), text(&output.stderr));
    assert!(shown.contains("https://api.openai.com, preset openai"), "its name is its preset: {shown}");
    assert!(told.contains("`git` has no `upstream`: calls to its URL get a 404"), "{told}");
    assert_eq!(told.matches("warning: ").count(), 1, "{told}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_wrong_call() {
    let gone = Config(std::env::temp_dir().join("tidegate-check-no-such-file.toml"));
    let output = gone.check(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read the config"));
}

#[test]
fn the_schema_for_editors_is_json_and_knows_the_keys() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["check", "--schema"]).output().expect("ran");
    assert!(output.status.success());
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let service = &schema["properties"]["services"]["additionalProperties"]["properties"];
    assert!(service["throttled_concurrency"].is_object() && service["retry"].is_object(), "{service}");
}

#[test]
fn without_a_file_the_one_in_the_working_directory_is_checked() {
    let folder = std::env::temp_dir().join(format!("tidegate-check-{}-here", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let check = || {
        Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("check").current_dir(&folder).output().expect("ran")
    };
    let none = check();
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("there is no tidegate.toml here"), "{none:?}");
    std::fs::write(folder.join("tidegate.toml"), "[services.s]\nupstream = \"http://x\"\n").unwrap();
    let found = check();
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    assert!(text(&found.stdout).starts_with("tidegate.toml is right: 1 service"), "{found:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
