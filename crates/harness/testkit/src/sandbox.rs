//! The directories of one job: its source, its views and its runtime files, so that tests run beside each other and beside
//! a user's jobs. Remains there after the job is down are found here.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::memory_group::MemoryGroup;
use crate::processes::{command_line, environment, live_processes};
use crate::program::{Finished, copy_program, run};
use forebay_trial::scratch::mounts_below;

static JOBS: AtomicU32 = AtomicU32::new(0);

/// Directories of one job, gone with it.
pub struct Sandbox {
    base: Base,
    /// The job's name, used by no other.
    pub name: String,
    /// The command's copy that an ordinary user may run.
    for_nobody: Option<PathBuf>,
    /// The control group in which the command runs.
    group: Option<MemoryGroup>,
    /// The capability that root's command lacks.
    lacks: Option<&'static str>,
    /// The directory in which alone the command finds programs.
    programs: Option<PathBuf>,
}

/// A directory that is gone when it is dropped, or the test fails.
struct Base(Option<TempDir>);

impl Base {
    fn path(&self) -> &Path {
        self.0.as_ref().expect("a directory until it is dropped").path()
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let Some(path) = self.0.take().map(TempDir::keep) else { return };
        let until = Instant::now() + KEEPING;
        // The process that keeps the logs of a job may still write here: no command waits for it.
        while let Err(error) = fs::remove_dir_all(&path) {
            let is_being_written = error.kind() == io::ErrorKind::DirectoryNotEmpty && Instant::now() < until;
            if !is_being_written && !std::thread::panicking() {
                panic!("a sandbox is left behind: {error}: {}", path.display());
            } else if !is_being_written {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// How long logs may take to be kept: longer than their process goes on.
const KEEPING: Duration = Duration::from_secs(70);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The user and group `nobody`.
pub const NOBODY: u32 = 65_534;

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// Fresh directories.
    ///
    /// # Panics
    /// If they cannot be made.
    #[must_use]
    pub fn new() -> Self {
        // By the number of its process it is found when that is killed (`cargo xtask limited`).
        let prefix = format!("forebay-test-{}-", std::process::id());
        let base = tempfile::Builder::new().prefix(&prefix).tempdir().expect("a temporary directory");
        let base = Base(Some(base));
        for directory in ["source", "run"] {
            std::fs::create_dir(base.path().join(directory)).expect("a directory of the sandbox");
        }
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        // No name begins with another: processes are found by it.
        let name = format!("test-{}-{number:04}", std::process::id());
        Self { base, name, for_nobody: None, group: None, lacks: None, programs: None }
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

    /// The same on a machine without the setuid programs that mount for users: they are not in `PATH`, all others of this one are.
    ///
    /// # Panics
    /// If they cannot be made.
    #[must_use]
    pub fn of_nobody_without_fusermount() -> Self {
        let mut sandbox = Self::of_nobody();
        let programs = sandbox.base().join("bin");
        fs::create_dir(&programs).expect("a directory");
        for entry in fs::read_dir("/usr/bin").expect("programs").flatten() {
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with("fusermount") {
                std::os::unix::fs::symlink(entry.path(), programs.join(name)).expect("a link");
            }
        }
        sandbox.programs = Some(programs);
        sandbox
    }

    /// The directory in which alone the command finds programs, if there is one.
    #[must_use]
    pub fn programs(&self) -> Option<&Path> {
        self.programs.as_deref()
    }

    /// Fresh directories of a root that lacks a capability, as in a container; `setpriv(1)` has its name.
    ///
    /// # Panics
    /// If they cannot be made.
    #[must_use]
    pub fn without(capability: &'static str) -> Self {
        Self { lacks: Some(capability), ..Self::new() }
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

    /// The directory that is exported.
    #[must_use]
    pub fn source(&self) -> PathBuf {
        self.base().join("source")
    }

    /// The directory for `--view`; `up` makes it.
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
            (None, None) => match self.lacks {
                None => Command::new(binary()),
                Some(capability) => {
                    let mut command = Command::new("setpriv");
                    command.args(["--bounding-set", "--inh-caps"].map(|set| format!("{set}=-{capability}")));
                    command.arg(binary());
                    command
                }
            },
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
        // Counts of a test must not depend on the ones before it, and no file goes into the user's own cache.
        command.env("FOREBAY_PROFILE", "off").env("XDG_CACHE_HOME", self.base().join("cache"));
        command.env("XDG_STATE_HOME", self.base().join("state"));
        if let Some(programs) = &self.programs {
            command.env("PATH", programs);
        }
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
        mounts_below(&self.base()).into_iter().map(|point| point.display().to_string()).collect()
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

/// A command that is run by the user and the group of that number.
#[must_use]
pub fn as_user(id: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".to_owned()]).arg(program);
    command
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::processes::COMM;
    use crate::program::wait_until;

    #[test]
    fn leftovers_are_found() {
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
