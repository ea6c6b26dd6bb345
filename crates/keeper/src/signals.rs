//! The signals that end a node, as something to wait for beside everything else. Daemons start with none of them blocked
//! (the standard library sees to that), so they hear theirs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Lets this process learn how its children end. Whoever started it may ignore `SIGCHLD`, which a program inherits: the kernel
/// then forgets a child when it ends, and nobody can tell a death from an orderly end. The handler does nothing, and children
/// inherit none.
///
/// # Errors
/// What `sigaction(2)` says.
pub fn hear_of_children() -> io::Result<()> {
    signal_hook::flag::register(Signal::SIGCHLD as i32, Arc::default()).map(drop)
}

/// Blocked signals that are read from a descriptor.
pub struct Signals(SignalFd);

impl Signals {
    /// From now on they end nothing by themselves. Call before threads are started.
    pub fn block() -> nix::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
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
