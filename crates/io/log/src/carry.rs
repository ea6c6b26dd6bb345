//! Carrying a store to another place, for instance where several machines see it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, SeekFrom, openat, seek};
use rustix::io::Errno;

use crate::StoreError;
use crate::checkpoint;
use crate::directory::{CHECKPOINT, Directory, HEAD, segment_name};
use crate::head::{HEAD_BYTES_MAX, StoreHead};

/// Bytes that are copied at a time.
const PART_BYTES: usize = 1 << 20;

/// Carries the store at `from` to `to`: there it is whole and durable when it gets its name, and then it is gone here. If this was cut
/// short before, the same store is at `to` already.
///
/// # Errors
/// `Busy` when it is in use, `OtherLog` when another store is at `to`, and what cannot be read, written or removed; then it is still
/// here.
pub fn carry(from: &Path, to: &Path) -> Result<(), StoreError> {
    let here = Directory::open(from, true)?;
    if to.exists() {
        let carried = here.read(HEAD, HEAD_BYTES_MAX as u64);
        let carried = carried.map_err(|error| StoreError::io("read the head of", from, error))?.unwrap_or_default();
        // It is not locked: a process that lands it may have it open.
        let there = read_file(&to.join(HEAD)).map_err(|error| StoreError::io("read the head of", to, error))?;
        let identity = |head: &[u8]| StoreHead::decode(head).ok().map(|head| head.identity);
        let is_all_there = || here.contents().map(|here| here.segments.iter().all(|number| has_segment(to, *number)));
        if identity(&carried).is_none() || identity(&carried) != identity(&there) || !is_all_there()? {
            return Err(StoreError::OtherLog { path: from.to_owned(), there: to.to_owned() });
        }
    } else {
        let part = to.with_extension("part");
        match fs::remove_dir_all(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", &part, error));
            }
            _ => {}
        }
        let copied = Directory::open(&part, true).and_then(|there| copy(&here, &there));
        if let Err(error) = copied {
            // An incomplete copy is useless and only takes room on a full disk.
            let _ = fs::remove_dir_all(&part);
            return Err(error);
        }
        let parent = to.parent().unwrap_or(to);
        let named = fs::rename(&part, to).and_then(|()| File::open(parent)?.sync_all());
        named.map_err(|error| StoreError::io("name", to, error))?;
    }
    here.remove()
}

/// A store that goes on after it was copied has new segments.
fn has_segment(store: &Path, number: u64) -> bool {
    store.join(segment_name(number)).symlink_metadata().is_ok_and(|found| found.is_file())
}

/// A head, which is no link.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(HEAD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn copy(here: &Directory, there: &Directory) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io("carry a part of a store to", there.path(), error);
    for number in here.contents()?.segments {
        let from = here.open_segment(number, OFlags::RDONLY).map_err(failed)?;
        let to = there.open_segment(number, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
        copy_data(&from, &to).map_err(failed)?;
    }
    // A store without a head is none.
    for name in [CHECKPOINT, HEAD] {
        if let Some(bytes) = here.read(name, checkpoint::file_bytes_max()).map_err(failed)? {
            there.replace(name, &[&bytes]).map_err(failed)?;
        }
    }
    there.sync().map_err(failed)
}

/// Copies what is written, and not what is only kept free for it.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let len = from.metadata()?.len();
    to.set_len(len)?;
    let mut bytes = vec![0; PART_BYTES];
    let mut at = 0;
    while at < len {
        let start = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = seek(from, SeekFrom::Hole(start))?;
        at = start;
        while at < end {
            let part = &mut bytes[..PART_BYTES.min((end - at) as usize)];
            from.read_exact_at(part, at)?;
            to.write_all_at(part, at)?;
            at += part.len() as u64;
        }
    }
    to.sync_all()
}
