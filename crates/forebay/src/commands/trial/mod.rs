//! `try`: a command of the user on several nodes of this machine, directly on a modelled file system and through Forebay.
//!
//! It needs neither root nor a cluster. The model is called one wherever its figures are printed. Each round runs both ways, each from
//! cold caches on, so that neither has an advantage, and a ratio is printed only where the machine was quiet during both. All that is
//! started, mounted or made is gone before anything is printed on standard output.

mod choice;
mod compared;
mod enter;
mod failure;
mod shown;
mod site;
mod steps;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use forebay_trial::machine::Machine;
use forebay_trial::stop::{self, Stopped};

use crate::cli::TryArguments;
use crate::commands::trial::choice::{Choice, NotRunnable};
use crate::commands::trial::compared::Compared;
use crate::commands::trial::failure::CommandFailed;
use crate::commands::trial::shown::Trial;
use crate::commands::trial::site::Site;
use crate::exit;
use crate::output::{say, tell};

/// Nodes for each processor: enough of them to want the same files at the same time, and few enough that they wait for the file system
/// and not for processors.
const NODES_PER_CORE: usize = 2;

/// More nodes make the direct runs longer in proportion, and show nothing else.
const NODES_MOST: usize = 4;

/// The exit status after Ctrl-C (128 + SIGINT).
const STOPPED: u8 = 130;

/// Runs the trial, or a part of it in a process of its own.
pub fn run(arguments: &TryArguments) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &arguments.read {
        return enter::read(directory);
    }
    if let (Some(source), Some(tree)) = (&arguments.enter, &arguments.tree) {
        return enter::run(source, tree, &arguments.command);
    }
    match measured(arguments) {
        Ok(trial) => {
            if arguments.json {
                say!("{:#}", trial.in_json())
            } else {
                trial.print()
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => failed(error),
    }
}

/// The exit status of a trial that has not come to its end; `Err` for one that failed itself.
fn failed(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    steps::end_line();
    if error.is::<Stopped>() {
        tell!("forebay: stopped; everything that the trial had started is gone");
        return Ok(ExitCode::from(STOPPED));
    }
    if let Some(not_run) = error.downcast_ref::<NotRunnable>() {
        tell!("forebay: {not_run}");
        return Ok(ExitCode::from(if not_run.is_there { exit::NOT_RUN } else { exit::NOT_FOUND }));
    }
    let Some(failed) = error.downcast_ref::<CommandFailed>() else { return Err(error) };
    tell!("forebay: {failed}");
    Ok(ExitCode::from(failed.status))
}

/// All of it; what was started is gone when this returns.
fn measured(arguments: &TryArguments) -> anyhow::Result<Trial> {
    let start = Instant::now();
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    let choice = Choice::of(arguments)?;
    let machine = Machine::without_source();
    let default = (machine.cores * NODES_PER_CORE).clamp(NODES_PER_CORE, NODES_MOST);
    let nodes = arguments.nodes.map_or(default, usize::from);
    let processes = usize::from(arguments.processes);
    let mut site = Site::new(&choice, nodes, processes)?;
    steps::introduction(&choice, &machine, nodes, processes);
    steps::begin("once on the tree itself, without any model");
    let local_seconds = site.local().map_err(|error| {
        CommandFailed::of(error, "on the tree itself, which a trial does not let it change", &site.errors())
    })?;
    steps::end(local_seconds, None);
    let compared = Compared::measure(&mut site, start)?;
    Ok(Trial { choice, machine, nodes, processes, local_seconds, up_seconds: site.up_seconds(), compared })
}
