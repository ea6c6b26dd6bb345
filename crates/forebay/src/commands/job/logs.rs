//! `logs`: the logs of a job's nodes in the order of time, while it is up and after its end.
//!
//! A node's log is on its own host, and in the user's state directory once the job has ended. One of another host is shown by this
//! command there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_launch::{JobDirectory, JobRecord, state_directory};
use forebay_types::NodeRank;

use crate::cli::LogsArguments;
use crate::commands::job::up_report::shown_ranks;
use crate::jobs::{self, NotUp, variable};
use crate::kept_logs::{kept_jobs, logs_in};
use crate::log_lines::{Event, Level, events};
use crate::output::{say, tell, without_controls};
use crate::patience::after_a_second;
use crate::settings::Effective;

/// How often it is seen whether there is more.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Shows the logs.
pub fn run(arguments: LogsArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let node = arguments.node.map(NodeRank);
    let directory = match jobs::find(&effective) {
        Ok(directory) => directory,
        Err(error) if error.is::<NotUp>() => {
            let Some(kept) = kept(&effective)? else {
                return Err(error.context("no logs are kept of a job that has ended either"));
            };
            tell!("forebay: note: the job has ended; its logs are in {}", kept.display());
            return Shown { of_one: node, level: arguments.level, follow: None }.show(&kept);
        }
        Err(error) => return Err(error),
    };
    let record = JobRecord::read(&directory).ok().flatten();
    let here: Vec<NodeRank> = logs_in(&directory.logs()).iter().filter_map(|log| Some(Name::of(log)?.rank)).collect();
    match (node, record) {
        (Some(rank), Some(record)) if !here.contains(&rank) && !arguments.local_only => {
            return elsewhere(&directory, &record, rank, arguments.follow, arguments.level);
        }
        (None, Some(record)) if !arguments.local_only => {
            let all = (0..record.nodes.len() as u32).map(NodeRank);
            let others: Vec<NodeRank> = all.filter(|rank| !here.contains(rank)).collect();
            if !others.is_empty() {
                tell!(
                    "forebay: note: the logs of node {} are on other hosts; --node N shows one",
                    shown_ranks(&others)
                );
            }
        }
        _ => {}
    }
    let follow = arguments.follow.then(|| directory.path().to_owned());
    Shown { of_one: node, level: arguments.level, follow }.show(&directory.logs())
}

/// The logs that are kept of the job that is meant, else of the last one.
fn kept(effective: &Effective) -> anyhow::Result<Option<PathBuf>> {
    let Some(state) = state_directory(&variable) else { return Ok(None) };
    let shown = state.display().to_string();
    let _told = after_a_second(move || format!("looking into {shown}; its file system has not answered yet"));
    let name = effective.job()?.or_else(jobs::of_scheduler);
    let mut jobs = kept_jobs(&state);
    jobs.retain(|job| !logs_in(job).is_empty());
    Ok(match name {
        Some(name) => jobs.into_iter().find(|path| path.file_name().is_some_and(|of| of.to_str() == Some(&name))),
        None => jobs.into_iter().next(),
    })
}

/// Runs this command on the node's host.
fn elsewhere(
    directory: &JobDirectory,
    record: &JobRecord,
    rank: NodeRank,
    follow: bool,
    level: Option<Level>,
) -> anyhow::Result<ExitCode> {
    let node = record.nodes.get(rank.0 as usize);
    let node =
        node.with_context(|| format!("the job {} has no node {rank}; it has {}", record.job, record.nodes.len()))?;
    let Some(call) = record.remote_call() else {
        bail!("there is no log of node {rank} in {}", directory.logs().display())
    };
    let (base, rank) = (directory.base().display().to_string(), rank.to_string());
    let mut words = vec!["logs", "--local-only", "--directory", &base, "--job", &record.job, "--node", &rank];
    let level = level.map(|level| level.to_string());
    words.extend(level.iter().flat_map(|level| ["--level", level.as_str()]));
    words.extend(follow.then_some("--follow"));
    if let Some(problem) = call.output_problem(&node.host) {
        bail!(problem);
    }
    let status = call.command(&node.host, &words).status();
    let status = status.with_context(|| format!("cannot run {} for host {}", call.name(), node.host))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The name of a log: `node-3.log` of a daemon, `launch-3.log` of the command that started it.
struct Name {
    rank: NodeRank,
    is_launch: bool,
}

impl Name {
    fn of(path: &Path) -> Option<Self> {
        let (kind, rank) = path.file_stem()?.to_str()?.split_once('-')?;
        let is_launch = kind == "launch";
        (is_launch || kind == "node").then_some(Self { rank: NodeRank(rank.parse().ok()?), is_launch })
    }

    fn prefix(&self) -> String {
        format!("{}{}: ", self.rank, if self.is_launch { " start" } else { "" })
    }
}

/// The part of a directory of logs that is shown.
struct Shown {
    of_one: Option<NodeRank>,
    level: Option<Level>,
    /// Until this has gone.
    follow: Option<PathBuf>,
}

impl Shown {
    fn show(&self, directory: &Path) -> anyhow::Result<ExitCode> {
        let mut open = BTreeMap::new();
        let mut is_first = true;
        loop {
            // Seen before the logs are read, so that the last lines are.
            let is_last = self.follow.as_ref().is_none_or(|job| fs::symlink_metadata(job).is_err());
            self.open_new(directory, &mut open);
            if open.is_empty() && is_first {
                let whose = self.of_one.map_or_else(String::new, |rank| format!(" of node {rank}"));
                bail!("there is no log{whose} in {}", directory.display());
            }
            is_first = false;
            let has_several = open.len() > 1;
            let mut found: Vec<(Event, String)> = vec![];
            for (path, log) in &mut open {
                let prefix = Name::of(path).filter(|_| has_several).map_or_else(String::new, |name| name.prefix());
                let text = log.more(is_last).with_context(|| format!("cannot read {}", path.display()))?;
                found.extend(events(&text).into_iter().map(|event| (event, prefix.clone())));
            }
            // Stable: events of one time stay in the order of their log.
            found.sort_by(|(one, _), (other, _)| one.time.cmp(&other.time));
            for (event, prefix) in found.iter().filter(|(event, _)| event.is_shown(self.level)) {
                event.text.lines().for_each(|line| say!("{prefix}{}", without_controls(line)));
            }
            if is_last {
                return Ok(ExitCode::SUCCESS);
            }
            sleep(LOOK_EVERY);
        }
    }

    fn open_new(&self, directory: &Path, open: &mut BTreeMap<PathBuf, Log>) {
        for path in logs_in(directory) {
            let is_wanted = Name::of(&path).is_some_and(|name| self.of_one.is_none_or(|rank| rank == name.rank));
            if is_wanted
                && !open.contains_key(&path)
                && let Ok(file) = File::open(&path)
            {
                open.insert(path, Log { file, partial: vec![] });
            }
        }
    }
}

/// A log that may grow, held open: its lines are read after its name has gone.
struct Log {
    file: File,
    /// A line that has no end yet.
    partial: Vec<u8>,
}

impl Log {
    /// The lines that are new.
    fn more(&mut self, is_last: bool) -> std::io::Result<String> {
        self.file.read_to_end(&mut self.partial)?;
        let end = if is_last { Some(self.partial.len()) } else { self.partial.iter().rposition(|byte| *byte == b'\n') };
        let rest = end.map_or_else(Vec::new, |end| self.partial.split_off((end + 1).min(self.partial.len())));
        let lines = if end.is_some() { std::mem::replace(&mut self.partial, rest) } else { vec![] };
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }
}
