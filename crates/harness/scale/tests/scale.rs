//! The scale model: that its curves have the shapes that were measured, that it counts what it moves, that a seed is a
//! result, and that it asks what the simulator of faults asks.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use forebay_overlay::{Forest, Shape};
use forebay_scale::baselines::{self, Run};
use forebay_scale::parameters::{AURORA, TEST_BED, TORCH};
use forebay_scale::{
    DaemonParameters, Figures, FileSystemParameters, Grain, Loss, Machine, Replay, SCENARIOS, Storm, Workload,
    default_forest, find, svg,
};
use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::Program;
use forebay_sim::setup::Setup;
use forebay_types::{CHUNK_BYTES, Kind};

/// Coarser than the scenarios: these tests run unoptimised.
const COARSE: Grain = Grain { small: 16, large: 32 };

fn storm(nodes: usize, roots: u32) -> Storm<'static> {
    let forest = Forest::new(Shape {
        node_count: nodes as u32,
        roots,
        fan_out: 8,
        stripe_fan_out: 4,
        has_homes: false,
        row_chunks: 1,
    })
    .unwrap();
    let (machine, workload, grain) = (&AURORA, &TORCH, COARSE);
    Storm { machine, workload, grain, forest, nodes, seed: 1, is_known: false, losses: &[] }
}

fn cold(nodes: usize, roots: u32) -> Figures {
    let figures = storm(nodes, roots).run();
    assert_eq!((figures.ended, figures.failed, figures.stuck), (nodes, 0, 0));
    figures
}

/// Of the other ways there are formulas alone, which would say what their author has put in.
#[test]
fn forebay_s_time_hardly_grows_with_the_nodes() {
    let [few, more] = [32, 256].map(|nodes| cold(nodes, 8).last_seconds);
    assert!(more < 1.3 * few, "{few} and {more}");
    assert!(more < baselines::direct(&AURORA, &TORCH, 256, Run::Cold, 1));
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
fn bytes_that_nodes_get_are_those_that_others_and_the_file_system_sent() {
    let workload = Workload { absent_names: TORCH.absent_names.but(0.0, "a test"), ..TORCH };
    for (nodes, roots) in [(1, 1), (24, 1), (24, 8)] {
        let figures = Storm { workload: &workload, ..storm(nodes, roots) }.run();
        let contents = TORCH.small.value + TORCH.large.value;
        let (sent, received) = (figures.sent.iter().sum::<u64>() as f64, figures.received_bytes as f64);
        let backing = figures.backing_bytes as f64;
        assert!((0.99..1.02).contains(&(backing / contents)), "the file system is read once: {backing}");
        // Below a single root chunks are slow enough to be asked of a second node, which may send each of them too.
        let wanted = contents * nodes as f64;
        let twice = figures.asked_again as f64 * f64::from(COARSE.large) * CHUNK_BYTES as f64;
        assert!(
            (0.99 * wanted..1.03 * wanted + twice).contains(&received),
            "each node gets all once: {received} of {wanted}, {} asked for again",
            figures.asked_again
        );
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
    let scaled = replay_of(&model, &AURORA).run(&AURORA, forest, NODES, 1, None);
    assert_eq!(scaled.asked_backing, faultless.sum(|core| core.counters().dispatch.asked_backing));
    let peers = faultless.sum(|core| core.counters().dispatch.asked_peers - core.counters().bundled) as f64;
    let ratio = scaled.questions as f64 / peers;
    assert!((0.8..1.25).contains(&ratio), "{} questions here, {peers} there", scaled.questions);
}

/// All files of a model tree, one after the other.
fn replay_of(model: &Model, machine: &Machine) -> Replay {
    let size = |kind, size_bytes| (kind == Kind::File).then_some(size_bytes);
    let paths = model.nodes.iter().filter(|(path, _)| !path.is_root());
    Replay::of_files(
        paths.map(|(path, node)| (path, size(node.attributes.kind(), node.attributes.size_bytes))),
        machine,
    )
}

/// Whether their number costs time is a matter of the processors: of those that all share, and not of each one's own.
#[test]
fn nodes_that_share_processors_wait_for_them() {
    let model = Model::packages(1);
    let on = |shared: f64| {
        let shared_processors = TEST_BED.daemon.shared_processors.but(shared, "a test");
        let machine = Machine { daemon: DaemonParameters { shared_processors, ..TEST_BED.daemon }, ..TEST_BED };
        let replay = replay_of(&model, &machine);
        [4, 32].map(|nodes| replay.run(&machine, Forest::single(nodes, 4).unwrap(), nodes as usize, 1, None))
    };
    let [few, many] = on(2.0);
    let [few_apart, many_apart] = on(0.0);
    let busy = |figures: &Figures| {
        figures.cpu.programs_seconds + figures.cpu.daemons_seconds + figures.cpu.file_system_seconds
    };
    assert!(busy(&many) <= 2.0 * many.last_seconds, "two processors do no more: {many:?}");
    assert!((busy(&many) / busy(&many_apart) - 1.0).abs() < 0.1, "the work is the same");
    assert!(many.last_seconds > 1.5 * few.last_seconds, "{} and {}", few.last_seconds, many.last_seconds);
    assert!(
        many_apart.last_seconds < 1.2 * few_apart.last_seconds,
        "{} and {}",
        few_apart.last_seconds,
        many_apart.last_seconds
    );
}

fn on_shared(replay: &Replay, shared: f64, nodes: u32, packed_bytes: Option<u64>) -> Figures {
    let shared_processors = TEST_BED.daemon.shared_processors.but(shared, "a test");
    let machine = Machine { daemon: DaemonParameters { shared_processors, ..TEST_BED.daemon }, ..TEST_BED };
    let figures = replay.run(&machine, Forest::single(nodes, 4).unwrap(), nodes as usize, 1, packed_bytes);
    assert_eq!((figures.failed, figures.stuck), (0, 0), "{nodes} nodes on {shared} processors");
    figures
}

/// Shared processors do no more than there is time for, and fewer of them make no start shorter. (A node with a processor of
/// its own is another thing: there a daemon has just one.)
#[test]
fn sharing_fewer_processors_is_never_faster() {
    let replay = replay_of(&Model::packages(1), &TEST_BED);
    for packed_bytes in [None, Some(40_000)] {
        for nodes in [1, 4, 12] {
            let unshared = on_shared(&replay, 1000.0, nodes, packed_bytes).last_seconds;
            for shared in [1.0, 2.0, 8.0] {
                let figures = on_shared(&replay, shared, nodes, packed_bytes);
                let (most, what) = (shared * figures.last_seconds, format!("{nodes} nodes on {shared}: {figures:?}"));
                assert!(figures.cpu.all_seconds() <= most * 1.001, "{what}");
                // Requests that meet in another order may be coalesced otherwise: that moves a start a little either way.
                assert!(figures.last_seconds > 0.97 * unshared, "{what}, {unshared} without sharing");
            }
        }
    }
}

#[test]
fn more_nodes_on_the_same_processors_are_never_faster() {
    let replay = replay_of(&Model::packages(1), &TEST_BED);
    for packed_bytes in [None, Some(40_000)] {
        let times = [1, 2, 4, 8, 16, 32].map(|nodes| on_shared(&replay, 2.0, nodes, packed_bytes).last_seconds);
        assert!(times.is_sorted_by(|few, many| *many > 0.97 * few), "{times:?}");
        assert!(times[5] > 2.0 * times[1], "{times:?}");
    }
}

/// Service times that vary, with the same mean, are not what a start's time hangs on: many requests are waited for.
#[test]
fn service_times_that_vary_change_a_start_by_little() {
    let last = |spread: f64| {
        let metadata_spread = AURORA.file_system.metadata_spread.but(spread, "a test");
        let machine = Machine { file_system: FileSystemParameters { metadata_spread, ..AURORA.file_system }, ..AURORA };
        Storm { machine: &machine, ..storm(64, 8) }.run().last_seconds
    };
    let (same, varied) = (last(0.0), last(1.0));
    assert_ne!(same, varied);
    assert!((0.9..1.15).contains(&(varied / same)), "{same} and {varied}");
}

/// The costs of a parcel have their own numbers, and each of them is charged.
#[test]
fn each_cost_of_a_parcel_makes_a_start_longer() {
    let replay = replay_of(&Model::packages(1), &TEST_BED);
    let with = |daemon: DaemonParameters| {
        let machine = Machine { daemon, ..TEST_BED };
        let figures = replay.run(&machine, Forest::single(8, 4).unwrap(), 8, 1, Some(40_000));
        assert_eq!((figures.failed, figures.stuck), (0, 0));
        (figures.cpu.all_seconds(), figures.last_seconds)
    };
    let daemon = TEST_BED.daemon;
    let (cpu, seconds) = with(daemon);
    let more = [
        DaemonParameters { fill_chunk: daemon.fill_chunk.but(5e-3, "a test"), ..daemon },
        DaemonParameters { store_gigabyte: daemon.store_gigabyte.but(2000.0, "a test"), ..daemon },
        DaemonParameters { unpack_gigabyte: daemon.unpack_gigabyte.but(2000.0, "a test"), ..daemon },
        DaemonParameters { kernel_walker: daemon.kernel_walker.but(5e-3, "a test"), ..daemon },
        DaemonParameters { make_parcel: daemon.make_parcel.but(0.5, "a test"), ..daemon },
        DaemonParameters { launch_node: daemon.launch_node.but(0.5, "a test"), ..daemon },
    ];
    for (number, daemon) in more.into_iter().enumerate() {
        let (more_cpu, longer) = with(daemon);
        assert!(more_cpu > 1.2 * cpu && longer > seconds, "{number}: {more_cpu} of {cpu}, {longer} of {seconds}");
    }
}

#[test]
fn a_pack_of_a_replay_takes_its_bytes_over_once_and_messages_less() {
    let model = Model::packages(1);
    let replay = replay_of(&model, &TEST_BED);
    let run = |packed_bytes| replay.run(&TEST_BED, Forest::single(4, 4).unwrap(), 4, 1, packed_bytes);
    let without = run(None);
    let packed_bytes = without.backing_bytes / 3;
    let with = run(Some(packed_bytes));
    assert!((with.backing_bytes as f64 / packed_bytes as f64 - 1.0).abs() < 0.1, "{}", with.backing_bytes);
    assert!(with.opens < without.opens && with.kernel_messages < without.kernel_messages, "{with:?}, {without:?}");
    assert_eq!((with.failed, with.stuck), (0, 0));
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
