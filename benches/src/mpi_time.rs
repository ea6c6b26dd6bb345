//! The time that small strided writes of several nodes take: ROMIO's collective buffering, the library for MPI-IO programs.

use std::path::Path;

use anyhow::Context;
use forebay_testkit::mpi::{Bench, OPEN_MPI};
use forebay_testkit::mpi_cluster::{Aggregation, MpiCluster};
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use forebay_testkit::testbed::{BUSY, Testbed};

const NODES: usize = 4;
const RANKS_PER_NODE: usize = 2;

/// Pairs of runs; which of the two goes first alternates.
const RUNS: usize = 10;

/// The writes of a rank.
struct Shape {
    /// In the names of figures.
    name: &'static str,
    record_bytes: u32,
    /// Of a call.
    records: u32,
    calls: u32,
    /// So many times faster than ROMIO at least, where that is demanded.
    bar: Option<f64>,
}

/// 8 MiB in each shape. They differ in the size of calls; a single large call is the case in which no bytes can be held back for others.
const SHAPES: [Shape; 3] = [
    Shape { name: "small_calls", record_bytes: 1024, records: 4, calls: 256, bar: Some(2.0) },
    Shape { name: "medium_calls", record_bytes: 1024, records: 64, calls: 16, bar: None },
    Shape { name: "one_call", record_bytes: 1024, records: 1024, calls: 1, bar: None },
];

/// Measures them over GlusterFS in network namespaces, with the programs and the test bed of the repository at `root`.
///
/// # Errors
/// When the test bed does not come up, a program fails, the two leave different bytes, or once the user has asked to stop.
pub fn measure(root: &Path) -> anyhow::Result<Measurement> {
    let script = root.join("crates/harness/testkit/testbed/pfs-testbed.sh");
    let testbed = Testbed::up(&script, NODES, BUSY.at_once)?;
    testbed.slow_down(BUSY)?;
    let bench = Bench::new(OPEN_MPI, root);
    let program = bench.compile("strided.c");
    let cluster = MpiCluster::new(&bench, &testbed, RANKS_PER_NODE)?;
    let mut measurement = Measurement::under(format!(
        "GlusterFS, its server behind {}, metadata requests of {} microseconds, {} at once; {NODES} nodes of {RANKS_PER_NODE} \
         ranks in network namespaces of one machine, Open MPI by TCP; every rank has every eighth KiB of 8 MiB, and writes it by \
         collective calls; seconds from before the file is opened until all have closed it; ROMIO (romio321) with collective \
         buffering, one aggregator a node; {RUNS} alternating runs each",
        BUSY.link, BUSY.metadata_us, BUSY.at_once
    ));
    for shape in SHAPES {
        let words = [shape.record_bytes, shape.records, shape.calls].map(|number| number.to_string());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let time = |aggregation: Aggregation, file: &Path| -> anyhow::Result<f64> {
            stop::check()?;
            cluster.run(aggregation, &program, file, &words)?.trim().parse().context("the program prints seconds")
        };
        let (mut romio, mut ours) = (Samples::default(), Samples::default());
        for run in 0..RUNS {
            let [one, other] = ["romio", "forebay"].map(|way| cluster.file(&format!("{}-{run}-{way}", shape.name)));
            if run % 2 == 0 {
                romio.add(time(Aggregation::Romio, &one)?);
                ours.add(time(Aggregation::Forebay, &other)?);
            } else {
                ours.add(time(Aggregation::Forebay, &other)?);
                romio.add(time(Aggregation::Romio, &one)?);
            }
            cluster.compare(&one, &other)?;
        }
        let times = romio.over(&ours).median();
        if let Some(bar) = shape.bar {
            let what = format!("faster than ROMIO, {} calls of {} records of 1 KiB a rank", shape.calls, shape.records);
            measurement.bar(Bar::new(what, times, Side::AtLeast, bar, "x"));
        }
        measurement.figure(&format!("{}_times_faster", shape.name), times);
        measurement.figure(&format!("{}_romio_s", shape.name), romio);
        measurement.figure(&format!("{}_forebay_s", shape.name), ours);
    }
    Ok(measurement)
}
