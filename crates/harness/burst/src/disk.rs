//! The writes and names of a node's disk that a loss of power now would take.

use std::path::PathBuf;

use crate::pass::pass;
use crate::reached::{Reach, reached};
use crate::turns;

/// The unit that a disk writes whole.
const SECTOR_BYTES: usize = 512;

/// The changes since the last sync.
#[derive(Default)]
pub struct Disk {
    /// Files, in the order in which they were written first: no seed decides the order of inode numbers.
    written: Vec<Written>,
    names: Vec<NameChange>,
}

struct Written {
    inode: u64,
    descriptor: i32,
    /// The bytes before each write.
    before: Vec<Before>,
}

struct Before {
    offset: u64,
    bytes: Vec<u8>,
}

/// A name that has changed.
#[derive(Clone, Debug)]
pub enum NameChange {
    Made(PathBuf),
    Relocated { from: PathBuf, to: PathBuf, kept: Option<PathBuf> },
    Removed { path: PathBuf, kept: PathBuf },
}

impl Disk {
    /// So much of a file is about to be written.
    pub fn before_write(&mut self, descriptor: i32, offset: u64, len: usize) {
        let Some(found) = status(descriptor) else { return };
        let known = self.written.iter().position(|written| written.inode == found.st_ino);
        let index = known.unwrap_or_else(|| {
            let own = pass(libc::SYS_fcntl, [descriptor as u64, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0]) as i32;
            self.written.push(Written { inode: found.st_ino, descriptor: own, before: vec![] });
            self.written.len() - 1
        });
        let mut bytes = vec![0; len];
        pass(libc::SYS_pread64, [descriptor as u64, bytes.as_mut_ptr() as u64, len as u64, offset, 0]);
        self.written[index].before.push(Before { offset, bytes });
    }

    /// A name has changed.
    pub fn names(&mut self, change: NameChange) {
        self.names.push(change);
    }

    /// Makes a descriptor's file durable.
    pub fn sync(&mut self, descriptor: i32) {
        let Some(found) = status(descriptor) else { return };
        if found.st_mode & libc::S_IFMT == libc::S_IFDIR {
            self.names.clear();
        } else if let Some(index) = self.written.iter().position(|written| written.inode == found.st_ino) {
            let written = self.written.remove(index);
            pass(libc::SYS_close, [written.descriptor as u64, 0, 0, 0, 0]);
        }
    }

    /// The power goes: of names the last ones are lost, of contents any sectors, all or none.
    pub fn cut(self) {
        let how = turns::below(3);
        for Written { descriptor, before, .. } in self.written {
            for Before { offset, bytes } in before.into_iter().rev() {
                for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                    let is_lost = match how {
                        0 => true,
                        1 => false,
                        _ => turns::below(2) == 0,
                    };
                    if is_lost {
                        reached(Reach::LostUnsynced);
                        let at = offset + (index * SECTOR_BYTES) as u64;
                        pass(
                            libc::SYS_pwrite64,
                            [descriptor as u64, sector.as_ptr() as u64, sector.len() as u64, at, 0],
                        );
                    }
                }
            }
            pass(libc::SYS_close, [descriptor as u64, 0, 0, 0, 0]);
        }
        let stay = turns::below(self.names.len() as u64 + 1) as usize;
        for change in self.names.into_iter().skip(stay).rev() {
            let undone = match change {
                NameChange::Made(path) => std::fs::remove_file(path),
                NameChange::Relocated { from, to, kept } => {
                    let moved = std::fs::rename(&to, &from);
                    kept.map_or(moved, |kept| std::fs::rename(kept, to))
                }
                NameChange::Removed { path, kept } => std::fs::rename(kept, path),
            };
            // One that is gone since was undone by another.
            let _ = undone;
        }
    }
}

fn status(descriptor: i32) -> Option<libc::stat> {
    // SAFETY: zeros are a valid `stat`, which the call may write.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    let said = pass(libc::SYS_fstat, [descriptor as u64, &raw mut found as u64, 0, 0, 0]);
    (said == 0).then_some(found)
}
