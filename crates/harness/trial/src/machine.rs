//! The machine that a figure was measured on: without it a figure cannot be compared with another.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine and the version of the code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel name and release.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub cores: usize,
    /// Main memory, bytes.
    pub memory_bytes: u64,
    /// The commit, with `+` behind it when files differ from it; `unknown` outside a repository.
    pub commit: String,
    /// Load average over one minute when the run began: other work on the machine shows here.
    pub load: f64,
}

impl Machine {
    /// This machine, and the commit of the repository at `source`.
    #[must_use]
    pub fn here(source: &Path) -> Self {
        Self { commit: commit(source), ..Self::without_source() }
    }

    /// This machine, where no repository is.
    #[must_use]
    pub fn without_source() -> Self {
        let name = rustix::system::uname();
        let (system, release) = (name.sysname().to_string_lossy(), name.release().to_string_lossy());
        let memory_kib: u64 =
            field("/proc/meminfo", "MemTotal").split(' ').next().map_or(0, |n| n.parse().unwrap_or(0));
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            kernel: format!("{system} {release}"),
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_kib * 1024,
            commit: "unknown".to_owned(),
            load: load.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
        }
    }

    /// In one line, for people.
    #[must_use]
    pub fn described(&self) -> String {
        format!("{}, commit {}, load at the start {:.1}", self.hardware(), self.commit, self.load)
    }

    /// Its processors, memory and kernel.
    #[must_use]
    pub fn hardware(&self) -> String {
        let Self { kernel, processor, cores, memory_bytes, .. } = self;
        let gib = *memory_bytes as f64 / f64::from(1 << 30);
        format!("{cores} cores ({processor}), {gib:.0} GiB, {kernel}")
    }
}

/// The value of the first line `name : value` in a file of /proc.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    value.unwrap_or("unknown").trim().to_owned()
}

fn commit(source: &Path) -> String {
    let git = |words: &[&str]| {
        let out = Command::new("git").arg("-C").arg(source).args(words).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = git(&["status", "--porcelain"]).is_some_and(|text| !text.is_empty());
    if changed { commit + "+" } else { commit }
}
