//! A program that is measured from outside: processor time and memory are those of its process.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Ended when it is dropped.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    /// Starts a program that will listen there, and waits until it does.
    pub fn listening(mut command: Command, address: SocketAddr, patience: Duration) -> Result<Process> {
        let child =
            command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot run {command:?}"))?;
        let mut process = Process { child, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("{command:?} ended: {status}");
            }
            if start.elapsed() > patience {
                bail!("{command:?} does not listen");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }

    /// Starts a program whose first line is the URL that it listens on.
    pub fn telling(mut command: Command) -> Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let mut first = String::new();
        BufReader::new(child.stdout.take().context("piped")?).read_line(&mut first)?;
        let address = first.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
        Ok(Process { child, address: address.with_context(|| format!("{command:?} said {first:?}"))? })
    }

    /// Has it run on these cores, with all that it started.
    pub fn keep_to(&self, cores: &[usize]) -> Result<()> {
        self.family()?.into_iter().try_for_each(|process| keep_to(process, cores))
    }

    /// The process and those that it started.
    fn family(&self) -> Result<Vec<u32>> {
        let own = self.child.id();
        let mut all = vec![own];
        for (id, fields) in stats()? {
            if fields.get(1).is_some_and(|parent| *parent == own.to_string()) {
                all.push(id);
            }
        }
        Ok(all)
    }

    /// Processor time so far, user and system, of the process and those that it started.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let own = self.child.id();
        let mut ticks = Vec::new();
        for (id, fields) in stats()? {
            if id == own || fields.get(1).is_some_and(|parent| *parent == own.to_string()) {
                let (user, system) = (fields.get(11).context("utime")?, fields.get(12).context("stime")?);
                ticks.extend([user.parse::<f64>()?, system.parse::<f64>()?]);
            }
        }
        Ok(ticks.iter().sum::<f64>() / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Memory that is in use, in MiB.
    pub fn resident_mib(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Who has workers of its own ends them when it is asked to end, not when it is killed.
        let asked = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(asked, rustix::process::Signal::TERM).ok();
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What the kernel says of all processes: their ids, and the fields that follow the name.
fn stats() -> Result<Vec<(u32, Vec<String>)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // One that is gone by now is none of ours: ours serve.
        let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else { continue };
        let (id, after_name) = (stat.split(' ').next(), stat.rsplit_once(')').map(|(_, rest)| rest));
        let fields = after_name.context("a name")?.split_whitespace().map(str::to_owned).collect();
        all.push((id.context("an id")?.parse()?, fields));
    }
    Ok(all)
}

/// Has all threads of a process run on these cores.
pub fn keep_to(process: u32, cores: &[usize]) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let id = task?.file_name().to_string_lossy().parse()?;
        rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(id), &set)?;
    }
    Ok(())
}

/// The cores that this process may run on.
pub fn cores() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// An address that nobody listens on.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A folder for the files of a run; removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("tidegate-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The command as users have it: built with the same profile as this one, and now, if cargo is there.
pub fn tidegate(arguments: &[&str]) -> Result<Command> {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let own = std::env::current_exe()?;
    let folder = own.parent().context("a folder")?;
    if let (Some(cargo), Some(profile)) = (std::env::var_os("CARGO"), folder.file_name()) {
        let profile = if profile == "debug" { OsStr::new("dev") } else { profile };
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--locked", "-p", "tidegate-cli", "--profile"]).arg(profile);
        if !BUILT.get_or_init(|| build.status().is_ok_and(|status| status.success())) {
            bail!("tidegate-cli does not build");
        }
    }
    let mut command = Command::new(folder.join("tidegate"));
    command.args(arguments);
    Ok(command)
}
