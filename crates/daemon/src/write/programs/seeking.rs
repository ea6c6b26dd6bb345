//! `SEEK_DATA` and `SEEK_HOLE`. A hole that is none would be lost in every copy that trusts it; data that is a hole costs room. So where holes
//! are not known for sure, there is none.

use std::fs::File;

use forebay_types::{BackingId, Errno, FileId, ViewPath};
use forebay_wire::write::{Piece, Source};
use forebay_wire::write_message::Seek;
use rustix::fs::SeekFrom;

use crate::write::contents::Reader;

/// `whence`, as the kernel sends it.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// How often a file is gone through from the beginning, which lands meanwhile.
const TRIES: u32 = 8;

/// The first byte from `from` on that is data or that is in a hole, of a file whose writes are committed. The end of a file is a hole.
///
/// # Errors
/// ENXIO where there is none up to the file's end, EINVAL for another `whence`, else what the tree says.
pub async fn seek(reader: &Reader, may_be_mapped: bool, file: FileId, from: u64, whence: u32) -> Result<u64, Errno> {
    if !matches!(whence, SEEK_DATA | SEEK_HOLE) {
        return Err(Errno::EINVAL);
    }
    let size_bytes = reader.tree.state(file).await?.attributes.size_bytes;
    if from >= size_bytes {
        return Err(Errno::ENXIO);
    }
    let sought = Seek { from, is_hole: whence == SEEK_HOLE, backing_until: 0 };
    // The kernel has not sent yet the changes that programs made through a map.
    for _ in 0..if may_be_mapped { 0 } else { TRIES } {
        if let Some(found) = try_to_seek(reader, file, sought).await? {
            return found;
        }
    }
    Ok(if sought.is_hole { size_bytes } else { from })
}

/// `None` where the file has landed meanwhile: the file of the backing file system that was looked at is another one than its own.
async fn try_to_seek(reader: &Reader, file: FileId, mut seek: Seek) -> Result<Option<Result<u64, Errno>>, Errno> {
    let from = seek.from;
    let mut looked_at: Option<Option<(ViewPath, BackingId)>> = None;
    loop {
        let told = reader.tree.seek(file, seek).await?;
        if looked_at.as_ref().is_some_and(|looked_at| *looked_at != told.backing) {
            return Ok(None);
        }
        let Some(piece) = told.pieces.first() else {
            let end = told.state.attributes.size_bytes;
            return Ok(Some(if seek.is_hole && end > from { Ok(end) } else { Err(Errno::ENXIO) }));
        };
        if piece.source != Source::Backing {
            return Ok(Some(Ok(piece.offset)));
        }
        let Some(found) = in_backing(reader, file, told.backing.as_ref(), piece, seek.is_hole).await? else {
            return Ok(None);
        };
        if found < piece.offset + piece.len {
            return Ok(Some(Ok(found)));
        }
        (seek.from, seek.backing_until) = (piece.offset + piece.len, found);
        looked_at = Some(told.backing);
    }
}

/// Where data or a hole begins in the backing file, from a piece of it on; far behind all where it has none, `None` where it cannot be asked.
async fn in_backing(
    reader: &Reader,
    file: FileId,
    backing: Option<&(ViewPath, BackingId)>,
    piece: &Piece,
    is_hole: bool,
) -> Result<Option<u64>, Errno> {
    let (start, end) = (piece.offset, piece.offset + piece.len);
    let look = move |open: &File| {
        let from = if is_hole { SeekFrom::Hole(start) } else { SeekFrom::Data(start) };
        let found = rustix::fs::seek(open, from);
        let is_known = rustix::fs::fstat(open).is_ok_and(|known| known.st_size.cast_unsigned() >= end);
        if is_known { found } else { Err(rustix::io::Errno::STALE) }
    };
    match reader.look_at_backing(file, backing, look).await {
        // It has landed since, or has no name there any more.
        Ok(None) | Err(Errno::ESTALE) => Ok(None),
        Err(errno) => Err(errno),
        Ok(Some(Ok(found))) => Ok(Some(found)),
        Ok(Some(Err(rustix::io::Errno::NXIO))) if !is_hole => Ok(Some(u64::MAX)),
        // It does not know holes; or this node does not know its size, which reading finds out.
        Ok(Some(Err(_))) => Ok(None),
    }
}
