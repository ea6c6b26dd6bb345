//! The part of this machine's memory that a node takes, and the machine's names.

/// Memory for caches: a tenth of the node's, at most this, bytes (option `--budget`).
const BUDGET_BYTES_MAX: u64 = 4 << 30;

/// The default budget is this part of the memory.
const BUDGET_PART: u64 = 10;

/// The budget of each of `nodes_here` nodes that share `memory_bytes` and were given none, bytes.
pub fn default_budget_bytes(memory_bytes: u64, nodes_here: u64) -> u64 {
    let all = (memory_bytes / BUDGET_PART).min(BUDGET_BYTES_MAX);
    (all / nodes_here.max(1)).max(forebay_daemon::limits::BUDGET_BYTES_MIN)
}

/// The name of a user, where this host's own file has it; else the number.
pub fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_line = |line: &str| -> Option<String> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    users.lines().find_map(of_line).unwrap_or_else(|| uid.to_string())
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
    fn users_have_names_or_numbers() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_000), "4000000000");
    }

    #[test]
    fn the_budget_is_a_tenth_shared_and_bounded() {
        assert_eq!(default_budget_bytes(20 << 30, 1), 2 << 30);
        assert_eq!(default_budget_bytes(20 << 30, 4), 512 << 20);
        assert_eq!(default_budget_bytes(1 << 40, 1), BUDGET_BYTES_MAX);
        assert_eq!(default_budget_bytes(0, 0), forebay_daemon::limits::BUDGET_BYTES_MIN);
    }
}
