//! The aggregate path: the write requests of an MPI program, or where no MPI is installed a prediction of the planner.
//!
//! Requests do not depend on the load of the machine, and a local file is enough to count them. The demo never installs an
//! MPI. One that does not work here is named, and the prediction takes its place.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use forebay_testkit::run;
use forebay_testkit::stop::{self, Stopped};
use forebay_testkit::{Place, need};
use serde::Deserialize;
use serde_json::json;

use crate::document::Aggregation;
use crate::options::Options;
use crate::show;
use crate::site::Site;

/// Ranks of the program, and particles of each: 38 bytes a particle, as HACC's checkpoints have them.
const RANKS: u32 = 8;
const PARTICLES: u32 = 25_000;

/// The hints of the three ways. One aggregator for both who aggregate, so that they differ in nothing else.
const ALONE: &str = "romio_cb_write disable\n";
const GATHERED: &str = "romio_cb_write enable\ncb_nodes 1\n";

/// An MPI as Debian names its commands.
struct Mpi {
    name: &'static str,
    title: &'static str,
    compiler: &'static str,
    launcher: &'static str,
}

const MPIS: [Mpi; 2] = [
    Mpi { name: "openmpi", title: "Open MPI", compiler: "mpicc.openmpi", launcher: "mpirun.openmpi" },
    Mpi { name: "mpich", title: "MPICH", compiler: "mpicc.mpich", launcher: "mpiexec.mpich" },
];

/// Counts, or predicts.
pub fn measure(site: &Site, options: &Options) -> anyhow::Result<Aggregation> {
    for mpi in &MPIS {
        let Some(library) = library(site, mpi) else { continue };
        show::progress(&format!("an MPI program of {RANKS} ranks, compiled and run three times ({})", mpi.title));
        match Bench::new(site, options, mpi).and_then(|bench| bench.count(&library)) {
            Ok(counted) => {
                show::ended("done");
                return Ok(counted);
            }
            Err(error) if error.is::<Stopped>() => return Err(error),
            Err(error) => show::ended(&format!("{} does not work here: {error:#}", mpi.title)),
        }
    }
    show::progress("a plan for an MPI program, because no usable MPI is installed");
    let plan = predict(site)?;
    show::ended("done");
    Ok(plan)
}

/// The library for an MPI that is installed.
fn library(site: &Site, mpi: &Mpi) -> Option<PathBuf> {
    let is_there = |command| need::Need::Command(command).missing().is_none();
    if !is_there(mpi.compiler) || !is_there(mpi.launcher) {
        return None;
    }
    // A machine with an MPI and without the library is no fault of the demo's.
    let beside = site.forebay().binary.with_file_name(format!("libforebay_mpiio_{}.so", mpi.name));
    beside.is_file().then_some(beside)
}

/// The program, compiled, and its files.
struct Bench<'a> {
    mpi: &'a Mpi,
    directory: PathBuf,
    program: PathBuf,
    /// Counts the requests between the program and the C library.
    counter: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(site: &Site, options: &Options, mpi: &'a Mpi) -> anyhow::Result<Self> {
        let directory = site.directory(&format!("mpi-{}", mpi.name))?;
        let (program, counter) = (directory.join("patterns"), directory.join("requests.so"));
        let sources = options.mpi_programs.canonicalize().context("the MPI program's source")?;
        let compile = |words: &[&str], source: &str, to: &Path| {
            let mut argv: Vec<OsString> = words.iter().map(OsString::from).collect();
            argv.extend(["-o".into(), to.into(), sources.join(source).into(), "-ldl".into()]);
            run::output(&mut Place::here().command(&argv)).map(drop)
        };
        compile(&[mpi.compiler, "-O1"], "patterns.c", &program)?;
        compile(&["cc", "-shared", "-fPIC"], "requests.c", &counter)?;
        Ok(Self { mpi, directory, program, counter })
    }

    fn count(&self, library: &Path) -> anyhow::Result<Aggregation> {
        let independent = self.requests("independent", ALONE, None)?;
        let romio = self.requests("romio", GATHERED, None)?;
        // The path of a checkout may have a blank, which LD_PRELOAD would take for the end of the library's name.
        let link = self.directory.join("forebay.so");
        std::os::unix::fs::symlink(library.canonicalize().context("the library for MPI programs")?, &link)?;
        let forebay = self.requests("forebay", GATHERED, Some(&link))?;
        let has_record = fs::read_dir(self.directory.join("records")).is_ok_and(|mut records| records.next().is_some());
        ensure!(has_record, "the program ran without Forebay's library, although LD_PRELOAD names {}", link.display());
        let contents = |name: &str| fs::read(self.directory.join(name)).with_context(|| format!("cannot read {name}"));
        let bytes = contents("romio")?;
        ensure!(bytes == contents("independent")?, "ROMIO's file differs from that of ranks which write alone");
        ensure!(bytes == contents("forebay")?, "Forebay's file differs from ROMIO's; this is a defect of Forebay");
        let file_bytes = bytes.len() as u64;
        Ok(Aggregation::Counted { mpi: self.mpi.title, ranks: RANKS, file_bytes, independent, romio, forebay })
    }

    /// Runs the program and adds up the write requests of all ranks, cut at stripes of 1 MiB.
    fn requests(&self, name: &str, hints: &str, library: Option<&Path>) -> anyhow::Result<u64> {
        let (file, log) = (self.directory.join(name), self.directory.join(format!("{name}.requests")));
        let hints_file = self.directory.join(format!("{name}.hints"));
        fs::write(&hints_file, hints)?;
        let mut preloads = self.counter.clone().into_os_string();
        if let Some(library) = library {
            preloads.push(":");
            preloads.push(library);
        }
        let records = self.directory.join("records");
        let environment: [(&str, &std::ffi::OsStr); 6] = [
            ("LD_PRELOAD", &preloads),
            ("ROMIO_HINTS", hints_file.as_os_str()),
            ("FB_REQUESTS", log.as_os_str()),
            ("FB_REQUESTS_OF", file.as_os_str()),
            ("FOREBAY_MPIIO_RECORDS", records.as_os_str()),
            // The program closes the file before anybody reads it, so its nine calls may be held until then, however slow it is.
            ("FOREBAY_MPIIO_HOLD", "yes".as_ref()),
        ];
        let mut command = self.launcher(&environment);
        command.arg(&self.program).arg(&file).args(["hacc-structs", "0", &PARTICLES.to_string()]);
        run::output(&mut command)?;
        let text = fs::read_to_string(&log).context("the ranks' counts")?;
        let counts = text.lines().map(|line| line.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok()));
        let counts: Vec<u64> = counts.collect::<Option<_>>().context("not the ranks' counts")?;
        // A rank without a request writes no line.
        ensure!(!counts.is_empty(), "no rank has counted a request");
        Ok(counts.iter().sum())
    }

    /// The variables are the ranks' alone: the launcher would be preloaded itself.
    fn launcher(&self, environment: &[(&str, &std::ffi::OsStr)]) -> Command {
        let joined = |name: &str, value: &std::ffi::OsStr| {
            let mut text = OsString::from(format!("{name}="));
            text.push(value);
            text
        };
        let ranks = RANKS.to_string();
        let mut command = Place::here().command(&[self.mpi.launcher, "-n", &ranks]);
        // Sessions and shared memory of the launcher go with the demo's own directory.
        command.env("TMPDIR", &self.directory);
        if self.mpi.name == "mpich" {
            for (name, value) in environment {
                command.arg("-genv").arg(name).arg(value);
            }
            return command;
        }
        command.args(["--oversubscribe", "--quiet", "--mca", "mpi_yield_when_idle", "1", "--mca", "io", "romio321"]);
        command.args(["--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]);
        command.args(["--mca", "plm_rsh_agent", "/bin/false", "--mca", "btl_vader_backing_directory"]);
        command.arg(&self.directory);
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
        for (name, value) in environment {
            command.arg("-x").arg(joined(name, value));
        }
        command
    }
}

/// The job of the prediction: all nodes of a torus of five dimensions, 16 ranks a node with 64 KiB each, eight I/O nodes.
const NODES: u32 = 512;
const RANKS_PER_NODE: u32 = 16;
const RANK_BYTES: u32 = 64 << 10;
const AGGREGATORS: u32 = 32;

/// The part of `forebay plan --json` that is used.
#[derive(Deserialize)]
struct Plan {
    best: String,
    strategies: Vec<Strategy>,
}

#[derive(Deserialize)]
struct Strategy {
    name: String,
    total_s: f64,
}

fn predict(site: &Site) -> anyhow::Result<Aggregation> {
    let case = site.directory("plan")?.join("case.json");
    fs::write(&case, case_of_the_prediction().to_string())?;
    stop::check()?;
    let text = run::output(&mut site.forebay().command(&["plan".into(), case.into(), "--json".into()]))?;
    let plan: Plan = serde_json::from_str(&text).context("forebay plan --json")?;
    let total = |name: &str| {
        let found = plan.strategies.iter().find(|strategy| strategy.name == name);
        found.map(|strategy| strategy.total_s).with_context(|| format!("the plan lacks {name}"))
    };
    Ok(Aggregation::Predicted {
        nodes: NODES,
        aggregators: AGGREGATORS,
        bytes: u64::from(NODES * RANKS_PER_NODE) * u64::from(RANK_BYTES),
        best_seconds: total(&plan.best)?,
        romio_seconds: total("romio")?,
        best: plan.best,
    })
}

/// Ranks in blocks of four nodes, out of order, as schedulers place them.
fn case_of_the_prediction() -> serde_json::Value {
    let blocks = NODES / 4;
    // 37 and the number of blocks have no common divisor, so every block comes once.
    let map: Vec<u32> = (0..blocks).flat_map(|block| (0..4).map(move |node| block * 37 % blocks * 4 + node)).collect();
    let io_nodes: Vec<_> = (0..8)
        .map(|index| json!({"node": index * 64, "bytes_per_s": 1.8e9, "serves": [index * 64, index * 64 + 63]}))
        .collect();
    json!({
        "topology": {"torus": [4, 4, 4, 4, 2]},
        "link_bytes_per_s": 1.8e9,
        "link_latency_s": 1e-6,
        "nodes": NODES,
        "io_nodes": io_nodes,
        "ranks": {"per_node": RANKS_PER_NODE, "bytes": RANK_BYTES, "map": map},
        "stripe_bytes": 1 << 20,
        "aggregators": AGGREGATORS,
        "rounds": 1,
    })
}
