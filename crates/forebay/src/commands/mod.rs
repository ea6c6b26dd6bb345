//! The commands, one a file.

mod ask;
mod config;
mod doctor;
mod doctor_check;
mod doctor_probe;
mod doctor_protocol;
mod down;
mod drain;
mod escaping_paths;
mod explain;
mod landed;
mod left;
mod manual;
mod mpiio;
mod node;
mod node_background;
mod node_kept;
mod paths;
mod plan;
mod plan_svg;
mod profile;
mod profile_report;
mod query;
mod query_answer;
mod query_bad_rows;
mod query_canvas;
mod query_column;
mod query_dealing;
mod query_near;
mod query_normalise;
mod query_plot;
mod query_plot_file;
mod query_png;
mod query_progress;
mod query_shown;
mod query_sql;
mod query_svg;
mod query_table;
mod query_where;
mod refresh;
mod replace;
mod run;
mod run_image;
mod run_image_environment;
mod salvage;
mod selection;
mod simulate;
mod stage;
mod stage_job;
mod stage_part;
mod stage_places;
mod stage_report;
mod status;
mod status_jobs;
mod up;
mod up_report;
mod up_stopped;

use std::process::ExitCode;

use anyhow::Context;

use crate::cli::Command;
use crate::settings::warn_of_unknown;

/// Runs a command.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    // These run programs; a keeper sees to it itself, and a daemon's calls are not to be interrupted.
    let starts_node = matches!(&command, Command::Node(arguments) if arguments.background);
    if starts_node || matches!(command, Command::Up(_) | Command::Down(_) | Command::Doctor(_)) {
        forebay_keeper::hear_of_children().context("the ends of children cannot be heard of")?;
    }
    if is_called_by_people(&command) {
        warn_of_unknown();
    }
    match command {
        Command::Up(arguments) => up::run(*arguments),
        Command::Node(arguments) => node::run(*arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Status(arguments) => status::run(arguments),
        Command::Down(arguments) => down::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Refresh(arguments) => refresh::run(arguments),
        Command::Stage(arguments) => stage::run(arguments),
        Command::Drain(arguments) => drain::run(arguments),
        Command::Landed(arguments) => landed::run(arguments),
        Command::Salvage(arguments) => salvage::run(&arguments),
        Command::Profile(arguments) => profile::run(arguments),
        Command::Mpiio(arguments) => mpiio::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Query(arguments) => query::run(*arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Walk(arguments) => forebay_daemon::walk(&arguments.view).map(|()| ExitCode::SUCCESS),
        Command::Man(arguments) => manual::pages(&arguments),
    }
}

/// Not by a command of Forebay, which has its environment and has warned of it; nor for what a shell reads.
fn is_called_by_people(command: &Command) -> bool {
    match command {
        Command::Node(_) | Command::Walk(_) | Command::Completions(_) | Command::Man(_) => false,
        Command::Doctor(arguments) => arguments.probe.is_none(),
        Command::Up(arguments) => !arguments.local_only,
        Command::Status(arguments) => !arguments.local_only,
        Command::Down(arguments) => !arguments.local_only,
        Command::Stage(arguments) => arguments.command.options().of.is_none(),
        _ => true,
    }
}
