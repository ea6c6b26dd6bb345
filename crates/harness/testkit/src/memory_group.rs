//! A control group with a memory limit, version 1 or 2, gone with its owner.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::program::wait_until;

static GROUPS: AtomicU32 = AtomicU32::new(0);

/// The group.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// A group whose processes may use `limit_bytes` together.
    ///
    /// # Errors
    /// The system's error where groups cannot be made.
    pub fn new(limit_bytes: u64) -> io::Result<Self> {
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("forebay-test-{}-{number}", process::id());
        let first = Path::new("/sys/fs/cgroup/memory");
        let (path, file) = match first.is_dir() {
            true => (first.join(name), "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup").join(name), "memory.max"),
        };
        fs::create_dir(&path)?;
        let group = Self { path };
        fs::write(group.path.join(file), limit_bytes.to_string())?;
        Ok(group)
    }

    /// A program that enters the group before it begins.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ >"$0" && exec "$@""#]).arg(self.path.join("cgroup.procs")).arg(program);
        command
    }

    /// How often the kernel ended a process of the group for want of memory.
    ///
    /// # Panics
    /// If the group does not tell.
    #[must_use]
    pub fn kills(&self) -> u64 {
        let text = ["memory.oom_control", "memory.events"]
            .iter()
            .find_map(|file| fs::read_to_string(self.path.join(file)).ok());
        let text = text.expect("the group's events");
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).expect("a count of kills")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let empty = || fs::remove_dir(&self.path).is_ok() || !self.path.exists();
        if !std::thread::panicking() {
            wait_until("a control group is empty", Duration::from_secs(10), empty);
        } else {
            empty();
        }
    }
}
