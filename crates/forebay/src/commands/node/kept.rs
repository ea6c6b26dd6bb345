//! `node --kept`: the daemon, as its keeper starts it.

use std::io::Write;
use std::process::ExitCode;

use forebay_daemon::Plan;
use forebay_keeper::{ExitReason, HANDED_OVER, Link};
use forebay_launch::{JobDirectory, NodeRecord, handed_key};
use forebay_types::limits;
use rustix::process::{Resource, Rlimit};

use crate::output::causes;
use crate::{leftovers, log};

/// Runs the daemon whose keeper is behind standard input. Its exit status tells the keeper whether another is needed.
pub fn run() -> ExitCode {
    // It was executed by a descriptor, whose number would be its name.
    if let Err(errno) = rustix::thread::set_name(c"forebay") {
        tracing::debug!(%errno, "the daemon has no name");
    }
    let link = match Link::from_stdin() {
        Ok(link) => link,
        Err(error) => return refuse(&error),
    };
    match serve(&link) {
        Ok(ExitReason::HandOver) => ExitCode::from(HANDED_OVER),
        Ok(ExitReason::End | ExitReason::Orphaned) => ExitCode::SUCCESS,
        Err(error) => {
            link.failed(causes(&error).join(": "));
            refuse(&error)
        }
    }
}

/// Says what is wrong where it is looked for: in the log, or on standard error if there is none yet.
fn refuse(error: &anyhow::Error) -> ExitCode {
    let message = causes(error).join(": ");
    tracing::error!(message, "the daemon failed");
    if !tracing::dispatcher::has_been_set() {
        let _ = writeln!(std::io::stderr(), "forebay: {message}");
    }
    ExitCode::FAILURE
}

fn serve(link: &Link) -> anyhow::Result<ExitReason> {
    let (mut plan, kept, key) = link.plan::<Plan>()?;
    (plan.options.kept, plan.options.key) = (kept, key.map(handed_key).transpose()?);
    // A daemon that goes on must not fail for want of a log.
    log::start(plan.log_file.as_deref(), &plan.log_filter).or_else(|_| log::start(None, &plan.log_filter))?;
    tracing::debug!(version = env!("CARGO_PKG_VERSION"), nodes_max = limits::NODES_MAX, "the log begins");
    raise_descriptor_limit()?;
    let (directory, rank) = (plan.options.job_directory.clone(), plan.options.rank);
    let told = forebay_daemon::run(plan.options, link)?;
    if told == ExitReason::Orphaned {
        let directory = JobDirectory::at(&directory)?;
        let record = NodeRecord::read_all(&directory).into_iter().find(|record| record.rank == rank);
        record.iter().for_each(|record| leftovers::leave(&directory, record));
    }
    Ok(told)
}

/// Open files below which a daemon does not start: twice of what suffices. Where 16 nodes read 900 MB each, 64 did, and with
/// 48 programs met EMFILE; a daemon that may have 21 seems ready and answers nothing.
const DESCRIPTORS_MIN: u64 = 128;

/// Connections and cached descriptors count against the soft limit, which is low by tradition (1,024) where the hard
/// one is ample.
fn raise_descriptor_limit() -> anyhow::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(errno) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%errno, "the limit on open files stays as it is");
    }
    let allowed = rustix::process::getrlimit(Resource::Nofile).current;
    anyhow::ensure!(
        allowed.is_none_or(|allowed| allowed >= DESCRIPTORS_MIN),
        "a process may have only {} files open here (ulimit -n), a daemon needs {DESCRIPTORS_MIN}: raise the hard limit \
         (ulimit -Hn) before `forebay up`",
        allowed.unwrap_or_default(),
    );
    Ok(())
}
