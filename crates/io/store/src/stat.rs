//! From `struct statx` to attributes. The inode number is still the raw one; `inode_numbers` makes it the view's.

use forebay_types::{Attributes, BackingId, Timestamp};
use rustix::fs::{Statx, StatxFlags, StatxTimestamp};

/// A device number: what tells file systems apart within one kernel, and nothing beyond it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Device {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// The result of a `statx`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// With the raw inode number.
    pub(crate) attributes: Attributes,
    pub(crate) device: Device,
    /// When it was made, where that was requested and is known; else the epoch.
    pub(crate) born: Timestamp,
}

/// The fields of a generation, and no more: a request for the access time makes FUSE file systems ask their server
/// again after every read.
pub(crate) const GENERATION_FIELDS: StatxFlags =
    StatxFlags::TYPE.union(StatxFlags::INO).union(StatxFlags::SIZE).union(StatxFlags::MTIME).union(StatxFlags::CTIME);

impl Stat {
    /// The fields that tell it from other files and versions.
    pub(crate) fn backed(&self) -> BackingId {
        BackingId { generation: self.attributes.generation(), born: self.born, kind: self.attributes.kind() }
    }
}

impl From<&Statx> for Stat {
    fn from(statx: &Statx) -> Self {
        let attributes = Attributes {
            ino: statx.stx_ino,
            size_bytes: statx.stx_size,
            blocks: statx.stx_blocks,
            atime: timestamp(statx.stx_atime),
            mtime: timestamp(statx.stx_mtime),
            ctime: timestamp(statx.stx_ctime),
            mode: u32::from(statx.stx_mode),
            nlink: statx.stx_nlink,
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            rdev: encode_device(statx.stx_rdev_major, statx.stx_rdev_minor),
            blksize: statx.stx_blksize,
        };
        let device = Device { major: statx.stx_dev_major, minor: statx.stx_dev_minor };
        let has_birth = statx.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = if has_birth { timestamp(statx.stx_btime) } else { Timestamp::default() };
        Self { attributes, device, born }
    }
}

fn timestamp(time: StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanos: time.tv_nsec }
}

/// `new_encode_dev` of the kernel (`include/linux/kdev_t.h`): minor bits 0-7, major, minor bits 8-19.
fn encode_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_encoded_as_the_kernel_does() {
        assert_eq!(encode_device(1, 3), 0x103);
        assert_eq!(encode_device(259, 0x12345), 0x1231_0345);
    }
}
