//! The process that writes notifications for a daemon: [`serve`] is its whole life.
//!
//! It takes messages from the socket that it was started with, and from nowhere else.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::io::retry_on_intr;
use rustix::net::SendFlags;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::packets::{self, NOTIFICATIONS_BYTES_MAX};
use crate::descriptor_passing::receive_descriptor;

/// Threads, and so notifications that the kernel lets wait at the same time: more files than other nodes change on one node while programs
/// there read them for long. Those beyond wait for one of these.
const THREADS_MAX: usize = 64;

/// A thread's stack, bytes: nothing large is on it.
const STACK_BYTES: usize = 64 << 10;

/// Writes notifications until the daemon ends, whose socket is the standard input. It is killed then, also where it was stopped, so that it holds
/// the connection no longer than the kernel holds it.
///
/// # Errors
/// When standard input is something else.
pub fn serve() -> io::Result<()> {
    // The thread that starts it waits for it, and so ends with the daemon alone.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    hold_nothing()?;
    block_signals();
    let link = std::io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let device = receive_descriptor(link.as_fd())?;
    let (idle, threads) = (AtomicUsize::new(0), AtomicUsize::new(1));
    Arc::new(Writer { link, device, idle, threads }).serve();
    Ok(())
}

struct Writer {
    link: OwnedFd,
    device: OwnedFd,
    /// Threads that wait for a message.
    idle: AtomicUsize,
    threads: AtomicUsize,
}

impl Writer {
    fn serve(self: &Arc<Self>) {
        let mut notifications = vec![0; NOTIFICATIONS_BYTES_MAX];
        loop {
            self.idle.fetch_add(1, Ordering::SeqCst);
            let received = packets::receive(self.link.as_fd(), &mut notifications);
            let was_last = self.idle.fetch_sub(1, Ordering::SeqCst) == 1;
            let Ok(Some((number, len))) = received else { return };
            if was_last {
                self.add_thread();
            }
            let answer = write_each(self.device.as_fd(), &notifications[..len]);
            if packets::send(self.link.as_fd(), number, &answer.to_ne_bytes(), SendFlags::empty()).is_err() {
                return;
            }
        }
    }

    /// One that waits for the next message; where there can be none, those that there are take it.
    fn add_thread(self: &Arc<Self>) {
        if self.threads.fetch_add(1, Ordering::SeqCst) < THREADS_MAX {
            let writer = Arc::clone(self);
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            if thread.spawn(move || writer.serve()).is_ok() {
                return;
            }
        }
        self.threads.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Writes notifications, where the kernel may let each wait. Its answer: 0 or the number of an error, of several the one that says most: that
/// something is unknown says least.
pub(super) fn write_each(device: BorrowedFd<'_>, mut notifications: &[u8]) -> i32 {
    let mut answer = 0;
    while let Some(head) = notifications.first_chunk() {
        let len = (u32::from_ne_bytes(*head) as usize).max(head.len());
        let Some((notification, rest)) = notifications.split_at_checked(len) else { return libc::EINVAL };
        notifications = rest;
        if let Err(error) = retry_on_intr(|| rustix::io::write(device, notification))
            && matches!(answer, 0 | libc::ENOENT)
        {
            answer = error.raw_os_error();
        }
    }
    answer
}

/// Closes all descriptors but the first three, whatever was inherited.
fn hold_nothing() -> io::Result<()> {
    // SAFETY: no code of this process has a descriptor yet beyond the first three.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Before Linux 5.9. Programs start others with descriptors that are closed then.
            error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            error => Err(error),
        },
    }
}

/// The end of its socket alone ends it: a signal to a whole group of processes is meant for the daemon.
fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is written first, then read; both calls only fail on invalid arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}
