//! Notifications that the kernel may let wait for a request in flight, written by a process of their own.
//!
//! The kernel drops a page, or a name, when no request has it any more: a READ that is in flight, say. It waits for that where no signal ends
//! it. If the daemon itself waited there and was killed, it would stay with all its files until the READ is answered, and only the next
//! daemon can do that, which is started when this one is gone. So a process waits that holds nothing but the connection and its socket.
//!
//! It is started with the first such notification, since most mounts need none: those whose files are neither refreshed nor changed by
//! other nodes. It ends with its socket. If it dies, the daemon starts another, once for each notification. Where none can be started, as at a
//! user's limit of processes, the daemon itself waits.

mod packets;
mod process;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use forebay_types::{Errno, Map};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

pub(crate) use self::packets::NOTIFICATIONS_BYTES_MAX;
pub use self::process::serve;
use crate::descriptor_passing::send_descriptor;

/// How long the process may take to be gone when its session has ended, and again when it was killed: it may have been stopped. If the kernel holds
/// it for longer, it ends with the connection.
const END_GRACE: Duration = Duration::from_secs(1);

/// The program of the process: one that calls [`serve`].
pub(crate) type Program = Box<dyn Fn() -> Command + Send + Sync>;

/// See the module.
pub(crate) struct Invalidator {
    program: Program,
    process: Mutex<State>,
}

enum State {
    /// None is there, since none was needed or the last one has died.
    None,
    Running(Arc<Process>),
    /// The session has ended.
    Ended,
}

/// The process has died: whether the kernel got the notification is not known.
pub(crate) struct Died;

/// Takes the kernel's answer, 0 or the number of an error, on the thread that takes all of them: it may not wait.
pub(crate) type Answered = Box<dyn FnOnce(Result<i32, Died>) + Send>;

impl Invalidator {
    pub(crate) fn new(program: Program) -> Self {
        Self { program, process: Mutex::new(State::None) }
    }

    /// Has notifications written, and waits until the kernel has done what they say: the kernel's answer, 0 or the number of an error. That of
    /// several is ENOENT only if there is no other.
    ///
    /// # Errors
    /// ENODEV after the session's end; else that processes died. The kernel may have done nothing.
    pub(crate) fn send(&self, device: BorrowedFd<'_>, notifications: &[u8]) -> io::Result<i32> {
        if notifications.len() > NOTIFICATIONS_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        for _ in 0..2 {
            let Some(process) = self.running(device)? else { return Ok(process::write_each(device, notifications)) };
            match process.call(notifications) {
                Ok(errno) => return Ok(errno),
                Err(Died) => self.forget(&process),
            }
        }
        Err(io::Error::other("the process that notifies the kernel died, and the next one too"))
    }

    /// Has notifications written, where a process runs that takes them now, and waits for nothing. Else `answered` is given back.
    ///
    /// # Errors
    /// No process runs, or one is being started, or it has more to do than its socket holds.
    pub(crate) fn send_then(&self, notifications: &[u8], answered: Answered) -> Result<(), Answered> {
        let process = match self.process.try_lock().as_deref() {
            Ok(State::Running(process)) => Arc::clone(process),
            _ => return Err(answered),
        };
        process.call_then(notifications, SendFlags::DONTWAIT, answered)
    }

    /// Ends the process. From now on nothing is sent.
    pub(crate) fn end(&self) {
        if let State::Running(process) = std::mem::replace(&mut *self.state(), State::Ended) {
            process.end();
        }
    }

    /// `None` where it cannot be started. The lock is held while it starts: all others need it, too.
    fn running(&self, device: BorrowedFd<'_>) -> io::Result<Option<Arc<Process>>> {
        let mut state = self.state();
        match &*state {
            State::Running(process) => return Ok(Some(Arc::clone(process))),
            State::Ended => return Err(Errno::ENODEV.into()),
            State::None => {}
        }
        match Process::start((self.program)(), device) {
            Ok(process) => {
                *state = State::Running(Arc::clone(&process));
                Ok(Some(process))
            }
            Err(error) => {
                tracing::warn!(%error, "no process can be started to notify the kernel: the daemon cannot end while that waits");
                Ok(None)
            }
        }
    }

    fn forget(&self, died: &Arc<Process>) {
        let mut state = self.state();
        if matches!(&*state, State::Running(process) if Arc::ptr_eq(process, died)) {
            *state = State::None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Invalidator {
    fn drop(&mut self) {
        self.end();
    }
}

struct Process {
    link: OwnedFd,
    process: OnceLock<OwnedFd>,
    calls: Mutex<Calls>,
    gone: Condvar,
}

#[derive(Default)]
struct Calls {
    last: u64,
    waiting: Map<u64, Answered>,
    /// No call is answered any more.
    is_over: bool,
    /// It has ended and was waited for.
    is_gone: bool,
}

impl Process {
    fn start(mut command: Command, device: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        let (link, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        send_descriptor(link.as_fd(), device)?;
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let process = Arc::new(Self { link, process: OnceLock::new(), calls: Mutex::default(), gone: Condvar::new() });
        let (sender, started) = mpsc::sync_channel(1);
        let of_thread = Arc::clone(&process);
        let take_answers = move || {
            let child = command.spawn();
            // It has a copy of that end of the socket.
            drop(command);
            let (child, outcome) = child.map_or_else(|error| (None, Err(error)), |child| (Some(child), Ok(())));
            let process = child.as_ref().and_then(|child| pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok());
            process.into_iter().for_each(|process| drop(of_thread.process.set(process)));
            // It waits.
            let _ = sender.send(outcome);
            child.into_iter().for_each(|child| of_thread.take_answers(child));
        };
        thread::Builder::new().name("pages-answers".to_owned()).spawn(take_answers)?;
        started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(process)
    }

    /// The kernel's answer to notifications: 0 or the number of an error.
    fn call(&self, notifications: &[u8]) -> Result<i32, Died> {
        let (sender, answer) = mpsc::sync_channel(1);
        // It waits.
        let answered = Box::new(move |outcome| drop(sender.send(outcome)));
        self.call_then(notifications, SendFlags::empty(), answered).map_err(|_| Died)?;
        answer.recv().unwrap_or(Err(Died))
    }

    /// If the process cannot be sent them, `answered` is given back.
    fn call_then(&self, notifications: &[u8], flags: SendFlags, answered: Answered) -> Result<(), Answered> {
        let number = {
            let mut calls = self.calls();
            if calls.is_over {
                return Err(answered);
            }
            calls.last += 1;
            let number = calls.last;
            calls.waiting.insert(number, answered);
            number
        };
        match packets::send(self.link.as_fd(), number, notifications, flags) {
            Ok(()) => Ok(()),
            // If the process has died meanwhile, that has been answered.
            Err(_) => self.calls().waiting.remove(&number).map_or(Ok(()), Err),
        }
    }

    /// Until the process has ended.
    fn take_answers(&self, mut child: Child) {
        let mut errno = [0; size_of::<i32>()];
        while let Ok(Some((number, len))) = packets::receive(self.link.as_fd(), &mut errno) {
            let waiting = self.calls().waiting.remove(&number);
            if let Some(answered) = waiting {
                answered(if len == errno.len() { Ok(i32::from_ne_bytes(errno)) } else { Err(Died) });
            }
        }
        let unanswered = {
            let mut calls = self.calls();
            calls.is_over = true;
            std::mem::take(&mut calls.waiting)
        };
        unanswered.into_values().for_each(|answered| answered(Err(Died)));
        // It closes its socket when it ends.
        if let Err(error) = child.wait() {
            tracing::warn!(%error, "the process that notifies the kernel was not waited for");
        }
        self.calls().is_gone = true;
        self.gone.notify_all();
    }

    fn end(&self) {
        // Fails only when it has ended already.
        let _ = shutdown(&self.link, Shutdown::Both);
        if self.is_gone_in_time() {
            return;
        }
        if let Some(process) = self.process.get() {
            // Fails when it is gone.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        if !self.is_gone_in_time() {
            tracing::warn!("the kernel holds the process that notifies it until a request is answered");
        }
    }

    fn is_gone_in_time(&self) -> bool {
        let not_gone = |calls: &mut Calls| !calls.is_gone;
        let waited = self.gone.wait_timeout_while(self.calls(), END_GRACE, not_gone);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
