//! Reads blocks of a file, by several threads, each block once.
//!
//! Whether a block begins within quotes follows from the quotes of all blocks before it. A thread counts those of its own
//! block as soon as it has read it, tells the others, and waits for the blocks before; those are under way already, since
//! blocks are taken in order. A thread counts before it waits, so none waits for ever.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use forebay_query::limits::{BLOCK_BYTES, RECORD_BYTES_MAX};
use forebay_query::{Block, DOUBLE_BYTES, Quotes, RowEnds, Schema};

use crate::contents::Contents;

/// Bytes that are read at once behind a block, to the end of its last row.
pub(super) const TAIL_BYTES: usize = 64 << 10;

/// Bytes of a block that are read at once: a pass that is given up waits for no more, however slowly they come.
const PIECE_BYTES: usize = 512 << 10;

/// Which blocks are read, and how.
#[derive(Clone, Copy)]
pub struct BlockOptions<'a> {
    /// The first.
    pub first: u64,
    /// Behind the last.
    pub end: u64,
    /// Whether the first begins within quotes.
    pub begins_quoted: bool,
    /// Threads; each holds a block.
    pub threads: usize,
    /// The rows that are wanted of each block.
    pub rows: RowsOf,
    /// Results are delivered in the order of the blocks.
    pub in_order: bool,
    /// Counts bytes that are done.
    pub done_bytes: &'a AtomicU64,
    /// The result is not wanted any more.
    pub is_given_up: &'a AtomicBool,
}

/// The rows of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RowsOf {
    /// None: its bytes are wanted alone.
    Bytes,
    /// Lines: whether it begins within quotes, and its last line as a whole.
    Text(RowEnds),
    /// Rows of so many bytes, the last one as a whole.
    Fixed(u64),
}

impl RowsOf {
    /// Those of a table, if there is one.
    pub fn of(table: Option<&Schema>) -> Self {
        match table {
            None => Self::Bytes,
            Some(schema) if schema.is_of_doubles() => Self::Fixed((schema.numeric.len().max(1) * DOUBLE_BYTES) as u64),
            Some(schema) => Self::Text(schema.dialect.row_ends()),
        }
    }
}

impl BlockOptions<'_> {
    /// Fails if the pass is given up.
    pub(super) fn ensure_wanted(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.is_given_up.load(Ordering::Relaxed), "it was cancelled");
        Ok(())
    }
}

/// Does `work` for each block, by a worker that `begin` makes for each thread, and delivers what comes of it, one at a time.
/// Says which quotes there were, if rows are wanted.
pub fn each_block<W, T>(
    source: &(impl Contents + ?Sized),
    options: BlockOptions<'_>,
    begin: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, Block<'_>) -> T + Sync,
    deliver: impl FnMut(u64, T) -> anyhow::Result<()> + Send,
) -> anyhow::Result<Quotes> {
    let blocks = options.end - options.first;
    let turns = Turns::new(options.begins_quoted);
    let deliver = Mutex::new(deliver);
    let threads = options.threads.clamp(1, blocks.max(1) as usize);
    in_threads(threads, &turns, || {
        let mut worker = begin();
        let mut buffer = Vec::new();
        while let Some(index) = turns.take(blocks) {
            options.ensure_wanted()?;
            let Some((block, result)) =
                one_block(source, options, &turns, index, &mut buffer, |block| work(&mut worker, block))?
            else {
                return Ok(());
            };
            if options.in_order && !turns.wait_for(index) {
                return Ok(());
            }
            (deliver.lock().unwrap_or_else(PoisonError::into_inner))(options.first + index, result)?;
            turns.delivered();
            options.done_bytes.fetch_add(block, Ordering::Relaxed);
        }
        Ok(())
    })?;
    source.check()?;
    Ok(turns.quotes())
}

/// The same work by so many threads; the first error of any, of which the others hear.
pub(super) fn in_threads(
    threads: usize,
    turns: &Turns,
    work: impl Fn() -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let whole_thread = || {
        let ended = work();
        if ended.is_err() {
            turns.change(|state| state.has_failed = true);
        }
        ended
    };
    thread::scope(|scope| {
        // Where there are no more threads, fewer read.
        let begin = |_| thread::Builder::new().spawn_scoped(scope, whole_thread).ok();
        let others: Vec<_> = (1..threads).map_while(begin).collect();
        let own = whole_thread();
        let ended = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the query panicked"))));
        ended.fold(own, |first, next| first.and(next))
    })
}

/// Reads the block that is `index` blocks behind the first, and works on it: its length and what came of it. None if another thread has failed meanwhile.
fn one_block<T>(
    source: &(impl Contents + ?Sized),
    options: BlockOptions<'_>,
    turns: &Turns,
    index: u64,
    buffer: &mut Vec<u8>,
    work: impl FnOnce(Block<'_>) -> T,
) -> anyhow::Result<Option<(u64, T)>> {
    let offset = (options.first + index) * BLOCK_BYTES;
    let len = (source.bytes() - offset).min(BLOCK_BYTES) as usize;
    // The byte before says whether a row begins with the block.
    let lead = usize::from(offset > 0 && !matches!(options.rows, RowsOf::Fixed(_)));
    let behind = match options.rows {
        RowsOf::Fixed(row) => behind(row, offset + len as u64).min(source.bytes() - offset - len as u64),
        RowsOf::Bytes | RowsOf::Text(_) => 0,
    };
    buffer.resize(lead + len + behind as usize, 0);
    let mut at = offset - lead as u64;
    let piece_bytes = match options.rows {
        // Each piece might unpack the same chunk again.
        RowsOf::Fixed(_) => buffer.len().max(1),
        RowsOf::Bytes | RowsOf::Text(_) => PIECE_BYTES,
    };
    for piece in buffer.chunks_mut(piece_bytes) {
        options.ensure_wanted()?;
        source.read(piece, at)?;
        at += piece.len() as u64;
    }
    let mut is_quoted = false;
    let mut is_end = offset + len as u64 + behind == source.bytes();
    if let RowsOf::Text(ends) = options.rows {
        let quotes = ends.quotes(&buffer[lead..]);
        let turns_here = quotes.turn();
        turns.change(|state| state.counted(index, quotes));
        if !turns.wait(|state| state.begins_quoted.len() as u64 > index) {
            return Ok(None);
        }
        is_quoted = turns.begins_quoted(index);
        let begins_row = lead == 0 || (!is_quoted && buffer[0] == b'\n');
        // Within a long row there is nothing to complete.
        if begins_row || ends.end(&buffer[lead..], is_quoted).is_some() {
            is_end = read_tail(source, buffer, offset + len as u64, is_quoted != turns_here, ends)?;
        }
    }
    let follows_newline = lead == 0 || buffer[0] == b'\n';
    let block = Block { bytes: &buffer[lead..], len, offset, is_quoted, follows_newline, is_end };
    Ok(Some((len as u64, work(block))))
}

/// Bytes from a place on to the end of the row that is open there.
fn behind(row: u64, at: u64) -> u64 {
    (row - at % row) % row
}

/// Appends what stands from `at` on, to the end of the row that is open there. Whether that is the end of the file.
fn read_tail(
    source: &(impl Contents + ?Sized),
    buffer: &mut Vec<u8>,
    mut at: u64,
    mut is_quoted: bool,
    ends: RowEnds,
) -> anyhow::Result<bool> {
    let longest = at + RECORD_BYTES_MAX + 1;
    let is_closed = !is_quoted && buffer.last() == Some(&b'\n');
    while !is_closed && at < source.bytes().min(longest) {
        let len = (source.bytes() - at).min(TAIL_BYTES as u64) as usize;
        let from = buffer.len();
        buffer.resize(from + len, 0);
        source.read(&mut buffer[from..], at)?;
        if let Some(end) = ends.end(&buffer[from..], is_quoted) {
            buffer.truncate(from + end);
            return Ok(at + end as u64 == source.bytes());
        }
        is_quoted ^= ends.turns_quoting(&buffer[from..]);
        at += len as u64;
    }
    Ok(at == source.bytes())
}

/// The blocks that threads have, and the quotes of those that were read.
pub(super) struct Turns {
    state: Mutex<TurnsState>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnsState {
    next: u64,
    /// Of the blocks and what stands behind the last, one after the other.
    begins_quoted: Vec<bool>,
    /// Blocks whose quotes were counted before those of a block before them.
    counted: BTreeMap<u64, bool>,
    has_quotes: bool,
    delivered: u64,
    has_failed: bool,
}

impl TurnsState {
    fn counted(&mut self, index: u64, quotes: Quotes) {
        self.has_quotes |= quotes != Quotes::None;
        self.counted.insert(index, quotes.turn());
        while let (Some(last), Some(turns)) =
            (self.begins_quoted.last().copied(), self.counted.remove(&(self.begins_quoted.len() as u64 - 1)))
        {
            self.begins_quoted.push(last != turns);
        }
    }
}

impl Turns {
    /// Of blocks of which the first begins so.
    pub(super) fn new(begins_quoted: bool) -> Self {
        let state = TurnsState { begins_quoted: vec![begins_quoted], ..TurnsState::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Those of all blocks.
    fn quotes(&self) -> Quotes {
        let state = self.lock();
        match (state.has_quotes, state.begins_quoted.first() == state.begins_quoted.last()) {
            (false, _) => Quotes::None,
            (true, true) => Quotes::Even,
            (true, false) => Quotes::Odd,
        }
    }

    /// The next block that nobody has.
    fn take(&self, blocks: u64) -> Option<u64> {
        let mut state = self.lock();
        let index = state.next;
        state.next += 1;
        (index < blocks && !state.has_failed).then_some(index)
    }

    /// Waits until all blocks before it are delivered; false if a thread has failed.
    pub(super) fn wait_for(&self, index: u64) -> bool {
        self.wait(|state| state.delivered == index)
    }

    /// One more block is.
    pub(super) fn delivered(&self) {
        self.change(|state| state.delivered += 1);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().has_failed
    }

    fn begins_quoted(&self, index: u64) -> bool {
        self.lock().begins_quoted[index as usize]
    }

    fn change(&self, change: impl FnOnce(&mut TurnsState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until it holds; false if a thread has failed.
    fn wait(&self, holds: impl Fn(&TurnsState) -> bool) -> bool {
        let waits = |state: &mut TurnsState| !state.has_failed && !holds(state);
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        !state.has_failed
    }

    fn lock(&self) -> MutexGuard<'_, TurnsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
