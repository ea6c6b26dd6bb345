//! How soon the last of many nodes has a large file, when what they can send is what limits them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use forebay_bench::overlay_job::OverlayJob;
use forebay_overlay::{Shape, default_roots};
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bench::Bench;

const NODES: u32 = 73;
const FILE_BYTES: u64 = 10_000_000;
const EGRESS_BYTES_PER_SECOND: u64 = 10_000_000;

/// The default forest of the job, and what it is compared with.
const FAN_OUT: u32 = 8;
const STRIPE_FAN_OUT: u32 = 4;

/// Other fan-outs for striping large files.
const OTHER_FAN_OUTS: [u32; 3] = [1, 2, 8];

/// One root that stores and forwards, as measured with a prototype; the bar is a small part of it.
const BAR_SECONDS: f64 = 2.2;

/// Measures one tree and the striped forest, in turn.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let forest = Shape {
        node_count: NODES,
        roots: default_roots(NODES),
        fan_out: FAN_OUT,
        stripe_fan_out: STRIPE_FAN_OUT,
        has_homes: false,
        row_chunks: 1,
    };
    let one_tree = Shape { roots: 1, stripe_fan_out: FAN_OUT, ..forest };
    let (mut alone, mut striped) = (Samples::default(), Samples::default());
    let mut others = OTHER_FAN_OUTS.map(|fan_out| (fan_out, Samples::default()));
    let (mut busiest, mut sent_mean) = (Samples::default(), Samples::default());
    let mut waited = Samples::default();
    for run in 0..bench.runs(7) {
        stop::check()?;
        // It takes eight seconds and hardly varies.
        if run < 3 {
            alone.add(last_complete(one_tree)?.0.as_secs_f64());
            for (stripe_fan_out, samples) in &mut others {
                let shape = Shape { stripe_fan_out: *stripe_fan_out, ..forest };
                samples.add(last_complete(shape)?.0.as_secs_f64());
            }
        }
        let before = waited_for_processor();
        let (took, sent) = last_complete(forest)?;
        striped.add(took.as_secs_f64());
        waited.add(waited_for_processor().saturating_sub(before).as_secs_f64());
        busiest.add(sent.iter().copied().max().unwrap_or(0) as f64);
        sent_mean.add(sent.iter().sum::<u64>() as f64 / sent.len() as f64);
    }
    let mut measurement = Measurement::under(format!(
        "{NODES} nodes within one process, real cores over the transport's memory network, each held to sending {} MB/s; \
         all read the same file of {} MB at once, nothing being cached; until the last has all of it; one tree with \
         fan-out {FAN_OUT} against the default forest ({} roots, fan-out {STRIPE_FAN_OUT} for large files)",
        EGRESS_BYTES_PER_SECOND / 1_000_000,
        FILE_BYTES / 1_000_000,
        forest.roots,
    ));
    measurement
        .bar(Bar::new(
            format!("{} MB to {NODES} nodes, last node complete", FILE_BYTES / 1_000_000),
            striped.median(),
            Side::AtMost,
            BAR_SECONDS,
            "s",
        ))
        .figure("one_tree_seconds", alone)
        .figure("forest_seconds", striped)
        .figure("forest_waited_for_processor_seconds", waited)
        .figure("forest_by_other_fan_out_seconds", BTreeMap::from(others))
        .figure("forest_busiest_sent_bytes", busiest)
        .figure("forest_mean_sent_bytes", sent_mean);
    Ok(measurement)
}

/// How long this thread, on which all nodes are, has waited while the processors did other work (schedstat(5): the second
/// number). The figure is one of links, and this is what a busy machine adds to it.
fn waited_for_processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited_ns = stat.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(waited_ns.unwrap_or(0))
}

/// How long until the last node has the file, and what each node sent.
fn last_complete(shape: Shape) -> anyhow::Result<(Duration, Vec<u64>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let job = OverlayJob::start(shape, EGRESS_BYTES_PER_SECOND, FILE_BYTES)?;
        let took = job.read_everywhere().await?;
        let sent = job.sent_bytes();
        job.end().await;
        Ok((took.into_iter().max().context("no node")?, sent))
    })
}
