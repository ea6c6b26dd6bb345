//! Jobs that lose nodes, ways and the backing file system for a while: a hundred histories, each by its seed.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_overlay::Tree;
use forebay_random::Random;
use forebay_sim::faults::Fault;
use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::Program;
use forebay_sim::reached::Reached;
use forebay_sim::scenario::{SEEDS_THAT_REACH_ALL, reports, run};
use forebay_sim::setup::Setup;
use forebay_types::{NodeRank, Time};

#[test]
fn every_answer_is_right_and_in_time_after_any_deaths() {
    let (mut failing, mut reached) = (String::new(), Reached::default());
    for report in reports(0..SEEDS_THAT_REACH_ALL, false) {
        reached.join(&report.reached);
        if !report.wrong.is_empty() {
            let seed = report.seed;
            let wrong = &report.wrong[..report.wrong.len().min(5)];
            failing += &format!("\nseed {seed}, faults {:?}: {wrong:#?}", report.faults);
            failing += &format!("\nagain, with a log: cargo run --release -p forebay-sim -- --seed {seed} --log\n");
        }
    }
    assert!(failing.is_empty(), "{failing}");
    assert!(reached.missed().is_empty(), "no history reaches {:?}", reached.missed());
}

/// The same seed gives the same history, or a failing one could not be looked at.
#[test]
fn a_seed_is_one_history() {
    let logs: Vec<Vec<String>> = (0..2).map(|_| run(7, true).log).collect();
    assert!(logs[0].len() > 100);
    assert_eq!(logs[0], logs[1]);
}

fn setup(nodes: usize) -> Setup {
    let (budget_bytes, turns) = (512 << 20, usize::MAX);
    Setup { nodes, roots: 1, fan_out: 2, stripe_fan_out: 2, budget_bytes, turns, ..Setup::default() }
}

fn programs(model: &Model, nodes: usize, count: usize, from: u64, to: u64) -> Vec<Program> {
    let mut random = Random::new(3);
    let mut one = || {
        let starts = Time(from + random.below(to - from));
        Program::random(model, nodes, &mut random, starts)
    };
    (0..count).map(|_| one()).collect()
}

const SECOND: u64 = 1_000_000_000;

/// A killed node resets its connections, so those below it go round it at once.
#[test]
fn a_killed_root_or_inner_node_holds_nobody_up() {
    for victim in [0, 2, 16, 18] {
        let model = Model::new(11);
        let mut job = Job::new(&model, setup(31), 5);
        job.plan(Time(SECOND), Fault::Crash(victim));
        job.run(programs(&model, 31, 300, 0, 3 * SECOND));
        assert_eq!(job.wrong(), Vec::<String>::new(), "node {victim} was killed");
        assert!(job.longest() < Duration::from_secs(2), "node {victim} was killed: {:?}", job.longest());
    }
}

/// A node that stops is silent: those below it wait until it has not answered whether it is there, once.
#[test]
fn a_stopped_node_is_bypassed_and_used_again_when_it_goes_on() {
    let model = Model::new(11);
    let mut job = Job::new(&model, setup(15), 5);
    job.plan(Time(SECOND), Fault::Pause(2));
    job.plan(Time(21 * SECOND), Fault::Resume(2));
    job.run(programs(&model, 15, 300, 0, 20 * SECOND).into_iter().filter(|program| program.node != 2).collect());
    assert_eq!(job.wrong(), Vec::<String>::new());
    assert!(job.longest() < Duration::from_secs(3), "{:?}", job.longest());
    assert!(job.is_suspected(2));
    job.run(programs(&model, 15, 300, 40 * SECOND, 80 * SECOND));
    assert_eq!(job.wrong(), Vec::<String>::new());
    assert!(!job.is_suspected(2), "a node that is back is used again");
}

/// A node that was silent for some seconds is used again within a second of its return: it is asked whether it is there
/// while it is away, and that request is answered when it goes on.
#[test]
fn a_node_that_is_back_is_used_again_within_a_second() {
    for away_ms in [2000, 2600, 3400] {
        let model = Model::new(11);
        let mut job = Job::new(&model, setup(15), 5);
        let back = Time(SECOND).after(Duration::from_millis(away_ms));
        job.plan(Time(SECOND), Fault::Pause(2));
        job.plan(back, Fault::Resume(2));
        let others = |program: &Program| program.node != 2;
        job.run(programs(&model, 15, 300, 0, SECOND + SECOND / 2).into_iter().filter(others).collect());
        let suspected_at = job.now();
        assert!(job.is_suspected(2) && suspected_at < back, "away for {away_ms} ms: noticed before {suspected_at:?}");
        job.settle(back.since(suspected_at) + Duration::from_secs(1));
        assert!(!job.is_suspected(2), "away for {away_ms} ms");
    }
}

/// A node does no work while it is stopped: its programs are not heard, and it hands nothing on.
#[test]
fn a_stopped_node_does_nothing() {
    let model = Model::new(11);
    let mut job = Job::new(&model, Setup { log: true, ..setup(15) }, 5);
    job.plan(Time(0), Fault::Pause(2));
    job.plan(Time(5 * SECOND), Fault::Resume(2));
    job.run((0..40).map(|number| Program { starts: Time(SECOND), ..Program::whole_file(&model, 2, number) }).collect());
    assert_eq!(job.wrong(), Vec::<String>::new());
    let of_it = |line: &String| line.contains(" asked by node 2:") || line.contains(" at node 2 is told ");
    let done: Vec<String> = job.log().into_iter().filter(of_it).collect();
    let seconds = |line: &String| line.split_whitespace().next().unwrap().parse::<f64>().unwrap();
    assert!(done.len() >= 40 && done.iter().all(|line| seconds(line) >= 5.0), "{:?}", done.first());
}

/// A host that is stopped and started again goes on with what was asked of it meanwhile.
#[test]
fn a_node_that_was_stopped_when_it_was_dead_serves_after_its_restart() {
    let model = Model::new(11);
    let mut job = Job::new(&model, setup(15), 5);
    for (second, fault) in [(1, Fault::Crash(2)), (2, Fault::Pause(2)), (5, Fault::Restart(2)), (9, Fault::Resume(2))] {
        job.plan(Time(second * SECOND), fault);
    }
    job.run(
        (0..40).map(|number| Program { starts: Time(3 * SECOND), ..Program::whole_file(&model, 2, number) }).collect(),
    );
    assert_eq!(job.wrong(), Vec::<String>::new());
}

/// While the backing file system hangs, nobody suspects the nodes that wait for it.
#[test]
fn a_backing_file_system_that_hangs_costs_no_node_its_name() {
    let model = Model::new(11);
    let mut job = Job::new(&model, setup(15), 5);
    job.plan(Time(0), Fault::BackingHangs(Duration::from_secs(15)));
    job.run(programs(&model, 15, 200, 0, SECOND));
    assert_eq!(job.wrong(), Vec::<String>::new());
    assert!((0..15).all(|node| !job.is_suspected(node)));
    assert_eq!(job.asked_more_than_once(), Vec::<String>::new());
}

/// Objects that programs need from the node that reads for theirs: the highest that lives above it, since it keeps what it has read. Each directory
/// on their paths needs a listing, and a page of attributes where that has none, or each name where it cannot be listed. Each file needs the
/// chunks that are read.
fn objects_wanted(model: &Model, programs: &[Program], reader_for: impl Fn(usize) -> usize) -> u64 {
    let mut objects = BTreeSet::new();
    for program in programs {
        let reader = reader_for(program.node);
        for at in 0..program.names.len() {
            let (dir, path) = (program.path(at), program.path(at + 1));
            let is_listable = model.nodes.get(&dir).is_some_and(|node| node.listable);
            objects.insert((reader, dir.clone(), 0));
            objects.insert((reader, if is_listable { dir } else { path }, 1));
        }
        let whole = program.path(program.names.len());
        let size_bytes = model.nodes.get(&whole).map_or(0, |node| node.attributes.size_bytes);
        let chunks = program.extent.clamped(size_bytes).chunks();
        objects.insert((reader, whole.clone(), 0));
        objects.extend(chunks.map(|(chunk, _)| (reader, whole.clone(), 2 + chunk.0)));
    }
    objects.len() as u64
}

/// A whole job that is cut off from all that may be root reads for itself, but no faster than it may.
#[test]
fn a_job_that_is_cut_off_is_no_storm() {
    let model = Model::new(11);
    let mut job = Job::new(&model, setup(100), 5);
    let tree = Tree::new(100, 2, NodeRank(0)).unwrap();
    tree.root_candidates().for_each(|root| job.plan(Time(0), Fault::Crash(root.0 as usize)));
    let started = |program: &Program| !tree.may_be_root(NodeRank(program.node as u32));
    let programs: Vec<Program> = programs(&model, 100, 1000, 0, 10 * SECOND).into_iter().filter(started).collect();
    let asks = |node: usize| {
        let living = tree.failover_order(NodeRank(node as u32)).filter(|other| !tree.may_be_root(*other));
        living.last().map_or(node, |last| last.0 as usize)
    };
    let wanted = objects_wanted(&model, &programs, asks);
    job.run(programs);
    assert_eq!(job.wrong(), Vec::<String>::new());
    let early = job.sum(|core| core.counters().prefetch_issued);
    let reads = job.sum(|core| core.counters().dispatch.asked_backing);
    println!("{reads} reads, {early} of them early, {wanted} wanted");
    assert!(reads > 0 && reads <= wanted + early, "{reads} reads, {early} early, {wanted} wanted");
}
