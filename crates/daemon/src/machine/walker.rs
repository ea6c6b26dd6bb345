//! The process beside a daemon that looks at its view (`forebay walk`), so that the kernel knows names before programs
//! ask for them; another one, for a moment, has the kernel send what programs have stored through maps.
//!
//! The kernel learns the names of a mount only from a process that asks for them. The process that serves the mount
//! must never be the one. If it died while it waits for its own answer, nothing could end it any more. No thread waits
//! for the walker but the thread that prefills. When it fails, the kernel asks for names one by one as it would
//! without.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, Extent, ViewPath};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::environment::Walker;
use crate::walk::{DONE, FLUSH, LIST, LOOK, READ, SETTLE};

/// Files of which the kernel is waited for by one process: as many as have room in a pipe, which is a page where the user has many.
const SETTLED_AT_ONCE: usize = 50;

/// The process.
pub struct WalkerProcess {
    /// The descriptor that ends it from another thread.
    process: OwnedFd,
    pid: u32,
    pipes: Mutex<Pipes>,
}

struct Pipes {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl WalkerProcess {
    /// Starts it.
    pub fn start(view: &Path) -> std::io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("walk").arg(view).current_dir("/").process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        let pid = child.id();
        Ok(Self { process, pid, pipes: Mutex::new(Pipes { child, input, output }) })
    }
}

/// Has the kernel send what it has gathered of `mount`, within a time, and waits until it has sent what it has of `files` there.
pub fn flush(mount: &Path, files: &[OsString], time: Duration) -> std::io::Result<()> {
    let deadline = Instant::now() + time;
    let mut asked = vec![vec![FLUSH, 0]];
    for files in files.chunks(SETTLED_AT_ONCE) {
        let settled = files.iter().flat_map(|file| [&[SETTLE], file.as_bytes(), &[0]].concat());
        asked.push(settled.collect());
    }
    let mut outcome = Ok(());
    for asked in asked {
        match flush_by(mount, &asked, deadline) {
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error),
            // A file that cannot be waited for does not end the wait for the rest.
            flushed => outcome = outcome.and(flushed),
        }
    }
    outcome
}

/// The process may wait in the kernel, where nothing ends it but the kernel's answer: it is not waited for after `deadline`.
fn flush_by(mount: &Path, asked: &[u8], deadline: Instant) -> std::io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("walk").arg(mount).current_dir("/").process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    if let Err(error) = end_of_flush(&mut child, asked, deadline) {
        let _ = child.kill();
        // It ends when the kernel has its answer.
        std::thread::Builder::new().name("flushed".to_owned()).spawn(move || child.wait())?;
        return Err(error);
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(std::io::Error::other(format!("the process that flushes: {status}"))) }
}

/// Tells the process what to do, and waits until it ends.
fn end_of_flush(child: &mut Child, asked: &[u8], deadline: Instant) -> std::io::Result<()> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    if let Some(mut input) = child.stdin.take() {
        // A pipe takes it all at once.
        input.write_all(asked)?;
    }
    let mut polled = [PollFd::new(&ended, PollFlags::IN)];
    let timeout = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
    match retry_on_intr(|| poll(&mut polled, timeout.as_ref()))? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

impl Walker for WalkerProcess {
    fn walk(&self, listed: &[ViewPath], looked_up: &[ViewPath]) -> std::io::Result<()> {
        let mut asked = Vec::new();
        let listed = listed.iter().map(|path| (LIST, path));
        for (verb, path) in listed.chain(looked_up.iter().map(|path| (LOOK, path))) {
            asked.push(verb);
            asked.extend_from_slice(path.as_bytes());
            asked.push(0);
        }
        asked.extend_from_slice(&[DONE, 0]);
        // A panic ends the process, so a poisoned lock is never seen.
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.input.write_all(&asked)?;
        pipes.output.read_exact(&mut [0])
    }

    fn read(&self, file: &ViewPath, extent: Extent) -> std::io::Result<Result<(), Errno>> {
        let Extent { offset_bytes, len_bytes } = extent;
        let asked =
            [format!("{}{offset_bytes}:{len_bytes}:", char::from(READ)).as_bytes(), file.as_bytes(), &[0]].concat();
        // A panic ends the process, so a poisoned lock is never seen.
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.input.write_all(&asked)?;
        let mut answer = [0; 5];
        pipes.output.read_exact(&mut answer)?;
        let [_, number @ ..] = answer;
        Ok(match i32::from_le_bytes(number) {
            0 => Ok(()),
            number => Err(Errno::from(number)),
        })
    }

    fn end(&self) {
        // Fails only when it has ended already.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }

    fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for WalkerProcess {
    fn drop(&mut self) {
        // It may be waiting for an answer of the view that never comes, so it is not waited for before it is killed.
        let pipes = self.pipes.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = pipes.child.kill();
        let _ = pipes.child.wait();
    }
}
