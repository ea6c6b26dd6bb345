//! `completions` and `man`: made from the same description that reads the command line.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};

use crate::cli::{Cli, CompletionsArguments, ManArguments};

/// Prints the completions of a shell.
pub fn completions(arguments: &CompletionsArguments) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut shown(), "forebay", &mut script);
    std::io::stdout().write_all(&script).context("cannot write the completions")?;
    Ok(ExitCode::SUCCESS)
}

/// The command without what is hidden, which completions of some shells would offer.
fn shown() -> Command {
    let all = Cli::command();
    let seen: Vec<Command> = all.get_subcommands().filter(|each| !each.is_hide_set()).cloned().collect();
    let mut command = Command::new("forebay").disable_help_subcommand(true).args(all.get_arguments());
    command = command.subcommands(seen);
    command
}

/// Writes `forebay.1` and a page for every command.
pub fn pages(arguments: &ManArguments) -> anyhow::Result<ExitCode> {
    clap_mangen::generate_to(Cli::command(), &arguments.directory)
        .with_context(|| format!("cannot write manual pages into {}", arguments.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
