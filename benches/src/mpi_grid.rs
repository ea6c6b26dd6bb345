//! The time that a lattice in blocks of four dimensions takes into one file and back: by MPI-IO with a view, plain and with the library,
//! and by hand, as lattice codes write it that gave MPI-IO up.

use std::path::Path;

use anyhow::Context;
use forebay_testkit::mpi::{Bench, OPEN_MPI};
use forebay_testkit::mpi_cluster::{Aggregation, MpiCluster};
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use forebay_testkit::testbed::{BUSY, Testbed};

const NODES: usize = 4;
const RANKS_PER_NODE: usize = 2;

/// Rounds of the three ways, which take turns in beginning.
const RUNS: usize = 10;

/// Sites in each dimension: 12 MiB.
const LENGTH: &str = "16";

/// The ways, by name: how the program is run, and its word for it.
const WAYS: [(&str, Aggregation, &str); 3] = [
    ("romio", Aggregation::Plain, "mpi"),
    ("by_hand", Aggregation::Plain, "hand"),
    ("forebay", Aggregation::Forebay, "mpi"),
];

/// Measures them over GlusterFS in network namespaces, with the programs and the test bed of the repository at `root`.
///
/// # Errors
/// When the test bed does not come up, a program fails, or once the user has asked to stop.
pub fn measure(root: &Path) -> anyhow::Result<Measurement> {
    let script = root.join("crates/harness/testkit/testbed/pfs-testbed.sh");
    let testbed = Testbed::up(&script, NODES, BUSY.at_once)?;
    testbed.slow_down(BUSY)?;
    let bench = Bench::new(OPEN_MPI, root);
    let program = bench.compile("grid.c");
    let cluster = MpiCluster::new(&bench, &testbed, RANKS_PER_NODE)?;
    let mut measurement = Measurement::under(format!(
        "GlusterFS, its server behind {}, metadata requests of {} microseconds, {} at once; {NODES} nodes of {RANKS_PER_NODE} \
         ranks in network namespaces of one machine, Open MPI by TCP; a lattice of {LENGTH}^4 sites of 192 bytes, blocks of all \
         dimensions; seconds from before the file is opened until all have closed it; ROMIO (romio321) without hints; by hand: \
         MPI_Alltoallv and one pwrite or pread a rank; {RUNS} alternating runs each",
        BUSY.link, BUSY.metadata_us, BUSY.at_once
    ));
    let mut seconds: [[Samples; 2]; 3] = Default::default();
    for run in 0..RUNS {
        let files: Vec<_> = WAYS.iter().map(|(name, ..)| cluster.file(&format!("grid-{run}-{name}"))).collect();
        for turn in 0..WAYS.len() {
            stop::check()?;
            let way = (run + turn) % WAYS.len();
            let (_, aggregation, word) = WAYS[way];
            let printed = cluster.run(aggregation, &program, &files[way], &[word, LENGTH])?;
            for (samples, number) in seconds[way].iter_mut().zip(printed.split_whitespace()) {
                samples.add(number.parse().context("the program prints seconds")?);
            }
        }
        // The program has checked every byte that it read; each way wrote what it read.
        files.iter().try_for_each(|file| cluster.remove(file))?;
    }
    let [romio, by_hand, ours] = &seconds;
    for (index, what) in ["written", "read"].into_iter().enumerate() {
        let over = |other: &[Samples; 2]| other[index].over(&ours[index]).median();
        let bar = |than: &str, times: f64, bar: f64| {
            Bar::new(format!("a lattice {what}, times {than}"), times, Side::AtLeast, bar, "x")
        };
        measurement.bar(bar("the program by hand", over(by_hand), 1.0));
        measurement.bar(bar("ROMIO without hints", over(romio), 3.0));
    }
    for ((name, ..), [written, read]) in WAYS.into_iter().zip(seconds) {
        measurement.figure(&format!("{name}_write_s"), written);
        measurement.figure(&format!("{name}_read_s"), read);
    }
    Ok(measurement)
}
