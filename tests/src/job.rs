//! A real job: started by the command, looked at by the command, taken down by the command.
//!
//! Each job lives in a `Sandbox`, a directory of its own for its source, its views and its runtime files, so that tests
//! run beside each other and beside a user's jobs. What is left when a job is down (a mount, a process, a file) is a
//! failure of the test that ran it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::memory_group::MemoryGroup;
use crate::program::{Finished, copy_program, run, wait_until};

/// How long a daemon that was told to end may take to be gone once `down` has said that it is.
const GONE: Duration = Duration::from_secs(2);

/// How long a node may take to have a daemon again.
const PATIENCE: Duration = Duration::from_secs(20);

static JOBS: AtomicU32 = AtomicU32::new(0);

/// A command that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it said.
    pub stderr: String,
}

/// Directories of one job, gone with it.
pub struct Sandbox {
    base: TempDir,
    /// The job's name, used by no other.
    pub name: String,
    /// The command's copy that an ordinary user may run.
    for_nobody: Option<PathBuf>,
    /// The control group in which the command runs.
    group: Option<MemoryGroup>,
}

/// The user and group `nobody`.
pub const NOBODY: u32 = 65_534;

impl Sandbox {
    /// Fresh directories.
    ///
    /// # Panics
    /// If they cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let base = tempfile::Builder::new().prefix("forebay-test-").tempdir().expect("a temporary directory");
        for directory in ["source", "run"] {
            std::fs::create_dir(base.path().join(directory)).expect("a directory of the sandbox");
        }
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        Self { base, name: format!("test-{}-{number}", std::process::id()), for_nobody: None, group: None }
    }

    /// Fresh directories of the user `nobody`, who also runs the command. Needs root, who may become anybody.
    ///
    /// # Panics
    /// If they cannot be made.
    #[must_use]
    pub fn of_nobody() -> Self {
        let mut sandbox = Self::new();
        for directory in [sandbox.base(), sandbox.source(), sandbox.runtime()] {
            std::os::unix::fs::chown(&directory, Some(NOBODY), Some(NOBODY)).expect("an owner");
        }
        // The command itself may lie where only root may go.
        let command = sandbox.base().join("forebay");
        copy_program(&binary(), &command);
        sandbox.for_nobody = Some(command);
        sandbox
    }

    /// The same, with at most so much memory for all of the job's processes.
    ///
    /// # Panics
    /// If they cannot be limited.
    #[must_use]
    pub fn with_memory(limit_bytes: u64) -> Self {
        Self { group: Some(MemoryGroup::new(limit_bytes).expect("a control group")), ..Self::new() }
    }

    /// How often the kernel ended a process for want of memory.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        self.group.as_ref().map_or(0, MemoryGroup::kills)
    }

    /// The directory of all of it, as the kernel names it.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap_or_else(|_| self.base.path().to_owned())
    }

    /// What is exported.
    #[must_use]
    pub fn source(&self) -> PathBuf {
        self.base().join("source")
    }

    /// What `--view` is given; `up` makes it.
    #[must_use]
    pub fn view(&self) -> PathBuf {
        self.base().join("view")
    }

    /// The directory for sockets and records.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.base().join("run")
    }

    /// The command, with this sandbox as its surroundings.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = match (&self.for_nobody, &self.group) {
            (Some(copy), _) => as_nobody(copy),
            (None, Some(group)) => group.command(&binary()),
            (None, None) => Command::new(binary()),
        };
        self.surround(&mut command);
        command
    }

    /// Lets `command` run in the surroundings of this sandbox.
    pub fn surround(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", self.runtime()).env("LC_ALL", "C").current_dir(self.base());
        // What a test counts must not depend on the ones before it, and nothing goes into the user's own cache.
        command.env("FOREBAY_PROFILE", "off").env("XDG_CACHE_HOME", self.base().join("cache"));
    }

    /// `up` with the job's name, and what comes of it.
    #[must_use]
    pub fn up(&self, arguments: &[&OsStr]) -> Finished {
        run(self.command().args(["up", "--job", &self.name]).args(arguments))
    }

    /// Everything of this sandbox's job that is still there: mounts, processes, files.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = self.mounts().into_iter().map(|mount| format!("mount {mount}")).collect();
        left.extend(self.processes().into_iter().map(|pid| format!("process {pid}: {}", command_line(pid))));
        for directory in [self.runtime(), self.view()] {
            left.extend(files_below(&directory).into_iter().map(|path| format!("file {}", path.display())));
        }
        left
    }

    /// Mount points below the sandbox.
    #[must_use]
    pub fn mounts(&self) -> Vec<String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let base = self.base().display().to_string();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        points.filter(|point| point.starts_with(&base)).map(str::to_owned).collect()
    }

    /// Live processes of this sandbox: those that carry the job's name among their arguments, or that were given the
    /// sandbox as their surroundings.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let surroundings = format!("XDG_RUNTIME_DIR={}", self.runtime().display());
        let ours = |pid: u32| command_line(pid).contains(&self.name) || environment(pid).contains(&surroundings);
        live_processes().into_iter().filter(|&pid| ours(pid)).collect()
    }
}

/// Live processes that run the program at `path`.
#[must_use]
pub fn running(path: &Path) -> Vec<u32> {
    let runs = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == path);
    live_processes().into_iter().filter(|&pid| runs(pid)).collect()
}

/// The program's name as the kernel shows it; a process that does something else is not looked at any further.
/// Asking for more than the name of just any process can wait for ever, when that one is being executed from a file
/// system that hangs.
const COMM: &str = "forebay";

/// Live processes of the command.
fn live_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let named =
        |pid: &u32| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(COMM.as_bytes()));
    pids.filter(|pid| *pid != std::process::id() && named(pid) && is_alive(*pid)).collect()
}

fn environment(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|&byte| byte == 0).map(|variable| String::from_utf8_lossy(variable).into_owned()).collect()
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

/// The command under test: `FOREBAY_BIN`, else the one built beside the running test.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("FOREBAY_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().expect("the path of the running test");
    let beside = own.ancestors().nth(2).map(|directory| directory.join("forebay"));
    let built = beside.filter(|path| path.is_file());
    built.expect("the command is not built: run `cargo build -p forebay`, or set FOREBAY_BIN")
}

/// A command that is run by `nobody`.
#[must_use]
pub fn as_nobody(program: &Path) -> Command {
    as_user(NOBODY, program)
}

/// A command that is run by the user and group of that number.
#[must_use]
pub fn as_user(id: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".to_owned()]).arg(program);
    command
}

fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// A process that has ended and that nobody has waited for is not alive.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().and_then(|rest| rest.chars().next()).is_some_and(|state| !"ZX".contains(state))
}

/// Everything but directories, which may stay when somebody else made them.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            _ => files.push(entry.path()),
        }
    }
    files
}

/// A running job.
pub struct Job {
    /// Where it lives.
    pub sandbox: Sandbox,
    views: Vec<PathBuf>,
    /// The first daemon of each node.
    pids: Vec<u32>,
    keepers: Vec<u32>,
    down: bool,
}

impl Job {
    /// `nodes` nodes on this machine over `export`, which is usually the sandbox's source.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    #[track_caller]
    pub fn up_local(sandbox: Sandbox, nodes: u32, export: &Path, arguments: &[&str]) -> Self {
        let (count, view) = (nodes.to_string(), sandbox.view());
        let fixed: [&OsStr; 6] = [
            "--local".as_ref(),
            count.as_ref(),
            "--export".as_ref(),
            export.as_ref(),
            "--view".as_ref(),
            view.as_ref(),
        ];
        let all: Vec<&OsStr> = fixed.into_iter().chain(arguments.iter().map(OsStr::new)).collect();
        Self::up(sandbox, &all)
    }

    /// A job started by `up` with these arguments.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    #[track_caller]
    pub fn up(sandbox: Sandbox, arguments: &[&OsStr]) -> Self {
        let started = sandbox.up(arguments);
        assert!(started.status.success(), "up ended with {}: {}", started.status, started.stderr);
        Self::of(sandbox)
    }

    /// The job of a sandbox, which is up.
    ///
    /// # Panics
    /// If it is not.
    #[must_use]
    #[track_caller]
    pub fn of(sandbox: Sandbox) -> Self {
        let mut job = Self { sandbox, views: vec![], pids: vec![], keepers: vec![], down: false };
        let status = job.status();
        let nodes = status["nodes"].as_array().expect("status has nodes");
        job.views = nodes.iter().map(|node| node["view"].as_str().expect("a node has a view").into()).collect();
        job.pids = nodes.iter().map(|node| number(&node["pid"])).collect();
        job.keepers = nodes.iter().map(|node| number(&node["keeper_pid"])).collect();
        assert!(nodes.iter().all(|node| node["state"] == "ready"), "all are ready when up returns: {status:#}");
        job
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.views.len()
    }

    /// The mount point of node `rank`.
    #[must_use]
    pub fn view(&self, rank: usize) -> &Path {
        &self.views[rank]
    }

    /// The daemon that node `rank` was started with.
    #[must_use]
    pub fn pid(&self, rank: usize) -> u32 {
        self.pids[rank]
    }

    /// The keeper of node `rank`.
    #[must_use]
    pub fn keeper(&self, rank: usize) -> u32 {
        self.keepers[rank]
    }

    /// The daemon of node `rank` now, as its keeper has written it down; `None` while there is none.
    #[must_use]
    pub fn daemon(&self, rank: usize) -> Option<u32> {
        let path = self.sandbox.runtime().join("forebay").join(&self.sandbox.name).join(format!("node-{rank}.json"));
        let record: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let pid = u32::try_from(record["daemon"]["pid"].as_u64()?).ok()?;
        is_alive(pid).then_some(pid)
    }

    /// Kills the daemon of node `rank` as a crash would; its keeper starts another. The one that died.
    ///
    /// # Panics
    /// If there is none within a time.
    pub fn kill_daemon(&self, rank: usize) -> u32 {
        let mut victim = None;
        wait_until("there is a daemon", PATIENCE, || {
            victim = self.daemon(rank);
            victim.is_some()
        });
        let victim = victim.expect("there is a daemon");
        kill(victim);
        wait_until("a killed daemon ends", GONE, || !is_alive(victim));
        victim
    }

    /// Kills the keeper of node `rank`, and nothing else.
    ///
    /// # Panics
    /// If it does not die.
    pub fn kill_keeper(&self, rank: usize) {
        kill(self.keepers[rank]);
        wait_until("a killed keeper ends", GONE, || !is_alive(self.keepers[rank]));
    }

    /// Where node `rank` shows the file at the absolute path `source`.
    #[must_use]
    pub fn path(&self, rank: usize, source: &Path) -> PathBuf {
        self.views[rank].join(source.strip_prefix("/").unwrap_or(source))
    }

    /// A command of this job: `forebay NAME --job JOB ARGUMENTS`.
    #[must_use]
    #[track_caller]
    pub fn command(&self, name: &str, arguments: &[&OsStr]) -> Finished {
        run(self.sandbox.command().args([name, "--job", &self.sandbox.name]).args(arguments))
    }

    /// `forebay status --json`.
    ///
    /// # Panics
    /// If that fails or is no JSON.
    #[must_use]
    #[track_caller]
    pub fn status(&self) -> Value {
        let printed = self.command("status", &["--json".as_ref()]).good();
        serde_json::from_slice(&printed.stdout).expect("status prints JSON")
    }

    /// Takes the job down and checks that nothing of it is left.
    ///
    /// # Panics
    /// If `down` fails or something is left.
    #[track_caller]
    pub fn down(mut self) {
        let left = self.take_down();
        assert!(left.is_empty(), "left behind: {left:#?}");
    }

    /// What is wrong after `down`.
    fn take_down(&mut self) -> Vec<String> {
        if std::mem::replace(&mut self.down, true) {
            return vec![];
        }
        let ended = self.command("down", &[]);
        let mut wrong = vec![];
        if !ended.status.success() {
            wrong.push(format!("down ended with {}: {}", ended.status, ended.stderr));
        }
        let start = std::time::Instant::now();
        while start.elapsed() < GONE && self.pids.iter().chain(&self.keepers).any(|&pid| is_alive(pid)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        wrong.extend(self.sandbox.left());
        wrong.extend(self.pids.iter().filter(|&&pid| is_alive(pid)).map(|pid| format!("daemon {pid}")));
        self.clean();
        wrong
    }

    /// So that one failure is no failure of the tests after it.
    fn clean(&self) {
        for pid in self.pids.iter().chain(&self.sandbox.processes()).filter(|&&pid| is_alive(pid)) {
            kill(*pid);
        }
        for mount in self.sandbox.mounts().iter().rev() {
            let _ = rustix::mount::unmount(mount.as_str(), rustix::mount::UnmountFlags::DETACH);
        }
    }

    /// For a job that has been taken down by other means: nothing is left to be checked.
    pub fn forget(mut self) {
        self.down = true;
    }

    /// Stops the daemon of node `rank`: it takes, answers and times nothing until what is returned is dropped.
    ///
    /// # Panics
    /// If the job does not tell its process.
    #[must_use]
    pub fn stop_node(&self, rank: usize) -> Stopped {
        let daemon = self.daemon(rank).expect("a daemon");
        send(daemon, Signal::STOP);
        Stopped(daemon)
    }

    /// Kills keeper and daemon of node `rank` as a node's crash would, and waits until both are gone.
    ///
    /// # Panics
    /// If they do not die.
    pub fn kill_node(&self, rank: usize) {
        // Stopped first: it would start another daemon.
        send(self.keepers[rank], Signal::STOP);
        let daemon = self.daemon(rank);
        [daemon, Some(self.keepers[rank])].into_iter().flatten().for_each(kill);
        wait_until("a killed node ends", GONE, || !daemon.is_some_and(is_alive) && !is_alive(self.keepers[rank]));
    }
}

/// A daemon that is stopped until this is dropped.
#[derive(Debug)]
pub struct Stopped(u32);

impl Drop for Stopped {
    fn drop(&mut self) {
        send(self.0, Signal::CONT);
    }
}

/// The process id in a status.
#[track_caller]
fn number(pid: &Value) -> u32 {
    pid.as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a node has a pid")
}

/// Kills a process.
pub fn kill(pid: u32) {
    send(pid, Signal::KILL);
}

/// Sends a signal to a process; one that has ended gets none.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let left = self.take_down();
        if !left.is_empty() {
            let message = format!("left behind: {left:#?}");
            // A second panic would end the whole suite; the first one is told already.
            if std::thread::panicking() { eprintln!("{message}") } else { panic!("{message}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found() {
        let sandbox = Sandbox::new();
        assert_eq!(sandbox.left(), Vec::<String>::new());
        std::fs::create_dir_all(sandbox.view().join("3")).expect("a directory");
        assert_eq!(sandbox.left(), Vec::<String>::new(), "directories may stay");
        std::fs::write(sandbox.runtime().join("socket"), "").expect("a file");
        let program = sandbox.base().join(COMM);
        copy_program(Path::new("/bin/sh"), &program);
        let mut waiting = Command::new(&program);
        waiting.args(["-c", "read line", &sandbox.name]).stdin(std::process::Stdio::piped());
        let mut waiting = waiting.spawn().expect("a process");
        let left = sandbox.left();
        assert!(left.iter().any(|what| what.starts_with("file") && what.ends_with("socket")), "{left:?}");
        // A process shows its arguments a moment after it was started.
        wait_until("the process is found", Duration::from_secs(20), || !sandbox.processes().is_empty());
        let _ = waiting.kill();
        let _ = waiting.wait();
    }

    #[test]
    fn sandboxes_do_not_meet() {
        let (one, other) = (Sandbox::new(), Sandbox::new());
        assert_ne!(one.name, other.name);
        assert_ne!(one.base(), other.base());
    }
}
