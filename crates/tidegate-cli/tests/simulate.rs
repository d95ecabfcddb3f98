//! `tidegate simulate` as a user runs it.

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// A folder with a scenario in it that is gone when the test is.
struct Scenario(PathBuf);

const TEXT: &str = r#"
[services.api]
requests = "60/min"
queue = { timeout = "5m", aging = "30s" }

[simulation]
duration = "2m"
seed = 3

[[simulation.workload]]
name = "user"
priority = "high"
arrivals = { poisson = "12/min" }

[[simulation.workload]]
name = "agents"
loops = 2
arrivals = { poisson = "60/min" }
"#;

impl Scenario {
    fn new(name: &str, text: &str) -> Scenario {
        let folder = std::env::temp_dir().join(format!("tidegate-simulate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("s.toml"), text).unwrap();
        Scenario(folder)
    }

    /// Runs a subcommand in the folder.
    fn run(&self, arguments: &[&str]) -> Output {
        Command::cargo_bin("tidegate").unwrap().current_dir(&self.0).args(arguments).output().unwrap()
    }

    fn simulate(&self, arguments: &[&str]) -> Output {
        self.run(&[&["simulate", "s.toml"], arguments].concat())
    }

    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.simulate(&[&["--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_run_is_told_as_a_table() {
    let output = Scenario::new("table", TEXT).simulate(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("s.toml, seed 3: 2 min in "), "{shown}");
    for part in ["api/requests/1m", "rejected", "wait p50", "\nhigh ", "\nuser ", "\nagents "] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_the_command_line_names_another() {
    let scenario = Scenario::new("seed", TEXT);
    assert_eq!(scenario.simulate(&["--json"]).stdout, scenario.simulate(&["--json", "--seed", "3"]).stdout);
    assert_eq!(scenario.json(&["--seed", "9"])[0]["seed"], 9);
    let seeds: Vec<Value> =
        scenario.json(&["--seeds", "4..6"]).iter().map(|run| run["seed"].clone()).collect();
    assert_eq!(seeds, [4, 5, 6]);
    let listed = text(&scenario.simulate(&["--seeds", "1..9"]).stdout);
    assert_eq!(listed.lines().count(), 10, "a line for each, and one above:\n{listed}");
}

#[test]
fn a_sweep_compares_side_by_side_and_a_value_that_is_the_files_changes_nothing() {
    let scenario = Scenario::new("sweep", TEXT);
    let sweep =
        ["--sweep", "services.api.requests=60/min,90/min", "--sweep", "simulation.workload.1.loops=2,5"];
    let output = scenario.simulate(&sweep);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown: Vec<Vec<String>> = text(&output.stdout)
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(shown[0], ["services.api.requests", "60/min", "60/min", "90/min", "90/min"]);
    assert_eq!(shown[1], ["simulation.workload.1.loops", "2", "5", "2", "5"]);

    let runs = scenario.json(&sweep);
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[2]["settings"]["services.api.requests"], "90/min");
    let plain = &scenario.json(&[])[0];
    assert_eq!(runs[0]["digest"], plain["digest"]);
    assert_ne!(runs[2]["priorities"], plain["priorities"]);
}

#[test]
fn a_wrong_key_value_or_call_is_told_and_the_exit_code_is_two() {
    let scenario = Scenario::new("wrong", TEXT);
    let told = |arguments: &[&str]| {
        let output = scenario.simulate(arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{arguments:?}");
        text(&output.stderr)
    };
    assert_eq!(
        told(&["--sweep", "services.api.queue.agin=10s,20s"]),
        "services.api.queue.agin=10s: unknown key `agin` in [services.api.queue]\n  hint: did you mean `aging`?\n\
         tidegate: 1 mistake in s.toml\n"
    );
    assert!(told(&["--sweep", "simulation.workload.7.loops=1"]).contains("there is no item `7`"));
    assert!(told(&["--sweep", "services.api.requests=60"]).contains("must be a rate"));
    assert!(told(&["--sweep", "nonsense"]).contains("write KEY=VALUE"));
    assert!(told(&["--seeds", "3"]).contains("such as 1..20"));
    assert!(told(&["--seeds", "1..2", "--plot", "x.svg"]).contains("a picture shows one run"));
    assert_eq!(scenario.run(&["simulate", "gone.toml"]).status.code(), Some(2));
}

#[test]
fn a_wrong_file_is_told_with_lines_by_simulate_and_by_check() {
    let wrong = TEXT.replace("poisson = \"12/min\"", "poison = \"12/min\"").replace("aging", "agin");
    let scenario = Scenario::new("file", &wrong);
    for command in ["simulate", "check"] {
        let output = scenario.run(&[command, "s.toml"]);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.contains("s.toml:4:27: unknown key `agin`"), "{told}");
        assert!(told.contains("s.toml:13:14: unknown key `poison`"), "{told}");
        assert!(told.contains("did you mean `poisson`?") && told.contains("2 mistakes in s.toml"), "{told}");
    }
    let right = Scenario::new("right", TEXT);
    assert_eq!(right.run(&["check", "s.toml"]).status.code(), Some(0));
    let config = Scenario::new("config", "[services.api]\n");
    assert_eq!(config.run(&["check", "s.toml"]).status.code(), Some(0), "a config alone is right too");
    assert!(text(&config.simulate(&[]).stderr).contains("there is no [simulation] in this file"));
}

#[test]
fn a_picture_is_drawn_beside_the_table() {
    let scenario = Scenario::new("plot", TEXT);
    let output = scenario.simulate(&["--plot", "out.svg"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("s.toml, seed 3"));
    let picture = std::fs::read_to_string(scenario.0.join("out.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    let nowhere = scenario.simulate(&["--plot", "no/such/folder/out.svg"]);
    assert_eq!(nowhere.status.code(), Some(1));
}

#[test]
fn a_run_can_be_stopped_at_an_event_to_see_what_came_before() {
    let scenario = Scenario::new("events", TEXT);
    let output = scenario.simulate(&["--events", "5"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("the last events up to 5:\n"), "{shown}");
    assert!(shown.lines().count() > 1, "{shown}");
    let json = &scenario.json(&["--events", "5", "--no-checks"])[0];
    assert!(json["story"].as_array().is_some_and(|story| !story.is_empty()), "{json}");
}
