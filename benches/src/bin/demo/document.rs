//! What was measured, as the JSON and the tables show it.

use forebay_testkit::machine::Machine;
use forebay_testkit::testbed::Traffic;
use serde::Serialize;

/// What runs on the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The file operations of the import alone.
    Replay,
    /// The import itself.
    Import,
}

/// Where the programs read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the backing file system.
    Direct,
    /// Through Forebay's view.
    Forebay,
}

/// One run: all nodes at once.
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

/// What the JSON holds.
#[derive(Serialize)]
pub struct Document {
    pub machine: Machine,
    pub backing: String,
    pub nodes: usize,
    pub import: &'static str,
    /// How long `forebay up` took, median of its starts.
    pub up_seconds: f64,
    pub runs: Vec<Run>,
}
