//! `down`: ends all daemons of a job through the overlay, waits until those of this host are gone, and removes what
//! is left. Whatever had gone wrong before, nothing of the job is there afterwards, or what is there is named.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use forebay_launch::{
    JobDirectory, JobRecord, Launched, LauncherName, NodeRecord, Process, StartId, end_all, wait_for_end,
};
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::cli::DownArguments;
use crate::commands::burst::drain;
use crate::commands::job::host_ends::{END_TIMEOUT, HostEnds, end_on_hosts};
use crate::commands::job::unlanded_lines;
use crate::commands::job::up_report::shown_ranks;
use crate::commands::job::users;
use crate::commands::stage;
use crate::commands::stage::places::Way;
use crate::ending::Ending;
use crate::exit::{DONE_IN_PART, NOT_UP};
use crate::jobs::{self, NotUp};
use crate::left::{self, Left};
use crate::leftovers::{self, held_text};
use crate::output::{in_one_line, say, tell, without_controls};
use crate::patience::after_a_second;
use crate::report::End;
use crate::settings::Effective;
use crate::settings::values::show_duration;

/// How long the daemons may take to end, from the leaves to the root.
const DOWN_TIMEOUT: Duration = Duration::from_secs(12);

/// How long each of those that the first did not reach may take: one that works answers at once.
const DOWN_AGAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long those of this host may take to leave after they have said that they end: longer than they give their mount
/// and their connections (5 s each), because on a busy host they need it.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(12);

/// How long a host on which no node came up may take to end what there may be.
const NEVER_CAME_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a launcher's command may take to end when it is told to.
const STEP_GRACE: Duration = Duration::from_secs(3);

/// Ends the job.
pub fn run(arguments: DownArguments) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = match jobs::find(&effective) {
        Err(error) if error.is::<NotUp>() => {
            let why = why_not_up(&effective, &error)?;
            if arguments.must_be_up {
                tell!("forebay: {why}");
                return Ok(ExitCode::from(NOT_UP));
            }
            return Ok(nothing_is_up(&why, &unlanded_lines::told(&jobs::name_meant(&effective)?), arguments.json));
        }
        found => found?,
    };
    if let Some(start) = &arguments.of_start {
        return end_start(&directory, &StartId::of_text(start));
    }
    let job = directory.job();
    let store = drain::store(&directory);
    let mut outcome = Outcome { is_staged_out: true, store, ..Outcome::default() };
    if !arguments.local_only {
        outcome.notes.extend(users::note(&directory));
    }
    if !arguments.no_drain && !arguments.local_only {
        outcome.is_staged_out = stage::job::of_record(Way::Out, &directory);
    }
    let made: Vec<PathBuf> = NodeRecord::read_all(&directory).into_iter().flat_map(|node| node.burst_created).collect();
    let must_tell = drain::is_wanted(&directory) && outcome.land(&directory, arguments.no_drain);
    let ending = if arguments.local_only { None } else { Ending::begin(&effective, &directory)? };
    match arguments.local_only {
        false => outcome.end_everywhere(&directory, must_tell),
        // No daemon is asked.
        true if must_tell && arguments.no_drain => {
            outcome.untold = NodeRecord::read_all(&directory).iter().map(|node| node.rank).collect();
        }
        true => {}
    }
    if !leftovers::is_gone(&directory) {
        let cleaned = leftovers::clean(&directory).with_context(|| format!("the job {job} is not completely down"))?;
        outcome.notes.extend(cleaned.notes);
        outcome.held.extend(cleaned.held);
    }
    if outcome.held.is_empty() {
        outcome.notes.extend(leftovers::strays(&directory, &made));
    }
    let took = began.elapsed();
    let report = ending.map(|ending| ending.keep(outcome.end()));
    outcome.report(&job, took, arguments.json, report.as_ref().map(|(_, report)| report));
    if let Some((lines, _)) = report.filter(|_| !arguments.json && !arguments.quiet) {
        // Daemons may have sent anything, and paths have any name.
        lines.iter().for_each(|line| say!("{}", in_one_line(line)));
    }
    let has_landed = outcome.not_landed.is_none() && outcome.left.is_empty() && outcome.untold.is_empty();
    let has_all = has_landed && outcome.is_staged_out;
    let is_all = outcome.missing.is_empty() && outcome.held.is_empty() && has_all;
    Ok(if is_all { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// Ends what this host runs of one start of the job: for a start that is taken back, which has nothing to land, and for nodes that `down`
/// has not reached.
fn end_start(directory: &JobDirectory, start: &StartId) -> anyhow::Result<ExitCode> {
    let of_job = JobRecord::read(directory).ok().flatten().is_some_and(|job| job.start_id == *start);
    let is_here = of_job || NodeRecord::read_all(directory).iter().any(|node| node.start_id == *start);
    let cleaned = leftovers::clean_start(directory, start)?;
    if !cleaned.held.is_empty() {
        tell!("forebay: {}", held_text(&cleaned.held));
        return Ok(ExitCode::from(DONE_IN_PART));
    }
    if !is_here {
        tell!("forebay: no node of that start of the job {} is here", directory.job());
        return Ok(ExitCode::from(NOT_UP));
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the commands of a start whose `up` has died: they would go on to start nodes.
pub fn end_abandoned_start(record: &JobRecord) {
    if let (Launched::Hosts { steps, .. }, true) = (&record.launched, record.is_abandoned()) {
        end_all(steps, STEP_GRACE);
    }
}

/// Why nothing is up. Programs of a job that did not come up use the file system itself no longer.
fn why_not_up(effective: &Effective, error: &anyhow::Error) -> anyhow::Result<String> {
    if !jobs::remove_direct(effective)? {
        return Ok(error.to_string());
    }
    let job = jobs::name_meant(effective)?;
    Ok(format!(
        "the job {job} did not come up (--on-failure direct); from now on forebay run does not use the file system itself"
    ))
}

/// There is nothing to end, so all is as was asked for, unless files of the job have not landed.
fn nothing_is_up(why: &str, unlanded: &[String], as_json: bool) -> ExitCode {
    match as_json {
        true => say!("{}", json!({"job": null, "ended": [], "missing": [], "notes": [why], "unlanded": unlanded})),
        false => say!("nothing to end: {why}"),
    }
    unlanded.iter().for_each(|line| tell!("forebay: {}", in_one_line(line)));
    if unlanded.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) }
}

/// The outcome of `down`.
#[derive(Default)]
struct Outcome {
    ended: Vec<NodeRank>,
    /// Nodes on other hosts of which nobody knows whether they ended.
    missing: Vec<NodeRank>,
    /// Processes of this host that a file system holds.
    held: Vec<Process>,
    /// The changes of the burst tier that have not landed.
    not_landed: Option<String>,
    /// The reports of its nodes about it when they ended.
    left: Vec<Left>,
    /// Nodes that ended without saying that, and nothing else does.
    untold: Vec<NodeRank>,
    /// Whether all nodes have said that.
    has_all_reports: bool,
    /// `--burst-store` of the job.
    store: Option<String>,
    /// All that is to be staged out has been, or there is none; the reason for a failure has been told.
    is_staged_out: bool,
    notes: Vec<String>,
}

impl Outcome {
    /// Lets all land, unless `no_drain` or the job's policy keeps it. Without a drain, nodes alone can say what they have: whether they must.
    fn land(&mut self, directory: &JobDirectory, no_drain: bool) -> bool {
        let is_manual = drain::is_manual(directory);
        match (no_drain, is_manual) {
            (true, _) => {}
            (false, true) => {
                self.not_landed = drain::kept_by_policy(directory);
                // With nothing left to land, the drain says what has landed under another name than its own.
                if self.not_landed.is_none() {
                    self.drain(directory);
                }
            }
            (false, false) => self.drain(directory),
        }
        is_manual || no_drain
    }

    /// Waits for what programs wrote to land.
    fn drain(&mut self, directory: &JobDirectory) {
        match drain::wait_last(directory) {
            Ok(progress) if progress.steps == 0 && progress.why.is_none() => {}
            Ok(progress) => self.not_landed = Some(drain::told(&progress)),
            Err(error) => self.not_landed = Some(format!("how far the burst tier has landed is not known: {error:#}")),
        }
    }

    fn end_everywhere(&mut self, directory: &JobDirectory, must_tell: bool) {
        // Read first: daemons remove their records when they leave.
        let record = JobRecord::read(directory).ok().flatten();
        record.iter().for_each(end_abandoned_start);
        let nodes = NodeRecord::read_all(directory);
        self.ask_daemons(directory);
        // The others have not heard it, and need not be waited for: they are ended by their records.
        let here: Vec<NodeRecord> = nodes.iter().filter(|node| self.ended.contains(&node.rank)).cloned().collect();
        self.wait_until_they_leave(&here);
        let Some(record) = record else { return };
        let silent = self.silent(&record);
        self.has_all_reports = silent.is_empty();
        if must_tell {
            self.untold = silent;
        }
        self.end_the_rest(&record, directory);
        self.end_those_that_never_came(&record, directory);
        if let Launched::Hosts { by, steps, .. } = &record.launched {
            self.end_steps(*by, steps, nodes.len() > here.len());
        }
    }

    /// Their keepers end last, but for a daemon that the system holds.
    fn wait_until_they_leave(&mut self, nodes: &[NodeRecord]) {
        let keepers: Vec<Process> = nodes.iter().map(|node| node.process).collect();
        let told = nodes.to_vec();
        let _told = after_a_second(move || waits_for(&told));
        let late = wait_for_end(&keepers, Instant::now() + LEAVE_TIMEOUT);
        if !late.is_empty() {
            let plural = if late.len() == 1 { "" } else { "s" };
            self.notes.push(format!("{} node{plural} did not end by themselves", late.len()));
        }
        let has_left = |node: &&NodeRecord| !late.contains(&node.process);
        let daemons: Vec<Process> = nodes.iter().filter(has_left).filter_map(|node| node.daemon).collect();
        self.held.extend(wait_for_end(&daemons, Instant::now()));
    }

    /// A launcher's command ends with the last daemon. One of this host that has heard nothing is ended only afterwards, by its
    /// record; one elsewhere that could not be ended keeps the command for ever.
    fn end_steps(&mut self, by: LauncherName, steps: &[Process], has_deaf: bool) {
        let timeout = if self.missing.is_empty() { LEAVE_TIMEOUT } else { Duration::ZERO };
        if has_deaf {
            return;
        }
        let late = wait_for_end(steps, Instant::now() + timeout);
        if !late.is_empty() {
            self.notes.push(format!("the launcher ({by}) did not end with the daemons; it has been ended"));
            end_all(&late, STEP_GRACE);
        }
    }

    /// Asks one daemon of this host to end all; where the tree is broken, the others of this host as well.
    fn ask_daemons(&mut self, directory: &JobDirectory) {
        let (mut has_answered, mut timeout) = (false, DOWN_TIMEOUT);
        let _told = after_a_second(|| format!("waiting for the nodes' answer to down; {DOWN_TIMEOUT:?} at most"));
        for rank in directory.socket_ranks() {
            if self.ended.contains(&rank) {
                continue;
            }
            match forebay_control::ask_if_there(&directory.socket(rank), &json!({"command": "down"}), timeout) {
                Ok(answer) => {
                    has_answered = true;
                    self.ended.extend(ranks(&answer["ended"]));
                    self.left.extend(left::all(&answer["left"]));
                    timeout = DOWN_AGAIN_TIMEOUT;
                }
                Err(error) => tracing::debug!(%rank, %error, "no answer"),
            }
        }
        self.ended.sort_unstable();
        self.ended.dedup();
        if !has_answered {
            self.notes.push("no daemon of it answered on this host".to_owned());
        }
    }

    /// Nodes that came up and are not known to have ended.
    fn silent(&self, record: &JobRecord) -> Vec<NodeRank> {
        let all = (0..record.nodes.len() as u32).map(NodeRank);
        all.filter(|rank| !self.ended.contains(rank) && !record.missing.contains_key(rank)).collect()
    }

    /// Nodes that the overlay did not reach: on this host they are found by their records, on others by the remote
    /// shell.
    fn end_the_rest(&mut self, record: &JobRecord, directory: &JobDirectory) {
        let missing = self.silent(record);
        let Some(call) = record.remote_call().filter(|_| !missing.is_empty()) else {
            return;
        };
        let HostEnds { failed, without, .. } = end_on_hosts(&call, &of_nodes(record, &missing), directory, END_TIMEOUT);
        let without = without.into_iter().map(|host| (host, HostEnds::doubt(directory)));
        let is_on =
            |rank: &NodeRank, host: &str| record.nodes.get(rank.0 as usize).is_some_and(|node| node.host == host);
        for (host, reason) in failed.into_iter().chain(without) {
            self.notes.push(format!("{host}: {reason}"));
            self.missing.extend(missing.iter().filter(|rank| is_on(rank, &host)));
        }
        self.missing.sort_unstable();
        self.ended.extend(missing.into_iter().filter(|rank| !self.missing.contains(rank)));
        self.ended.sort_unstable();
    }

    /// Ends nodes without which the job came up: they may have come later. The wait for nodes that may not be there is
    /// short.
    fn end_those_that_never_came(&self, record: &JobRecord, directory: &JobDirectory) {
        let never: Vec<NodeRank> = record.missing.keys().filter(|rank| !self.ended.contains(rank)).copied().collect();
        let Some(call) = record.remote_call().filter(|_| !never.is_empty()) else { return };
        for (host, reason) in end_on_hosts(&call, &of_nodes(record, &never), directory, NEVER_CAME_TIMEOUT).failed {
            tracing::debug!(host, reason, "a host that never came up");
        }
    }

    /// Whether stores may have something: where changes are lost, or a file lies beside another's, they are gone.
    fn may_have_kept(&self) -> bool {
        let is_known = self.not_landed.is_none() || self.has_all_reports;
        !(is_known && self.left.is_empty() && self.untold.is_empty())
    }

    /// For the report.
    fn end(&self) -> End {
        let kept = self.may_have_kept().then(|| left::kept(&self.left, self.store.as_deref()));
        let numbers = |ranks: &[NodeRank]| ranks.iter().map(|rank| rank.0).collect();
        End {
            ended: self.ended.len(),
            missing: numbers(&self.missing),
            not_landed: self.not_landed.iter().cloned().chain(self.left.iter().flat_map(Left::lines)).collect(),
            kept,
            untold: numbers(&self.untold),
            is_staged_out: self.is_staged_out,
        }
    }

    fn report(&self, job: &str, took: Duration, as_json: bool, report: Option<&Value>) {
        if as_json {
            let took_ms = took.as_millis() as u64;
            let Self { ended, missing, held, not_landed, left, untold, is_staged_out, notes, .. } = self;
            let held: Vec<u32> = held.iter().map(|process| process.pid).collect();
            let told = json!({
                "job": job, "took_ms": took_ms, "ended": ended, "missing": missing, "held": held,
                "not_landed": not_landed, "left": left, "left_unknown": untold, "staged_out": is_staged_out, "notes": notes,
                "report": report
            });
            return say!("{told}");
        }
        for note in &self.notes {
            tell!("forebay: note: {}", without_controls(note));
        }
        let nodes = match self.ended.len() {
            0 => String::new(),
            1 => "1 node ended, ".to_owned(),
            count => format!("{count} nodes ended, "),
        };
        let known = if self.missing.is_empty() { "" } else { " as far as is known" };
        say!("job {job} is down{known}: {nodes}{}", show_duration(took));
        if !self.held.is_empty() {
            tell!("forebay: {}", held_text(&self.held));
        }
        if let Some(not_landed) = &self.not_landed {
            tell!("forebay: {not_landed}");
        }
        for line in self.left.iter().flat_map(Left::lines) {
            tell!("forebay: {}", in_one_line(&line));
        }
        if !self.untold.is_empty() {
            let (nodes, has) =
                (shown_ranks(&self.untold), if self.untold.len() == 1 { "its store" } else { "their stores" });
            tell!("forebay: node {nodes} did not say what of the burst tier has not landed: {has} may have more");
        }
        if self.may_have_kept() {
            tell!("forebay: {}", left::kept(&self.left, self.store.as_deref()));
        }
        if !self.missing.is_empty() {
            tell!(
                "forebay: node {} could not be asked and may still run; run forebay down on its host, or end its processes there",
                shown_ranks(&self.missing)
            );
        }
    }
}

/// The nodes that `down` waits for.
fn waits_for(nodes: &[NodeRecord]) -> String {
    let late: Vec<&NodeRecord> = nodes.iter().filter(|node| node.process.is_alive()).collect();
    let ranks: Vec<NodeRank> = late.iter().map(|node| node.rank).collect();
    let hung = late.iter().filter_map(|node| node.daemon).filter(|daemon| daemon.waits_in_kernel());
    let hung: Vec<String> = hung.map(|daemon| daemon.pid.to_string()).collect();
    let why = match hung.len() {
        0 => String::new(),
        _ => format!(
            "; these processes wait in the kernel, perhaps for a file system that does not answer: {}",
            hung.join(", ")
        ),
    };
    format!("waiting for node {} to end, {LEAVE_TIMEOUT:?} at most{why}", shown_ranks(&ranks))
}

/// The same record for some of its nodes.
fn of_nodes(record: &JobRecord, ranks: &[NodeRank]) -> JobRecord {
    let nodes = ranks.iter().filter_map(|rank| record.nodes.get(rank.0 as usize)).cloned().collect();
    JobRecord { nodes, ..record.clone() }
}

fn ranks(value: &Value) -> Vec<NodeRank> {
    let mut ranks: Vec<NodeRank> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rank| rank.as_u64().and_then(|rank| u32::try_from(rank).ok()).map(NodeRank))
        .collect();
    ranks.sort_unstable();
    ranks
}
