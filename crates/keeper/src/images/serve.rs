//! The process that a keeper starts for a mounted image: this program, which becomes the image's server.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Becomes `program`, with the mount's connection as standard input and the image's file as standard output, and ends with the
/// keeper `kept_by`. Returns only if that fails.
///
/// # Errors
/// Why it fails.
pub fn serve(program: &Path, kept_by: u32) -> anyhow::Result<std::convert::Infallible> {
    // Not one that it may ignore: a keeper blocks those, and what it starts inherits that.
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot end with the keeper")?;
    let parent = getppid().map(Pid::as_raw_nonzero);
    ensure!(parent.is_some_and(|parent| parent.get().cast_unsigned() == kept_by), "the keeper has ended meanwhile");
    // In the foreground: the keeper is its parent. libfuse takes `/dev/fd/N` for a connection that is mounted already.
    let error = Command::new(program).args(["-f", "/proc/self/fd/1", "/dev/fd/0"]).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
