//! A limited API, a sidecar in front of it, and programs that call it with official SDKs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::process::Process;

/// What the API takes in a second.
pub const RATE: u32 = 20;

/// What a process answers to a GET, as JSON.
pub fn json(process: &Process, path: &str) -> Value {
    let reply = process.get(path);
    serde_json::from_str(reply.split_once("\r\n\r\n").expect("HTTP").1).expect("JSON")
}

fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name);
    }
    command
}

/// The API, with room for few calls more than its rate, so that a client that exceeds it is refused.
pub fn api(headers: &str, faults: &[&str]) -> Process {
    let rate = format!("{RATE}/s");
    let options =
        ["upstream", "--requests", &rate, "--burst", "4", "--latency", "50ms..200ms", "--headers", headers];
    let mut command = tidegate(&options);
    command.args(faults);
    Process::start(command)
}

/// A folder with a config for a sidecar in front of the API, on a port that was free a moment ago.
pub struct Home {
    folder: PathBuf,
}

impl Home {
    pub fn new(api: &Process) -> Home {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tidegate-sdks-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|found| found.local_addr());
        let listen = free.expect("a port").to_string();
        let mut config = format!("listen = \"{listen}\"\n");
        for service in ["openai", "anthropic"] {
            config += &format!(
                "[services.{service}]\npreset = \"{service}\"\nupstream = \"http://{}\"\nrequests = \"{RATE}/s\"\n\
                 ramp = {{ from = 1 }}\n",
                api.address
            );
        }
        std::fs::write(folder.join("tidegate.toml"), config).expect("a config");
        Home { folder }
    }

    pub fn serve(&self) -> Process {
        let mut command = tidegate(&["serve"]);
        command.current_dir(&self.folder).env("XDG_STATE_HOME", &self.folder);
        Process::start(command)
    }

    /// `tidegate run` with these options and a program.
    pub fn run(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = tidegate(&["run"]);
        command.args(options).arg("--").args(program).current_dir(&self.folder);
        command.env("XDG_RUNTIME_DIR", &self.folder).env("XDG_STATE_HOME", &self.folder);
        command
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Where the test command put the SDKs.
fn sdks() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdks");
    let folder = std::env::var_os("TIDEGATE_SDKS").map_or_else(own, PathBuf::from);
    assert!(folder.is_dir(), "no SDKs in {}: ./test.sh installs them", folder.display());
    folder
}

fn file(name: &str) -> String {
    format!("{}/tests/sdks/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub fn python(script: &str, arguments: &[&str]) -> Vec<String> {
    let python = sdks().join("py/bin/python").display().to_string();
    [python, file(script)].into_iter().chain(arguments.iter().map(|&argument| argument.to_owned())).collect()
}

pub fn node(script: &str, arguments: &[&str]) -> Vec<String> {
    let own = ["node".to_owned(), file(script)];
    own.into_iter().chain(arguments.iter().map(|&argument| argument.to_owned())).collect()
}

/// A program by itself, told nothing but its base URLs.
pub fn program(words: &[String], sidecar: &Process) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.env("OPENAI_BASE_URL", format!("http://{}/openai/v1", sidecar.address));
    command.env("ANTHROPIC_BASE_URL", format!("http://{}/anthropic", sidecar.address));
    command.env("NO_PROXY", "127.0.0.1").env("TIDEGATE_SDKS_JS", sdks().join("js"));
    command
}

/// What a program says in its last line.
pub fn said(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{text}{error}"))
}

/// Every job of a program was done, and no SDK saw anything but success.
pub fn assert_all_done(said: &Value, jobs: u64) {
    assert_eq!(said["errors"].as_array().map(Vec::len), Some(0), "{said}");
    assert_eq!(said["done"], jobs, "{said}");
    assert_eq!(said["statuses"], serde_json::json!({ "200": jobs }), "{said}");
}

/// The API answered every job once, and refused nothing.
pub fn assert_each_once(api: &Process, jobs: usize) {
    let records = records(api);
    assert!(records.iter().all(|record| record["status"] == 200), "{records:?}");
    assert_answered_once(&records, jobs);
}

/// The API failed sometimes and refused nothing, and did no job again that it had answered.
pub fn assert_answered_once_though_some_failed(api: &Process, jobs: usize) {
    let records = records(api);
    assert!(records.iter().all(|record| record["status"] != 429), "{records:?}");
    let failed = records.iter().filter(|record| record["status"] != 200).count();
    assert!(failed > 0, "nothing was to be made again");
    assert_answered_once(&records, jobs);
}

fn assert_answered_once(records: &[Value], jobs: usize) {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for record in records.iter().filter(|record| record["status"] == 200) {
        *times.entry(record["id"].as_str().expect("an id")).or_default() += 1;
    }
    assert_eq!(times.len(), jobs, "{times:?}");
    assert!(times.values().all(|&times| times == 1), "{times:?}");
}

fn records(api: &Process) -> Vec<Value> {
    json(api, "/_sim/records").as_array().expect("a list").clone()
}
