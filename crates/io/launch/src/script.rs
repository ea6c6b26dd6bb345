//! The script of a job, as a process: the child of the scheduler's own daemon that `up` descends from.
//!
//! PBS and LSF end what they have started. Daemons that came by a remote shell they do not know; those end when the script does.

use std::fs;

use crate::Process;
use crate::allocation::Scheduler;

/// Daemons that start the scripts of jobs.
fn starters(scheduler: Scheduler) -> &'static [&'static str] {
    match scheduler {
        Scheduler::Pbs => &["pbs_mom"],
        Scheduler::Lsf => &["res", "sbatchd"],
        // They start the daemons themselves, and end them.
        Scheduler::Slurm | Scheduler::Flux => &[],
    }
}

/// Generations between `up` and the script: more than programs start each other.
const DEPTH_MAX: usize = 64;

/// The job's script that this process descends from; `None` where there is none, or it is this process.
#[must_use]
pub fn job_script(scheduler: Scheduler) -> Option<Process> {
    let own = std::process::id();
    let found = script(own, starters(scheduler), &of_process)?;
    Process::of(found).filter(|script| script.pid != own)
}

/// The parent and the name of the program of a process.
fn of_process(pid: u32) -> Option<(u32, String)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may hold any character.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    Some((after.split_ascii_whitespace().nth(1)?.parse().ok()?, name))
}

fn script(pid: u32, starters: &[&str], of: &dyn Fn(u32) -> Option<(u32, String)>) -> Option<u32> {
    let mut pid = pid;
    for _ in 0..DEPTH_MAX {
        let (parent, _) = of(pid)?;
        if starters.contains(&of(parent)?.1.as_str()) {
            return Some(pid);
        }
        pid = parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_the_child_of_the_schedulers_daemon() {
        let processes =
            [(9, (8, "forebay")), (8, (7, "bash")), (7, (5, "job.sh")), (5, (1, "pbs_mom")), (1, (0, "init"))];
        let of = |pid| {
            processes.iter().find(|(own, _)| *own == pid).map(|(_, (parent, name))| (*parent, (*name).to_owned()))
        };
        assert_eq!(script(9, starters(Scheduler::Pbs), &of), Some(7));
        assert_eq!(script(9, starters(Scheduler::Lsf), &of), None);
        assert_eq!(script(9, starters(Scheduler::Slurm), &of), None);
    }

    #[test]
    fn a_process_has_a_parent_and_a_name() {
        let (parent, name) = of_process(std::process::id()).unwrap();
        assert_eq!(parent, std::os::unix::process::parent_id());
        assert!(!name.is_empty());
    }
}
