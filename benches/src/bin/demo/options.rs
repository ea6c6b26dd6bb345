//! The options of the demo.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Nodes for each processor: enough of them to ask the file system for the same files at the same time, and few enough that they
/// wait for it and not for processors.
const NODES_PER_CORE: usize = 2;

/// More nodes make the direct runs longer in proportion, and show nothing else.
const NODES_MOST: usize = 8;

/// Shows Forebay's four paths beside what a job has without it: read, write, aggregate, query.
#[derive(Parser)]
pub struct Options {
    /// The Python tree (benches/demo/tree.py makes it; with --big benches/python-tree.sh)
    #[arg(long)]
    pub tree: PathBuf,
    /// The tree is that of scikit-learn and pandas; also replay the import's file operations alone
    #[arg(long)]
    pub big: bool,
    /// The replay program
    #[arg(long, default_value = "benches/import-replay.py")]
    pub replay: PathBuf,
    /// The directory of the demo's own programs
    #[arg(long, default_value = "benches/demo")]
    pub programs: PathBuf,
    /// The directory of the MPI program that is run where an MPI is installed
    #[arg(long, default_value = "tests/mpiio/programs")]
    pub mpi_programs: PathBuf,
    /// The forebay binary
    #[arg(long, default_value = "target/release/forebay")]
    pub forebay: PathBuf,
    /// The script that builds the GlusterFS test bed
    #[arg(long, default_value = "crates/harness/testkit/testbed/pfs-testbed.sh")]
    pub testbed: PathBuf,
    /// The file system of the files: a model of a network file system, or a real one in network namespaces
    #[arg(long, value_enum, default_value_t = Backing::Model)]
    pub backing: Backing,
    /// How many nodes [default: two a core, at most 8; with --big 8]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub nodes: Option<u8>,
    /// Do not repeat runs that other programs disturbed
    #[arg(long)]
    pub once: bool,
    /// Where the JSON goes
    #[arg(long, default_value = "target/demo/demo.json")]
    pub json: PathBuf,
}

impl Options {
    /// How many nodes, and why, on a machine with so many cores.
    #[must_use]
    pub fn nodes(&self, cores: usize) -> (usize, String) {
        if let Some(nodes) = self.nodes {
            return (nodes.into(), "as asked for".to_owned());
        }
        if self.big {
            return (NODES_MOST, "always with BIG=1".to_owned());
        }
        let nodes = (cores * NODES_PER_CORE).clamp(NODES_PER_CORE, NODES_MOST);
        let rule =
            if nodes < cores * NODES_PER_CORE { format!("at most {NODES_MOST}") } else { "two a core".to_owned() };
        (nodes, rule)
    }
}

/// The backing file system.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backing {
    Model,
    Gluster,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_follow_the_cores_up_to_a_limit() {
        let options = |words: &[&str]| Options::parse_from([&["forebay-demo", "--tree", "t"], words].concat());
        let counts = [1, 2, 4, 64].map(|cores| options(&[]).nodes(cores).0);
        assert_eq!(counts, [2, 4, 8, 8]);
        assert_eq!(options(&["--big"]).nodes(2).0, 8);
        assert_eq!(options(&["--nodes", "3"]).nodes(2).0, 3);
    }
}
