//! The surroundings of a job on this machine beside the kernel: a disk for its store, ports, the clock, and jobs that are up.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_launch::{JobDirectory, NodeRecord, Ports};
use serde_json::json;

use crate::commands::doctor::check::Check;
use crate::jobs::{DEFAULT_JOB, job_bases, variable};
use crate::node_local;
use crate::settings::values::show_size;

/// How long a daemon of a job may take for an answer: one that works takes milliseconds.
const ANSWER: Duration = Duration::from_secs(3);

/// Seconds since 1970 before which no clock of a machine that runs this program is right: the beginning of 2025.
const CLOCK_MIN_SECONDS: u64 = 1_735_689_600;

/// The list of an installation's files, from its root (packaging/stage.sh).
const FILES: &str = "share/forebay/files.txt";

/// Where the files are that a command or a program of a user needs.
const NEEDED: [&str; 3] = ["bin/", "lib/", "lib64/"];

/// Whether the files are there that this installation came with, if it has a list of them.
pub fn installation() -> Option<Check> {
    let program = std::env::current_exe().ok()?;
    let root = program.parent()?.parent()?;
    let list = std::fs::read_to_string(root.join(FILES)).ok()?;
    let is_needed = |line: &&str| !line.ends_with('/') && NEEDED.iter().any(|directory| line.starts_with(directory));
    let lacking: Vec<&str> = list.lines().filter(is_needed).filter(|line| !root.join(line).exists()).collect();
    (!lacking.is_empty()).then(|| {
        let cost = "what they serve fails or does without; remove the rest and install it again";
        Check::note("installation", format!("{} lacks {}", root.display(), lacking.join(", ")), cost)
    })
}

/// The directory that `--burst-store auto` finds.
pub fn store() -> Check {
    const NAME: &str = "store";
    match node_local::find("--burst-store", &format!("forebay-{DEFAULT_JOB}"), &node_local::Named::new()) {
        Ok(found) => {
            let path = found.store;
            let place = path.ancestors().find(|path| path.exists()).unwrap_or(&path);
            let free = rustix::fs::statvfs(place).map_or(0, |sizes| sizes.f_bavail * sizes.f_frsize);
            Check::ok(NAME, format!("--burst-store auto uses {}, {} free", path.display(), show_size(free)))
        }
        Err(error) => Check::note(
            NAME,
            format!("{error:#}").lines().next().unwrap_or_default().to_owned(),
            "a burst tier needs --burst-store DIR, a directory on this node's own disk",
        ),
    }
}

/// Whether a daemon could listen. A firewall between hosts shows only from another one.
pub fn port() -> Check {
    const NAME: &str = "ports";
    let range = "TCP ports 20000 to 32767, where daemons listen";
    let bound = Ports::random().and_then(|ports| TcpListener::bind((Ipv4Addr::UNSPECIFIED, ports.first())));
    match bound {
        Ok(_) => Check::ok(NAME, format!("{range}, are open to programs here; a firewall between hosts is not tried")),
        Err(error) => {
            Check::limited(NAME, format!("{range}: {error}"), "name a port that is free: forebay up --port PORT")
        }
    }
}

/// Whether the clock can be right.
pub fn clock() -> Check {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let found = format!("{seconds} seconds since 1970");
    if seconds >= CLOCK_MIN_SECONDS {
        return Check::ok("clock", found);
    }
    Check::limited("clock", found, "it is years late: --time-limit, profiles and the times of files are wrong; set it")
}

/// Whether the jobs of this user answer here.
pub fn running_jobs() -> Check {
    const NAME: &str = "jobs";
    let given = variable("FOREBAY_DIRECTORY").map(PathBuf::from);
    let bases = job_bases(given.as_deref());
    let jobs: Vec<JobDirectory> =
        JobDirectory::jobs(&bases).iter().filter_map(|job| JobDirectory::find(&bases, job).ok().flatten()).collect();
    let silent: Vec<String> = jobs.iter().flat_map(silent_nodes).collect();
    if silent.is_empty() {
        let names: Vec<String> = jobs.iter().map(JobDirectory::job).collect();
        let found =
            if names.is_empty() { "none is up here".to_owned() } else { format!("up and well: {}", names.join(", ")) };
        return Check::ok(NAME, found);
    }
    let advice = "forebay status shows why, forebay logs what happened; forebay down cleans up";
    Check::limited(NAME, format!("no answer from {}", silent.join(", ")), advice)
}

fn silent_nodes(directory: &JobDirectory) -> Vec<String> {
    let question = json!({"command": "ping"});
    let answers =
        |node: &NodeRecord| forebay_control::ask_if_there(&directory.socket(node.rank), &question, ANSWER).is_ok();
    let silent = NodeRecord::read_all(directory).into_iter().filter(|node| !answers(node));
    silent.map(|node| format!("node {} of job {}", node.rank, directory.job())).collect()
}
