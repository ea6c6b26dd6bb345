//! What this machine has: memory, its name.

use std::fs;

/// Memory for caches: a tenth of the node's, at most this, bytes (option `--budget`).
const BUDGET_BYTES_MAX: u64 = 4 << 30;

/// The default budget is this part of the memory.
const BUDGET_PART: u64 = 10;

/// Memory that this process may use, bytes: the machine's, or less where a control group says so (a scheduler's
/// allocation of part of a node, a container). 0 when it cannot be told.
pub fn memory_bytes() -> u64 {
    let total = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text)).unwrap_or(0);
    control_group_bytes().map_or(total, |limit| limit.min(total))
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least limit of this process's control group (version 2) and those above it.
fn control_group_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = std::path::Path::new("/sys/fs/cgroup");
    let limit = |path: &std::path::Path| {
        let limit = fs::read_to_string(path.join("memory.max")).ok()?;
        limit.trim().parse::<u64>().ok()
    };
    root.join(group).ancestors().take_while(|path| path.starts_with(root)).filter_map(limit).min()
}

/// The budget of each of `nodes_here` nodes that share `memory_bytes` and were given none, bytes.
pub fn default_budget_bytes(memory_bytes: u64, nodes_here: u64) -> u64 {
    let all = (memory_bytes / BUDGET_PART).min(BUDGET_BYTES_MAX);
    (all / nodes_here.max(1)).max(forebay_daemon::limits::BUDGET_BYTES_MIN)
}

/// The names by which this host may be listed: Slurm's for the node, the host name, and that without its domain.
pub fn host_names() -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let short = host.split('.').next().unwrap_or_default().to_owned();
    let mut names: Vec<String> = std::env::var("SLURMD_NODENAME").ok().into_iter().chain([host, short]).collect();
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_tenth_shared_and_bounded() {
        assert_eq!(default_budget_bytes(20 << 30, 1), 2 << 30);
        assert_eq!(default_budget_bytes(20 << 30, 4), 512 << 20);
        assert_eq!(default_budget_bytes(1 << 40, 1), BUDGET_BYTES_MAX);
        assert_eq!(default_budget_bytes(0, 0), forebay_daemon::limits::BUDGET_BYTES_MIN);
    }

    #[test]
    fn memory_is_read() {
        assert_eq!(total_of("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16384));
        assert_eq!(total_of("nothing"), None);
        assert!(memory_bytes() > 0);
    }
}
