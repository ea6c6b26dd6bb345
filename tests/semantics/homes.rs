//! Large files in a small job: every node is home of a share of them, so that the nodes together keep what no single one could.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use forebay_tests::{Site, require, tree};
use rustix::fs::{Advice, fadvise};
use serde_json::Value;

const FILES: usize = 48;

const FILE_BYTES: usize = 2 << 20;

/// Memory of a node: the set fits twice into what all nodes have, and into no single one.
const BUDGET: &str = "64MiB";

const NODES: usize = 4;

fn name(file: usize) -> String {
    format!("samples/shard-{file:03}.bin")
}

/// No two files are alike, nor two parts of one.
fn contents(file: usize) -> Vec<u8> {
    let block = tree::contents(FILE_BYTES);
    [&block[file * 977..], &block[..file * 977]].concat()
}

fn build(source: &Path) {
    std::fs::create_dir(source.join("samples")).unwrap();
    (0..FILES).for_each(|file| tree::write(&source.join(name(file)), &contents(file)));
}

/// Bytes that the nodes that answer have read from the backing file system.
fn backing_bytes(site: &Site) -> Vec<Option<u64>> {
    // It ends with 3 where a node is missing.
    let status: Value = serde_json::from_str(&site.job().command("status", &["--json".as_ref()]).text()).unwrap();
    let of = |rank: usize| {
        status["nodes"].as_array()?.iter().find(|node| node["rank"] == rank)?["backing"]["bytes"].as_u64()
    };
    (0..NODES).map(of).collect()
}

/// Each node of `ranks` reads its part of a permutation of all files, without what its kernel has of them.
fn epoch(site: &Site, number: usize, ranks: &[usize]) {
    // 7 and 48 have no common divisor, so this is a permutation; nodes read other files in each.
    let order: Vec<usize> = (0..FILES).map(|step| (step * 7 + number * 5) % FILES).collect();
    std::thread::scope(|scope| {
        for (place, rank) in ranks.iter().enumerate() {
            let part: Vec<usize> = order.iter().copied().skip(place).step_by(ranks.len()).collect();
            scope.spawn(move || part.into_iter().for_each(|file| read(site, *rank, file)));
        }
    });
}

/// Whether an epoch after this number reads nothing from the backing file system. On a busy machine a home may be late, and what is asked of
/// it is asked of another node, too, which reads it; so not the first has to.
fn some_epoch_reads_nothing(site: &Site, number: usize, ranks: &[usize]) -> bool {
    (number + 1..=number + 5).any(|number| {
        let before = backing_bytes(site);
        epoch(site, number, ranks);
        backing_bytes(site) == before
    })
}

fn read(site: &Site, rank: usize, file: usize) {
    let path = site.job().path(rank, &site.source(name(file)));
    let mut open = File::open(&path).unwrap();
    // As where memory is short: pages that the kernel has kept are asked for again.
    fadvise(&open, 0, None, Advice::DontNeed).unwrap();
    let mut read = Vec::with_capacity(FILE_BYTES);
    open.read_to_end(&mut read).unwrap();
    assert!(read == contents(file), "file {file} at node {rank}");
    fadvise(&open, 0, None, Advice::DontNeed).unwrap();
}

#[test]
fn the_epochs_after_the_first_read_nothing_from_the_backing_file_system() {
    require!(Fuse, Root);
    let site = Site::with_options(NODES as u32, &["--budget", BUDGET], build);
    let set_bytes = (FILES * FILE_BYTES) as u64;
    epoch(&site, 0, &[0, 1, 2, 3]);
    let first = backing_bytes(&site);
    let bytes: Vec<u64> = first.iter().map(|bytes| bytes.unwrap()).collect();
    assert!(
        bytes.iter().sum::<u64>() <= set_bytes + (1 << 20),
        "each byte once, and what the tree has beside: {bytes:?}"
    );
    assert!(bytes.iter().all(|bytes| (set_bytes / 8..set_bytes / 2).contains(bytes)), "each node a share: {bytes:?}");
    assert!(some_epoch_reads_nothing(&site, 0, &[0, 1, 2, 3]), "{first:?} before, {:?} after", backing_bytes(&site));
}

#[test]
fn a_lost_node_costs_its_share_once() {
    require!(Fuse, Root);
    let site = Site::with_options(NODES as u32, &["--budget", BUDGET], build);
    epoch(&site, 0, &[0, 1, 2, 3]);
    let first = backing_bytes(&site);
    site.job().kill_node(2);
    let rest = [0, 1, 3];
    let sum = |bytes: &[Option<u64>]| rest.iter().map(|rank| bytes[*rank].unwrap()).sum::<u64>();
    // While not all know of the loss, some read what another will stand in for.
    epoch(&site, 1, &rest);
    epoch(&site, 2, &rest);
    let known = backing_bytes(&site);
    let (again, share) = (sum(&known) - sum(&first), first[2].unwrap());
    assert!(again <= 2 * share, "{again} bytes again, of {share} that it was home of");
    assert!(
        some_epoch_reads_nothing(&site, 2, &rest),
        "those who stand in for it keep it: {known:?}, {:?}",
        backing_bytes(&site)
    );
}
