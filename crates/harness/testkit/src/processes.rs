//! Processes of the command: which there are, what they were given, and signals to them.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

/// Live processes that run the program at `path`.
#[must_use]
pub fn running(path: &Path) -> Vec<u32> {
    let runs = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == path);
    live_processes().into_iter().filter(|&pid| runs(pid)).collect()
}

/// The program's name as the kernel shows it; a process that does something else is not looked at any further.
/// Asking for more than the name of just any process can wait for ever, when that one is being executed from a file
/// system that hangs.
pub(crate) const COMM: &str = "forebay";

/// Live processes of the command.
pub(crate) fn live_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let named =
        |pid: &u32| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(COMM.as_bytes()));
    pids.filter(|pid| *pid != std::process::id() && named(pid) && is_alive(*pid)).collect()
}

pub(crate) fn environment(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|&byte| byte == 0).map(|variable| String::from_utf8_lossy(variable).into_owned()).collect()
}

pub(crate) fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Whether any thread of a process is: the first one ends before the others, which still have its files open. A process that has
/// ended and that nobody has waited for is not alive.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.any(|thread| !matches!(stat(&thread.path()).0, None | Some('Z' | 'X')))
}

/// Whether a process is stopped by a signal.
pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(&process(pid)).0 == Some('T')
}

/// Live processes of the command that the process `pid` started.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    live_processes().into_iter().filter(|child| stat(&process(*child)).1 == Some(pid)).collect()
}

fn process(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// The state of a process or thread, and which process started it, as its directory of `/proc` has them.
fn stat(directory: &Path) -> (Option<char>, Option<u32>) {
    let stat = std::fs::read_to_string(directory.join("stat")).unwrap_or_default();
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    (fields.next().and_then(|state| state.chars().next()), fields.next().and_then(|parent| parent.parse().ok()))
}

/// Kills a process.
pub fn kill(pid: u32) {
    send(pid, Signal::KILL);
}

/// Sends a signal to a process; one that has ended gets none.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
