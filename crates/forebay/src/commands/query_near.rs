//! Queries near the data: the nodes of a job that hold a file, and parts of it asked of them.
//!
//! The daemon of this host carries questions and answers; what is asked of whom is decided here and in the core
//! (`forebay_query::Parts`). Whoever fails once is asked no more: its parts are made by others, in the end by this host.
//! Nodes that are chosen and fall behind get the host's help (`forebay_query::Pace`). Where both make parts and none is left,
//! whoever is free makes those that the other end has under way; the first answer counts, and the other is given up.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use forebay_daemon::AskedPart;
use forebay_daemon::query::{
    Contents, FileSource, Holder, PassOptions, Table, collect_part, decode_part, state_of_nothing,
};
use forebay_launch::JobDirectory;
use forebay_query::{Burst, Collected, End, Pace, Part, PartState, Parts, Schema, Side, State};
use forebay_wire::{QueryTable, QueryWants};
use serde::Deserialize;
use serde_json::json;

use crate::commands::ask::ask_any;
use crate::commands::paths::{resolved, views, within_view};
use crate::control;

/// How long it may take to hear who holds a file: a silent node costs a second on each level of the tree.
const HOLDERS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a part may take; a node that takes longer is lost. The slowest device that is of any use makes one in a second.
const PART_TIMEOUT: Duration = Duration::from_secs(20);

/// Parts that are asked of a node at once beyond those that it makes: the next is there when one is done.
const AHEAD: usize = 1;

/// How often it is looked at whether the nodes are behind.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Questions under way at once, over all nodes; nodes beyond are not asked.
const QUESTIONS_MAX: usize = 64;

/// Questions under way at once to one node.
const QUESTIONS_EACH_MAX: usize = 16;

/// The job that this host takes part in.
pub struct Near {
    directory: JobDirectory,
    wants: QueryWants,
}

/// Those who make a file's parts beside the host.
pub struct Makers {
    holders: Vec<Holder>,
    path: String,
    socket: PathBuf,
    wants: QueryWants,
    /// By how much this host parses more slowly than its samples say, as far as was seen.
    pub host_factor: f64,
    /// By how much its bytes come more slowly.
    pub host_read_factor: f64,
}

/// What the host does beside the nodes.
#[derive(Clone, Copy)]
pub enum HostPart {
    /// What nobody else can.
    Rest,
    /// That, and as much as it can once they are behind.
    Help(Pace),
    /// As much as it can.
    Half,
}

/// What the daemon of this host says.
#[derive(Deserialize)]
struct Said {
    holders: Vec<Holder>,
    host_factor: f64,
    host_read_factor: f64,
}

/// What became of a query over several nodes.
#[derive(Default)]
pub struct Made {
    /// Bytes of the parts that each node made; None is this host.
    pub bytes: BTreeMap<Option<u32>, u64>,
    /// Nodes that were lost, and why.
    pub lost: Vec<String>,
}

impl Near {
    /// For queries that collect this.
    pub fn new(directory: JobDirectory, collected: Collected) -> Self {
        let Collected { bytes: counts_bytes, columns: rows, gramian } = collected;
        Self { directory, wants: QueryWants { counts_bytes, rows, gramian } }
    }

    /// The nodes that hold a file as this host sees it: devices, or where there are none nodes that keep it, or else those
    /// that read the backing file system. None if nobody does.
    pub fn makers(&self, source: &FileSource) -> anyhow::Result<Option<Makers>> {
        let path = std::path::absolute(source.path()).context("a path cannot be made absolute")?;
        // Nodes know files by their places.
        let (_, path) = within_view(&path, &views(&self.directory));
        let Some(path) = resolved(&path).to_str().map(str::to_owned) else { return Ok(None) };
        let question = json!({"command": "holders", "path": path, "wants": self.wants});
        let said = ask_any(&self.directory, None, &question, HOLDERS_TIMEOUT)?;
        let Said { holders: all, host_factor, host_read_factor } =
            serde_json::from_value(said).context("the answer cannot be decoded")?;
        let is_same = |holder: &Holder| source.is_version(&holder.generation);
        let best = all.iter().filter(|holder| is_same(holder)).map(|holder| holder.holds).min();
        let holders: Vec<Holder> = all
            .into_iter()
            .filter(|holder| is_same(holder) && Some(holder.holds) == best)
            .take(QUESTIONS_MAX)
            .collect();
        let socket = answering_socket(&self.directory)?;
        let wants = self.wants;
        let makers = Makers { holders, path, socket, wants, host_factor, host_read_factor };
        Ok((!makers.holders.is_empty()).then_some(makers))
    }
}

impl Makers {
    /// They, as the model sees them, where each needs so long to begin.
    pub fn ends(&self, begins: f64) -> Vec<End> {
        let end = |holder: &Holder| {
            let burst = Burst { bytes: holder.burst.0, bytes_per_s: holder.burst.1 };
            End { parses: holder.bytes_per_s, reads: f64::INFINITY, begins, burst }
        };
        self.holders.iter().map(end).collect()
    }

    /// This host took so much longer than was predicted, in what it waited for. Nothing depends on whether that is heard.
    pub fn saw_host(&self, factor: f64, waited_for_bytes: bool) {
        let factor = factor * if waited_for_bytes { self.host_read_factor } else { self.host_factor };
        let question =
            json!({"command": "querysaw", "wants": self.wants, "factor": factor, "waited_for_bytes": waited_for_bytes});
        let _ = control::ask(&self.socket, &question, Duration::from_secs(1));
    }

    /// Parts that all of them make at once.
    pub fn threads(&self) -> usize {
        self.holders.iter().map(|holder| holder.threads).sum()
    }

    /// The state of a file: parts made by the nodes, by this host as `host_part` says, and by it where nobody else is left.
    pub fn collect(
        &self,
        source: &FileSource,
        table: Table<'_>,
        options: PassOptions<'_>,
        host_part: HostPart,
    ) -> anyhow::Result<(State, Made)> {
        let PassOptions { collected, threads, .. } = options;
        let host_threads = if matches!(host_part, HostPart::Rest) { 0 } else { threads };
        let parts = Parts::new(source.bytes(), self.threads() + host_threads, state_of_nothing(table, collected));
        let work = Work::new(parts, matches!(host_part, HostPart::Half), options.done_bytes);
        let made_here = |part| {
            let options =
                PassOptions { threads: 1, done_bytes: &Default::default(), is_given_up: &work.is_over, ..options };
            collect_part(source, table, options, part)
        };
        let asked = question(table, collected);
        let lost: Vec<AtomicBool> = self.holders.iter().map(|_| AtomicBool::new(false)).collect();
        let host = AtomicBool::new(false);
        let here = || work.make(None, made_here, &host);
        thread::scope(|scope| {
            for turn in 0..QUESTIONS_EACH_MAX.min(QUESTIONS_MAX / self.holders.len()).max(1) {
                // Each has one before any has two.
                for (holder, is_lost) in
                    self.holders.iter().zip(&lost).filter(|(holder, _)| turn < holder.threads + AHEAD)
                {
                    let (work, asked) = (&work, &asked);
                    scope.spawn(move || {
                        let made = |part: Part| self.ask(work, holder, asked, part);
                        if let Err(error) = work.make(Some(holder.rank), made, is_lost) {
                            work.lose(holder, &error, is_lost);
                        }
                    });
                }
            }
            if let HostPart::Help(pace) = host_part
                && !work.wait_until_behind(pace, &lost)
            {
                return Ok(());
            }
            let own: Vec<_> = (0..host_threads).map(|_| scope.spawn(here)).collect();
            joined(own)
        })?;
        // What nobody else has made.
        thread::scope(|scope| {
            let rest = (0..threads).map(|_| scope.spawn(here)).collect();
            joined(rest)
        })?;
        source.check()?;
        let Progress { parts, made, .. } = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((parts.finish()?, made))
    }

    /// A part, made by a node.
    fn ask(
        &self,
        work: &Work<'_>,
        holder: &Holder,
        asked: &(bool, Option<QueryTable>),
        part: Part,
    ) -> anyhow::Result<PartState> {
        let (counts_bytes, table) = asked.clone();
        let question = AskedPart {
            rank: holder.rank,
            path: self.path.clone(),
            generation: holder.generation,
            counts_bytes,
            table,
            first: part.first,
            blocks: part.blocks,
            begins_quoted: part.begins_quoted,
            timeout_ms: PART_TIMEOUT.as_millis() as u64,
        };
        let mut question = serde_json::to_value(question)?;
        question["command"] = json!("querypart");
        let stream = control::connected(&self.socket)?;
        let number = work.opened(stream.try_clone().context("a connection cannot be kept")?);
        let said = control::ask_over(&stream, &self.socket, &question, PART_TIMEOUT);
        work.closed(number);
        let said = said?;
        let state = said.as_str().and_then(decode_part);
        state.context("the answer cannot be decoded")
    }
}

/// That of a daemon on this host that answers.
pub fn answering_socket(directory: &JobDirectory) -> anyhow::Result<PathBuf> {
    let mut sockets = directory.socket_ranks().into_iter().map(|rank| directory.socket(rank));
    let is_there = |socket: &PathBuf| control::ask(socket, &json!({"command": "ping"}), Duration::from_secs(1)).is_ok();
    sockets.find(is_there).context("no daemon of the job answers on this host")
}

/// The first failure of some threads.
fn joined(threads: Vec<ScopedJoinHandle<'_, anyhow::Result<()>>>) -> anyhow::Result<()> {
    let ends = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the query panicked"))));
    ends.fold(Ok(()), anyhow::Result::and)
}

/// What is asked of every node.
fn question(table: Table<'_>, collected: Collected) -> (bool, Option<QueryTable>) {
    let of = |(schema, columns): (&Schema, &[usize])| QueryTable {
        delimiter: schema.dialect.delimiter(),
        numeric: schema.numeric.clone(),
        rows_from: schema.rows_from,
        // A schema has `FIELDS_MAX` fields at most.
        columns: columns.iter().map(|column| *column as u16).collect(),
        gramian: collected.gramian,
    };
    (collected.bytes, table.map(of))
}

/// The parts while they are made.
struct Work<'a> {
    state: Mutex<Progress>,
    changed: Condvar,
    /// All parts are answered: what is still under way is wanted by nobody.
    is_over: AtomicBool,
    done_bytes: &'a AtomicU64,
    began: Instant,
}

struct Progress {
    parts: Parts,
    made: Made,
    /// Bytes of the parts that are answered.
    bytes: u64,
    /// The host makes parts too.
    is_shared: bool,
    /// Of questions that are not answered, by their numbers.
    connections: BTreeMap<u64, UnixStream>,
    questions: u64,
}

impl<'a> Work<'a> {
    fn new(parts: Parts, is_shared: bool, done_bytes: &'a AtomicU64) -> Self {
        let (made, connections) = (Made::default(), BTreeMap::new());
        let state = Mutex::new(Progress { parts, made, bytes: 0, is_shared, connections, questions: 0 });
        Self { state, changed: Condvar::new(), is_over: AtomicBool::new(false), done_bytes, began: Instant::now() }
    }

    /// Takes parts and has them made by `make`, in the name of `who`, until there are none, `is_lost`, or one fails.
    fn make(
        &self,
        who: Option<u32>,
        make: impl Fn(Part) -> anyhow::Result<PartState>,
        is_lost: &AtomicBool,
    ) -> anyhow::Result<()> {
        let side = if who.is_some() { Side::Nodes } else { Side::Host };
        while let Some(part) = self.take(side, is_lost) {
            let made = make(part);
            let mut state = self.lock();
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let outcome = made.and_then(|made| Ok(state.parts.answered(part.index, made)?));
            self.changed.notify_all();
            match outcome {
                Ok(bytes) => {
                    if bytes > 0 {
                        *state.made.bytes.entry(who).or_default() += bytes;
                    }
                    state.bytes += bytes;
                    self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.end_if_done(&state);
                }
                Err(error) => {
                    state.parts.give_back(part.index, side);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives up what nobody waits for any more.
    fn end_if_done(&self, state: &Progress) {
        if state.parts.is_done() {
            self.is_over.store(true, Ordering::Relaxed);
            for connection in state.connections.values() {
                // One that is closed already needs no shutting down.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }

    /// The next part; waits while others make the last ones, one of which may come back.
    fn take(&self, side: Side, is_lost: &AtomicBool) -> Option<Part> {
        let mut state = self.lock();
        loop {
            if state.parts.is_done() || is_lost.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(part) = state.parts.take(side) {
                return Some(part);
            }
            if state.is_shared
                && let Some(part) = state.parts.take_again(side)
            {
                return Some(part);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the nodes are behind, and has the host share the work from then on; false if they are done before, or
    /// all lost.
    fn wait_until_behind(&self, pace: Pace, lost: &[AtomicBool]) -> bool {
        let mut state = self.lock();
        loop {
            if state.parts.is_done() || lost.iter().all(|lost| lost.load(Ordering::Relaxed)) {
                return false;
            }
            if pace.needs_help(self.began.elapsed().as_secs_f64(), state.bytes, state.parts.under_way_bytes()) {
                state.is_shared = true;
                self.changed.notify_all();
                return true;
            }
            state = self.changed.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A question is under way over this connection: its number.
    fn opened(&self, connection: UnixStream) -> u64 {
        let mut state = self.lock();
        state.questions += 1;
        let number = state.questions;
        state.connections.insert(number, connection);
        self.end_if_done(&state);
        number
    }

    fn closed(&self, number: u64) {
        self.lock().connections.remove(&number);
    }

    fn lose(&self, holder: &Holder, error: &anyhow::Error, is_lost: &AtomicBool) {
        let mut state = self.lock();
        if !is_lost.swap(true, Ordering::Relaxed) {
            state.made.lost.push(format!("node {} on {}: {error:#}", holder.rank, holder.host));
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
