//! The daemon as its keeper sees it: a child process, a link to it, and a time by which something must have happened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use forebay_launch::Process;
use forebay_types::limits;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::messages::{self, LAYOUT, ToDaemon, ToKeeper};

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

/// What a daemon is started with.
#[derive(Debug)]
pub struct Orders<'a> {
    /// The program; whatever is there now.
    pub program: &'a Path,
    /// What `ps` shows: job and rank.
    pub name: &'a str,
    /// The plan.
    pub plan: &'a OwnedFd,
    /// Deaths before.
    pub restarts: u32,
    /// Replacements before.
    pub replaced: u32,
}

/// A running daemon. Dropped, it is killed.
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
    /// When it is killed unless something has happened.
    pub deadline: Option<Instant>,
    /// Whether it was.
    pub was_late: bool,
    /// It says nothing more.
    is_silent: bool,
    is_reaped: bool,
}

impl Daemon {
    /// Starts one; it prepares and then waits for the mount.
    pub fn start(orders: &Orders<'_>) -> anyhow::Result<Self> {
        let (link, theirs) = messages::pair().context("cannot make a link to a daemon")?;
        let mut command = Command::new(orders.program);
        // The link is its standard input: the one descriptor that a child gets by number without unsafe code.
        command.args(["node", "--kept", orders.name]).stdin(theirs).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot run {}", orders.program.display()))?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch a daemon")?;
        let deadline = Some(Instant::now() + limits::DAEMON_START_DEADLINE);
        let daemon = Self {
            child,
            ended,
            link,
            state: State::Preparing,
            failure: None,
            deadline,
            was_late: false,
            is_silent: false,
            is_reaped: false,
        };
        let (restarts, replaced) = (orders.restarts, orders.replaced);
        let plan = ToDaemon::Plan { keeper_pid: std::process::id(), restarts, replaced, layout: LAYOUT };
        // One that died already is seen as any other that dies.
        daemon.tell(&plan, &[orders.plan.as_fd()]);
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

    /// What it says; `None` when it says nothing more, and what it said could not be understood.
    pub fn hear(&mut self) -> Option<ToKeeper> {
        match messages::receive(self.link.as_fd()) {
            Ok(Some((message, _))) => return Some(message),
            Ok(None) => self.is_silent = true,
            Err(error) => {
                tracing::warn!(%error, "the daemon said something strange");
                self.is_silent = error.kind() != io::ErrorKind::InvalidData;
            }
        }
        None
    }

    /// Tells it something. One that cannot be told has died, which shows otherwise.
    pub fn tell(&self, message: &ToDaemon, descriptors: &[BorrowedFd<'_>]) {
        if let Err(error) = messages::send(self.link.as_fd(), message, descriptors) {
            tracing::debug!(%error, "the daemon was not told");
        }
    }

    /// Tells it something that ends it, and gives it a time for that.
    pub fn tell_to_end(&mut self, message: &ToDaemon) {
        self.tell(message, &[]);
        self.deadline = Some(Instant::now() + limits::DAEMON_END_DEADLINE);
    }

    /// Kills it if its time is over.
    pub fn kill_if_late(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            tracing::warn!(pid = self.child.id(), state = ?self.state, "a daemon is killed: its time is over");
            self.deadline = None;
            self.was_late = true;
            self.kill();
        }
    }

    fn kill(&mut self) {
        if let Err(error) = self.child.kill() {
            tracing::warn!(%error, "a daemon cannot be killed");
        }
    }

    /// How it ended, once `ended` is readable.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        self.is_reaped = true;
        self.child.wait()
    }

    /// The time left until its deadline.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(now))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            let _ = self.child.wait();
        }
    }
}
