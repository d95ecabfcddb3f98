//! The process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// A folder of its own, gone at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn with(file: &str, text: &str) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-serve-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join(file), text).expect("a file");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// `tidegate serve` with a config in its working directory, on a free port.
pub struct Sidecar {
    child: Child,
    pub address: SocketAddr,
    folder: Folder,
}

impl Sidecar {
    pub fn start(config: &str, environment: &[(&str, &str)]) -> Sidecar {
        Sidecar::start_with(config, &[], environment)
    }

    pub fn start_with(config: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Sidecar {
        let folder = Folder::with("tidegate.toml", config);
        let mut command = command(&folder);
        command.args(["--listen", "127.0.0.1:0"]).args(arguments).envs(environment.iter().copied());
        Sidecar::run(folder, command)
    }

    /// The same in a shell that says something first, such as a `ulimit`.
    pub fn start_under(config: &str, first: &str) -> Sidecar {
        let folder = Folder::with("tidegate.toml", config);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{first} && exec \"$0\" serve --listen 127.0.0.1:0"));
        shell.arg(env!("CARGO_BIN_EXE_tidegate"));
        let command = in_folder(shell, &folder);
        Sidecar::run(folder, command)
    }

    fn run(folder: Folder, mut command: Command) -> Sidecar {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let mut first = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut first).expect("a line");
        let address = first.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let mut error = String::new();
            child.stderr.take().expect("piped").read_to_string(&mut error).ok();
            panic!("no URL but {first:?}: {error}");
        };
        Sidecar { child, address, folder }
    }

    /// Its working directory.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Does what Ctrl-C does.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Asks it to read its config again.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits for its end, and gives what it logged.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
        (self.child.wait().expect("ended"), log)
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The command, in that folder and with no proxy in its environment.
pub fn command(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("serve");
    in_folder(command, folder)
}

fn in_folder(mut command: Command, folder: &Folder) -> Command {
    command.current_dir(&folder.0).env("XDG_STATE_HOME", &folder.0).env("XDG_RUNTIME_DIR", &folder.0);
    for name in
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy"]
    {
        command.env_remove(name);
    }
    command
}
