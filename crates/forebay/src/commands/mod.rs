//! The commands: a folder for each group that works on one thing, a file for each that needs no more.

mod ask;
mod burst;
mod cache;
mod config;
mod doctor;
mod init;
mod job;
mod job_status;
mod manual;
mod mpi;
mod node;
mod paths;
mod picture;
mod profile;
mod query;
mod run;
mod simulate;
mod stage;
mod trial;
mod version;

use std::process::ExitCode;

use anyhow::Context;

use crate::cli::Command;
use crate::settings::warn_of_unknown;

/// Runs a command.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    // These run programs; a keeper sees to it itself, and a daemon's calls are not to be interrupted.
    let starts_node = matches!(&command, Command::Node(arguments) if arguments.background);
    if starts_node || matches!(command, Command::Up(_) | Command::Down(_) | Command::Doctor(_) | Command::Try(_)) {
        forebay_keeper::hear_of_children().context("the ends of children cannot be heard of")?;
    }
    if is_called_by_people(&command) {
        warn_of_unknown();
    }
    match command {
        Command::Up(arguments) => job::up::run(*arguments),
        Command::Node(arguments) => node::run(*arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Status(arguments) => job::status::run(arguments),
        Command::Top(arguments) => job::top::run(arguments),
        Command::Metrics(arguments) => job::metrics::run(arguments),
        Command::Down(arguments) => job::down::run(arguments),
        Command::Report(arguments) => job::report::run(&arguments),
        Command::Explain(arguments) => job::explain::run(arguments),
        Command::Logs(arguments) => job::logs::run(arguments),
        Command::Debug(arguments) => job::debug::run(arguments),
        Command::KeepLogs(_) => crate::kept_logs::carry_out().map(|()| ExitCode::SUCCESS),
        Command::Refresh(arguments) => job::refresh::run(arguments),
        Command::Warmup(arguments) => job::warmup::run(arguments),
        Command::Stage(arguments) => stage::run(arguments),
        Command::Drain(arguments) => burst::drain::run(arguments),
        Command::Landed(arguments) => burst::landed::run(arguments),
        Command::Salvage(arguments) => burst::salvage::run(&arguments),
        Command::Profile(arguments) => profile::run(arguments),
        Command::Cache(arguments) => cache::run(arguments),
        Command::Mpiio(arguments) => mpi::mpiio::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Try(arguments) => trial::run(&arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Plan(arguments) => mpi::plan::run(&arguments),
        Command::Query(arguments) => query::run(*arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Walk(arguments) => forebay_daemon::walk(&arguments.view).map(|()| ExitCode::SUCCESS),
        Command::Look => burst::look::run(),
        Command::Man(arguments) => manual::pages(&arguments),
        Command::Version(arguments) => version::run(&arguments),
    }
}

/// Not by a command of Forebay, which has its environment and has warned of it; nor for what a shell reads.
fn is_called_by_people(command: &Command) -> bool {
    match command {
        Command::Node(_)
        | Command::KeepLogs(_)
        | Command::Walk(_)
        | Command::Look
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Version(_) => false,
        Command::Doctor(arguments) => arguments.probe.is_none(),
        Command::Try(arguments) => arguments.enter.is_none() && arguments.read.is_none(),
        Command::Up(arguments) => !arguments.local_only,
        Command::Status(arguments) => !arguments.local_only,
        Command::Down(arguments) => !arguments.local_only,
        Command::Logs(arguments) => !arguments.local_only,
        Command::Stage(arguments) => arguments.command.options().of.is_none(),
        _ => true,
    }
}
