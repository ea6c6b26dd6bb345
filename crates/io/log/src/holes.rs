//! Which parts of a segment were never written. A segment has all its blocks from the beginning (`fallocate(2)`), and most of the last ones are
//! without bytes: a recovery that read them would read zeros for longer than anything else takes.
//!
//! `SEEK_DATA` (`lseek(2)`) tells them from written ones. A file system may take any part for written, and none for unwritten that has bytes,
//! also where these are only in the page cache and the block is still marked as unwritten. Only those known to keep to that are asked.

use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;

use rustix::fs::{SeekFrom, fstatfs, seek};
use rustix::io::Errno;

/// Types as `statfs(2)` tells them (`linux/magic.h`), of file systems that look for bytes in the page cache too. Ext4 and XFS do so by
/// `iomap_seek_data`, tmpfs has its files there, and Btrfs knows the ranges that it has yet to write. An overlay is not among them, since it is as
/// truthful as the file system below it. Neither is ZFS, some versions of which take bytes for unwritten that were just written.
const TRUTHFUL_TYPES: [(u32, &str); 4] =
    [(0x0000_EF53, "ext4"), (0x0102_1994, "tmpfs"), (0x5846_5342, "XFS"), (0x9123_683E, "Btrfs")];

/// The ranges of a file of so many bytes outside of which nothing was written, ascending. To be asked for once: parts that have been read since are in
/// the page cache, and are taken for written.
pub(crate) fn written(file: &File, bytes: u32) -> io::Result<Vec<Range<u32>>> {
    match is_truthful(fstatfs(file)?.f_type as u32) {
        true => told(file, bytes),
        false => Ok(iter::once(0..bytes).collect()),
    }
}

fn is_truthful(file_system_type: u32) -> bool {
    TRUTHFUL_TYPES.iter().any(|known| known.0 == file_system_type)
}

fn told(file: &File, bytes: u32) -> io::Result<Vec<Range<u32>>> {
    let (mut ranges, mut at) = (vec![], 0);
    while at < u64::from(bytes) {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        at = seek(file, SeekFrom::Hole(start))?;
        let within = |offset: u64| offset.min(bytes.into()) as u32;
        ranges.push(within(start)..within(at));
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_that_miss_no_bytes_are_asked() {
        for (name, odd) in [
            ("ZFS", 0x2FC1_2FC1),
            ("overlayfs", 0x794C_7630),
            ("FUSE", 0x6573_5546),
            ("NFS", 0x6969),
            ("Lustre", 0x0BD0_0BD0),
            ("F2FS", 0xF2F5_2010),
            ("none", 0),
        ] {
            assert!(!is_truthful(odd), "{name}");
        }
        assert!(is_truthful(0xEF53));
    }

    #[test]
    fn others_are_taken_for_written_throughout() {
        let proc = File::open("/proc/self/stat").unwrap();
        assert!(written(&proc, 100).unwrap().into_iter().eq(iter::once(0..100)));
    }
}
