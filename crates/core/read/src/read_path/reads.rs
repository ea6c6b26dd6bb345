//! Reads: the chunks that the kernel needs, gathered from what is here and asked for where it is not.
//!
//! A small file that programs usually read with its neighbours is asked for together with them: each by a request of its
//! own, all in one message (`bundles`).

use forebay_cache::{Key, Object};
use forebay_dispatch::{HoldId, Source, Wanted};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Extent, Generation, Priority, Time, ViewPath, limits};
use forebay_wire::Use;

use super::chunks::Chunk;
use super::{ReadPath, Waiter};
use crate::{InodeId, KernelAnswer, KernelTicket, Part, PeerTicket, ROOT_INODE};
use forebay_prefetch::{neighbours, suffix_of};

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Reader {
    Kernel(KernelTicket),
    Peer(PeerTicket),
}

/// A read whose chunks have not all arrived.
#[derive(Debug)]
pub(super) struct PendingRead<B> {
    file: ViewPath,
    generation: Generation,
    parts: Vec<PendingPart<B>>,
    missing: usize,
}

/// Bytes `offset_bytes..+len_bytes` of a chunk that may be missing.
#[derive(Debug)]
struct PendingPart<B> {
    index: ChunkIndex,
    body: Option<B>,
    offset_bytes: usize,
    len_bytes: usize,
}

impl<B: Clone> ReadPath<B> {
    /// Answers a read whose answer was on its way and got lost: as if it were asked now, but until its own deadline.
    pub fn handle_read_again(
        &mut self,
        now: Time,
        deadline: Time,
        ticket: KernelTicket,
        inode: InodeId,
        extent: Extent,
    ) -> Option<KernelAnswer<B>> {
        self.now = now;
        self.read(deadline, ticket, inode, extent)
    }

    pub(super) fn read(
        &mut self,
        deadline: Time,
        ticket: KernelTicket,
        id: InodeId,
        extent: Extent,
    ) -> Option<KernelAnswer<B>> {
        let Some(inode) = self.inodes.get(id).filter(|_| id != ROOT_INODE) else {
            return Some(KernelAnswer::Failed(Errno::ESTALE));
        };
        let (file, generation) = (inode.path.clone(), inode.generation);
        let mut parts = Vec::new();
        let mut wanted = Vec::new();
        for (index, within) in extent.clamped(generation.size_bytes).chunks() {
            let (offset_bytes, len_bytes) = (within.offset_bytes as usize, within.len_bytes as usize);
            let key = Key::Chunk { file: file.clone(), generation, index };
            self.recording.note(self.now, || Use::Chunk { file: file.clone(), generation, index });
            let body = self.find_chunk(&key, len_bytes).map(|chunk| chunk.body);
            if body.is_none() {
                wanted.push((key, parts.len()));
            }
            parts.push(PendingPart { index, body, offset_bytes, len_bytes });
        }
        let read = PendingRead { file: file.clone(), generation, parts, missing: wanted.len() };
        let answer = if wanted.is_empty() {
            Some(KernelAnswer::Read(read.into_parts()))
        } else {
            self.park_read(deadline, ticket, read, wanted);
            None
        };
        if extent.offset_bytes < CHUNK_BYTES {
            self.note_wanted(&Key::Chunk { file, generation, index: ChunkIndex(0) });
        }
        self.read_ahead(deadline, id, extent);
        answer
    }

    /// Lets a read wait for the chunks that it lacks.
    fn park_read(&mut self, deadline: Time, ticket: KernelTicket, read: PendingRead<B>, wanted: Vec<(Key, usize)>) {
        let lacks_all = wanted.len() == read.parts.len();
        self.pending_reads.insert(ticket, read);
        let waits = if lacks_all { self.wait_for_parcels(&wanted) } else { None };
        let mut waits = waits.unwrap_or_default().into_iter();
        for (key, slot) in wanted {
            self.ask_chunk(key, deadline, Waiter::ReadPart { ticket, slot }, waits.next());
        }
    }

    /// Asks for a chunk that a read lacks: after the parcel that may bring it, or now, with the files beside it where that
    /// is usual.
    fn ask_chunk(&mut self, key: Key, deadline: Time, waiter: Waiter, after: Option<HoldId>) {
        let Some(message) = key.message() else { return };
        let (priority, waiter) = (Priority::Demand, Some(waiter));
        if let Some(parcel) = after {
            self.ask_held(key, message, Wanted { priority, deadline, waiter, holds: vec![parcel] });
        } else if self.ask(key.clone(), message, priority, deadline, waiter).is_some() {
            for neighbour in self.neighbours_of(&key) {
                self.prefetch(&neighbour, deadline);
            }
        }
    }

    /// The small files that a chunk, which has been asked for, travels with.
    fn neighbours_of(&self, key: &Key) -> Vec<Key> {
        let Key::Chunk { file, generation, index: ChunkIndex(0) } = key else { return Vec::new() };
        let is_alone = generation.size_bytes > limits::BUNDLE_FILE_BYTES_MAX;
        if !self.options.prefetch || is_alone || self.dispatch.source_of(key) == Source::Backing {
            return Vec::new();
        }
        let Some((dir, name)) = file.split() else { return Vec::new() };
        let Some(Object::Listing(listing)) = self.objects.peek(&Key::Listing { dir: dir.clone() }) else {
            return Vec::new();
        };
        match listing.find(name) {
            Some(at) if self.habits.is_read_whole(&dir, suffix_of(name)) => neighbours(&dir, listing, at),
            _ => Vec::new(),
        }
    }

    /// Asks for the chunks that a program which reads in order will want next.
    fn read_ahead(&mut self, deadline: Time, id: InodeId, extent: Extent) {
        let Some(inode) = self.inodes.get_mut(id) else { return };
        let extent = extent.clamped(inode.generation.size_bytes);
        if extent.len_bytes == 0 {
            return;
        }
        let ahead = inode.read_ahead.on_read(extent.end_bytes(), inode.generation.size_bytes);
        let (file, generation) = (inode.path.clone(), inode.generation);
        for index in ahead.map(ChunkIndex) {
            if self.large_chunks_under_way() >= limits::READ_AHEAD_CHUNKS_UNDER_WAY {
                return self.inodes.get_mut(id).into_iter().for_each(|inode| inode.read_ahead.put_off(index.0));
            }
            self.prefetch(&Key::Chunk { file: file.clone(), generation, index }, deadline);
        }
    }

    /// Chunks on their way here, but for small files: those travel many at a time.
    fn large_chunks_under_way(&self) -> usize {
        let is_large = |key: &&Key| match key {
            Key::Chunk { generation, .. } => generation.size_bytes > limits::BUNDLE_FILE_BYTES_MAX,
            _ => true,
        };
        let requested = self.dispatch.requests().map(|(_, key)| key);
        self.filling.keys().chain(requested).filter(is_large).take(limits::READ_AHEAD_CHUNKS_UNDER_WAY).count()
    }

    /// Whether a read that waits has pages of this chunk locked.
    pub(super) fn is_being_read(&self, key: &Key) -> bool {
        let Key::Chunk { file, generation, index } = key else { return false };
        let is_of = |read: &PendingRead<B>| {
            let is_one = |part: &PendingPart<B>| part.index == *index;
            read.generation == *generation && read.parts.iter().any(is_one) && read.file == *file
        };
        self.pending_reads.values().any(is_of)
    }

    /// A chunk that a parked read waits for is here, or at least its first bytes.
    pub(super) fn fill_read(&mut self, ticket: KernelTicket, slot: usize, chunk: &Chunk<B>) {
        let Some(read) = self.pending_reads.get_mut(&ticket) else { return };
        let part = &mut read.parts[slot];
        chunk.take(part.len_bytes);
        if part.body.replace(chunk.body.clone()).is_none() {
            read.missing -= 1;
        }
        if read.missing > 0 {
            return;
        }
        let parts = self.pending_reads.remove(&ticket).map(PendingRead::into_parts).unwrap_or_default();
        self.tell_kernel(ticket, KernelAnswer::Read(parts));
    }

    /// A chunk that a parked read waits for will not come.
    pub(super) fn fail_read(&mut self, ticket: KernelTicket, errno: Errno) {
        if self.pending_reads.remove(&ticket).is_some() {
            self.tell_kernel(ticket, KernelAnswer::Failed(errno));
        }
    }
}

impl<B> PendingRead<B> {
    fn into_parts(self) -> Vec<Part<B>> {
        let part = |PendingPart { body, offset_bytes, len_bytes, .. }: PendingPart<B>| {
            Some(Part { body: body?, offset_bytes, len_bytes })
        };
        self.parts.into_iter().filter_map(part).collect()
    }
}
