//! The kernel's requests. The chunks of a read are gathered from what is here and asked for where they are not.
//!
//! A small file that programs usually read with its neighbours is asked for together with them: each by a request of its
//! own, all in one message (`bundles`).

use forebay_cache::Key;
use forebay_dispatch::{HoldId, Source, Wanted};
use forebay_prefetch::neighbours;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Extent, Priority, Time, limits};
use forebay_wire::{ListingEntry, Use};

use super::state::ReadPath;
use crate::effect::{Entry, KernelAnswer, KernelRequest, KernelTicket};
use crate::inode_id::{InodeId, ROOT_INODE};
use crate::links::shown_attributes;
use crate::names::Known;
use crate::reads::PendingRead;
use crate::waiter::{Reader, Waiter};

impl<B: Clone> ReadPath<B> {
    /// Answers a request of the kernel at once, or `None`: the answer comes as an effect under `ticket`.
    pub fn handle_kernel(
        &mut self,
        now: Time,
        ticket: KernelTicket,
        request: KernelRequest,
    ) -> Option<KernelAnswer<B>> {
        self.now = now;
        match request {
            KernelRequest::Read { inode, extent } => self.read(now.after(self.options.deadline), ticket, inode, extent),
            _ => match self.operation_of(request) {
                Ok(operation) => self.attempt(now, ticket, operation, Known::default()),
                Err(errno) => Some(KernelAnswer::Failed(errno)),
            },
        }
    }

    /// Takes a request of the process that looks at the view for this node: as a program's, but it is no use.
    pub fn handle_walker(
        &mut self,
        now: Time,
        ticket: KernelTicket,
        request: KernelRequest,
    ) -> Option<KernelAnswer<B>> {
        self.recording.pause(true);
        let answer = self.handle_kernel(now, ticket, request);
        self.recording.pause(false);
        answer
    }

    /// The kernel's caller is being killed: answers `EINTR` if the request still waits here. `false` if it does not.
    pub fn handle_interrupt(&mut self, ticket: KernelTicket) -> bool {
        let waited = self.withdraw(Reader::Kernel(ticket));
        if waited {
            self.tell_kernel(ticket, KernelAnswer::Failed(Errno::EINTR));
        }
        waited
    }

    /// The kernel forgot `count` lookups of an inode.
    pub fn handle_forget(&mut self, inode: InodeId, count: u64) {
        self.inodes.forget(inode, count);
    }

    /// Counts a lookup of an entry that is about to be told to the kernel with a directory's contents. `None` when the
    /// listing came without attributes or the path would be too long: the kernel will look it up.
    pub fn remember_entry(&mut self, dir: InodeId, entry: &ListingEntry<'_>) -> Option<Entry> {
        let attributes = entry.attributes?;
        let path = self.inodes.get(dir)?.path.join(entry.name).ok()?;
        let attributes = shown_attributes(self.options.links.as_ref(), attributes, entry.target);
        Some(Entry { inode: self.inodes.remember(path, &attributes), attributes })
    }

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

    fn read(&mut self, deadline: Time, ticket: KernelTicket, id: InodeId, extent: Extent) -> Option<KernelAnswer<B>> {
        let Some(inode) = self.inodes.get(id).filter(|_| id != ROOT_INODE) else {
            return Some(KernelAnswer::Failed(Errno::ESTALE));
        };
        let (file, generation) = (inode.path.clone(), inode.generation);
        let mut read = PendingRead::new(file.clone(), generation);
        for (index, within) in extent.clamped(generation.size_bytes).chunks() {
            let (offset_bytes, len_bytes) = (within.offset_bytes as usize, within.len_bytes as usize);
            let key = Key::Chunk { file: file.clone(), generation, index };
            self.recording.note(self.now, || Use::Chunk { file: file.clone(), generation, index });
            let chunk = self.kept.chunk_for_kernel(self.dispatch.routing(), &key, len_bytes);
            read.push(index, chunk.map(|chunk| chunk.body), offset_bytes, len_bytes);
        }
        let answer = if read.is_complete() {
            Some(KernelAnswer::Read(read.into_parts()))
        } else {
            self.park_read(deadline, ticket, read);
            None
        };
        if extent.offset_bytes < CHUNK_BYTES {
            self.note_wanted(&Key::Chunk { file, generation, index: ChunkIndex(0) });
        }
        self.read_ahead(deadline, id, extent);
        answer
    }

    /// Lets a read wait for the chunks that it lacks.
    fn park_read(&mut self, deadline: Time, ticket: KernelTicket, read: PendingRead<B>) {
        let (missing, lacks_all) = (read.missing(), read.lacks_all());
        self.reads.park(ticket, read);
        let parcels = if lacks_all { self.wait_for_parcels(&missing) } else { Vec::new() };
        let mut parcels = parcels.into_iter();
        for (slot, key) in missing {
            self.ask_chunk(key, deadline, Waiter::ReadPart { ticket, slot }, parcels.next());
        }
    }

    /// Asks for a chunk that a read lacks: after the parcel that may bring it, or now, with the files beside it where that
    /// is usual.
    fn ask_chunk(&mut self, key: Key, deadline: Time, waiter: Waiter, after: Option<HoldId>) {
        let Some(message) = key.message() else { return };
        let (priority, waiter) = (Priority::Demand, Some(waiter));
        if let Some(parcel) = after {
            self.ask_held(key, message, Wanted { priority, deadline, waiter, holds: vec![parcel], is_alone: false });
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
        let Some((dir, name)) = file.split().filter(|_| !is_alone) else { return Vec::new() };
        if self.dispatch.source_of(self.now, key) == Source::Backing || !self.prefetches.are_read_whole(&dir, name) {
            return Vec::new();
        }
        let Some(listing) = self.kept.peek_listing(&dir) else { return Vec::new() };
        listing.find(name).map_or_else(Vec::new, |at| neighbours(&dir, listing, at))
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
        self.kept.filling().chain(requested).filter(is_large).take(limits::READ_AHEAD_CHUNKS_UNDER_WAY).count()
    }
}
