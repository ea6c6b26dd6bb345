//! Reading a file: pieces from logs, from the backing file system, and zeros.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_types::{Errno, FileId};
use forebay_write::{Piece, Source};

use super::files::Files;
use super::owner::{Owner, backing_path};

/// How long a file may be between two names on the backing file system: a rename there, and its note.
const MOVING_MAX: Duration = Duration::from_secs(10);

/// How often it is looked for meanwhile.
const MOVING_LOOK: Duration = Duration::from_millis(2);

/// The bytes of a file as programs of this node see them: fewer than `len` only at its end.
///
/// # Errors
/// EIO where bytes cannot be had, else what the tree says.
pub fn read(owner: &Owner, files: &Files, file: FileId, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let open = files.find(file);
    let attributes = owner.tree().state(file)?.attributes;
    let attributes = open.as_ref().map_or(attributes, |open| open.with_pending(&attributes));
    let end = attributes.size_bytes.min(offset.saturating_add(len as u64));
    let range = offset.min(end)..end;
    let committed = |range: std::ops::Range<u64>| committed_pieces(owner, file, range);
    let pieces = match open {
        Some(open) => open.over(range.clone(), &committed)?,
        None => committed(range.clone())?,
    };
    let mut bytes = vec![0; (range.end - range.start) as usize];
    for piece in pieces {
        let start = (piece.offset - range.start) as usize;
        fill(owner, file, &piece, &mut bytes[start..start + piece.len as usize])?;
    }
    Ok(bytes)
}

/// Pieces of what everybody sees; behind its end there is nothing, which reads as zeros where this node has written more.
fn committed_pieces(owner: &Owner, file: FileId, range: std::ops::Range<u64>) -> Result<Vec<Piece>, Errno> {
    owner.tree().pieces(file, range)
}

/// Reads one piece. `into` is zero.
///
/// # Errors
/// EIO where the bytes cannot be had.
pub fn fill(owner: &Owner, file: FileId, piece: &Piece, into: &mut [u8]) -> Result<(), Errno> {
    match piece.source {
        Source::Hole => Ok(()),
        Source::Log(extent) => owner.log.read(extent.position, extent.skip, into).map_err(|error| {
            tracing::error!(%error, %file, "written bytes cannot be read");
            Errno::EIO
        }),
        Source::Backing => {
            let open = open_backing(owner, file)?;
            let mut filled = 0;
            while filled < into.len() {
                match open.read_at(&mut into[filled..], piece.offset + filled as u64) {
                    // It is shorter than it was: somebody else changed it.
                    Ok(0) => return Err(Errno::EIO),
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Errno::of(&error)),
                }
            }
            Ok(())
        }
    }
}

/// The file of the backing file system that has a file's contents. It may be under way from one name to another, so that for a
/// moment the tree knows a name that it has no more, and that another file may have.
fn open_backing(owner: &Owner, file: FileId) -> Result<Arc<File>, Errno> {
    let deadline = Instant::now() + MOVING_MAX;
    loop {
        if let Some(open) = owner.kept_open(file) {
            return Ok(open);
        }
        let (path, backed) = {
            let tree = owner.tree();
            (backing_path(&tree, file), tree.backed(file))
        };
        let opened = path.ok_or(Errno::ESTALE).and_then(|path| owner.place.open_to_read(&path));
        let is_it =
            |open: &File| open.metadata().is_ok_and(|found| backed.is_some_and(|backed| backed.ino == found.ino()));
        match opened {
            Ok(open) if is_it(&open) => return Ok(Arc::new(open)),
            Err(errno) if ![Errno::ENOENT, Errno::ESTALE, Errno::ENOTDIR].contains(&errno) => return Err(errno),
            _ if Instant::now() > deadline => {
                tracing::error!(%file, "what has landed is not there any more: somebody else has changed it");
                return Err(Errno::EIO);
            }
            _ => std::thread::sleep(MOVING_LOOK),
        }
    }
}
