//! The read path: one Python start-up on all nodes, straight from the backing file system and through Forebay.
//!
//! Both sides have the same backing file system, the same programs and the same moment of start; the difference is the path
//! that the programs read from. A run that other work disturbed is repeated, a cold one from fresh mounts on.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use forebay_bench::python::{self, Python};
use forebay_bench::quiet::{Gauge, Measured, Observed, Repeater};
use forebay_bench::storm;
use forebay_testkit::Place;
use forebay_trial::show::Way;
use serde::Deserialize;

use crate::document::{Run, Work};
use crate::options::Options;
use crate::show;
use crate::site::Site;

/// The program of the nodes.
pub struct Program<'a> {
    python: &'a Python,
    is_big: bool,
    /// In words, as a user would type it or describe it.
    pub described: String,
}

/// The output of the small tree's program.
#[derive(Deserialize)]
struct Printed {
    modules: u64,
}

impl<'a> Program<'a> {
    /// Runs it once on the local tree, so that no run waits for this machine's own disk.
    pub fn find(python: &'a Python, options: &Options) -> anyhow::Result<Self> {
        let place = Place::here();
        let tree = options.tree.canonicalize().with_context(|| format!("no tree at {}", options.tree.display()))?;
        let mut program = Self { python, is_big: options.big, described: format!("python3 -c '{}'", python::IMPORT) };
        if options.big {
            storm::at_once(vec![place.gated("", &python.replay(&tree))])?;
        }
        let storm = storm::at_once(vec![place.gated("", &program.words(Work::Import, &tree))])?;
        if !options.big {
            let text = storm.outputs.first().map_or("", String::as_str);
            let Printed { modules } = serde_json::from_str(text).context("what the demo's program prints")?;
            program.described =
                format!("python3 imports {modules} modules: its standard library and a small application");
        }
        Ok(program)
    }

    /// The comparison.
    pub fn works(&self) -> &'static [Work] {
        if self.is_big { &[Work::Replay, Work::Import] } else { &[Work::Import] }
    }

    fn words(&self, work: Work, tree: &Path) -> Vec<OsString> {
        match work {
            Work::Replay => self.python.replay(tree),
            Work::Import if self.is_big => self.python.import(tree),
            Work::Import => self.python.program(tree),
        }
    }
}

/// All runs, in the order in which the table has them.
pub fn measure(site: &mut Site, program: &Program<'_>, repeater: &mut Repeater) -> anyhow::Result<Vec<Measured<Run>>> {
    let mut runs = Vec::new();
    for work in program.works() {
        for way in [Way::Direct, Way::Forebay] {
            for cold in [true, false] {
                show::progress(&show::run_described(*work, way, cold));
                let run = repeater.measure(
                    |run: &Run, reason| show::repeated(run.wall_seconds, reason),
                    || {
                        if cold {
                            site.prepare(way)?;
                        }
                        one_run(site, program, *work, way, cold)
                    },
                )?;
                show::done(&run, run.value.wall_seconds);
                runs.push(run);
            }
        }
        site.stop_forebay()?;
    }
    Ok(runs)
}

fn one_run(site: &Site, program: &Program<'_>, work: Work, way: Way, cold: bool) -> anyhow::Result<(Run, Observed)> {
    let trees = site.trees(way)?;
    let commands = trees.iter().map(|(place, tree)| place.gated("", &program.words(work, tree))).collect();
    let (traffic, daemons) = (site.traffic()?, site.daemons_cpu());
    let gauge = Gauge::start(site.own_cpu(&[])?)?;
    let storm = storm::at_once(commands)?;
    let observed = gauge.finish(site.own_cpu(&[])?)?;
    let run = Run {
        work,
        way,
        cold,
        wall_seconds: storm.wall.as_secs_f64(),
        programs_cpu_seconds: storm.cpu.as_secs_f64(),
        daemons_cpu_seconds: site.daemons_cpu().saturating_sub(daemons).as_secs_f64(),
        traffic: site.traffic()?.since(&traffic),
    };
    Ok((run, observed))
}
