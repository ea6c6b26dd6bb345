//! The time that strided writes take, of several nodes and of one: ROMIO, and the library for MPI-IO programs without hints.

use std::path::Path;

use anyhow::{Context, ensure};
use forebay_testkit::mpi::{Bench, OPEN_MPI, Way};
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
/// The last two bars are those of a library that nobody has to switch off.
const SHAPES: [Shape; 3] = [
    Shape { name: "small_calls", record_bytes: 1024, records: 4, calls: 256, bar: Some(2.0) },
    Shape { name: "medium_calls", record_bytes: 1024, records: 64, calls: 16, bar: Some(1.0) },
    Shape { name: "one_call", record_bytes: 1024, records: 1024, calls: 1, bar: Some(0.95) },
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
        let words = shape.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let time = |aggregation: Aggregation, file: &Path| -> anyhow::Result<f64> {
            cluster.run(aggregation, &program, file, &words)?.trim().parse().context("the program prints seconds")
        };
        let mut pairs = Pairs::default();
        for run in 0..RUNS {
            let [one, other] = ["romio", "forebay"].map(|way| cluster.file(&format!("{}-{run}-{way}", shape.name)));
            pairs.add(run, || time(Aggregation::Romio, &one), || time(Aggregation::Forebay, &other))?;
            cluster.compare(&one, &other)?;
        }
        pairs.tell(&mut measurement, &shape);
    }
    Ok(measurement)
}

/// Measures them by the ranks of one host, on the file system of temporary files.
///
/// # Errors
/// When a program fails, the two leave different bytes, or once the user has asked to stop.
pub fn measure_here(root: &Path) -> anyhow::Result<Measurement> {
    let bench = Bench::new(OPEN_MPI, root);
    let program = bench.compile("strided.c");
    let ranks = NODES * RANKS_PER_NODE;
    let mut measurement = Measurement::under(format!(
        "{ranks} ranks of one host, the file system of temporary files; every rank has every eighth KiB of 8 MiB, and writes it by \
         collective calls; seconds from before the file is opened until all have closed it; Open MPI with ROMIO (romio321), no \
         hints; {RUNS} alternating runs each"
    ));
    for shape in SHAPES {
        let words = shape.words();
        let [one, other] = ["romio", "forebay"].map(|way| bench.path(&format!("{}-{way}", shape.name)));
        let time = |way: Way<'_>, file: &Path| -> anyhow::Result<f64> {
            let _ = std::fs::remove_file(file);
            let name = file.display().to_string();
            let words: Vec<&str> = [name.as_str()].into_iter().chain(words.iter().map(String::as_str)).collect();
            bench.run(&way, &program, &words).good().text().trim().parse().context("the program prints seconds")
        };
        let mut pairs = Pairs::default();
        for run in 0..RUNS {
            pairs.add(run, || time(Way::plain(ranks), &one), || time(Way::aggregated(ranks), &other))?;
            ensure!(std::fs::read(&one)? == std::fs::read(&other)?, "the two left different bytes");
        }
        pairs.tell(&mut measurement, &shape);
    }
    Ok(measurement)
}

impl Shape {
    fn words(&self) -> [String; 3] {
        [self.record_bytes, self.records, self.calls].map(|number| number.to_string())
    }
}

/// Seconds of ROMIO and of the library, run by run.
#[derive(Default)]
struct Pairs {
    romio: Samples,
    ours: Samples,
}

impl Pairs {
    /// A pair of runs; which of the two goes first alternates.
    fn add(
        &mut self,
        run: usize,
        romio: impl Fn() -> anyhow::Result<f64>,
        ours: impl Fn() -> anyhow::Result<f64>,
    ) -> anyhow::Result<()> {
        stop::check()?;
        if run.is_multiple_of(2) {
            self.romio.add(romio()?);
            self.ours.add(ours()?);
        } else {
            self.ours.add(ours()?);
            self.romio.add(romio()?);
        }
        Ok(())
    }

    fn tell(self, measurement: &mut Measurement, shape: &Shape) {
        let times = self.romio.over(&self.ours).median();
        if let Some(bar) = shape.bar {
            let what = format!("times ROMIO, {} calls of {} records of 1 KiB a rank", shape.calls, shape.records);
            measurement.bar(Bar::new(what, times, Side::AtLeast, bar, "x"));
        }
        measurement.figure(&format!("{}_times_faster", shape.name), times);
        measurement.figure(&format!("{}_romio_s", shape.name), self.romio);
        measurement.figure(&format!("{}_forebay_s", shape.name), self.ours);
    }
}
