//! The daemon as its keeper sees it: a child process, a link to it, and a time by which something must have happened.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, anyhow};
use forebay_launch::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::death::Death;
use crate::limits::{ARENAS, ARENAS_VARIABLE};
use crate::messages::{LAYOUT, ToDaemon, ToKeeper};
use crate::packets;
use crate::patience::{LAST_GRACE, Patience};

/// How far a daemon has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It prepares.
    Preparing,
    /// It waits for the mount.
    StandingBy,
    /// It has been given the mount.
    Begun,
    /// Its view answers.
    Serving,
}

/// The arguments of a daemon's start.
#[derive(Debug)]
pub struct Orders<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its name in `ps`: job and rank.
    pub name: &'a str,
    /// The plan.
    pub plan: &'a OwnedFd,
    /// The job's key.
    pub key: Option<&'a OwnedFd>,
    /// Deaths before.
    pub restarts: u32,
    /// Replacements before.
    pub replaced: u32,
    /// Whether the job has been up already.
    pub job_is_up: bool,
    /// The last death.
    pub last_death: Option<Death>,
}

/// The program of a daemon: the file itself, so that a daemon that died is followed by one of the same build whatever has
/// come to its place since, and without a look at a file system that may hang.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    file: OwnedFd,
}

impl Program {
    /// The one that runs now.
    pub fn this() -> anyhow::Result<Self> {
        let path = std::env::current_exe().context("cannot find this program")?;
        Ok(Self { file: open_path(Path::new("/proc/self/exe"))?, path })
    }

    /// The one that is in its place now.
    pub fn newest(&self) -> anyhow::Result<Self> {
        Ok(Self { file: open_path(&self.path)?, path: self.path.clone() })
    }

    /// It, to be run.
    pub fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        command.arg0(&self.path);
        command
    }
}

/// Why a daemon cannot be watched. The system call came with Linux 5.3, and what else views need with 5.4.
fn unwatchable(errno: Errno, release: &str) -> anyhow::Error {
    match errno {
        Errno::NOSYS => anyhow!("Linux {release} cannot watch a process (pidfd_open); views need Linux 5.4 or later"),
        errno => anyhow!(errno).context("cannot watch a daemon"),
    }
}

fn open_path(path: &Path) -> anyhow::Result<OwnedFd> {
    let opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    opened.with_context(|| format!("cannot find the program {}", path.display()))
}

/// A running daemon. Dropped, it is killed; one that is held in the kernel is not waited for.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// Readable when it has ended.
    ended: OwnedFd,
    link: OwnedFd,
    /// How far it is.
    pub state: State,
    /// Why it does not start, in its own words.
    pub failure: Option<String>,
    /// When it is killed.
    pub patience: Patience,
    /// Whether it was killed because its time was over.
    pub was_late: bool,
    killed_at: Option<Instant>,
    /// It says nothing more.
    is_silent: bool,
    /// The keeper need not wait for it.
    is_over: bool,
}

impl Daemon {
    /// Starts one; it prepares and then waits for the mount.
    pub fn start(orders: &Orders<'_>) -> anyhow::Result<Self> {
        let (link, theirs) = packets::pair().context("cannot make a link to a daemon")?;
        let mut command = orders.program.command();
        // The link is its standard input: the one descriptor that a child gets by number without unsafe code.
        command.args(["node", "--kept", orders.name]).stdin(theirs).stdout(Stdio::null());
        if std::env::var_os(ARENAS_VARIABLE).is_none() {
            command.env(ARENAS_VARIABLE, ARENAS.to_string());
        }
        let child = command.spawn().with_context(|| format!("cannot run {}", orders.program.path.display()))?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|errno| unwatchable(errno, &rustix::system::uname().release().to_string_lossy()))?;
        let daemon = Self {
            child,
            ended,
            link,
            state: State::Preparing,
            failure: None,
            patience: Patience::new(Instant::now()),
            was_late: false,
            killed_at: None,
            is_silent: false,
            is_over: false,
        };
        let Orders { restarts, replaced, job_is_up, last_death, key, .. } = *orders;
        let keeper_pid = std::process::id();
        let plan = ToDaemon::Plan { keeper_pid, restarts, replaced, layout: LAYOUT, job_is_up, last_death };
        // One that died already is seen as any other that dies.
        let files: Vec<BorrowedFd<'_>> = [Some(orders.plan), key].into_iter().flatten().map(AsFd::as_fd).collect();
        daemon.tell(&plan, &files);
        Ok(daemon)
    }

    /// Its process; `None` when it has ended.
    pub fn process(&self) -> Option<Process> {
        Process::of(self.child.id())
    }

    /// Readable when it says something; `None` when it will not any more.
    pub fn link(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_silent).then(|| self.link.as_fd())
    }

    /// Readable when it has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Its next message; `None` at its end of file, and after a message that could not be understood.
    pub fn hear(&mut self) -> Option<ToKeeper> {
        match packets::receive(self.link.as_fd()) {
            Ok(Some((message, _))) => return Some(message),
            Ok(None) => self.is_silent = true,
            Err(error) => {
                tracing::warn!(%error, "the daemon sent an invalid message");
                self.is_silent = error.kind() != io::ErrorKind::InvalidData;
            }
        }
        None
    }

    /// Why it has ended, in its own words: also those that it said last.
    pub fn take_failure(&mut self) -> Option<String> {
        while self.has_said_more() {
            if let Some(ToKeeper::Failed { message }) = self.hear() {
                self.failure = Some(message);
            }
        }
        self.failure.take()
    }

    fn has_said_more(&self) -> bool {
        let mut polled = [PollFd::new(&self.link, PollFlags::IN)];
        !self.is_silent && matches!(retry_on_intr(|| poll(&mut polled, Some(&Timespec::default()))), Ok(1))
    }

    /// Tells it something. One that cannot be told has died, which shows otherwise.
    pub fn tell(&self, message: &ToDaemon, descriptors: &[BorrowedFd<'_>]) {
        if let Err(error) = packets::send(self.link.as_fd(), message, descriptors) {
            tracing::debug!(%error, "the daemon did not take a message");
        }
    }

    /// Tells it something that ends it, and gives it a time for that.
    pub fn tell_to_end(&mut self, message: &ToDaemon) {
        self.tell(message, &[]);
        self.patience.on_told_to_end(Instant::now());
    }

    /// Kills it if its time is over.
    pub fn kill_if_late(&mut self, now: Instant) {
        if self.patience.is_over(now, self.state == State::Serving) {
            self.kill_late(now);
        }
    }

    fn kill_late(&mut self, now: Instant) {
        tracing::warn!(pid = self.child.id(), state = ?self.state, "a daemon is killed: its time is over");
        self.was_late = true;
        self.killed_at.get_or_insert(now);
        self.kill();
    }

    /// When it is to be taken for held by the kernel if it is still there: it was killed.
    pub fn held_from(&self) -> Option<Instant> {
        self.killed_at.map(|at| at + LAST_GRACE)
    }

    /// Leaves it behind. It is killed, and is gone when the call that holds it returns.
    pub fn abandon(mut self) {
        tracing::warn!(pid = self.child.id(), "the daemon is held by a file system that does not answer");
        self.is_over = true;
    }

    fn kill(&mut self) {
        if let Err(error) = self.child.kill() {
            tracing::warn!(%error, "a daemon cannot be killed");
        }
    }

    /// How it ended, once `ended` is readable.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        self.is_over = true;
        self.child.wait()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
            let mut polled = [PollFd::new(&self.ended, PollFlags::IN)];
            let grace = Timespec::try_from(LAST_GRACE).ok();
            if matches!(retry_on_intr(|| poll(&mut polled, grace.as_ref())), Ok(1)) {
                let _ = self.child.wait();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_too_old_are_named_with_the_one_that_is_needed() {
        let told = |errno| format!("{:#}", unwatchable(errno, "3.10.0-1160.el7"));
        let old = "Linux 3.10.0-1160.el7 cannot watch a process (pidfd_open); views need Linux 5.4 or later";
        assert_eq!(told(Errno::NOSYS), old);
        assert!(told(Errno::MFILE).starts_with("cannot watch a daemon: "), "{}", told(Errno::MFILE));
    }
}
