//! A whole job of cores in virtual time against a reference model: whatever is asked, in whatever order messages
//! travel, every answer is right or the error that was put in, everything is answered within its deadline, and the
//! backing file system sees each listing, page and chunk once.

use std::time::Duration;

use forebay_random::Random;
use forebay_sim::faults::Fault;
use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::Program;
use forebay_sim::setup::Setup;
use forebay_types::{Extent, Time};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn setup(nodes: usize, fan_out: u32, budget_bytes: u64) -> Setup {
    let (roots, stripe_fan_out, turns) = (1, fan_out, usize::MAX);
    Setup { nodes, roots, fan_out, stripe_fan_out, budget_bytes, turns, ..Setup::default() }
}

fn programs(model: &Model, nodes: usize, seed: u64, count: usize) -> Vec<Program> {
    let mut random = Random::new(seed);
    (0..count).map(|_| Program::random(model, nodes, &mut random, Time(0))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_faults_every_answer_is_right_and_the_backing_is_asked_once(seed: u64, nodes in 1usize..20, fan_out in 1u32..5) {
        let model = Model::new(seed);
        let mut job = Job::new(&model, setup(nodes, fan_out, 512 * MIB), seed);
        job.run(programs(&model, nodes, seed, 120));
        prop_assert_eq!(job.wrong(), Vec::<String>::new());
        prop_assert_eq!(job.failed(), 0);
        prop_assert_eq!(job.asked_more_than_once(), Vec::<String>::new());
    }

    /// Prefetches and demand requests share reads: no object is read for one that the other has read.
    #[test]
    fn parcels_come_to_every_node_and_cost_the_backing_nothing_more(
        seed: u64, nodes in 1usize..20, roots in 1u32..5, fan_out in 1u32..5
    ) {
        let model = Model::new(seed);
        let forest = Setup { roots, prefill: true, ..setup(nodes, fan_out, 512 * MIB) };
        let mut job = Job::new(&model, forest, seed);
        job.run(programs(&model, nodes, seed, 120));
        prop_assert_eq!(job.wrong(), Vec::<String>::new());
        prop_assert_eq!(job.settle(Duration::from_secs(60)), Vec::<String>::new());
        prop_assert_eq!(job.asked_more_than_once(), Vec::<String>::new());
        let parcels = job.parcels_count() * nodes as u64;
        prop_assert_eq!(job.sum(|core| core.counters().parcels), parcels);
        prop_assert_eq!(job.sum(|core| core.counters().parcels_failed), 0);
    }

    /// Priority travels with a request, and after it. A backing file system that takes one request at a time gives a turn to
    /// one asked ahead only where no program waits for its answer, at whatever node; and no node takes a request asked
    /// ahead for a program's.
    #[test]
    fn what_programs_wait_for_is_heard_of_at_the_backing(
        seed: u64, nodes in 2usize..20, roots in 1u32..5, fan_out in 1u32..5, turns in 1usize..3
    ) {
        let model = Model::new(seed);
        let forest = Setup { roots, turns, prefill: true, ..setup(nodes, fan_out, 512 * MIB) };
        let mut job = Job::new(&model, forest, seed);
        // While it answers nothing, all that is asked waits for a turn.
        job.plan(Time(0), Fault::BackingHangs(Duration::from_secs(1)));
        job.run(programs(&model, nodes, seed, 120));
        prop_assert_eq!(job.wrong(), Vec::<String>::new());
        prop_assert_eq!(job.unheard(), Vec::<String>::new());
        let mut alone = Job::new(&model, forest, seed);
        prop_assert_eq!(alone.settle(Duration::from_secs(60)), Vec::<String>::new());
        prop_assert_eq!((alone.demand_turns(), alone.sum(|core| core.counters().parcels_failed)), (0, 0));
    }

    #[test]
    fn with_a_tiny_budget_every_answer_is_still_right(seed: u64, nodes in 1usize..9) {
        let model = Model::new(seed);
        let mut job = Job::new(&model, setup(nodes, 2, 2 * MIB), seed);
        job.run(programs(&model, nodes, seed, 80));
        prop_assert_eq!(job.wrong(), Vec::<String>::new());
        prop_assert_eq!(job.failed(), 0);
        prop_assert!(job.kept_bytes_max() <= 2 * MIB);
    }

    #[test]
    fn errors_are_told_and_never_kept(seed: u64, nodes in 1usize..12) {
        let model = Model::new(seed);
        let mut job = Job::new(&model, setup(nodes, 2, 512 * MIB), seed);
        job.let_backing_fail(10);
        job.run(programs(&model, nodes, seed, 80));
        prop_assert_eq!(job.wrong(), Vec::<String>::new());
        job.let_backing_fail(0);
        // Requests of the time when it failed still report so.
        prop_assert_eq!(job.settle(Duration::from_secs(1)), Vec::<String>::new());
        let failed = job.failed();
        job.run(programs(&model, nodes, seed, 80));
        prop_assert_eq!(job.wrong(), Vec::<String>::new());
        prop_assert_eq!(job.failed(), failed, "an error was remembered after its cause had gone");
    }

    #[test]
    fn interrupted_requests_are_answered_and_disturb_nobody(seed: u64, nodes in 1usize..9) {
        let model = Model::new(seed);
        let mut job = Job::new(&model, setup(nodes, 2, 512 * MIB), seed);
        job.interrupt_every(5);
        job.run(programs(&model, nodes, seed, 80));
        prop_assert_eq!(job.wrong(), Vec::<String>::new());
    }
}

/// Every node reads every file in the order of names; once they are seen to do so, files come in bundles, which fail
/// like everything else and are then asked for one by one.
#[test]
fn files_that_are_all_read_come_in_bundles_and_are_right() {
    for backing_error_percent in [0, 10] {
        let model = Model::packages(1);
        let mut job = Job::new(&model, setup(7, 2, 512 * MIB), 1);
        job.let_backing_fail(backing_error_percent);
        for number in 0..80 {
            job.run((0..7).map(|node| Program::whole_file(&model, node, number)).collect());
        }
        assert_eq!(job.wrong(), Vec::<String>::new());
        if backing_error_percent == 0 {
            assert_eq!(job.bundles(), 8 * 6, "one for each package on each of six links");
            assert_eq!(job.messages(), 180, "as many as when a bundle was a request");
            assert_eq!(job.asked_more_than_once(), Vec::<String>::new());
        }
    }
}

/// Objects that one node has used cost the others nothing, whether they follow or run beside it. Most of its own are prefetched
/// before they are needed, so that it does not wait for the backing file system each time. Nodes that run beside each
/// other ask for bundles, whose ten files are read at once, for one wait.
#[test]
fn the_first_nodes_accesses_lead_the_others() {
    let model = Model::packages(1);
    let run = |job: &mut Job, number, nodes: std::ops::Range<usize>| {
        job.run(nodes.map(|node| read(&model, node, number)).collect());
    };
    let waits = |job: &Job| job.sum(|core| core.counters().dispatch.asked_backing - core.counters().prefetch_issued);
    let (mut first, mut together) =
        (Job::new(&model, setup(7, 2, 512 * MIB), 1), Job::new(&model, setup(7, 2, 512 * MIB), 1));
    for number in 0..80 {
        run(&mut first, number, 6..7);
        run(&mut together, number, 0..7);
    }
    let (asked, waited) = (first.sum(|core| core.counters().dispatch.asked_backing), waits(&first));
    for number in 0..80 {
        run(&mut first, number, 0..6);
    }
    assert_eq!(first.sum(|core| core.counters().dispatch.asked_backing), asked, "the others find all of it");
    for (job, name, share) in [(&first, "one after the other", 4), (&together, "together", 2)] {
        let early = (job.sum(|core| core.counters().prefetch_issued), job.sum(|core| core.counters().prefetch_used));
        println!("{name}: {asked} requests, waited for {}, early and used {early:?}", waits(job));
        assert_eq!(job.asked_more_than_once(), Vec::<String>::new());
        assert!(share * waits(job) <= asked, "{} of {asked} requests were waited for", waits(job));
        assert_eq!(early.0, early.1, "each program reads everything");
    }
    assert!(waited > 0 && first.wrong().is_empty() && together.wrong().is_empty());
}

/// The chunks of a large file come another way than its listing. A node that finds it changed tells those that would
/// report the old version again. So the next program that opens the file finds it as it is.
#[test]
fn a_large_file_that_has_changed_is_told_once_at_each_node() {
    let model = Model::new(5);
    let large = |number: &u64| model.nodes[&model.file(*number).unwrap()].attributes.size_bytes > 2 << 20;
    let number = (0..).find(large).unwrap();
    for roots in [1, 3, 8] {
        let forest = Setup { roots, stripe_fan_out: 2, ..setup(20, 3, 512 * MIB) };
        let mut job = Job::new(&model, forest, 5);
        // The beginning is known everywhere before it changes, the rest nowhere.
        let beginning =
            |node| Program { extent: Extent { offset_bytes: 0, len_bytes: 1 }, ..read(&model, node, number) };
        job.run((0..20).map(beginning).collect());
        job.plan(Time(0), Fault::Change(number));
        for node in (0..20).rev() {
            let before = job.stale();
            job.run(vec![read(&model, node, number)]);
            assert!(job.stale() <= before + 1);
            let told = job.stale();
            job.run(vec![read(&model, node, number)]);
            assert_eq!(job.stale(), told, "node {node} of a forest with {roots} roots was told the old version again");
        }
        assert!(job.stale() > 0 && job.wrong().is_empty(), "{:?}", job.wrong());
    }
}

fn read(model: &Model, node: usize, number: u64) -> Program {
    Program::whole_file(model, node, number as usize)
}

/// Whatever the forest is like, each listing and chunk is read once, by the root of its tree.
#[test]
fn every_object_is_read_by_the_root_of_its_tree() {
    let model = Model::new(7);
    for (roots, nodes) in [(1, 20), (3, 20), (8, 40), (8, 73)] {
        let forest = Setup { roots, stripe_fan_out: 4, ..setup(nodes, 8, 512 * MIB) };
        let mut job = Job::new(&model, forest, 5);
        job.run(programs(&model, nodes, 5, 600));
        assert_eq!(job.wrong(), Vec::<String>::new());
        assert_eq!(job.asked_more_than_once(), Vec::<String>::new());
        assert_eq!(job.readers().len(), roots as usize, "each root has its part");
    }
}

#[test]
fn a_leaf_keeps_no_chunk_that_its_kernel_has_read() {
    let model = Model::new(1);
    let mut job = Job::new(&model, setup(3, 2, 512 * MIB), 1);
    job.run((0..200).map(|number| Program::whole_file(&model, 2, number)).collect());
    assert_eq!(job.wrong(), Vec::<String>::new());
    assert_eq!(job.kept_chunks(2), 0, "the leaf's page cache has them");
    assert!(job.kept_chunks(0) > 0, "the root keeps them for other children");
}
