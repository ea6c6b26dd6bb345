//! A large file, cold, by a leaf at depth 3, against the backing file system's own sequential rate.

use std::path::Path;

use anyhow::{Context, ensure};
use forebay_bench::storm;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::testbed::{BUSY, Testbed};

use crate::bench::{Bench, read_whole};
use crate::ways::up_on;

const BYTES: u64 = 200_000_000;

/// With fan-out 2 and one root node 5 is below nodes 4, 2 and 0.
const NODES: usize = 8;
const LEAF: usize = 5;
const LEAFS_PARENT: u64 = 4;

/// Measures reads by the leaf in turn directly and through new jobs.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let testbed = Testbed::up(&bench.testbed, NODES, BUSY.at_once)?;
    let file = testbed.copy_in(&bench.random_file("large", BYTES)?, "large")?;
    testbed.slow_down(BUSY)?;
    let (mut direct, mut through) = (Samples::default(), Samples::default());
    for _ in 0..bench.runs(5) {
        testbed.remount(NODES)?;
        direct.add(rate(&testbed, &file)?);
        testbed.remount(NODES)?;
        let job = up_on(bench, &testbed, NODES, &["--fanout", "2", "--roots", "1"])?;
        let status = job.status()?;
        let parent = status.nodes.get(LEAF).and_then(|node| node.parents.first()).and_then(serde_json::Value::as_u64);
        ensure!(parent == Some(LEAFS_PARENT), "node {LEAF} is not a leaf at depth 3: its parent is {parent:?}");
        through.add(rate(&testbed, &job.in_view(LEAF, &file)?)?);
        job.down()?;
    }
    let ratio = through.median() / direct.median();
    let mut measurement = Measurement::under(format!(
        "{} MB read by node {LEAF} of {NODES}, fan-out 2 and one root, over GlusterFS with a link of {}; fresh mounts and a new job for \
         each of {} runs, in turn with a direct read; medians",
        BYTES / 1_000_000,
        BUSY.link,
        direct.len()
    ));
    measurement
        .bar(Bar::new("200 MB, cold, leaf at depth 3, against direct", ratio, Side::AtLeast, 0.5, "x"))
        .figure("direct_mb_per_second", direct)
        .figure("forebay_mb_per_second", through);
    Ok(measurement)
}

/// The rate at which the leaf's node reads `path`, MB/s.
fn rate(testbed: &Testbed, path: &Path) -> anyhow::Result<f64> {
    let read = storm::at_once(vec![testbed.place(LEAF).gated("", &read_whole(path))]).context("reading the file")?;
    Ok(BYTES as f64 / 1e6 / read.wall.as_secs_f64())
}
