//! `make demo`: one Python start-up on several nodes at once, straight from a slow network file system and through
//! Forebay, cold and warm.
//!
//! Both sides of the comparison use the same backing file system, the same programs and the same moment of start; what
//! differs is the path the programs read from. Each run prints a table and writes the JSON behind it.

mod document;
mod options;
mod show;
mod site;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use forebay_bench::python::{self, Python};
use forebay_bench::storm;
use forebay_testkit::machine::Machine;
use forebay_testkit::results::write_json;
use forebay_testkit::stop;

use document::{Document, Run, Way, Work};
use options::{Backing, Options};
use site::Site;

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
