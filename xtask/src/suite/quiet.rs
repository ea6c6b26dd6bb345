//! Waiting until other work on the machine leaves the processors to a test that measures.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The processors count as quiet when others use at most this part of them.
const BUSY_MAX: f64 = 0.25;

/// How long is looked at a time.
const LOOK: Duration = Duration::from_millis(300);

/// How long a whole run waits for quiet: on a machine that never is, such tests run as it is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for quiet, for at most `left`, which the wait is taken from, and not once `is_ending`. Whether it came.
pub fn wait(left: &mut Duration, is_ending: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        let is_quiet = busy_share().is_none_or(|share| share <= BUSY_MAX);
        let is_over = start.elapsed() >= *left || is_ending();
        if is_quiet || is_over {
            *left = left.saturating_sub(start.elapsed());
            return is_quiet;
        }
    }
}

/// The part of the processors' time that is used, over a moment; none where the kernel does not say.
fn busy_share() -> Option<f64> {
    let before = times(&fs::read_to_string("/proc/stat").ok()?)?;
    thread::sleep(LOOK);
    let after = times(&fs::read_to_string("/proc/stat").ok()?)?;
    let (busy, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    (all > 0).then(|| busy as f64 / all as f64)
}

/// Used and all time of all processors, in ticks: `cpu user nice system idle iowait irq softirq steal ...`.
fn times(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
    let all = ticks.iter().sum();
    (ticks.len() >= 5).then(|| (all - ticks[3] - ticks[4], all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_time_is_all_but_idle_and_waiting_for_disks() {
        assert_eq!(times("cpu  10 1 5 100 20 1 2 3 7 0\ncpu0 1 2 3\n"), Some((22, 142)));
        assert_eq!(times(""), None);
    }

    #[test]
    fn patience_that_is_used_up_waits_no_longer() {
        let mut left = Duration::ZERO;
        let start = Instant::now();
        let _ = wait(&mut left, || false);
        assert!(start.elapsed() < Duration::from_secs(30) && left.is_zero());
        left = PATIENCE;
        let _ = wait(&mut left, || true);
        assert!(start.elapsed() < Duration::from_secs(30) && !left.is_zero());
    }
}
