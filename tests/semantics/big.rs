//! A large file, whole: every byte of it, once through each kind of site, and within the budget.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_tests::{Site, require, tree};

/// Larger than the budget that the job is given, so that chunks are evicted while it is read.
const FILE_BYTES: usize = 160 << 20;
const BUDGET: &str = "64MiB";

/// The memory that a daemon may hold beside its budget.
const OVERHEAD_BYTES: u64 = 64 << 20;

fn build(source: &Path) {
    let block = tree::contents(1 << 20);
    let file = File::create(source.join("large")).unwrap();
    for index in 0..FILE_BYTES as u64 >> 20 {
        file.write_all_at(&block, index << 20).unwrap();
        file.write_all_at(&index.to_le_bytes(), index << 20).unwrap();
    }
}

fn check(site: &Site) {
    let block = tree::contents(1 << 20);
    let mut file = File::open(site.view("large")).unwrap();
    let mut bytes = vec![0; 1 << 20];
    for index in 0..FILE_BYTES as u64 >> 20 {
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[..8], index.to_le_bytes(), "chunk {index}");
        assert!(bytes[8..] == block[8..], "chunk {index}");
    }
    assert_eq!(file.read(&mut bytes).unwrap(), 0);
}

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn large(nodes: u32) {
    let site = Site::with_options(nodes, &["--budget", BUDGET], build);
    check(&site);
    let budget = 64 << 20;
    for rank in 0..site.job().nodes() {
        let resident = resident_bytes(site.job().pid(rank));
        assert!(resident <= budget + OVERHEAD_BYTES, "node {rank} holds {resident} bytes, budget {budget}");
    }
    let backing = &site.job().status()["totals"]["backing"];
    let read = backing["bytes"].as_u64().unwrap();
    assert!(read >= FILE_BYTES as u64, "the source was read: {backing}");
}

#[test]
fn large_file_single() {
    require!(Fuse, Root);
    large(1);
}

#[test]
fn large_file_leaf() {
    require!(Fuse, Root);
    large(7);
}
