//! A place of its own for a test: jobs, files to export, and a check that nothing stays.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a condition may take to come true on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory for jobs and one with files; both go, with every job, when the test ends.
pub struct Place {
    root: tempfile::TempDir,
}

impl Place {
    /// A new one; `None`, said aloud, where views cannot be mounted.
    pub fn with_views() -> Option<Self> {
        let lack = if !rustix::process::geteuid().is_root() {
            "not root"
        } else if !Path::new("/dev/fuse").exists() {
            "no /dev/fuse"
        } else {
            return Some(Self::new());
        };
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: {lack}");
        println!("skipped: {lack}");
        None
    }

    /// A new one, for tests that mount nothing.
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("fb").tempdir().unwrap();
        fs::create_dir_all(root.path().join("source/below")).unwrap();
        fs::write(root.path().join("source/file"), "contents of file\n").unwrap();
        fs::write(root.path().join("source/below/large"), vec![7; 3 << 20]).unwrap();
        Self { root }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The exported directory.
    pub fn source(&self) -> String {
        self.path("source").display().to_string()
    }

    /// The command, with the environment of a plain login.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_forebay"), self.root.path());
        command.args(arguments);
        command
    }

    /// A shell in a directory, whose commands find the jobs of this place.
    pub fn shell(&self, directory: &Path) -> Command {
        self.program("sh", directory)
    }

    /// A program with the environment of a plain login, and this place for jobs.
    fn program(&self, program: &str, directory: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars()
            .filter(|(name, _)| ["FOREBAY_", "SLURM", "PBS_", "LSB_"].iter().any(|start| name.starts_with(start)))
        {
            command.env_remove(name);
        }
        command.env("FOREBAY_DIRECTORY", self.path("run")).current_dir(directory);
        // Jobs that record nothing, unless a test wants it.
        command.env("XDG_STATE_HOME", self.path("state"));
        command.env("FOREBAY_PROFILE", "off").env("FOREBAY_PROFILE_DIR", self.path("profiles"));
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs it; it must succeed. Its standard output.
    pub fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs it with `--json`; it must succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        serde_json::from_str(&self.succeeds(&all)).unwrap()
    }

    /// Runs it; it must end with that status. Its standard error.
    pub fn fails(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The directory of a local job.
    pub fn job(&self, name: &str) -> PathBuf {
        self.path("run").join(name)
    }

    /// The contents of `node-RANK.json`.
    pub fn daemon(&self, job: &str, rank: u32) -> Value {
        let path = self.job(job).join(format!("node-{rank}.json"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Ends a node, keeper and daemon, as a crash would.
    pub fn kill(&self, job: &str, rank: u32) {
        use rustix::process::Signal;
        let keeper = self.daemon(job, rank)["process"]["pid"].as_u64().unwrap();
        // It would start another daemon.
        signal(keeper, Signal::STOP);
        let daemon = self.daemon(job, rank)["daemon"]["pid"].as_u64().unwrap();
        [daemon, keeper].iter().for_each(|pid| signal(*pid, Signal::KILL));
        wait_until("the node is gone", || !is_running(daemon) && !is_running(keeper));
    }

    /// Where programs find the burst mount of a node.
    pub fn burst_mount(&self, rank: u32) -> PathBuf {
        let part = if rank == 0 { "/burst".to_owned() } else { format!("/burst/{rank}") };
        let mounts = self.mounts();
        let at = |line: &String| line.split(' ').nth(1).filter(|at| at.contains(&part)).map(PathBuf::from);
        mounts.iter().find_map(at).unwrap_or_else(|| panic!("no burst mount of node {rank}: {mounts:?}"))
    }

    /// The mounts below this place.
    pub fn mounts(&self) -> Vec<String> {
        let mut text = String::new();
        fs::File::open("/proc/self/mounts").unwrap().read_to_string(&mut text).unwrap();
        let own = self.root.path().display().to_string();
        text.lines().filter(|line| line.contains(&own)).map(str::to_owned).collect()
    }

    /// All traces of all jobs are gone.
    pub fn assert_clean(&self) {
        assert_eq!(self.mounts(), Vec::<String>::new());
        assert_eq!(files_below(&self.path("run")), Vec::<PathBuf>::new());
        assert_eq!(self.daemons(), Vec::<String>::new());
    }

    /// The command lines of the daemons and keepers of this place.
    pub fn daemons(&self) -> Vec<String> {
        let own = self.root.path().display().to_string();
        processes().filter(|line| line.contains(&own) && line.contains("node")).collect()
    }
}

/// The directory and all in it, if it is there.
fn files_below(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| files_below(&entry.path()));
    path.exists().then(|| path.to_owned()).into_iter().chain(below).collect()
}

impl Drop for Place {
    fn drop(&mut self) {
        // A failed test leaves its jobs up; they must not outlive it, and their mounts must not be walked.
        for job in fs::read_dir(self.path("run")).into_iter().flatten().flatten() {
            self.command(&["down", "--job", &job.file_name().to_string_lossy()]).output().ok();
        }
    }
}

/// Sends a signal to a process that this test has started.
pub fn signal(pid: u64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Whether any thread of a process runs, zombies not counted: the first one ends before the others, which still have its
/// files open.
pub fn is_running(pid: u64) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// The command lines of all processes.
fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    })
}
