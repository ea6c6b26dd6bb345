//! The exports, as one life of a node reads them: in memory, with errors when it is their time.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use forebay_body::Body;
use forebay_cache::Key;
use forebay_daemon::environment::Exports;
use forebay_read::tree_of;
use forebay_store::Counters;
use forebay_transport::life::Life;
use forebay_types::{ChunkIndex, Errno, FileSystem, Generation, Name, PIECE_BYTES, ViewPath};
use forebay_wire::{EntryRecord, Listing};

use crate::NodeIndex;
use crate::contents;
use crate::model::Model;
use crate::reached::Reach;
use crate::troubles::Failure;
use crate::world::World;

/// The exports of one life of a node.
pub(crate) struct NodeExports {
    world: Arc<World>,
    reader: (NodeIndex, u32),
    life: Life,
    direct_above_bytes: Option<u64>,
    counters: Mutex<Counters>,
}

impl NodeExports {
    pub fn new(world: &Arc<World>, reader: (NodeIndex, u32), life: &Life, direct_above_bytes: Option<u64>) -> Self {
        Self { world: Arc::clone(world), reader, life: life.clone(), direct_above_bytes, counters: Mutex::default() }
    }

    fn fail_sometimes(&self, key: &Key) -> Result<(), Errno> {
        let at = self.world.now();
        let mut state = self.world.state();
        let (percent, until) = state.backing_fails;
        if at >= until || state.random.below(100) >= percent {
            return Ok(());
        }
        let tree = tree_of(&self.world.forest, key);
        state.troubles.add_failure(Failure { at, reader: self.reader.0, about: key.path().clone(), tree });
        Err(Errno::EIO)
    }

    fn with_model<T>(&self, ask: impl FnOnce(&Model) -> T) -> T {
        ask(&self.world.state().history.now)
    }

    fn note(&self, what: String, key: &Key) {
        self.world.note(|| format!("node {} is told by the backing file system: {what}", self.reader.0));
        self.world.note_asked(what, key, self.reader);
    }

    fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Exports for NodeExports {
    fn listing(&self, dir: &ViewPath) -> Result<Listing, Errno> {
        let key = Key::Listing { dir: dir.clone() };
        self.fail_sometimes(&key)?;
        let listing = self.with_model(|model| model.listing(dir))?;
        self.count(|counters| counters.listings += 1);
        self.note(format!("Listing of {dir}"), &key);
        Ok(listing)
    }

    fn page(&self, dir: &ViewPath, names: &[Name]) -> Result<Vec<Option<EntryRecord>>, Errno> {
        let key = Key::Listing { dir: dir.clone() };
        self.fail_sometimes(&key)?;
        let records =
            self.with_model(|model| names.iter().map(|name| model.record(dir, name)).collect::<Result<_, _>>())?;
        self.note(format!("Page of {dir}: {names:?}"), &key);
        Ok(records)
    }

    fn lookup(&self, dir: &ViewPath, name: &Name) -> Result<Option<EntryRecord>, Errno> {
        let key = Key::Listing { dir: dir.clone() };
        self.fail_sometimes(&key)?;
        let record = self.with_model(|model| model.record(dir, name))?;
        // A file that turns out to have changed is asked for once more, by every node that had been told of it.
        let path = dir.join(name.as_bytes());
        if path.is_ok_and(|path| !self.world.state().history.has_changed(&path)) {
            self.note(format!("Lookup of {name:?} in {dir}"), &key);
        }
        Ok(record)
    }

    fn file_system(&self, path: &ViewPath) -> Result<FileSystem, Errno> {
        self.fail_sometimes(&Key::FileSystem { path: path.clone() })?;
        Ok(FileSystem { blocks: 7, ..FileSystem::default() })
    }

    fn read_chunk(
        &self,
        file: &ViewPath,
        generation: &Generation,
        index: ChunkIndex,
        started: &mut dyn FnMut(Arc<Body>),
    ) -> Result<(), Errno> {
        let key = Key::Chunk { file: file.clone(), generation: *generation, index };
        self.fail_sometimes(&key)?;
        if self.with_model(|model| model.generation(file))? != *generation {
            return Err(Errno::ESTALE);
        }
        if self.direct_above_bytes.is_some_and(|limit| generation.size_bytes > limit) {
            self.world.note_reached(Reach::DirectChunk);
        }
        self.note(contents::chunk_name(file, generation, index), &key);
        self.count(|counters| counters.reads += 1);
        let bytes = contents::chunk(generation, index);
        let body = Body::filling(bytes.len());
        started(Arc::clone(&body));
        tokio::spawn(self.life.gate(fill(Arc::clone(&self.world), file.clone(), body, bytes)));
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
async fn fill(world: Arc<World>, file: ViewPath, body: Arc<Body>, mut bytes: Bytes) {
    while !bytes.is_empty() {
        body.push(bytes.split_to(bytes.len().min(PIECE_BYTES)));
        tokio::time::sleep(world.latency() / 10).await;
        let until = world.state().troubles.hangs_until(&file);
        tokio::time::sleep_until(world.instant(until)).await;
    }
}
