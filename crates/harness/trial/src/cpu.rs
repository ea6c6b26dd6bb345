//! Processor time, user and system together.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// Of all child processes that have ended and been waited for, and of theirs.
///
/// # Errors
/// When the kernel does not tell.
pub fn of_children() -> anyhow::Result<Duration> {
    Ok(total(&getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?))
}

/// Of this process, all its threads together.
///
/// # Errors
/// When the kernel does not tell.
pub fn of_this() -> anyhow::Result<Duration> {
    Ok(total(&getrusage(UsageWho::RUSAGE_SELF).context("getrusage")?))
}

fn total(usage: &Usage) -> Duration {
    let micros = |time: TimeVal| Duration::from_micros(time.num_microseconds().unsigned_abs());
    micros(usage.user_time()) + micros(usage.system_time())
}

/// Of a process that runs, in steps of the clock tick (10 ms); `None` when it is gone.
#[must_use]
pub fn of_process(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold spaces: count the fields behind it (proc(5): utime is 14, stime 15).
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Of the running children of a process.
#[must_use]
pub fn of_children_of(pid: u32) -> Duration {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |child: &u32| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // proc(5): the parent is the second field behind the name.
        stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(1)?.parse().ok()) == Some(pid)
    };
    pids.filter(is_child).filter_map(of_process).sum()
}

/// Of the whole machine since it started, all processors together: what is not idle, waiting or stolen.
///
/// # Errors
/// When the kernel does not tell.
pub fn of_machine() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // proc(5): user, nice, system, idle, iowait, irq, softirq, steal.
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|field| ticks.get(*field)).sum();
    Ok(Duration::from_secs_f64(busy as f64 / rustix::param::clock_ticks_per_second() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_is_seen_to_have_worked() {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while of_process(std::process::id()).unwrap() < Duration::from_millis(10) {
            assert!(std::time::Instant::now() < deadline, "a minute of work is not seen");
        }
        assert_eq!(of_process(u32::MAX), None);
        assert!(of_machine().unwrap() > Duration::ZERO);
        assert!(of_children_of(std::os::unix::process::parent_id()) >= Duration::from_millis(10));
    }
}
