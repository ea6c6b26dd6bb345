//! Large files in a forest: striped over its roots, and read from the backing file system once, however they are read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_tests::{Site, require, tree};
use serde_json::Value;

const CHUNK_BYTES: u64 = 1 << 20;

/// An image with an end that is no whole chunk.
const IMAGE_BYTES: u64 = 24 * CHUNK_BYTES + 12_345;

/// Reads of each node: with 4 to 132 KiB each they touch every chunk.
const READS: u64 = 600;

/// The contents do not repeat, so that a chunk cannot be taken for another.
fn build(source: &Path) {
    let block = tree::contents(CHUNK_BYTES as usize);
    let file = File::create(source.join("image.squashfs")).unwrap();
    for index in 0..=IMAGE_BYTES / CHUNK_BYTES {
        let bytes = (IMAGE_BYTES - index * CHUNK_BYTES).min(CHUNK_BYTES) as usize;
        let turned = [&block[index as usize * 911..], &block[..index as usize * 911]].concat();
        file.write_all_at(&turned[..bytes], index * CHUNK_BYTES).unwrap();
    }
}

/// As a mounted image is read: small and large pieces, in no order.
fn read_at_random(view: &Path, truth: &File, seed: u64) {
    let file = File::open(view).unwrap();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for number in 0..READS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Every chunk has its turn; where in it is chance.
        let chunk = (number * 7 + seed) % IMAGE_BYTES.div_ceil(CHUNK_BYTES);
        let offset = (chunk * CHUNK_BYTES + state % CHUNK_BYTES).min(IMAGE_BYTES - 1);
        let bytes = ((4 << 10) + state % (128 << 10)).min(IMAGE_BYTES - offset) as usize;
        let (mut read, mut expected) = (vec![0; bytes], vec![0; bytes]);
        file.read_exact_at(&mut read, offset).unwrap();
        truth.read_exact_at(&mut expected, offset).unwrap();
        assert!(read == expected, "{bytes} bytes at {offset}");
    }
}

fn backing(status: &Value, what: &str) -> Vec<u64> {
    status["nodes"].as_array().unwrap().iter().map(|node| node["backing"][what].as_u64().unwrap()).collect()
}

/// The bytes that each node read from the backing file system while all read the image.
fn read_everywhere(nodes: u32, options: &[&str]) -> (Site, Vec<u64>) {
    let site = Site::with_options(nodes, options, build);
    let before = backing(&site.job().status(), "bytes");
    let (job, source) = (site.job(), site.source("image.squashfs"));
    std::thread::scope(|scope| {
        for rank in 0..job.nodes() {
            let source = &source;
            scope.spawn(move || read_at_random(&job.path(rank, source), &File::open(source).unwrap(), rank as u64));
        }
    });
    let after = backing(&site.job().status(), "bytes");
    let bytes = after.iter().zip(before).map(|(after, before)| after - before).collect();
    (site, bytes)
}

#[test]
fn an_image_read_at_random_by_all_costs_one_read_a_chunk() {
    require!(Fuse, Root);
    let (_site, bytes) = read_everywhere(7, &[]);
    assert_eq!(bytes.iter().sum::<u64>(), IMAGE_BYTES, "each byte once: {bytes:?}");
    // 25 chunks in rows of four.
    assert!(bytes.iter().all(|bytes| (1..=4 * CHUNK_BYTES).contains(bytes)), "each of seven homes a row: {bytes:?}");
    let (_site, bytes) = read_everywhere(7, &["--roots", "1"]);
    assert_eq!(bytes, [IMAGE_BYTES, 0, 0, 0, 0, 0, 0], "the one root reads each byte once");
}

#[test]
fn in_a_forest_each_root_reads_its_chunks_once() {
    require!(Fuse, Root);
    let (site, bytes) = read_everywhere(9, &["--roots", "3", "--stripe-fanout", "3"]);
    let status = site.job().status();
    let roots: Vec<usize> =
        status["job"]["roots"].as_array().unwrap().iter().map(|root| root.as_u64().unwrap() as usize).collect();
    assert_eq!(roots.len(), 3, "{roots:?}");
    assert_eq!(bytes.iter().sum::<u64>(), IMAGE_BYTES, "{bytes:?}");
    for (rank, bytes) in bytes.into_iter().enumerate() {
        // 25 chunks over three trees in turn: eight or nine each.
        let chunks = bytes.div_ceil(CHUNK_BYTES);
        assert!(if roots.contains(&rank) { (8..=9).contains(&chunks) } else { chunks == 0 }, "node {rank}: {bytes}");
    }
    assert!(status["nodes"].as_array().unwrap().iter().all(|node| !node["parents"].as_array().unwrap().is_empty()));
}

/// The whole standard tree, through a forest.
#[test]
fn a_forest_shows_what_the_source_holds() {
    require!(Fuse, Root);
    let site = Site::with_options(9, &["--roots", "4"], |_| {});
    forebay_tests::compare::trees(&site.source(""), &site.view(""));
    let status = site.job().status();
    let readers = backing(&status, "listings").iter().filter(|count| **count > 0).count();
    assert!(readers > 1, "directories are spread over the roots: {status:#}");
    let path = site.view("plain/4096");
    let explained = site.job().command("explain", &[path.as_os_str()]).good().text();
    assert!(explained.contains("of 4"), "the tree is named: {explained}");
}
