//! Which file systems are a network's: a log there is neither fast nor safe, as syncs go over the network and locks may
//! hold on one node only.

use std::io;
use std::path::Path;

/// Types as `statfs(2)` tells them (`linux/magic.h` and the sources of each file system).
const NETWORK_TYPES: [(u32, &str); 16] = [
    (0x0000_517B, "SMB"),
    (0x0000_6969, "NFS"),
    (0x00C3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x0116_1970, "GFS2"),
    (0x0BD0_0BD0, "Lustre"),
    (0x1980_3326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x4750_4653, "GPFS"),
    (0x5346_414F, "AFS"),
    (0x6573_5546, "FUSE"),
    (0x7375_7245, "Coda"),
    (0x7461_636F, "OCFS2"),
    (0xAAD7_AAEA, "PanFS"),
    (0xFE53_4D42, "SMB2"),
    (0xFF53_4D42, "CIFS"),
];

/// The name of the network file system that `path` lies on; `None` on any other.
///
/// # Errors
/// When it cannot be looked at.
pub fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(network_name(rustix::fs::statfs(path)?.f_type as u32))
}

/// The name of the network file system of this type; `None` for any other type.
pub(crate) fn network_name(file_system_type: u32) -> Option<&'static str> {
    NETWORK_TYPES.binary_search_by_key(&file_system_type, |known| known.0).ok().map(|index| NETWORK_TYPES[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not() {
        assert!(NETWORK_TYPES.is_sorted(), "in the order that the search needs");
        assert_eq!(network_name(0x0BD0_0BD0), Some("Lustre"));
        assert_eq!(network_name(0xFF53_4D42), Some("CIFS"));
        for (name, local) in [("ext4", 0xEF53), ("xfs", 0x5846_5342), ("tmpfs", 0x0102_1994), ("btrfs", 0x9123_683E)] {
            assert_eq!(network_name(local), None, "{name}");
        }
    }
}
