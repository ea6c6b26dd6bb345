//! `run -- COMMAND`: runs a command that sees the exports at their own paths, or with `--view` one from the view.
//!
//! The command takes the place of this process: its exit status, its signals and its process number are what whoever
//! started it sees, and nothing is left between a scheduler and its ranks.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};
use forebay_keeper::own_paths::{self, Node};
use forebay_types::NodeRank;

use crate::cli::RunArguments;
use crate::jobs;
use crate::machine;
use crate::output::causes;
use crate::settings::Effective;

/// Exit status where there is no such command, and where it cannot be run: as shells and `env(1)` have them.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// The view's directory, for commands that are run from it.
const PREFIX: &str = "FOREBAY_PREFIX";

/// The burst mount.
const BURST: &str = "FOREBAY_BURST";

/// Runs the command; returns only if that fails.
pub fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = jobs::find(&effective)?;
    let node = own_paths::find_node(&directory, arguments.rank.map(NodeRank), &machine::host_names())?;
    own_paths::check_view(&node, arguments.view)?;
    let mut words = arguments.command.into_iter();
    let program = words.next().context("no command was given")?;
    let mut command = if arguments.view {
        from_view(&program, &node)
    } else {
        own_paths::enter(&directory, &node).map_err(|error| with_way_out(&error, &node))?;
        Command::new(&program)
    };
    if let Some(burst) = &node.burst {
        command.env(BURST, burst.base());
    }
    let error = command.args(words).exec();
    eprintln!("forebay: cannot run {}: {error}", program.display());
    Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }))
}

/// What went wrong, and how it goes without.
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

/// Where a shell would find it.
fn find_program(program: &OsStr, search: Option<OsString>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return std::path::absolute(program).ok();
    }
    let directories: Vec<PathBuf> = std::env::split_paths(&search?).collect();
    let found = directories.into_iter().map(|directory| directory.join(program)).find(|path| is_program(path))?;
    std::path::absolute(found).ok()
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let temporary = tempfile::tempdir().unwrap();
        let search = std::env::join_paths(["first", "second"].map(|name| temporary.path().join(name))).unwrap();
        for (name, mode) in [("first/tool", 0o644), ("second/tool", 0o755)] {
            let path = temporary.path().join(name);
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(find_program("tool".as_ref(), Some(search.clone())), Some(temporary.path().join("second/tool")));
        assert_eq!(find_program("none".as_ref(), Some(search.clone())), None);
        assert_eq!(find_program("/a/tool".as_ref(), Some(search)), Some("/a/tool".into()));
    }
}
