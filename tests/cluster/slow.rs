//! A node whose link is taken up: the others read on without it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::tree;

use crate::testbed::{Cluster, Testbed};

const NODES: usize = 4;

/// The node with the slow link, which is home of a quarter of all chunks.
const SLOW: usize = 2;

/// At its speed the share of one reader takes 16 s.
const BYTES: u64 = 64 << 20;
const RATE: &str = "8mbit";

/// A reader waits for it for a few seconds; the machine may be busy with other tests.
const FOUND_WITHIN: Duration = Duration::from_secs(60);

fn run(cluster: &Cluster, node: usize, command: &[&str]) -> String {
    let command: Vec<&OsStr> = command.iter().map(OsStr::new).collect();
    cluster.testbed().on(node, &command).good().text()
}

fn sum(cluster: &Cluster, node: usize, path: &Path) -> String {
    run(cluster, node, &["sha256sum", path.to_str().unwrap()])[..64].to_owned()
}

#[test]
fn a_home_with_a_slow_link_is_asked_no_more() {
    require_testbed!();
    let testbed = Testbed::up(NODES, "weights", |source| {
        let bytes = (0..BYTES / 8).flat_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        tree::write(&source.join("file"), &bytes.collect::<Vec<u8>>());
    });
    let source = testbed.source().join("file");
    let cluster = Cluster::up(testbed, &[]);
    let shape = ["dev", "eth0", "root", "tbf", "rate", RATE, "burst", "32kb", "latency", "500ms"];
    run(&cluster, SLOW, &[&["tc", "qdisc", "add"], &shape[..]].concat());
    let slow_at = |node: usize| cluster.status()["nodes"][node]["slow"].clone();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| sum(&cluster, 0, &cluster.view(&source)));
        wait_until("the reader finds the node slow", FOUND_WITHIN, || slow_at(0) == serde_json::json!([SLOW]));
        assert_eq!(reader.join().unwrap(), sum(&cluster, 0, &source));
    });
    let verdict = cluster.status()["verdict"].clone();
    assert_eq!(verdict["state"], "healthy", "{verdict}");
    run(&cluster, SLOW, &["tc", "qdisc", "del", "dev", "eth0", "root"]);
    cluster.down().hand_on();
}
