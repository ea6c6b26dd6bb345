//! The memory that is left to a daemon: in the machine, and in every control group that it is in (version 1 and 2). Files
//! that cannot be read are no limit.

use std::fs;
use std::path::{Path, PathBuf};

use crate::environment::Room;

/// Where limits are read.
pub struct Limits {
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
    pub fn of_this_process() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self { meminfo: "/proc/meminfo".into(), groups: groups(&own, Path::new("/sys/fs/cgroup")) }
    }

    /// The room under the tightest of them.
    pub fn room(&self) -> Option<Room> {
        self.rooms().min_by_key(|room| room.left_bytes)
    }

    fn all_bytes(&self) -> u64 {
        self.rooms().map(|room| room.all_bytes).min().unwrap_or(0)
    }

    fn rooms(&self) -> impl Iterator<Item = Room> {
        let machine = fs::read_to_string(&self.meminfo).ok().and_then(|text| machine_room(&text));
        self.groups.iter().filter_map(Group::room).chain(machine)
    }
}

/// Memory that this process may use, bytes: the machine's, or less where a control group says so (a scheduler's
/// allocation of part of a node, a container). 0 when it cannot be told.
#[must_use]
pub fn memory_bytes() -> u64 {
    Limits::of_this_process().all_bytes()
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
        let all_bytes = ["4:cpu,memory:/job/step\n", "0::/user/inner\n", ""].map(|own| of(own).all_bytes());
        assert_eq!(all_bytes, [1000, 5000, 8192]);
    }
}
