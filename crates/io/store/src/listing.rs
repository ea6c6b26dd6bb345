//! A complete listing of a directory: one open, `getdents`, and a `statx` for each entry while its batch is fresh.
//!
//! Network file systems that answer a directory read with attributes (readdirplus) keep them for a moment, so the
//! `statx` of an entry right after its batch costs no request of its own. Above the limit a listing drops what
//! attributes it has and asks for no more: most programs never look at them in a directory that large. A listing is
//! taken as proof of absence, so any error that could hide an entry fails it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use forebay_types::{Attributes, Errno, Kind, limits};
use forebay_wire::{Listing, ListingBuilder, ListingEntry, WireError};
use rustix::fs::{FileType, RawDir, RawDirEntry, SeekFrom, seek};

use crate::calls::errno;
use crate::counters::Tally;
use crate::directory::Directory;
use crate::inode_numbers::Salt;

/// Bytes of one `getdents`. Network file systems fetch as much at a time as they are asked for, up to their own limit.
const BATCH_BYTES: usize = 64 << 10;

/// Times a directory that changes meanwhile is listed. A program that writes into a directory all the time must not keep its
/// readers from it. A set of files that is renamed into place is seen whole.
const ATTEMPTS: usize = 3;

/// Lists `directory`, with attributes up to `entries_full` entries.
pub(crate) fn list(directory: &Directory<'_>, entries_full: usize) -> Result<Listing, Errno> {
    let calls = &directory.backing.calls;
    let open = calls.listable(directory.base)?;
    let mut attempt = 1;
    loop {
        let before = calls.stat_open(open.as_fd())?;
        directory.check_shown(before.device)?;
        let salt = directory.salt(before.device, None);
        let entries = collect(directory, &open, salt, entries_full)?;
        let after = calls.stat_generation(open.as_fd())?;
        if after.attributes.generation() == before.attributes.generation() || attempt == ATTEMPTS {
            return entries.finish(&salt.attributes(&before));
        }
        attempt += 1;
        seek(&open, SeekFrom::Start(0)).map_err(errno)?;
    }
}

fn collect(directory: &Directory<'_>, open: &OwnedFd, salt: Salt, entries_full: usize) -> Result<Entries, Errno> {
    Tally::one(&directory.backing.calls.tally.listings);
    let mut buffer = vec![MaybeUninit::uninit(); BATCH_BYTES];
    let mut raw = RawDir::new(open, &mut buffer);
    let mut entries = Entries::Full(Vec::new());
    while let Some(next) = raw.next() {
        let next = match next {
            Err(rustix::io::Errno::INTR) => continue,
            next => next.map_err(errno)?,
        };
        let name = next.file_name().to_bytes();
        if matches!(name, b"." | b"..") || directory.hides(name) {
            continue;
        }
        entries.add(directory, &next, salt)?;
        entries.respect(entries_full)?;
    }
    Ok(entries)
}

/// Collected entries: with attributes, or only names.
enum Entries {
    Full(Vec<Entry>),
    Names(ListingBuilder),
}

struct Entry {
    name: Box<[u8]>,
    kind: Kind,
    ino: u64,
    attributes: Option<Attributes>,
    target: Vec<u8>,
}

impl Entries {
    fn add(&mut self, directory: &Directory<'_>, raw: &RawDirEntry<'_>, salt: Salt) -> Result<(), Errno> {
        let name = raw.file_name().to_bytes();
        match self {
            Self::Full(entries) => entries.extend(full_entry(directory, raw, salt)?),
            Self::Names(builder) => {
                let kind = kind_of(raw.file_type());
                let entry = match kind {
                    Some(kind) if !directory.is_mount_point(name) => Some(Entry::bare(name, kind, salt, raw.ino())),
                    _ => full_entry(directory, raw, salt)?,
                };
                if let Some(entry) = entry {
                    entry.push_bare(builder)?;
                }
            }
        }
        Ok(())
    }

    /// Goes on with names alone once there are more than `entries_full` entries.
    fn respect(&mut self, entries_full: usize) -> Result<(), Errno> {
        if let Self::Full(entries) = self
            && entries.len() > entries_full
        {
            let mut builder = ListingBuilder::new();
            std::mem::take(entries).iter().try_for_each(|entry| entry.push_bare(&mut builder))?;
            *self = Self::Names(builder);
        }
        Ok(())
    }

    fn finish(self, directory: &Attributes) -> Result<Listing, Errno> {
        let builder = match self {
            Self::Names(builder) => builder,
            Self::Full(entries) => {
                let mut builder = ListingBuilder::new();
                for Entry { name, kind, ino, attributes, target } in &entries {
                    let (kind, ino, attributes) = (*kind, *ino, *attributes);
                    builder.push(ListingEntry { name, kind, ino, attributes, target }).map_err(refused)?;
                }
                builder
            }
        };
        builder.finish(directory).map_err(refused)
    }
}

impl Entry {
    /// As the directory itself tells of it.
    fn bare(name: &[u8], kind: Kind, salt: Salt, ino: u64) -> Self {
        Self { name: name.into(), kind, ino: salt.number(ino), attributes: None, target: Vec::new() }
    }

    fn push_bare(&self, builder: &mut ListingBuilder) -> Result<(), Errno> {
        let Self { name, kind, ino, .. } = self;
        let entry = ListingEntry { name, kind: *kind, ino: *ino, attributes: None, target: &[] };
        builder.push(entry).map_err(refused)
    }
}

/// The entry with its attributes; `None` when it has vanished since the directory was read. One that may not be asked
/// about (`EACCES`), or on whose mount nobody answers any more (`ENOTCONN`), is there all the same: who asks for its
/// attributes gets that error.
fn full_entry(directory: &Directory<'_>, raw: &RawDirEntry<'_>, salt: Salt) -> Result<Option<Entry>, Errno> {
    let name = raw.file_name().to_bytes();
    match directory.record(name) {
        Ok(record) => Ok(record.map(|record| Entry {
            name: name.into(),
            kind: record.attributes.kind(),
            ino: record.attributes.ino,
            attributes: Some(record.attributes),
            target: record.target,
        })),
        Err(Errno::EACCES | Errno::ENOTCONN) => {
            let kind = kind_of(raw.file_type()).unwrap_or(Kind::File);
            Ok(Some(Entry::bare(name, kind, salt, raw.ino())))
        }
        Err(errno) => Err(errno),
    }
}

fn kind_of(file_type: FileType) -> Option<Kind> {
    Some(match file_type {
        FileType::Fifo => Kind::Fifo,
        FileType::CharacterDevice => Kind::CharacterDevice,
        FileType::Directory => Kind::Directory,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Symlink,
        FileType::Socket => Kind::Socket,
        FileType::Unknown => return None,
    })
}

/// The error for a directory that cannot be encoded: too large, or with names that no file system may have.
pub(crate) fn refused(error: WireError) -> Errno {
    tracing::warn!(%error, entries_max = limits::LISTING_ENTRIES_MAX, "a directory cannot be listed");
    Errno::EOVERFLOW
}
