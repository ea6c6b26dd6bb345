//! Pieces of a query, dealt out to the nodes that hold a file and to this host.
//!
//! Whoever is free takes the next. Whoever fails once is asked no more: its pieces are made by others, in the end by this host.
//! Nodes that are chosen and fall behind get the host's help (`forebay_query::Pace`). Where both make pieces and none is left,
//! whoever is free makes those that the other end has under way; the first answer counts, and the other is given up. A piece
//! that has a home is made by that node or by this host, by other nodes only when its home is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use forebay_daemon::query::Holder;
use forebay_query::limits::BLOCK_BYTES;
use forebay_query::{InOrder, Pace, Part, PartState, Parts, Side};
use serde_json::Value;

use crate::control;
use crate::output::without_controls;

/// Pieces that are asked of a node at once beyond those that it makes: the next is there when one is done.
const AHEAD: usize = 1;

/// How often it is looked at whether the nodes are behind.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Questions under way at once, over all nodes; nodes beyond are not asked.
pub const QUESTIONS_MAX: usize = 64;

/// Questions under way at once to one node.
const QUESTIONS_EACH_MAX: usize = 16;

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

/// What a query is cut into, and what is made of it so far.
pub trait Pieces {
    /// A piece.
    type Piece: Copy;
    /// What it comes to.
    type Made;

    /// The next that nobody makes and that `may` be taken, by its first block.
    fn take(&mut self, side: Side, may: impl Fn(u64) -> bool) -> Option<Self::Piece>;

    /// The first that only the other side makes and that `may` be taken; none where every piece is made once.
    fn take_again(&mut self, side: Side, may: impl Fn(u64) -> bool) -> Option<Self::Piece>;

    /// Takes an answer; the bytes of the file that it is about, 0 if there was one before.
    ///
    /// # Errors
    /// It is no answer to this piece.
    fn answered(&mut self, piece: Self::Piece, made: Self::Made) -> anyhow::Result<u64>;

    /// Whoever made it on this side is lost.
    fn give_back(&mut self, piece: Self::Piece, side: Side);

    /// Bytes of the pieces that somebody makes.
    fn under_way_bytes(&self) -> u64;

    /// Whether nothing is left to be made.
    fn is_done(&self) -> bool;
}

impl Pieces for Parts {
    type Piece = Part;
    type Made = PartState;

    fn take(&mut self, side: Side, may: impl Fn(u64) -> bool) -> Option<Part> {
        self.take_if(side, may)
    }

    fn take_again(&mut self, side: Side, may: impl Fn(u64) -> bool) -> Option<Part> {
        Self::take_again(self, side, may)
    }

    fn answered(&mut self, part: Part, made: PartState) -> anyhow::Result<u64> {
        Ok(Self::answered(self, part.index, made)?)
    }

    fn give_back(&mut self, part: Part, side: Side) {
        Self::give_back(self, part.index, side);
    }

    fn under_way_bytes(&self) -> u64 {
        Self::under_way_bytes(self)
    }

    fn is_done(&self) -> bool {
        Self::is_done(self)
    }
}

/// The lines of a column, by block.
pub struct ColumnPieces {
    /// They.
    pub lines: InOrder<Vec<u8>>,
    /// Of the file.
    pub bytes: u64,
    /// Nobody takes what is made any more.
    pub is_given_up: bool,
}

impl Pieces for ColumnPieces {
    type Piece = u64;
    type Made = Vec<u8>;

    fn take(&mut self, _: Side, may: impl Fn(u64) -> bool) -> Option<u64> {
        self.lines.take_if(may)
    }

    fn take_again(&mut self, _: Side, _: impl Fn(u64) -> bool) -> Option<u64> {
        None
    }

    fn answered(&mut self, block: u64, made: Vec<u8>) -> anyhow::Result<u64> {
        self.lines.answered(block, made);
        Ok(BLOCK_BYTES.min(self.bytes - block * BLOCK_BYTES))
    }

    fn give_back(&mut self, block: u64, _: Side) {
        self.lines.give_back(block);
    }

    fn under_way_bytes(&self) -> u64 {
        self.lines.under_way() * BLOCK_BYTES
    }

    fn is_done(&self) -> bool {
        self.is_given_up || self.lines.is_made()
    }
}

/// What became of a query over several nodes.
#[derive(Default)]
pub struct Made {
    /// Bytes of the pieces that each node made; None is this host.
    pub bytes: BTreeMap<Option<u32>, u64>,
    /// Nodes that were lost, and why.
    pub lost: Vec<String>,
}

impl Made {
    /// Says which nodes were lost.
    pub fn note_lost(&self) {
        for lost in &self.lost {
            eprintln!("forebay: note: {}; other nodes computed its parts", without_controls(lost));
        }
    }
}

/// Which node is to make which piece, if not whoever is free: that whose log has most of it.
#[derive(Clone, Default)]
pub struct Homes(pub Vec<(u64, Option<u32>)>);

impl Homes {
    fn of(&self, block: u64) -> Option<u32> {
        let run = self.0.partition_point(|(first, _)| *first <= block).checked_sub(1)?;
        self.0[run].1
    }

    /// Whether each piece is to have a home.
    pub fn are_known(&self) -> bool {
        !self.0.is_empty()
    }
}

/// Pieces while they are made.
pub struct Dealing<'a, P> {
    state: Mutex<State<P>>,
    changed: Condvar,
    homes: &'a Homes,
    done_bytes: &'a AtomicU64,
    /// Nothing is left: what is still under way is wanted by nobody.
    is_over: AtomicBool,
    began: Instant,
}

/// What all who make pieces share.
pub struct State<P> {
    /// The pieces.
    pub pieces: P,
    made: Made,
    /// Bytes of those that are made.
    bytes: u64,
    /// The host makes pieces too.
    is_shared: bool,
    /// Of questions that are not answered, by their numbers.
    connections: BTreeMap<u64, UnixStream>,
    questions: u64,
    /// Nodes that make no pieces: those of which they are the homes go to anybody.
    gone: BTreeSet<u32>,
}

impl<'a, P: Pieces + Send> Dealing<'a, P> {
    /// Of `pieces`, to be made by `holders` beside this host.
    pub fn new(pieces: P, holders: &[Holder], homes: &'a Homes, done_bytes: &'a AtomicU64) -> Self {
        let is_there = |rank: &u32| holders.iter().any(|holder| holder.rank == *rank);
        let gone = homes.0.iter().filter_map(|(_, home)| *home).filter(|rank| !is_there(rank)).collect();
        let (made, connections) = (Made::default(), BTreeMap::new());
        let state = State { pieces, made, bytes: 0, is_shared: false, connections, questions: 0, gone };
        let (is_over, began) = (AtomicBool::new(false), Instant::now());
        Self { state: Mutex::new(state), changed: Condvar::new(), homes, done_bytes, is_over, began }
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
            for turn in 0..QUESTIONS_EACH_MAX.min(QUESTIONS_MAX / holders.len().max(1)).max(1) {
                // Each has one before any has two.
                for holder in holders.iter().filter(|holder| turn < holder.threads + AHEAD) {
                    let ask = &ask;
                    scope.spawn(move || {
                        if let Err(error) = self.make(Some(holder.rank), |piece| ask(holder, piece)) {
                            self.lose(holder, &error);
                        }
                    });
                }
            }
            match host_part {
                HostPart::Half => on_host(),
                HostPart::Help(pace) if self.wait_until_behind(pace, holders) => on_host(),
                HostPart::Help(_) | HostPart::Rest => Ok(()),
            }
        })?;
        // What nobody else has made.
        on_host()
    }

    /// What came of it all.
    pub fn finish(self) -> (P, Made) {
        let State { pieces, made, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (pieces, made)
    }

    /// Takes pieces and has them made by `make`, in the name of `who`, until there are none, who is gone, or one fails.
    fn make(&self, who: Option<u32>, make: impl Fn(P::Piece) -> anyhow::Result<P::Made>) -> anyhow::Result<()> {
        let side = if who.is_some() { Side::Nodes } else { Side::Host };
        while let Some(piece) = self.take(who, side) {
            let made = make(piece);
            let mut state = self.lock();
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let outcome = made.and_then(|made| state.pieces.answered(piece, made));
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
                    state.pieces.give_back(piece, side);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives up what nobody waits for any more.
    fn end_if_done(&self, state: &State<P>) {
        if state.pieces.is_done() {
            self.is_over.store(true, Ordering::Relaxed);
            for connection in state.connections.values() {
                // One that is closed already needs no shutting down.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }

    /// The next piece; waits while others make the last ones, one of which may come back.
    fn take(&self, who: Option<u32>, side: Side) -> Option<P::Piece> {
        let mut state = self.lock();
        loop {
            let State { pieces, gone, is_shared, .. } = &mut *state;
            if pieces.is_done() || who.is_some_and(|who| gone.contains(&who)) {
                return None;
            }
            let may = |block| match (who, self.homes.of(block)) {
                (Some(who), Some(home)) => who == home || gone.contains(&home),
                _ => true,
            };
            let again = |pieces: &mut P| if *is_shared { pieces.take_again(side, may) } else { None };
            if let Some(piece) = pieces.take(side, may).or_else(|| again(pieces)) {
                return Some(piece);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the nodes are behind, and has the host share the work from then on; false if they are done before, or
    /// all lost.
    fn wait_until_behind(&self, pace: Pace, holders: &[Holder]) -> bool {
        let mut state = self.lock();
        loop {
            if state.pieces.is_done() || holders.iter().all(|holder| state.gone.contains(&holder.rank)) {
                return false;
            }
            if pace.needs_help(self.began.elapsed().as_secs_f64(), state.bytes, state.pieces.under_way_bytes()) {
                state.is_shared = true;
                self.changed.notify_all();
                return true;
            }
            state = self.changed.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks the daemon behind `socket` for a piece; given up when nobody waits for one any more.
    ///
    /// # Errors
    /// Those of `control::ask`.
    pub fn ask_over(&self, socket: &Path, question: &Value, timeout: Duration) -> anyhow::Result<Value> {
        let stream = control::connected(socket)?;
        let number = self.opened(stream.try_clone().context("a connection cannot be kept")?);
        let said = control::ask_over(&stream, socket, question, timeout);
        self.lock().connections.remove(&number);
        said
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

    fn lose(&self, holder: &Holder, error: &anyhow::Error) {
        let mut state = self.lock();
        if state.gone.insert(holder.rank) {
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
