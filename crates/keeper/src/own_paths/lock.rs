//! One program at a time makes what all programs of a node share: their namespace, the mount of an image.
//!
//! A program that waits long prints the process that it waits for. The first program may hang at a file system that does not answer, and
//! all others behind it. No thread checks this, because a process with threads may not make or enter a user namespace.

use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, major, minor};
use rustix::io::{Errno, retry_on_intr};

/// How long nobody asks what a program waits for; a namespace is made in milliseconds.
const QUIET: Duration = Duration::from_secs(1);

/// How often it is tried until then.
const TRY_EVERY: Duration = Duration::from_millis(2);

/// The lock of the process that makes a namespace, or mounts in the kept one. It is released when the descriptor closes, at the latest
/// with the process.
///
/// # Errors
/// The system's error.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let failed = || format!("cannot lock {}", path.display());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).with_context(failed)?);
    if !is_locked_soon(&file).with_context(failed)? {
        eprintln!(
            "forebay: waiting for {}, which prepares this node for programs; if it hangs, a file system may not \
             answer (see forebay status); ending that process lets this program try",
            holder(&file)
        );
        retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).with_context(failed)?;
    }
    Ok(file)
}

fn is_locked_soon(file: &File) -> rustix::io::Result<bool> {
    let until = Instant::now() + QUIET;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() >= until => return Ok(false),
            Err(Errno::WOULDBLOCK) => sleep(TRY_EVERY),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The process that has it, as far as the kernel tells: not one in another container.
fn holder(file: &File) -> String {
    let table = fs::read_to_string("/proc/locks").unwrap_or_default();
    let found = fstat(file).ok().and_then(|found| {
        let (device, inode) = (found.st_dev, found.st_ino);
        holder_in(&table, &format!("{:02x}:{:02x}:{inode}", major(device), minor(device)))
    });
    let Some(pid) = found else { return "another program".to_owned() };
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("process {pid} ({})", name.trim())
}

/// The process that has the lock on `file`; a line of one that waits has an arrow (proc_locks(5)).
fn holder_in(table: &str, file: &str) -> Option<u32> {
    let of_line = |line: &str| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        [_, "FLOCK", _, _, pid, of, ..] if *of == file => pid.parse().ok(),
        _ => None,
    };
    table.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_holders_are_in_the_kernels_table() {
        let table = "1: POSIX  ADVISORY  WRITE 7 00:1a:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 00:1a:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 00:1a:12 0 EOF\n3: FLOCK  ADVISORY  WRITE 10 08:01:12 0 EOF\n";
        assert_eq!(holder_in(table, "00:1a:12"), Some(8));
        assert_eq!(holder_in(table, "08:01:12"), Some(10));
        assert_eq!(holder_in(table, "08:01:1"), None);
    }
}
