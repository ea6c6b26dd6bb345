//! `run -- COMMAND`: runs a command that sees the exports at their own paths, or with `--view` one from the view, or with
//! `--image` one of an image (`image`).
//!
//! The command takes the place of this process: its exit status, its signals and its process number are what whoever
//! started it sees, and nothing is left between a scheduler and its ranks.

mod direct;
mod image;
mod image_environment;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};
use forebay_keeper::own_paths::{self, Node};

use crate::cli::RunArguments;
use crate::commands::burst::look;
use crate::commands::run::direct::Way;
use crate::exit::{NOT_FOUND, NOT_RUN};
use crate::output::{causes, tell};
use crate::run_environment;
use crate::search_path::find_program;
use crate::settings::Effective;

/// The view's directory, for commands that are run from it.
const PREFIX: &str = "FOREBAY_PREFIX";

/// Runs the command; returns only if that fails.
pub fn run(mut arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(std::mem::take(&mut arguments.given.0), arguments.file.config.take())?;
    let way = direct::way(&effective, &arguments)?;
    if let Way::Direct(why) = &way {
        direct::announce(&arguments, why)?;
    }
    let mut words = arguments.command.into_iter();
    let program = words.next().context("no command was given")?;
    let Way::Node(directory, node) = way else {
        let mut command = Command::new(&program);
        if arguments.view {
            command.env(PREFIX, "/");
        }
        return Ok(execute(&program, command.args(words)));
    };
    // The current directory is entered again, in the namespace of the node's programs.
    if let (Some(burst), Ok(here)) = (node.burst.as_deref(), std::env::current_dir()) {
        look::wait_for(&directory.job(), burst, &here)?;
    }
    if let Some(image) = &arguments.image.image {
        own_paths::enter(&directory, &node).context("no container can be made here")?;
        let locks = !arguments.no_mpi_locks;
        return image::run((&arguments.image, image, locks), (&directory, &node), (&program, words));
    }
    let mut command = if arguments.view {
        own_paths::enter_home(&directory, &node).context("the view cannot be seen here")?;
        from_view(&program, &node)
    } else {
        own_paths::enter(&directory, &node).map_err(|error| with_way_out(&error, &node))?;
        Command::new(&program)
    };
    let locks = !arguments.no_mpi_locks;
    command.envs(run_environment::of_burst_tier(node.burst.as_deref(), locks, |name| std::env::var_os(name)));
    Ok(execute(&program, command.args(words)))
}

/// Becomes the command; the exit status if it cannot.
fn execute(program: &OsStr, command: &mut Command) -> ExitCode {
    let error = command.exec();
    tell!("forebay: cannot run {}: {error}", program.display());
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}

/// The error, and the way to do without.
fn with_way_out(error: &anyhow::Error, node: &Node) -> anyhow::Error {
    anyhow!(
        "{}\n  the exports cannot be shown at their own paths here; run the command on the view: forebay run --view -- \
         COMMAND, with the exports below {}",
        causes(error).join(": "),
        node.view.path.display()
    )
}

/// The command from the view, if what the user means lies in an export.
fn from_view(program: &OsStr, node: &Node) -> Command {
    let found = find_program(program, std::env::var_os("PATH"));
    let in_view = found.and_then(|found| shown_in(&found, node));
    let mut command = match in_view {
        Some(path) => Command::new(path),
        None => Command::new(program),
    };
    command.env(PREFIX, &node.view.path);
    command
}

/// The same program in the view. Links on the way to it are resolved, as the view has them at their ends; one that is the
/// program itself stays, because programs look at the name they were called by (Python's environments do).
fn shown_in(program: &Path, node: &Node) -> Option<PathBuf> {
    let directory = program.parent()?.canonicalize().ok()?;
    let is_exported =
        node.exports.iter().filter_map(|export| export.canonicalize().ok()).any(|export| directory.starts_with(export));
    let shown = node.view.path.join(directory.strip_prefix("/").ok()?).join(program.file_name()?);
    (is_exported && shown.symlink_metadata().is_ok()).then_some(shown)
}
