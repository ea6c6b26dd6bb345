//! `init`: a job script that ends well, whatever ends the job.
//!
//! A script has four parts: directives of its scheduler, the site's paths as found here, one trap for every end, and the program
//! under the scheduler's launcher. It is text that users change, so it decides nothing that a line of it does not show.

mod found;
mod scheduler;
mod script;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::cli::InitArguments;
use crate::commands::init::found::Found;
use crate::output::{exactly, quoted_path, say};

/// Prints the script, or writes it to a new file.
pub fn run(arguments: &InitArguments) -> anyhow::Result<ExitCode> {
    let name = match arguments.scheduler {
        Some(name) => name,
        None => scheduler::of_this_machine()?,
    };
    let found = Found::here(arguments)?;
    let script = script::of(name, arguments, &found);
    match &arguments.output {
        None => exactly(&script),
        Some(file) => {
            write_new(file, &script)?;
            say!("{} {}", scheduler::of(name).submit, quoted_path(file));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_new(path: &Path, script: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o777).open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists and stays as it is; name another file with --output, or remove it", path.display())
        }
        file => file.with_context(|| format!("cannot create {}", path.display()))?,
    };
    file.write_all(script.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
