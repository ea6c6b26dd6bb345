//! Promises of the documents in seconds and in requests, in virtual time: programs that are killed, the state of a job that has
//! lost nodes, nodes that missed a refresh, and the cost of `--revalidate`.

use std::time::Duration;

use forebay_overlay::Tree;
use forebay_sim::faults::{Alteration, Fault};
use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::{Program, new_name};
use forebay_sim::reached::Reach;
use forebay_sim::setup::Setup;
use forebay_types::{Extent, NodeRank, Time};

fn setup(nodes: usize) -> Setup {
    Setup { nodes, fan_out: 2, stripe_fan_out: 2, ..Setup::default() }
}

fn job(nodes: usize) -> Job {
    Job::new(&Model::new(11), setup(nodes), 5)
}

fn ms(ms: u64) -> Time {
    Time(0).after(Duration::from_millis(ms))
}

/// A program that looks up a name that is not in the root directory.
fn looks_for_nothing(node: usize, starts: Time) -> Program {
    let extent = Extent { offset_bytes: 0, len_bytes: 0 };
    Program { node, names: vec![b"absent".to_vec()], extent, is_direct: false, starts }
}

/// Programs at a leaf get a signal that they handle, while the backing file system hangs until the fifteenth second, and half
/// a second later one that ends them, of which the kernel tells the daemon nothing.
fn job_with_programs_that_are_killed(are_hidden: bool) -> Job {
    let mut job = job(7);
    job.plan(Time(0), Fault::BackingHangs(Duration::from_secs(15)));
    job.interrupt_every(1);
    job.kill_after_ms(500);
    if are_hidden {
        job.hide_programs();
    }
    job.run((0..20).map(|number| looks_for_nothing(6, ms(1000 + 37 * number))).collect());
    assert_eq!(job.wrong(), Vec::<String>::new());
    job
}

#[test]
fn a_program_that_is_killed_ends_within_200_ms_while_the_backing_hangs() {
    let job = job_with_programs_that_are_killed(false);
    assert_eq!(job.reached().of(Reach::Interrupted), 20);
    // Its first signal comes within 10 ms.
    assert!((500..=710).contains(&job.longest().as_millis()), "{:?}", job.longest());
}

/// Outside of the daemon's pid namespace, or hidden by `hidepid`.
#[test]
fn a_program_that_the_daemon_cannot_see_ends_with_its_request() {
    let job = job_with_programs_that_are_killed(true);
    assert_eq!(job.reached().of(Reach::Interrupted), 0);
    assert!(job.longest() > Duration::from_millis(13_900), "{:?}", job.longest());
}

/// The longest that a status takes without faults: a message takes up to 10 ms, and there are some on the way down and up.
const CALM: Duration = Duration::from_millis(400);

const SECOND: Duration = Duration::from_secs(1);

/// How long `status` takes, asked of a node, when these are stopped.
fn status_takes(asked: usize, stopped: &[NodeRank]) -> Duration {
    let mut job = job(15);
    stopped.iter().for_each(|rank| job.plan(Time(0), Fault::Pause(rank.0 as usize)));
    job.settle(5 * SECOND);
    job.status_takes(asked)
}

/// A silent node is asked whether it is there, and has a second to say so; then those below it are asked in its place.
#[test]
fn a_silent_node_costs_status_a_second_and_one_below_it_another() {
    let tree = Tree::new(15, 2, NodeRank(0)).unwrap();
    let root = NodeRank(0);
    let [first, second] = tree.children(root).collect::<Vec<_>>()[..] else { panic!("two children") };
    let below_first = tree.children(first).next().unwrap();
    let leaf = tree.children(tree.children(second).next().unwrap()).next().unwrap();
    for (asked, stopped, seconds) in [
        (root, &[][..], 0),
        (leaf, &[], 0),
        (root, &[first], 1),
        (root, &[first, second], 1),
        (leaf, &[root], 1),
        (root, &[first, below_first], 2),
        (leaf, &[root, first, below_first], 3),
    ] {
        let took = status_takes(asked.0 as usize, stopped);
        let expected = seconds * SECOND..=seconds * SECOND + CALM;
        assert!(expected.contains(&took), "node {asked} asked, {stopped:?} stopped: {took:?}");
    }
}

/// Whether the last of seven nodes makes up for a refresh of the fifth second within some time, after a fault that it has
/// slept through and that is mended then.
fn makes_up_within(fault: Fault, mended: Fault, at_ms: u64, within: Duration) -> bool {
    let mut job = job(7);
    job.plan(ms(3000), fault);
    job.plan(ms(5000), Fault::Refresh(0));
    job.plan(ms(at_ms), mended);
    job.settle(Duration::from_millis(at_ms - 1));
    assert_eq!(job.refreshed().iter().map(|done| done.unreached.clone()).collect::<Vec<_>>(), [[6]]);
    assert_eq!(job.sum(|core| core.counters().refreshes_missed), 0, "it has not heard of it yet");
    job.settle(within);
    job.sum(|core| core.counters().refreshes_missed) == 1
}

/// No program asks anything: the node asks its parent whether it is there, every two seconds.
#[test]
fn a_node_that_missed_a_refresh_makes_up_for_it_within_two_seconds() {
    for at_ms in (9_000..13_000).step_by(130) {
        let within = Duration::from_millis(2_200);
        assert!(makes_up_within(Fault::Pause(6), Fault::Resume(6), at_ms, within), "goes on after {at_ms} ms");
    }
}

/// One that has lost all others asks them less and less often.
#[test]
fn a_node_that_was_cut_off_for_long_makes_up_for_a_refresh_within_fifteen_seconds() {
    for at_ms in (60_000..80_000).step_by(1_300) {
        let within = Duration::from_millis(15_200);
        assert!(makes_up_within(Fault::Partition(6), Fault::Join, at_ms, within), "joined after {at_ms} ms");
    }
}

/// The kernel forgets names with their directory's own name, and the root has none.
#[test]
fn a_name_that_was_absent_from_the_root_is_there_after_a_refresh() {
    let mut job = job(7);
    // Of these numbers, it is a file in the root, and all that is refreshed.
    job.plan(ms(2000), Fault::Alter(Alteration::Create, 0));
    job.plan(ms(3000), Fault::Refresh(0));
    let look = |node, starts| Program { names: vec![new_name(0)], ..looks_for_nothing(node, ms(starts)) };
    job.run((0..7).flat_map(|node| [look(node, 1000), look(node, 10_000)]).collect());
    assert_eq!(job.refreshes_completed(), 1);
    assert_eq!(job.wrong(), Vec::<String>::new());
}

/// Programs on all seven nodes look at one directory ten times a second. Each level of the tree and the kernels believe what
/// they were told for a quarter of the interval.
#[test]
fn revalidation_costs_depth_and_two_listings_per_directory_and_interval() {
    const INTERVALS: u64 = 10;
    let interval = Duration::from_secs(4);
    let mut job = Job::new(&Model::new(11), Setup { revalidate: Some(interval), ..setup(7) }, 5);
    let steps = INTERVALS * interval.as_millis() as u64 / 100;
    let programs = (0..steps).flat_map(|step| (0..7).map(move |node| looks_for_nothing(node, ms(100 * step))));
    job.run(programs.collect());
    assert_eq!(job.wrong(), Vec::<String>::new());
    let depth = u64::from(Tree::new(7, 2, NodeRank(0)).unwrap().depth_max());
    let (reads, allowed) = (job.sum(|core| core.counters().dispatch.asked_backing), (depth + 2) * INTERVALS);
    assert!((allowed / 2..=allowed + 1).contains(&reads), "{reads} listings, {allowed} allowed");
    assert_eq!(job.readers().len(), 1, "by the root alone");
}
