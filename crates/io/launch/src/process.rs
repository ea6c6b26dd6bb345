//! Processes that may be gone, and whose numbers may have been given to others since.
//!
//! A process is known by its number and its start time; a signal goes through a descriptor of the process that is
//! opened before the start time is compared, so that it can never reach somebody else.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// How long a process may take to die of SIGKILL: it may have to leave a system call first.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// A process of this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, clock ticks since the machine's start (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
}

/// Where the numbers of processes mean the same: a host since it was started, or a container on it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ProcessSpace(String);

impl ProcessSpace {
    /// That of this process.
    #[must_use]
    pub fn of_this() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self(format!("{} {}", boot.trim(), space.display()))
    }
}

impl Process {
    /// The process with that number now; `None` when there is none, or only a zombie.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = read_lossy(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
        // The command stands in parentheses and may hold any character; what counts comes after the last one.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let thread_count: u32 = fields.nth(16)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        // While another thread waits in the kernel, for a file system that hangs, the first one alone is a zombie.
        let has_ended = matches!(state, "Z" | "X") && thread_count <= 1;
        (!has_ended).then_some(Self { pid, start_ticks })
    }

    /// This process.
    #[must_use]
    pub fn this() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or(Self { pid, start_ticks: 0 })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Whether one of its threads is in a call that no signal ends.
    #[must_use]
    pub fn waits_in_kernel(self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        // Not `stat`, which may wait for what the thread waits for.
        let waits = |thread: fs::DirEntry| {
            let status = read_lossy(&thread.path().join("status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("State:\tD"))
        };
        self.is_alive() && threads.into_iter().any(waits)
    }

    /// A descriptor of the process, readable when it has ended; `None` when it has ended already.
    #[must_use]
    pub fn descriptor(self) -> Option<OwnedFd> {
        self.open()
    }

    fn open(self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(descriptor)
    }
}

/// The text of a file about a process. The name in it may be any bytes: the kernel cuts a program's off after 15 of them.
fn read_lossy(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// Waits until all of `processes` have ended, until `deadline` at most; those that have not are returned.
#[must_use]
pub fn wait_for_end(processes: &[Process], deadline: Instant) -> Vec<Process> {
    let open = processes.iter().filter_map(|process| Some((*process, process.open()?))).collect();
    wait_open(open, deadline).into_iter().map(|(process, _)| process).collect()
}

fn wait_open(mut open: Vec<(Process, OwnedFd)>, deadline: Instant) -> Vec<(Process, OwnedFd)> {
    while let Some((_, descriptor)) = open.last() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut poll_fds = [PollFd::new(descriptor, PollFlags::IN)];
        match poll(&mut poll_fds, Some(&timeout)) {
            Ok(0) => {
                // Out of time: the others may have ended meanwhile.
                open.retain(|(process, _)| process.is_alive());
                return open;
            }
            Ok(_) => drop(open.pop()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return open,
        }
    }
    open
}

/// Processes that did not end when they were asked to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Forced {
    /// Those that were killed.
    pub killed: Vec<Process>,
    /// Those among them that are still there: a call of the system holds them, for a file system that does not answer.
    pub held: Vec<Process>,
}

/// Asks `processes` to end (SIGTERM, and SIGCONT: a stopped one would not hear of it), and after `grace` makes them
/// (SIGKILL).
pub fn end_all(processes: &[Process], grace: Duration) -> Forced {
    let open: Vec<(Process, OwnedFd)> =
        processes.iter().filter_map(|process| Some((*process, process.open()?))).collect();
    signal_all(&open, Signal::TERM);
    signal_all(&open, Signal::CONT);
    let left = wait_open(open, Instant::now() + grace);
    signal_all(&left, Signal::KILL);
    let killed = left.iter().map(|(process, _)| *process).collect();
    let held = wait_open(left, Instant::now() + KILL_WAIT).into_iter().map(|(process, _)| process).collect();
    Forced { killed, held }
}

fn signal_all(open: &[(Process, OwnedFd)], signal: Signal) {
    for (process, descriptor) in open {
        if let Err(errno) = pidfd_send_signal(descriptor, signal) {
            tracing::debug!(pid = process.pid, %errno, "no signal sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// Reaps the child in the background, as init does for daemons.
    fn reaped(mut child: Child) -> Process {
        let process = Process::of(child.id()).unwrap();
        std::thread::spawn(move || child.wait());
        process
    }

    #[test]
    fn this_process_is_alive_and_a_namesake_is_not() {
        let this = Process::this();
        assert!(this.is_alive());
        assert!(!Process { start_ticks: this.start_ticks + 1, ..this }.is_alive());
    }

    #[test]
    fn a_program_whose_name_is_cut_off_within_a_letter_is_alive() {
        let temporary = tempfile::tempdir().unwrap();
        let program = temporary.path().join("fourteen-bytesé");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let child = Command::new(&program).arg("60").spawn().unwrap();
        // The kernel lets us go on before it has given the child its new name.
        let name = || String::from_utf8(fs::read(format!("/proc/{}/comm", child.id())).unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        while name().is_ok() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(name().is_err());
        let process = reaped(child);
        assert!(process.is_alive() && !process.waits_in_kernel());
        end_all(&[process], Duration::from_secs(10));
    }

    #[test]
    fn processes_end_when_asked() {
        let sleepers: Vec<Process> = (0..3).map(|_| reaped(Command::new("sleep").arg("60").spawn().unwrap())).collect();
        assert_eq!(wait_for_end(&sleepers, Instant::now()).len(), 3);
        assert_eq!(end_all(&sleepers, Duration::from_secs(10)), Forced::default());
        assert!(sleepers.iter().all(|process| !process.is_alive()));
    }

    #[test]
    fn a_stopped_process_ends_in_order() {
        let stopped = reaped(Command::new("sleep").arg("60").spawn().unwrap());
        signal_all(&[(stopped, stopped.open().unwrap())], Signal::STOP);
        assert_eq!(end_all(&[stopped], Duration::from_secs(10)), Forced::default(), "it did not have to be killed");
        assert!(!stopped.is_alive());
    }

    #[test]
    fn a_deaf_process_is_killed_and_named() {
        let mut command = Command::new("sh");
        let mut child = command
            .args(["-c", "trap '' TERM; echo deaf; while :; do sleep 60; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut heard = [0; 4];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut heard).unwrap();
        let process = reaped(child);
        let forced = end_all(&[process], Duration::from_millis(50));
        assert_eq!(forced, Forced { killed: vec![process], held: vec![] });
        assert!(!process.is_alive());
    }

    #[test]
    fn a_namesake_gets_no_signal() {
        let process = reaped(Command::new("sleep").arg("60").spawn().unwrap());
        let namesake = Process { start_ticks: process.start_ticks + 1, ..process };
        assert_eq!(end_all(&[namesake], Duration::from_secs(1)), Forced::default());
        assert!(process.is_alive());
        end_all(&[process], Duration::from_secs(10));
    }
}
