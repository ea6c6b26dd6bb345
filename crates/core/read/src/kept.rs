//! A node's objects: listings, attributes and chunks that are kept within the budget, and chunks that are filling.
//!
//! A chunk's handle is passed on as soon as its first bytes are known to come. If no node asks this one for a chunk, it keeps it only
//! until its kernel has read all of it. The page cache holds it from then on, and a second copy would be waste. The chunk's tree
//! decides whether other nodes ask; a node that stands in for a root that is lost is asked too.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_cache::{Key, KindCounters, Object, ObjectKind, Objects};
use forebay_dispatch::{RequestId, Routing};
use forebay_types::{Errno, Map, Time, ViewPath, limits};
use forebay_wire::Listing;

use crate::chunk::{Chunk, chunk_bytes_of};
use crate::routing::ReadRouting;

/// Paths that may be pinned at a time: a list walked at every insertion.
const PINS_MAX: usize = 64;

/// Chunks that the kernel has read whole and that stay for nodes that are referred here for them.
const TAKEN_CHUNKS_MAX: usize = 8;

/// Chunks that are kept for this kernel, at most, however small they are.
const OWN_CHUNKS_MAX: usize = 16 << 10;

/// All of it.
pub(crate) struct Kept<B> {
    objects: Objects<Chunk<B>>,
    /// How long names are believed; for ever if not given.
    entry_ttl: Option<Duration>,
    pub allowed_bytes: u64,
    pub aside_bytes: u64,
    pins: Vec<ViewPath>,
    /// The chunks that are filling.
    filling: Map<Key, Chunk<B>>,
    /// The requests whose answers fill them.
    filled_by: Map<RequestId, Key>,
    /// Chunks kept for this node's kernel alone, oldest first; some may have left already.
    own_chunks: VecDeque<Key>,
    /// Their bytes, also of those that have left.
    own_bytes: u64,
    /// Chunks that the kernel has read whole, oldest first.
    taken_chunks: VecDeque<Key>,
}

impl<B: Clone> Kept<B> {
    pub fn new(budget_bytes: u64, entry_ttl: Option<Duration>) -> Self {
        Self {
            objects: Objects::new(budget_bytes),
            entry_ttl,
            allowed_bytes: budget_bytes,
            aside_bytes: 0,
            pins: Vec::new(),
            filling: Map::default(),
            filled_by: Map::default(),
            own_chunks: VecDeque::new(),
            own_bytes: 0,
            taken_chunks: VecDeque::new(),
        }
    }

    /// The object kept under a name, unless it is older than names may get.
    pub fn name(&mut self, now: Time, key: &Key, kind: ObjectKind) -> Option<Object<Chunk<B>>> {
        if let Some(ttl) = self.entry_ttl
            && self.objects.age(key, now).is_some_and(|age| age >= ttl)
        {
            self.objects.remove(key);
        }
        self.objects.get(key, kind)
    }

    /// The kept object, without counting it as used.
    pub fn peek(&self, key: &Key) -> Option<&Object<Chunk<B>>> {
        self.objects.peek(key)
    }

    pub fn peek_listing(&self, dir: &ViewPath) -> Option<&Listing> {
        match self.objects.peek(&Key::Listing { dir: dir.clone() }) {
            Some(Object::Listing(listing)) => Some(listing),
            _ => None,
        }
    }

    /// Whether something is kept or filling.
    pub fn has(&self, key: &Key) -> bool {
        self.filling.contains_key(key) || self.objects.contains(key)
    }

    pub fn is_kept(&self, key: &Key) -> bool {
        self.objects.contains(key)
    }

    pub fn keep(&mut self, now: Time, key: &Key, object: Object<Chunk<B>>) {
        self.keep_bytes(now, key, object, 0);
    }

    fn keep_bytes(&mut self, now: Time, key: &Key, object: Object<Chunk<B>>, bytes: u64) {
        self.objects.insert(now, key.clone(), object, bytes);
        self.pin_if_wanted(key);
    }

    fn pin_if_wanted(&mut self, key: &Key) {
        if self.is_pinned(key) {
            self.objects.pin(key);
        }
    }

    pub fn remove(&mut self, key: &Key) {
        self.objects.remove(key);
    }

    pub fn remove_where(&mut self, drops: impl Fn(&Key) -> bool) {
        self.objects.remove_where(drops);
    }

    /// Drops everything, pins included. Chunks that are filling go on.
    pub fn clear(&mut self) {
        self.objects.clear();
        self.pins.clear();
        self.own_chunks.clear();
        self.own_bytes = 0;
        self.taken_chunks.clear();
    }

    /// The answer to a request begins to fill a chunk.
    pub fn begin_filling(&mut self, request: RequestId, key: Key, chunk: Chunk<B>) {
        if !self.has(&key) {
            self.filling.insert(key.clone(), chunk);
            self.filled_by.insert(request, key);
        }
    }

    /// The chunk that the answer to a request fills.
    pub fn filled_by(&self, request: RequestId) -> Option<&Key> {
        self.filled_by.get(&request)
    }

    /// It does not any more.
    pub fn end_filling(&mut self, request: RequestId) -> Option<(Key, Chunk<B>)> {
        let key = self.filled_by.remove(&request)?;
        self.filling.remove_entry(&key)
    }

    pub fn filling(&self) -> impl Iterator<Item = &Key> {
        self.filling.keys()
    }

    /// Keeps a chunk that is whole, unless the kernel has read all of it and nobody else will ask.
    pub fn keep_filled(&mut self, now: Time, routing: &ReadRouting, key: Key, chunk: Chunk<B>) {
        let is_left = chunk.is_taken() && self.is_own(routing, &key, &chunk);
        if !is_left || routing.may_be_referred(&key) {
            self.keep_chunk(now, routing, key.clone(), chunk);
        }
        if is_left {
            self.leave(routing, &key);
        }
    }

    /// Drops a chunk that only the kernel wanted, which has it now. Where others may be referred here for it, the last few stay.
    fn leave(&mut self, routing: &ReadRouting, key: &Key) {
        if !routing.may_be_referred(key) {
            return self.objects.remove(key);
        }
        if !self.taken_chunks.contains(key) {
            self.taken_chunks.push_back(key.clone());
        }
        if self.taken_chunks.len() > TAKEN_CHUNKS_MAX
            && let Some(oldest) = self.taken_chunks.pop_front()
            && let Some(Object::Chunk(kept)) = self.objects.peek(&oldest)
            && kept.is_taken()
            && self.is_own(routing, &oldest, kept)
        {
            self.objects.remove(&oldest);
        }
    }

    pub fn keep_chunk(&mut self, now: Time, routing: &ReadRouting, key: Key, chunk: Chunk<B>) {
        let (bytes, is_own) = (chunk.bytes, self.is_own(routing, &key, &chunk));
        if chunk.is_for_others && routing.has_home(&key) {
            self.objects.insert_of_home(now, key.clone(), Object::Chunk(chunk), bytes);
            return self.pin_if_wanted(&key);
        }
        self.keep_bytes(now, &key, Object::Chunk(chunk), bytes);
        if is_own {
            self.bound_own_chunks(routing, key);
        }
    }

    /// Puts other memory in the place of a kept chunk's.
    pub fn move_chunk(&mut self, key: &Key, body: B) {
        if let Some(Object::Chunk(kept)) = self.objects.peek(key) {
            let mut moved = kept.clone();
            moved.body = body;
            self.objects.replace(key, Object::Chunk(moved));
        }
    }

    /// The chunk for a kernel read of `len_bytes` of it.
    pub fn chunk_for_kernel(&mut self, routing: &ReadRouting, key: &Key, len_bytes: usize) -> Option<Chunk<B>> {
        let chunk = self.chunk(key)?;
        chunk.take(len_bytes);
        if !self.filling.contains_key(key) && chunk.is_taken() && self.is_own(routing, key, &chunk) {
            self.leave(routing, key);
        }
        Some(chunk)
    }

    /// The chunk for another node, which takes all of it.
    pub fn chunk(&mut self, key: &Key) -> Option<Chunk<B>> {
        if let Some(chunk) = self.filling.get(key) {
            return Some(chunk.clone());
        }
        match self.objects.get(key, ObjectKind::Chunks) {
            Some(Object::Chunk(chunk)) => Some(chunk),
            _ => None,
        }
    }

    /// Whether the kernel has read all of a chunk that is kept.
    pub fn is_taken(&self, key: &Key) -> bool {
        matches!(self.objects.peek(key), Some(Object::Chunk(kept)) if kept.is_taken())
    }

    /// Whether a chunk is of use to this node's kernel alone, and nobody asked for it to be kept.
    fn is_own(&self, routing: &ReadRouting, key: &Key, chunk: &Chunk<B>) -> bool {
        routing.is_leaf(key) && !chunk.is_for_others && !self.is_pinned(key)
    }

    /// Keeps the newest of what the kernel has not read whole: much of it was read ahead in vain.
    fn bound_own_chunks(&mut self, routing: &ReadRouting, newest: Key) {
        self.own_bytes += chunk_bytes_of(&newest) as u64;
        self.own_chunks.push_back(newest);
        while self.own_bytes > limits::LEAF_CHUNK_BYTES || self.own_chunks.len() > OWN_CHUNKS_MAX {
            let Some(oldest) = self.own_chunks.pop_front() else { return };
            self.own_bytes -= chunk_bytes_of(&oldest) as u64;
            let is_own =
                |kept: &Object<Chunk<B>>| matches!(kept, Object::Chunk(kept) if self.is_own(routing, &oldest, kept));
            if self.objects.peek(&oldest).is_some_and(is_own) {
                self.objects.remove(&oldest);
            }
        }
    }

    /// Keeps what lies at or below `path` until `clear`. `ENOSPC` when there are `PINS_MAX` others.
    pub fn pin(&mut self, path: ViewPath) -> Result<(), Errno> {
        let is_pinned = self.pins.contains(&path);
        if !is_pinned && self.pins.len() >= PINS_MAX {
            return Err(Errno::ENOSPC);
        }
        self.objects.pin_within(&path);
        self.pins.extend((!is_pinned).then_some(path));
        Ok(())
    }

    pub fn is_pinned(&self, key: &Key) -> bool {
        self.pins.iter().any(|pin| key.path().is_within(pin))
    }

    /// Chunks of a file that are kept or filling.
    pub fn count_chunks(&self, is_one: impl Fn(&Key) -> bool) -> usize {
        let filling = self.filling.keys().filter(|key| is_one(key) && !self.objects.contains(key)).count();
        self.objects.count_where(is_one) + filling
    }

    pub fn counters(&self, kind: ObjectKind) -> KindCounters {
        self.objects.counters(kind)
    }

    pub fn bytes(&self) -> u64 {
        self.objects.bytes()
    }

    pub fn allow_bytes(&mut self, bytes: u64) {
        self.allowed_bytes = bytes;
        self.fit();
    }

    pub fn set_aside(&mut self, bytes: u64) {
        if self.aside_bytes != bytes {
            self.aside_bytes = bytes;
            self.fit();
        }
    }

    fn fit(&mut self) {
        let bytes = self.allowed_bytes.saturating_sub(self.aside_bytes).max(self.allowed_bytes / 4);
        self.objects.set_budget(bytes);
    }
}
