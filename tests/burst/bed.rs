//! A job with a burst tier.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::program::{Finished, run};
use forebay_tests::{Job, Sandbox};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Where programs see it.
pub const DIR: &str = "/burst/ckpt";

/// A job whose programs write to `DIR`, and its directories.
pub struct Bed {
    pub job: Job,
}

/// The arguments of `up` in `sandbox`, for a job of so many nodes.
pub fn arguments(sandbox: &Sandbox, nodes: u32) -> Vec<String> {
    let (base, source) = (sandbox.base(), sandbox.source());
    let path = |name: &str| base.join(name).display().to_string();
    let pair = format!("{DIR}={}", path("backing"));
    let export = source.display().to_string();
    let (store, mount, nodes) = (path("store"), path("mounts"), nodes.to_string());
    [
        "--local",
        &nodes,
        "--export",
        &export,
        "--burst",
        &pair,
        "--burst-store",
        &store,
        "--burst-mount",
        &mount,
        "--burst-capacity",
        "1GiB",
    ]
    .map(str::to_owned)
    .to_vec()
}

impl Bed {
    pub fn new() -> Self {
        Self::of(1)
    }

    /// With so many nodes.
    pub fn of(nodes: u32) -> Self {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.base().join("backing")).unwrap();
        Self::up(sandbox, nodes)
    }

    /// The same with more arguments.
    pub fn with(nodes: u32, more: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.base().join("backing")).unwrap();
        let mut words = arguments(&sandbox, nodes);
        words.extend(more.iter().map(|word| (*word).to_owned()));
        Self::up_with(sandbox, &words)
    }

    /// In a sandbox that has the directory of the backing file system.
    pub fn up(sandbox: Sandbox, nodes: u32) -> Self {
        let arguments = arguments(&sandbox, nodes);
        Self::up_with(sandbox, &arguments)
    }

    /// With arguments of the test's own.
    pub fn up_with(sandbox: Sandbox, arguments: &[String]) -> Self {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        Self { job: Job::up(sandbox, &arguments) }
    }

    /// The first node's mount, which programs write to.
    pub fn mount(&self) -> PathBuf {
        self.mount_of(0)
    }

    /// A node's mount, which programs write to.
    pub fn mount_of(&self, node: u32) -> PathBuf {
        self.job.sandbox.base().join(format!("mounts/{node}")).join(DIR.trim_start_matches('/'))
    }

    /// Where it lands.
    pub fn backing(&self) -> PathBuf {
        self.job.sandbox.base().join("backing")
    }

    /// A shell that may hang without the test hanging.
    #[track_caller]
    pub fn shell(&self, script: &str) -> Finished {
        self.shell_on(0, script)
    }

    /// The same on a node.
    #[track_caller]
    pub fn shell_on(&self, node: u32, script: &str) -> Finished {
        run(Command::new("sh").args(["-euc", script]).current_dir(self.mount_of(node)))
    }

    /// `forebay NAME` of this job.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Finished {
        run(self.job.sandbox.command().arg(words[0]).args(["--job", &self.job.sandbox.name]).args(&words[1..]))
    }

    /// The same of a command that is of no job.
    #[track_caller]
    pub fn command_without_job(&self, words: &[&str]) -> Finished {
        run(self.job.sandbox.command().args(words))
    }

    /// A node's daemon stands still while `run` runs.
    pub fn while_it_stands_still<T>(&self, node: usize, run: impl FnOnce() -> T) -> T {
        let pid = Pid::from_raw(self.job.daemon(node).unwrap() as i32).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        let outcome = run();
        kill_process(pid, Signal::CONT).unwrap();
        outcome
    }

    #[track_caller]
    pub fn drain(&self) {
        let _ = self.command(&["drain", "--wait", "--timeout", "60s"]).good();
    }

    /// The state of a file as `landed --json` reports it.
    #[track_caller]
    pub fn landed(&self, name: &str) -> Value {
        let told = self.command(&["landed", "--json", &format!("{DIR}/{name}")]);
        serde_json::from_slice::<Value>(&told.stdout).unwrap_or_else(|_| panic!("{}", told.stderr))["files"][0].clone()
    }

    /// The entries of a directory: names, kinds, modes, links, contents.
    #[track_caller]
    pub fn listing(directory: &Path) -> String {
        let script = "find . -mindepth 1 ! -type d -printf '%P %y %m %n %s %l\\n' | sort; \
                      find . -type f -exec sha256sum {} + | sort -k2";
        run(Command::new("sh").args(["-euc", script]).current_dir(directory)).good().text()
    }
}
