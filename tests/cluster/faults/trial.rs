//! A trial: one fault on a fresh job, with a reader on every node before, during and after it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;

use super::kinds::{Fault, NODES};
use super::readers::{Found, Place, Readers, by_number};
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

/// How long a phase may take longer than it should: until the last reader has read its files.
const PHASE: Duration = Duration::from_secs(60);

/// A reader that waits so long for one operation has felt the fault of the server.
const FELT: Duration = Duration::from_millis(500);

/// What was seen of a fault.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub fault: Fault,
    pub lasted: Duration,
    /// The longest operation without a fault.
    pub stall_before: Duration,
    /// The longest operation of other nodes than the victim that ended after the fault had begun, and what it was.
    pub stall: Duration,
    pub stalled: String,
    /// The same on the victim; nothing where its view is gone.
    pub victim_stall: Option<Duration>,
    /// Errors by number, on other nodes and on the victim.
    pub errors: BTreeMap<i32, usize>,
    pub victim_errors: BTreeMap<i32, usize>,
    pub first_errors: Vec<String>,
    /// Errors when all was mended and had time to settle.
    pub late_errors: usize,
    pub wrong: Vec<String>,
    /// Files that were read and checked, on all nodes, before and since the fault.
    pub files: [u64; 2],
    /// Requests at the server meanwhile; unknown when its counters were lost with it.
    pub requests: [Option<u64>; 2],
}

impl Outcome {
    /// Requests at the server for each file read, before and since the fault.
    pub fn requests_per_file(&self) -> [Option<f64>; 2] {
        [0, 1].map(|phase| Some(self.requests[phase]? as f64 / self.files[phase].max(1) as f64))
    }
}

/// A test bed with the tree.
pub fn testbed(scale: Scale) -> Testbed {
    Testbed::up(NODES, "tree", |source| super::contents::build(source, scale.files))
}

/// Starts a job, lets everybody read, breaks something, mends it, takes the job down. The test bed comes back as it was.
pub fn run(testbed: Testbed, fault: Fault, scale: Scale) -> (Testbed, Outcome) {
    let cluster = Cluster::up(testbed, &["--budget", BUDGET]);
    let readers = Readers::start(places(&cluster, scale.files));
    let trial = Trial { cluster, readers, fault, scale };
    let mut phases = vec![trial.now()];
    trial.read_on(|_| true, scale.before);
    phases.push(trial.now());
    fault.begin(&trial.cluster);
    trial.go_through();
    fault.end(&trial.cluster);
    let has_view = |node| !fault.ends_view() || fault.victim() != Some(node);
    // Whatever was asked while it was broken is answered or has failed.
    trial.read_on(has_view, Duration::ZERO);
    phases.push(trial.now());
    trial.read_on(has_view, Duration::ZERO);
    phases.push(trial.now());
    let Trial { cluster, readers, .. } = trial;
    let found = readers.finish();
    (cluster.down(), Outcome::new(fault, &found, &phases))
}

/// A job under a fault.
struct Trial {
    cluster: Cluster,
    readers: Readers,
    fault: Fault,
    scale: Scale,
}

/// How far things are at some time.
#[derive(Clone, Copy)]
struct Mark {
    time: Instant,
    /// Files that were read on all nodes.
    files: u64,
    /// Requests at the server since it started.
    requests: u64,
}

impl Trial {
    fn now(&self) -> Mark {
        let files = (0..NODES).map(|node| self.readers.of(node).files()).sum();
        let requests = self.cluster.testbed().requests().values().sum();
        Mark { time: Instant::now(), files, requests }
    }

    /// Waits until each reader that is meant has read its files, and `at_least`.
    fn read_on(&self, is_meant: impl Fn(usize) -> bool, at_least: Duration) {
        let began = Instant::now();
        let before: Vec<u64> = (0..NODES).map(|node| self.readers.of(node).files()).collect();
        let has_read = |node: usize| self.readers.of(node).files() >= before[node] + self.scale.files_each;
        wait_until("every reader has read its files", at_least + PHASE, || {
            began.elapsed() >= at_least && (0..NODES).all(|node| !is_meant(node) || has_read(node))
        });
    }

    /// Lets the fault last, and until it has been felt: others than the victim read on meanwhile, or, when nobody can,
    /// somebody waits or has failed.
    fn go_through(&self) {
        let lasts = self.fault.lasts().min(self.scale.lasts_max);
        if let Fault::Restarted(node) = self.fault {
            for _ in 1..self.scale.restarts {
                self.wait_for_daemon(node);
                self.fault.begin(&self.cluster);
            }
            self.wait_for_daemon(node);
        }
        if !self.fault.hits_backing() {
            return self.read_on(|node| self.fault.victim() != Some(node), lasts);
        }
        let began = Instant::now();
        wait_until("the fault of the server is felt", lasts + PHASE, || {
            let feels = |node| self.readers.of(node).waits() > FELT || !self.readers.of(node).found().errors.is_empty();
            began.elapsed() >= lasts && (0..NODES).any(feels)
        });
    }

    /// Waits until a daemon that was killed serves again: its node's reader has read a file.
    fn wait_for_daemon(&self, node: usize) {
        let before = self.readers.of(node).files();
        wait_until("a killed daemon is back", PHASE, || self.readers.of(node).files() > before);
    }
}

fn places(cluster: &Cluster, files: usize) -> Vec<Place> {
    let tree = cluster.view(&cluster.testbed().source());
    let namespace = |node| cluster.testbed().namespace(node);
    (0..NODES)
        .map(|node| Place { namespace: namespace(node), view: "/tmp/view".into(), tree: tree.clone(), files })
        .collect()
}

impl Outcome {
    fn new(fault: Fault, found: &[Found], phases: &[Mark]) -> Self {
        let [start, begun, mended, end] = phases else { unreachable!("a trial has three phases") };
        let is_victim = |node: usize| fault.victim() == Some(node);
        let others = || found.iter().enumerate().filter(|(node, _)| !is_victim(*node));
        let longest = |found: &Found| {
            found.slow.iter().filter(|slow| slow.began + slow.took >= begun.time).max_by_key(|slow| slow.took).cloned()
        };
        let stalled =
            others().filter_map(|(node, found)| Some((node, longest(found)?))).max_by_key(|(_, slow)| slow.took);
        let errors = |node: usize| by_number(&found[node].errors);
        let mut outcome = Self {
            fault,
            lasted: mended.time - begun.time,
            stall_before: found
                .iter()
                .flat_map(|found| &found.slow)
                .filter(|slow| slow.began + slow.took < begun.time)
                .map(|slow| slow.took)
                .max()
                .unwrap_or_default(),
            stall: stalled.as_ref().map_or(Duration::ZERO, |(_, slow)| slow.took),
            stalled: stalled.map_or_else(String::new, |(node, slow)| format!("node {node}: {}", slow.what)),
            victim_stall: fault
                .victim()
                .filter(|_| !fault.ends_view())
                .map(|node| longest(&found[node]).map_or(Duration::ZERO, |slow| slow.took)),
            errors: BTreeMap::new(),
            victim_errors: fault.victim().map(errors).unwrap_or_default(),
            first_errors: Vec::new(),
            late_errors: 0,
            wrong: found.iter().flat_map(|found| found.wrong.clone()).collect(),
            files: [begun.files - start.files, end.files - begun.files],
            requests: [begun.requests.checked_sub(start.requests), end.requests.checked_sub(begun.requests)],
        };
        for (node, found) in others() {
            outcome.first_errors.extend(
                found.errors.iter().take(2).map(|(_, number, what)| format!("node {node}: {what}: error {number}")),
            );
            by_number(&found.errors)
                .into_iter()
                .for_each(|(number, count)| *outcome.errors.entry(number).or_default() += count);
        }
        let has_view = |node: usize| !(fault.ends_view() && is_victim(node));
        let late = found.iter().enumerate().filter(|(node, _)| has_view(*node)).flat_map(|(_, found)| &found.errors);
        outcome.late_errors = late.filter(|(began, ..)| *began >= mended.time).count();
        if fault == Fault::ServerKilled {
            outcome.requests = [outcome.requests[0], None];
        }
        outcome
    }
}
