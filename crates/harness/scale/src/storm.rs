//! A whole job's start through Forebay: all nodes run the same script at once; what it took and what went where.

use forebay_overlay::Forest;
use forebay_read::Counters;

use super::cpu::Cpu;
use super::job::{Job, Loss, Setup};
use super::pack::{Pack, PackSize};
use super::servers::seconds;
use super::stated::{Machine, Workload};
use super::synthetic::{Grain, files_and_script};

/// A start-up of a workload.
#[derive(Clone, Debug)]
pub struct Storm<'a> {
    /// The machine that it runs on.
    pub machine: &'a Machine,
    /// The files that its programs load.
    pub workload: &'a Workload,
    /// How coarsely it is told.
    pub grain: Grain,
    /// The trees of the nodes.
    pub forest: Forest,
    /// Number of nodes, one program each.
    pub nodes: usize,
    /// Where chance begins.
    pub seed: u64,
    /// Whether there is a profile with its pack: contents then come ahead, from the moment at which programs start.
    pub is_known: bool,
    /// Nodes that are lost on the way.
    pub losses: &'a [Loss],
}

/// The outcome of a start.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// When the last program ended, seconds.
    pub last_seconds: f64,
    /// The longest that a request of a program took.
    pub longest_seconds: f64,
    /// Programs' requests that ended with an error.
    pub failed: u64,
    /// Programs that ended.
    pub ended: usize,
    /// Programs that wait for ever; none if the cores are as they must be.
    pub stuck: usize,
    /// Requests that nodes sent to each other, as the model counts them.
    pub questions: u64,
    /// Requests that nodes asked the backing file system, as the model counts them.
    pub asked_backing: u64,
    /// Requests asked of a second node, or again elsewhere.
    pub asked_again: u64,
    /// Listings of the backing file system.
    pub listings: u64,
    /// Files opened there.
    pub opens: u64,
    /// Bytes of contents read there.
    pub backing_bytes: u64,
    /// Bytes that each node sent to others.
    pub sent: Vec<u64>,
    /// Bytes that nodes got, from others and from the file system.
    pub received_bytes: u64,
    /// Bytes that each group sent to others.
    pub group_sent: Vec<u64>,
    /// Messages of the kernel on one node, the mean.
    pub kernel_messages: u64,
    /// Processor time.
    pub cpu: Cpu,
    /// Events of the model.
    pub events: u64,
}

impl Storm<'_> {
    /// Runs it.
    #[must_use]
    pub fn run(self) -> Figures {
        let Self { machine, workload, grain, forest, nodes, seed, is_known, losses } = self;
        let (files, script) = files_and_script(workload, grain, machine.daemon.kernel_read);
        let pack =
            is_known.then(|| Pack::of(PackSize::Share(workload.image_share.value), &files, &script, grain.large));
        run(Setup { machine, files: &files, script: &script, pack: pack.as_ref(), forest, nodes, seed, losses })
    }
}

impl Figures {
    /// When all programs had all they asked for, seconds; none if one was refused something or waits for ever.
    #[must_use]
    pub fn all_seconds(&self) -> Option<f64> {
        (self.failed == 0 && self.stuck == 0).then_some(self.last_seconds)
    }

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

pub(super) fn run(setup: Setup<'_>) -> Figures {
    let mut job = Job::new(setup);
    job.run();
    figures_of(&job)
}

fn figures_of(job: &Job<'_>) -> Figures {
    let programs = || job.nodes.iter().map(|node| &node.program);
    let ends = || programs().filter_map(|program| program.ended);
    let count = |of: &dyn Fn(&Counters) -> u64| -> u64 { job.nodes.iter().map(|node| of(&node.core.counters())).sum() };
    Figures {
        last_seconds: seconds(ends().max().unwrap_or(0)),
        longest_seconds: seconds(programs().map(|program| program.longest).max().unwrap_or(0)),
        failed: programs().map(|program| program.failed).sum(),
        ended: ends().count(),
        stuck: job.running,
        questions: count(&|counters| counters.dispatch.asked_peers - counters.bundled),
        asked_backing: count(&|counters| counters.dispatch.asked_backing),
        asked_again: count(&|counters| counters.dispatch.hedged + counters.dispatch.failovers),
        listings: job.backing.listings,
        opens: job.backing.opens,
        backing_bytes: job.backing.bytes,
        sent: job.network.sent().collect(),
        received_bytes: job.network.received().sum(),
        group_sent: job.network.group_sent().collect(),
        kernel_messages: job.kernel_messages / job.nodes.len().max(1) as u64,
        cpu: job.cpu.seconds(),
        events: job.queue.count(),
    }
}
