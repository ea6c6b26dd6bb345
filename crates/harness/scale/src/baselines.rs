//! The baselines of Forebay: every node reads for itself, from the files or from one compressed image.
//!
//! Programs are chains of requests, each made when the one before is answered, at the same file system that Forebay's
//! roots read. A step of a chain stands for several requests in turn.

use super::backing::Backing;
use super::files::Weight;
use super::parameters::MODEL;
use super::servers::{Nanos, Queue, nanos, scattered, seconds};
use super::stated::{Machine, Workload};

/// Steps of a chain: enough that requests of all nodes mix.
const STEPS: u32 = 24;

/// Chains of all nodes, at most; beyond that a chain stands for several nodes that do the same at the same time. That is
/// right only while there are many more chains than servers.
const CHAINS_MAX: usize = 60_000;

/// Whether files or the image are in the node's page cache already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// Every name and content is fetched.
    Cold,
    /// Names and contents are in memory, but each open still asks the file system, as Lustre's does.
    Second,
}

/// The total work of a chain.
#[derive(Clone, Copy)]
struct Chain {
    requests: f64,
    bytes: f64,
    think_seconds: f64,
}

/// Every process opens every file itself; of each node one process looks names up and reads contents. How long until the
/// last has all, in seconds.
pub fn direct(machine: &Machine, workload: &Workload, nodes: usize, run: Run, seed: u64) -> f64 {
    let files = workload.small_files.value + workload.large_files.value;
    let opens = Chain { requests: files, bytes: 0.0, think_seconds: workload.computing.value };
    let first = match run {
        Run::Cold => Chain {
            requests: files + files + workload.absent_names.value + workload.directories.value * 2.0,
            bytes: workload.small.value + workload.large.value,
            ..opens
        },
        Run::Second => opens,
    };
    let mut chains = vec![opens; workload.processes.count().max(1)];
    chains[0] = first;
    run_chains(machine, &chains, nodes, CHAINS_MAX, seed)
}

/// A compressed image lies on the file system, striped over all its servers, and is mounted on every node.
pub fn image(machine: &Machine, workload: &Workload, nodes: usize, seed: u64) -> f64 {
    let bytes = (workload.small.value + workload.large.value) * workload.image_share.value;
    let chain = Chain { requests: 2.0, bytes, think_seconds: workload.computing.value };
    run_chains(machine, &[chain], nodes, CHAINS_MAX, seed)
}

/// Every node reads so many bytes from the file system, and does nothing else.
pub(super) fn contents(machine: &Machine, bytes: f64, nodes: usize, seed: u64) -> f64 {
    run_chains(machine, &[Chain { requests: 0.0, bytes, think_seconds: 0.0 }], nodes, CHAINS_MAX, seed)
}

fn run_chains(machine: &Machine, chains: &[Chain], nodes: usize, chains_max: usize, seed: u64) -> f64 {
    let together = (nodes * chains.len()).div_ceil(chains_max).min(nodes).max(1);
    let count = nodes.div_ceil(together);
    let mut backing = Backing::new(machine.file_system);
    let mut queue: Queue<(usize, usize, u32)> = Queue::new();
    let starts_within = nanos(MODEL.starts_within.value).max(1);
    for node in 0..count {
        let starts = scattered(seed, node as u64) % starts_within;
        (0..chains.len()).for_each(|chain| queue.at(starts, (node, chain, 0)));
    }
    while let Some((node, chain, step)) = queue.next() {
        let now = queue.now();
        let alike = if node + 1 == count { nodes - together * (count - 1) } else { together };
        if step < STEPS {
            let place = scattered(seed, (node as u64) << 32 | (chain as u64) << 16 | u64::from(step));
            let next = one_step(machine, &mut backing, now, chains[chain], alike, place);
            queue.at(next, (node, chain, step + 1));
        }
    }
    seconds(queue.now())
}

/// A step of a chain that stands for so many alike: when the next begins.
fn one_step(machine: &Machine, backing: &mut Backing, now: Nanos, chain: Chain, alike: usize, place: u64) -> Nanos {
    let share = f64::from(STEPS);
    let mut at = now;
    if chain.requests > 0.0 {
        let requests = chain.requests / share;
        // Those that are alike wait at the same time, each for its own requests only.
        at = backing.ask(at, requests * alike as f64, requests, Weight::ONE);
    }
    if chain.bytes > 0.0 {
        let bytes = chain.bytes / share;
        let all = (bytes * alike as f64) as u64;
        let (done, _) = backing.read(at, place, all, 1);
        at = done.max(at + nanos(bytes / machine.network.node_link.value));
    }
    at + nanos(chain.think_seconds / share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{AURORA, TORCH};

    #[test]
    fn one_node_waits_for_itself_and_many_for_each_other() {
        let second = |nodes| direct(&AURORA, &TORCH, nodes, Run::Second, 1);
        let alone = second(1);
        assert!(alone > TORCH.computing.value && alone < 2.0 * TORCH.computing.value, "{alone}");
        let requests = TORCH.processes.value * (TORCH.small_files.value + TORCH.large_files.value);
        let each = requests * AURORA.file_system.metadata_request.value / AURORA.file_system.metadata_at_once.value;
        for nodes in [1024, 4096] {
            let bound = each * nodes as f64;
            let took = second(nodes);
            assert!((bound..1.1 * bound + 2.0).contains(&took), "{nodes} nodes: {took}, the servers need {bound}");
        }
    }

    #[test]
    fn chains_that_stand_for_several_take_as_long_as_those() {
        let chain = Chain { requests: 24.0, bytes: 5e8, think_seconds: 0.1 };
        let of = |chains_max| run_chains(&AURORA, &[chain], 8000, chains_max, 1);
        let (together, apart) = (of(4000), of(8000));
        assert!((0.95..1.05).contains(&(together / apart)), "{together} and {apart}");
    }
}
