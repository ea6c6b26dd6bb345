//! Leftovers on a host of daemons that ended badly: processes, mounts, directories. `down` removes them, `up` does
//! before it starts a job of the same name, and a job's last daemon does for the job's own files.
//!
//! Only what the job's records name is touched: a process is known by number and start time, a mount by its name in the
//! table of mounts, wherever it is now.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use forebay_keeper::view_mount;
use forebay_launch::{Forced, JobDirectory, JobRecord, NodeRecord, Process, Progress, StartId, end_all};

use crate::burst_mount;
use crate::ending;
use crate::kept_logs;
use crate::patience::after_a_second;
use crate::view_directory;

/// How long a daemon may take to end after SIGTERM: it unmounts and leaves.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// How often leftovers are looked for anew where nodes came meanwhile. Their starters have been ended before, so there are few.
const ROUNDS: u32 = 8;

/// The processes of the job that run on this host: keepers, daemons, and the `up` that is starting them.
pub fn alive(directory: &JobDirectory) -> Vec<Process> {
    let records = NodeRecord::read_all(directory);
    let is_unseen = |node: &&NodeRecord| !node.is_seen() && node.is_alive(directory);
    let unseen: Vec<Process> = records.iter().filter(is_unseen).map(|node| node.process).collect();
    let daemons = records.iter().filter(|node| node.is_seen()).flat_map(NodeRecord::processes);
    let starter = JobRecord::read(directory).ok().flatten();
    let starter = starter.filter(|record| record.progress == Progress::Starting).map(|record| record.started_by);
    daemons.chain(starter).filter(|process| process.is_alive()).chain(unseen).collect()
}

/// Refuses to share the job's directory with another job of its name that runs, or is being started, on this host.
///
/// # Errors
/// With its process, and what to do.
pub fn check_no_other_start(directory: &JobDirectory, start: &StartId) -> anyhow::Result<()> {
    let is_alive = |node: &NodeRecord| node.start_id != *start && node.is_alive(directory);
    let node = NodeRecord::read_all(directory).into_iter().find(is_alive).map(|node| node.process);
    let starts = |record: &JobRecord| record.start_id != *start && record.starter_is_alive() == Some(true);
    let job = || JobRecord::read(directory).ok().flatten().filter(starts).map(|record| record.started_by);
    if let Some(process) = node.or_else(job) {
        let job = directory.job();
        bail!(
            "another job {job} is up here (process {}); choose another name with --job NAME, or end that one with forebay \
             down --job {job} on the host where it was started",
            process.pid
        );
    }
    Ok(())
}

/// The leftovers that were removed, and those that could not be.
#[derive(Default)]
pub struct Cleaned {
    /// The actions taken, in words.
    pub notes: Vec<String>,
    /// Processes that were killed and are still there.
    pub held: Vec<Process>,
}

/// A message about processes that cannot be ended now.
pub fn held_text(held: &[Process]) -> String {
    let pids: Vec<String> = held.iter().map(|process| process.pid.to_string()).collect();
    let (what, it) = if held.len() == 1 { ("process", "it is") } else { ("processes", "they are") };
    format!(
        "{what} {} ended, but held by a file system that does not answer; {it} gone when that does",
        pids.join(", ")
    )
}

/// Ends what runs of the job on this host, unmounts its views and removes its files.
///
/// # Errors
/// When something stays that could go.
pub fn clean(directory: &JobDirectory) -> anyhow::Result<Cleaned> {
    clean_but(directory, |_| false)
}

/// The same of one start of the job. Nodes of another one that run stay, with all that it has here.
///
/// # Errors
/// As `clean`.
pub fn clean_start(directory: &JobDirectory, start: &StartId) -> anyhow::Result<Cleaned> {
    clean_but(directory, |of| of != start)
}

/// The same of all starts but those that `is_other` names.
fn clean_but(directory: &JobDirectory, is_other: impl Fn(&StartId) -> bool) -> anyhow::Result<Cleaned> {
    let mut cleaned = Cleaned::default();
    let _told = after_a_second(|| "ending what runs of the job on this host".to_owned());
    let mut rounds = ROUNDS;
    loop {
        rounds -= 1;
        let stays = |node: &NodeRecord| is_other(&node.start_id) && node.is_alive(directory);
        let (others, nodes): (Vec<_>, Vec<_>) = NodeRecord::read_all(directory).into_iter().partition(stays);
        if let Some(unseen) = nodes.iter().find(|node| !node.is_seen() && node.is_alive(directory)) {
            bail!(
                "node {} of the job {} runs in another container of this host (process {} there): end the job from there",
                unseen.rank,
                directory.job(),
                unseen.process.pid
            );
        }
        end(&nodes, &mut cleaned);
        detach_all(&directory.job(), &nodes, &mut cleaned)?;
        let job = JobRecord::read(directory).ok().flatten();
        let is_of_other = job.as_ref().is_some_and(|job| is_other(&job.start_id) && !job.is_abandoned());
        if is_of_other || !others.is_empty() {
            nodes.iter().for_each(|node| directory.remove_node(node.rank));
            if !is_of_other {
                directory.remove_job();
            }
            return Ok(cleaned);
        }
        directory.remove_shared();
        kept_logs::keep(directory);
        match directory.remove() {
            Ok(()) => return Ok(cleaned),
            // A node that was still starting has come to its record meanwhile.
            Err(_) if rounds > 0 && has_come_since(directory, &nodes) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn end(nodes: &[NodeRecord], cleaned: &mut Cleaned) {
    let running: Vec<Process> =
        nodes.iter().flat_map(NodeRecord::processes).filter(|process| process.is_alive()).collect();
    let Forced { killed, held } = end_all(&running, STOP_GRACE);
    if !running.is_empty() {
        let plural = if running.len() == 1 { "" } else { "es" };
        cleaned.notes.push(format!("ended {} process{plural} ({} had to be killed)", running.len(), killed.len()));
    }
    cleaned.held.extend(held);
}

fn detach_all(job: &str, nodes: &[NodeRecord], cleaned: &mut Cleaned) -> anyhow::Result<()> {
    let mut stay = Vec::new();
    for node in nodes {
        let (done, failed) = detach(job, node);
        cleaned.notes.extend(done);
        stay.extend(failed);
        view_directory::remove(&node.view, node.view_created);
        burst_mount::remove(&node.burst_created);
    }
    // The records stay with the mounts: by them the next one who cleans up finds these.
    ensure!(stay.is_empty(), "{}", stay.join("; "));
    Ok(())
}

fn has_come_since(directory: &JobDirectory, nodes: &[NodeRecord]) -> bool {
    let is_known = |record: &NodeRecord| nodes.iter().any(|node| node.process == record.process);
    NodeRecord::read_all(directory).iter().any(|record| !is_known(record))
}

/// Unmounts a view whose daemon has ended. Returns the actions and the failures, in words.
fn detach(job: &str, node: &NodeRecord) -> (Vec<String>, Vec<String>) {
    let (mut done, mut failed) = (vec![], vec![]);
    match view_mount::left_by(job, node) {
        Ok(mounts) => mounts.iter().for_each(|mounted| match forebay_fuse::end_mount(mounted) {
            Ok(()) => done.push(format!("unmounted {}", mounted.dir.display())),
            Err(error) => failed.push(error.to_string()),
        }),
        Err(error) => failed.push(format!("cannot look for the mount of {}: {error}", node.view.display())),
    }
    (done, failed)
}

/// Removes a node's own files when it has ended, and with the last node on this host the job's. Its mount is removed,
/// too, where the keeper could not. If the mount stays, all does, since without the record no command finds it.
pub fn leave(directory: &JobDirectory, record: &NodeRecord) {
    let (done, failed) = detach(&directory.job(), record);
    done.iter().chain(&failed).for_each(|note| tracing::warn!("{note}"));
    if !failed.is_empty() {
        return;
    }
    view_directory::remove(&record.view, record.view_created);
    burst_mount::remove(&record.burst_created);
    directory.remove_node(record.rank);
    if NodeRecord::read_all(directory).iter().any(|node| node.is_alive(directory)) {
        return;
    }
    let job = JobRecord::read(directory).ok().flatten();
    if job.as_ref().is_some_and(|job| job.start_id != record.start_id) {
        return;
    }
    // `up` has yet to see how the others fare, and cleans up itself. One that is dead does not, and then nodes on other
    // hosts are found by the record.
    let is_starting =
        |job: &JobRecord| job.progress == Progress::Starting && !(job.is_abandoned() && job.remote_call().is_none());
    if job.as_ref().is_some_and(is_starting) {
        return;
    }
    ending::without_down(directory, true);
    match job {
        // Nodes that were killed have left things, which `down` finds by their records.
        _ if !directory.record_ranks().is_empty() => kept_logs::keep(directory),
        Some(_) => {
            if let Err(error) = clean(directory) {
                tracing::warn!(%error, "the job's directory stays");
            }
        }
        // The record is on the host where `up` ran.
        None => {
            kept_logs::keep(directory);
            directory.remove_logs();
            directory.remove_last_statuses();
            directory.remove_shared();
            directory.remove_if_empty();
        }
    }
}

/// Notes about files that programs wrote beside burst mounts. `made` are directories that were made for these.
pub fn strays(directory: &JobDirectory, made: &[PathBuf]) -> Vec<String> {
    let places = burst_mount::strays(made).into_iter().chain(directory.strays());
    let note = |place: PathBuf| {
        format!(
            "{} has files that were written beside the burst tier, and never land; move or remove them",
            place.display()
        )
    };
    places.map(note).collect()
}

/// Whether anything of the job is left.
pub fn is_gone(directory: &JobDirectory) -> bool {
    fs::symlink_metadata(directory.path()).is_err()
}
