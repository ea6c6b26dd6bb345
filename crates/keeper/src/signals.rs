//! The signals that end a node, as something to wait for beside everything else. A daemon begins with them blocked, as its
//! keeper has them, and hears them once it can end in order.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Lets this process learn how its children end. Its starter may ignore `SIGCHLD`, which a program inherits. The kernel
/// then forgets a child when it ends, and a death looks like an orderly end. The handler does nothing, and children
/// inherit none.
///
/// # Errors
/// The error of `sigaction(2)`.
pub fn hear_of_children() -> io::Result<()> {
    signal_hook::flag::register(Signal::SIGCHLD as i32, Arc::default()).map(drop)
}

/// The signals that end a node.
const ENDING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// Lets this thread of a daemon, and those that it starts, hear the signals that end a node.
///
/// # Errors
/// The error of `pthread_sigmask(3)`.
pub fn hear_endings() -> io::Result<()> {
    Ok(SigSet::from_iter(ENDING).thread_unblock()?)
}

/// Puts the signals that end a node off: until a keeper reads them, no signal ends this thread's process. For what is made before
/// a record says so.
///
/// # Errors
/// The error of `pthread_sigmask(3)`.
pub fn put_endings_off() -> io::Result<()> {
    Ok(SigSet::from_iter(ENDING).thread_block()?)
}

/// Blocked signals that are read from a descriptor.
pub struct Signals(SignalFd);

impl Signals {
    /// From now on they end no process on their own. Call before threads are started.
    pub fn block() -> nix::Result<Self> {
        let signals = SigSet::from_iter(ENDING);
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// Readable when one has come.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes those that have come; `false` when there were none.
    pub fn take(&self) -> bool {
        let mut came = false;
        while let Ok(Some(_)) = self.0.read_signal() {
            came = true;
        }
        came
    }
}
