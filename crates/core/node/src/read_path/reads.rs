//! Reads: the chunks that the kernel or a peer's bundle needs, gathered from what is here and asked for where it is not.
//!
//! A small file that programs usually read with its neighbours is asked for with them, in one bundle. A bundle is only a
//! way of asking: its files are kept, found and counted as chunks, and where it fails they are asked for one by one.

use forebay_cache::{Key, Object};
use forebay_dispatch::{Source, Waiting};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Extent, Priority, Time, limits};
use forebay_wire::{ReadMessage, Use};

use super::chunks::{Chunk, chunk_bytes_of};
use super::{ReadFinished, ReadPath, Waiter};
use crate::{InodeId, KernelAnswer, KernelTicket, Part, PeerAnswer, PeerTicket, ROOT_INODE};
use forebay_prefetch::{Bundle, suffix_of};

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Reader {
    Kernel(KernelTicket),
    Peer(PeerTicket),
}

/// A read whose chunks have not all arrived.
#[derive(Debug)]
pub(super) struct PendingRead<B> {
    parts: Vec<PendingPart<B>>,
    missing: usize,
    priority: Priority,
}

/// Bytes `offset_bytes..+len_bytes` of a chunk that may be missing.
#[derive(Debug)]
struct PendingPart<B> {
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
        let mut read = PendingRead::new(Priority::Demand);
        let mut wanted = Vec::new();
        for (index, within) in extent.clamped(generation.size_bytes).chunks() {
            let (offset_bytes, len_bytes) = (within.offset_bytes as usize, within.len_bytes as usize);
            let key = Key::Chunk { file: file.clone(), generation, index };
            self.recording.note(self.now, || Use::Chunk { file: file.clone(), generation, index });
            let chunk = self.find_chunk(&key, len_bytes);
            if chunk.is_none() {
                wanted.push((key, read.parts.len()));
            }
            read.push(chunk, offset_bytes, len_bytes);
        }
        let answer = if wanted.is_empty() {
            Some(KernelAnswer::Read(read.into_parts()))
        } else {
            let (reader, slots) = (Reader::Kernel(ticket), read.parts.len());
            self.pending_reads.insert(reader, read);
            let is_here = wanted.len() < slots;
            if is_here || !self.wait_for_parcels(&wanted, deadline, reader) {
                wanted.into_iter().for_each(|(key, slot)| self.ask_chunk(key, deadline, reader, slot));
            }
            None
        };
        if extent.offset_bytes < CHUNK_BYTES {
            self.note_wanted(&Key::Chunk { file, generation, index: ChunkIndex(0) });
        }
        self.read_ahead(deadline, id, extent);
        answer
    }

    /// Answers a peer that asks for a bundle: from what is here, by its parent's bundle, or file by file at the reader
    /// of the backing file system.
    pub(super) fn read_bundle(&mut self, deadline: Time, ticket: PeerTicket, bundle: Bundle, priority: Priority) {
        let Some(members) = bundle.members() else {
            return self.tell_peer(ticket, PeerAnswer::Failed(Errno::ENAMETOOLONG));
        };
        let mut read = PendingRead::new(priority);
        let mut wanted = Vec::new();
        for key in members {
            let chunk = self.find_chunk_for_peer(&key);
            self.note_used(&key);
            let len_bytes = chunk_bytes_of(&key);
            if chunk.is_none() {
                wanted.push((key, read.parts.len()));
            }
            read.push(chunk, 0, len_bytes);
        }
        if wanted.is_empty() {
            return self.tell_peer(ticket, PeerAnswer::Parts(read.into_parts()));
        }
        if self.dispatch.source_of(&bundle.key()) != Source::Backing {
            return self.ask_bundle(&bundle, priority, deadline, Waiter::Peer(ticket));
        }
        let reader = Reader::Peer(ticket);
        self.pending_reads.insert(reader, read);
        wanted.into_iter().for_each(|(key, slot)| self.ask_alone(key, deadline, reader, slot));
    }

    /// Asks for a chunk that a read lacks, with the files beside it where that is usual.
    pub(super) fn ask_chunk(&mut self, key: Key, deadline: Time, reader: Reader, slot: usize) {
        match self.bundle_with(&key) {
            Some((bundle, member)) => {
                self.ask_bundle(&bundle, Priority::Demand, deadline, Waiter::ReadPart { reader, slot, member });
            }
            None => self.ask_alone(key, deadline, reader, slot),
        }
    }

    pub(super) fn ask_alone(&mut self, key: Key, deadline: Time, reader: Reader, slot: usize) {
        if let Key::Chunk { file, generation, index } = key.clone() {
            let request = ReadMessage::Chunk { file, generation, index };
            let priority = self.pending_reads.get(&reader).map_or(Priority::Demand, |read| read.priority);
            let waiter = Waiter::ReadPart { reader, slot, member: 0 };
            self.ask(key, request, priority, deadline, Some(waiter));
        }
    }

    /// Asks for a bundle, or joins who does. A directory keeps its generation when a file in it changes, so others may cut
    /// its bundles differently: one of other files is no answer to this question.
    fn ask_bundle(&mut self, bundle: &Bundle, priority: Priority, deadline: Time, waiter: Waiter) {
        let Some(members) = bundle.members() else { return self.tell_failed(waiter, Errno::ENAMETOOLONG) };
        let under_way = self.dispatch.find(&bundle.key()).and_then(|request| self.dispatch.message(request));
        if under_way.is_some_and(|message| *message != bundle.message()) {
            return self.ask_one_by_one(&members, vec![Waiting { who: waiter, until: deadline }]);
        }
        self.ask(bundle.key(), bundle.message(), priority, deadline, Some(waiter));
    }

    /// The bundle to ask for instead of a chunk, and the chunk's place in it.
    fn bundle_with(&self, key: &Key) -> Option<(Bundle, usize)> {
        let Key::Chunk { file, generation, index: ChunkIndex(0) } = key else { return None };
        let is_asked_alone = self.dispatch.find(key).is_some() || self.dispatch.source_of(key) == Source::Backing;
        if !self.options.prefetch || is_asked_alone || generation.size_bytes > limits::BUNDLE_FILE_BYTES_MAX {
            return None;
        }
        let (dir, name) = file.split()?;
        let Some(Object::Listing(listing)) = self.objects.peek(&Key::Listing { dir: dir.clone() }) else {
            return None;
        };
        let at = listing.find(name)?;
        let is_current = listing.entry(at).attributes?.generation() == *generation;
        if !is_current || !self.habits.is_read_whole(&dir, suffix_of(name)) {
            return None;
        }
        Bundle::around(&dir, listing, at).filter(|(bundle, _)| !self.broken_bundles.contains_key(&bundle.key()))
    }

    /// A bundle's files are asked for one by one, by those who waited for it.
    pub(super) fn take_apart(&mut self, bundle: ReadFinished) {
        let members = Bundle::of(&bundle.message).and_then(|bundle| bundle.members()).unwrap_or_default();
        self.ask_one_by_one(&members, bundle.waiters);
    }

    /// A bundle did not come, and is not tried again.
    pub(super) fn note_broken(&mut self, bundle: Key) {
        if self.broken_bundles.len() >= limits::BROKEN_BUNDLES_MAX {
            self.broken_bundles.clear();
        }
        self.broken_bundles.insert(bundle, ());
    }

    /// Who waits for a bundle's file asks for that alone; a peer that waits for all of them is told to do so.
    pub(super) fn ask_one_by_one(&mut self, members: &[Key], waiters: Vec<Waiting<Waiter>>) {
        for Waiting { who, until } in waiters {
            match who {
                Waiter::ReadPart { reader, slot, member } => match members.get(member) {
                    Some(key) => self.ask_alone(key.clone(), until, reader, slot),
                    None => self.fail_read(reader, Errno::EPROTO),
                },
                Waiter::Peer(_) => self.tell_failed(who, Errno::ESTALE),
                Waiter::Kernel { .. } | Waiter::Prefill(_) => self.tell_failed(who, Errno::EPROTO),
            }
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
            if self.filling.len() + self.dispatch.request_count() >= limits::READ_AHEAD_CHUNKS_UNDER_WAY {
                return self.inodes.get_mut(id).into_iter().for_each(|inode| inode.read_ahead.put_off(index.0));
            }
            let key = Key::Chunk { file: file.clone(), generation, index };
            let is_coming = self.dispatch.find(&key).is_some() || self.parcel_to_come(&key).is_some();
            if !is_coming && !self.has_chunk(&key) {
                let request = ReadMessage::Chunk { file: file.clone(), generation, index };
                self.ask(key, request, Priority::Prefetch, deadline, None);
            }
        }
    }

    /// A program waits for all of a read now, also for what is still to be asked for.
    pub(super) fn promote_read(&mut self, reader: Reader) {
        self.pending_reads.entry(reader).and_modify(|read| read.priority = Priority::Demand);
    }

    /// Whether a read still waits for something.
    pub(super) fn is_pending(&self, reader: Reader) -> bool {
        self.pending_reads.contains_key(&reader)
    }

    /// A chunk that a parked read waits for is here, or at least its first bytes.
    pub(super) fn fill_read(&mut self, reader: Reader, slot: usize, chunk: &Chunk<B>) {
        let Some(read) = self.pending_reads.get_mut(&reader) else { return };
        let part = &mut read.parts[slot];
        if matches!(reader, Reader::Kernel(_)) {
            chunk.take(part.len_bytes);
        }
        // It may have come already, in another body and at another place there.
        if part.body.is_none() {
            part.body = Some(chunk.body.clone());
            part.offset_bytes += chunk.start_bytes;
            read.missing -= 1;
        }
        if read.missing > 0 {
            return;
        }
        let parts = self.pending_reads.remove(&reader).map(PendingRead::into_parts).unwrap_or_default();
        match reader {
            Reader::Kernel(ticket) => self.tell_kernel(ticket, KernelAnswer::Read(parts)),
            Reader::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::Parts(parts)),
        }
    }

    /// A chunk that a parked read waits for will not come.
    pub(super) fn fail_read(&mut self, reader: Reader, errno: Errno) {
        if self.pending_reads.remove(&reader).is_some() {
            match reader {
                Reader::Kernel(ticket) => self.tell_kernel(ticket, KernelAnswer::Failed(errno)),
                Reader::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::Failed(errno)),
            }
        }
    }
}

impl<B> PendingRead<B> {
    fn new(priority: Priority) -> Self {
        Self { parts: Vec::new(), missing: 0, priority }
    }

    /// The next part: bytes of a chunk that is here, or is to be filled in.
    fn push(&mut self, chunk: Option<Chunk<B>>, offset_bytes: usize, len_bytes: usize) {
        self.missing += usize::from(chunk.is_none());
        let start_bytes = chunk.as_ref().map_or(0, |chunk| chunk.start_bytes);
        let body = chunk.map(|chunk| chunk.body);
        self.parts.push(PendingPart { body, offset_bytes: start_bytes + offset_bytes, len_bytes });
    }

    fn into_parts(self) -> Vec<Part<B>> {
        let part = |part: PendingPart<B>| {
            Some(Part { body: part.body?, offset_bytes: part.offset_bytes, len_bytes: part.len_bytes })
        };
        self.parts.into_iter().filter_map(part).collect()
    }
}
