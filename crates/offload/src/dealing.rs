//! Pieces of a query, dealt out to the nodes that hold a file and to this host.
//!
//! A free maker takes the next piece. A node that fails once is asked no more: other nodes make its pieces, and this host those
//! that no other node can make. Nodes that are chosen and fall behind get the host's help (`forebay_query::Pace`). Where both make
//! pieces and none is left, a free maker makes those that the other end has under way; the first answer counts, and the other is
//! given up.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use forebay_query::Pace;
use serde_json::Value;

use crate::messages::Holder;
use crate::pieces::{Nodes, Pieces};

/// Pieces that are requested of a node beyond those that it makes at once: the next is there when one is done.
const AHEAD: usize = 1;

/// How often it is looked at whether the nodes are behind.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Nodes that make pieces of what all of them can make: each has some requests under way.
pub const NODES_MAX: usize = 64;

/// Requests under way at once, over all nodes: 16 nodes with all their threads. The host has a thread and two descriptors for each,
/// of the thousand that a process usually may have.
pub const REQUESTS_MAX: usize = 256;

/// Requests under way at once to one node: as many as it makes, and some ahead.
const REQUESTS_EACH_MAX: usize = forebay_types::threads::QUERY_PARTS_MAX + AHEAD;

/// The share of the host beside the nodes.
#[derive(Clone, Copy)]
pub enum HostPart {
    /// Pieces that no node can make.
    Rest,
    /// These, and as much as it can once the nodes are behind.
    Help(Pace),
    /// As much as it can.
    Half,
}

/// The outcome of a query over several nodes.
#[derive(Default)]
pub struct Made {
    /// Bytes of the pieces that each node made; None is this host.
    pub bytes: BTreeMap<Option<u32>, u64>,
    /// Nodes that were lost, and why.
    pub lost: Vec<String>,
}

/// Pieces while they are made.
pub struct Dealing<'a, P> {
    state: Mutex<State<P>>,
    changed: Condvar,
    done_bytes: &'a AtomicU64,
    /// No piece is left: requests that are still under way are not wanted.
    is_over: AtomicBool,
    began: Instant,
}

/// A thread that has a node make pieces.
struct Serving<'d, 'a, P: Pieces + Send>(&'d Dealing<'a, P>);

impl<P: Pieces + Send> Drop for Serving<'_, '_, P> {
    fn drop(&mut self) {
        self.0.lock().serving -= 1;
        self.0.changed.notify_all();
    }
}

/// The state that all makers share.
struct State<P> {
    pieces: P,
    made: Made,
    /// Bytes of those that are made.
    bytes: u64,
    /// The host makes pieces too.
    is_shared: bool,
    /// Of requests that are not answered, by their numbers.
    connections: BTreeMap<u64, UnixStream>,
    requests: u64,
    nodes: Nodes,
    /// Threads that have nodes make pieces.
    serving: usize,
}

impl<'a, P: Pieces + Send> Dealing<'a, P> {
    /// Of `pieces`, to be made by `holders` beside this host.
    pub fn new(pieces: P, holders: &[Holder], done_bytes: &'a AtomicU64) -> Self {
        let nodes = holders.iter().map(|holder| holder.rank).collect();
        let (made, connections) = (Made::default(), BTreeMap::new());
        let state = State { pieces, made, bytes: 0, is_shared: false, connections, requests: 0, nodes, serving: 0 };
        let (is_over, began) = (AtomicBool::new(false), Instant::now());
        Self { state: Mutex::new(state), changed: Condvar::new(), done_bytes, is_over, began }
    }

    /// Whether nothing is left, so that whoever still makes a piece may give it up.
    pub fn is_over(&self) -> &AtomicBool {
        &self.is_over
    }

    /// Has all pieces made: by `ask` of the nodes, beside them by `here` on so many threads of this host as `host_part` says,
    /// and by it where nobody else is left.
    ///
    /// # Errors
    /// This host cannot make one.
    pub fn run(
        &self,
        holders: &[Holder],
        host_part: HostPart,
        threads: usize,
        ask: impl Fn(&Holder, P::Piece) -> anyhow::Result<P::Made> + Sync,
        here: impl Fn(P::Piece) -> anyhow::Result<P::Made> + Sync,
    ) -> anyhow::Result<()> {
        let on_host =
            || thread::scope(|scope| joined((0..threads).map(|_| scope.spawn(|| self.make(None, &here))).collect()));
        self.lock().is_shared = matches!(host_part, HostPart::Half);
        thread::scope(|scope| {
            for turn in 0..REQUESTS_EACH_MAX.min(REQUESTS_MAX / holders.len().max(1)).max(1) {
                // Each has one before any has two.
                for holder in holders.iter().filter(|holder| turn < P::at_once(holder) + AHEAD) {
                    let (ask, serving) = (&ask, self.serving());
                    let serve = move || {
                        let _serving = serving;
                        if let Err(error) = self.make(Some(holder.rank), |piece| ask(holder, piece)) {
                            self.lose(holder, &error);
                        }
                    };
                    let started = thread::Builder::new().spawn_scoped(scope, serve);
                    // Of a node that has a thread already, the others are only faster.
                    if let Some(error) = started.err().filter(|_| turn == 0) {
                        self.lose(holder, &anyhow!(error).context("this host has no thread for it"));
                    }
                }
            }
            if let HostPart::Help(pace) = host_part {
                let helping = scope.spawn(on_host);
                self.share_when_behind(pace);
                return joined(vec![helping]);
            }
            on_host()
        })?;
        // The pieces that no node has made.
        self.lock().is_shared = true;
        on_host()
    }

    /// One more thread has a node make pieces, until this is dropped.
    fn serving(&self) -> Serving<'_, 'a, P> {
        self.lock().serving += 1;
        Serving(self)
    }

    /// The pieces and the outcome.
    pub fn finish(self) -> (P, Made) {
        let State { pieces, made, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (pieces, made)
    }

    /// Takes pieces and has them made by `make`, in the name of `who`, until there are none, who is gone, or one fails.
    fn make(&self, who: Option<u32>, make: impl Fn(P::Piece) -> anyhow::Result<P::Made>) -> anyhow::Result<()> {
        while let Some(piece) = self.take(who) {
            let made = make(piece);
            let mut state = self.lock();
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let outcome = made.and_then(|made| state.pieces.answered(who, piece, made));
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
                    match who {
                        Some(_) => state.pieces.give_back(who, piece),
                        // Rows of it may have been taken already: another thread of this host would take them again.
                        None => self.end(&state),
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives up what nobody waits for any more.
    fn end_if_done(&self, state: &State<P>) {
        if state.pieces.is_done() {
            self.end(state);
        }
    }

    /// No more pieces are made, and those under way are given up.
    fn end(&self, state: &State<P>) {
        self.is_over.store(true, Ordering::Relaxed);
        for connection in state.connections.values() {
            // One that is closed already needs no shutting down.
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// The next piece; waits while others make the last ones, one of which may come back.
    fn take(&self, who: Option<u32>) -> Option<P::Piece> {
        let mut state = self.lock();
        loop {
            let State { pieces, nodes, is_shared, serving, .. } = &mut *state;
            let has_ended = |rank| !nodes.contains(&rank) || pieces.is_done_for(rank);
            if self.is_over.load(Ordering::Relaxed) || pieces.is_done() || who.is_some_and(has_ended) {
                return None;
            }
            let piece = match (who, *is_shared) {
                (None, false) => pieces.take_rest(nodes),
                (_, false) => pieces.take(who, nodes),
                (_, true) => pieces.take(who, nodes).or_else(|| pieces.take_again(who, nodes)),
            };
            // The pieces that are left when no node makes any more are dealt then.
            if piece.is_some() || (who.is_none() && !*is_shared && *serving == 0) {
                return piece;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the nodes are behind, and has the host share the work from then on; or until they are done, or all lost.
    fn share_when_behind(&self, pace: Pace) {
        let mut state = self.lock();
        loop {
            if state.pieces.is_done() || state.nodes.is_empty() || state.serving == 0 {
                return;
            }
            if pace.needs_help(self.began.elapsed().as_secs_f64(), state.bytes, state.pieces.under_way_bytes()) {
                state.is_shared = true;
                self.changed.notify_all();
                return;
            }
            state = self.changed.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks the daemon behind `socket` for a piece; given up when nobody waits for one any more.
    ///
    /// # Errors
    /// Those of `forebay_control::ask`.
    pub fn ask_over(&self, socket: &Path, request: &Value, timeout: Duration) -> anyhow::Result<Value> {
        let stream = forebay_control::connected(socket)?;
        let number = self.opened(stream.try_clone().context("a connection cannot be kept")?);
        let said = forebay_control::ask_over(&stream, socket, request, timeout);
        self.lock().connections.remove(&number);
        said
    }

    /// A request is under way over this connection: its number.
    fn opened(&self, connection: UnixStream) -> u64 {
        let mut state = self.lock();
        state.requests += 1;
        let number = state.requests;
        state.connections.insert(number, connection);
        self.end_if_done(&state);
        number
    }

    fn lose(&self, holder: &Holder, error: &anyhow::Error) {
        let mut state = self.lock();
        if state.nodes.remove(&holder.rank) {
            state.made.lost.push(format!("node {} on {}: {error:#}", holder.rank, holder.host));
        }
        self.changed.notify_all();
    }

    /// Waits until `look` finds something in the state, which it may change; all who wait look again then.
    pub fn wait<T>(&self, mut look: impl FnMut(&mut P) -> Option<T>) -> T {
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state.pieces) {
                self.changed.notify_all();
                self.end_if_done(&state);
                return found;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first failure of some threads.
fn joined(threads: Vec<ScopedJoinHandle<'_, anyhow::Result<()>>>) -> anyhow::Result<()> {
    let ends = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the query panicked"))));
    ends.fold(Ok(()), anyhow::Result::and)
}
