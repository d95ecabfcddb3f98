//! A folder with a config, and `tidegate run` in it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub struct Home {
    pub folder: PathBuf,
    pub listen: String,
}

impl Home {
    /// With OpenAI's service, at a port that was free a moment ago.
    pub fn new() -> Home {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|found| found.local_addr());
        Home::at(&free.expect("a port").to_string())
    }

    pub fn at(listen: &str) -> Home {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tidegate-run-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = format!(
            "listen = \"{listen}\"\n[services.openai]\npreset = \"openai\"\nupstream = \"http://127.0.0.1:9\"\n"
        );
        std::fs::write(folder.join("tidegate.toml"), config).expect("a config");
        Home { folder, listen: listen.to_owned() }
    }

    /// The command in this folder, with locks in this folder, and nothing of the tester's own environment that counts.
    pub fn tidegate(&self, arguments: &[&str]) -> Command {
        // Tests that run in the background may ignore interrupts, and so do the processes that they start.
        let mut command = Command::new("env");
        command
            .args(["--default-signal", env!("CARGO_BIN_EXE_tidegate")])
            .args(arguments)
            .current_dir(&self.folder)
            .env("XDG_RUNTIME_DIR", &self.folder)
            .env("XDG_STATE_HOME", self.folder.join("states"));
        for name in
            ["OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"]
        {
            command.env_remove(name);
        }
        command
    }

    /// Runs a shell script with `tidegate run` and these options.
    pub fn run(&self, options: &[&str], script: &str) -> Output {
        self.shell(options, script).output().expect("ran")
    }

    pub fn shell(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.tidegate(&["run"]);
        command.args(options).args(["--", "sh", "-c", script]);
        command
    }

    /// Starts a program that says `ready` and stays until it is told to go, by the end of its input.
    pub fn start(&self) -> Running {
        Running::start(self.shell(&["--quiet"], "echo ready; read line; echo gone"))
    }

    /// Whether a sidecar answers.
    pub fn is_served(&self) -> bool {
        self.tidegate(&["status"]).output().expect("ran").status.success()
    }

    pub fn wait_until_served(&self, served: bool) {
        let began = Instant::now();
        while self.is_served() != served {
            assert!(began.elapsed() < Duration::from_secs(20), "served is not {served}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What sidecars that were started here logged.
    pub fn log(&self) -> String {
        let name = format!("tidegate/{}.log", self.listen.replace(':', "-"));
        std::fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A `run` whose program has said that it is ready.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        let mut first = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut first).expect("a line");
        assert_eq!(first, "ready\n");
        child.stdout = Some(stdout.into_inner());
        Running { child }
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Has the program end, and gives the exit code.
    pub fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.code()
    }

    pub fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
