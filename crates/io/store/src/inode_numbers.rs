//! One view, one device number, many devices behind it.
//!
//! Programs take two names for one file when device and inode number agree, and the kernel gives a view one device
//! number. So files of the first export's device keep their inode numbers, and those of every other device are mixed
//! with a salt of that device. Salts are made of paths, not of device numbers: those differ from node to node, and a
//! node that reads a large file by itself must come to the same generation as the root that listed it.

use forebay_types::{Attributes, ViewPath};

use crate::mounts::Table;
use crate::stat::{Device, Stat};

/// The salt that turns the inode numbers of one device into the view's; 0 leaves them as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Salt(u64);

impl Salt {
    /// The view's inode number; never 0, which means "no entry" to some programs.
    pub(crate) fn number(self, ino: u64) -> u64 {
        match ino ^ self.0 {
            0 => self.0,
            number => number,
        }
    }

    /// The attributes with the view's inode number.
    pub(crate) fn attributes(self, stat: &Stat) -> Attributes {
        Attributes { ino: self.number(stat.attributes.ino), ..stat.attributes }
    }
}

/// The salts of the exports' devices.
pub(crate) struct InodeNumbers {
    known: Vec<(Device, Salt)>,
}

impl InodeNumbers {
    /// `exports` in the order in which they were given: the first one's device is the view's own.
    pub(crate) fn new<'a>(exports: impl Iterator<Item = (Device, &'a ViewPath)>) -> Self {
        let mut known: Vec<(Device, Salt)> = Vec::new();
        for (device, path) in exports {
            if !known.iter().any(|(other, _)| *other == device) {
                let salt = if known.is_empty() { Salt(0) } else { Salt(hash(path.as_bytes())) };
                known.push((device, salt));
            }
        }
        Self { known }
    }

    /// Whether an export lies on `device`.
    pub(crate) fn is_exported(&self, device: Device) -> bool {
        self.known.iter().any(|(other, _)| *other == device)
    }

    /// The salt for what lies at `path` on `device`. Below a mount point all files of its device have one salt, so a
    /// listing may ask once for a directory and use it for all entries on the same device. A device that is no mount
    /// (a subvolume) is told by its number: such file systems are local to a node.
    pub(crate) fn salt(&self, device: Device, path: &ViewPath, table: &Table) -> Salt {
        if let Some((_, salt)) = self.known.iter().find(|(other, _)| *other == device) {
            return *salt;
        }
        let number = [device.major.to_le_bytes(), device.minor.to_le_bytes()].concat();
        Salt(hash(table.outermost(path, device).unwrap_or(&number)))
    }
}

/// FNV-1a, then the finaliser of SplitMix64: the same on every node and in every build, and with all bits well mixed.
fn hash(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::new(text.as_bytes()).unwrap()
    }

    fn device(minor: u32) -> Device {
        Device { major: 0, minor }
    }

    #[test]
    fn the_first_device_keeps_its_numbers_and_others_never_meet_them() {
        let (soft, home, more) = (path("soft"), path("home"), path("soft2"));
        let exports = [(device(1), &soft), (device(2), &home), (device(1), &more)];
        let numbers = InodeNumbers::new(exports.into_iter());
        let table = Table::empty();
        let [first, second, again] = exports.map(|(device, path)| numbers.salt(device, path, &table));
        assert_eq!(first.number(77), 77);
        assert_eq!(again, first);
        assert_ne!(second.number(77), 77);
        let other = numbers.salt(device(3), &path("soft/mnt/x"), &table);
        assert_ne!(other.number(77), second.number(77));
        assert_ne!(other.number(other.0), 0);
    }

    #[test]
    fn the_salt_of_a_mount_does_not_depend_on_its_device_number() {
        let soft = path("soft");
        let salt = |minor: u32| {
            let numbers = InodeNumbers::new([(device(1), &soft)].into_iter());
            let text = format!("1 1 0:1 / / rw - ext4 x rw\n2 1 0:{minor} / /soft/lib rw - nfs4 x rw\n");
            numbers.salt(device(minor), &path("soft/lib/a/b"), &Table::of(&text))
        };
        assert_eq!(salt(40), salt(41));
        assert_ne!(salt(40), Salt(0));
    }
}
