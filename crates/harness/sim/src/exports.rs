//! The exports, as one life of a node reads them: in memory, with errors when it is their time.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use forebay_body::Body;
use forebay_cache::Key;
use forebay_daemon::environment::Exports;
use forebay_node::placement;
use forebay_store::Counters;
use forebay_transport::life::Life;
use forebay_types::{ChunkIndex, Errno, FileSystem, Generation, Name, PIECE_BYTES, ViewPath};
use forebay_wire::{EntryRecord, Listing};

use crate::NodeIndex;
use crate::contents;
use crate::world::World;

/// The exports of one life of a node.
pub(crate) struct NodeExports {
    world: Arc<World>,
    reader: (NodeIndex, u32),
    life: Life,
    counters: Mutex<Counters>,
}

impl NodeExports {
    pub fn new(world: &Arc<World>, reader: (NodeIndex, u32), life: &Life) -> Self {
        Self { world: Arc::clone(world), reader, life: life.clone(), counters: Mutex::default() }
    }

    fn fail_sometimes(&self) -> Result<(), Errno> {
        let now = self.world.now();
        let mut state = self.world.state();
        let (percent, until) = state.backing_fails;
        if now < until && state.random.below(100) < percent { Err(Errno::EIO) } else { Ok(()) }
    }

    fn note(&self, what: String, key: &Key) {
        self.world.note(|| format!("node {} is told by the backing file system: {what}", self.reader.0));
        self.world.note_asked(what, placement(key), self.reader);
    }

    fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Exports for NodeExports {
    fn listing(&self, dir: &ViewPath) -> Result<Listing, Errno> {
        self.fail_sometimes()?;
        let listing = self.world.model.listing(dir, &self.world.state().versions)?;
        self.count(|counters| counters.listings += 1);
        self.note(format!("Listing of {dir}"), &Key::Listing { dir: dir.clone() });
        Ok(listing)
    }

    fn page(&self, dir: &ViewPath, names: &[Name]) -> Result<Vec<Option<EntryRecord>>, Errno> {
        self.fail_sometimes()?;
        let record = |name| self.world.model.record(dir, name, &self.world.state().versions);
        let records = names.iter().map(record).collect();
        self.note(format!("Page of {dir}: {names:?}"), &Key::Listing { dir: dir.clone() });
        Ok(records)
    }

    fn lookup(&self, dir: &ViewPath, name: &Name) -> Result<Option<EntryRecord>, Errno> {
        self.fail_sometimes()?;
        let record = self.world.model.record(dir, name, &self.world.state().versions);
        // A file that turns out to have changed is asked for once more, by every node that had been told of it.
        let has_changed = record.as_ref().is_some_and(|record| record.attributes.mtime.seconds > 0);
        if !has_changed {
            self.note(format!("Lookup of {name:?} in {dir}"), &Key::Listing { dir: dir.clone() });
        }
        Ok(record)
    }

    fn file_system(&self, _: &ViewPath) -> Result<FileSystem, Errno> {
        self.fail_sometimes()?;
        Ok(FileSystem { blocks: 7, ..FileSystem::default() })
    }

    fn read_chunk(
        &self,
        file: &ViewPath,
        generation: &Generation,
        index: ChunkIndex,
        started: &mut dyn FnMut(Arc<Body>),
    ) -> Result<(), Errno> {
        self.fail_sometimes()?;
        if self.world.model.generation(file, &self.world.state().versions) != Some(*generation) {
            return Err(Errno::ESTALE);
        }
        let key = Key::Chunk { file: file.clone(), generation: *generation, index };
        self.note(contents::chunk_name(file, generation, index), &key);
        self.count(|counters| counters.reads += 1);
        let bytes = contents::chunk(file, generation, index);
        let body = Body::filling(bytes.len());
        started(Arc::clone(&body));
        tokio::spawn(self.life.gate(fill(Arc::clone(&self.world), body, bytes)));
        Ok(())
    }

    fn forget(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }

    fn counters(&self) -> Counters {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes come piece by piece, and wait while the backing file system hangs.
async fn fill(world: Arc<World>, body: Arc<Body>, mut bytes: Bytes) {
    while !bytes.is_empty() {
        body.push(bytes.split_to(bytes.len().min(PIECE_BYTES)));
        tokio::time::sleep(world.latency() / 10).await;
        let until = world.state().backing_hangs_until;
        tokio::time::sleep_until(world.instant(until)).await;
    }
}
