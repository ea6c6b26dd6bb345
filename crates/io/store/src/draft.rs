//! A file of the backing file system that nobody sees yet.
//!
//! It lies in the directory that it is for, under a name that no other store gives, until it is whole and takes the place of
//! whatever has its name. Dropped before, it stays: only its owner knows whether the name is still for it to remove (`Draft::remove`).

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use forebay_types::{Attributes, Errno, ExtendedAttributes, ViewPath};
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};

use crate::calls::errno;
use crate::extended;
use crate::given::{lent_mode, times};

/// How the names of drafts begin.
const PREFIX: &str = ".forebay-draft-";

/// The part of the name that follows for a link.
const LINK: &str = "link-";

/// The rest: so many hexadecimal digits.
const DIGITS: usize = 32;

/// A draft.
#[derive(Debug)]
pub struct Draft {
    directory: OwnedFd,
    name: String,
    file: File,
    is_kept: bool,
}

impl Draft {
    /// Whether an entry is a draft of anybody, or a link to one that is about to get a name: nothing else has such a name by chance, and
    /// programs cannot give it.
    #[must_use]
    pub fn is_draft(name: &[u8]) -> bool {
        let Some(rest) = name.strip_prefix(PREFIX.as_bytes()) else { return false };
        let digest = rest.strip_prefix(LINK.as_bytes()).unwrap_or(rest);
        digest.len() == DIGITS && digest.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// The name under which a link to the file of this `number` is made before it replaces an entry.
    pub(crate) fn link_name(number: u128) -> String {
        format!("{PREFIX}{LINK}{:0DIGITS$x}", digest(number))
    }

    pub(crate) fn create(directory: OwnedFd, number: u128) -> Result<Self, Errno> {
        let name = name_of(number);
        match fs::unlinkat(&directory, &name, AtFlags::empty()).map_err(errno) {
            Err(Errno::ENOENT) => {}
            removed => removed?,
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&directory, &name, flags, Mode::RUSR | Mode::WUSR).map_err(errno)?.into();
        Ok(Self { directory, name, file, is_kept: false })
    }

    /// The draft of this `number` that was kept in `directory`.
    pub(crate) fn reopen(directory: OwnedFd, number: u128) -> Result<Self, Errno> {
        let name = name_of(number);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&directory, &name, flags, Mode::empty()).map_err(errno)?.into();
        Ok(Self { directory, name, file, is_kept: true })
    }

    /// The path of the draft of this `number` in `directory`.
    ///
    /// # Errors
    /// ENAMETOOLONG.
    pub fn path(directory: &ViewPath, number: u128) -> Result<ViewPath, Errno> {
        directory.join_deep(name_of(number).as_bytes()).map_err(|_| Errno::ENAMETOOLONG)
    }

    /// Keeps it, durably, though it is not whole.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn keep(&mut self) -> Result<(), Errno> {
        fs::fsync(&self.file).map_err(errno)?;
        sync_directory(self.directory.as_fd())?;
        self.is_kept = true;
        Ok(())
    }

    /// Whether it is of use though it is not whole.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Removes it, if its name is still its own: another file of that name may be a later leader's draft.
    ///
    /// # Errors
    /// As the backing file system gave it; it stays then.
    pub fn remove(&self) -> Result<(), Errno> {
        let own = fs::fstat(&self.file).map_err(errno)?;
        let removed = match fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino) => return Ok(()),
            found => found.and_then(|_| fs::unlinkat(&self.directory, &self.name, AtFlags::empty())),
        };
        match removed.map_err(errno) {
            Err(Errno::ENOENT) => Ok(()),
            removed => removed,
        }
    }

    /// The file, to be written and read.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it the mode, times and, for root, owner that the published file shall have. As `Held::set_attributes`.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn set_attributes(&self, attributes: &Attributes) -> Result<(), Errno> {
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            fs::fchown(&self.file, Some(uid), Some(gid)).map_err(errno)?;
        }
        fs::fchmod(&self.file, lent_mode(attributes)).map_err(errno)?;
        fs::futimens(&self.file, &times(attributes)).map_err(errno)
    }

    /// Gives it the extended attributes that the published file shall have.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn set_extended(&self, wanted: &ExtendedAttributes) -> Result<(), Errno> {
        extended::set(&format!("/proc/self/fd/{}", self.file.as_raw_fd()), wanted, None)
    }

    /// Makes its contents and attributes durable.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn make_durable(&self) -> Result<(), Errno> {
        fs::fsync(&self.file).map_err(errno)
    }

    /// Gives it its name in a directory. The directories that have changed, which are not durable yet.
    pub(crate) fn publish(&self, to: OwnedFd, name: &[u8], replaces: bool) -> Result<[OwnedFd; 2], Errno> {
        let rename = || fs::renameat(&self.directory, &self.name, &to, name).map_err(errno);
        let alone = || fs::renameat_with(&self.directory, &self.name, &to, name, RenameFlags::NOREPLACE).map_err(errno);
        match if replaces { rename() } else { alone() } {
            // A file system that cannot tell.
            Err(Errno::EINVAL | Errno::ENOSYS) if !replaces => rename()?,
            renamed => renamed?,
        }
        let from = self.directory.try_clone().map_err(|error| Errno::of(&error))?;
        Ok([from, to])
    }
}

fn name_of(number: u128) -> String {
    format!("{PREFIX}{:0DIGITS$x}", digest(number))
}

/// Half of a number is random: nobody who sees the name of one draft knows that of another, and puts something there.
fn digest(number: u128) -> u128 {
    let digest = ring::digest::digest(&ring::digest::SHA256, &number.to_le_bytes());
    digest.as_ref().iter().take(16).fold(0, |sum: u128, byte| sum << 8 | u128::from(*byte))
}

/// Makes what changed in directories durable, once in each.
pub(crate) fn sync_directories(directories: impl IntoIterator<Item = OwnedFd>) -> Result<(), Errno> {
    let mut synced = BTreeSet::new();
    for directory in directories {
        let found = fs::fstat(&directory).map_err(errno)?;
        if synced.insert((found.st_dev, found.st_ino)) {
            sync_directory(directory.as_fd())?;
        }
    }
    Ok(())
}

/// A file system that cannot make names durable does it anyway, or never.
fn sync_directory(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    match fs::fsync(directory).map_err(errno) {
        Err(Errno::EINVAL) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 by another program. The next daemon finds drafts by these names, and nobody else does.
    #[test]
    fn names_tell_nothing_of_each_other() {
        let number = 0x0123_4567_89ab_cdef_u128 << 64 | 7;
        assert_eq!(name_of(number), ".forebay-draft-710c1efef488a4023cb087c238dd0081");
        assert_eq!(name_of(number + 1), ".forebay-draft-9f1b9dbb9273f5f599ca463bdabd7b3a");
        assert_eq!(Draft::link_name(number), ".forebay-draft-link-710c1efef488a4023cb087c238dd0081");
    }

    #[test]
    fn no_other_name_is_one() {
        let drafts = [name_of(7), Draft::link_name(7)];
        assert!(drafts.iter().all(|name| Draft::is_draft(name.as_bytes())));
        let others = drafts.iter().flat_map(|name| {
            let cut = name[..name.len() - 1].to_owned();
            [format!("{name}0"), format!("{cut}g"), name.to_uppercase(), format!("x{name}"), cut]
        });
        for name in others.chain([".forebay-draft-", ".forebay-draft-x", ".forebay-draft-link-x"].map(str::to_owned)) {
            assert!(!Draft::is_draft(name.as_bytes()), "{name}");
        }
    }
}
