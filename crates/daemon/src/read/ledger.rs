//! The inodes that the kernel knows of, in memory that outlives the daemon.
//!
//! A table of records in place, not a log: an inode that is looked up again or forgotten costs one store of a word, and
//! nothing is ever compacted. The memory is cut into blocks, each block into slots of one size, so that the next daemon
//! finds all records by walking over it. A record becomes valid by its number, which is stored last, and invalid by
//! zero; the daemon may be killed between any two stores.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use forebay_fuse::{SharedMemory, shared_memory_bytes};
use forebay_read::{InodeId, InodeLedger, KnownInode, LedgerContents, LedgerPlace};
use forebay_types::{Generation, Kind, Timestamp, ViewPath, limits};

/// Memory for the inodes that the kernel knows, bytes: some ten million, whose kernel memory is ten times as much.
const LEDGER_BYTES_MAX: usize = 4 << 30;

/// The first word: which layout this is. Another number after every change, so that a daemon of another version refuses.
const LAYOUT: u64 = 0x4642_4c45_4447_0001;

/// Where the lowest number that was never given stands.
const NEXT_AT: usize = 8;

/// Memory is given to slots of one size by the block; the first one holds the head.
const BLOCK_BYTES: usize = 64 << 10;

/// Before a block's slots: their size, 0 for a block that is not in use.
const BLOCK_HEAD_BYTES: usize = 64;

/// Slots are multiples of this.
const GRAIN_BYTES: usize = 64;

/// Before a record's path: number, lookups, the generation in five words, then kind and length of the path.
const RECORD_HEAD_BYTES: usize = 64;

/// The slots of a record with the longest path, in grains.
const GRAINS_MAX: usize = (RECORD_HEAD_BYTES + limits::PATH_BYTES_MAX).div_ceil(GRAIN_BYTES);

/// The table.
pub struct Ledger {
    memory: SharedMemory,
    /// Free slots by their size in grains.
    free: Vec<Vec<usize>>,
    /// Where the first block begins that is not in use.
    end: usize,
    /// Said once that there is no room.
    is_full: bool,
}

impl Ledger {
    /// Takes the memory over that the keeper holds, with what is in it.
    ///
    /// # Errors
    /// `InvalidData` when it is that of another version, else what mapping it says.
    pub fn open(descriptor: OwnedFd) -> io::Result<(Self, LedgerContents)> {
        let len = shared_memory_bytes(descriptor.as_fd())?;
        let memory = SharedMemory::map(descriptor, 0, len)?;
        match memory.word(0) {
            0 => memory.set_word(0, LAYOUT),
            LAYOUT => {}
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "the recorded inodes are of another version")),
        }
        let mut ledger = Self { memory, free: vec![Vec::new(); GRAINS_MAX + 1], end: BLOCK_BYTES, is_full: false };
        let mut contents = LedgerContents { inodes: Vec::new(), next: ledger.memory.word(NEXT_AT) };
        while ledger.end + BLOCK_BYTES <= ledger.memory.len() {
            let slot_bytes = ledger.memory.word(ledger.end) as usize;
            if slot_bytes == 0 {
                break;
            }
            ledger.walk(ledger.end, slot_bytes, &mut contents)?;
            ledger.end += BLOCK_BYTES;
        }
        Ok((ledger, contents))
    }

    /// Reads a block's records.
    fn walk(&mut self, block: usize, slot_bytes: usize, contents: &mut LedgerContents) -> io::Result<()> {
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "the recorded inodes are corrupt");
        let grains = slot_bytes / GRAIN_BYTES;
        if !slot_bytes.is_multiple_of(GRAIN_BYTES) || grains > GRAINS_MAX {
            return Err(broken());
        }
        for slot in slots_of(block, slot_bytes) {
            if self.memory.word(slot) == 0 {
                self.free[grains].push(slot);
            } else {
                let inode = self.read(slot, slot_bytes).ok_or_else(broken)?;
                contents.inodes.push((inode, LedgerPlace(slot as u64)));
            }
        }
        Ok(())
    }

    fn read(&mut self, slot: usize, slot_bytes: usize) -> Option<KnownInode> {
        let record = self.memory.bytes().get(slot..slot + slot_bytes)?;
        let word =
            |index: usize| record.get(8 * index..).and_then(<[u8]>::first_chunk).map(|word| u64::from_ne_bytes(*word));
        let (nanos, last) = (word(6)?, word(7)?);
        let time = |seconds: u64, nanos: u64| Timestamp { seconds: seconds.cast_signed(), nanos: nanos as u32 };
        let generation = Generation {
            ino: word(2)?,
            size_bytes: word(3)?,
            mtime: time(word(4)?, nanos & u64::from(u32::MAX)),
            ctime: time(word(5)?, nanos >> 32),
        };
        let path_bytes = (last >> 8) as usize;
        let path = record.get(RECORD_HEAD_BYTES..RECORD_HEAD_BYTES.checked_add(path_bytes)?)?;
        let kind = Kind::from_dirent((last & 0xff) as u8)?;
        Some(KnownInode { id: InodeId(word(0)?), path: ViewPath::new(path).ok()?, generation, kind, lookups: word(1)? })
    }

    /// A free slot of so many grains.
    fn slot(&mut self, grains: usize) -> io::Result<usize> {
        if let Some(slot) = self.free[grains].pop() {
            return Ok(slot);
        }
        let len = self.memory.len();
        if self.end + BLOCK_BYTES > len {
            if len >= LEDGER_BYTES_MAX {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.memory.grow(2 * len)?;
        }
        let (block, slot_bytes) = (self.end, grains * GRAIN_BYTES);
        self.memory.set_word(block, slot_bytes as u64);
        self.end += BLOCK_BYTES;
        self.free[grains].extend(slots_of(block, slot_bytes).rev());
        self.free[grains].pop().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

/// Where the slots of a block begin.
fn slots_of(block: usize, slot_bytes: usize) -> impl DoubleEndedIterator<Item = usize> {
    let count = (BLOCK_BYTES - BLOCK_HEAD_BYTES) / slot_bytes;
    (0..count).map(move |index| block + BLOCK_HEAD_BYTES + index * slot_bytes)
}

impl InodeLedger for Ledger {
    fn add(&mut self, inode: &KnownInode) -> Option<LedgerPlace> {
        // First, and also where there is no room: no number is ever given twice.
        if inode.id.0 >= self.memory.word(NEXT_AT) {
            self.memory.set_word(NEXT_AT, inode.id.0 + 1);
        }
        let path = inode.path.as_bytes();
        let slot = match self.slot((RECORD_HEAD_BYTES + path.len()).div_ceil(GRAIN_BYTES)) {
            Ok(slot) => slot,
            Err(error) => {
                if !std::mem::replace(&mut self.is_full, true) {
                    tracing::error!(%error, "no space to record inodes: they will not survive this daemon");
                }
                return None;
            }
        };
        let Generation { ino, size_bytes, mtime, ctime } = inode.generation;
        let nanos = u64::from(mtime.nanos) | u64::from(ctime.nanos) << 32;
        let last = u64::from(inode.kind.dirent()) | (path.len() as u64) << 8;
        let words =
            [inode.lookups, ino, size_bytes, mtime.seconds.cast_unsigned(), ctime.seconds.cast_unsigned(), nanos, last];
        let record = &mut self.memory.bytes_mut()[slot + 8..];
        for (to, word) in record.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        record[RECORD_HEAD_BYTES - 8..][..path.len()].copy_from_slice(path);
        self.memory.set_word(slot, inode.id.0);
        Some(LedgerPlace(slot as u64))
    }

    fn set_lookups(&mut self, place: LedgerPlace, lookups: u64) {
        self.memory.set_word(place.0 as usize + 8, lookups);
    }

    fn remove(&mut self, place: LedgerPlace) {
        let slot = place.0 as usize;
        let path_bytes = (self.memory.word(slot + RECORD_HEAD_BYTES - 8) >> 8) as usize;
        self.memory.set_word(slot, 0);
        if let Some(free) = self.free.get_mut((RECORD_HEAD_BYTES + path_bytes).div_ceil(GRAIN_BYTES)) {
            free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_fuse::create_shared_memory;

    use super::*;

    fn memory() -> OwnedFd {
        create_shared_memory("forebay-inodes", 1 << 20).unwrap()
    }

    fn inode(id: u64, path_bytes: usize) -> KnownInode {
        let path = [vec![b'p'; path_bytes % 200 + 1], b"/x".repeat(path_bytes / 2)].concat();
        let time = |seconds| Timestamp { seconds, nanos: id as u32 };
        KnownInode {
            id: InodeId(id),
            path: ViewPath::new(&path).unwrap(),
            generation: Generation { ino: id * 3, size_bytes: id * 5, mtime: time(-7), ctime: time(i64::MAX) },
            kind: if id.is_multiple_of(2) { Kind::File } else { Kind::Directory },
            lookups: id,
        }
    }

    fn sorted(contents: LedgerContents) -> Vec<KnownInode> {
        let mut inodes: Vec<KnownInode> = contents.inodes.into_iter().map(|(inode, _)| inode).collect();
        inodes.sort_by_key(|inode| inode.id);
        inodes
    }

    #[test]
    fn records_are_read_back() {
        let descriptor = memory();
        let reopened = || Ledger::open(descriptor.try_clone().unwrap()).unwrap();
        let (mut ledger, contents) = reopened();
        assert_eq!(contents, LedgerContents::default());
        // Some megabytes, so that it grows, with paths of all lengths.
        let mut all: Vec<KnownInode> = (2..20_000).map(|id| inode(id, id as usize * 7 % 3_800)).collect();
        let places: Vec<LedgerPlace> = all.iter().map(|inode| ledger.add(inode).unwrap()).collect();
        assert_eq!(sorted(reopened().1), all);
        ledger.set_lookups(places[5], 77);
        all[5].lookups = 77;
        for index in (6..all.len()).step_by(2) {
            ledger.remove(places[index]);
        }
        let left: Vec<KnownInode> =
            all.iter().enumerate().filter(|(at, _)| *at < 6 || at % 2 == 1).map(|(_, inode)| inode.clone()).collect();
        let (mut ledger, contents) = reopened();
        assert_eq!((contents.next, sorted(contents)), (20_000, left.clone()));
        // Freed slots are used again: nothing grows.
        let len = ledger.memory.len();
        for index in (6..all.len()).step_by(2) {
            ledger.add(&all[index]).unwrap();
        }
        assert_eq!((ledger.memory.len(), sorted(reopened().1)), (len, all));
    }

    #[test]
    fn a_record_without_its_number_is_none_and_its_number_is_not_given_again() {
        let descriptor = memory();
        let (mut ledger, _) = Ledger::open(descriptor.try_clone().unwrap()).unwrap();
        let place = ledger.add(&inode(9, 10)).unwrap();
        // As when the daemon is killed before the last store.
        ledger.memory.set_word(place.0 as usize, 0);
        let (_, contents) = Ledger::open(descriptor).unwrap();
        assert_eq!(contents, LedgerContents { inodes: Vec::new(), next: 10 });
    }

    #[test]
    fn memory_of_another_version_is_refused() {
        let descriptor = memory();
        rustix::io::pwrite(&descriptor, &[9; 8], 0).unwrap();
        assert!(Ledger::open(descriptor).is_err());
    }
}
