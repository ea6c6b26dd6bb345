//! The scale model against real runs: the same storm of 4, 8 and 16 nodes on the test bed and in the model.
//!
//! Counts (requests, bytes, messages) are what the model is judged by; wall times are those of a machine whose two
//! processors all nodes share, in the model too. It ends with the table that docs/scale.md shows.

use std::path::Path;

use forebay_bench::storm::Gate;
use forebay_scale::parameters::TEST_BED;
use forebay_scale::{Figures, Replay, default_forest};
use forebay_testkit::results::{Measurement, Samples};
use forebay_testkit::testbed::{BUSY, Testbed};
use serde::Serialize;

use crate::bench::Bench;
use crate::ways::{Forms, Way, set_up, up_on};

/// What a program computes in the replay, seconds: as on a local file system.
const REPLAY_SECONDS: f64 = 0.05;

/// What is compared, in the order of `of_real` and `of_model`.
const QUANTITIES: [&str; 6] = [
    "questions between nodes",
    "directories listed",
    "files opened at the file system",
    "contents read there, MB",
    "kernel messages a node",
    "seconds",
];

type Quantities = [f64; QUANTITIES.len()];

/// A quantity, for real and by the model.
#[derive(Clone, Serialize)]
struct Compared {
    what: &'static str,
    real: Samples,
    model: f64,
    /// The model's over the real median, less 1.
    error: f64,
}

/// Runs both.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let counts: &[usize] = if bench.quick { &[4] } else { &[4, 8, 16] };
    let (testbed, forms) = set_up(bench, counts[counts.len() - 1], &[Way::Forebay])?;
    let operations = Path::new("benches/import-replay.txt");
    let replay = Replay::read(&bench.tree, operations, &TEST_BED, REPLAY_SECONDS)?;
    let runs = if bench.quick { 1 } else { 3 };
    let mut measurement = Measurement::under(format!(
        "storms of the replay, cold, on the test bed (medians of {runs}) and in the scale model: link {}, {} us a \
         metadata request, {} at once",
        BUSY.link, BUSY.metadata_us, BUSY.at_once
    ));
    let mut columns = Vec::new();
    for nodes in counts {
        let real = (0..runs).map(|_| of_real(bench, &testbed, &forms, *nodes)).collect::<Result<Vec<_>, _>>()?;
        let model = of_model(&replay.run(&TEST_BED, default_forest(*nodes), *nodes, 1));
        let compared = compare(&real, model);
        measurement.figure(&format!("{nodes}_nodes"), &compared);
        columns.push((*nodes, compared));
    }
    table(&columns).iter().for_each(|line| println!("{line}"));
    Ok(measurement)
}

fn of_real(bench: &Bench, testbed: &Testbed, forms: &Forms, nodes: usize) -> anyhow::Result<Quantities> {
    testbed.remount(nodes)?;
    let replay = bench.python.replay(&forms.seen(Way::Forebay));
    let gate = Gate::start((0..nodes).map(|node| testbed.place(node).gated("", &replay)).collect())?;
    let job = up_on(bench, testbed, nodes, &[])?;
    let (before, traffic_before) = (job.status()?, testbed.traffic()?);
    let storm = gate.open()?;
    let (traffic, status) = (testbed.traffic()?.since(&traffic_before), job.status()?);
    job.down()?;
    let requests = |kind: &str| traffic.requests.get(kind).copied().unwrap_or(0) as f64;
    let messages = status.messages().values().sum::<u64>() - before.messages().values().sum::<u64>();
    Ok([
        (status.requests_sent() - before.requests_sent()) as f64,
        requests("opendir"),
        requests("open"),
        status.backing_bytes() as f64 / 1e6,
        messages as f64 / nodes as f64,
        storm.wall.as_secs_f64(),
    ])
}

fn of_model(figures: &Figures) -> Quantities {
    [
        figures.questions as f64,
        figures.listings as f64,
        figures.opens as f64,
        figures.backing_bytes as f64 / 1e6,
        figures.kernel_messages as f64,
        // A time that does not stand for all is none.
        figures.all_seconds().unwrap_or(f64::NAN),
    ]
}

fn compare(real: &[Quantities], model: Quantities) -> Vec<Compared> {
    let one = |(index, what)| {
        let mut samples = Samples::default();
        real.iter().for_each(|run: &Quantities| samples.add(run[index]));
        let (median, model) = (samples.median(), model[index]);
        Compared { what, real: samples, model, error: model / median - 1.0 }
    };
    QUANTITIES.into_iter().enumerate().map(one).collect()
}

/// The table in Markdown: a row a quantity, two columns a number of nodes, and the errors.
fn table(columns: &[(usize, Vec<Compared>)]) -> Vec<String> {
    let head = columns.iter().map(|(nodes, _)| format!(" {nodes} nodes, real | model |"));
    let mut lines = vec![format!("| |{} error |", head.collect::<String>())];
    lines.push(format!("|---|{}---|", "---|".repeat(2 * columns.len())));
    for (row, what) in QUANTITIES.iter().enumerate() {
        let of_row = || columns.iter().map(|(_, compared)| &compared[row]);
        let digits = |value: f64| if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        let cells = of_row().map(|it| format!(" {} | {} |", digits(it.real.median()), digits(it.model)));
        let errors: Vec<String> = of_row().map(|it| format!("{:+.0} %", it.error * 100.0)).collect();
        lines.push(format!("| {what} |{} {} |", cells.collect::<String>(), errors.join(", ")));
    }
    lines
}
