//! Chunks: those that are there, those that are filling, and those that need not be kept.
//!
//! A chunk's handle goes round as soon as its first bytes are known to come. A node that nobody asks keeps a chunk only
//! until its kernel has read all of it: the page cache holds it from then on, and a second copy would be waste. Whether
//! nobody asks is a matter of the chunk's tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_cache::{Key, Object, ObjectKind};
use forebay_dispatch::{AttemptId, RequestId, Waiting};
use forebay_types::{Errno, Time, limits};

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

impl<B: Clone> ReadPath<B> {
    /// The first bytes of a chunk's answer are known to come: everybody who waits gets the handle now. `bytes` is the
    /// length announced; one that does not fit the file's size is an error of the source.
    ///
    /// `false` when the request has ended before: the shell may drop the body.
    pub fn handle_body_started(&mut self, now: Time, attempt: AttemptId, body: B, bytes: usize) -> bool {
        self.now = now;
        let Some(key) = self.dispatch.asked(attempt).cloned() else { return false };
        // A parcel says itself how long it is.
        let is_parcel = matches!(key, Key::Parcel { .. });
        if bytes == 0 || (!is_parcel && bytes != chunk_bytes_of(&key)) {
            self.dispatching(|dispatch| dispatch.spoilt(now, attempt));
            return false;
        }
        let Some(started) = self.dispatching(|dispatch| dispatch.begin_filling(now, attempt)) else {
            return false;
        };
        let chunk = Chunk { body, bytes: bytes as u64, taken_bytes: Arc::default() };
        self.hand_out(started.waiters, &chunk);
        if !self.has_chunk(&key) {
            self.filling.insert(key.clone(), chunk);
            self.filled_by.insert(started.request, key);
        }
        true
    }

    /// Everybody who waits for a chunk gets its handle.
    pub(super) fn hand_out(&mut self, waiters: Vec<Waiting<Waiter>>, chunk: &Chunk<B>) {
        for Waiting { who, .. } in waiters {
            match who {
                Waiter::ReadPart { ticket, slot } => self.fill_read(ticket, slot, chunk),
                Waiter::BundleFile { ticket, slot } => self.fill_bundle(ticket, slot, Ok(chunk.body.clone())),
                Waiter::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::Body(chunk.body.clone())),
                Waiter::Prefill(_) => {}
                Waiter::Kernel { .. } => self.tell_failed(who, Errno::EPROTO),
            }
        }
    }

    /// A chunk's body is whole, or will never be. Only a whole one is kept.
    pub fn handle_body_ended(&mut self, attempt: AttemptId, outcome: Result<(), Errno>) {
        let Some(request) = self.dispatching(|dispatch| dispatch.end_filling(attempt)) else { return };
        if outcome == Err(Errno::ESTALE)
            && let Some(key) = self.filled_by.get(&request).cloned()
        {
            self.start_over(&key);
        }
        self.end_filling(request, outcome.is_ok());
    }

    /// A request's answer does not arrive any more.
    pub(super) fn end_filling(&mut self, request: RequestId, is_whole: bool) {
        let key = self.filled_by.remove(&request);
        if let Some((key, chunk)) = key.and_then(|key| self.filling.remove_entry(&key)) {
            match (&key, is_whole) {
                (Key::Parcel { index }, true) => {
                    let (index, body) = (*index, chunk.body.clone());
                    if !self.routing().is_leaf(&key) {
                        self.keep_whole_chunk(key, chunk);
                    }
                    self.parcel_arrived(index, body);
                }
                (Key::Parcel { index }, false) => self.parcel_failed(*index, Errno::WAY_LOST),
                (_, true) if !self.is_kept_by_kernel(&key, &chunk) => self.keep_whole_chunk(key, chunk),
                _ => {}
            }
        }
        self.on_end(request);
    }

    pub(super) fn keep_whole_chunk(&mut self, key: Key, chunk: Chunk<B>) {
        let bytes = chunk.bytes;
        self.objects.insert(self.now, key.clone(), Object::Chunk(chunk), bytes);
        self.pin_if_wanted(&key);
        if self.is_own(&key) {
            self.bound_own_chunks(key);
        }
    }

    /// The chunk for a kernel read of `len_bytes` of it.
    pub(super) fn find_chunk(&mut self, key: &Key, len_bytes: usize) -> Option<Chunk<B>> {
        if let Some(chunk) = self.filling.get(key) {
            chunk.take(len_bytes);
            return Some(chunk.clone());
        }
        let Some(Object::Chunk(chunk)) = self.objects.get(key, ObjectKind::Chunks) else {
            return None;
        };
        chunk.take(len_bytes);
        if self.is_kept_by_kernel(key, &chunk) {
            self.objects.remove(key);
        }
        Some(chunk)
    }

    /// The chunk for another node, which takes all of it.
    pub(super) fn find_chunk_for_peer(&mut self, key: &Key) -> Option<Chunk<B>> {
        if let Some(chunk) = self.filling.get(key) {
            return Some(chunk.clone());
        }
        match self.objects.get(key, ObjectKind::Chunks) {
            Some(Object::Chunk(chunk)) => Some(chunk),
            _ => None,
        }
    }

    pub(super) fn has_chunk(&self, key: &Key) -> bool {
        self.filling.contains_key(key) || self.objects.contains(key)
    }

    pub(super) fn pin_if_wanted(&mut self, key: &Key) {
        if self.is_pinned(key) {
            self.objects.pin(key);
        }
    }

    /// Whether the kernel has read all of a chunk that nobody else will ask this node for.
    fn is_kept_by_kernel(&self, key: &Key, chunk: &Chunk<B>) -> bool {
        chunk.is_taken() && self.is_own(key)
    }

    /// Whether a chunk is of use to this node's kernel alone, and nobody asked for it to be kept.
    pub(super) fn is_own(&self, key: &Key) -> bool {
        self.routing().is_leaf(key) && !self.is_pinned(key)
    }

    pub(super) fn is_pinned(&self, key: &Key) -> bool {
        self.pins.iter().any(|pin| key.path().is_within(pin))
    }

    /// Keeps the newest of what the kernel has not read whole: much of it was read ahead in vain.
    fn bound_own_chunks(&mut self, newest: Key) {
        self.own_bytes += chunk_bytes_of(&newest) as u64;
        self.own_chunks.push_back(newest);
        while self.own_bytes > limits::LEAF_CHUNK_BYTES || self.own_chunks.len() > OWN_CHUNKS_MAX {
            let Some(oldest) = self.own_chunks.pop_front() else { return };
            self.own_bytes -= chunk_bytes_of(&oldest) as u64;
            if self.is_own(&oldest) {
                self.objects.remove(&oldest);
            }
        }
    }
}

/// Chunks that are kept for this kernel, at most, however small they are.
const OWN_CHUNKS_MAX: usize = 16 << 10;

impl<B> Chunk<B> {
    /// A chunk that has come otherwise than as an answer.
    pub fn whole(body: B, key: &Key) -> Self {
        let bytes = chunk_bytes_of(key) as u64;
        Self { body, bytes, taken_bytes: Arc::default() }
    }

    /// Whether the kernel has read as much as there is.
    pub fn is_taken(&self) -> bool {
        self.taken_bytes.load(Ordering::Relaxed) >= self.bytes
    }

    /// Counts bytes that the kernel reads. Counted under the caller's lock, so relaxed is enough.
    pub fn take(&self, bytes: usize) {
        self.taken_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes that a chunk has by the size of its file.
pub(super) fn chunk_bytes_of(key: &Key) -> usize {
    match key {
        Key::Chunk { generation, index, .. } => forebay_types::chunk_bytes(generation.size_bytes, *index),
        _ => 0,
    }
}
