//! A Forebay job, driven by its command as a user drives it: `forebay up`, `status --json`, `down`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::{Place, run};

use crate::cpu;

/// The part of `status --json` that is used here.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Status {
    /// One entry a node, by rank.
    #[serde(default)]
    pub nodes: Vec<NodeStatus>,
}

/// One node of `status --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// The node's rank.
    pub rank: u32,
    /// The daemon's process id.
    pub pid: u32,
    /// The process id of its keeper, which starts the daemon.
    pub keeper_pid: u32,
    /// Where its view is mounted.
    pub view: PathBuf,
    /// Its burst tier, if the job has one.
    pub burst: Option<BurstStatus>,
    /// Its parent in each tree; empty at a root.
    pub parents: Vec<serde_json::Value>,
    /// Requests of the kernel.
    pub kernel: KernelStatus,
    /// Prefill.
    pub prefill: PrefillStatus,
    /// Messages between nodes.
    pub overlay: BTreeMap<String, u64>,
    /// Requests to the backing file system.
    pub backing: BackingStatus,
    /// Latencies, by place and kind.
    pub latency: serde_json::Value,
}

/// Requests of one node to the backing file system.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BackingStatus {
    /// Bytes of file contents that were read.
    pub bytes: u64,
    /// Listings of directories.
    pub listings: u64,
}

/// The burst tier at one node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BurstStatus {
    /// Where it is mounted.
    pub mount: PathBuf,
}

/// Requests of the kernel to one node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KernelStatus {
    /// Messages by kind.
    pub messages: BTreeMap<String, u64>,
    /// Bytes of files that it was given.
    pub bytes_read: u64,
}

/// Prefill at one node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PrefillStatus {
    /// `none`, `filling` or `filled`.
    pub state: String,
    /// Chunks that the kernel was given.
    pub chunks: u64,
    /// Parcels that came.
    pub parcels: u64,
}

impl Status {
    /// Whether everything has come ahead to all nodes.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.nodes.iter().all(|node| node.prefill.state == "filled")
    }

    /// Messages of the kernel, all nodes together, by kind.
    #[must_use]
    pub fn messages(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for (kind, count) in self.nodes.iter().flat_map(|node| &node.kernel.messages) {
            *sum.entry(kind.clone()).or_insert(0) += count;
        }
        sum
    }

    /// Requests that nodes sent to each other.
    #[must_use]
    pub fn requests_sent(&self) -> u64 {
        self.nodes.iter().filter_map(|node| node.overlay.get("requests_sent")).sum()
    }

    /// Bytes of file contents that the roots read from the backing file system.
    #[must_use]
    pub fn backing_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.backing.bytes).sum()
    }

    /// The processes of all nodes: daemons and their keepers.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.nodes.iter().flat_map(|node| [node.pid, node.keeper_pid]).collect()
    }

    /// Processor time of all the daemons, as of now (not of when the status was asked for).
    #[must_use]
    pub fn cpu_now(&self) -> Duration {
        self.nodes.iter().filter_map(|node| cpu::of_process(node.pid)).sum()
    }

    /// Processor time of the daemons' children, which look at names of the views.
    #[must_use]
    pub fn walkers_cpu_now(&self) -> Duration {
        self.nodes.iter().map(|node| cpu::of_children_of(node.pid)).sum()
    }
}

/// How `forebay` is called: the binary, and where its job directories go.
#[derive(Clone)]
pub struct Forebay {
    /// The binary.
    pub binary: PathBuf,
    /// `XDG_RUNTIME_DIR` of every call, so that nothing of the measured jobs is left in the user's own.
    pub runtime: PathBuf,
    /// More variables, for the test bed's script or the job.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Forebay {
    /// The command with `words`, as all calls of the job are made.
    #[must_use]
    pub fn command(&self, words: &[OsString]) -> Command {
        let mut argv = vec![self.binary.clone().into_os_string()];
        argv.extend_from_slice(words);
        let mut command = Place::here().command(&argv);
        // Results of a measurement depend neither on the user's settings nor on the runs before.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
            command.env_remove(name);
        }
        command.env("FOREBAY_PROFILE", "off");
        command.env("XDG_RUNTIME_DIR", &self.runtime).envs(self.environment.iter().cloned());
        command
    }

    /// `forebay down` of a job whose trial was killed.
    pub fn end_job(&self, name: &str) {
        run::cleanup(&mut self.command(&["down", "--job", name].map(OsString::from)));
    }

    /// `forebay up` with `options` as a job called `name`, its views below `view`.
    ///
    /// # Errors
    /// When it does not come up; what had started is taken down again.
    pub fn up(&self, name: &str, view: &Path, options: &[OsString]) -> anyhow::Result<Job> {
        let mut words: Vec<OsString> = ["up", "--json", "--job", name, "--view"].map(OsString::from).to_vec();
        words.push(view.into());
        words.extend_from_slice(options);
        let mut job =
            Job { forebay: self.clone(), name: name.to_owned(), ready: Duration::ZERO, told: Told::default() };
        let start = Instant::now();
        let printed = job.printed(&words)?;
        job.ready = start.elapsed();
        job.told = serde_json::from_str(&printed).context("forebay up --json")?;
        Ok(job)
    }
}

/// A job that is up; taken down when dropped.
pub struct Job {
    forebay: Forebay,
    name: String,
    ready: Duration,
    told: Told,
}

/// The part of `up --json` that is used here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Told {
    /// Lines that it heard from the nodes through their launcher.
    pub lines_heard: u64,
    /// The node that took longest from the start of its process until its view answered.
    pub slowest: Option<Slowest>,
    /// One entry a node, by rank.
    pub nodes: Vec<ToldNode>,
}

/// A node that came up.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ToldNode {
    /// Where its view is mounted.
    pub view: PathBuf,
}

/// A node and how long it took to start.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Slowest {
    /// How long, milliseconds.
    pub took_ms: u64,
}

impl Job {
    fn printed(&self, words: &[OsString]) -> anyhow::Result<String> {
        run::output(&mut self.forebay.command(words))
    }

    /// A command as `forebay run` is called for it.
    #[must_use]
    pub fn run_words(&self, command: &[OsString]) -> Vec<OsString> {
        let forebay = self.forebay.binary.clone().into_os_string();
        let words = ["run", "--job", &self.name, "--"].map(OsString::from);
        std::iter::once(forebay).chain(words).chain(command.iter().cloned()).collect()
    }

    /// `words` in the surroundings in which the job is found.
    #[must_use]
    pub fn surrounded(&self, words: &[OsString]) -> Command {
        let mut command = Place::here().command(words);
        command.env("XDG_RUNTIME_DIR", &self.forebay.runtime);
        command
    }

    /// The time from calling `forebay up` to its return.
    #[must_use]
    pub fn ready(&self) -> Duration {
        self.ready
    }

    /// The report of `forebay up` on the start.
    #[must_use]
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Where node `rank` shows `path`, an absolute path of the backing file system.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn in_view(&self, rank: usize, path: &Path) -> anyhow::Result<PathBuf> {
        let view = self.view(rank).with_context(|| format!("there is no node {rank}"))?;
        Ok(shown(view, path))
    }

    /// Where node `rank` has its view.
    #[must_use]
    pub fn view(&self, rank: usize) -> Option<&Path> {
        self.told.nodes.get(rank).map(|node| node.view.as_path())
    }

    /// `forebay status --json`.
    ///
    /// # Errors
    /// When it fails or prints something else.
    pub fn status(&self) -> anyhow::Result<Status> {
        let words = ["status", "--job", &self.name, "--json"].map(OsString::from);
        let mut status: Status = serde_json::from_str(&self.printed(&words)?).context("forebay status --json")?;
        ensure!(!status.nodes.is_empty(), "forebay status tells of no node");
        status.nodes.sort_by_key(|node| node.rank);
        Ok(status)
    }

    /// `forebay landed`: whether a file of the burst tier has landed.
    ///
    /// # Errors
    /// When it has not, or the user asks for an end.
    pub fn landed(&self, path: &Path) -> anyhow::Result<()> {
        let mut words = ["landed", "--job", &self.name].map(OsString::from).to_vec();
        words.push(path.into());
        self.printed(&words).map(drop)
    }

    /// `forebay down`, and how long it took.
    ///
    /// # Errors
    /// When it fails or leaves a daemon behind.
    pub fn down(mut self) -> anyhow::Result<Duration> {
        let pids: Vec<u32> = self.status()?.nodes.iter().map(|node| node.pid).collect();
        let start = Instant::now();
        self.printed(&["down", "--job", &self.name].map(OsString::from))?;
        let took = start.elapsed();
        self.name.clear();
        let left: Vec<u32> = pids.into_iter().filter(|pid| is_forebay(*pid)).collect();
        ensure!(left.is_empty(), "forebay down left daemons behind: {left:?}");
        Ok(took)
    }
}

/// Where a view shows `path`, an absolute path of the backing file system.
#[must_use]
pub fn shown(view: &Path, path: &Path) -> PathBuf {
    view.join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether `pid` is still a daemon of Forebay (process ids are used again, and zombies do no harm).
fn is_forebay(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains("forebay"))
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            self.forebay.end_job(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_may_say_more_than_is_read() {
        let text = r#"{"job":{},"nodes":[{"rank":0,"pid":7,"view":"/v","new":1,"kernel":{"messages":{"lookup":3}},
            "backing":{"bytes":5,"errors_by_kind":{"EIO":1}}},{"rank":1,"kernel":{"messages":{"lookup":1,"read":2},"bytes_read":9}}]}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        assert_eq!(status.messages(), BTreeMap::from([("lookup".to_owned(), 4), ("read".to_owned(), 2)]));
        assert_eq!(status.backing_bytes(), 5);
    }
}
