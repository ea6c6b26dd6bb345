//! Memory that becomes scarce: the daemon gives its caches up before the kernel takes the daemon.
//!
//! Whenever some MiB have arrived, and every second, it looks at the room that is left, in the machine and in every control group that the daemon is in
//! (version 1 and 2). Below a reserve the caches may hold half of what they hold; each time there is ample room again
//! they may hold twice as much, up to their budget. Files that cannot be read are no limit.
//!
//! The budget is for all that a node holds of the exports: chunks that have left the caches while they are on their way to a
//! slow node, and what is read of a pack before it is asked for, leave the caches so much less.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_body::LiveBytes;
use forebay_cache::ObjectKind;

use super::core::Core;

use crate::limits;

/// How much may arrive before it is looked again: looking takes some 50 us, and a fast network brings this in 10 ms.
const LOOK_AFTER_BYTES: u64 = 16 << 20;

/// What is held beside the caches is known to them to one part in so many of the budget: each change makes them look at all
/// that they keep.
const ASIDE_STEPS: u64 = 32;

/// The room that is kept free: an eighth of what there is, at most this, bytes.
const RESERVE_BYTES_MAX: u64 = 512 << 20;
const RESERVE_SHARE: u64 = 8;

/// Looks after the memory.
pub struct Pressure {
    core: Arc<Core>,
    budget_bytes: u64,
    limits: Limits,
    arrived_bytes: AtomicU64,
}

impl Pressure {
    pub fn new(core: &Arc<Core>, budget_bytes: u64) -> Arc<Self> {
        let limits = Limits::of_this_process();
        Arc::new(Self { core: Arc::clone(core), budget_bytes, limits, arrived_bytes: AtomicU64::new(0) })
    }

    /// Looks what is held beside the caches, and at the memory when enough has arrived.
    pub fn on_arrival(&self, bytes: usize) {
        self.set_aside();
        let arrived = self.arrived_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if arrived + bytes as u64 >= LOOK_AFTER_BYTES {
            self.look();
        }
    }

    fn set_aside(&self) {
        let step_bytes = (self.budget_bytes / ASIDE_STEPS).max(1);
        let mut core = self.core.lock();
        let beside_bytes = LiveBytes::total().saturating_sub(core.kept(ObjectKind::Chunks).bytes);
        core.set_aside(beside_bytes.next_multiple_of(step_bytes));
    }

    /// Looks now.
    pub fn look(&self) {
        self.set_aside();
        self.arrived_bytes.store(0, Ordering::Relaxed);
        let Some(room) = self.limits.room() else { return };
        let mut core = self.core.lock();
        let (now_bytes, kept_bytes) = (core.allowed_bytes(), core.kept_bytes());
        let next_bytes = next_allowance(room, now_bytes, kept_bytes, self.budget_bytes);
        if next_bytes != now_bytes {
            core.allow_bytes(next_bytes);
            drop(core);
            tracing::info!(next_bytes, room_bytes = room.left_bytes, "memory: the caches may hold another amount");
        }
    }
}

/// What the caches may hold next.
fn next_allowance(room: Room, now_bytes: u64, kept_bytes: u64, budget_bytes: u64) -> u64 {
    let reserve_bytes = (room.all_bytes / RESERVE_SHARE).min(RESERVE_BYTES_MAX);
    let least_bytes = limits::BUDGET_BYTES_MIN.min(budget_bytes);
    if room.left_bytes < reserve_bytes {
        (kept_bytes.min(now_bytes) / 2).clamp(least_bytes, now_bytes.max(least_bytes))
    } else if room.left_bytes > 4 * reserve_bytes {
        now_bytes.saturating_mul(2).min(budget_bytes)
    } else {
        now_bytes
    }
}

/// The tightest limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    all_bytes: u64,
    left_bytes: u64,
}

/// Where limits are read.
struct Limits {
    meminfo: PathBuf,
    groups: Vec<Group>,
}

/// A control group's files.
struct Group {
    limit: PathBuf,
    usage: PathBuf,
    statistics: PathBuf,
    /// What it calls page cache that can be taken at once.
    reclaimable: &'static str,
}

impl Limits {
    fn of_this_process() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self { meminfo: "/proc/meminfo".into(), groups: groups(&own, Path::new("/sys/fs/cgroup")) }
    }

    fn room(&self) -> Option<Room> {
        let machine = fs::read_to_string(&self.meminfo).ok().and_then(|text| machine_room(&text));
        self.groups.iter().filter_map(Group::room).chain(machine).min_by_key(|room| room.left_bytes)
    }
}

/// The groups of `own` (the text of `/proc/self/cgroup`) and those around them.
fn groups(own: &str, mounted: &Path) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let is_memory = controllers.split(',').any(|controller| controller == "memory");
        for path in Path::new(path.trim_start_matches('/')).ancestors() {
            if is_memory {
                let at = mounted.join("memory").join(path);
                let [limit, usage, statistics] =
                    ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"].map(|file| at.join(file));
                groups.push(Group { limit, usage, statistics, reclaimable: "total_inactive_file" });
            } else if controllers.is_empty() {
                let at = mounted.join(path);
                let [limit, usage, statistics] =
                    ["memory.max", "memory.current", "memory.stat"].map(|file| at.join(file));
                groups.push(Group { limit, usage, statistics, reclaimable: "inactive_file" });
            }
        }
    }
    groups.retain(|group| group.room().is_some());
    groups
}

impl Group {
    /// `None` for a group without a limit.
    fn room(&self) -> Option<Room> {
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        // Version 1 says "no limit" by a number near the largest; version 2 by a word.
        let all_bytes = number(&self.limit).filter(|bytes| *bytes < 1 << 60)?;
        let statistics = fs::read_to_string(&self.statistics).unwrap_or_default();
        let reclaimable = statistics.lines().find_map(|line| line.strip_prefix(self.reclaimable));
        let reclaimable_bytes = reclaimable.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0);
        let used_bytes = number(&self.usage)?.saturating_sub(reclaimable_bytes);
        Some(Room { all_bytes, left_bytes: all_bytes.saturating_sub(used_bytes) })
    }
}

fn machine_room(meminfo: &str) -> Option<Room> {
    let field = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Some(Room { all_bytes: field("MemTotal:")?, left_bytes: field("MemAvailable:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_caches_shrink_in_need_and_grow_back_to_their_budget() {
        let room = |left_mib: u64| Room { all_bytes: 1024 * MIB, left_bytes: left_mib * MIB };
        let budget = 400 * MIB;
        assert_eq!(next_allowance(room(600), budget, 10 * MIB, budget), budget);
        assert_eq!(next_allowance(room(120), budget, 300 * MIB, budget), 150 * MIB);
        assert_eq!(next_allowance(room(200), 150 * MIB, 140 * MIB, budget), 150 * MIB, "neither scarce nor ample");
        assert_eq!(next_allowance(room(10), 20 * MIB, 20 * MIB, budget), limits::BUDGET_BYTES_MIN);
        assert_eq!(next_allowance(room(10), limits::BUDGET_BYTES_MIN, 0, budget), limits::BUDGET_BYTES_MIN);
        assert_eq!(next_allowance(room(600), 250 * MIB, 0, budget), budget);
    }

    #[test]
    fn the_tightest_limit_counts() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("memory/job/step/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/job/step/memory.usage_in_bytes", "1\n");
        write("memory/job/memory.limit_in_bytes", "1000\n");
        write("memory/job/memory.usage_in_bytes", "900\n");
        write("memory/job/memory.stat", "inactive_file 5\ntotal_inactive_file 300\n");
        write("unified/memory.max", "max\n");
        write("user/memory.max", "5000\n");
        write("user/memory.current", "4000\n");
        write("user/memory.stat", "anon 1\ninactive_file 500\n");
        write("meminfo", "MemTotal:  8 kB\nMemFree: 1 kB\nMemAvailable:   4 kB\n");
        let meminfo = directory.path().join("meminfo");
        let of = |own| Limits { meminfo: meminfo.clone(), groups: groups(own, directory.path()) };
        assert_eq!(of("4:cpu,memory:/job/step\n").room(), Some(Room { all_bytes: 1000, left_bytes: 400 }));
        assert_eq!(of("0::/user/inner\n").room(), Some(Room { all_bytes: 5000, left_bytes: 1500 }));
        assert_eq!(of("0::/unified\n").room(), Some(Room { all_bytes: 8192, left_bytes: 4096 }));
        assert_eq!(of("").groups.len(), 0);
    }
}
