//! The mode that the view shows of a file or directory: with it the kernel decides who may do what, and it asks nobody else.
//!
//! A mode does not say everything. An access control list (ACL) may let a user in whom the mode keeps out, and the other way
//! round. A group without a number in this user namespace has no members. The mode that the kernel gets must hold all the same.
//! - Where only the job's user enters, the bits of all others are his: access that the backing file system grants him beyond the mode
//!   is added to them. It is asked only about access that the mode does not grant him, and the group's bits, which bound an ACL, do.
//! - Where others enter, only the mode can speak for them. A file with an ACL is closed to all but its owner.
//!
//! This is found out where the backing file system is read, once a job, and travels with the attributes.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use forebay_types::{Attributes, Kind};
use rustix::fs::{Access, AtFlags, CWD, accessat, getxattr, lgetxattr};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};

/// How an id looks that has no number in this user namespace (`/proc/sys/kernel/overflowuid`).
const UNMAPPED: u32 = 65_534;

const ACL: &str = "system.posix_acl_access";
/// NFSv4 shows this of every file, so its presence does not tell whether it says more than the mode.
const ACL_OF_NFS4: &str = "system.nfs4_acl";

/// Read and execute in a class of a mode, with the modes of `access(2)`. A view allows no writes.
const RIGHTS: [(u32, Access); 2] = [(0o4, Access::READ_OK), (0o1, Access::EXEC_OK)];
const GROUP_AND_OTHERS: u32 = 0o077;

/// The users that enter the view, and the one that reads the backing file system.
#[derive(Debug)]
pub(crate) struct Permissions {
    others_enter: bool,
    user: u32,
    groups: Vec<u32>,
}

impl Permissions {
    /// For this process.
    pub(crate) fn new(others_enter: bool) -> Self {
        let mut groups: Vec<u32> = getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw()).collect();
        groups.push(getegid().as_raw());
        Self { others_enter, user: geteuid().as_raw(), groups }
    }

    /// The mode to show of entry `name` of directory `base`, or of `base` itself for the empty name.
    pub(crate) fn shown_mode(&self, found: &Attributes, base: BorrowedFd<'_>, name: &[u8]) -> u32 {
        match found.kind() {
            Kind::File | Kind::Directory if self.others_enter => {
                if has_acl(base, name) {
                    found.mode & !GROUP_AND_OTHERS
                } else {
                    found.mode
                }
            }
            Kind::File | Kind::Directory => found.mode | self.granted_beyond(found, base, name),
            _ => found.mode,
        }
    }

    /// The others' bits that the mode lacks and the backing file system grants.
    fn granted_beyond(&self, found: &Attributes, base: BorrowedFd<'_>, name: &[u8]) -> u32 {
        let Attributes { mode, uid, gid, .. } = *found;
        let is_unmapped = uid == UNMAPPED || gid == UNMAPPED;
        // The kernel itself lets root in, but for what has no number.
        if uid == self.user || self.user == 0 && !is_unmapped {
            return 0;
        }
        let in_group = gid != UNMAPPED && self.groups.contains(&gid);
        let own_class = if in_group { mode >> 3 } else { mode };
        let lacking = mode >> 3 & !own_class;
        let wanted = RIGHTS.into_iter().filter(|(bit, _)| lacking & bit != 0);
        let is_granted = |right| match name {
            b"" => accessat(CWD, place(base, name), right, AtFlags::empty()).is_ok(),
            _ => accessat(base, name, right, AtFlags::empty()).is_ok(),
        };
        wanted.filter(|(_, right)| is_granted(*right)).fold(0, |granted, (bit, _)| granted | bit)
    }
}

/// Whether more than the mode decides about access. When that cannot be told it does.
fn has_acl(base: BorrowedFd<'_>, name: &[u8]) -> bool {
    let path = place(base, name);
    // The descriptor's own link is followed, to what it holds, and no other.
    let length_of = |attribute: &str| match name {
        b"" => getxattr(&path, attribute, &mut [0; 0]),
        _ => lgetxattr(&path, attribute, &mut [0; 0]),
    };
    match length_of(ACL) {
        Err(Errno::NODATA) => false,
        Err(Errno::OPNOTSUPP) => !matches!(length_of(ACL_OF_NFS4), Err(Errno::NODATA | Errno::OPNOTSUPP)),
        _ => true,
    }
}

/// A path that leads to the place by the descriptor, whatever others do with names.
fn place(base: BorrowedFd<'_>, name: &[u8]) -> PathBuf {
    let base = PathBuf::from(format!("/proc/thread-self/fd/{}", base.as_raw_fd()));
    if name.is_empty() { base } else { base.join(OsStr::from_bytes(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// The mode shown of a file of this mode, with changes to its attributes and to the users.
    fn shown(mode: u32, change: impl FnOnce(&mut Attributes, &mut Permissions)) -> u32 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        let base = rustix::fs::open(directory.path(), OFlags::PATH, Mode::empty()).unwrap();
        let mut attributes =
            Attributes { mode: found.mode(), uid: found.uid(), gid: found.gid(), ..Attributes::default() };
        let mut permissions = Permissions { others_enter: false, user: found.uid(), groups: vec![found.gid()] };
        change(&mut attributes, &mut permissions);
        permissions.shown_mode(&attributes, base.as_fd(), b"file") & 0o777
    }

    #[test]
    fn only_what_the_groups_bits_bound_is_added_and_only_if_it_is_granted() {
        // Another user's, of another group; this process may read it.
        let foreign = |attributes: &mut Attributes, permissions: &mut Permissions| {
            permissions.user = 12_345;
            permissions.groups = vec![12_345];
            attributes.gid = 54_321;
        };
        assert_eq!(shown(0o640, foreign), 0o644);
        assert_eq!(shown(0o750, foreign), 0o755);
        assert_eq!(shown(0o600, foreign), 0o600, "no list can grant what the group's bits do not");
        assert_eq!(shown(0o644, foreign), 0o644);
        // Its owner, a member of its group.
        assert_eq!(shown(0o440, |_, _| ()), 0o440);
        assert_eq!(shown(0o640, |attributes, permissions| permissions.user = attributes.uid + 1), 0o640);
    }

    #[test]
    fn a_group_without_a_number_is_nobodys() {
        let unmapped = |attributes: &mut Attributes, permissions: &mut Permissions| {
            permissions.user = 12_345;
            attributes.gid = UNMAPPED;
            permissions.groups = vec![UNMAPPED];
        };
        assert_eq!(shown(0o640, unmapped), 0o644);
    }

    #[test]
    fn where_others_enter_a_mode_without_a_list_stands() {
        assert_eq!(shown(0o640, |_, permissions| permissions.others_enter = true), 0o640);
    }

    /// A file that is held by its own descriptor has the mode that it has by its name.
    #[test]
    fn a_file_is_shown_alike_by_its_name_and_by_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
        let itself = rustix::fs::open(&path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
        let found = Attributes { mode: 0o100_664, ..Attributes::default() };
        assert_eq!(Permissions::new(true).shown_mode(&found, itself.as_fd(), b""), 0o100_664);
    }
}
