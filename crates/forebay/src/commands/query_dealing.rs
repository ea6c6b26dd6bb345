//! Pieces of a query, dealt out to the nodes that hold a file and to this host.
//!
//! Whoever is free takes the next. Whoever fails once is asked no more: its pieces are made by others, in the end by this host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use anyhow::anyhow;
use forebay_daemon::query::Holder;
use forebay_query::limits::BLOCK_BYTES;
use forebay_query::{InOrder, Part, PartState, Parts};

/// Pieces that are asked of a node at once beyond those that it makes: the next is there when one is done.
const AHEAD: usize = 1;

/// Questions under way at once, over all nodes; nodes beyond are not asked.
pub const QUESTIONS_MAX: usize = 64;

/// Questions under way at once to one node.
const QUESTIONS_EACH_MAX: usize = 16;

/// What a query is cut into, and what is made of it so far.
pub trait Pieces {
    /// A piece.
    type Piece: Copy;
    /// What it comes to.
    type Made;

    /// The next that nobody makes and that `may` be taken, by its first block.
    fn take(&mut self, may: impl Fn(u64) -> bool) -> Option<Self::Piece>;

    /// Takes an answer; the bytes of the file that it is about.
    ///
    /// # Errors
    /// It is no answer to this piece.
    fn answered(&mut self, piece: Self::Piece, made: Self::Made) -> anyhow::Result<u64>;

    /// Whoever made it is lost.
    fn give_back(&mut self, piece: Self::Piece);

    /// Whether nothing is left to be made.
    fn is_done(&self) -> bool;
}

impl Pieces for Parts {
    type Piece = Part;
    type Made = PartState;

    fn take(&mut self, may: impl Fn(u64) -> bool) -> Option<Part> {
        self.take_if(may)
    }

    fn answered(&mut self, part: Part, made: PartState) -> anyhow::Result<u64> {
        Ok(Self::answered(self, part.index, made)?)
    }

    fn give_back(&mut self, part: Part) {
        Self::give_back(self, part.index);
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

    fn take(&mut self, may: impl Fn(u64) -> bool) -> Option<u64> {
        self.lines.take_if(may)
    }

    fn answered(&mut self, block: u64, made: Vec<u8>) -> anyhow::Result<u64> {
        self.lines.answered(block, made);
        Ok(BLOCK_BYTES.min(self.bytes - block * BLOCK_BYTES))
    }

    fn give_back(&mut self, block: u64) {
        self.lines.give_back(block);
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
            eprintln!("forebay: note: {lost}; other nodes computed its parts");
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
}

/// What all who make pieces share.
pub struct State<P> {
    /// The pieces.
    pub pieces: P,
    made: Made,
    /// Nodes that make no pieces: those of which they are the homes go to anybody.
    gone: BTreeSet<u32>,
}

impl<'a, P: Pieces + Send> Dealing<'a, P> {
    /// Of `pieces`, to be made by `holders` beside this host.
    pub fn new(pieces: P, holders: &[Holder], homes: &'a Homes, done_bytes: &'a AtomicU64) -> Self {
        let is_there = |rank: &u32| holders.iter().any(|holder| holder.rank == *rank);
        let gone = homes.0.iter().filter_map(|(_, home)| *home).filter(|rank| !is_there(rank)).collect();
        let state = Mutex::new(State { pieces, made: Made::default(), gone });
        Self { state, changed: Condvar::new(), homes, done_bytes }
    }

    /// Has all pieces made: by `ask` of the nodes, beside them by `here` on `host_threads`, and by it on `all_threads` where nobody
    /// else is left.
    ///
    /// # Errors
    /// This host cannot make one.
    pub fn run(
        &self,
        holders: &[Holder],
        (host_threads, all_threads): (usize, usize),
        ask: impl Fn(&Holder, P::Piece) -> anyhow::Result<P::Made> + Sync,
        here: impl Fn(P::Piece) -> anyhow::Result<P::Made> + Sync,
    ) -> anyhow::Result<()> {
        let on_host = |threads: usize| {
            thread::scope(|scope| joined((0..threads).map(|_| scope.spawn(|| self.make(None, &here))).collect()))
        };
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
            on_host(host_threads)
        })?;
        // What nobody else has made.
        on_host(all_threads)
    }

    /// What came of it all.
    pub fn finish(self) -> (P, Made) {
        let State { pieces, made, gone: _ } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (pieces, made)
    }

    /// Takes pieces and has them made by `make`, in the name of `who`, until there are none, who is gone, or one fails.
    fn make(&self, who: Option<u32>, make: impl Fn(P::Piece) -> anyhow::Result<P::Made>) -> anyhow::Result<()> {
        while let Some(piece) = self.take(who) {
            let made = make(piece);
            let mut state = self.lock();
            let outcome = made.and_then(|made| state.pieces.answered(piece, made));
            match outcome {
                Ok(bytes) => {
                    *state.made.bytes.entry(who).or_default() += bytes;
                    self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.changed.notify_all();
                }
                Err(error) => {
                    state.pieces.give_back(piece);
                    self.changed.notify_all();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The next piece; waits while others make the last ones, one of which may come back.
    fn take(&self, who: Option<u32>) -> Option<P::Piece> {
        let mut state = self.lock();
        loop {
            let State { pieces, gone, .. } = &mut *state;
            if pieces.is_done() || who.is_some_and(|who| gone.contains(&who)) {
                return None;
            }
            let may = |block| match (who, self.homes.of(block)) {
                (Some(who), Some(home)) => who == home || gone.contains(&home),
                _ => true,
            };
            if let Some(piece) = pieces.take(may) {
                return Some(piece);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
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
