//! Starting all daemons at once and waiting until each has said that its view answers, or why not.
//!
//! A starter is a command that covers one or more ranks and relays their lines: a daemon itself, a remote shell, an
//! `srun`. All are started before any is waited for. The first failure ends the waiting soon after: what others had
//! to say at the same time is collected, and everything that runs is stopped. What a daemon leaves on a disk is the
//! caller's affair.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use forebay_types::NodeRank;
use serde::Deserialize;

use crate::process::{Process, end_all, wait_for_end};

/// After the first failure, how long the other starters may still tell theirs: a cause that is common to all (a
/// missing directory, a missing program) shows on all within this time, and a user waits for it only when something
/// is wrong.
const COLLECT: Duration = Duration::from_millis(300);

/// How long a daemon may take to end after SIGTERM when the start has failed: it unmounts and leaves.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// One line of a starter, bytes; a longer one is not ours.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What is shown of a starter's standard error, lines and bytes.
const TAIL_LINES: usize = 8;
const TAIL_BYTES: u64 = 4096;

/// A command that starts one or more daemons.
#[derive(Debug)]
pub struct Starter {
    /// What it is, for messages: `ssh to n4`.
    pub name: String,
    /// The ranks it covers.
    pub ranks: Vec<NodeRank>,
    /// The command; its standard output is taken over.
    pub command: Command,
    /// Where its standard error goes, to be shown when it fails.
    pub stderr: PathBuf,
}

/// What a daemon says when its view answers.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, serde::Serialize)]
pub struct Ready {
    /// Its rank.
    pub rank: NodeRank,
    /// Its process, as its host numbers it.
    pub pid: u32,
    /// Its mount point.
    pub view: PathBuf,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// The lines that count on a starter's standard output.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Ready(Ready),
    Failed { rank: NodeRank, message: String },
    Note { rank: NodeRank, message: String },
}

enum Event {
    Line(Line),
    Closed(usize),
    Interrupted,
}

/// Interrupts a start from another thread.
#[derive(Clone, Debug)]
pub struct Interrupt(Sender<Event>);

impl Interrupt {
    /// Ends the start, with everything that runs stopped.
    pub fn now(&self) {
        // Nobody listens any more: the start is over, and so is what could be interrupted.
        self.0.send(Event::Interrupted).ok();
    }
}

/// A job whose daemons have all answered.
#[derive(Debug)]
pub struct Started {
    /// What each said, by rank.
    pub ready: Vec<Ready>,
    /// What daemons found worth telling, with their ranks.
    pub notes: Vec<(NodeRank, String)>,
    /// The starters that still run (an `srun` does; a remote shell has ended).
    pub running: Vec<Process>,
}

/// A start that failed; whatever this machine ran for it has been stopped.
#[derive(Debug)]
pub struct StartFailure {
    /// The nodes that failed, each with the reason.
    pub reasons: BTreeMap<NodeRank, String>,
    /// Those that had answered before.
    pub ready: Vec<NodeRank>,
    /// What daemons found worth telling, with their ranks.
    pub notes: Vec<(NodeRank, String)>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
}

/// Starts everything and waits for `node_count` ready nodes until `deadline`. `with_interrupt` gets the means to
/// interrupt it; `on_wait` is told how many are ready whenever that changes.
///
/// # Errors
/// `StartFailure` when a node fails, the time is up or the start is interrupted; nothing runs any more then.
pub fn start(
    starters: Vec<Starter>,
    timeout: Duration,
    with_interrupt: impl FnOnce(Interrupt),
    on_wait: &mut dyn FnMut(usize),
) -> Result<Started, StartFailure> {
    let (sender, receiver) = channel();
    with_interrupt(Interrupt(sender.clone()));
    let mut start = Start { running: Vec::new(), ready: BTreeMap::new(), reasons: BTreeMap::new(), notes: Vec::new() };
    for (index, starter) in starters.into_iter().enumerate() {
        start.spawn(index, starter, &sender);
    }
    let interrupted = start.wait(&receiver, timeout, on_wait);
    start.finish(interrupted)
}

/// A starter under way.
struct Running {
    name: String,
    ranks: Vec<NodeRank>,
    child: Option<Child>,
    stderr: PathBuf,
}

struct Start {
    running: Vec<Running>,
    ready: BTreeMap<NodeRank, Ready>,
    reasons: BTreeMap<NodeRank, String>,
    notes: Vec<(NodeRank, String)>,
}

impl Start {
    fn spawn(&mut self, index: usize, starter: Starter, events: &Sender<Event>) {
        let Starter { name, ranks, mut command, stderr } = starter;
        let child = match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                if let Some(stdout) = child.stdout.take() {
                    let events = events.clone();
                    std::thread::spawn(move || read_lines(index, stdout, &events));
                }
                Some(child)
            }
            Err(error) => {
                let program = command.get_program().to_string_lossy().into_owned();
                self.fail(&ranks, &format!("cannot run {program}: {error}"));
                None
            }
        };
        self.running.push(Running { name, ranks, child, stderr });
    }

    fn fail(&mut self, ranks: &[NodeRank], message: &str) {
        for rank in ranks {
            if !self.ready.contains_key(rank) {
                self.reasons.entry(*rank).or_insert_with(|| message.to_owned());
            }
        }
    }

    fn is_settled(&self) -> bool {
        let settled = |rank| self.ready.contains_key(rank) || self.reasons.contains_key(rank);
        self.running.iter().flat_map(|running| &running.ranks).all(settled)
    }

    /// Takes events until every rank has told, the time is up or somebody interrupts (then `true`).
    fn wait(&mut self, events: &Receiver<Event>, timeout: Duration, on_wait: &mut dyn FnMut(usize)) -> bool {
        let mut deadline = Instant::now() + timeout;
        while !self.is_settled() {
            if !self.reasons.is_empty() {
                deadline = deadline.min(Instant::now() + COLLECT);
            }
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Line(Line::Ready(ready))) => {
                    self.ready.insert(ready.rank, ready);
                    on_wait(self.ready.len());
                }
                Ok(Event::Line(Line::Failed { rank, message })) => drop(self.reasons.insert(rank, message)),
                Ok(Event::Line(Line::Note { rank, message })) => self.notes.push((rank, message)),
                Ok(Event::Closed(index)) => self.closed(index),
                Ok(Event::Interrupted) => return true,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.time_is_up(timeout);
                    return false;
                }
            }
        }
        false
    }

    /// A starter says nothing more: what it has not told by now it never will.
    fn closed(&mut self, index: usize) {
        let running = &mut self.running[index];
        let silent = running.ranks.iter().any(|rank| !self.ready.contains_key(rank));
        if !silent {
            return;
        }
        let status = running.child.as_mut().and_then(wait_briefly);
        let message = ended_message(&running.name, status, &tail(&running.stderr));
        let ranks = running.ranks.clone();
        self.fail(&ranks, &message);
    }

    fn time_is_up(&mut self, timeout: Duration) {
        if !self.reasons.is_empty() {
            return;
        }
        let late: Vec<(Vec<NodeRank>, String)> = self
            .running
            .iter()
            .map(|running| {
                let mut message = format!("not ready after {timeout:?} (--wait-timeout); {} still runs", running.name);
                append_tail(&mut message, &tail(&running.stderr));
                (running.ranks.clone(), message)
            })
            .collect();
        for (ranks, message) in late {
            self.fail(&ranks, &message);
        }
    }

    fn finish(mut self, interrupted: bool) -> Result<Started, StartFailure> {
        let processes = || {
            self.running.iter().filter_map(|running| running.child.as_ref().and_then(|child| Process::of(child.id())))
        };
        if self.reasons.is_empty() && !interrupted {
            let running = processes().collect();
            return Ok(Started { ready: self.ready.into_values().collect(), notes: self.notes, running });
        }
        let killed = end_all(&processes().collect::<Vec<_>>(), STOP_GRACE);
        for process in killed {
            tracing::debug!(pid = process.pid, "killed, since it did not end");
        }
        for child in self.running.iter_mut().filter_map(|running| running.child.as_mut()) {
            // All have ended by now; this only removes them from the process table.
            child.try_wait().ok();
        }
        let ready = self.ready.into_keys().collect();
        Err(StartFailure { reasons: self.reasons, ready, notes: self.notes, interrupted })
    }
}

fn read_lines(index: usize, stdout: ChildStdout, events: &Sender<Event>) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            // A login shell's greeting comes this way too, and is not for us.
            Ok(_) => {
                let Ok(line) = serde_json::from_slice(&line) else {
                    continue;
                };
                if events.send(Event::Line(line)).is_err() {
                    return;
                }
            }
        }
    }
    events.send(Event::Closed(index)).ok();
}

/// The status of a child that has closed its output and so is about to end.
fn wait_briefly(child: &mut Child) -> Option<ExitStatus> {
    let process = Process::of(child.id());
    if let Some(process) = process {
        let hung = wait_for_end(&[process], Instant::now() + Duration::from_secs(1));
        tracing::trace!(?hung, "a starter has closed its output");
    }
    child.try_wait().ok().flatten()
}

fn ended_message(name: &str, status: Option<ExitStatus>, tail: &str) -> String {
    let how = match status {
        None => "closed its output without saying why".to_owned(),
        Some(status) => match status.code() {
            Some(0) => "ended without saying that the node is ready".to_owned(),
            Some(127) => "failed with exit status 127: the program was not found there".to_owned(),
            Some(code) => format!("failed with exit status {code}"),
            None => format!("ended by {status}"),
        },
    };
    let mut message = format!("{name} {how}");
    append_tail(&mut message, tail);
    message
}

fn append_tail(message: &mut String, tail: &str) {
    if !tail.is_empty() {
        message.push_str("; its last words:");
        for line in tail.lines() {
            message.push_str("\n    ");
            message.push_str(line);
        }
    }
}

/// The last lines of a file; nothing when there are none.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
