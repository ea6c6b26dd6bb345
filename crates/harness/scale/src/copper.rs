//! Copper's design, as its paper and documents tell it: one tree, whole files stored and then sent on, no complete
//! listings, every request of a kernel for itself.
//!
//! All nodes ask the same requests one after the other and wait for each other at the nodes above them, so they stay in
//! step: a request takes what it takes the slowest of them. That is a sum over the levels and needs no events.

use super::baselines::{self, Run};
use super::stated::{CopperParameters, Machine, Workload};

/// The least fan-out with which so many nodes fit into so many levels below the root.
#[must_use]
pub fn fan_out(nodes: usize, levels: usize) -> usize {
    let holds = |fan_out: usize| {
        let mut level = 1usize;
        let mut sum = 1usize;
        for _ in 0..levels {
            level = level.saturating_mul(fan_out);
            sum = sum.saturating_add(level);
        }
        sum >= nodes
    };
    (2..).find(|fan_out| holds(*fan_out)).unwrap_or(2)
}

/// How long until the last node has all, in seconds.
#[must_use]
pub fn time(
    machine: &Machine,
    copper: &CopperParameters,
    workload: &Workload,
    nodes: usize,
    run: Run,
    seed: u64,
) -> f64 {
    // Files above the limit are read from the file system by every node, in every run.
    let large = baselines::contents(machine, workload.large.value, nodes, seed);
    match run {
        Run::Second => copper.second_run.value.max(large),
        Run::Cold => copper.second_run.value + large + questions(machine, copper, workload, nodes),
    }
}

fn questions(machine: &Machine, copper: &CopperParameters, workload: &Workload, nodes: usize) -> f64 {
    let fan_out = fan_out(nodes, copper.levels.count());
    let mut levels = 0u32;
    let mut reached = 1;
    while reached < nodes {
        levels += 1;
        reached += fan_out.pow(levels);
    }
    // A node answers its children so many at once; the last of them counts.
    let rounds = (fan_out as f64 / copper.calls_at_once.value).ceil();
    let latency = machine.network.latency.value + machine.network.latency_between_groups.value;
    let level = 2.0 * latency + 2.0 * copper.call.value * rounds;
    // A whole file goes to all children over one link, and is there before it goes on.
    let bytes = workload.small.value * fan_out as f64 / machine.network.node_link.value;
    copper.questions.value * (copper.root_question.value + f64::from(levels) * level) + f64::from(levels) * bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{AURORA, COPPER, TORCH};

    #[test]
    fn the_fan_out_is_the_least_that_fits() {
        assert_eq!([31, 63, 8300, 100_000].map(|nodes| fan_out(nodes, 5)), [2, 2, 6, 10]);
    }

    #[test]
    fn it_stays_near_constant_until_large_files_count() {
        let cold = |nodes| time(&AURORA, &COPPER, &TORCH, nodes, Run::Cold, 1);
        assert!(cold(2048) < 1.3 * cold(32), "{} and {}", cold(2048), cold(32));
        assert!(cold(100_000) > 2.0 * cold(2048), "{} and {}", cold(100_000), cold(2048));
    }
}
