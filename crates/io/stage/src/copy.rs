//! Copying one entry.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise, statvfs};

use crate::error::{StageError, What};
use crate::journal::{Draft, block_range, draft_path};
use crate::limits::BLOCK_BYTES;
use crate::noted::{Version, note, noted};

/// What a copy keeps of a mode: bits that lend rights are not copied, because the copy is another user's.
const MODE: u32 = 0o777;

/// What became of a file.
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
pub fn copy_file(source: &Path, place: &Path, done_bytes: &AtomicU64) -> Result<Copied, StageError> {
    let looked = |error| StageError::io(What::Look, source, error);
    let from = File::open(source).map_err(looked)?;
    let metadata = from.metadata().map_err(looked)?;
    let version = Version::of(&metadata);
    if let Ok(there) = place.symlink_metadata()
        && !there.is_file()
    {
        return Err(StageError::InTheWay { path: place.to_owned(), expected: "file" });
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
    finish(draft, place, &metadata)?;
    Ok(Copied::New { bytes: version.bytes - before })
}

/// Copies the blocks that are not right yet.
fn fill(
    draft: &mut Draft,
    (source, from, version): (&Path, &File, Version),
    done_bytes: &AtomicU64,
) -> Result<(), StageError> {
    let mut block = vec![0; BLOCK_BYTES.min(usize::try_from(version.bytes).unwrap_or(BLOCK_BYTES))];
    loop {
        let range = block_range(draft.sums.len() as u64, version.bytes);
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
        let path = draft.path.clone();
        draft.append(part).map_err(|error| failed(What::Write, &path, error))?;
        done_bytes.fetch_add(range.end - range.start, Ordering::Relaxed);
    }
}

/// Makes the draft durable, reads it back, and gives it its name.
fn finish(draft: Draft, place: &Path, like: &fs::Metadata) -> Result<(), StageError> {
    let version = Version::of(like);
    let failed = |what| move |error| StageError::io(what, place, error);
    draft.file.sync_all().map_err(failed(What::Write))?;
    // Pages that are clean and on the disk go, so that the disk is asked.
    let _ = fadvise(&draft.file, 0, None, Advice::DontNeed);
    let mut whole = 0;
    let mut block = vec![0; BLOCK_BYTES.min(usize::try_from(version.bytes).unwrap_or(BLOCK_BYTES))];
    for (index, sum) in draft.sums.iter().enumerate() {
        let range = block_range(index as u64, version.bytes);
        let part = &mut block[..(range.end - range.start) as usize];
        draft.file.read_exact_at(part, range.start).map_err(failed(What::Verify))?;
        if crc32c::crc32c(part) != *sum {
            draft.remove();
            return Err(StageError::Spoiled { path: place.to_owned(), offset: range.start });
        }
        whole = crc32c::crc32c_append(whole, part);
    }
    let published = || {
        draft.file.set_permissions(Permissions::from_mode(like.mode() & MODE))?;
        draft.file.set_times(FileTimes::new().set_modified(like.modified()?))?;
        note(&draft.file, version, whole);
        draft.file.sync_all()
    };
    published().and_then(|()| draft.publish(place)).map_err(failed(What::Publish))
}

/// Whether the file at `place` is a whole copy of this version: by its size and time, and by its contents, compared to their noted
/// checksum, else to the original.
fn is_right((from, version): (&File, Version), place: &Path) -> bool {
    let Ok(there) = File::open(place) else { return false };
    if there.metadata().map_or(true, |metadata| Version::of(&metadata) != version) {
        return false;
    }
    let _ = fadvise(&there, 0, None, Advice::DontNeed);
    let expected = noted(&there, version).or_else(|| checksum(from, version.bytes));
    expected.is_some() && checksum(&there, version.bytes) == expected
}

/// Of the first `bytes` of a file; `None` where it cannot be read.
fn checksum(file: &File, bytes: u64) -> Option<u32> {
    let mut block = vec![0; BLOCK_BYTES.min(usize::try_from(bytes).unwrap_or(BLOCK_BYTES))];
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
    let file = File::open(path).map_err(failed)?;
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

/// Makes a directory and those above it that are missing.
///
/// # Errors
/// Why not.
pub fn make_directory(place: &Path) -> Result<(), StageError> {
    fs::create_dir_all(place).map_err(|error| match place.metadata() {
        Ok(there) if !there.is_dir() => StageError::InTheWay { path: place.to_owned(), expected: "directory" },
        _ => StageError::io(What::Write, place, error),
    })
}

/// Makes `place` a symbolic link with the target that `source` has.
///
/// # Errors
/// Why not.
pub fn copy_link(source: &Path, place: &Path) -> Result<Copied, StageError> {
    let target = fs::read_link(source).map_err(|error| StageError::io(What::Look, source, error))?;
    match place.symlink_metadata() {
        Ok(there) if !there.is_symlink() => {
            return Err(StageError::InTheWay { path: place.to_owned(), expected: "symbolic link" });
        }
        Ok(_) if fs::read_link(place).is_ok_and(|there| there == target) => return Ok(Copied::WasThere),
        _ => {}
    }
    let failed = |error| StageError::io(What::Write, place, error);
    let mut draft = place.file_name().unwrap_or_default().to_owned();
    draft.push(".forebay-link");
    let draft = place.with_file_name(draft);
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    std::os::unix::fs::symlink(&target, &draft).and_then(|()| fs::rename(&draft, place)).map_err(failed)?;
    Ok(Copied::New { bytes: 0 })
}

/// How much a copy of `bytes` at `place` still needs: nothing where a file of that size is there, and not what an earlier attempt has
/// copied.
#[must_use]
pub fn missing_bytes(place: &Path, bytes: u64) -> u64 {
    if place.metadata().is_ok_and(|there| there.len() == bytes) {
        return 0;
    }
    let draft = draft_path(place).metadata().map_or(0, |draft| draft.blocks() * 512);
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
