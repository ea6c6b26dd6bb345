//! The scale model: that its curves have the shapes that were measured, that it counts what it moves, that a seed is a
//! result, and that it asks what the simulator of faults asks.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use forebay_overlay::{Forest, Shape};
use forebay_scale::baselines::{self, Run};
use forebay_scale::parameters::{AURORA, COPPER, TORCH};
use forebay_scale::{
    Figures, FileSystemParameters, Grain, Loss, Machine, Replay, SCENARIOS, Storm, Workload, copper, default_forest,
    find, svg,
};
use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::Program;
use forebay_sim::setup::Setup;
use forebay_types::Kind;

/// Coarser than the scenarios: these tests run unoptimised.
const COARSE: Grain = Grain { small: 16, large: 32 };

fn storm(nodes: usize, roots: u32) -> Storm<'static> {
    let forest = Forest::new(Shape { node_count: nodes as u32, roots, fan_out: 8, stripe_fan_out: 4 }).unwrap();
    let (machine, workload, grain) = (&AURORA, &TORCH, COARSE);
    Storm { machine, workload, grain, forest, nodes, seed: 1, is_known: false, losses: &[] }
}

fn cold(nodes: usize, roots: u32) -> Figures {
    let figures = storm(nodes, roots).run();
    assert_eq!((figures.ended, figures.failed, figures.stuck), (nodes, 0, 0));
    figures
}

#[test]
fn direct_grows_with_the_nodes_and_copper_s_design_and_forebay_do_not() {
    let direct = |nodes| baselines::direct(&AURORA, &TORCH, nodes, Run::Cold, 1);
    let copper = |nodes| copper::time(&AURORA, &COPPER, &TORCH, nodes, Run::Cold, 1);
    let forebay = |nodes| cold(nodes, 8).last_seconds;
    assert!((1.8..2.2).contains(&(direct(2048) / direct(1024))));
    assert!(copper(2048) < 1.3 * copper(32));
    assert!(copper(100_000) > 2.0 * copper(2048), "large files, which every node reads for itself, limit it");
    let (few, more) = (forebay(32), forebay(256));
    assert!(more < 1.3 * few, "{few} and {more}");
    assert!(more < direct(256) && more < copper(256));
}

#[test]
fn a_seed_is_a_result() {
    let times = [7, 7, 8].map(|seed| {
        let figures = Storm { seed, ..storm(40, 4) }.run();
        (figures.last_seconds, figures.events)
    });
    assert_eq!(times[0], times[1]);
    assert_ne!(times[1], times[2]);
}

#[test]
fn what_nodes_get_is_what_others_and_the_file_system_sent() {
    let workload = Workload { absent_names: TORCH.absent_names.but(0.0, "a test"), ..TORCH };
    for (nodes, roots) in [(1, 1), (24, 1), (24, 8)] {
        let figures = Storm { workload: &workload, ..storm(nodes, roots) }.run();
        let contents = TORCH.small.value + TORCH.large.value;
        let (sent, received) = (figures.sent.iter().sum::<u64>() as f64, figures.received_bytes as f64);
        let backing = figures.backing_bytes as f64;
        assert!((0.99..1.02).contains(&(backing / contents)), "the file system is read once: {backing}");
        // Below a single root chunks are slow enough to be asked of a second node, which sends them too.
        let once = received / (contents * nodes as f64);
        assert!(once > 0.99 && (once < 1.03 || figures.asked_again > 0), "each node gets all once: {received}");
        // Requests leave a node and do not count as received.
        assert!((0.99..1.01).contains(&(received / (sent + backing))), "{received} of {sent} and {backing}");
    }
}

#[test]
fn with_roots_for_all_stripes_every_link_carries_alike() {
    assert!(cold(128, 1).busiest_link() > 3.0, "one tree: its inner nodes carry all");
    let figures = cold(128, 8);
    assert!(figures.busiest_link() < 1.5, "{}", figures.busiest_link());
}

#[test]
fn programs_of_nodes_that_are_left_get_all() {
    let losses = [Loss { at_seconds: 0.4, nodes: vec![0, 5, 17] }];
    let figures = Storm { losses: &losses, ..storm(40, 4) }.run();
    assert_eq!((figures.ended, figures.failed, figures.stuck), (37, 0, 0));
    assert!(figures.asked_again > 0, "somebody asked a node that was lost");
    assert!(figures.last_seconds > cold(40, 4).last_seconds);
}

/// A time at which somebody was refused something is no figure of a start.
#[test]
fn a_start_that_fails_has_no_time() {
    assert!(cold(4, 1).all_seconds().is_some());
    let metadata_request = AURORA.file_system.metadata_request.but(1000.0, "a test: longer than any deadline");
    let machine = Machine { file_system: FileSystemParameters { metadata_request, ..AURORA.file_system }, ..AURORA };
    let figures = Storm { machine: &machine, ..storm(4, 1) }.run();
    assert!(figures.failed > 0 && figures.all_seconds().is_none(), "{figures:?}");
}

/// The model's forest is the daemon's, which is narrower where there are few roots.
#[test]
fn a_model_s_job_has_the_forest_that_a_daemon_s_has() {
    for (nodes, fan_out) in [(16, 4), (40, 5), (100, 8)] {
        let forest = default_forest(nodes);
        assert_eq!(forest.first().children(forest.first().root()).count(), fan_out, "{nodes} nodes");
    }
}

/// The simulator of faults moves contents and checks them; this one only counts. Over the same files, read in the same order,
/// both ask the file system for each listing and each file once, and ask each other about as often.
#[test]
fn it_asks_what_the_simulator_of_faults_asks() {
    const NODES: usize = 7;
    let model = Model::packages(1);
    let setup = Setup {
        nodes: NODES,
        roots: 1,
        fan_out: 2,
        stripe_fan_out: 2,
        budget_bytes: 512 << 20,
        turns: usize::MAX,
        ..Setup::default()
    };
    let mut faultless = Job::new(&model, setup, 1);
    (0..80).for_each(|number| {
        faultless.run((0..NODES).map(|node| Program::whole_file(&model, node, number)).collect());
    });
    assert_eq!(faultless.wrong(), &[] as &[String]);
    let forest = Forest::single(NODES as u32, 2).unwrap();
    let size = |kind, size_bytes| (kind == Kind::File).then_some(size_bytes);
    let paths = model.nodes.iter().filter(|(path, _)| !path.is_root());
    let files = paths.map(|(path, node)| (path, size(node.attributes.kind(), node.attributes.size_bytes)));
    let scaled = Replay::of_files(files, &AURORA).run(&AURORA, forest, NODES, 1);
    assert_eq!(scaled.asked_backing, faultless.sum(|core| core.counters().dispatch.asked_backing));
    let peers = faultless.sum(|core| core.counters().dispatch.asked_peers - core.counters().bundled) as f64;
    let ratio = scaled.questions as f64 / peers;
    assert!((0.8..1.25).contains(&ratio), "{} questions here, {peers} there", scaled.questions);
}

#[test]
fn every_scenario_runs_and_can_be_drawn() {
    for scenario in &SCENARIOS {
        let outcome = scenario.run(&[24], 1);
        assert!(outcome.rows.len() > 1, "{}", scenario.name);
        assert!(outcome.rows.iter().all(|row| row.len() == outcome.rows[0].len()), "{}", scenario.name);
        assert!(!outcome.parameters.is_empty() && outcome.parameters.iter().all(|stated| !stated.source.is_empty()));
        assert!(
            scenario.takes_one() == outcome.curves.is_empty(),
            "{}: a plot is over numbers of nodes",
            scenario.name
        );
        assert!(outcome.curves.is_empty() || svg(&outcome).contains(&outcome.curves[0].label));
    }
    assert!(find("nonsense").is_none());
}

#[test]
fn readiness_of_ten_thousand_daemons_is_known_within_a_second() {
    let outcome = find("start").unwrap().run(&[10_000], 1);
    assert_eq!(outcome.bars.len(), 1);
    assert!(outcome.bars[0].is_met(), "{}", outcome.bars[0].line());
}
