//! Copying one entry.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_upload::{Immediately, ReadBack, UploadError};
use rustix::fs::{Advice, AtFlags, FileType, OFlags, fadvise, readlinkat, renameat, statvfs, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::{StageError, What};
use crate::journal::{Draft, block_range, draft_path, link_name};
use crate::limits::BLOCK_BYTES;
use crate::noted::{Version, note, noted};
use crate::place::{Place, in_the_way};

/// The mode bits that a copy keeps: bits that lend rights are not copied, because the copy is another user's.
const MODE: u32 = 0o777;

/// The outcome for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// It was there, and right.
    WasThere,
    /// It was copied, so many bytes of it now.
    New {
        /// Not those that an earlier attempt had copied.
        bytes: u64,
    },
}

/// Makes `place` a copy of the file `source`, contents, permissions and modification time; `done_bytes` counts what is done. Whatever
/// has that name is replaced when the copy is whole, verified and durable.
///
/// # Errors
/// Why not; nothing has changed at `place` then.
pub fn copy_file(source: &Path, place: &Place, done_bytes: &AtomicU64) -> Result<Copied, StageError> {
    let looked = |error| StageError::io(What::Look, source, error);
    let from = open_file(source)?;
    let metadata = from.metadata().map_err(looked)?;
    let version = Version::of(&metadata);
    if place.found()?.is_some_and(|there| FileType::from_raw_mode(there.st_mode) != FileType::RegularFile) {
        return Err(in_the_way(&place.path, "file"));
    }
    if is_right((&from, version), place) {
        done_bytes.fetch_add(version.bytes, Ordering::Relaxed);
        return Ok(Copied::WasThere);
    }
    let mut draft = Draft::open(place, version)?;
    let before = draft.copied_bytes(version.bytes);
    done_bytes.fetch_add(before, Ordering::Relaxed);
    fill(&mut draft, (source, &from, version), done_bytes)?;
    if from.metadata().map(|metadata| Version::of(&metadata)).map_err(looked)? != version {
        draft.remove();
        return Err(StageError::Changed(source.to_owned()));
    }
    finish(draft, &place.path, &metadata)?;
    Ok(Copied::New { bytes: version.bytes - before })
}

/// Opens a file to read it. A pipe that has taken its place is not waited for.
fn open_file(path: &Path) -> Result<File, StageError> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let looked = |error| StageError::io(What::Look, path, error);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(looked)?;
    if file.metadata().map_err(looked)?.is_file() { Ok(file) } else { Err(StageError::Special(path.to_owned())) }
}

/// Copies the blocks that are not right yet.
fn fill(
    draft: &mut Draft<'_>,
    (source, from, version): (&Path, &File, Version),
    done_bytes: &AtomicU64,
) -> Result<(), StageError> {
    let mut block = block_of(version.bytes);
    loop {
        let range = draft.next_range(version.bytes);
        let part = &mut block[..(range.end - range.start) as usize];
        if part.is_empty() {
            return Ok(());
        }
        let failed = |what, path: &Path, source| StageError::Io {
            what,
            path: path.to_owned(),
            copied_bytes: range.start,
            source,
        };
        from.read_exact_at(part, range.start).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => StageError::Changed(source.to_owned()),
            _ => failed(What::Read, source, error),
        })?;
        if let Err(error) = draft.append(&range, part) {
            return Err(failed(What::Write, &draft.path, error.into()));
        }
        done_bytes.fetch_add(range.end - range.start, Ordering::Relaxed);
    }
}

/// Makes the draft durable, reads it back, and gives it its name.
fn finish(draft: Draft<'_>, place: &Path, like: &fs::Metadata) -> Result<(), StageError> {
    let version = Version::of(like);
    let failed = |what| move |error| StageError::io(what, place, error);
    let mut block = block_of(version.bytes);
    let verified = draft.upload.verify((&draft.file, &Immediately), ReadBack::Stored, &mut block, |_| ());
    match verified {
        Ok(()) => {}
        Err(UploadError::Write(error)) => return Err(failed(What::Write)(error)),
        Err(UploadError::ReadBack(error)) => return Err(failed(What::Verify)(error)),
        Err(UploadError::Differs { offset }) => {
            draft.remove();
            return Err(StageError::Spoiled { path: place.to_owned(), offset });
        }
    }
    let whole = draft.checksum(version.bytes);
    let published = || {
        draft.file.set_permissions(Permissions::from_mode(like.mode() & MODE))?;
        draft.file.set_times(FileTimes::new().set_modified(like.modified()?))?;
        note(&draft.file, version, whole);
        draft.file.sync_all()
    };
    published().and_then(|()| draft.publish()).map_err(failed(What::Publish))
}

/// Whether the file at `place` is a whole copy of this version: this user's file, by its size and time, and by its contents. They are
/// compared to their noted checksum, or to the original where others could have changed the note.
fn is_right((from, version): (&File, Version), place: &Place) -> bool {
    let Some((there, is_open_to_others)) = place.own_file() else { return false };
    if there.metadata().map_or(true, |metadata| Version::of(&metadata) != version) {
        return false;
    }
    let _ = fadvise(&there, 0, None, Advice::DontNeed);
    match noted(&there, version).filter(|_| !is_open_to_others) {
        Some(expected) => checksum(&there, version.bytes) == Some(expected),
        None => is_same((from, &there), version.bytes),
    }
}

/// Whether the first `bytes` of two files are the same. Files that cannot be read are not.
fn is_same((one, other): (&File, &File), bytes: u64) -> bool {
    let mut blocks = [block_of(bytes), block_of(bytes)];
    for index in 0.. {
        let range = block_range(index, bytes);
        let len = (range.end - range.start) as usize;
        if len == 0 {
            break;
        }
        let [first, second] = &mut blocks;
        let read = one.read_exact_at(&mut first[..len], range.start);
        if read.and_then(|()| other.read_exact_at(&mut second[..len], range.start)).is_err() || first != second {
            return false;
        }
    }
    true
}

/// Room for a block of a file of so many bytes.
fn block_of(bytes: u64) -> Vec<u8> {
    vec![0; BLOCK_BYTES.min(usize::try_from(bytes).unwrap_or(BLOCK_BYTES))]
}

/// Of the first `bytes` of a file; `None` where it cannot be read.
fn checksum(file: &File, bytes: u64) -> Option<u32> {
    let mut block = block_of(bytes);
    let mut sum = 0;
    for index in 0.. {
        let range = block_range(index, bytes);
        let part = &mut block[..(range.end - range.start) as usize];
        if part.is_empty() {
            break;
        }
        file.read_exact_at(part, range.start).ok()?;
        sum = crc32c::crc32c_append(sum, part);
    }
    Some(sum)
}

/// Reads a file to its end, so that caches on the way have it.
///
/// # Errors
/// As reading it gave.
pub fn read_whole(path: &Path, done_bytes: &AtomicU64) -> Result<u64, StageError> {
    let failed = |error| StageError::io(What::Read, path, error);
    let file = open_file(path)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    loop {
        match file.read_at(&mut block, offset).map_err(failed)? {
            0 => return Ok(offset),
            len => {
                offset += len as u64;
                done_bytes.fetch_add(len as u64, Ordering::Relaxed);
            }
        }
    }
}

/// Makes `place` a symbolic link with the target that `source` has.
///
/// # Errors
/// Why not.
pub fn copy_link(source: &Path, place: &Place) -> Result<Copied, StageError> {
    let target = fs::read_link(source).map_err(|error| StageError::io(What::Look, source, error))?;
    let Place { directory, name, path } = place;
    if let Some(there) = place.found()? {
        if FileType::from_raw_mode(there.st_mode) != FileType::Symlink {
            return Err(in_the_way(path, "symbolic link"));
        }
        let is_same = || {
            readlinkat(directory, &**name, vec![]).is_ok_and(|there| there.to_bytes() == target.as_os_str().as_bytes())
        };
        // Another user's can be replaced by that user.
        if there.st_uid == geteuid().as_raw() && is_same() {
            return Ok(Copied::WasThere);
        }
    }
    let failed = |errno| StageError::io(What::Write, path, errno);
    let draft = link_name(name);
    match unlinkat(directory, &*draft, AtFlags::empty()) {
        Err(Errno::NOENT) | Ok(()) => {}
        Err(errno) => return Err(failed(errno)),
    }
    symlinkat(&target, directory, &*draft)
        .and_then(|()| renameat(directory, &*draft, directory, &**name))
        .map_err(failed)?;
    Ok(Copied::New { bytes: 0 })
}

/// How much a copy of `bytes` at `path` still needs: nothing where a file of this user of that size is there, and not what an earlier
/// attempt has copied.
#[must_use]
pub fn missing_bytes(path: &Path, bytes: u64) -> u64 {
    let own =
        |path: &Path| path.symlink_metadata().ok().filter(|found| found.is_file() && found.uid() == geteuid().as_raw());
    if own(path).is_some_and(|there| there.len() == bytes) {
        return 0;
    }
    let draft = own(&draft_path(path)).map_or(0, |draft| draft.blocks() * 512);
    bytes.saturating_sub(draft)
}

/// Whether the file system of the directory `place` has room for `bytes`; else how much it has.
///
/// # Errors
/// When it cannot be looked at.
pub fn has_room(place: &Path, bytes: u64) -> Result<(), u64> {
    match statvfs(place) {
        Ok(room) if room.f_bavail * room.f_frsize < bytes => Err(room.f_bavail * room.f_frsize),
        _ => Ok(()),
    }
}
