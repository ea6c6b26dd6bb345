//! Refreshes of a subtree while programs read elsewhere: every node takes every step, and nobody is blamed.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use forebay_sim::faults::Fault;
use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::Program;
use forebay_sim::random::Random;
use forebay_sim::setup::Setup;
use forebay_types::Time;

const NODES: usize = 24;
const REFRESHES: u64 = 40;

/// With more than one root, requests of one node travel beside the steps of a refresh: a node is asked by one that has
/// taken a step before it has itself.
#[test]
fn no_node_is_named_while_programs_read_elsewhere() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let model = Model::new(random.next());
        let setup = Setup {
            nodes: NODES,
            roots: 2 + random.below(6) as u32,
            fan_out: 2,
            stripe_fan_out: 2,
            budget_bytes: 64 << 20,
            turns: usize::MAX,
            prefill: false,
            log: false,
        };
        let mut job = Job::new(&model, setup, random.next());
        let span = Duration::from_secs(8);
        for number in 0..REFRESHES {
            let at = Time(0).after(Duration::from_millis(number * 200));
            job.plan(at, Fault::Change(random.next()));
            job.plan(at, Fault::Refresh(random.next()));
        }
        let programs = (0..1500)
            .map(|_| {
                let starts = Time(random.below(span.as_nanos() as u64));
                Program::random(&model, NODES, &mut random, starts)
            })
            .collect();
        job.run(programs);
        assert_eq!(job.settle(Duration::from_secs(30)), Vec::<String>::new());
        assert_eq!(job.wrong(), Vec::<String>::new(), "seed {seed}");
        assert_eq!(job.sum(|core| core.counters().refreshes_missed), 0, "seed {seed}: nobody has missed one");
        assert_eq!(job.refreshes_completed() as u64, REFRESHES, "seed {seed}");
    }
}
