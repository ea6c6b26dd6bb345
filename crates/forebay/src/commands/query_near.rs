//! Queries near the data: the nodes of a job that hold a file, and parts of it asked of them.
//!
//! The daemon of this host carries questions and answers; what is asked of whom is decided here and in the core
//! (`forebay_query::Parts`). Whoever fails once is asked no more: its parts are made by others, in the end by this host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use forebay_daemon::AskedPart;
use forebay_daemon::query::{
    Contents, FileSource, Holder, PassOptions, Table, collect_part, decode_part, state_of_nothing,
};
use forebay_launch::JobDirectory;
use forebay_query::{Collected, End, Part, PartState, Parts, Schema, State};
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
    /// By how much this host takes longer than its samples say, as far as was seen.
    pub host_factor: f64,
}

/// What the daemon of this host says.
#[derive(Deserialize)]
struct Said {
    holders: Vec<Holder>,
    host_factor: f64,
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
        let Said { holders: all, host_factor } =
            serde_json::from_value(said).context("the answer cannot be decoded")?;
        let is_same = |holder: &Holder| source.is_version(&holder.generation);
        let best = all.iter().filter(|holder| is_same(holder)).map(|holder| holder.holds).min();
        let holders: Vec<Holder> = all
            .into_iter()
            .filter(|holder| is_same(holder) && Some(holder.holds) == best)
            .take(QUESTIONS_MAX)
            .collect();
        let socket = answering_socket(&self.directory)?;
        Ok((!holders.is_empty()).then_some(Makers { holders, path, socket, wants: self.wants, host_factor }))
    }
}

impl Makers {
    /// They, as the model sees them, where each needs so long to begin.
    pub fn ends(&self, begins: f64) -> Vec<End> {
        let end = |holder: &Holder| End { parses: holder.bytes_per_s, reads: f64::INFINITY, begins };
        self.holders.iter().map(end).collect()
    }

    /// This host took so much longer than was predicted. Nothing depends on whether that is heard.
    pub fn saw_host(&self, factor: f64) {
        let factor = factor * self.host_factor;
        let _ = control::ask(
            &self.socket,
            &json!({"command": "querysaw", "wants": self.wants, "factor": factor}),
            Duration::from_secs(1),
        );
    }

    /// Parts that all of them make at once.
    pub fn threads(&self) -> usize {
        self.holders.iter().map(|holder| holder.threads).sum()
    }

    /// The state of a file: parts made by the nodes, and as far as `host_threads` say by this host; by it too where nobody
    /// else is left.
    pub fn collect(
        &self,
        source: &FileSource,
        table: Table<'_>,
        options: PassOptions<'_>,
        host_threads: usize,
    ) -> anyhow::Result<(State, Made)> {
        let PassOptions { collected, threads, .. } = options;
        let parts = Parts::new(source.bytes(), self.threads() + host_threads, state_of_nothing(table, collected));
        let work = Work { state: Mutex::new((parts, Made::default())), changed: Condvar::new(), options };
        let made_here = |part| {
            let options = PassOptions { threads: 1, done_bytes: &Default::default(), ..options };
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
                        let made = |part: Part| self.ask(holder, asked, part);
                        if let Err(error) = work.make(Some(holder.rank), made, is_lost) {
                            work.lose(holder, &error, is_lost);
                        }
                    });
                }
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
        let (parts, made) = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((parts.finish()?, made))
    }

    /// A part, made by a node.
    fn ask(&self, holder: &Holder, asked: &(bool, Option<QueryTable>), part: Part) -> anyhow::Result<PartState> {
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
        let said = control::ask(&self.socket, &question, PART_TIMEOUT)?;
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
    state: Mutex<(Parts, Made)>,
    changed: Condvar,
    options: PassOptions<'a>,
}

impl Work<'_> {
    /// Takes parts and has them made by `make`, in the name of `who`, until there are none, `is_lost`, or one fails.
    fn make(
        &self,
        who: Option<u32>,
        make: impl Fn(Part) -> anyhow::Result<PartState>,
        is_lost: &AtomicBool,
    ) -> anyhow::Result<()> {
        while let Some(part) = self.take(is_lost) {
            let made = make(part);
            let mut state = self.lock();
            let outcome = made.and_then(|made| Ok(state.0.answered(part.index, made)?));
            match outcome {
                Ok(bytes) => {
                    *state.1.bytes.entry(who).or_default() += bytes;
                    self.options.done_bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.changed.notify_all();
                }
                Err(error) => {
                    state.0.give_back(part.index);
                    self.changed.notify_all();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The next part; waits while others make the last ones, one of which may come back.
    fn take(&self, is_lost: &AtomicBool) -> Option<Part> {
        let mut state = self.lock();
        loop {
            if state.0.is_done() || is_lost.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(part) = state.0.take() {
                return Some(part);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lose(&self, holder: &Holder, error: &anyhow::Error, is_lost: &AtomicBool) {
        let mut state = self.lock();
        if !is_lost.swap(true, Ordering::Relaxed) {
            state.1.lost.push(format!("node {} on {}: {error:#}", holder.rank, holder.host));
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, (Parts, Made)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
