//! Whether a task is being killed, as `/proc` tells.

use rustix::process::Signal;

const KILL: u64 = bit(Signal::KILL);

/// Signals that end no program, whatever it does about them: they do nothing by default, or stop it.
const HARMLESS: u64 = bit(Signal::CHILD)
    | bit(Signal::CONT)
    | bit(Signal::STOP)
    | bit(Signal::TSTP)
    | bit(Signal::TTIN)
    | bit(Signal::TTOU)
    | bit(Signal::URG)
    | bit(Signal::WINCH);

/// The bit of a signal in a mask of `/proc`.
const fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Whether a task has a signal pending that ends it. One that cannot be seen has none.
pub fn is_being_killed(tid: u32) -> bool {
    // The program's name, which is in it, need not be text.
    std::fs::read(format!("/proc/{tid}/status")).is_ok_and(|status| tells_of_end(&String::from_utf8_lossy(&status)))
}

/// Whether a task has a signal pending that it does not block. One that cannot be seen has none.
pub fn is_pending(tid: u32) -> bool {
    std::fs::read(format!("/proc/{tid}/status")).is_ok_and(|status| {
        let status = String::from_utf8_lossy(&status);
        (mask(&status, "SigPnd") | mask(&status, "ShdPnd")) & !mask(&status, "SigBlk") != 0
    })
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn mask(status: &str, name: &str) -> u64 {
    field(status, name).and_then(|value| u64::from_str_radix(value, 16).ok()).unwrap_or(0)
}

/// Whether it is being killed, of the text in `/proc/TID/status` (proc_pid_status(5)). Of a signal that ends a program the kernel makes
/// `SIGKILL`, but not while another one is pending, and not when it is to dump core.
fn tells_of_end(status: &str) -> bool {
    let mask = |name| mask(status, name);
    let pending = mask("SigPnd") | mask("ShdPnd");
    let dealt_with = mask("SigBlk") | mask("SigIgn") | mask("SigCgt") | HARMLESS;
    // A debugger decides which signals it lets through.
    let is_traced = field(status, "TracerPid").is_some_and(|tracer| tracer != "0");
    let ends = if is_traced { KILL } else { KILL | !dealt_with };
    pending & ends != 0
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::{Pid, WaitOptions, kill_process, waitpid};

    use super::*;

    fn status(own: u64, shared: u64, [blocked, ignored, caught]: [u64; 3]) -> String {
        format!(
            "Name:\tprogram\nTracerPid:\t0\nSigQ:\t0/1\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
             SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\nCapInh:\t0000000000000000\n"
        )
    }

    #[test]
    fn only_a_signal_that_ends_the_program_counts() {
        assert!(!tells_of_end(""));
        assert!(!tells_of_end(&status(0, 0, [0; 3])));
        assert!(tells_of_end(&status(KILL, 0, [0; 3])));
        assert!(tells_of_end(&status(0, KILL, [0; 3])));
        let [alarm, quit] = [bit(Signal::ALARM), bit(Signal::QUIT)];
        assert!(tells_of_end(&status(0, alarm | quit, [0, 0, alarm])), "the one that it does nothing about");
        for dealt_with in [[quit, 0, 0], [0, quit, 0], [0, 0, quit]] {
            assert!(!tells_of_end(&status(0, quit, dealt_with)), "{dealt_with:?}");
        }
        assert!(!tells_of_end(&status(0, bit(Signal::CHILD) | bit(Signal::TSTP), [0; 3])));
    }

    #[test]
    fn a_debugger_may_keep_any_signal_but_one() {
        let traced = |pending| status(pending, 0, [0; 3]).replace("TracerPid:\t0", "TracerPid:\t17");
        assert!(!tells_of_end(&traced(bit(Signal::INT))));
        assert!(tells_of_end(&traced(KILL)));
    }

    #[test]
    fn a_task_that_cannot_be_seen_goes_on() {
        assert!(!is_being_killed(0));
        assert!(!is_being_killed(std::process::id()));
    }

    #[test]
    fn a_program_may_have_any_name() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(OsStr::from_bytes(b"w\xff"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut sleeper = Command::new(&program).arg0("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&sleeper);
        kill_process(pid, Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let is_being_killed = is_being_killed(sleeper.id());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(is_being_killed);
    }
}
