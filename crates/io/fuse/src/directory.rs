//! The answer to READDIR and READDIRPLUS: as many entries as fit the bytes that the kernel asked for.

use forebay_types::Kind;
use zerocopy::IntoBytes;

use crate::abi::Dirent;
use crate::entry::{Entry, entry_out};

/// Entries, packed as the kernel wants them. All entries of one buffer are pushed by the same method.
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    size_bytes: usize,
}

impl DirectoryBuffer {
    /// A buffer for a request of `size` bytes.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let size_bytes = size as usize;
        // The kernel asks for up to its page limit even for a small directory: start with what most need.
        Self { bytes: Vec::with_capacity(size_bytes.min(4096)), size_bytes }
    }

    /// Adds an entry to the answer of `Readdir`. `offset` is what the kernel sends to continue behind this entry, never
    /// 0. False: it does not fit, the buffer is unchanged and complete.
    pub fn push(&mut self, ino: u64, offset: u64, kind: Kind, name: &[u8]) -> bool {
        self.append(&[], ino, offset, kind, name)
    }

    /// Adds an entry to the answer of `Readdirplus`. With an `Entry` it counts as a lookup of its node; without one the
    /// kernel learns the name only, as it must be for `.` and `..`.
    pub fn push_plus(&mut self, entry: Option<&Entry>, ino: u64, offset: u64, kind: Kind, name: &[u8]) -> bool {
        let head = entry.map(entry_out).unwrap_or_default();
        self.append(head.as_bytes(), ino, offset, kind, name)
    }

    /// Bytes so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn append(&mut self, head: &[u8], ino: u64, offset: u64, kind: Kind, name: &[u8]) -> bool {
        let unpadded = self.bytes.len() + head.len() + size_of::<Dirent>() + name.len();
        let end = unpadded.next_multiple_of(8);
        let Ok(namelen) = u32::try_from(name.len()) else {
            return false;
        };
        if end > self.size_bytes {
            return false;
        }
        self.bytes.extend_from_slice(head);
        let dirent = Dirent { ino, off: offset, namelen, kind: u32::from(kind.dirent()) };
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_a_full_buffer_is_left_as_it_was() {
        let mut buffer = DirectoryBuffer::new(64);
        assert!(buffer.push(5, 1, Kind::File, b"abc"));
        assert_eq!(buffer.as_bytes().len(), 32);
        assert!(buffer.push(6, 2, Kind::File, b"12345678"));
        assert_eq!(buffer.as_bytes().len(), 64);
        let before = buffer.as_bytes().to_vec();
        assert!(!buffer.push(7, 3, Kind::File, b"x"));
        assert_eq!(buffer.as_bytes(), before);
    }

    #[test]
    fn an_entry_that_ends_exactly_at_the_size_fits() {
        let mut buffer = DirectoryBuffer::new(160);
        assert!(buffer.push_plus(None, 1, 1, Kind::Directory, b"12345678"));
        assert_eq!(buffer.as_bytes().len(), 160);
        assert!(!DirectoryBuffer::new(159).push_plus(None, 1, 1, Kind::Directory, b"12345678"));
    }
}
