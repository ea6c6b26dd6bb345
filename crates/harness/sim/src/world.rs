//! The world outside of the nodes: the backing file system and its history, chance, and the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_cache::Key;
use forebay_overlay::{Forest, Tree};
use forebay_random::Random;
use forebay_read::tree_of;
use forebay_types::Time;
use tokio::time::Instant;

use crate::NodeIndex;
use crate::check::Check;
use crate::history::History;
use crate::model::Model;
use crate::reached::{Reach, Reached};
use crate::troubles::Troubles;

/// A message, and an operation of the backing file system, takes up to this long. Time passes in whole milliseconds.
pub(crate) const LATENCY_MAX: Duration = Duration::from_millis(10);

/// The outside, shared by all nodes.
pub(crate) struct World {
    pub forest: Forest,
    began: Instant,
    keeps_log: bool,
    state: Mutex<State>,
}

/// The mutable part of the world.
pub(crate) struct State {
    pub random: Random,
    /// The states of the backing file system's paths.
    pub history: History,
    /// Faults, their places and times.
    pub troubles: Troubles,
    /// Events that the history reached.
    pub reached: Reached,
    /// Out of a hundred operations, so many fail until then.
    pub backing_fails: (u64, Time),
    /// By how much the time of day of nodes is behind.
    pub set_back: BTreeMap<NodeIndex, Duration>,
    /// Answered requests to the backing file system, with the nodes that sent them, and how often.
    pub asked: BTreeMap<String, Asked>,
    /// Chunks of which kernels asked for a page twice.
    pub asked_by_kernels_twice: BTreeSet<String>,
    /// Operations that began for a program.
    pub demand_count: u64,
    /// Operations that began as prefetch, although a program had waited for them for long enough to be heard of.
    pub unheard: Vec<String>,
    /// Requests of the read path between nodes.
    pub messages: usize,
    /// Bundles among them.
    pub bundles: usize,
    /// Whether anything was made to go wrong; files that change and refreshes are no faults.
    pub was_broken: bool,
    pub wrong: Vec<String>,
    pub log: Vec<String>,
}

/// The answers of the backing file system to one request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The tree that the request belongs to.
    pub tree: Tree,
    /// The size of a chunk's file; 0 for what is no chunk.
    pub size_bytes: u64,
    /// Which lives of which nodes asked it, how often.
    pub readers: BTreeMap<(NodeIndex, u32), u32>,
}

impl World {
    /// The world of a job that begins now, in the runtime that this is called in.
    pub fn new(model: &Model, forest: Forest, seed: u64, keeps_log: bool) -> Self {
        let state = State {
            random: Random::new(seed),
            history: History::new(model),
            troubles: Troubles::default(),
            reached: Reached::default(),
            backing_fails: (0, Time(0)),
            set_back: BTreeMap::new(),
            asked: BTreeMap::new(),
            asked_by_kernels_twice: BTreeSet::new(),
            demand_count: 0,
            unheard: Vec::new(),
            messages: 0,
            bundles: 0,
            was_broken: false,
            wrong: Vec::new(),
            log: Vec::new(),
        };
        Self { forest, began: Instant::now(), keeps_log, state: Mutex::new(state) }
    }

    /// Its mutable part. No request is sent to a node while it is held.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time in the job.
    pub fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// The clock's name of a time in the job.
    pub fn instant(&self, time: Time) -> Instant {
        self.began + Duration::from_nanos(time.0)
    }

    /// How long the next message or operation takes.
    pub fn latency(&self) -> Duration {
        Duration::from_millis(self.state().random.below(LATENCY_MAX.as_millis() as u64))
    }

    /// Writes down what happens.
    pub fn note(&self, text: impl FnOnce() -> String) {
        if self.keeps_log {
            let line = format!("{:>12.6} {}", self.now().0 as f64 / 1e9, text());
            self.state().log.push(line);
        }
    }

    /// Something is not as it must be, as a check has found.
    pub fn note_wrong(&self, check: Check, what: &str) {
        let what = format!("{check}: {what}");
        self.note(|| format!("WRONG {what}"));
        self.state().wrong.push(what);
    }

    /// Something was reached.
    pub fn note_reached(&self, reach: Reach) {
        self.state().reached.count(reach);
    }

    /// The backing file system answers something that belongs to a tree.
    pub fn note_asked(&self, what: String, key: &Key, reader: (NodeIndex, u32)) {
        let size_bytes = if let Key::Chunk { generation, .. } = key { generation.size_bytes } else { 0 };
        let new = || Asked { tree: tree_of(&self.forest, key), size_bytes, readers: BTreeMap::new() };
        let mut state = self.state();
        let asked = state.asked.entry(what).or_insert_with(new);
        *asked.readers.entry(reader).or_default() += 1;
    }
}
