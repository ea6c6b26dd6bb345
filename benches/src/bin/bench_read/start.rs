//! How long a job takes to come up and to go.

use forebay_testkit::results::{Bar, Measurement, Samples, Side};

use crate::bench::Bench;

const NODES: usize = 16;

/// Measures `forebay up --local 16` and `forebay down`.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let (mut up, mut down, mut slowest) = (Samples::default(), Samples::default(), Samples::default());
    let mut lines_heard = 0;
    for _ in 0..bench.runs(9) {
        let job = bench.up_local(NODES, &bench.tree, &[])?;
        up.add(job.ready().as_secs_f64());
        lines_heard = lines_heard.max(job.told().lines_heard);
        slowest.add(job.told().slowest.as_ref().map_or(0.0, |slowest| slowest.took_ms as f64 / 1000.0));
        down.add(job.down()?.as_secs_f64());
    }
    let mut measurement = Measurement::under(format!(
        "forebay up --local {NODES} until it returns with every view answering, then forebay down; median of {} runs",
        up.len()
    ));
    measurement
        .bar(Bar::new(format!("up, {NODES} nodes ready"), up.median(), Side::AtMost, 1.0, "s"))
        .bar(Bar::new(format!("down, {NODES} nodes gone"), down.median(), Side::AtMost, 1.0, "s"))
        .figure("lines_through_the_launcher_at_most", lines_heard)
        .figure("slowest_node_seconds", slowest)
        .figure("up_seconds", up)
        .figure("down_seconds", down);
    Ok(measurement)
}
