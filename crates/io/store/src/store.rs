//! The store's calls: each finds its place in the view and asks the backing file system.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_body::{Body, Pool};
use forebay_types::{ChunkIndex, Errno, FileSystem, Generation, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing};

use crate::backing::Backing;
use crate::calls::Calls;
use crate::counters::Counters;
use crate::descriptors::{Descriptors, affordable};
use crate::directory::Directory;
use crate::error::StoreError;
use crate::inode_numbers::InodeNumbers;
use crate::mounts::{Mounts, Table, absolute};
use crate::namespace::{Namespace, Place};
use crate::permissions::Permissions;
use crate::read_sizes::ReadSizes;
use crate::{ancestors, chunk, listing};

/// The exports of a store, and its limits.
pub struct StoreOptions {
    /// The directories to serve.
    pub exports: Vec<PathBuf>,
    /// Whether other users than this process's enter the view, so that modes must speak for them.
    pub others_enter: bool,
    /// Entries up to which a listing carries attributes (`limits::LISTING_ENTRIES_FULL`).
    pub listing_entries_full: usize,
    /// Descriptors kept open, directories and files each (`limits::BACKING_DESCRIPTORS`); fewer where the process may
    /// not open as many.
    pub descriptors: usize,
    /// Calls at once, at most: each may hold a descriptor beyond those that are kept.
    pub operations_max: usize,
    /// Bytes that a read of a file asks for; as the file system tells if not given.
    pub read_bytes: Option<u64>,
    /// Where the buffers of chunks come from.
    pub pool: Pool,
    /// Forebay's own view mount points and state directories: never shown and never touched.
    pub hidden: Vec<PathBuf>,
}

/// The reader of the backing file system. Calls block: they are made on threads that may.
pub struct Store {
    backing: Backing,
    listing_entries_full: usize,
}

impl Store {
    /// Checks and opens the exports, and raises the process's limit of open files as far as it may.
    ///
    /// # Errors
    /// `StoreError` naming the export and what is wrong with it.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let hidden = options.hidden.iter().filter_map(|path| absolute(path)).collect();
        let mounts = Mounts::open(hidden).map_err(|errno| StoreError::MountTable { errno })?;
        let table = mounts.table().map_err(|errno| StoreError::MountTable { errno })?;
        let calls = Calls::new(Permissions::new(options.others_enter));
        let namespace = Namespace::open(&options.exports, &calls, &table)?;
        let numbers = InodeNumbers::new(namespace.exports().iter().map(|export| (export.device, &export.path)));
        let bound = affordable(options.descriptors, options.operations_max);
        let (directories, files) = (Descriptors::new(bound), Descriptors::new(bound));
        let read_sizes = ReadSizes::new(options.read_bytes);
        let backing = Backing { calls, mounts, numbers, namespace, directories, files, read_sizes, pool: options.pool };
        Ok(Self { backing, listing_entries_full: options.listing_entries_full })
    }

    /// The complete listing of `dir`: with attributes and link targets up to the limit, above it with names, kinds and
    /// inode numbers. An entry whose attributes may not be read or lie on a dead mount is there without them. A
    /// directory that changes while it is listed is listed again, three times in all; the last listing then stands,
    /// as good as any `readdir` of a busy directory, under the generation the directory had before it. Access times
    /// are those before the listing, which updates them where the user does not own the directory, and of links.
    ///
    /// # Errors
    /// As the backing file system gave it; `ENOENT` outside the view.
    pub fn listing(&self, dir: &ViewPath) -> Result<Listing, Errno> {
        self.operation(|table| match self.backing.place(dir, table)? {
            Place::Above(ancestor) => ancestors::listing(&self.backing, dir, ancestor, table),
            Place::Inside(export) => self.backing.in_directory(export, dir, |base| {
                listing::list(&Directory::new(&self.backing, dir, base, table), self.listing_entries_full)
            }),
        })
    }

    /// The attributes of `names` in `dir`, in order; `None` for a name that does not exist.
    ///
    /// # Errors
    /// Of the directory or of any of the names, other than `ENOENT` of a name.
    pub fn page(&self, dir: &ViewPath, names: &[Name]) -> Result<Vec<Option<EntryRecord>>, Errno> {
        self.operation(|table| match self.backing.place(dir, table)? {
            Place::Above(ancestor) => {
                names.iter().map(|name| ancestors::record(&self.backing, dir, ancestor, name, table)).collect()
            }
            Place::Inside(export) => self.backing.in_directory(export, dir, |base| {
                let directory = Directory::new(&self.backing, dir, base, table);
                names.iter().map(|name| directory.record(name.as_bytes())).collect()
            }),
        })
    }

    /// The attributes of `name` in `dir`; `None` when it does not exist.
    ///
    /// # Errors
    /// As `page`.
    pub fn lookup(&self, dir: &ViewPath, name: &Name) -> Result<Option<EntryRecord>, Errno> {
        Ok(self.page(dir, std::slice::from_ref(name))?.pop().flatten())
    }

    /// Reads chunk `index` of the version `generation` of `file`. `started` gets the body once the file is open, and the
    /// body grows by what is read at once (`StoreOptions::read_bytes`); all of it was of that version after it had been read.
    ///
    /// # Errors
    /// `ESTALE` when the file is or becomes another version, `EISDIR` and `EINVAL` for what is no file, else as the
    /// backing file system gave it. A body that was started has failed with the same error.
    pub fn read_chunk(
        &self,
        file: &ViewPath,
        generation: &Generation,
        index: ChunkIndex,
        started: impl FnOnce(Arc<Body>),
    ) -> Result<Arc<Body>, Errno> {
        self.operation(|table| match self.backing.place(file, table)? {
            Place::Above(_) => Err(Errno::EISDIR),
            Place::Inside(export) => {
                let read = chunk::Source::new(&self.backing, export, file, generation, table).read(index, started);
                // A descriptor that failed is not used again: GlusterFS fails for ever what was opened while its server
                // was away.
                read.inspect_err(|_| self.backing.files.forget_one(file))
            }
        })
    }

    /// Reads bytes of the version `generation` of `file`, all of which it has.
    ///
    /// # Errors
    /// As `read_chunk`.
    pub fn read_at(
        &self,
        file: &ViewPath,
        generation: &Generation,
        buffer: &mut [u8],
        offset_bytes: u64,
    ) -> Result<(), Errno> {
        self.operation(|table| match self.backing.place(file, table)? {
            Place::Above(_) => Err(Errno::EISDIR),
            Place::Inside(export) => {
                let source = chunk::Source::new(&self.backing, export, file, generation, table);
                let read = source.read_at(buffer, offset_bytes);
                read.inspect_err(|_| self.backing.files.forget_one(file))
            }
        })
    }

    /// The sizes of the file system that holds `path`; above the exports, which lie on any, those of the first export's.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn file_system(&self, path: &ViewPath) -> Result<FileSystem, Errno> {
        self.operation(|table| {
            match (self.backing.place(path, table)?, self.backing.namespace.fixed(path), path.split()) {
                (Place::Above(_), _, _) => match self.backing.namespace.exports().first() {
                    Some(first) => self.backing.calls.file_system(first.descriptor.as_fd()),
                    None => Err(Errno::ENOENT),
                },
                (_, Some(fixed), _) => self.backing.calls.file_system(fixed.as_fd()),
                (Place::Inside(export), None, Some((dir, name))) => self.backing.in_directory(export, &dir, |base| {
                    let place = self.backing.calls.place(base, name)?;
                    self.backing.calls.file_system(place.as_fd())
                }),
                _ => Err(Errno::ENOENT),
            }
        })
    }

    /// Forgets all descriptors that are kept for later use: what is asked from now on is opened anew. Dropping what is
    /// returned closes them, which may block as long as the backing file system hangs.
    #[must_use = "closing may block"]
    pub fn forget(&self) -> impl Send + use<> {
        (self.backing.files.forget(), self.backing.directories.forget())
    }

    /// Requests to the backing file system so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.backing.calls.tally.snapshot()
    }

    /// Errors among them, by kind.
    #[must_use]
    pub fn errors_by_kind(&self) -> Vec<(Errno, u64)> {
        self.backing.calls.tally.errors_by_kind()
    }

    /// The exports, symbolic links resolved, those within others left out.
    #[must_use]
    pub fn exports(&self) -> &[ViewPath] {
        self.backing.namespace.paths()
    }

    /// One operation: counts its error.
    fn operation<T>(&self, act: impl FnOnce(&Table) -> Result<T, Errno>) -> Result<T, Errno> {
        let outcome = self.backing.mounts.table().and_then(|table| act(&table));
        self.backing.calls.tally.outcome(outcome)
    }
}
