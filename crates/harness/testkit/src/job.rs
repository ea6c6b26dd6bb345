//! A real job: started by the command, looked at by the command, taken down by the command.
//!
//! Each job lives in a `Sandbox`. Remains of a job that is down (a mount, a process, a file) are a failure of the test
//! that ran it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::processes::{children, is_alive, is_stopped};
use crate::program::{Finished, run, wait_until};

pub use crate::processes::{kill, running, send};
pub use crate::sandbox::{NOBODY, Sandbox, as_nobody, as_user, binary};

/// How long a daemon that was told to end may take to be gone once `down` has said that it is.
const GONE: Duration = Duration::from_secs(2);

/// How long a node may take to have a daemon again.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Its standard error.
    pub stderr: String,
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
        job.look();
        job
    }

    /// Starts it once more, after its end.
    ///
    /// # Panics
    /// If it does not come up.
    #[track_caller]
    pub fn up_again(&mut self, arguments: &[&OsStr]) {
        let _ = self.sandbox.up(arguments).good();
        self.down = false;
        self.look();
    }

    #[track_caller]
    fn look(&mut self) {
        let status = self.status();
        let nodes = status["nodes"].as_array().expect("status has nodes");
        self.views = nodes.iter().map(|node| node["view"].as_str().expect("a node has a view").into()).collect();
        self.pids = nodes.iter().map(|node| number(&node["pid"])).collect();
        self.keepers = nodes.iter().map(|node| number(&node["keeper_pid"])).collect();
        assert!(nodes.iter().all(|node| node["state"] == "ready"), "all are ready when up returns: {status:#}");
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
        let path = self.directory().join(format!("node-{rank}.json"));
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

    /// The job's directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.sandbox.runtime().join("forebay").join(&self.sandbox.name)
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

    /// `forebay status --json`, whatever its verdict.
    ///
    /// # Panics
    /// If that fails or is no JSON.
    #[must_use]
    #[track_caller]
    pub fn status(&self) -> Value {
        let printed = self.command("status", &["--json".as_ref()]);
        assert!(matches!(printed.status.code(), Some(0 | 3)), "{}: {}", printed.status, printed.stderr);
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

    /// The errors after `down`.
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
        // Numbers of processes that have ended may be those of others by now, so only what runs of this sandbox counts.
        while start.elapsed() < GONE && !self.sandbox.processes().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        wrong.extend(self.sandbox.left());
        self.clean();
        wrong
    }

    /// So that one failure is no failure of the tests after it.
    fn clean(&self) {
        self.sandbox.processes().into_iter().for_each(kill);
        for mount in self.sandbox.mounts().iter().rev() {
            let _ = rustix::mount::unmount(mount.as_str(), rustix::mount::UnmountFlags::DETACH);
        }
    }

    /// Kills all that runs of it, as the end of its nodes would, and cleans up what the kernel does not. Its stored files stay.
    ///
    /// # Panics
    /// If something does not die.
    pub fn kill_all(&mut self) {
        self.kill_all_and(|| {});
    }

    /// The same, with something that has to happen before what was killed can end.
    ///
    /// # Panics
    /// As `kill_all`.
    pub fn kill_all_and(&mut self, release: impl FnOnce()) {
        // Stopped first: a keeper would start another daemon.
        self.keepers.iter().for_each(|keeper| send(*keeper, Signal::STOP));
        let daemons = self.keepers.iter().flat_map(|keeper| children(*keeper));
        let all: Vec<u32> = self.keepers.iter().copied().chain(daemons).collect();
        all.iter().for_each(|pid| kill(*pid));
        release();
        wait_until("what was killed ends", GONE, || !all.iter().any(|pid| is_alive(*pid)));
        let _ = self.command("down", &["--no-drain".as_ref()]);
        self.down = true;
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
        // Stopped first: it would start another daemon. Its child is the daemon, also where it is not written down yet.
        let keeper = self.keepers[rank];
        send(keeper, Signal::STOP);
        wait_until("a keeper is stopped", GONE, || !is_alive(keeper) || is_stopped(keeper));
        let node: Vec<u32> = children(keeper).into_iter().chain([keeper]).collect();
        node.iter().copied().for_each(kill);
        wait_until("a killed node ends", GONE, || !node.iter().any(|pid| is_alive(*pid)));
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
