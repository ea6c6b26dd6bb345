//! Reads of the kernel whose chunks have not all arrived.

use forebay_cache::Key;
use forebay_types::{ChunkIndex, Generation, Map, ViewPath};

use crate::chunk::Chunk;
use crate::effect::{KernelTicket, Part};

/// All of them.
pub(crate) struct Reads<B>(Map<KernelTicket, PendingRead<B>>);

/// One read, while its parts are gathered.
#[derive(Debug)]
pub(crate) struct PendingRead<B> {
    file: ViewPath,
    generation: Generation,
    parts: Vec<PendingPart<B>>,
}

/// Bytes `offset_bytes..+len_bytes` of a chunk that may be missing.
#[derive(Debug)]
struct PendingPart<B> {
    index: ChunkIndex,
    body: Option<B>,
    offset_bytes: usize,
    len_bytes: usize,
}

impl<B: Clone> Reads<B> {
    pub fn new() -> Self {
        Self(Map::default())
    }

    /// Lets a read wait for what it lacks.
    pub fn park(&mut self, ticket: KernelTicket, read: PendingRead<B>) {
        self.0.insert(ticket, read);
    }

    /// A chunk that a read waits for is here, or at least its first bytes: all its parts, if it waits for no more.
    pub fn fill(&mut self, ticket: KernelTicket, slot: usize, chunk: &Chunk<B>) -> Option<Vec<Part<B>>> {
        let read = self.0.get_mut(&ticket)?;
        let part = &mut read.parts[slot];
        chunk.take(part.len_bytes);
        part.body = Some(chunk.body.clone());
        if !read.is_complete() {
            return None;
        }
        self.0.remove(&ticket).map(PendingRead::into_parts)
    }

    /// Whether a read waited.
    pub fn remove(&mut self, ticket: KernelTicket) -> bool {
        self.0.remove(&ticket).is_some()
    }

    /// Whether a read that waits has pages of this chunk locked.
    pub fn is_being_read(&self, key: &Key) -> bool {
        let Key::Chunk { file, generation, index } = key else { return false };
        let is_of = |read: &PendingRead<B>| {
            let is_one = |part: &PendingPart<B>| part.index == *index;
            read.generation == *generation && read.parts.iter().any(is_one) && read.file == *file
        };
        self.0.values().any(is_of)
    }
}

impl<B> PendingRead<B> {
    pub fn new(file: ViewPath, generation: Generation) -> Self {
        Self { file, generation, parts: Vec::new() }
    }

    /// The next part: bytes of a chunk that is here, or is to be filled in.
    pub fn push(&mut self, index: ChunkIndex, body: Option<B>, offset_bytes: usize, len_bytes: usize) {
        self.parts.push(PendingPart { index, body, offset_bytes, len_bytes });
    }

    pub fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| part.body.is_some())
    }

    /// Whether nothing of it is here.
    pub fn lacks_all(&self) -> bool {
        self.parts.iter().all(|part| part.body.is_none())
    }

    /// The chunks that it lacks, with their places.
    pub fn missing(&self) -> Vec<(usize, Key)> {
        let lacks = |(_, part): &(usize, &PendingPart<B>)| part.body.is_none();
        let chunk = |(slot, part): (usize, &PendingPart<B>)| {
            (slot, Key::Chunk { file: self.file.clone(), generation: self.generation, index: part.index })
        };
        self.parts.iter().enumerate().filter(lacks).map(chunk).collect()
    }

    pub fn into_parts(self) -> Vec<Part<B>> {
        let part = |PendingPart { body, offset_bytes, len_bytes, .. }: PendingPart<B>| {
            Some(Part { body: body?, offset_bytes, len_bytes })
        };
        self.parts.into_iter().filter_map(part).collect()
    }
}
