//! A whole job's start through Forebay: all nodes run the same script at once; what it took and what went where.

use forebay_overlay::Forest;

use super::files::{Files, Script};
use super::job::{Job, Setup};
use super::network::NodeIndex;
use super::pack::Pack;
use super::parameters::{Machine, Workload};
use super::servers::{SECOND, nanos, seconds};
use super::synthetic::{Grain, files_and_script};

/// How far apart programs start, seconds: as mpiexec starts them (0.1 to 0.3 s in the paper).
const STARTS_WITHIN: u64 = SECOND / 10;

/// The kernel's read size on a view, bytes.
const KERNEL_READ_BYTES: u64 = 1 << 20;

/// Nodes that are lost on the way.
#[derive(Clone, Debug)]
pub struct Loss {
    /// When, seconds after the start.
    pub at_seconds: f64,
    /// Which.
    pub nodes: Vec<NodeIndex>,
}

/// What came of a start.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// When the first and the last node had all, seconds.
    pub first_seconds: f64,
    /// The last.
    pub last_seconds: f64,
    /// The longest that a request of a program took.
    pub longest_seconds: f64,
    /// Programs' requests that ended with an error.
    pub failed: u64,
    /// Programs that ended.
    pub ended: usize,
    /// Questions that nodes sent to each other, as the model counts them.
    pub questions: u64,
    /// Questions that nodes asked the backing file system, as the model counts them.
    pub asked_backing: u64,
    /// Questions asked of a second node, or again elsewhere.
    pub asked_again: u64,
    /// Metadata requests at the backing file system.
    pub requests: u64,
    /// Listings of it.
    pub listings: u64,
    /// Files opened there.
    pub opens: u64,
    /// Reads of contents there.
    pub reads: u64,
    /// Bytes of contents read there.
    pub backing_bytes: u64,
    /// Bytes that each node sent to others.
    pub sent: Vec<u64>,
    /// Bytes that nodes got, from others and from the file system.
    pub received_bytes: u64,
    /// Bytes that each group sent to others.
    pub group_sent: Vec<u64>,
    /// Messages of the kernel on one node.
    pub kernel_messages: u64,
    /// Events of the model.
    pub events: u64,
}

impl Figures {
    /// Bytes over the busiest node's link out, as a multiple of the mean.
    #[must_use]
    pub fn busiest_link(&self) -> f64 {
        busiest(&self.sent)
    }

    /// The same for the groups' links.
    #[must_use]
    pub fn busiest_group(&self) -> f64 {
        busiest(&self.group_sent)
    }
}

fn busiest(links: &[u64]) -> f64 {
    let sum: u64 = links.iter().sum();
    let most = links.iter().copied().max().unwrap_or(0);
    if sum == 0 { 1.0 } else { most as f64 * links.len() as f64 / sum as f64 }
}

/// Runs a workload on so many nodes.
#[must_use]
pub fn start(machine: &Machine, workload: &Workload, grain: Grain, forest: Forest, nodes: usize, seed: u64) -> Figures {
    start_with_losses(machine, workload, grain, forest, nodes, seed, &[])
}

/// The same, with nodes that are lost on the way.
#[must_use]
pub fn start_with_losses(
    machine: &Machine,
    workload: &Workload,
    grain: Grain,
    forest: Forest,
    nodes: usize,
    seed: u64,
    losses: &[Loss],
) -> Figures {
    let (files, script) = files_and_script(workload, grain, KERNEL_READ_BYTES);
    run(machine, &files, &script, None, forest, nodes, seed, losses)
}

/// The same with a profile and its pack: contents come ahead of the programs, from the moment at which these start.
#[must_use]
pub fn start_with_pack(
    machine: &Machine,
    workload: &Workload,
    grain: Grain,
    forest: Forest,
    nodes: usize,
    seed: u64,
) -> Figures {
    let (files, script) = files_and_script(workload, grain, KERNEL_READ_BYTES);
    let pack = Pack::of(workload, &files, &script, grain.large);
    run(machine, &files, &script, Some(&pack), forest, nodes, seed, &[])
}

#[allow(clippy::too_many_arguments)]
pub(super) fn run(
    machine: &Machine,
    files: &Files,
    script: &Script,
    pack: Option<&Pack>,
    forest: Forest,
    nodes: usize,
    seed: u64,
    losses: &[Loss],
) -> Figures {
    let lost = losses.iter().map(|loss| (nanos(loss.at_seconds), loss.nodes.clone())).collect();
    let setup = Setup { machine, files, script, pack, forest, nodes, seed, starts_within: STARTS_WITHIN, lost };
    let mut job = Job::new(setup);
    job.run();
    figures_of(&job)
}

fn figures_of(job: &Job<'_>) -> Figures {
    let programs = || job.nodes.iter().map(|node| &node.program);
    let ends = || programs().filter_map(|program| program.ended);
    let count = |of: &dyn Fn(&forebay_node::Counters) -> u64| -> u64 {
        job.nodes.iter().map(|node| of(&node.core.counters())).sum()
    };
    Figures {
        first_seconds: seconds(ends().min().unwrap_or(0)),
        last_seconds: seconds(ends().max().unwrap_or(0)),
        longest_seconds: seconds(programs().map(|program| program.longest).max().unwrap_or(0)),
        failed: programs().map(|program| program.failed).sum(),
        ended: ends().count(),
        questions: count(&|counters| counters.asked_peers),
        asked_backing: count(&|counters| counters.asked_backing),
        asked_again: count(&|counters| counters.hedged + counters.reparented),
        requests: job.backing.requests,
        listings: job.backing.listings,
        opens: job.backing.opens,
        reads: job.backing.reads,
        backing_bytes: job.backing.bytes,
        sent: job.network.sent().collect(),
        received_bytes: job.network.received().sum(),
        group_sent: job.network.group_sent().collect(),
        kernel_messages: job.script.messages,
        events: job.queue.count(),
    }
}
