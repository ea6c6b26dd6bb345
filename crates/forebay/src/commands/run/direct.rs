//! Programs that run on the file system itself, because no job serves them (`--or-direct`, or `up --on-failure direct`).
//!
//! That is right for exports alone: a burst tier has files that the file system does not have yet.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use forebay_keeper::own_paths::{self, Node};
use forebay_launch::{JobDirectory, JobRecord, NodeRecord};
use forebay_types::NodeRank;

use crate::cli::RunArguments;
use crate::jobs::{self, NotUp};
use crate::machine;
use crate::output::tell;
use crate::settings::Effective;

/// How long the trial of a node may take. The keeper behind its entrance may take ten seconds for an answer.
const TRIAL: Duration = Duration::from_secs(15);

/// How often it is seen whether the trial has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Variables by which launchers tell a process which one of its host it is.
const LOCAL_RANKS: [&str; 5] =
    ["SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "PMIX_LOCAL_RANK"];

/// How a command is run.
pub enum Way {
    /// By this node of the job.
    Node(JobDirectory, Box<Node>),
    /// On the file system itself, for this reason.
    Direct(String),
}

/// The way of a command.
///
/// # Errors
/// When no node serves it, and the file system itself would not do.
pub fn way(effective: &Effective, arguments: &RunArguments) -> anyhow::Result<Way> {
    let directory = match jobs::find(effective) {
        Ok(directory) => directory,
        Err(error) if error.is::<NotUp>() => {
            let record = jobs::direct(effective)?;
            return match record {
                Some(record) => Ok(Way::Direct(format!("the job {} did not come up: {}", record.job, record.why))),
                None if arguments.or_direct => Ok(Way::Direct(error.to_string())),
                None => Err(error),
            };
        }
        Err(error) => return Err(error),
    };
    let found = node(&directory, arguments);
    if !arguments.or_direct {
        return Ok(Way::Node(directory, Box::new(found?)));
    }
    let has_burst = has_burst(&directory);
    match found.and_then(|node| if has_burst { Ok(node) } else { try_out(&directory, node, arguments.view) }) {
        Ok(node) => Ok(Way::Node(directory, Box::new(node))),
        Err(error) if has_burst => Err(error.context(
            "--or-direct is for exports alone, and this job has a burst tier: the file system itself does not have the files that have \
             not landed",
        )),
        Err(error) => Ok(Way::Direct(format!("{error:#}"))),
    }
}

fn node(directory: &JobDirectory, arguments: &RunArguments) -> anyhow::Result<Node> {
    let node = own_paths::find_node(directory, arguments.rank.map(NodeRank), &machine::host_names())?;
    own_paths::check_view(&node, arguments.view)?;
    Ok(node)
}

/// Whether programs of the job see a burst tier, as far as this host knows.
fn has_burst(directory: &JobDirectory) -> bool {
    let record = JobRecord::read(directory).ok().flatten();
    record.is_some_and(|record| record.settings.get("burst").is_some())
        || NodeRecord::read_all(directory).iter().any(|node| node.has_burst)
}

/// Whether the node lets a program in, tried by another process: one that fails half-way is in a namespace and has no way back.
fn try_out(directory: &JobDirectory, node: Node, by_view: bool) -> anyhow::Result<Node> {
    if by_view {
        return Ok(node);
    }
    let mut command = Command::new("/proc/self/exe");
    command.args(["run", "--job", &directory.job(), "--rank", &node.rank.to_string(), "--directory"]);
    command
        .arg(directory.base())
        .args(["--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("the node cannot be tried")?;
    let until = Instant::now() + TRIAL;
    let status = loop {
        match child.try_wait().context("the node cannot be tried")? {
            Some(status) => break status,
            None if Instant::now() >= until => {
                child.kill().ok();
                bail!("node {} did not let a program in within {TRIAL:?}", node.rank);
            }
            None => sleep(LOOK_EVERY),
        }
    };
    if status.code() == Some(i32::from(crate::exit::RUN_FAILED)) {
        let output = child.wait_with_output().context("the node cannot be tried")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next().unwrap_or_default();
        bail!("{}", line.trim_start_matches("forebay: "));
    }
    Ok(node)
}

/// Says that a command runs on the file system itself. Of many programs that a launcher has started on a host, only the first does.
///
/// # Errors
/// When the command is one of an image, which only a job shows.
pub fn announce(arguments: &RunArguments, why: &str) -> anyhow::Result<()> {
    let why: Vec<&str> = why.lines().map(str::trim).collect();
    let why = why.join("; ");
    ensure!(arguments.image.image.is_none(), "an image is shown by a job alone, and there is none: {why}");
    let rank = LOCAL_RANKS.iter().find_map(|name| std::env::var(name).ok());
    if rank.is_none_or(|rank| rank == "0") {
        tell!("forebay: warning: the command runs on the file system itself, without Forebay: {why}");
    }
    Ok(())
}
