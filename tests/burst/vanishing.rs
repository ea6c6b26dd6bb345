//! Stores that vanish at random moments, or are exchanged for one of another run, while programs write and it lands: no byte is ever another
//! one's, and what is gone is named.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use forebay_tests::program::{Finished, wait_until};
use forebay_tests::require;
use rustix::io::Errno;

use crate::bed::Bed;

const PATIENCE: Duration = Duration::from_secs(60);

/// The first has the tree, and keeps its store.
const NODES: u32 = 3;

/// Files that are written again and again.
const FILES: u64 = 12;

/// Every block says whose it is.
const BLOCK: usize = 64;

/// `FOREBAY_TEST_VANISHED` says how often a store does, `FOREBAY_TEST_SEED` with which seed it begins.
#[test]
fn whatever_stores_vanish() {
    require!(Fuse, Root);
    let number = |name: &str, default| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let other_run = OtherRun::new();
    let (mut seed, mut vanished) = (number("FOREBAY_TEST_SEED", 1) - 1, 0);
    while vanished < number("FOREBAY_TEST_VANISHED", 4) {
        seed += 1;
        vanished += one_job(&other_run, seed);
    }
    println!("{vanished} stores vanished, the last in the job of seed {seed}");
}

/// Stores of a job that was killed, and whose files have the same names.
struct OtherRun {
    bed: Bed,
}

impl OtherRun {
    fn new() -> Self {
        let mut bed = Bed::with(NODES, &["--drain", "manual"]);
        for file in 0..FILES {
            write(&bed, 1 + (file % 2) as u32, &name(file), &contents(file, 1_000_000, 3000));
        }
        bed.job.kill_all();
        Self { bed }
    }
}

fn name(file: u64) -> String {
    format!("f{file}")
}

/// So many blocks.
fn contents(file: u64, version: u64, blocks: u64) -> Vec<u8> {
    let block = |at: u64| {
        let mut block = format!("{file} {version} {at}").into_bytes();
        block.resize(BLOCK, b' ');
        block
    };
    (0..blocks).flat_map(block).collect()
}

/// Whether it could be: the store may just have gone.
fn write(bed: &Bed, node: u32, name: &str, bytes: &[u8]) -> bool {
    fs::write(bed.mount_of(node).join(name), bytes).is_ok()
}

struct Random(u64);

impl Random {
    /// Xorshift.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// How many stores vanished.
fn one_job(other_run: &OtherRun, seed: u64) -> u64 {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let policy = ["manual", "auto"][random.below(2) as usize];
    let bed = Bed::with(NODES, &["--drain", policy]);
    // Versions of a file that may be there; the last was written whole.
    let mut versions: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    let mut vanished = 0;
    for round in 0..4 {
        for _ in 0..FILES {
            let (file, node) = (random.below(FILES), random.below(NODES.into()) as u32);
            let bytes = contents(file, seed * 1000 + round, 1 + random.below(4000));
            if write(&bed, node, &name(file), &bytes) {
                versions.entry(file).or_default().push(bytes);
            } else {
                // As much of it as may be there: it is not looked at any more.
                versions.remove(&file);
                let _ = fs::remove_file(bed.mount_of(0).join(name(file)));
            }
        }
        let node = 1 + random.below(2) as u32;
        let is_exchanged = round == 3 && random.below(2) == 0;
        vanish(&bed, other_run, node, is_exchanged);
        vanished += 1;
        // Of a node that serves nothing each read waits for a minute.
        if !is_exchanged {
            assert_read(&bed, &versions, seed);
        }
    }
    let drained = bed.command(&["drain", "--wait", "--json", "--timeout", "30s"]);
    for (file, written) in &versions {
        assert_landed(&bed, &name(*file), written, &drained, seed);
    }
    let mut bed = bed;
    bed.job.kill_all();
    vanished
}

/// A node's store is removed under its daemon, which dies. The next one finds none, or one of another run, and serves nothing then.
fn vanish(bed: &Bed, other_run: &OtherRun, node: u32, is_exchanged: bool) {
    let store = |bed: &Bed| bed.job.sandbox.base().join("store").join(node.to_string());
    for entry in fs::read_dir(store(bed)).unwrap() {
        // The daemon may be removing the same.
        let _ = fs::remove_file(entry.unwrap().path());
    }
    if is_exchanged {
        for entry in fs::read_dir(store(&other_run.bed)).unwrap() {
            let from: PathBuf = entry.unwrap().path();
            fs::copy(&from, store(bed).join(from.file_name().unwrap())).unwrap();
        }
    }
    let killed = bed.job.kill_daemon(node as usize);
    if !is_exchanged {
        let follows = || bed.job.daemon(node as usize).is_some_and(|pid| pid != killed);
        wait_until("a daemon serves again", PATIENCE, follows);
    }
}

/// Every node reads what was written last, or is told that it is not there.
#[track_caller]
fn assert_read(bed: &Bed, versions: &BTreeMap<u64, Vec<Vec<u8>>>, seed: u64) {
    for (file, written) in versions {
        for node in 0..NODES {
            match fs::read(bed.mount_of(node).join(name(*file))) {
                Ok(read) => assert!(Some(&read) == written.last(), "seed {seed}: f{file} on {node}: {}", told(&read)),
                Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "seed {seed}: f{file}"),
            }
        }
    }
}

/// Landed files are whole, of some version; if it is not the last, that is reported.
#[track_caller]
fn assert_landed(bed: &Bed, name: &str, written: &[Vec<u8>], drained: &Finished, seed: u64) {
    let landed = fs::read(bed.backing().join(name)).ok();
    if landed.as_ref() == written.last() {
        return;
    }
    if let Some(landed) = &landed {
        assert!(written.contains(landed), "seed {seed}: {name} has landed: {}", told(landed));
    }
    assert_ne!(bed.landed(name)["state"], "landed", "seed {seed}: {name}: {} {}", drained.text(), drained.stderr);
    assert_eq!(drained.status.code(), Some(3), "seed {seed}: {name}: {} {}", drained.text(), drained.stderr);
}

fn told(read: &[u8]) -> String {
    let block = read.chunks(BLOCK).next().unwrap_or_default();
    format!("{} bytes, the first {:?}", read.len(), String::from_utf8_lossy(block))
}
