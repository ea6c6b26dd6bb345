//! `ls -l` of a large directory through a leaf at depth 2, cold and warm.

use std::ffi::OsString;
use std::path::Path;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};

use crate::bench::Bench;

const ENTRIES: usize = 10_000;

/// With fan-out 2, nodes 3 to 6 of 7 are the leaves at depth 2.
const NODES: usize = 7;
const LEAF: usize = 3;

/// Measures `ls -l` in new jobs, and then again and again in turn with the local file system.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let directory = bench.directory_of(ENTRIES)?;
    let (mut cold, mut warm, mut local) = (Samples::default(), Samples::default(), Samples::default());
    listed(bench, &directory)?;
    for _ in 0..bench.runs(3) {
        let job = bench.up_local(NODES, bench.files.path(), &["--fanout", "2"])?;
        let view = job.in_view(LEAF, &directory)?;
        cold.add(listed(bench, &view)?);
        for run in 0..bench.runs(9) {
            for side in [run % 2, 1 - run % 2] {
                if side == 0 { warm.add(listed(bench, &view)?) } else { local.add(listed(bench, &directory)?) }
            }
        }
        job.down()?;
    }
    let ratio = warm.median() / local.median();
    let mut measurement = Measurement::under(format!(
        "ls -l of {ENTRIES} files over a local file system, {NODES} nodes with fan-out 2, at node {LEAF}; cold: the \
         first in a new job, {} jobs; warm: the next ones, {} in turn with the local file system; medians",
        cold.len(),
        warm.len()
    ));
    measurement
        .bar(Bar::new("ls -l of 10,000 files at depth 2, cold", cold.median(), Side::AtMost, 3.0, "s"))
        .bar(Bar::new("ls -l of 10,000 files, warm, against the local file system", ratio, Side::AtMost, 1.1, "x"))
        .figure("cold_seconds", cold)
        .figure("warm_seconds", warm)
        .figure("local_seconds", local);
    Ok(measurement)
}

fn listed(bench: &Bench, directory: &Path) -> anyhow::Result<f64> {
    let script = "exec ls -l \"$0\" > /dev/null";
    let argv = ["env".into(), "LC_ALL=C".into(), "sh".into(), "-c".into(), script.into(), OsString::from(directory)];
    Ok(bench.timed(&argv)?.wall.as_secs_f64())
}
