//! The disk as a store needs it: two areas of bytes. On a machine they are two files, in a simulated job memory.

use std::io;

/// A part of the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Area {
    /// The index, with the head of the store.
    Index,
    /// The slots.
    Chunks,
}

/// The room of the file system that a store lies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskRoom {
    /// Its size, bytes.
    pub all_bytes: u64,
    /// The part that this user may still take, bytes.
    pub free_bytes: u64,
    /// The part of that which is promised to others, bytes.
    pub promised_bytes: u64,
}

/// A disk. Its calls may block.
pub trait Disk: Send + Sync {
    /// Reads bytes; fewer than asked for at the end of an area.
    ///
    /// # Errors
    /// As the disk gave it; so do all others.
    fn read_at(&self, area: Area, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of the bytes.
    ///
    /// # Errors
    /// See `read_at`. A part may have been written.
    fn write_at(&self, area: Area, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// A range of the slots is going to be read.
    fn will_read(&self, _offset: u64, _len: u64) {}

    /// Gives the room of a range of the slots back.
    ///
    /// # Errors
    /// See `read_at`.
    fn release(&self, offset: u64, len: u64) -> io::Result<()>;

    /// The length of the index, bytes.
    ///
    /// # Errors
    /// See `read_at`.
    fn index_bytes(&self) -> io::Result<u64>;

    /// The room that the slots take, bytes.
    ///
    /// # Errors
    /// See `read_at`.
    fn used_bytes(&self) -> io::Result<u64>;

    /// The room beside them.
    ///
    /// # Errors
    /// See `read_at`.
    fn room(&self) -> io::Result<DiskRoom>;

    /// Whether somebody has removed the store.
    fn is_removed(&self) -> bool {
        false
    }

    /// Empties both areas and gives them these sizes. Other users of the store find it removed.
    ///
    /// # Errors
    /// See `read_at`.
    fn make_anew(&mut self, index_bytes: u64, chunks_bytes: u64) -> io::Result<()>;

    /// The store is opened; others may open it from now on.
    fn opened(&mut self) {}
}
