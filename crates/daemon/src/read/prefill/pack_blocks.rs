//! Reading the pack, which may lie on a file system that is slow or hangs.
//!
//! Threads of its own read it, so that it holds up nothing else. Where a read takes too long, all who wait for the pack
//! go without it. It is left alone for a while: its contents are read from their own files. Blocks that are waited for
//! are read first. The rest of the time goes to blocks of the parcels that this node makes, as many as there is room
//! for until they are asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_body::LiveBytes;
use forebay_types::threads::PACK_READERS;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// How much of a pack is read before it is asked for, bytes: what one node holds of it for a moment.
const PACK_AHEAD_BYTES: u64 = 256 << 20;

/// How long one read may take, and a program's read may wait: a busy home directory gives a block in a tenth of that.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a pack that did not answer is left alone: most start-ups are over by then.
const PAUSE: Duration = Duration::from_secs(60);

/// How long what was read ahead is kept while nobody takes any of it: then nobody makes parcels any more.
const UNTAKEN_MAX: Duration = Duration::from_secs(30);

/// Reads a block; `None` for one that cannot be used. May block.
type Read = Box<dyn Fn(usize) -> Option<Bytes> + Send + Sync>;

/// Tasks that wait for a block. Dropped, they go without it.
type Waiters = Vec<oneshot::Sender<Option<Bytes>>>;

/// The blocks of a pack. Cloning shares them.
#[derive(Clone)]
pub struct PackBlocks(Arc<Shared>);

struct Shared {
    read: Read,
    /// How much of what is read ahead may be here at a time, bytes.
    room_bytes: u64,
    state: Mutex<State>,
    came: Notify,
}

#[derive(Default)]
struct State {
    asked: VecDeque<(usize, Waiters)>,
    reading: HashMap<usize, Reading>,
    is_begun: bool,
    ahead: VecDeque<usize>,
    here: HashMap<usize, (Bytes, LiveBytes)>,
    here_bytes: u64,
    /// When something of it came or was taken the last time.
    moved: Option<Instant>,
    threads: usize,
    left_alone_until: Option<Instant>,
}

/// A block that a thread reads.
struct Reading {
    since: Instant,
    waiters: Waiters,
    is_ahead: bool,
}

impl PackBlocks {
    /// Those that `read` reads.
    pub fn new(room_bytes: u64, read: impl Fn(usize) -> Option<Bytes> + Send + Sync + 'static) -> Self {
        let room_bytes = room_bytes.min(PACK_AHEAD_BYTES);
        Self(Arc::new(Shared { read: Box::new(read), room_bytes, state: Mutex::default(), came: Notify::new() }))
    }

    /// Begins to read ahead what `blocks` says, unless that has been done.
    pub fn begin(&self, blocks: impl FnOnce() -> Vec<usize>) {
        if std::mem::replace(&mut self.lock().is_begun, true) {
            return;
        }
        let blocks = blocks();
        let mut state = self.lock();
        (state.ahead, state.moved) = (blocks.into(), Some(Instant::now()));
        self.call_threads(&mut state);
    }

    /// A block for a parcel, which may wait for others; `None` if it is not to be had.
    pub async fn for_parcel(&self, block: usize) -> Option<Bytes> {
        let mut coming = self.ask(block);
        loop {
            match timeout(PATIENCE, &mut coming).await {
                Ok(came) => return came.ok().flatten(),
                Err(_) if self.is_left_alone() => return None,
                Err(_) => {}
            }
        }
    }

    /// A block for a program that waits for it; `None` if it is not to be had soon.
    pub async fn for_program(&self, block: usize) -> Option<Bytes> {
        let came = timeout(PATIENCE, self.ask(block)).await;
        if came.is_err() {
            // The others who wait go without it too if it hangs.
            self.is_left_alone();
        }
        came.ok()?.ok().flatten()
    }

    /// Whether it is of no use to ask now.
    pub fn is_left_alone(&self) -> bool {
        self.lock().is_left_alone()
    }

    /// Waits until nothing is read ahead.
    pub async fn wait_for_all(&self) {
        loop {
            let came = self.0.came.notified();
            {
                let mut state = self.lock();
                let is_read = !state.reading.values().any(|reading| reading.is_ahead) && !self.has_ahead(&state);
                if state.is_left_alone() || is_read {
                    return;
                }
            }
            // A read that takes too long notifies nobody.
            let _ = timeout(PATIENCE, came).await;
        }
    }

    /// Bytes that are here before they are asked for.
    pub fn ahead_bytes(&self) -> u64 {
        self.lock().here_bytes
    }

    /// Lets go of what was read ahead, if nobody will take it, or nobody has for long.
    pub fn drop_untaken(&self, is_wanted: bool) {
        let mut state = self.lock();
        if !is_wanted || state.moved.is_some_and(|moved| moved.elapsed() > UNTAKEN_MAX) {
            state.forget_ahead();
            drop(state);
            self.0.came.notify_waiters();
        }
    }

    fn ask(&self, block: usize) -> oneshot::Receiver<Option<Bytes>> {
        let (waiter, coming) = oneshot::channel();
        let mut state = self.lock();
        if let Some(bytes) = state.take(block) {
            let _ = waiter.send(Some(bytes));
        } else if !state.is_left_alone() {
            state.wait(block, waiter);
        }
        self.call_threads(&mut state);
        coming
    }

    /// Whether something is to be read ahead, and has room.
    fn has_ahead(&self, state: &State) -> bool {
        let coming_bytes =
            (state.reading.len() + 1) as u64 * forebay_profile::limits::PACK_BLOCK_COMPRESSED_BYTES_MAX as u64;
        !state.ahead.is_empty() && state.here_bytes + coming_bytes <= self.0.room_bytes
    }

    /// Starts threads as long as there are fewer than there is to read.
    fn call_threads(&self, state: &mut State) {
        let ahead = if self.has_ahead(state) { state.ahead.len() } else { 0 };
        let wanted = state.reading.len() + state.asked.len() + ahead;
        while state.threads < wanted.min(PACK_READERS) {
            let blocks = self.clone();
            match std::thread::Builder::new().name("pack".to_owned()).spawn(move || blocks.work()) {
                Ok(_) => state.threads += 1,
                Err(error) => {
                    tracing::warn!(%error, "the pack is not read: no thread for it");
                    return state.asked.clear();
                }
            }
        }
    }

    /// The life of a thread: as long as there is something to read.
    fn work(&self) {
        while let Some(block) = self.next() {
            let bytes = (self.0.read)(block);
            self.came(block, bytes);
        }
    }

    fn next(&self) -> Option<usize> {
        let mut state = self.lock();
        let asked = state.asked.pop_front();
        let is_ahead = asked.is_none() && self.has_ahead(&state);
        let ahead = if is_ahead { state.ahead.pop_front().map(|block| (block, Waiters::new())) } else { None };
        let Some((block, waiters)) = asked.or(ahead) else {
            state.threads -= 1;
            return None;
        };
        state.reading.insert(block, Reading { since: Instant::now(), waiters, is_ahead });
        Some(block)
    }

    fn came(&self, block: usize, bytes: Option<Bytes>) {
        let mut state = self.lock();
        if let Some(Reading { waiters, is_ahead, .. }) = state.reading.remove(&block) {
            if is_ahead && waiters.is_empty() {
                state.keep(block, bytes);
            } else {
                // A waiter may have given up.
                waiters.into_iter().for_each(|waiter| drop(waiter.send(bytes.clone())));
            }
        }
        drop(state);
        self.0.came.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, block: usize) -> Option<Bytes> {
        let (bytes, _live) = self.here.remove(&block)?;
        self.here_bytes -= bytes.len() as u64;
        self.moved = Some(Instant::now());
        Some(bytes)
    }

    fn keep(&mut self, block: usize, bytes: Option<Bytes>) {
        if let Some(bytes) = bytes {
            self.here_bytes += bytes.len() as u64;
            let live = LiveBytes::new(bytes.len());
            self.here.insert(block, (bytes, live));
            self.moved = Some(Instant::now());
        }
    }

    /// One read serves all who wait for a block.
    fn wait(&mut self, block: usize, waiter: oneshot::Sender<Option<Bytes>>) {
        if let Some(reading) = self.reading.get_mut(&block) {
            reading.waiters.push(waiter);
        } else if let Some((_, waiters)) = self.asked.iter_mut().find(|(asked, _)| *asked == block) {
            waiters.push(waiter);
        } else {
            self.ahead.retain(|ahead| *ahead != block);
            self.asked.push_back((block, vec![waiter]));
        }
    }

    /// Whether the pack hangs, or has a short while ago. All who wait go without it when that is found out.
    fn is_left_alone(&mut self) -> bool {
        let now = Instant::now();
        if self.reading.values().any(|reading| now.duration_since(reading.since) >= PATIENCE) {
            if self.left_alone_until.is_none_or(|until| until <= now) {
                tracing::warn!("the pack does not answer within {PATIENCE:?}; for {PAUSE:?} files are read instead");
            }
            self.left_alone_until = Some(now + PAUSE);
            self.asked.clear();
            self.reading.values_mut().for_each(|reading| reading.waiters.clear());
            self.forget_ahead();
        }
        self.left_alone_until.is_some_and(|until| now < until)
    }

    fn forget_ahead(&mut self) {
        self.ahead.clear();
        self.here.clear();
        self.here_bytes = 0;
        self.reading.values_mut().for_each(|reading| reading.is_ahead = false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Blocks of a MiB, of which those from `hanging` on come when they are let go.
    fn blocks(room_bytes: u64, hanging: usize) -> (PackBlocks, Sender<()>) {
        let (go, may_go) = channel::<()>();
        let may_go = Mutex::new(may_go);
        let read = move |block: usize| {
            if block >= hanging {
                may_go.lock().unwrap().recv().unwrap();
            }
            (block != 1).then(|| Bytes::from(vec![block as u8; 1 << 20]))
        };
        (PackBlocks::new(room_bytes, read), go)
    }

    fn first(bytes: Option<Bytes>) -> Option<u8> {
        bytes.map(|bytes| bytes[0])
    }

    #[tokio::test]
    async fn a_block_is_at_hand_while_others_are_still_to_come() {
        let (blocks, go) = blocks(64 << 20, 3);
        blocks.begin(|| vec![0, 1, 2, 3]);
        blocks.begin(|| panic!("it has begun"));
        assert_eq!(first(blocks.for_parcel(0).await), Some(0));
        assert_eq!(blocks.for_parcel(1).await, None, "it cannot be used");
        assert_eq!(first(blocks.for_program(2).await), Some(2));
        go.send(()).unwrap();
        blocks.wait_for_all().await;
        assert_eq!(blocks.ahead_bytes(), 1 << 20);
        assert_eq!(first(blocks.for_program(3).await), Some(3));
        assert_eq!(blocks.ahead_bytes(), 0);
    }

    #[tokio::test]
    async fn no_more_is_read_ahead_than_there_is_room_for_or_somebody_wants() {
        let (blocks, _go) = blocks(4 << 20, usize::MAX);
        blocks.begin(|| (2..100).collect());
        blocks.wait_for_all().await;
        let full_bytes = blocks.ahead_bytes();
        assert!((2 << 20..=4 << 20).contains(&full_bytes), "{full_bytes} bytes");
        assert_eq!(first(blocks.for_parcel(50).await), Some(50), "what has no room yet comes when it is asked for");
        assert_eq!(first(blocks.for_parcel(2).await), Some(2));
        blocks.wait_for_all().await;
        assert_eq!(blocks.ahead_bytes(), full_bytes, "there was room for another one");
        blocks.drop_untaken(true);
        assert_eq!(blocks.ahead_bytes(), full_bytes);
        blocks.drop_untaken(false);
        assert_eq!(blocks.ahead_bytes(), 0);
        assert_eq!(first(blocks.for_parcel(3).await), Some(3));
    }

    #[tokio::test]
    async fn a_pack_that_hangs_costs_nobody_more_than_a_moment() {
        let (blocks, go) = blocks(64 << 20, 2);
        let began = Instant::now();
        let asking: Vec<_> = (2..100).map(|block| (block, blocks.clone())).collect();
        let asking = asking.into_iter().map(|(block, blocks)| {
            tokio::spawn(async move {
                if block % 2 == 0 { blocks.for_program(block).await } else { blocks.for_parcel(block).await }
            })
        });
        for asking in asking.collect::<Vec<_>>() {
            assert_eq!(asking.await.unwrap(), None);
        }
        let took = began.elapsed();
        assert!(took < PATIENCE * 3, "{took:?}");
        assert_eq!(blocks.for_program(0).await, None, "it is left alone");
        assert!(began.elapsed() < took + PATIENCE, "at once");
        blocks.wait_for_all().await;
        (0..PACK_READERS).for_each(|_| go.send(()).unwrap());
    }
}
