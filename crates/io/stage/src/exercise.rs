//! For fuzzing and for its corpus: a copy that finds a draft and a journal of any contents where it goes.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rustix::fs::{XattrFlags, setxattr};

use crate::journal::{draft_path, journal_path};
use crate::noted::{ATTRIBUTE, Version};
use crate::{Copied, Target, Writers, copy_file};

/// Copies a file in an empty directory. The bytes are three: what a draft has, its journal, and what is noted with a file that is at
/// the copy's place; the first byte says which of them are there, and the next three how long they are.
///
/// # Errors
/// When the directory cannot be written to.
///
/// # Panics
/// When the copy is not what it is a copy of.
pub fn copy(directory: &Path, bytes: &[u8]) -> io::Result<Option<u64>> {
    let Some((&[how, draft, journal, length], rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let part = |rest: &mut &[u8], len: u8| {
        let (part, left) = rest.split_at(usize::from(len).min(rest.len()));
        *rest = left;
        part.to_vec()
    };
    let mut rest = rest;
    let (draft, journal) = (part(&mut rest, draft), part(&mut rest, journal));
    let contents = [&draft[..draft.len().min(usize::from(length))], rest].concat();
    if draft != contents && journal.starts_with(&crc32c::crc32c(&draft).to_le_bytes()) {
        // The user's own journal agrees with the user's own draft, and is believed.
        return Ok(None);
    }
    let (source, place) = (directory.join("source"), directory.join("copy"));
    fs::write(&source, &contents)?;
    let version = Version::of(&fs::metadata(&source)?);
    if how & 1 != 0 {
        write_own(&draft_path(&place), &draft)?;
    }
    if how & 2 != 0 {
        let sums = if how & 8 != 0 { crc32c::crc32c(&contents).to_le_bytes().to_vec() } else { vec![] };
        let head = if how & 4 != 0 { version.line().into_bytes() } else { vec![] };
        write_own(&journal_path(&place), &[head, sums, journal.clone()].concat())?;
    }
    if how & 16 != 0 {
        fs::write(&place, rest)?;
        // A file system that has none tests less.
        let _ = setxattr(&place, ATTRIBUTE, &journal, XattrFlags::empty());
    }
    let done_bytes = AtomicU64::new(0);
    let copied = Target::open(&place, Writers::Owner).and_then(|target| {
        let place = target.place(Path::new(""))?;
        copy_file(&source, &place, &done_bytes)
    });
    let copied = copied.map_err(|error| io::Error::other(error.to_string()))?;
    assert_eq!(fs::read(&place)?, contents);
    assert_eq!(done_bytes.into_inner(), contents.len() as u64);
    assert!(!draft_path(&place).exists() || copied == Copied::WasThere, "a draft is left");
    Ok(Some(match copied {
        Copied::WasThere => 0,
        Copied::New { bytes } => bytes,
    }))
}

/// A file that nobody else can have open.
fn write_own(path: &Path, contents: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(contents)
}
