//! `stage`: copies inputs to the nodes' own disks before programs read them, and results to where they belong.
//!
//! Every node does its part by itself: this command those of its host, and it runs on the other hosts by the way by which
//! their nodes were started, where it says how far it is in lines of JSON. All look at what is to be copied for themselves, and
//! say what they saw; where they saw different things it was changing, and nobody knows whether all of it is there.

pub mod job;
mod part;
pub mod places;
mod report;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use forebay_keeper::own_paths;
use forebay_launch::{JobDirectory, JobRecord, Launched, NodeAddress, RemoteCall};
use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::{StageArguments, StageCommand, StageOptions};
use crate::commands::paths::resolved;
use crate::commands::stage::part::{NodeOutcome, Part};
use crate::commands::stage::places::{Order, Way, places};
use crate::commands::stage::report::Report;
use crate::job_spec::JobSpec;
use crate::jobs;
use crate::machine;
use crate::output::{causes, say, tell};
use crate::progress::Progress;
use crate::settings::{Effective, UsageError};

/// How long a daemon may take to take note.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a host says how far it is.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Hosts that stage at once. Each takes a process here; the backing file system is asked for a file once, whoever comes first.
const HOSTS_AT_ONCE: usize = 256;

/// A host's messages.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    /// So much is to be done on it.
    AllBytes(u64),
    /// So much is done.
    DoneBytes(u64),
    /// The outcome of one node's part.
    Outcome(NodeOutcome),
}

/// Stages.
pub fn run(arguments: StageArguments) -> anyhow::Result<ExitCode> {
    let (order, options) = match arguments.command {
        StageCommand::In(given) => (order(Way::In, &given.source, &given.destination, given.scatter)?, given.options),
        StageCommand::Out(given) => (order(Way::Out, &given.source, &given.destination, false)?, given.options),
    };
    let StageOptions { json, of, ranks, numbered, file, given } = options;
    let effective = Effective::merge(given.0, file.config)?;
    let directory = jobs::find(&effective)?;
    if let Some(count) = of {
        let (sender, told) = channel();
        let ranks = ranks.into_iter().map(NodeRank).collect();
        let here = Here { directory: &directory, order: &order, ranks, count };
        return std::thread::scope(|scope| {
            scope.spawn(|| here.stage(|_| numbered, sender));
            for told in told {
                say!("{}", serde_json::to_string(&told)?);
            }
            Ok(ExitCode::SUCCESS)
        });
    }
    Ok(staged(&directory, &order)?.print(json))
}

/// Stages on all nodes.
///
/// # Errors
/// When nothing was staged: why.
pub fn staged<'a>(directory: &JobDirectory, order: &'a Order) -> anyhow::Result<Report<'a>> {
    let began = Instant::now();
    let outcomes = everywhere(directory, order)?;
    Report::of(order, outcomes, began.elapsed())
}

fn order(way: Way, source: &Path, destination: &Path, scatter: bool) -> anyhow::Result<Order> {
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).context("a path cannot be made absolute")?;
        let message = || UsageError(format!("{}: only paths that are valid UTF-8 can be staged", path.display()));
        path.to_str().ok_or_else(message)?;
        Ok::<PathBuf, anyhow::Error>(resolved(&path))
    };
    Ok(Order { way, source: absolute(source)?, destination: absolute(destination)?, scatter })
}

/// The nodes of this host.
struct Here<'a> {
    directory: &'a JobDirectory,
    order: &'a Order,
    /// Which they are. The job's directory may be seen by several hosts, and does not tell.
    ranks: Vec<NodeRank>,
    /// Nodes of the job.
    count: usize,
}

impl Here<'_> {
    /// Connections by which the nodes' daemons know that this is no start-up. A daemon that cannot be told records it.
    fn tell_daemons(&self) -> Vec<UnixStream> {
        let told = |rank: &NodeRank| {
            let socket = self.directory.socket(*rank);
            let stream = forebay_control::connected(&socket)?;
            forebay_control::ask_over(&stream, &socket, &json!({"command": "staging"}), DAEMON_TIMEOUT)?;
            anyhow::Ok(stream)
        };
        let told =
            |rank| told(rank).inspect_err(|error| tell!("forebay: note: node {rank} may record this: {error:#}"));
        self.ranks.iter().filter_map(|rank| told(rank).ok()).collect()
    }

    fn stage(&self, is_numbered: impl Fn(NodeRank) -> bool, sender: Sender<Told>) {
        let _told = self.tell_daemons();
        let part = |rank: &NodeRank| (*rank, self.part(*rank, is_numbered(*rank)));
        let parts: Vec<(NodeRank, anyhow::Result<Part>)> = self.ranks.iter().map(part).collect();
        let all = parts.iter().filter_map(|(_, part)| part.as_ref().ok()).map(Part::bytes).sum();
        // The command that started this may be gone; its messages are then dropped.
        let tell = |told| drop(sender.send(told));
        tell(Told::AllBytes(all));
        let done = AtomicU64::new(0);
        let (ended, ends) = channel::<()>();
        std::thread::scope(|scope| {
            let (sender, done) = (&sender, &done);
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = ends.recv_timeout(TELL_EVERY) {
                    let _ = sender.send(Told::DoneBytes(done.load(Ordering::Relaxed)));
                }
            });
            for (rank, part) in parts {
                let outcome = part.and_then(|part| part.carry_out(done));
                tell(Told::Outcome(outcome.map_err(|error| (rank, causes(&error).join(": ")))));
            }
            drop(ended);
        });
    }

    fn part(&self, rank: NodeRank, is_numbered: bool) -> anyhow::Result<Part> {
        let node = own_paths::find_node(self.directory, Some(rank), &machine::host_names())?;
        own_paths::check_view(&node, false)?;
        Part::lay_out(rank, self.count, places(self.order, &node, is_numbered)?)
    }
}

/// Stages on all nodes of the job.
fn everywhere(directory: &JobDirectory, order: &Order) -> anyhow::Result<Vec<NodeOutcome>> {
    let elsewhere = "the record of the job is on the host where forebay up ran; stage from there";
    let record = JobRecord::read(directory)?.context(elsewhere)?;
    let (spec, _) = JobSpec::read(&directory.job_spec()).context(elsewhere)?;
    ensure!(record.missing.is_empty(), "the job goes on without some of its nodes, which cannot be staged to");
    let count = record.nodes.len();
    let numbered = |rank: NodeRank| {
        let probe = Path::new("/");
        spec.view_layout.view(probe, &record.nodes, rank) != probe
    };
    let names = machine::host_names();
    let is_here = |node: &NodeAddress| record.launched == Launched::Local || names.contains(&node.host);
    let mut here = vec![];
    let mut elsewhere: BTreeMap<&str, (Vec<NodeRank>, bool)> = BTreeMap::new();
    for (rank, node) in (0..).map(NodeRank).zip(&record.nodes) {
        if is_here(node) {
            here.push(rank);
        } else {
            let (ranks, is_numbered) = elsewhere.entry(&node.host).or_default();
            ranks.push(rank);
            *is_numbered = numbered(rank);
        }
    }
    let hosts: Vec<Host<'_>> =
        elsewhere.into_iter().map(|(name, (ranks, is_numbered))| Host { name, ranks, is_numbered }).collect();
    let call = record.remote_call();
    let (sender, told) = channel();
    let (next, hosts) = (AtomicUsize::new(0), &hosts);
    std::thread::scope(|scope| {
        let parts = hosts.len() + usize::from(!here.is_empty());
        if !here.is_empty() {
            let (here, sender) = (Here { directory, order, ranks: here, count }, sender.clone());
            scope.spawn(move || pass_on(usize::MAX, &sender, |sender| here.stage(numbered, sender)));
        }
        for _ in 0..HOSTS_AT_ONCE.min(hosts.len()) {
            let (sender, next, call) = (sender.clone(), &next, call.as_ref());
            scope.spawn(move || {
                let next = || Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, hosts.get(at)?)));
                while let (Some(call), Some((index, host))) = (call, next()) {
                    pass_on(index, &sender, |told| {
                        if let Err(error) = host.stage(call, (directory, order), count, &told) {
                            let why = format!("{}: {}", host.name, causes(&error).join(": "));
                            let failed = |rank: &NodeRank| Told::Outcome(Err((*rank, why.clone())));
                            host.ranks.iter().map(failed).for_each(|failed| drop(told.send(failed)));
                        }
                    });
                }
            });
        }
        drop(sender);
        Ok(gather(told, parts, count))
    })
}

/// Runs `stage` with a sender of its own, and sends on what it says, with its number.
fn pass_on(number: usize, sender: &Sender<(usize, Told)>, stage: impl FnOnce(Sender<Told>) + Send) {
    let (own, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || stage(own));
        told.into_iter().for_each(|told| drop(sender.send((number, told))));
    });
}

/// Another host, and its nodes.
struct Host<'a> {
    name: &'a str,
    ranks: Vec<NodeRank>,
    is_numbered: bool,
}

impl Host<'_> {
    /// Runs its part there.
    fn stage(
        &self,
        call: &RemoteCall,
        (directory, order): (&JobDirectory, &Order),
        count: usize,
        told: &Sender<Told>,
    ) -> anyhow::Result<()> {
        let (base, job, count) = (directory.base().display().to_string(), directory.job(), count.to_string());
        let ranks = self.ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (source, destination) = (text(&order.source), text(&order.destination));
        let way = if order.way == Way::In { "in" } else { "out" };
        let mut words = vec!["stage", way, "--of", &count, "--ranks", &ranks, "--directory", &base, "--job", &job];
        words.extend(self.is_numbered.then_some("--numbered"));
        words.extend(order.scatter.then_some("--scatter"));
        words.extend(["--", &source, &destination]);
        if let Some(problem) = call.output_problem(self.name) {
            bail!(problem);
        }
        let mut command = call.command(self.name, &words);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", call.name()))?;
        let lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let mut outcomes = 0;
        for line in lines.map_while(Result::ok) {
            let Ok(said) = serde_json::from_str(&line) else { continue };
            outcomes += usize::from(matches!(said, Told::Outcome(_)));
            let _ = told.send(said);
        }
        let ended = child.wait_with_output().context("cannot wait for it")?;
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        ensure!(outcomes > 0, "it ended without a result ({}): {said}", ended.status);
        Ok(())
    }
}

/// Takes what hosts say until all have ended, and shows how far they are.
fn gather(told: std::sync::mpsc::Receiver<(usize, Told)>, hosts: usize, count: usize) -> Vec<NodeOutcome> {
    let mut outcomes: Vec<Option<NodeOutcome>> = vec![None; count];
    let (mut all, mut begun, mut done) = (0, 0, BTreeMap::new());
    let mut progress = None;
    for (host, told) in told {
        match told {
            Told::AllBytes(bytes) => (all, begun) = (all + bytes, begun + 1),
            Told::DoneBytes(bytes) => drop(done.insert(host, bytes)),
            Told::Outcome(outcome) => {
                let rank = outcome.as_ref().map_or_else(|(rank, _)| *rank, |outcome| outcome.rank);
                if let Some(place) = outcomes.get_mut(rank.0 as usize) {
                    *place = Some(outcome);
                }
            }
        }
        if begun == hosts {
            let progress: &mut Progress = progress.get_or_insert_with(|| Progress::begin(Some(all)));
            progress.done_bytes().store(done.values().sum(), Ordering::Relaxed);
        }
    }
    let silent = |rank| Err((NodeRank(rank), "it reported no result".to_owned()));
    (0..).zip(outcomes).map(|(rank, outcome)| outcome.unwrap_or_else(|| silent(rank))).collect()
}
