//! What the demo is asked to do.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Compares a Python start-up on many nodes straight from a slow file system and through Forebay.
#[derive(Parser)]
pub struct Options {
    /// The Python tree (benches/python-tree.sh builds it)
    #[arg(long)]
    pub tree: PathBuf,
    /// The replay program
    #[arg(long, default_value = "benches/import-replay.py")]
    pub replay: PathBuf,
    /// The forebay binary
    #[arg(long, default_value = "target/release/forebay")]
    pub forebay: PathBuf,
    /// The script that builds the GlusterFS test bed
    #[arg(long, default_value = "crates/harness/testkit/testbed/pfs-testbed.sh")]
    pub testbed: PathBuf,
    /// What the files lie on: a model of a network file system, or a real one in network namespaces
    #[arg(long, value_enum, default_value_t = Backing::Model)]
    pub backing: Backing,
    /// How many nodes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub nodes: u8,
    /// Where the JSON goes
    #[arg(long, default_value = "target/demo/demo.json")]
    pub json: PathBuf,
}

/// The backing file system.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backing {
    Model,
    Gluster,
}
