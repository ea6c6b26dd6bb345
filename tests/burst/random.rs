//! Random operations come to the same as on another file system: on one node and on several, and whatever daemons die.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::require;

use crate::bed::Bed;

const PATIENCE: Duration = Duration::from_secs(60);

/// Operations of a seed.
const OPERATIONS: &str = "600";

#[test]
fn on_one_node() {
    require!(Fuse, Root, Command("python3"));
    for seed in 1..=8 {
        let _ = same_as_elsewhere(1, seed, false);
    }
}

/// Each operation on another of four nodes.
#[test]
fn on_four_nodes() {
    require!(Fuse, Root, Command("python3"));
    for seed in 1..=4 {
        let _ = same_as_elsewhere(4, seed, false);
    }
}

/// Daemons are killed at random moments, the leader's and others', while programs change the tree and while it lands. `make test-write`
/// has as many as there are to be shown. `FOREBAY_TEST_SEED` begins with another seed.
#[test]
fn whatever_daemons_die() {
    require!(Fuse, Root, Command("python3"));
    let number = |name: &str, default| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (mut seed, mut deaths) = (number("FOREBAY_TEST_SEED", 1) - 1, 0);
    while deaths < number("FOREBAY_TEST_DEATHS", 12) {
        seed += 1;
        deaths += same_as_elsewhere(2, seed, true);
    }
    println!("{deaths} daemons were killed in runs of {OPERATIONS} operations, the last of seed {seed}");
}

/// How many daemons died.
#[track_caller]
fn same_as_elsewhere(nodes: u32, seed: u32, with_deaths: bool) -> u32 {
    let bed = Bed::of(nodes);
    let [plain, said] = ["plain", "said"].map(|name| bed.job.sandbox.base().join(name));
    fs::create_dir(&plain).unwrap();
    let operations = |directories: Vec<PathBuf>| {
        let mut command = Command::new("python3");
        let directories = env::join_paths(directories).unwrap();
        command.arg(file_of_tests("burst/operations.py")).arg(directories).args([&seed.to_string(), OPERATIONS]);
        command
    };
    let mut deaths = Deaths { bed: &bed, nodes, random: seed.wrapping_mul(0x9e37_79b9) | 1, count: 0 };
    let mut running = operations((0..nodes).map(|node| bed.mount_of(node)).collect())
        .stdin(Stdio::null())
        .stdout(fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let mut is_over = || running.try_wait().unwrap().is_some();
    let done = || fs::metadata(&said).unwrap().len();
    while with_deaths && !is_over() {
        let before = done();
        deaths.one();
        wait_until("the programs go on", PATIENCE, || done() > before || is_over());
    }
    assert!(running.wait().unwrap().success());
    let ours = fs::read_to_string(&said).unwrap();
    let theirs = run(&mut operations(vec![plain.clone(); nodes as usize])).good().text();
    same(&ours, &theirs, seed);
    if with_deaths {
        (0..2).for_each(|_| deaths.one());
    }
    bed.drain();
    same(&Bed::listing(&bed.backing()), &Bed::listing(&plain), seed);
    let count = deaths.count;
    bed.job.down();
    count
}

#[track_caller]
fn same(ours: &str, theirs: &str, seed: u32) {
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs, "seed {seed}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "seed {seed}");
}

/// Daemons that die.
struct Deaths<'a> {
    bed: &'a Bed,
    nodes: u32,
    random: u32,
    count: u32,
}

impl Deaths<'_> {
    /// A daemon of some node dies after some time, and is followed by another.
    fn one(&mut self) {
        let (pause, node) = (self.next() % 400, self.next() % self.nodes);
        std::thread::sleep(Duration::from_millis(pause.into()));
        let killed = self.bed.job.kill_daemon(node as usize);
        let follows = || self.bed.job.daemon(node as usize).is_some_and(|pid| pid != killed);
        wait_until("a daemon serves again", PATIENCE, follows);
        self.count += 1;
    }

    /// Xorshift.
    fn next(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }
}
