//! `make demo`: one Python start-up on several nodes at once, straight from a slow network file system and through
//! Forebay, cold and warm.
//!
//! Both sides of the comparison use the same backing file system, the same programs and the same moment of start; what
//! differs is the path the programs read from. Each run prints a table and writes the JSON behind it.

mod show;
mod site;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use forebay_bench::python::{self, Python};
use forebay_bench::storm;
use forebay_testkit::machine::Machine;
use forebay_testkit::results::write_json;
use forebay_testkit::stop;
use forebay_testkit::testbed::Traffic;
use serde::Serialize;

use site::Site;

/// Compares a Python start-up on many nodes straight from a slow file system and through Forebay.
#[derive(Parser)]
struct Options {
    /// The Python tree (benches/python-tree.sh builds it)
    #[arg(long)]
    tree: PathBuf,
    /// The replay program
    #[arg(long, default_value = "benches/import-replay.py")]
    replay: PathBuf,
    /// The forebay binary
    #[arg(long, default_value = "target/release/forebay")]
    forebay: PathBuf,
    /// The script that builds the GlusterFS test bed
    #[arg(long, default_value = "crates/harness/testkit/testbed/pfs-testbed.sh")]
    testbed: PathBuf,
    /// What the files lie on: a model of a network file system, or a real one in network namespaces
    #[arg(long, value_enum, default_value_t = Backing::Model)]
    backing: Backing,
    /// How many nodes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    nodes: u8,
    /// Where the JSON goes
    #[arg(long, default_value = "target/demo/demo.json")]
    json: PathBuf,
}

/// The backing file system.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backing {
    Model,
    Gluster,
}

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
    work: Work,
    way: Way,
    /// Whether the nodes' caches held nothing of the files before.
    cold: bool,
    /// From the start signal to the end of the slowest node's program.
    wall_seconds: f64,
    /// User and system time of the programs, all nodes.
    programs_cpu_seconds: f64,
    /// User and system time of Forebay's daemons, all nodes.
    daemons_cpu_seconds: f64,
    /// At the backing file system.
    traffic: Traffic,
}

/// What the JSON holds.
#[derive(Serialize)]
pub struct Document {
    machine: Machine,
    backing: String,
    nodes: usize,
    import: &'static str,
    /// How long `forebay up` took, median of its starts.
    up_seconds: f64,
    runs: Vec<Run>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    stop::exit_code("forebay-demo", demo(&options))
}

fn demo(options: &Options) -> anyhow::Result<ExitCode> {
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    let python = Python::find(&options.replay)?;
    let machine = Machine::here(".".as_ref());
    warm_local_disk(&python, options)?;
    let mut site = match options.backing {
        Backing::Model => Site::model(options)?,
        Backing::Gluster => Site::gluster(options)?,
    };
    show::introduction(&machine, &site);
    let runs = all_runs(&mut site, &python)?;
    let (up_seconds, backing, nodes) = (site.up_seconds(), site.described(), site.nodes());
    drop(site);
    let document = Document { machine, backing, nodes, import: python::IMPORT, up_seconds, runs };
    write_json(&options.json, &document)?;
    show::table(&document);
    show::what_next(options.backing == Backing::Model, &options.json);
    Ok(ExitCode::SUCCESS)
}

/// Reads the tree once, so that no run waits for this machine's own disk.
fn warm_local_disk(python: &Python, options: &Options) -> anyhow::Result<()> {
    let place = forebay_testkit::Place::here();
    let tree = options.tree.canonicalize().with_context(|| format!("no tree at {}", options.tree.display()))?;
    storm::at_once(vec![place.gated("", &python.replay(&tree))])?;
    storm::at_once(vec![place.gated("", &python.import(&tree))])?;
    Ok(())
}

fn all_runs(site: &mut Site, python: &Python) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for work in [Work::Replay, Work::Import] {
        for way in [Way::Direct, Way::Forebay] {
            site.make_cold()?;
            if way == Way::Forebay {
                site.start_forebay()?;
            }
            for cold in [true, false] {
                show::progress(work, way, cold);
                let run = one_run(site, python, work, way, cold)?;
                show::finished(&run);
                runs.push(run);
            }
            site.stop_forebay()?;
        }
    }
    Ok(runs)
}

fn one_run(site: &Site, python: &Python, work: Work, way: Way, cold: bool) -> anyhow::Result<Run> {
    let trees = site.trees(way)?;
    let commands = trees.iter().map(|(place, tree)| match work {
        Work::Replay => place.gated("", &python.replay(tree)),
        Work::Import => place.gated("", &python.import(tree)),
    });
    let (traffic, daemons) = (site.traffic()?, site.daemons_cpu()?);
    let storm = storm::at_once(commands.collect())?;
    Ok(Run {
        work,
        way,
        cold,
        wall_seconds: storm.wall.as_secs_f64(),
        programs_cpu_seconds: storm.cpu.as_secs_f64(),
        daemons_cpu_seconds: site.daemons_cpu()?.saturating_sub(daemons).as_secs_f64(),
        traffic: site.traffic()?.since(&traffic),
    })
}
