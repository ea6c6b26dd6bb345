//! The exports, with the time that each call on them takes.

use std::any::Any;
use std::sync::Arc;

use forebay_body::Body;
use forebay_latency::{Guard, Register};
use forebay_store::Counters;
use forebay_types::{ChunkIndex, Errno, FileSystem, Generation, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing};

use crate::environment::Exports;

/// Calls that wait for their turn are not begun yet: only the time of the backing file system is recorded.
pub struct TimedExports {
    pub exports: Arc<dyn Exports>,
    pub latencies: Arc<Register>,
}

impl TimedExports {
    fn timed<T>(&self, kind: &'static str, path: &ViewPath, call: impl FnOnce(&dyn Exports) -> T) -> T {
        let recorded: Guard<'_> = self.latencies.guard(kind);
        let outcome = call(&*self.exports);
        recorded.done_at(|| path.to_string());
        outcome
    }
}

impl Exports for TimedExports {
    fn listing(&self, dir: &ViewPath) -> Result<Listing, Errno> {
        self.timed("listing", dir, |exports| exports.listing(dir))
    }

    fn page(&self, dir: &ViewPath, names: &[Name]) -> Result<Vec<Option<EntryRecord>>, Errno> {
        self.timed("page", dir, |exports| exports.page(dir, names))
    }

    fn lookup(&self, dir: &ViewPath, name: &Name) -> Result<Option<EntryRecord>, Errno> {
        self.timed("lookup", dir, |exports| exports.lookup(dir, name))
    }

    fn file_system(&self, path: &ViewPath) -> Result<FileSystem, Errno> {
        self.timed("statfs", path, |exports| exports.file_system(path))
    }

    fn read_chunk(
        &self,
        file: &ViewPath,
        generation: &Generation,
        index: ChunkIndex,
        started: &mut dyn FnMut(Arc<Body>),
    ) -> Result<(), Errno> {
        self.timed("read", file, |exports| exports.read_chunk(file, generation, index, started))
    }

    fn read_at(&self, file: &ViewPath, generation: &Generation, buffer: &mut [u8], offset: u64) -> Result<(), Errno> {
        self.timed("read", file, |exports| exports.read_at(file, generation, buffer, offset))
    }

    fn forget(&self) -> Box<dyn Any + Send> {
        self.exports.forget()
    }

    fn counters(&self) -> Counters {
        self.exports.counters()
    }

    fn errors_by_kind(&self) -> Vec<(Errno, u64)> {
        self.exports.errors_by_kind()
    }
}
