//! Refreshes: every node that is there takes every step, whoever leads and whatever his clock says, and nobody else is named.

use std::time::Duration;

use forebay_overlay::Tree;
use forebay_random::Random;
use forebay_sim::faults::Fault;
use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::Program;
use forebay_sim::setup::Setup;
use forebay_types::{NodeRank, Time};

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
            ..Setup::default()
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
        assert_eq!(unreached(&job), vec![Vec::<u32>::new(); REFRESHES as usize], "seed {seed}");
    }
}

const SECOND: u64 = 1_000_000_000;

/// The nodes that each refresh did not reach.
fn unreached(job: &Job) -> Vec<Vec<u32>> {
    job.refreshed().into_iter().map(|done| done.unreached).collect()
}

fn ms(ms: u64) -> Time {
    Time(0).after(Duration::from_millis(ms))
}

/// A job of one root, whose programs look everywhere from the fifth second on, after files have changed in the second.
fn job(model: &Model, nodes: usize, faults: Vec<(Time, Fault)>) -> Job {
    let setup = Setup {
        nodes,
        roots: 1,
        fan_out: 2,
        stripe_fan_out: 2,
        budget_bytes: 64 << 20,
        turns: usize::MAX,
        log: true,
        ..Setup::default()
    };
    let mut job = Job::new(model, setup, 5);
    let mut random = Random::new(3);
    (0..40).for_each(|_| job.plan(ms(1900), Fault::Change(random.next())));
    faults.into_iter().for_each(|(at, fault)| job.plan(at, fault));
    let mut program = |from: u64| {
        let starts = Time(from + random.below(SECOND / 2));
        Program::random(model, nodes, &mut random, starts)
    };
    let before: Vec<Program> = (0..300).map(|_| program(0)).collect();
    let after: Vec<Program> = (0..300).map(|_| program(5 * SECOND)).collect();
    job.run(before.into_iter().chain(after).collect());
    job
}

/// The leader where no node is lost, then the one in its place, and so on.
fn leaders(nodes: u32) -> Vec<usize> {
    let tree = Tree::new(nodes, 2, NodeRank(0)).unwrap();
    tree.root_candidates().map(|rank| rank.0 as usize).collect()
}

/// All of the job: what `Model::subtrees` makes of it.
const ALL: u64 = 0;

/// A leader that knows nothing of the refreshes before, and whose clock is behind, numbers above them all the same.
#[test]
fn a_leader_whose_clock_was_set_back_reaches_everybody() {
    for (nodes, is_first_back) in [(3, true), (3, false), (15, true), (15, false), (40, false)] {
        let model = Model::new(11);
        let [first, second, ..] = leaders(nodes as u32)[..] else { unreachable!("a job of {nodes} has two leaders") };
        let leader = if is_first_back { first } else { second };
        let mut faults = vec![(ms(1000), Fault::Refresh(ALL))];
        faults.extend([first, leader].map(|node| (ms(2500), Fault::Crash(node))));
        faults.push((ms(2500), Fault::SetBack(leader, Duration::from_secs(3600))));
        faults.extend([(ms(2600), Fault::Restart(leader)), (ms(3000), Fault::Refresh(ALL))]);
        let job = job(&model, nodes, faults);
        assert_eq!(job.wrong(), Vec::<String>::new());
        let dead = if is_first_back { Vec::new() } else { vec![first as u32] };
        assert_eq!(unreached(&job), [Vec::new(), dead], "{nodes} nodes, node {leader} leads");
    }
}

/// The tree's root is dead, and some that would lead in its place: who leads then reaches all that live, and does not ask
/// itself.
#[test]
fn a_leader_that_is_not_the_root_reaches_all_that_live() {
    for dead_count in 1..4 {
        let model = Model::new(11);
        let leaders = leaders(40);
        let mut dead = leaders[..dead_count].to_vec();
        let mut faults: Vec<(Time, Fault)> = dead.iter().map(|node| (ms(1000), Fault::Crash(*node))).collect();
        faults.push((ms(2000), Fault::Refresh(ALL)));
        let job = job(&model, 40, faults);
        assert_eq!(job.wrong(), Vec::<String>::new());
        dead.sort_unstable();
        let dead: Vec<u32> = dead.into_iter().map(|rank| rank as u32).collect();
        assert_eq!(unreached(&job), [dead], "node {} leads", leaders[dead_count]);
        let itself = format!("node {0} is asked by node {0}: ", leaders[dead_count]);
        assert!(!job.log().iter().any(|line| line.contains(&itself)));
    }
}

/// The root comes back while another leads in its place, and leads as well: neither leaves out what the other has told.
#[test]
fn two_that_lead_at_a_time_reach_everybody() {
    for back_after_ms in 0..40 {
        let model = Model::new(11);
        let back = 2000 + 3 * back_after_ms;
        let job = job(
            &model,
            7,
            vec![
                (ms(1000), Fault::Crash(0)),
                (ms(2000), Fault::Refresh(ALL)),
                (ms(back), Fault::Restart(0)),
                (ms(back + 1), Fault::Refresh(ALL)),
            ],
        );
        assert_eq!(job.wrong(), Vec::<String>::new(), "the root is back after {back_after_ms} ms");
        let unreached = unreached(&job);
        assert!(unreached.len() == 2 && unreached.iter().flatten().all(|rank| *rank == 0), "{unreached:?}");
    }
}
