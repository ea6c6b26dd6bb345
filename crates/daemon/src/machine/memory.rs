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
    /// Its name for page cache that can be taken at once.
    reclaimable: &'static str,
}

impl Limits {
    pub fn of_this_process() -> Self {
        let [own, mounts] = ["cgroup", "mountinfo"].map(|file| fs::read_to_string(format!("/proc/self/{file}")));
        let (own, mounts) = (own.unwrap_or_default(), mounts.unwrap_or_default());
        Self { meminfo: "/proc/meminfo".into(), groups: groups(&own, &Hierarchies::mounted(&mounts)) }
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

/// Where the two versions are mounted, and which group is seen there: not the outermost in a container that sees its own only.
#[derive(PartialEq, Eq, Debug, Default)]
struct Hierarchies {
    /// Version 1 with the controller of memory.
    memory: Option<(PathBuf, PathBuf)>,
    /// Version 2.
    unified: Option<(PathBuf, PathBuf)>,
}

impl Hierarchies {
    /// As the text of `/proc/self/mountinfo` says (proc(5)).
    fn mounted(mounts: &str) -> Self {
        let mut found = Self::default();
        for line in mounts.lines() {
            let Some((place, file_system)) = line.split_once(" - ") else { continue };
            let (mut place, file_system) = (place.split(' ').skip(3), file_system.split(' ').collect::<Vec<_>>());
            let (Some(root), Some(dir)) = (place.next(), place.next()) else { continue };
            let here = || Some((PathBuf::from(dir), PathBuf::from(root)));
            match file_system.as_slice() {
                ["cgroup", _, options, ..] if options.split(',').any(|option| option == "memory") => {
                    found.memory = here()
                }
                ["cgroup2", ..] => found.unified = here(),
                _ => {}
            }
        }
        found
    }
}

/// The groups of `own` (the text of `/proc/self/cgroup`) and those around them, as far as they are seen.
fn groups(own: &str, hierarchies: &Hierarchies) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let is_memory = controllers.split(',').any(|controller| controller == "memory");
        let (hierarchy, files, reclaimable) = if is_memory {
            let files = ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"];
            (&hierarchies.memory, files, "total_inactive_file")
        } else if controllers.is_empty() {
            (&hierarchies.unified, ["memory.max", "memory.current", "memory.stat"], "inactive_file")
        } else {
            continue;
        };
        let Some((dir, root)) = hierarchy else { continue };
        let path = Path::new(path);
        let below = path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
        for path in below.ancestors() {
            let [limit, usage, statistics] = files.map(|file| dir.join(path).join(file));
            groups.push(Group { limit, usage, statistics, reclaimable });
        }
    }
    groups.retain(|group| group.room().is_some());
    groups
}

impl Group {
    /// `None` for a group without a limit.
    fn room(&self) -> Option<Room> {
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let statistics = fs::read_to_string(&self.statistics).unwrap_or_default();
        let statistic = |name: &str| -> Option<u64> {
            statistics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        // Version 1 tells here the least limit of the groups around it too, which may not be seen from a container.
        let limits = [number(&self.limit), statistic("hierarchical_memory_limit")];
        // It says "no limit" by a number near the largest; version 2 by a word.
        let all_bytes = limits.into_iter().flatten().filter(|bytes| *bytes < 1 << 60).min()?;
        // Page cache whose size is not known counts as none.
        let used_bytes = number(&self.usage).unwrap_or(0).saturating_sub(statistic(self.reclaimable).unwrap_or(0));
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
        write("memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/inner/memory.stat", "hierarchical_memory_limit 700\ntotal_inactive_file 0\n");
        let at = |dir: &str, root: &str| Some((directory.path().join(dir), PathBuf::from(root)));
        let of_root = |root| Hierarchies { memory: at("memory", root), unified: at("", "/") };
        let of = |own| Limits { meminfo: meminfo.clone(), groups: groups(own, &of_root("/")) };
        assert_eq!(of("4:cpu,memory:/job/step\n").room(), Some(Room { all_bytes: 1000, left_bytes: 400 }));
        assert_eq!(of("0::/user/inner\n").room(), Some(Room { all_bytes: 5000, left_bytes: 1500 }));
        assert_eq!(of("0::/unified\n").room(), Some(Room { all_bytes: 8192, left_bytes: 4096 }));
        assert_eq!(of("").groups.len(), 0);
        let all_bytes = ["4:cpu,memory:/job/step\n", "0::/user/inner\n", ""].map(|own| of(own).all_bytes());
        assert_eq!(all_bytes, [1000, 5000, 8192]);
        let around = of("4:memory:/inner\n");
        assert_eq!(around.all_bytes(), 700, "a group around it has a limit, and is not seen");
        // A container sees its own group at the place of the outermost.
        let of_container = groups("4:memory:/docker/7/job/step\n", &of_root("/docker/7"));
        assert_eq!(Limits { meminfo: meminfo.clone(), groups: of_container }.all_bytes(), 1000);
        assert_eq!(groups("4:memory:/job/step\n", &Hierarchies::default()).len(), 0);
    }

    #[test]
    fn control_groups_are_found_where_they_are_mounted() {
        let mounts = "24 1 0:22 / /sys rw - sysfs sysfs rw\n\
                      30 24 0:26 / /cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                      31 24 0:27 /docker/7 /cgroup/mem rw,nosuid shared:9 - cgroup cgroup rw,memory\n\
                      32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchies::mounted(mounts);
        assert_eq!(found.memory, Some(("/cgroup/mem".into(), "/docker/7".into())));
        assert_eq!(found.unified, Some(("/sys/fs/cgroup/unified".into(), "/".into())));
        assert_eq!(Hierarchies::mounted(""), Hierarchies::default());
    }
}
