//! Starting all daemons at once and waiting until the job is up, or it is known why not.
//!
//! A starter is a command that covers one or more ranks and relays their lines: a daemon itself, a remote shell, an
//! `srun`. None is waited for before the next is started, but not more than so many begin at once: a host on which hundreds of daemons
//! begin together gives none of them time to answer the others. That the nodes are ready is heard from one of them, which has it
//! from the others over the overlay; a node that fails says so itself. A failure ends the waiting soon after: other
//! reports of the same time are collected, and everything that runs is stopped. Or the job goes on without the
//! failed nodes, once all others are ready. The caller cleans up files that a daemon leaves on a disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use forebay_types::NodeRank;

use crate::gathered::{Gathered, Line, Slowest};
use crate::last_words::{append_tail, ended_message, tail};
use crate::process::{Process, end_all, wait_for_end};

/// After the first failure, how long the other starters may still tell theirs: a cause that is common to all (a
/// missing directory, a missing program) shows on all within this time, and a user waits for it only when something
/// is wrong.
const COLLECT: Duration = Duration::from_millis(300);

/// How long a daemon may take to end after SIGTERM when the start has failed: it unmounts and leaves.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// How often whoever waits is told how many are ready, also when nothing new is heard.
const TELL_INTERVAL: Duration = Duration::from_millis(500);

/// When nodes that are not ready are named, though the start goes on: a user who waits this long wants to know for whom.
const LATE: Duration = Duration::from_secs(4);

/// How long after that they are named again.
const LATE_AGAIN: Duration = Duration::from_secs(30);

/// A starter that has said nothing for so long keeps no other from its turn: its host may be dead.
const BEGINS_WITHIN: Duration = Duration::from_secs(2);

/// How often it is looked whether the next may begin.
const TURN_INTERVAL: Duration = Duration::from_millis(50);

/// One line of a starter, bytes; a longer one is not ours.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A command that starts one or more daemons.
#[derive(Debug)]
pub struct Starter {
    /// Its name for messages: `ssh to n4`.
    pub name: String,
    /// The ranks it covers.
    pub ranks: Vec<NodeRank>,
    /// The command; its standard output is taken over.
    pub command: Command,
    /// Where its standard error goes, to be shown when it fails.
    pub stderr: PathBuf,
    /// Whether it ends when the job is up and leaves its daemons running.
    pub leaves: bool,
    /// A command that shows whether it works at all: `ssh n4 true`.
    pub trial: Option<String>,
}

/// The reaction to a node that fails to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenMissing {
    /// The start has failed.
    Fail,
    /// The job goes on without it.
    Continue,
}

impl WhenMissing {
    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Continue => "continue",
        }
    }
}

/// How a start goes on.
#[derive(Clone, Copy, Debug)]
pub struct StartOptions {
    /// Starters that may begin at once.
    pub at_once: usize,
    /// Until when all nodes are to be ready.
    pub timeout: Duration,
    /// The reaction to nodes that fail.
    pub when_missing: WhenMissing,
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
        // A failed send is harmless: the start is over, and so is all that could be interrupted.
        self.0.send(Event::Interrupted).ok();
    }
}

/// A job that is up.
#[derive(Debug)]
pub struct Started {
    /// The nodes that it is up without, each with the reason.
    pub missing: BTreeMap<NodeRank, String>,
    /// Remarks of daemons, with their ranks.
    pub notes: Vec<(NodeRank, String)>,
    /// The starters that run as long as the daemons (an `srun` does; a remote shell does not).
    pub running: Vec<Process>,
    /// The node that took longest to start.
    pub slowest: Option<Slowest>,
    /// How long it took to run all starters.
    pub launch: Duration,
    /// How long it took from there until all were known to be ready.
    pub gather: Duration,
    /// Lines that were heard.
    pub lines_count: usize,
}

/// A start that failed; whatever this machine ran for it has been told to stop.
#[derive(Debug)]
pub struct StartFailure {
    /// The nodes that failed, each with the reason.
    pub reasons: BTreeMap<NodeRank, String>,
    /// How many others were ready.
    pub ready_count: usize,
    /// Remarks of daemons, with their ranks.
    pub notes: Vec<(NodeRank, String)>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
    /// Processes of this machine that could not be stopped yet: they wait for a file system that does not answer.
    pub held: Vec<Process>,
}

/// The words of a start that waits.
#[derive(Debug)]
pub enum Waiting<'a> {
    /// How many nodes are ready: whenever that is heard, and twice a second.
    Ready(usize),
    /// All starters have been run: those of them that stay as long as the daemons.
    Begun(&'a [Process]),
    /// The nodes that are late, each with the reason as far as it is known.
    Late(&'a BTreeMap<NodeRank, String>),
}

/// Starts everything and waits until all nodes are ready, for the timeout at most. `with_interrupt` gets the means to
/// interrupt it; `on_wait` is told how it goes.
///
/// # Errors
/// `StartFailure` when nodes fail or the time is up and the job does not go on without them, when no node is left, and
/// when the start is interrupted; nothing runs any more then.
pub fn start(
    starters: Vec<Starter>,
    options: StartOptions,
    with_interrupt: impl FnOnce(Interrupt),
    on_wait: &mut dyn FnMut(Waiting<'_>),
) -> Result<Started, StartFailure> {
    let (sender, receiver) = channel();
    with_interrupt(Interrupt(sender.clone()));
    let mut start = Start {
        began: Instant::now(),
        launched: Instant::now(),
        options,
        todo: starters.into(),
        running: Vec::new(),
        ready: BTreeSet::new(),
        gathered: None,
        reasons: BTreeMap::new(),
        notes: Vec::new(),
        lines_count: 0,
    };
    let end = start.wait(&(sender, receiver), on_wait);
    start.finish(end)
}

/// A starter under way.
struct Running {
    name: String,
    ranks: Vec<NodeRank>,
    child: Option<Child>,
    stderr: PathBuf,
    leaves: bool,
    trial: Option<String>,
    began: Instant,
    /// It says nothing more.
    is_closed: bool,
}

impl Running {
    fn process(&self) -> Option<Process> {
        self.child.as_ref().and_then(|child| Process::of(child.id()))
    }

    /// Why it reported nothings nodes.
    fn silence(&self, late: &str) -> String {
        let tail = tail(&self.stderr);
        if self.is_closed {
            return ended_message(&self.name, Some(ExitStatus::default()), &tail);
        }
        let mut message = match &self.trial {
            Some(trial) => format!("{late}; {} gave no answer; try: {trial}", self.name),
            None => format!("{late}; {} still runs", self.name),
        };
        append_tail(&mut message, &tail);
        message
    }
}

/// How the waiting ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Up,
    Failed,
    Interrupted,
}

struct Start {
    began: Instant,
    /// When the last starter was run.
    launched: Instant,
    options: StartOptions,
    /// Those whose turn has not come.
    todo: VecDeque<Starter>,
    running: Vec<Running>,
    /// Nodes that said themselves that they are ready.
    ready: BTreeSet<NodeRank>,
    /// The last that was heard of the whole job.
    gathered: Option<Gathered>,
    reasons: BTreeMap<NodeRank, String>,
    notes: Vec<(NodeRank, String)>,
    lines_count: usize,
}

impl Start {
    /// Runs those whose turn has come.
    fn run_next(&mut self, events: &Sender<Event>) {
        let begins = |running: &&Running| {
            !running.is_closed
                && running.began.elapsed() < BEGINS_WITHIN
                && !running.ranks.iter().all(|rank| self.ready.contains(rank))
        };
        let begin_count = if self.todo.is_empty() { 0 } else { self.running.iter().filter(begins).count() };
        for _ in begin_count..self.options.at_once.max(1) {
            let Some(starter) = self.todo.pop_front() else { break };
            self.spawn(self.running.len(), starter, events);
            self.launched = Instant::now();
        }
    }

    fn spawn(&mut self, index: usize, starter: Starter, events: &Sender<Event>) {
        let Starter { name, ranks, mut command, stderr, leaves, trial } = starter;
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
        let is_closed = child.is_none();
        let began = Instant::now();
        self.running.push(Running { name, ranks, child, stderr, leaves, trial, began, is_closed });
    }

    fn fail(&mut self, ranks: &[NodeRank], message: &str) {
        for rank in ranks {
            self.reasons.entry(*rank).or_insert_with(|| message.to_owned());
        }
    }

    /// Whether nothing more is to be waited for.
    fn end(&self) -> Option<End> {
        if self.gathered.as_ref().is_some_and(Gathered::is_complete) {
            return Some(End::Up);
        }
        let started = self.running.iter().flat_map(|running| &running.ranks);
        let mut ranks = started.chain(self.todo.iter().flat_map(|starter| &starter.ranks));
        if ranks.all(|rank| self.reasons.contains_key(rank)) {
            return Some(End::Failed);
        }
        let gathered = self.gathered.as_ref().filter(|_| self.options.when_missing == WhenMissing::Continue)?;
        let is_explained = !gathered.is_cut && gathered.missing_ranks().all(|rank| self.reasons.contains_key(&rank));
        (gathered.is_last || is_explained).then_some(End::Up)
    }

    /// Takes events until the job is up, or it will not be.
    fn wait(
        &mut self,
        (sender, events): &(Sender<Event>, Receiver<Event>),
        on_wait: &mut dyn FnMut(Waiting<'_>),
    ) -> End {
        let StartOptions { timeout, when_missing, .. } = self.options;
        let mut collect_until = None;
        let mut late_at = self.began + LATE;
        let mut is_told = false;
        loop {
            self.run_next(sender);
            if self.todo.is_empty() && !std::mem::replace(&mut is_told, true) {
                let stay = self.running.iter().filter(|running| !running.leaves);
                on_wait(Waiting::Begun(&stay.filter_map(Running::process).collect::<Vec<_>>()));
            }
            if let Some(end) = self.end() {
                return end;
            }
            if self.todo.is_empty() && self.running.iter().all(|running| running.is_closed) {
                return self.all_is_heard("not ready when the last starter ended");
            }
            if !self.reasons.is_empty() && when_missing == WhenMissing::Fail {
                collect_until = collect_until.or_else(|| Some(Instant::now() + COLLECT));
            }
            if Instant::now() >= late_at {
                let late = self.late(&format!("not ready after {} s", self.began.elapsed().as_secs()));
                on_wait(Waiting::Late(&late));
                late_at = Instant::now() + LATE_AGAIN;
            }
            let deadline = collect_until.unwrap_or(self.launched + timeout).min(self.launched + timeout);
            let left = deadline.saturating_duration_since(Instant::now());
            let interval = if self.todo.is_empty() { TELL_INTERVAL } else { TURN_INTERVAL };
            match events.recv_timeout(left.min(interval)) {
                Ok(Event::Line(line)) => self.hear(line, on_wait),
                Ok(Event::Closed(index)) => self.closed(index),
                Ok(Event::Interrupted) => return End::Interrupted,
                Err(RecvTimeoutError::Timeout) if left > interval => on_wait(Waiting::Ready(self.ready_count())),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return self.all_is_heard(&format!("not ready after {timeout:?} (--wait-timeout)"));
                }
            }
        }
    }

    fn ready_count(&self) -> usize {
        self.gathered.as_ref().map_or(0, |gathered| gathered.ready_count)
    }

    fn hear(&mut self, line: Line, on_wait: &mut dyn FnMut(Waiting<'_>)) {
        self.lines_count += 1;
        match line {
            Line::Gathered(gathered) => {
                if self.gathered.as_ref().is_none_or(|earlier| earlier.gives_way_to(&gathered)) {
                    on_wait(Waiting::Ready(gathered.ready_count));
                    self.gathered = Some(gathered);
                }
            }
            Line::Ready { rank } => drop(self.ready.insert(rank)),
            Line::Failed { rank, message } => drop(self.reasons.insert(rank, message)),
            Line::Note { rank, message } => self.notes.push((rank, message)),
        }
    }

    /// A starter says nothing more: what it has not told by now it never will.
    fn closed(&mut self, index: usize) {
        let running = &mut self.running[index];
        running.is_closed = true;
        let status = running.child.as_mut().and_then(wait_briefly);
        if running.leaves && status.is_some_and(|status| status.success()) {
            return;
        }
        let message = ended_message(&running.name, status, &tail(&running.stderr));
        let ranks = running.ranks.clone();
        self.fail(&ranks, &message);
    }

    /// Ends the wait with the reports so far; nodes without any are `late`.
    fn all_is_heard(&mut self, late: &str) -> End {
        let is_first = self.reasons.is_empty();
        if !is_first && self.options.when_missing == WhenMissing::Fail {
            return End::Failed;
        }
        let is_up_without = self.options.when_missing == WhenMissing::Continue && self.gathered.is_some();
        self.reasons = self.late(late);
        if is_up_without { End::Up } else { End::Failed }
    }

    /// The nodes that are not known to be ready, each with its reason; those without any are `late`.
    fn late(&self, late: &str) -> BTreeMap<NodeRank, String> {
        let told = self.gathered.as_ref().map(Gathered::reasons).unwrap_or_default();
        let missing: Option<BTreeSet<NodeRank>> =
            self.gathered.as_ref().map(|gathered| gathered.missing_ranks().collect());
        let is_missing = |rank: &&NodeRank| missing.as_ref().is_none_or(|missing| missing.contains(rank));
        let mut reasons = self.reasons.clone();
        let waits = format!("{late}; its turn to be started had not come");
        for rank in self.todo.iter().flat_map(|starter| &starter.ranks) {
            reasons.entry(*rank).or_insert_with(|| waits.clone());
        }
        for running in &self.running {
            let silence = running.silence(late);
            for rank in running.ranks.iter().filter(is_missing) {
                let why = told.get(rank).map_or_else(|| silence.clone(), |why| format!("{late}; {why}"));
                reasons.entry(*rank).or_insert(why);
            }
        }
        reasons
    }

    fn finish(mut self, end: End) -> Result<Started, StartFailure> {
        let heard = Instant::now();
        if end == End::Up {
            let missing = self.missing();
            let is_given_up = |running: &&Running| running.ranks.iter().all(|rank| missing.contains_key(rank));
            end_all(
                &self.running.iter().filter(is_given_up).filter_map(Running::process).collect::<Vec<_>>(),
                STOP_GRACE,
            );
            let stays = self.running.iter().filter(|running| !running.leaves && !is_given_up(running));
            return Ok(Started {
                running: stays.filter_map(Running::process).collect(),
                slowest: self.gathered.and_then(|gathered| gathered.slowest),
                missing,
                notes: self.notes,
                launch: self.launched - self.began,
                gather: heard - self.launched,
                lines_count: self.lines_count,
            });
        }
        let held = end_all(&self.running.iter().filter_map(Running::process).collect::<Vec<_>>(), STOP_GRACE).held;
        for child in self.running.iter_mut().filter_map(|running| running.child.as_mut()) {
            // Those that could end have; this only removes them from the process table.
            child.try_wait().ok();
        }
        let ready_count = self.ready_count();
        let interrupted = end == End::Interrupted;
        Err(StartFailure { reasons: self.reasons, ready_count, notes: self.notes, interrupted, held })
    }

    /// The nodes without which the job is up. One that failed and is ready nevertheless is none of them.
    fn missing(&self) -> BTreeMap<NodeRank, String> {
        let Some(gathered) = &self.gathered else { return BTreeMap::new() };
        let told = gathered.reasons();
        let reason = |rank: NodeRank| self.reasons.get(&rank).or(told.get(&rank)).cloned();
        let unknown = || "it reported nothing".to_owned();
        gathered.missing_ranks().map(|rank| (rank, reason(rank).unwrap_or_else(unknown))).collect()
    }
}

fn read_lines(index: usize, stdout: ChildStdout, events: &Sender<Event>) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            // A login shell's greeting comes this way too, and is not for us; it may lack its newline.
            Ok(_) => {
                let begin = line.iter().position(|byte| *byte == b'{').unwrap_or(line.len());
                let Some(line) = Line::read(&line[begin..]) else { continue };
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

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
