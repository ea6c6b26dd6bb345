//! A job with a burst tier: its stores lie where files are written directly.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use forebay_bench::cpu;
use forebay_bench::latencies::recorded;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub const MIB: usize = 1 << 20;

const DIR: &str = "ckpt";

/// The job, and directories that are removed at the end.
pub struct Bed {
    job: String,
    /// On the file system that is measured.
    directory: TempDir,
    binary: PathBuf,
    is_quick: bool,
}

/// How a job is set up.
pub struct Setup<'a> {
    /// Part of the job's name.
    pub name: &'a str,
    pub nodes: usize,
    /// Where files land, and where stores lie; `None`: on the file system that is measured.
    pub backing: Option<&'a Path>,
    pub stores: Option<&'a Path>,
    pub capacity: &'a str,
    /// More options of `up`.
    pub options: &'a [&'a str],
}

impl Bed {
    /// The job of two nodes of most measurements.
    pub fn up(parent: &Path, is_quick: bool) -> anyhow::Result<Self> {
        let setup = Setup { name: "write", nodes: 2, backing: None, stores: None, capacity: "12GiB", options: &[] };
        Self::of(parent, is_quick, &setup)
    }

    /// Beside this one.
    pub fn beside(&self, setup: &Setup<'_>) -> anyhow::Result<Self> {
        let parent = self.directory.path().parent().context("a directory without a parent")?;
        Self::of(parent, self.is_quick, setup)
    }

    fn of(parent: &Path, is_quick: bool, setup: &Setup<'_>) -> anyhow::Result<Self> {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let directory = TempDir::new_in(parent).with_context(|| format!("cannot write to {}", parent.display()))?;
        let binary = std::env::var_os("FOREBAY_BIN").map_or_else(beside, |named| Ok(PathBuf::from(named)))?;
        let job = format!("bench-{}", setup.name);
        let bed = Self { job, directory, binary, is_quick };
        let base = bed.directory.path().canonicalize()?;
        for name in ["view", "direct", "export", "backing"] {
            fs::create_dir(base.join(name))?;
        }
        let at = |name: &str| base.join(name).display().to_string();
        let or_at = |path: Option<&Path>, name: &str| path.map_or_else(|| at(name), |path| path.display().to_string());
        let pair = format!("/{DIR}={}", or_at(setup.backing, "backing"));
        let (nodes, store) = (setup.nodes.to_string(), or_at(setup.stores, "store"));
        let words = ["up", "--local", &nodes, "--export", &at("export"), "--view", &at("view"), "--profile", "off"];
        let burst = [
            "--burst",
            &pair,
            "--burst-store",
            &store,
            "--burst-mount",
            &at("mount"),
            "--burst-capacity",
            setup.capacity,
        ];
        bed.forebay(&[&words[..], &burst[..], setup.options].concat())?;
        Ok(bed)
    }

    /// Takes the job down; no file is left to land.
    pub fn down(&self) -> anyhow::Result<()> {
        self.forebay(&["down"]).map(drop)
    }

    /// Where a node's programs write.
    pub fn mount(&self, node: u32) -> PathBuf {
        self.directory.path().join("mount").join(node.to_string()).join(DIR)
    }

    /// A directory of the file system that the stores lie on.
    pub fn direct(&self) -> PathBuf {
        self.directory.path().join("direct")
    }

    pub fn runs(&self, full: usize) -> usize {
        if self.is_quick { 3 } else { full }
    }

    /// Whether figures may be rough.
    pub fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// A node's daemon, if it answers.
    pub fn pid(&self, node: usize) -> Option<u64> {
        let status: Value = serde_json::from_str(&self.forebay(&["status", "--json"]).ok()?).ok()?;
        status["nodes"].get(node)?["pid"].as_u64()
    }

    /// Kills a node's daemon; which it was.
    pub fn kill_daemon(&self, node: usize) -> anyhow::Result<u64> {
        let pid = self.pid(node).context("the daemon does not answer")?;
        signal(pid, Signal::KILL)?;
        Ok(pid)
    }

    /// Kills a node's daemon with its keeper, as the node's end would.
    pub fn kill_node(&self, node: usize) -> anyhow::Result<()> {
        let daemon = self.pid(node).context("the daemon does not answer")?;
        let keeper = parent(daemon)?;
        // Stopped first: it would start another daemon.
        signal(keeper, Signal::STOP)?;
        signal(daemon, Signal::KILL)?;
        signal(keeper, Signal::KILL)
    }

    /// A node's daemon stands still while `run` runs.
    pub fn while_it_stands_still(&self, node: usize, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let pid = self.pid(node).context("the daemon does not answer")?;
        signal(pid, Signal::STOP)?;
        let outcome = run();
        signal(pid, Signal::CONT)?;
        outcome
    }

    /// Changes of the tree that its standby lacks; nothing where none follows.
    pub fn second_home_behind(&self) -> Option<u64> {
        let status: Value = serde_json::from_str(&self.status_in_part()?).ok()?;
        status["nodes"][0]["burst"]["second_home_behind"].as_u64()
    }

    /// The answer of `status`, also where a daemon does not answer.
    fn status_in_part(&self) -> Option<String> {
        let ended = Command::new(&self.binary).args(["status", "--json", "--job", &self.job]).output().ok()?;
        String::from_utf8(ended.stdout).ok()
    }

    /// All has landed, and the disk is quiet.
    pub fn settle(&self) -> anyhow::Result<()> {
        self.forebay(&["drain", "--wait", "--timeout", "120s"])?;
        rustix::fs::sync();
        Ok(())
    }

    /// Processor time of the daemons so far.
    pub fn daemons_cpu(&self) -> anyhow::Result<Duration> {
        let status: Value = serde_json::from_str(&self.forebay(&["status", "--json"])?)?;
        let nodes = status["nodes"].as_array().context("status has no nodes")?;
        Ok(nodes.iter().filter_map(|node| cpu::of_process(node["pid"].as_u64()? as u32)).sum())
    }

    /// The same of one node.
    pub fn daemon_cpu(&self, node: usize) -> anyhow::Result<Duration> {
        let pid = self.pid(node).context("the daemon does not answer")?;
        cpu::of_process(pid as u32).context("the daemon has ended")
    }

    /// Latencies that the first node's daemon has recorded.
    pub fn recorded(&self) -> anyhow::Result<u64> {
        let status: Value = serde_json::from_str(&self.forebay(&["status", "--json"])?)?;
        recorded(&status["nodes"][0]["latency"])
    }

    /// Bytes that programs have written and that have not landed, on all nodes.
    pub fn not_landed(&self) -> anyhow::Result<u64> {
        let status: Value = serde_json::from_str(&self.forebay(&["status", "--json"])?)?;
        let nodes = status["nodes"].as_array().context("status has no nodes")?;
        let of = |node: &Value| {
            ["dirty_bytes", "committed_bytes", "draining_bytes"].map(|name| node["burst"][name].as_u64())
        };
        Ok(nodes.iter().flat_map(of).flatten().sum())
    }

    fn forebay(&self, words: &[&str]) -> anyhow::Result<String> {
        let (command, options) = words.split_first().context("no command")?;
        let ended = Command::new(&self.binary)
            .args([command, "--job", &self.job])
            .args(options)
            .output()
            .context("forebay cannot be run")?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        ensure!(ended.status.success(), "forebay {command} ended with {}: {said}", ended.status);
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // It may be down already.
        let _ = self.forebay(&["down", "--no-drain"]);
    }
}

/// The process that has started another.
fn parent(pid: u64) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).context("a process has no parent")?;
    Ok(line.trim().parse()?)
}

/// By this process itself: another one would close this one's files of the mount as it begins, and wait for the daemon that stands still.
fn signal(pid: u64, signal: Signal) -> anyhow::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process has this number")?;
    kill_process(pid, signal).with_context(|| format!("process {pid:?} gets no signal"))
}

fn beside() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("forebay"))
}

/// Bytes that no file system can leave out.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(byte).collect()
}

/// Seconds that `run` takes.
pub fn seconds(run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64())
}
