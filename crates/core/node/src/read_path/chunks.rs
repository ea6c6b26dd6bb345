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
use crate::{Part, PeerAnswer};
use forebay_prefetch::Bundle;

/// A chunk as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Chunk<B> {
    pub body: B,
    /// Where it begins in the body: a bundle's body holds several chunks.
    pub start_bytes: usize,
    bytes: u64,
    is_in_bundle: bool,
    /// Bytes that the kernel has read of it.
    taken_bytes: Arc<AtomicU64>,
}

impl<B: Clone> ReadPath<B> {
    /// The first bytes of a chunk's or a bundle's answer are known to come: everybody who waits gets the handle now.
    /// `bytes` is the length announced; one that does not fit the files' sizes is an error of the source.
    ///
    /// `false` when the request has ended before: the shell may drop the body.
    pub fn handle_body_started(&mut self, now: Time, attempt: AttemptId, body: B, bytes: usize) -> bool {
        self.now = now;
        let Some((key, message)) = self.dispatch.asked(attempt) else {
            return false;
        };
        let bundle = Bundle::of(message).and_then(|bundle| bundle.members());
        let is_in_bundle = bundle.is_some();
        let members = bundle.unwrap_or_else(|| vec![key.clone()]);
        // A parcel says itself how long it is.
        let length_of = |key: &Key| if matches!(key, Key::Parcel { .. }) { bytes } else { chunk_bytes_of(key) };
        let lengths: Vec<usize> = members.iter().map(length_of).collect();
        if lengths.iter().sum::<usize>() != bytes || lengths.contains(&0) {
            self.dispatching(|dispatch| dispatch.spoilt(now, attempt));
            return false;
        }
        let Some(started) = self.dispatching(|dispatch| dispatch.begin_filling(now, attempt)) else {
            return false;
        };
        let chunks = cut(&body, &lengths, is_in_bundle);
        for Waiting { who, .. } in started.waiters {
            match who {
                Waiter::ReadPart { reader, slot, member } => self.fill_read(reader, slot, &chunks[member]),
                Waiter::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::Body(body.clone())),
                Waiter::Prefill(_) => {}
                Waiter::Kernel { .. } => self.tell_failed(who, Errno::EPROTO),
            }
        }
        let mut filled = Vec::new();
        for (member, (key, chunk)) in members.into_iter().zip(chunks).enumerate() {
            if !self.has_chunk(&key) {
                self.filling.insert(key.clone(), chunk);
                filled.push((member, key));
            }
        }
        self.filling_members.insert(started.request, filled);
        true
    }

    /// A chunk's body is whole, or will never be. Only a whole one is kept.
    pub fn handle_body_ended(&mut self, attempt: AttemptId, outcome: Result<(), Errno>) {
        let Some(request) = self.dispatching(|dispatch| dispatch.end_filling(attempt)) else { return };
        if outcome == Err(Errno::ESTALE)
            && let Some(key) = self.filling_members.get(&request).and_then(|filled| Some(filled.first()?.1.clone()))
        {
            self.start_over(&key);
        }
        self.end_filling(request, |_, chunk| outcome.is_ok().then_some(chunk));
    }

    /// A bundle's body is whole, and these are its files' own bodies; or it will never be.
    pub fn handle_bundle_ended(&mut self, attempt: AttemptId, outcome: Result<Vec<B>, Errno>) {
        let Some(request) = self.dispatching(|dispatch| dispatch.end_filling(attempt)) else { return };
        let bodies = outcome.unwrap_or_default();
        let own = |chunk, body: &B| Chunk { body: body.clone(), start_bytes: 0, is_in_bundle: false, ..chunk };
        self.end_filling(request, |member, chunk| bodies.get(member).map(|body| own(chunk, body)));
    }

    /// The body that answers a request will never be whole.
    pub(super) fn drop_filling(&mut self, request: RequestId) {
        self.end_filling(request, |_, _| None);
    }

    fn end_filling(&mut self, request: RequestId, whole: impl Fn(usize, Chunk<B>) -> Option<Chunk<B>>) {
        for (member, key) in self.filling_members.remove(&request).unwrap_or_default() {
            let Some(chunk) = self.filling.remove(&key) else { continue };
            match (whole(member, chunk), &key) {
                (Some(chunk), Key::Parcel { index }) => {
                    let (index, body) = (*index, chunk.body.clone());
                    if !self.routing().is_leaf(&key) {
                        self.keep_whole_chunk(key, chunk);
                    }
                    self.parcel_arrived(index, body);
                }
                (Some(chunk), _) if !self.is_kept_by_kernel(&key, &chunk) => self.keep_whole_chunk(key, chunk),
                (None, Key::Parcel { index }) => self.parcel_failed(*index, Errno::WAY_LOST),
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
        Self { body, start_bytes: 0, bytes, is_in_bundle: false, taken_bytes: Arc::default() }
    }

    /// Whether the kernel has read as much as there is.
    pub fn is_taken(&self) -> bool {
        self.taken_bytes.load(Ordering::Relaxed) >= self.bytes
    }

    /// What a peer is told that wants this chunk.
    pub fn into_answer(self) -> PeerAnswer<B> {
        let Self { body, start_bytes: offset_bytes, bytes, is_in_bundle, .. } = self;
        match is_in_bundle {
            true => PeerAnswer::Parts(vec![Part { body, offset_bytes, len_bytes: bytes as usize }]),
            false => PeerAnswer::Body(body),
        }
    }

    /// Counts bytes that the kernel reads. Counted under the caller's lock, so relaxed is enough.
    pub fn take(&self, bytes: usize) {
        self.taken_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The chunks that a body holds, one after the other.
fn cut<B: Clone>(body: &B, lengths: &[usize], is_in_bundle: bool) -> Vec<Chunk<B>> {
    let mut end_bytes = 0;
    let chunk = |len_bytes: &usize| {
        let start_bytes = end_bytes;
        end_bytes += len_bytes;
        let bytes = *len_bytes as u64;
        Chunk { body: body.clone(), start_bytes, bytes, is_in_bundle, taken_bytes: Arc::default() }
    };
    lengths.iter().map(chunk).collect()
}

/// Bytes that a chunk has by the size of its file.
pub(super) fn chunk_bytes_of(key: &Key) -> usize {
    match key {
        Key::Chunk { generation, index, .. } => forebay_types::chunk_bytes(generation.size_bytes, *index),
        _ => 0,
    }
}
