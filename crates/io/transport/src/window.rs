//! How much of what a peer asks for is worked on at a time.
//!
//! A body is held until the peer has taken it, whatever has left the caches meanwhile, and a peer may have a thousand
//! requests under way. So requests that are answered by bodies are handed on only as far as these have room together; the
//! others wait as what they are, some hundred bytes each, those of programs first. Requests about names have no body to
//! speak of and never wait.

use std::collections::{BTreeMap, VecDeque};

use forebay_types::{Priority, chunk_bytes, limits};
use forebay_wire::{Message, ReadMessage};
use tokio::time::Instant;

/// The room of one peer.
pub(crate) struct Window<C> {
    room_bytes: usize,
    /// By the streams of requests that were handed on.
    taken: BTreeMap<u32, usize>,
    taken_bytes: usize,
    waiting: VecDeque<Waiting<C>>,
}

/// A request that waits for room.
pub(crate) struct Waiting<C> {
    stream: u32,
    body_bytes: usize,
    pub(crate) priority: Priority,
    /// When the peer gives up.
    pub(crate) deadline: Instant,
    pub(crate) call: C,
}

impl<C> Window<C> {
    pub(crate) fn new(room_bytes: usize) -> Self {
        Self { room_bytes, taken: BTreeMap::new(), taken_bytes: 0, waiting: VecDeque::new() }
    }

    /// Takes a request; what there is room for comes from `next`.
    pub(crate) fn push(&mut self, (stream, body_bytes): (u32, usize), priority: Priority, deadline: Instant, call: C) {
        self.waiting.push_back(Waiting { stream, body_bytes, priority, deadline, call });
    }

    /// The next request that may be handed on. One at least always may, however large its body is.
    pub(crate) fn next(&mut self) -> Option<Waiting<C>> {
        let is_demand = |waiting: &Waiting<C>| waiting.priority == Priority::Demand;
        let at = self.waiting.iter().position(is_demand).unwrap_or(0);
        let body_bytes = self.waiting.get(at)?.body_bytes;
        if self.taken_bytes > 0 && self.taken_bytes + body_bytes > self.room_bytes {
            return None;
        }
        let next = self.waiting.remove(at)?;
        *self.taken.entry(next.stream).or_default() += body_bytes;
        self.taken_bytes += body_bytes;
        Some(next)
    }

    /// A program has come to wait for a request.
    pub(crate) fn promote(&mut self, stream: u32) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.stream == stream) {
            waiting.priority = Priority::Demand;
        }
    }

    /// A request has ended. It is returned if it was still waiting, to be dropped without a lock.
    pub(crate) fn end(&mut self, stream: u32) -> Option<Waiting<C>> {
        self.taken_bytes -= self.taken.remove(&stream).unwrap_or(0);
        let at = self.waiting.iter().position(|waiting| waiting.stream == stream)?;
        self.waiting.remove(at)
    }
}

/// Bytes of the body that answers a request, as far as the request tells.
pub(crate) fn body_bytes(message: &Message) -> usize {
    match message {
        Message::Read(ReadMessage::Chunk { generation, index, .. }) => chunk_bytes(generation.size_bytes, *index),
        Message::Read(ReadMessage::Bundle { files, .. }) => {
            let bytes: u64 = files.iter().map(|(_, generation)| generation.size_bytes).sum();
            bytes.min(limits::BUNDLE_BYTES_MAX) as usize
        }
        Message::Read(ReadMessage::Parcel { .. }) => limits::PARCEL_BYTES as usize,
        Message::Write(message) => message.body_bytes() as usize,
        // A part's partials are small, and are not there before it is made.
        Message::Read(_) | Message::Job(_) | Message::Query(_) => 0,
    }
}
