//! MPI programs over the nodes of the test bed: real Open MPI, by TCP between network namespaces, on files of GlusterFS.
//!
//! `mpirun` runs on node 0 and starts its daemons on the others by a launch agent. A node does not see the other nodes' mount
//! namespaces, so the agent goes by way of the namespace of this process.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::mpi::{Bench, OPEN_MPI};
use crate::testbed::Testbed;
use forebay_trial::run;

/// Open MPI on the nodes of a test bed.
pub struct MpiCluster<'a> {
    bench: &'a Bench,
    testbed: &'a Testbed,
    agent: PathBuf,
    ranks_per_node: usize,
}

/// How a program's collective calls are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// By ROMIO as it is without hints.
    Plain,
    /// By ROMIO's two phases, one aggregator a node.
    Romio,
    /// By the library, as it is without hints.
    Forebay,
}

impl<'a> MpiCluster<'a> {
    /// For the programs of a bench.
    ///
    /// # Errors
    /// When the launch agent cannot be written.
    pub fn new(bench: &'a Bench, testbed: &'a Testbed, ranks_per_node: usize) -> anyhow::Result<Self> {
        ensure!(bench.mpi.name == OPEN_MPI.name, "only Open MPI takes a launch agent here");
        let (agent, hints) = (bench.path("agent"), bench.path("romio-enabled"));
        let shell = format!("nsenter --target {} --mount -- {} \"$node\" --", std::process::id(), testbed.shell());
        fs::write(&agent, format!("node=$1; shift; exec {shell} sh -c \"$*\"\n"))?;
        fs::write(hints, "romio_cb_write enable\nromio_cb_read enable\n")?;
        Ok(Self { bench, testbed, agent, ranks_per_node })
    }

    /// Where its files are, on every node.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.testbed.files().join(name)
    }

    /// Runs a program on all ranks, with a file that is there and empty; what it prints.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, aggregation: Aggregation, program: &Path, file: &Path, words: &[&str]) -> anyhow::Result<String> {
        // ROMIO looks on every node before the file is made, and the other nodes' kernels believe for a second that it is not.
        run::output(&mut self.testbed.place(0).command(&["truncate".as_ref(), "--size=0".as_ref(), file.as_os_str()]))?;
        let mut argv = self.launcher(aggregation);
        argv.extend([program.into(), file.into()]);
        argv.extend(words.iter().map(OsString::from));
        let mut command = self.testbed.place(0).command(&argv);
        command.envs(self.testbed.environment());
        run::output(&mut command).with_context(|| format!("{} by {aggregation:?}", program.display()))
    }

    fn launcher(&self, aggregation: Aggregation) -> Vec<OsString> {
        let nodes = self.testbed.nodes();
        let hosts: Vec<String> =
            self.testbed.names(nodes).iter().map(|name| format!("{name}:{}", self.ranks_per_node)).collect();
        let (ranks, hosts) = ((nodes * self.ranks_per_node).to_string(), hosts.join(","));
        let agent = format!("sh {}", self.agent.display());
        let mut argv: Vec<OsString> =
            ["mpirun.openmpi", "--allow-run-as-root", "--quiet", "-n", &ranks, "--host", &hosts, "--map-by", "node"]
                .map(OsString::from)
                .to_vec();
        for (name, value) in [
            ("plm_rsh_agent", agent.as_str()),
            ("io", "romio321"),
            ("btl", "self,vader,tcp"),
            ("btl_tcp_if_include", "eth0"),
            ("oob_tcp_if_include", "eth0"),
            ("btl_vader_single_copy_mechanism", "none"),
            ("mpi_yield_when_idle", "1"),
        ] {
            argv.extend(["--mca", name, value].map(OsString::from));
        }
        // On the nodes the agent's children need to know the test bed, and ranks where their things are.
        let mut variables = vec![];
        match aggregation {
            Aggregation::Plain => {}
            Aggregation::Romio => variables.push(("ROMIO_HINTS", self.bench.path("romio-enabled"))),
            Aggregation::Forebay => {
                variables.push(("LD_PRELOAD", self.bench.library()));
                variables.push(("FOREBAY_MPIIO_RECORDS", self.bench.records()));
            }
        }
        for (name, value) in variables {
            argv.extend(["-x".into(), format!("{name}={}", value.display()).into()]);
        }
        argv
    }

    /// Removes a file.
    ///
    /// # Errors
    /// That of the command.
    pub fn remove(&self, file: &Path) -> anyhow::Result<()> {
        run::output(&mut self.testbed.place(0).command(&["rm".as_ref(), file.as_os_str()])).map(drop)
    }

    /// Whether two files have the same bytes, as another node than those which wrote last sees them; removes both.
    ///
    /// # Errors
    /// When they differ or cannot be read.
    pub fn compare(&self, one: &Path, other: &Path) -> anyhow::Result<()> {
        let last = self.testbed.place(self.testbed.nodes() - 1);
        run::output(&mut last.command(&["cmp".as_ref(), one.as_os_str(), other.as_os_str()]))?;
        run::output(&mut last.command(&["rm".as_ref(), one.as_os_str(), other.as_os_str()])).map(drop)
    }
}
