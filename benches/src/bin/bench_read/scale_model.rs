//! The scale model against real runs: the same storm of 4, 8 and 16 nodes on the test bed and in the model.
//!
//! Counts (requests, bytes, messages) are what the model is judged by; wall times are those of a machine whose two
//! processors all nodes share, in the model too.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_bench::results::Measurement;
use forebay_bench::storm;
use forebay_bench::testbed::{BUSY, Testbed, Traffic};
use forebay_scale::parameters::TEST_BED;
use forebay_scale::{Figures, Replay, default_forest};
use serde::Serialize;

use crate::bench::Bench;
use crate::ways::{Forms, Way, up_on};

/// What a program computes in the replay, seconds: as on a local file system.
const REPLAY_SECONDS: f64 = 0.05;

/// A quantity, for real and by the model.
#[derive(Clone, Copy, Serialize)]
struct Compared {
    real: f64,
    model: f64,
    /// The model's over the real one, less 1.
    error: f64,
}

impl Compared {
    fn new(real: f64, model: f64) -> Self {
        Self { real, model, error: model / real - 1.0 }
    }
}

/// Runs both.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let counts: &[usize] = if bench.quick { &[4] } else { &[4, 8, 16] };
    let testbed = Testbed::up(&bench.testbed, counts[counts.len() - 1], BUSY.at_once)?;
    let forms = Forms::make(bench, &testbed)?;
    testbed.slow_down(BUSY)?;
    let replay = Replay::read(&bench.tree, Path::new("benches/import-replay.txt"), &TEST_BED, REPLAY_SECONDS)?;
    let mut measurement = Measurement::under(format!(
        "storms of the replay, cold, on the test bed and in the scale model: link {}, {} us a metadata request, {} at once",
        BUSY.link, BUSY.metadata_us, BUSY.at_once
    ));
    for nodes in counts {
        let (seconds, contents, traffic) = real(bench, &testbed, &forms, *nodes)?;
        let model = replay.run(&TEST_BED, default_forest(*nodes), *nodes, 1);
        let compared = compare(seconds, contents, &traffic, &model);
        for (what, Compared { real, model, error }) in &compared {
            println!("  {nodes} nodes, {what}: {real:.1} real, {model:.1} by the model, {:+.0} %", error * 100.0);
        }
        measurement.figure(&format!("{nodes}_nodes"), &compared);
    }
    Ok(measurement)
}

fn real(bench: &Bench, testbed: &Testbed, forms: &Forms, nodes: usize) -> anyhow::Result<(f64, f64, Traffic)> {
    testbed.remount(nodes)?;
    let job = up_on(bench, testbed, nodes, &[])?;
    let before = testbed.traffic()?;
    let trees = (0..nodes).map(|rank| forms.seen(Way::Forebay, Some(&job), rank)).collect::<Result<Vec<_>, _>>()?;
    let programs = trees.iter().enumerate();
    let programs = programs.map(|(node, tree)| testbed.place(node).gated("", &bench.python.replay(tree)));
    let storm = storm::at_once(programs.collect())?;
    let traffic = testbed.traffic()?.since(&before);
    let contents = job.status()?.backing_bytes() as f64;
    job.down()?;
    Ok((storm.wall.as_secs_f64(), contents, traffic))
}

fn compare(seconds: f64, contents: f64, traffic: &Traffic, model: &Figures) -> BTreeMap<&'static str, Compared> {
    let kind = |name: &str| traffic.requests.get(name).copied().unwrap_or(0) as f64;
    BTreeMap::from([
        ("seconds", Compared::new(seconds, model.last_seconds)),
        ("directories listed", Compared::new(kind("opendir"), model.listings as f64)),
        ("files opened", Compared::new(kind("open"), model.opens as f64)),
        ("bytes of contents, MB", Compared::new(contents / 1e6, model.backing_bytes as f64 / 1e6)),
    ])
}
