//! Programs of this host that have files of a job open when it ends, or work there: what they do there fails from then on.
//!
//! A job's mounts are known by their devices in the table of mounts of its keepers, and an open file by its mount's number, so no file is
//! looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use forebay_keeper::own_paths;
use forebay_launch::{JobDirectory, NodeRecord};
use rustix::fs::{Mode, OFlags};

use crate::output::in_one_line;

/// Programs that are named at most.
const NAMED_MAX: usize = 8;

/// A keeper that does not answer, or a file system that hangs, keeps the end of the job waiting for no longer.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// A note that names them, if there are any and they are found in time. Only those of this user can be seen.
pub fn note(directory: &JobDirectory) -> Option<String> {
    let (found, note) = mpsc::channel();
    let directory = directory.clone();
    std::thread::spawn(move || found.send(look(&directory)));
    note.recv_timeout(LOOK_MAX).ok().flatten()
}

fn look(directory: &JobDirectory) -> Option<String> {
    let nodes = NodeRecord::read_all(directory);
    let of_job = nodes.iter().flat_map(NodeRecord::processes).map(|process| process.pid);
    let own: BTreeSet<u32> = of_job.chain([std::process::id()]).collect();
    let (devices, mut mounts) = (devices(directory, &nodes), BTreeMap::new());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| !own.contains(pid));
    let users: Vec<String> = pids.filter(|pid| uses(*pid, &devices, &mut mounts)).map(named).collect();
    let more = match users.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = users[..users.len().min(NAMED_MAX)].join(", ");
    (!users.is_empty()).then(|| format!("still using files of the job: {first}{more}; their next calls there fail"))
}

/// Numbers of the job's mounts, by the namespace that has them.
type Mounts = BTreeMap<String, BTreeSet<u64>>;

/// The devices of the job's mounts, as its keepers see them at their paths: another job of the same name has others.
fn devices(directory: &JobDirectory, nodes: &[NodeRecord]) -> BTreeSet<String> {
    let mark = format!("forebay:{}/", directory.job());
    let mut devices = BTreeSet::new();
    for record in nodes {
        let node = own_paths::find_node(directory, Some(record.rank), &[]).ok();
        let burst = node.and_then(|node| node.burst).map(|burst| burst.mount.path);
        let places: Vec<String> = [Some(record.view.clone()), burst]
            .into_iter()
            .flatten()
            .map(|path| escaped(&path.display().to_string()))
            .collect();
        for line in table(&format!("{}", record.process.pid)).lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            if let [_, _, device, _, place, ..] = fields[..]
                && places.iter().any(|known| known == place)
                && fields.iter().any(|field| field.starts_with(&mark))
            {
                devices.insert(device.to_owned());
            }
        }
    }
    devices
}

/// A path as tables of mounts have it.
fn escaped(path: &str) -> String {
    path.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// The mounts that a process sees.
fn table(process: &str) -> String {
    let table = fs::read(Path::new("/proc").join(process).join("mountinfo")).unwrap_or_default();
    String::from_utf8_lossy(&table).into_owned()
}

fn uses(pid: u32, devices: &BTreeSet<String>, mounts: &mut Mounts) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { return false };
    let of_job = mounts.entry(namespace.display().to_string()).or_insert_with(|| {
        let number = |line: &str| {
            let mut fields = line.split(' ');
            let number = fields.next()?.parse().ok()?;
            fields.nth(1).filter(|device| devices.contains(*device)).map(|_| number)
        };
        table(&pid.to_string()).lines().filter_map(number).collect()
    });
    let is_of_job = |text: &str| {
        let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        number.and_then(|number| number.trim().parse().ok()).is_some_and(|number: u64| of_job.contains(&number))
    };
    let files = fs::read_dir(process.join("fdinfo")).into_iter().flatten().flatten();
    let mut held = files
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .chain(["cwd", "root", "exe"].iter().filter_map(|place| mount_of(&process.join(place))));
    !of_job.is_empty() && held.any(|text| is_of_job(&text))
}

/// The same of a directory or program that a process has by a link in `/proc`. The link leads there itself, so that no file system is asked.
fn mount_of(link: &Path) -> Option<String> {
    let held = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    fs::read_to_string(format!("/proc/self/fdinfo/{}", held.as_raw_fd())).ok()
}

fn named(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    format!("{pid} ({})", in_one_line(name.strip_suffix('\n').unwrap_or(&name)))
}
