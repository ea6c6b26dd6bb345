//! Data and holes of a file (`SEEK_DATA`, `SEEK_HOLE`).
//!
//! Bytes in a log are data, whatever they are. Where a file goes on as it is on the backing file system, holes are those of that file. The
//! caller looks there, and asks again behind the place that it has found.

use forebay_types::{Errno, FileId};
use forebay_wire::write::{Piece, Source};
use forebay_wire::write_message::Seek;

use super::Tree;

impl Tree {
    /// The first piece of a file that may be what is sought, from its first byte that may be; `None` where there is none up to the file's end.
    ///
    /// # Errors
    /// EISDIR, EINVAL, ESTALE.
    pub fn seek(&self, file: FileId, seek: &Seek) -> Result<Option<Piece>, Errno> {
        let end = self.node(file)?.attributes.size_bytes;
        let is_sought = |piece: &Piece| match piece.source {
            Source::Log(_) => !seek.is_hole,
            Source::Hole => seek.is_hole,
            Source::Backing => piece.offset + piece.len > seek.backing_until,
        };
        let found = self.extents(file)?.find(seek.from.min(end)..end, is_sought);
        Ok(found.and_then(|piece| match piece.source {
            Source::Backing => piece.part(seek.backing_until..u64::MAX),
            _ => Some(piece),
        }))
    }
}
