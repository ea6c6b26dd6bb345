//! A file that this node can read: a device's own, the backing file system's, what is kept, or one of the burst tier.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{anyhow, bail};
use bytes::Bytes;
use forebay_body::Body;
use forebay_offload::files::Contents;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Generation, ViewPath};
use forebay_wire::ReadMessage;

use crate::environment::Exports;
use crate::read::ReadParts;
use crate::shared::node::Node;
use crate::write::CommittedFile;

/// Chunks that are held while blocks are read one after the other: the end of a block is where the next begins.
const HELD_CHUNKS: usize = 6;

/// How often it is looked whether anybody still waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Where bytes come from.
pub enum Way {
    /// Read here.
    Exports(Arc<dyn Exports>),
    /// As programs get them: from what is kept, else over the trees.
    View(Arc<ReadParts>),
    /// From the logs of nodes, this one's first of all.
    Burst(Arc<Node>, CommittedFile),
}

/// A file in one generation.
pub struct HeldFile {
    way: Way,
    file: ViewPath,
    generation: Generation,
    is_given_up: Arc<AtomicBool>,
    held: Mutex<VecDeque<(ChunkIndex, Arc<Body>)>>,
}

impl HeldFile {
    pub fn new(way: Way, file: ViewPath, generation: Generation, is_given_up: Arc<AtomicBool>) -> Self {
        Self { way, file, generation, is_given_up, held: Mutex::default() }
    }

    /// A chunk that was read before, or is read by `read` now.
    fn chunk(
        &self,
        index: ChunkIndex,
        read: impl Fn(ChunkIndex) -> anyhow::Result<Arc<Body>>,
    ) -> anyhow::Result<Arc<Body>> {
        let held = || self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, body)) = held().iter().find(|(other, _)| *other == index) {
            return Ok(Arc::clone(body));
        }
        let body = read(index)?;
        let mut held = held();
        held.truncate(HELD_CHUNKS - 1);
        held.push_front((index, Arc::clone(&body)));
        Ok(body)
    }

    /// Fills a buffer from chunks.
    fn by_chunks(
        &self,
        mut buffer: &mut [u8],
        mut offset: u64,
        read: impl Fn(ChunkIndex) -> anyhow::Result<Arc<Body>>,
    ) -> anyhow::Result<()> {
        while !buffer.is_empty() {
            let index = ChunkIndex::of(offset);
            let from = (offset - index.start_bytes()) as usize;
            let len = buffer.len().min(CHUNK_BYTES as usize - from);
            let slices = self.chunk(index, &read)?.slices(from, len);
            let there: usize = slices.iter().map(Bytes::len).sum();
            if there < len {
                return Err(failed(Errno::ESTALE));
            }
            for slice in &slices {
                let (to, rest) = buffer.split_at_mut(slice.len());
                to.copy_from_slice(slice);
                buffer = rest;
            }
            offset += len as u64;
        }
        Ok(())
    }

    /// A chunk of a file of the burst tier.
    fn chunk_of_logs(&self, node: &Node, file: &CommittedFile, index: ChunkIndex) -> anyhow::Result<Arc<Body>> {
        let len = (self.generation.size_bytes - index.start_bytes()).min(CHUNK_BYTES);
        let read = node.wait_for(file.read(index.start_bytes(), len as usize));
        Ok(Body::whole(Bytes::from(read.map_err(failed)?)))
    }

    /// Waits for the answer on this thread, which may block.
    fn chunk_of_view(&self, read: &Arc<ReadParts>, index: ChunkIndex) -> anyhow::Result<Arc<Body>> {
        let (sender, answered) = sync_channel(1);
        let (parts, file, generation) = (Arc::clone(read), self.file.clone(), self.generation);
        read.spawn(async move {
            // The reader may have given up.
            drop(sender.send(parts.own.chunk(ReadMessage::Chunk { file, generation, index }).await));
        });
        loop {
            match answered.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return answer.map_err(failed),
                Err(RecvTimeoutError::Timeout) if !self.is_given_up.load(Ordering::Relaxed) => {}
                Err(_) => bail!("it was cancelled"),
            }
        }
    }
}

fn failed(errno: Errno) -> anyhow::Error {
    anyhow!(errno)
}

impl Contents for HeldFile {
    fn bytes(&self) -> u64 {
        self.generation.size_bytes
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> anyhow::Result<()> {
        match &self.way {
            // A block begins and ends within chunks, whose other bytes need not be read.
            Way::Exports(exports) => exports.read_at(&self.file, &self.generation, buffer, offset).map_err(failed),
            Way::View(read) => self.by_chunks(buffer, offset, |index| self.chunk_of_view(read, index)),
            Way::Burst(node, file) => self.by_chunks(buffer, offset, |index| self.chunk_of_logs(node, file, index)),
        }
    }

    /// All bytes were of this generation when they were read.
    fn check(&self) -> anyhow::Result<()> {
        Ok(())
    }
}
