//! The server of the model: what it was asked, and when it is through with each request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::queue::{Parameters, Queue};
use super::timer::Timer;
use crate::traffic::Traffic;

/// The number after that of the root.
const FIRST_NODE: u64 = forebay_fuse::ROOT_NODE + 1;

/// The server, shared by all its clients.
pub struct Model {
    directory: PathBuf,
    parameters: Parameters,
    epoch: Instant,
    timer: Timer,
    state: Mutex<State>,
}

/// The server's mutable state.
struct State {
    queue: Queue,
    traffic: Traffic,
    /// Each known path's node number. They are not inode numbers: a tree may have files of several file systems. None is ever
    /// forgotten, which a model that lives for minutes can afford.
    numbers: BTreeMap<PathBuf, u64>,
    /// The paths of the numbers from `FIRST_NODE` on.
    paths: Vec<PathBuf>,
    /// Answers that are held while the server hangs.
    held: Option<Vec<Answer>>,
}

type Answer = Box<dyn FnOnce() + Send>;

impl Model {
    /// A server of the files below `directory`.
    ///
    /// # Errors
    /// When the directory is not there or the timer cannot be started.
    pub fn new(directory: &Path, parameters: Parameters) -> anyhow::Result<Arc<Self>> {
        let directory = directory.canonicalize().with_context(|| format!("cannot serve {}", directory.display()))?;
        let state = State {
            queue: Queue::new(&parameters),
            traffic: Traffic::default(),
            numbers: BTreeMap::new(),
            paths: Vec::new(),
            held: None,
        };
        let timer = Timer::start().context("the model's timer")?;
        Ok(Arc::new(Self { directory, parameters, epoch: Instant::now(), timer, state: Mutex::new(state) }))
    }

    /// Requests and bytes sent so far. `sent_bytes` counts file contents and listings.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.state().traffic.clone()
    }

    /// Answers nothing any more.
    pub fn hang(&self) {
        self.state().held.get_or_insert_default();
    }

    /// Answers again, also what was asked meanwhile.
    pub fn go_on(&self) {
        let held = self.state().held.take();
        held.into_iter().flatten().for_each(|answer| answer());
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The local path of a node; `None` for one that was never told to a client.
    pub(super) fn path(&self, node: u64) -> Option<PathBuf> {
        if node == forebay_fuse::ROOT_NODE {
            return Some(self.directory.clone());
        }
        let index = usize::try_from(node.checked_sub(FIRST_NODE)?).ok()?;
        self.state().paths.get(index).cloned()
    }

    /// The number of the node at a path, the same at each call.
    pub(super) fn learn(&self, path: PathBuf) -> u64 {
        let mut state = self.state();
        if let Some(number) = state.numbers.get(&path) {
            return *number;
        }
        let number = FIRST_NODE + state.paths.len() as u64;
        state.numbers.insert(path.clone(), number);
        state.paths.push(path);
        number
    }

    /// Has `answer` run when the metadata server and the link are through with a request that sends `bytes`.
    pub(super) fn metadata(&self, kind: &str, bytes: usize, answer: impl FnOnce() + Send + 'static) {
        let done = self.booked(kind, bytes, |queue, now| queue.metadata(now, bytes as u64));
        self.answer_at(done, Box::new(answer));
    }

    /// The same for file contents, which do not pass the metadata server.
    pub(super) fn contents(&self, bytes: usize, answer: impl FnOnce() + Send + 'static) {
        let done = self.booked("read", bytes, |queue, now| queue.transfer(now, bytes as u64));
        self.answer_at(done, Box::new(answer));
    }

    fn answer_at(&self, done: Instant, answer: Answer) {
        match &mut self.state().held {
            Some(held) => held.push(answer),
            None => self.timer.at(done, answer),
        }
    }

    /// Counts a request and asks the queue when it is done.
    fn booked(&self, kind: &str, bytes: usize, when: impl FnOnce(&mut Queue, Duration) -> Duration) -> Instant {
        let mut state = self.state();
        *state.traffic.requests.entry(kind.to_owned()).or_insert(0) += 1;
        state.traffic.sent_bytes += bytes as u64;
        self.epoch + when(&mut state.queue, self.epoch.elapsed())
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.parameters.client_ttl_ms.into())
    }
}
