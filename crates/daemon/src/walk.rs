//! The process that looks at directories and names of a view for its daemon (`forebay walk`), so that the kernel knows them (see
//! `machine::walker`). It holds nothing of the daemon's, and ends with its input.
//!
//! `FLUSH` has the kernel send what it has gathered in its page cache of a mount, and `SETTLE` waits until it has sent that of one file.
//!
//! Input: a letter, a path below the view, a NUL; the letter says what to do. Output: a byte for each `DONE`, and for each `READ` five: a
//! letter, and the number of its error, 0 for none.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{BufRead, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// List the directory.
pub const LIST: u8 = b'l';
/// Look the name up.
pub const LOOK: u8 = b'n';
/// Have the kernel send what it has gathered of the mount.
pub const FLUSH: u8 = b'f';
/// Open the file and close it: that waits until the kernel has sent what it has of it.
pub const SETTLE: u8 = b's';
/// Read bytes of the file: `OFFSET:LENGTH:PATH`.
pub const READ: u8 = b'r';
/// Say that all before is done.
pub const DONE: u8 = b'd';

/// Does what the standard input says of `view` until it ends.
///
/// # Errors
/// When that is nothing to do, or nobody takes the answer.
pub fn walk(view: &Path) -> anyhow::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut line = Vec::new();
    let mut unsettled = Ok(());
    while input.read_until(0, &mut line).context("reading paths from standard input")? > 0 {
        line.pop();
        match line.split_first() {
            Some((&LIST, path)) => list(&below(view, path)),
            // That it is not there is what the kernel is to learn, too.
            Some((&LOOK, path)) => drop(below(view, path).symlink_metadata()),
            Some((&FLUSH, _)) => flush(view)?,
            // The others are waited for all the same.
            Some((&SETTLE, path)) => unsettled = unsettled.and(settle(&below(view, path))),
            Some((&READ, asked)) => {
                let number = read(view, asked).err().map_or(0, |error| error.raw_os_error().unwrap_or(5));
                let answer = [&[READ][..], &number.to_le_bytes()].concat();
                output.write_all(&answer).and_then(|()| output.flush()).context("answering on standard output")?;
            }
            Some((&DONE, _)) => {
                output.write_all(&[DONE]).and_then(|()| output.flush()).context("answering on standard output")?;
            }
            _ => anyhow::bail!("no such request"),
        }
        line.clear();
    }
    unsettled
}

fn flush(mount: &Path) -> anyhow::Result<()> {
    let failed = || format!("flushing {}", mount.display());
    let root = std::fs::File::open(mount).with_context(failed)?;
    // It fails where something was refused, as a program that syncs is told.
    let _ = rustix::fs::syncfs(&root);
    Ok(())
}

/// A file that is over has sent all. A program that syncs it is told of refused writes.
fn settle(file: &Path) -> anyhow::Result<()> {
    let opened = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(file);
    match opened.map(drop) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::STALE.raw_os_error()) => Ok(()),
        closed => closed.with_context(|| format!("closing {}", file.display())),
    }
}

/// Reads bytes of a file in order, as many as there are.
fn read(view: &Path, asked: &[u8]) -> std::io::Result<()> {
    let mut parts = asked.splitn(3, |byte| *byte == b':');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
    let (Some(mut offset), Some(len)) = (number(), number()) else { return Err(ErrorKind::InvalidInput.into()) };
    let path = parts.next().unwrap_or_default();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(below(view, path))?;
    let (end, mut buffer) = (offset.saturating_add(len), vec![0; READ_BYTES]);
    while offset < end {
        let want = (end - offset).min(READ_BYTES as u64) as usize;
        match file.read_at(&mut buffer[..want], offset) {
            Ok(0) => break,
            Ok(count) => offset += count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn below(view: &Path, path: &[u8]) -> std::path::PathBuf {
    view.join(OsStr::from_bytes(path))
}

/// A directory that cannot be listed is not there or not for us: both are usual.
fn list(dir: &Path) {
    if let Ok(entries) = std::fs::read_dir(dir) {
        entries.for_each(drop);
    }
}
