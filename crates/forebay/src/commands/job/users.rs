//! Programs of this host that have files of a job open when it ends: what they do there fails from then on.
//!
//! A mount is known by its name in the table of mounts of the program, and an open file by the mount's number. So no file is looked at,
//! and a file system that hangs holds nobody up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use forebay_launch::{JobDirectory, NodeRecord};

/// Programs that are named at most.
const NAMED_MAX: usize = 8;

/// A note that names them, if there are any. Only those of this user can be seen.
pub fn note(directory: &JobDirectory) -> Option<String> {
    let own: BTreeSet<u32> =
        NodeRecord::read_all(directory).iter().flat_map(NodeRecord::processes).map(|process| process.pid).collect();
    let mark = format!(" forebay:{}/", directory.job());
    let mut mounts = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| !own.contains(pid));
    let users: Vec<String> = pids.filter(|pid| uses(*pid, &mark, &mut mounts)).map(named).collect();
    let more = match users.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = users[..users.len().min(NAMED_MAX)].join(", ");
    (!users.is_empty()).then(|| format!("still using files of the job: {first}{more}; their next calls there fail"))
}

/// Numbers of the job's mounts, by the namespace that has them.
type Mounts = BTreeMap<String, BTreeSet<u64>>;

fn uses(pid: u32, mark: &str, mounts: &mut Mounts) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { return false };
    let of_job = mounts.entry(namespace.display().to_string()).or_insert_with(|| {
        let table = fs::read(process.join("mountinfo")).unwrap_or_default();
        let table = String::from_utf8_lossy(&table);
        table
            .lines()
            .filter(|line| line.contains(mark))
            .filter_map(|line| line.split(' ').next()?.parse().ok())
            .collect()
    });
    let is_of_job = |text: &str| {
        let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        number.and_then(|number| number.trim().parse().ok()).is_some_and(|number: u64| of_job.contains(&number))
    };
    let files = fs::read_dir(process.join("fdinfo")).into_iter().flatten().flatten();
    !of_job.is_empty()
        && files.into_iter().any(|file| fs::read_to_string(file.path()).is_ok_and(|text| is_of_job(&text)))
}

fn named(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", String::from_utf8_lossy(&name).trim())
}
