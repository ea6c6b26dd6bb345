//! How long a job takes to come up and to go.

use forebay_bench::results::{Bar, Measurement, Samples, Side};

use crate::bench::Bench;

const NODES: usize = 16;

/// Measures `forebay up --local 16` and `forebay down`.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let (mut up, mut down) = (Samples::default(), Samples::default());
    for _ in 0..bench.runs(9) {
        let job = bench.up_local(NODES, &bench.tree, &[])?;
        up.add(job.ready().as_secs_f64());
        down.add(job.down()?.as_secs_f64());
    }
    let mut measurement = Measurement::under(format!(
        "forebay up --local {NODES} until it returns with every view answering, then forebay down; median of {} runs",
        up.len()
    ));
    measurement
        .bar(Bar::new(format!("up, {NODES} nodes ready"), up.median(), Side::AtMost, 1.0, "s"))
        .bar(Bar::new(format!("down, {NODES} nodes gone"), down.median(), Side::AtMost, 1.0, "s"))
        .figure("up_seconds", up)
        .figure("down_seconds", down);
    Ok(measurement)
}
