//! A job with a burst tier.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::program::{Finished, run};
use forebay_tests::{Job, Sandbox};
use serde_json::Value;

/// Where programs see it.
pub const DIR: &str = "/burst/ckpt";

/// A job of one node whose programs write to `DIR`, and its directories.
pub struct Bed {
    pub job: Job,
}

/// The arguments of `up` in `sandbox`.
pub fn arguments(sandbox: &Sandbox) -> Vec<String> {
    let (base, source) = (sandbox.base(), sandbox.source());
    let path = |name: &str| base.join(name).display().to_string();
    let pair = format!("{DIR}={}", path("backing"));
    let export = source.display().to_string();
    let (store, mount) = (path("store"), path("mounts"));
    [
        "--local",
        "1",
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
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.base().join("backing")).unwrap();
        Self::up(sandbox)
    }

    /// In a sandbox that has the directory of the backing file system.
    pub fn up(sandbox: Sandbox) -> Self {
        let arguments = arguments(&sandbox);
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        Self { job: Job::up(sandbox, &arguments) }
    }

    /// What programs write to.
    pub fn mount(&self) -> PathBuf {
        self.job.sandbox.base().join("mounts/0").join(DIR.trim_start_matches('/'))
    }

    /// Where it lands.
    pub fn backing(&self) -> PathBuf {
        self.job.sandbox.base().join("backing")
    }

    /// A shell that may hang without the test hanging.
    #[track_caller]
    pub fn shell(&self, script: &str) -> Finished {
        run(Command::new("sh").args(["-euc", script]).current_dir(self.mount()))
    }

    /// `forebay NAME` of this job.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Finished {
        run(self.job.sandbox.command().arg(words[0]).args(["--job", &self.job.sandbox.name]).args(&words[1..]))
    }

    #[track_caller]
    pub fn drain(&self) {
        let _ = self.command(&["drain", "--wait", "--timeout", "60s"]).good();
    }

    /// What `landed --json` says of a file.
    #[track_caller]
    pub fn landed(&self, name: &str) -> Value {
        let told = self.command(&["landed", "--json", &format!("{DIR}/{name}")]);
        serde_json::from_slice::<Value>(&told.stdout).unwrap_or_else(|_| panic!("{}", told.stderr))["files"][0].clone()
    }

    /// What is in a directory: names, kinds, modes, links, contents.
    #[track_caller]
    pub fn listing(directory: &Path) -> String {
        let script = "find . -mindepth 1 ! -type d -printf '%P %y %m %n %s %l\\n' | sort; \
                      find . -type f -exec sha256sum {} + | sort -k2";
        run(Command::new("sh").args(["-euc", script]).current_dir(directory)).good().text()
    }
}
