//! A trial: one fault on a fresh job, with a reader on every node before, during and after it.

use std::time::{Duration, Instant};

use forebay_tests::program::{wait_until, wait_until_or};
use rustix::process::Signal;

use super::kinds::{Fault, NODES, signal};
use super::outcome::{Course, Mark, Outcome};
use super::readers::{Place, Readers};
use crate::testbed::{Cluster, Testbed};

/// How large a trial is.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Files of the tree.
    pub files: usize,
    /// How long is read before the fault, at least.
    pub before: Duration,
    /// How long the fault lasts at most.
    pub lasts_max: Duration,
    /// Files that every reader reads in each phase, at least.
    pub files_each: u64,
    /// How often a daemon is killed that a keeper starts anew.
    pub restarts: usize,
}

/// The budget of a daemon: half of the tree or less, so that the backing file system is read all the time.
const BUDGET: &str = "32MiB";

/// How long a phase may take longer than it should: until the last reader has read its files. A client of GlusterFS that has lost its server
/// takes 42 s to see that.
const PHASE: Duration = Duration::from_secs(120);

/// A reader that waits so long for one operation has felt the fault of the server.
const FELT: Duration = Duration::from_millis(500);

/// A test bed with the tree.
pub fn testbed(scale: Scale) -> Testbed {
    Testbed::up(NODES, "tree", |source| super::contents::build(source, scale.files))
}

/// Starts a job, lets everybody read, breaks something, mends it, takes the job down. The test bed comes back as it was.
pub fn run(testbed: Testbed, fault: Fault, scale: Scale) -> (Testbed, Outcome) {
    // The files are in no node's caches.
    let _ = testbed.script(&["remount"]);
    let cluster = Cluster::up(testbed, &["--budget", BUDGET]);
    let readers = Readers::start(places(&cluster, scale.files));
    let trial = Trial { cluster, readers, fault, scale };
    let has_view = |node| !fault.ends_view() || fault.victim() != Some(node);
    let start = trial.mark();
    trial.read_on(|_| true, scale.before);
    let begun = trial.mark();
    fault.begin(&trial.cluster);
    trial.go_through();
    fault.end(&trial.cluster);
    let ended = Instant::now();
    // Whatever was asked while it was broken is answered now, or has failed.
    trial.read_on(has_view, Duration::ZERO);
    let mended = Instant::now();
    trial.read_on(has_view, Duration::ZERO);
    let end = trial.mark();
    if let Fault::Stopped(node) = fault {
        wait_until("a daemon that goes on is used again", PHASE, || trial.cluster.bypassing(node).is_empty());
    }
    let Trial { cluster, readers, .. } = trial;
    let found = readers.finish();
    (cluster.down(), Outcome::new(fault, &found, &Course { start, begun, ended, mended, end }))
}

/// A job under a fault.
struct Trial {
    cluster: Cluster,
    readers: Readers,
    fault: Fault,
    scale: Scale,
}

impl Trial {
    fn mark(&self) -> Mark {
        let files = (0..NODES).map(|node| self.readers.of(node).files()).sum();
        let requests = self.cluster.testbed().traffic().total();
        Mark { time: Instant::now(), files, requests }
    }

    /// Waits until each reader that is meant has read its files, and `at_least`.
    fn read_on(&self, is_meant: impl Fn(usize) -> bool, at_least: Duration) {
        let began = Instant::now();
        let before: Vec<u64> = (0..NODES).map(|node| self.readers.of(node).files()).collect();
        let has_read = |node: usize| self.readers.of(node).files() >= before[node] + self.scale.files_each;
        wait_until_or("every reader has read its files", at_least + PHASE, || {
            let behind: Vec<String> = (0..NODES)
                .filter(|node| is_meant(*node) && !has_read(*node))
                .map(|node| {
                    let reader = self.readers.of(node);
                    format!("node {node}: {} files, waits for {:?}", reader.files() - before[node], reader.waits())
                })
                .collect();
            if began.elapsed() >= at_least && behind.is_empty() { Ok(()) } else { Err(behind.join("; ")) }
        });
    }

    /// Lets the fault last, and until it has been felt: others than the victim read on meanwhile, or, when nobody can,
    /// somebody waits or has failed.
    fn go_through(&self) {
        let lasts = self.fault.lasts().min(self.scale.lasts_max);
        if let Fault::Restarted(node) = self.fault {
            self.kill_again(node);
        }
        if !self.fault.hits_backing() {
            self.read_on(|node| self.fault.victim() != Some(node), lasts);
            if let Fault::Stopped(node) = self.fault {
                wait_until("a stopped daemon is bypassed", PHASE, || !self.cluster.bypassing(node).is_empty());
            }
            return;
        }
        let began = Instant::now();
        wait_until("the fault of the server is felt", lasts + PHASE, || {
            let feels = |node| self.readers.of(node).waits() > FELT || !self.readers.of(node).found().errors.is_empty();
            began.elapsed() >= lasts && (0..NODES).any(feels)
        });
    }

    /// Kills a daemon each time it has been started anew and its node's reader has read a file.
    fn kill_again(&self, node: usize) {
        let mut killed = self.cluster.pid(node);
        for left in (0..self.scale.restarts).rev() {
            let before = self.readers.of(node).files();
            let mut current = None;
            wait_until("a killed daemon is back", PHASE, || {
                current = self.cluster.pid_now(node).filter(|pid| *pid != killed);
                current.is_some() && self.readers.of(node).files() > before
            });
            if let Some(pid) = current.filter(|_| left > 0) {
                signal(pid, Signal::KILL);
                killed = pid;
            }
        }
    }
}

fn places(cluster: &Cluster, files: usize) -> Vec<Place> {
    let tree = cluster.view(&cluster.testbed().source());
    let namespace = |node| cluster.testbed().namespace(node);
    (0..NODES)
        .map(|node| Place { namespace: namespace(node), view: "/tmp/view".into(), tree: tree.clone(), files })
        .collect()
}
