//! The measurements, as the JSON and the tables show them.

use forebay_bench::quiet::Measured;
use forebay_testkit::machine::Machine;
use forebay_testkit::testbed::Traffic;
use forebay_trial::show::Way;
use serde::Serialize;

/// The programs of the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The file operations of the import alone.
    Replay,
    /// The import itself.
    Import,
}

/// One run: all nodes at the same time.
#[derive(Serialize)]
pub struct Run {
    pub work: Work,
    pub way: Way,
    /// Whether the nodes' caches held nothing of the files before.
    pub cold: bool,
    /// From the start signal to the end of the slowest node's program.
    pub wall_seconds: f64,
    /// User and system time of the programs, all nodes.
    pub programs_cpu_seconds: f64,
    /// User and system time of Forebay's daemons, all nodes.
    pub daemons_cpu_seconds: f64,
    /// At the backing file system.
    pub traffic: Traffic,
}

/// A checkpoint in the burst tier.
#[derive(Serialize)]
pub struct Checkpoint {
    pub bytes: u64,
    /// From the first write until `fsync` and `close` have returned.
    pub free_seconds: f64,
    /// From the first write until the file was on the backing file system.
    pub landed_seconds: f64,
    /// Steps of its computation that the program made between these two moments.
    pub steps: u64,
    /// From the first write until `fsync` and `close` have returned, for the same program in the backing directory itself.
    pub direct_seconds: f64,
}

/// Requests of an MPI program, or a plan.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Write requests, cut at stripes of 1 MiB.
    Counted {
        /// The MPI, as a user knows it.
        mpi: &'static str,
        ranks: u32,
        file_bytes: u64,
        /// By the ranks, each for itself.
        independent: u64,
        /// With ROMIO's collective buffering.
        romio: u64,
        forebay: u64,
    },
    /// By `forebay plan`; nothing is measured.
    Predicted {
        nodes: u32,
        aggregators: u32,
        bytes: u64,
        /// The strategy with the least time, and that time.
        best: String,
        best_seconds: f64,
        /// With ROMIO's choice of aggregators.
        romio_seconds: f64,
    },
}

/// Statistics of all columns of a CSV file.
#[derive(Serialize)]
pub struct Answer {
    pub bytes: u64,
    pub rows: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// The contents of the JSON.
#[derive(Serialize)]
pub struct Document {
    pub machine: Machine,
    pub backing: String,
    pub nodes: usize,
    /// The program of the nodes, in words.
    pub program: String,
    /// How long `forebay up` took, median of its starts.
    pub up_seconds: f64,
    pub runs: Vec<Measured<Run>>,
    /// The file system that the checkpoint lands on, in words.
    pub checkpoint_backing: String,
    pub checkpoint: Measured<Checkpoint>,
    pub aggregation: Aggregation,
    pub query: Measured<Answer>,
    /// The same statistics by Python's csv module and a plain loop.
    pub query_by_python: Measured<Answer>,
}
