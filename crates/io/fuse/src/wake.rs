//! Waking a reader that waits in `read(2)` for a request that may never come.
//!
//! The FUSE protocol has no way to do this on every kernel, and polling before each read would cost two system calls a
//! message for something that happens once. So a signal does it: SIGURG, which is ignored by default and which the
//! kernel sends only to who asked for it, with a handler that does nothing. A handler that somebody else installed
//! stays; unless it restarts system calls it serves as well.

use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::sync::OnceLock;
use std::thread::JoinHandle;

const SIGNAL: libc::c_int = libc::SIGURG;

extern "C" fn ignore(_: libc::c_int) {}

/// Makes the signal interrupt system calls of this process, once.
///
/// # Errors
/// The error of `sigaction(2)`.
pub(crate) fn prepare() -> io::Result<()> {
    static PREPARED: OnceLock<Option<i32>> = OnceLock::new();
    match PREPARED.get_or_init(|| install().err().map(|error| error.raw_os_error().unwrap_or(libc::EIO))) {
        None => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(*number)),
    }
}

fn install() -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction: default handler, empty mask, no flags.
    let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks, into a structure of ours.
    check(unsafe { libc::sigaction(SIGNAL, ptr::null(), &raw mut present) })?;
    if present.sa_sigaction != libc::SIG_DFL && present.sa_sigaction != libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: as above; without SA_RESTART an interrupted read returns EINTR.
    let mut wanted: libc::sigaction = unsafe { std::mem::zeroed() };
    wanted.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing, which is safe at any point of any thread.
    check(unsafe { libc::sigaction(SIGNAL, &raw const wanted, ptr::null_mut()) })
}

/// In a reader: lets the signal through, whatever the thread that started it blocks.
pub(crate) fn accept() {
    // SAFETY: changes the mask of this thread alone, from a set that lives here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGNAL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

/// Interrupts what `thread` waits for. Comes to nothing when it does not wait yet: ask again until it has ended.
pub(crate) fn interrupt(thread: &JoinHandle<()>) {
    // SAFETY: the thread is not joined or detached while its handle exists, so its id is valid, also after its end.
    unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, SIGNAL) };
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
