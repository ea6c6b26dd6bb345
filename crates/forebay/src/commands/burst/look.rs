//! A look at paths of the burst tier that may not be answered: with its leader gone, the kernel lets no process go before the daemon gives
//! up. So another process looks, and the command that waits for it can end.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use forebay_keeper::own_paths::BurstPlaces;
use forebay_launch::{JobDirectory, MemoryFile};
use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

use crate::commands::burst::names::{self, Named};
use crate::commands::stage::places::below_burst;
use crate::progress::ProgressLine;

/// How long the tier may take: longer than it takes until another node leads its tree (`docs/burst.md`).
const LIMIT: Duration = Duration::from_secs(30);

/// How often it is seen whether the look is over.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The order to the process; its paths follow, each ended by a NUL byte.
#[derive(Serialize, Deserialize)]
struct Order {
    /// The tier whose names are wanted, and its mounts of other nodes; without one, paths are only looked at.
    names_in: Option<(BurstPlaces, Vec<PathBuf>)>,
}

/// The process that looks; the order is its standard input, names are its standard output.
///
/// # Errors
/// When the order is none; the process has no reader.
pub fn run() -> anyhow::Result<ExitCode> {
    let mut input = vec![];
    std::io::stdin().read_to_end(&mut input)?;
    let line = input.iter().position(|byte| *byte == b'\n').context("no order")?;
    let order: Order = serde_json::from_slice(&input[..line])?;
    let paths = input[line + 1..].split(|byte| *byte == 0).filter(|path| !path.is_empty());
    let paths: Vec<PathBuf> = paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
    match order.names_in {
        None => paths.iter().for_each(|path| drop(path.symlink_metadata())),
        Some((burst, mounts)) => {
            serde_json::to_writer(std::io::stdout().lock(), &names::of(&burst, &mounts, &paths))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the burst tier of `job` answers about `path`, if that lies in it. After 2 s it says for whom it waits.
///
/// # Errors
/// When there is no answer in time.
pub fn wait_for(job: &str, burst: &BurstPlaces, path: &Path) -> anyhow::Result<()> {
    let Some(in_mount) = below_burst(burst, path) else { return Ok(()) };
    look(job, &Order { names_in: None }, &[in_mount]).map(drop)
}

/// The kinds of names of `paths` in the burst tier of a job. It waits as `wait_for` does.
///
/// # Errors
/// When there is no answer in time.
pub fn names(directory: &JobDirectory, burst: &BurstPlaces, paths: &[PathBuf]) -> anyhow::Result<Vec<Named>> {
    let mounts = directory.record_ranks().into_iter().filter_map(|rank| mount_of(rank, burst)).collect();
    let names = look(&directory.job(), &Order { names_in: Some((burst.clone(), mounts)) }, paths)?;
    serde_json::from_slice(&names).context("the burst tier cannot be looked at")
}

/// The burst mount of another node of this host, as several nodes of a host have theirs beside each other.
fn mount_of(rank: NodeRank, burst: &BurstPlaces) -> Option<PathBuf> {
    let (base, dir) = (burst.base(), burst.mount.path.strip_prefix(burst.base()).ok()?);
    base.file_name()?.to_str()?.parse::<u32>().ok()?;
    Some(base.with_file_name(rank.to_string()).join(dir))
}

/// The output of the process. Its input is a file in memory: arguments of a program have a limit.
fn look(job: &str, order: &Order, paths: &[PathBuf]) -> anyhow::Result<Vec<u8>> {
    let failed = || "the burst tier cannot be looked at";
    let mut input = serde_json::to_vec(order)?;
    input.push(b'\n');
    paths.iter().for_each(|path| input.extend(path.as_os_str().as_bytes().iter().chain(b"\0")));
    let input = MemoryFile::new("forebay-look", &[&input])?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("forebay").arg("look").stdin(input.input()?).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut looking = command.spawn().with_context(failed)?;
    let mut output = looking.stdout.take().with_context(failed)?;
    // It ends only when all of its output is read.
    let output = thread::spawn(move || {
        let mut bytes = vec![];
        output.read_to_end(&mut bytes).map(|_| bytes)
    });
    let (began, mut shown) = (Instant::now(), ProgressLine::begin());
    let status = loop {
        if let Some(status) = looking.try_wait().with_context(failed)? {
            break status;
        }
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
        thread::sleep(LOOK_EVERY);
    };
    ensure!(status.success(), "{}: its process ended by {status}", failed());
    Ok(output.join().ok().with_context(failed)??)
}
