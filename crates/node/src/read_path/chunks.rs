//! Chunks: those that are there, those that are filling, and those that need not be kept.
//!
//! A chunk's handle goes round as soon as its first bytes are known to come. A node that nobody asks keeps a chunk only
//! until its kernel has read all of it: the page cache holds it from then on, and a second copy would be waste.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_cache::{CallId, Key, Object, ObjectKind};
use forebay_types::{Errno, Time, chunk_bytes, limits};

use super::{ReadPath, Waiter};
use crate::PeerAnswer;

/// A chunk as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Chunk<B> {
    pub body: B,
    bytes: u64,
    /// Bytes that the kernel has read of it.
    taken_bytes: Arc<AtomicU64>,
}

/// A chunk that is filling.
#[derive(Debug)]
pub(super) struct Growing<B> {
    chunk: Chunk<B>,
    deadline: Time,
}

/// A search for a chunk's bytes.
pub(super) enum FoundChunk<B> {
    Body(B),
    Missing,
}

impl<B: Clone> ReadPath<B> {
    /// The first bytes of a chunk's answer are known to come: everybody who waits gets the handle now.
    /// `bytes` is the length announced; one that does not fit the file's size is an error of the source.
    ///
    /// `false` when the question has ended before: the shell may drop the body.
    pub fn handle_body_started(&mut self, call: CallId, body: B, bytes: usize) -> bool {
        let Some(key) = self.in_flight.get(call).map(|flight| flight.key.clone()) else {
            return false;
        };
        if !is_length_right(&key, bytes) {
            self.end_flight(call, Errno::EPROTO);
            return false;
        }
        let Some(flight) = self.in_flight.end(call) else {
            return false;
        };
        let chunk = Chunk { body, bytes: bytes as u64, taken_bytes: Arc::default() };
        let body = chunk.body.clone();
        for waiter in flight.waiters {
            match waiter {
                Waiter::ReadPart { ticket, slot } => {
                    chunk.take(self.read_part_bytes(ticket, slot));
                    self.fill_read(ticket, slot, body.clone());
                }
                Waiter::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::Body(body.clone())),
                Waiter::Kernel { ticket, .. } => self.tell_kernel(ticket, crate::KernelAnswer::Failed(Errno::EPROTO)),
            }
        }
        self.growing_calls.insert(call, key.clone());
        self.growing.insert(key, Growing { chunk, deadline: flight.deadline });
        true
    }

    /// A chunk's body is whole, or will never be. Only a whole one is kept.
    pub fn handle_body_ended(&mut self, call: CallId, outcome: Result<(), Errno>) {
        let Some(key) = self.growing_calls.remove(&call) else {
            return;
        };
        let Some(Growing { chunk, deadline }) = self.growing.remove(&key) else { return };
        self.note_ended(deadline, call);
        if outcome.is_ok() && !self.is_kept_by_kernel(&key, &chunk) {
            let bytes = chunk.bytes;
            self.objects.insert(key.clone(), Object::Chunk(chunk), bytes);
            self.pin_if_wanted(&key);
            if self.options.forest.is_leaf(self.options.rank) && self.is_own(&key) {
                self.bound_own_chunks(key);
            }
        }
    }

    /// The chunk for a kernel read of `len_bytes` of it.
    pub(super) fn find_chunk(&mut self, key: &Key, len_bytes: usize) -> FoundChunk<B> {
        if let Some(Growing { chunk, .. }) = self.growing.get(key) {
            chunk.take(len_bytes);
            return FoundChunk::Body(chunk.body.clone());
        }
        let Some(Object::Chunk(chunk)) = self.objects.get(key, ObjectKind::Chunks) else {
            return FoundChunk::Missing;
        };
        chunk.take(len_bytes);
        if self.is_kept_by_kernel(key, &chunk) {
            self.objects.remove(key);
        }
        FoundChunk::Body(chunk.body)
    }

    /// The chunk for another node, which takes all of it.
    pub(super) fn find_chunk_for_peer(&mut self, key: &Key) -> Option<B> {
        if let Some(Growing { chunk, .. }) = self.growing.get(key) {
            return Some(chunk.body.clone());
        }
        match self.objects.get(key, ObjectKind::Chunks) {
            Some(Object::Chunk(chunk)) => Some(chunk.body),
            _ => None,
        }
    }

    pub(super) fn has_chunk(&self, key: &Key) -> bool {
        self.growing.contains_key(key) || self.objects.contains(key)
    }

    pub(super) fn pin_if_wanted(&mut self, key: &Key) {
        if self.pins.iter().any(|pin| key.path().is_within(pin)) {
            self.objects.pin(key);
        }
    }

    /// Whether the kernel has read all of a chunk that nobody else will ask this node for.
    fn is_kept_by_kernel(&self, key: &Key, chunk: &Chunk<B>) -> bool {
        self.is_own(key) && chunk.taken_bytes.load(Ordering::Relaxed) >= chunk.bytes
    }

    /// Whether a chunk is of use to this node's kernel alone, and nobody asked for it to be kept.
    fn is_own(&self, key: &Key) -> bool {
        let alone = self.is_direct(key) || self.options.forest.is_leaf(self.options.rank);
        alone && !self.pins.iter().any(|pin| key.path().is_within(pin))
    }

    /// Keeps the newest of what the kernel has not read whole: much of it was read ahead in vain.
    fn bound_own_chunks(&mut self, newest: Key) {
        self.own_chunks.push_back(newest);
        if self.own_chunks.len() > OWN_CHUNKS_MAX {
            self.own_chunks.retain(|key| self.objects.contains(key));
        }
        while self.objects.counters(ObjectKind::Chunks).bytes > limits::LEAF_CHUNK_BYTES {
            let Some(oldest) = self.own_chunks.pop_front() else { return };
            if self.is_own(&oldest) {
                self.objects.remove(&oldest);
            }
        }
    }
}

/// Names of chunks remembered before those that have left are swept out: a small chunk takes a page, so these are many.
const OWN_CHUNKS_MAX: usize = 16 << 10;

impl<B> Chunk<B> {
    /// Counts bytes that the kernel reads. Counted under the caller's lock, so relaxed is enough.
    fn take(&self, bytes: usize) {
        self.taken_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

fn is_length_right(key: &Key, bytes: usize) -> bool {
    match key {
        Key::Chunk { generation, index, .. } => bytes == chunk_bytes(generation.size_bytes, *index),
        _ => false,
    }
}
