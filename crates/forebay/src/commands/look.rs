//! A look at a path of the burst tier that may not be answered: with its leader gone, the kernel lets no process go before the daemon gives
//! up. So another process looks, and the command that waits for it can end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use forebay_keeper::own_paths::BurstPlaces;

use crate::cli::LookArguments;
use crate::commands::stage::places::below_burst;
use crate::progress::ProgressLine;

/// How long the tier may take: longer than it takes until another node leads its tree (`docs/burst.md`).
const LIMIT: Duration = Duration::from_secs(30);

/// How often it is seen whether the look is over.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Looks, and tells nothing of what is there.
pub fn run(arguments: &LookArguments) -> ExitCode {
    arguments.paths.iter().for_each(|path| drop(path.symlink_metadata()));
    ExitCode::SUCCESS
}

/// Waits until the burst tier of `job` answers about those of `paths` that lie in it. After 2 s it says for whom it waits.
///
/// # Errors
/// When there is no answer in time.
pub fn wait_for(job: &str, burst: &BurstPlaces, paths: &[&Path]) -> anyhow::Result<()> {
    let in_mount: Vec<PathBuf> = paths.iter().filter_map(|path| below_burst(burst, path)).collect();
    if in_mount.is_empty() {
        return Ok(());
    }
    let words = ["look", "--"].map(OsString::from).into_iter().chain(in_mount.into_iter().map(PathBuf::into_os_string));
    let mut command = Command::new("/proc/self/exe");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut looking = command.spawn().context("the burst tier cannot be looked at")?;
    let (began, mut shown) = (Instant::now(), ProgressLine::begin());
    while looking.try_wait().context("the burst tier cannot be looked at")?.is_none() {
        if began.elapsed() >= LIMIT {
            looking.kill().ok();
            bail!(
                "the burst tier of the job {job} has not answered within {LIMIT:?}: the node that leads its tree may be gone; forebay \
                 status shows which node does not answer"
            );
        }
        shown.show(|| {
            let left = LIMIT.saturating_sub(began.elapsed()).as_secs();
            format!("waiting for the node that leads the burst tier of the job {job}, {left} s more at most")
        });
        sleep(LOOK_EVERY);
    }
    Ok(())
}
