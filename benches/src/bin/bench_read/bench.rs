//! Shared parts of the measurements: the programs, a place to work, and how often to repeat.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use forebay_bench::job::{Forebay, Job};
use forebay_bench::python::{Python, Replayed, slowest};
use forebay_bench::storm;
use forebay_testkit::Place;
use forebay_testkit::results::{Bar, Samples, Side};
use forebay_testkit::scratch::Scratch;

/// The programs and files of the measurements, and their number of runs.
#[derive(Args)]
pub struct BenchOptions {
    /// Fewer runs and smaller files: to see that everything works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// The Python tree (benches/python-tree.sh builds it)
    #[arg(long, default_value = "target/python-tree")]
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
    /// A directory on a local disk, for files to read and for images
    #[arg(long, default_value = "target/bench/work")]
    pub work: PathBuf,
}

/// The bench.
pub struct Bench {
    /// How `forebay` is called for jobs on this machine.
    pub forebay: Forebay,
    /// The work that is measured.
    pub python: Python,
    /// The Python tree on a local disk.
    pub tree: PathBuf,
    /// The test bed's script.
    pub testbed: PathBuf,
    /// Few and short runs.
    pub quick: bool,
    /// Files to read, on a local disk.
    pub files: Scratch,
    /// Mount points, sockets and short-lived files.
    pub scratch: Scratch,
}

impl Bench {
    /// Finds everything.
    pub fn new(options: BenchOptions) -> anyhow::Result<Self> {
        let found = |path: &Path| path.canonicalize().with_context(|| format!("there is no {}", path.display()));
        let scratch = Scratch::new(&std::env::temp_dir(), "forebay-bench")?;
        Ok(Self {
            forebay: Forebay {
                binary: found(&options.forebay)?,
                runtime: scratch.dir("run")?,
                environment: Vec::new(),
            },
            python: Python::find(&options.replay)?,
            tree: found(&options.tree)?,
            testbed: found(&options.testbed)?,
            quick: options.quick,
            files: Scratch::new(&options.work, "files")?,
            scratch,
        })
    }

    /// How often to repeat: `full` times, or as few as show that it works.
    pub fn runs(&self, full: usize) -> usize {
        if self.quick { full.min(2) } else { full }
    }

    /// A job on this machine that exports `export`.
    pub fn up_local(&self, nodes: usize, export: &Path, more: &[&str]) -> anyhow::Result<Job> {
        let mut options = vec!["--local".into(), nodes.to_string().into(), "--export".into(), OsString::from(export)];
        options.extend(more.iter().map(OsString::from));
        // Short names: a socket's path has 107 bytes at most.
        self.forebay.up(&format!("b{}", std::process::id()), &self.scratch.dir("view")?, &options)
    }

    /// How long `argv` takes on this machine, and the processor time it uses.
    pub fn timed(&self, argv: &[OsString]) -> anyhow::Result<storm::Storm> {
        storm::at_once(vec![Place::here().gated("", argv)])
    }

    /// The replay over `tree` on one node, alone.
    pub fn replayed(&self, place: &Place, tree: &Path) -> anyhow::Result<Replayed> {
        slowest(&storm::at_once(vec![place.gated("", &self.python.replay(tree))])?.outputs)
    }

    /// A file of `len` bytes that do not compress and do not repeat.
    pub fn random_file(&self, name: &str, len: u64) -> anyhow::Result<PathBuf> {
        let path = self.files.path().join(name);
        let mut file = BufWriter::new(File::create(&path)?);
        // A xorshift generator is as good as any where nobody guesses.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..len / 8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            file.write_all(&state.to_le_bytes())?;
        }
        file.flush()?;
        Ok(path)
    }

    /// A directory of `count` small files.
    pub fn directory_of(&self, count: usize) -> anyhow::Result<PathBuf> {
        let path = self.files.dir("entries")?;
        for index in 0..count {
            fs::write(path.join(format!("result-{index:06}.dat")), index.to_string())?;
        }
        Ok(path)
    }
}

/// `dd` that reads a file whole, 1 MiB at a time.
pub fn read_whole(path: &Path) -> Vec<OsString> {
    let mut input = OsString::from("if=");
    input.push(path);
    ["dd".into(), input, "of=/dev/null".into(), "bs=1M".into(), "status=none".into()].to_vec()
}

/// The bar of the first replay's cost to the programs, against the same on a local file system.
pub fn client_cpu_bar(what: &str, through: &Samples, local: &Samples) -> Bar {
    let what = format!("{what}, client CPU against the local file system");
    Bar::new(what, through.median() / local.median(), Side::AtMost, 1.7, "x")
}

/// Milliseconds, for figures.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
