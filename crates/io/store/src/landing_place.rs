//! Where a burst tree lands: a directory of the backing file system, read and changed below its descriptor.
//!
//! No message can name or reach a file outside of it: paths are resolved as those of exports are (`calls`), and the last component is
//! never followed. A file's contents come as a draft, which has a name of its own until it is whole (`draft`).

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use forebay_types::{Attributes, BackingId, Errno, FileSystem, Kind, Name, Timestamp, ViewPath, limits};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags};

use crate::calls::{Calls, errno};
use crate::draft::{Draft, sync_directories};
use crate::extended;
use crate::held::Held;
use crate::permissions::Permissions;
use crate::stat::Stat;

/// Bytes of one `getdents`.
const BATCH_BYTES: usize = 64 << 10;

/// The directory and how it is reached.
pub struct LandingPlace {
    calls: Calls,
    root: OwnedFd,
}

/// An entry of a directory there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LandedEntry {
    /// Its name.
    pub name: Name,
    /// The attributes from `lstat`.
    pub attributes: Attributes,
    /// When it was made; the epoch where the file system does not say.
    pub born: Timestamp,
    /// Of a symbolic link, else empty.
    pub target: Vec<u8>,
}

impl LandingPlace {
    /// The directory at `path`, which is followed as far as it leads.
    ///
    /// # Errors
    /// The error of opening it: ENOENT, ENOTDIR, EACCES.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(path, flags, Mode::empty()).map_err(errno)?;
        Ok(Self { calls: Calls::new(Permissions::new(true)), root })
    }

    /// The attributes of what is at `path`.
    ///
    /// # Errors
    /// As the backing file system gave it; so do all others.
    pub fn attributes(&self, path: &ViewPath) -> Result<Attributes, Errno> {
        let (base, rest) = self.near(path.as_bytes())?;
        let place = self.calls.place(base.as_ref().unwrap_or(&self.root).as_fd(), rest)?;
        Ok(self.calls.stat_open(place.as_fd())?.attributes)
    }

    /// The file that is at `path` now.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn backed(&self, path: &ViewPath) -> Result<BackingId, Errno> {
        let (base, rest) = self.near(path.as_bytes())?;
        let place = self.calls.place(base.as_ref().unwrap_or(&self.root).as_fd(), rest)?;
        Ok(self.calls.stat_now(place.as_fd())?.backed())
    }

    /// The same, with the blocks that it takes, as `stat` counts them.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn landed(&self, path: &ViewPath) -> Result<(BackingId, u64), Errno> {
        let (base, rest) = self.near(path.as_bytes())?;
        let place = self.calls.place(base.as_ref().unwrap_or(&self.root).as_fd(), rest)?;
        let found = self.calls.stat_now(place.as_fd())?;
        Ok((found.backed(), found.attributes.blocks))
    }

    /// All entries of a directory, but for drafts.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn list(&self, directory: &ViewPath) -> Result<Vec<LandedEntry>, Errno> {
        let base = self.directory(directory.as_bytes())?;
        let open = self.calls.listable(base.as_fd())?;
        let mut buffer = vec![MaybeUninit::uninit(); BATCH_BYTES];
        let mut raw = RawDir::new(&open, &mut buffer);
        let mut entries = vec![];
        while let Some(next) = raw.next() {
            let next = match next {
                Err(rustix::io::Errno::INTR) => continue,
                next => next.map_err(errno)?,
            };
            let Ok(name) = Name::new(next.file_name().to_bytes()) else { continue };
            if Draft::is_draft(name.as_bytes()) {
                continue;
            }
            match self.entry(base.as_fd(), name) {
                // It went meanwhile.
                Err(Errno::ENOENT) => {}
                entry => entries.push(entry?),
            }
        }
        Ok(entries)
    }

    fn entry(&self, base: BorrowedFd<'_>, name: Name) -> Result<LandedEntry, Errno> {
        let Stat { attributes, born, .. } = self.calls.stat_entry_and_birth(base, name.as_bytes())?;
        let is_link = attributes.kind() == Kind::Symlink;
        let target = if is_link { self.calls.read_link(base, name.as_bytes())? } else { vec![] };
        Ok(LandedEntry { name, attributes, born, target })
    }

    /// The file at `path`, for reading.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn open_to_read(&self, path: &ViewPath) -> Result<File, Errno> {
        let (base, name) = self.split(path)?;
        Ok(self.calls.file(base.as_fd(), name)?.into())
    }

    /// Whether files can have extended attributes.
    ///
    /// # Errors
    /// EOPNOTSUPP where they cannot.
    pub fn check_extended(&self) -> Result<(), Errno> {
        match extended::value(&format!("/proc/self/fd/{}", self.root.as_raw_fd()), b"user.forebay") {
            Err(Errno::EOPNOTSUPP) => Err(Errno::EOPNOTSUPP),
            _ => Ok(()),
        }
    }

    /// Takes hold of what is at `path`.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn hold(&self, path: &ViewPath) -> Result<Held, Errno> {
        let place = match path.split() {
            None => self.root.try_clone().map_err(|error| Errno::of(&error))?,
            Some((_, name)) => self.calls.place(self.directory(path.directory_bytes())?.as_fd(), name)?,
        };
        let stat = self.calls.stat_now(place.as_fd())?;
        Ok(Held::new(place, stat.attributes, stat.born))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// See `attributes`; EEXIST whatever is there.
    pub fn make_directory(&self, path: &ViewPath) -> Result<(), Errno> {
        let (base, name) = self.split(path)?;
        fs::mkdirat(&base, name, Mode::RWXU).map_err(errno)?;
        sync(&self.calls, base.as_fd())
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// See `attributes`; EEXIST whatever is there.
    pub fn make_symlink(&self, path: &ViewPath, target: &[u8]) -> Result<(), Errno> {
        let (base, name) = self.split(path)?;
        fs::symlinkat(target, &base, name).map_err(errno)?;
        sync(&self.calls, base.as_fd())
    }

    /// Makes a fifo, socket or device of these attributes.
    ///
    /// # Errors
    /// See `attributes`; EEXIST whatever is there.
    pub fn make_special(&self, path: &ViewPath, attributes: &Attributes) -> Result<(), Errno> {
        let (base, name) = self.split(path)?;
        let (kind, mode) = (FileType::from_raw_mode(attributes.mode), Mode::from_raw_mode(attributes.mode));
        fs::mknodat(&base, name, kind, mode, attributes.rdev.into()).map_err(errno)?;
        sync(&self.calls, base.as_fd())
    }

    /// Whether what is at `path` may have been made there by this user to be what has these attributes: it is of their kind, and a directory
    /// is empty; a symbolic link leads to `target`. It is this user's still, or theirs in owner and mode.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn is_as_made(&self, path: &ViewPath, attributes: &Attributes, target: &[u8]) -> Result<bool, Errno> {
        let found = self.attributes(path)?;
        let is_own = found.uid == rustix::process::geteuid().as_raw();
        let is_done = found.uid == attributes.uid && found.mode == attributes.mode;
        if found.kind() != attributes.kind() || !(is_own || is_done) {
            return Ok(false);
        }
        match found.kind() {
            Kind::Directory => Ok(self.list(path)?.is_empty()),
            Kind::Symlink => {
                let (base, name) = self.split(path)?;
                Ok(self.calls.read_link(base.as_fd(), name)? == target)
            }
            _ => Ok(found.rdev == attributes.rdev),
        }
    }

    /// Whether an empty directory of this user is at `path`.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn is_own_empty_directory(&self, path: &ViewPath) -> Result<bool, Errno> {
        let found = self.attributes(path)?;
        let is_own = found.uid == rustix::process::geteuid().as_raw();
        Ok(is_own && found.kind() == Kind::Directory && self.list(path)?.is_empty())
    }

    /// Gives what is at `from` the name `to` too; one that is there is replaced. `number` is that of the file's drafts.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn link(&self, from: &ViewPath, to: &ViewPath, number: u128) -> Result<(), Errno> {
        let ((from_base, from_name), (to_base, to_name)) = (self.split(from)?, self.split(to)?);
        match fs::linkat(&from_base, from_name, &to_base, to_name, AtFlags::empty()).map_err(errno) {
            Err(Errno::EEXIST) if self.is_same(from, to) => {}
            Err(Errno::EEXIST) => {
                let name = Draft::link_name(number);
                let _ = fs::unlinkat(&to_base, &name, AtFlags::empty());
                fs::linkat(&from_base, from_name, &to_base, &name, AtFlags::empty()).map_err(errno)?;
                if let Err(failed) = fs::renameat(&to_base, &name, &to_base, to_name) {
                    let _ = fs::unlinkat(&to_base, &name, AtFlags::empty());
                    return Err(errno(failed));
                }
            }
            linked => linked?,
        }
        sync(&self.calls, to_base.as_fd())
    }

    /// The same where nothing is at `to`. Done before, it is done.
    ///
    /// # Errors
    /// See `attributes`; EEXIST where something else is.
    pub fn link_beside(&self, from: &ViewPath, to: &ViewPath) -> Result<(), Errno> {
        let ((from_base, from_name), (to_base, to_name)) = (self.split(from)?, self.split(to)?);
        match fs::linkat(&from_base, from_name, &to_base, to_name, AtFlags::empty()).map_err(errno) {
            Err(Errno::EEXIST) if self.is_same(from, to) => {}
            linked => linked?,
        }
        sync(&self.calls, to_base.as_fd())
    }

    /// Whether both names are of one file.
    fn is_same(&self, one: &ViewPath, other: &ViewPath) -> bool {
        matches!((self.attributes(one), self.attributes(other)), (Ok(one), Ok(other)) if one.ino == other.ino)
    }

    /// Renames what is at `from`, the inode `ino` as far as that is known, to `to`, which it replaces or changes places with.
    /// Done before, it is done.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn rename(&self, from: &ViewPath, to: &ViewPath, is_exchange: bool, ino: Option<u64>) -> Result<(), Errno> {
        let ((from_base, from_name), (to_base, to_name)) = (self.split(from)?, self.split(to)?);
        let at_end = || self.attributes(to).ok().map(|found| found.ino);
        if is_exchange {
            if ino.is_none() || at_end() != ino {
                fs::renameat_with(&from_base, from_name, &to_base, to_name, RenameFlags::EXCHANGE).map_err(errno)?;
            }
        } else if self.is_same(from, to) {
            // Two names of one file would both stay.
            return self.remove(from, false);
        } else {
            match fs::renameat(&from_base, from_name, &to_base, to_name).map_err(errno) {
                Err(Errno::ENOENT) if at_end().is_some_and(|found| ino.is_none_or(|ino| found == ino)) => {}
                renamed => renamed?,
            }
        }
        sync(&self.calls, from_base.as_fd())?;
        sync(&self.calls, to_base.as_fd())
    }

    /// Removes what is at `path`; nothing there is as good.
    ///
    /// # Errors
    /// See `attributes`; ENOTEMPTY for a directory in which others have put something.
    pub fn remove(&self, path: &ViewPath, is_directory: bool) -> Result<(), Errno> {
        let (base, name) = match self.split(path) {
            // Nor is its directory.
            Err(Errno::ENOENT) => return Ok(()),
            split => split?,
        };
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match fs::unlinkat(&base, name, flags).map_err(errno) {
            // Removed before, it may not be so durably.
            Ok(()) | Err(Errno::ENOENT) => sync(&self.calls, base.as_fd()),
            removed => removed,
        }
    }

    /// A file in the directory of `path` that nobody sees yet. One of the same `number` that was left there is replaced.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn draft(&self, path: &ViewPath, number: u128) -> Result<Draft, Errno> {
        let (base, _) = self.split(path)?;
        Draft::create(self.calls.listable(base.as_fd())?, number)
    }

    /// The draft of a `number` that was kept in the directory of `path`.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn draft_again(&self, path: &ViewPath, number: u128) -> Result<Draft, Errno> {
        let (base, _) = self.split(path)?;
        Draft::reopen(self.calls.listable(base.as_fd())?, number)
    }

    /// The draft's own file, whatever has its name now.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn backed_draft(&self, draft: &Draft) -> Result<BackingId, Errno> {
        Ok(self.calls.stat_now(draft.file().as_fd())?.backed())
    }

    /// Lets drafts that are durable take the places of what is at paths, or of nothing where they do not replace anything: each at
    /// once, one after the other; then all durably. `may_rename` is asked immediately before each.
    ///
    /// # Errors
    /// See `attributes`; EEXIST where something is that is not to be replaced; that of `may_rename`. The draft that it is about and those
    /// after it are drafts still.
    pub fn publish(
        &self,
        drafts: &[(&Draft, &ViewPath, bool)],
        may_rename: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut changed = vec![];
        let published = drafts.iter().try_for_each(|(draft, path, replaces)| {
            let (base, name) = self.split(path)?;
            let to = self.calls.listable(base.as_fd())?;
            may_rename()?;
            changed.extend(draft.publish(to, name, *replaces)?);
            Ok(())
        });
        sync_directories(changed)?;
        published
    }

    /// Sizes of the file system.
    ///
    /// # Errors
    /// See `attributes`.
    pub fn file_system(&self) -> Result<FileSystem, Errno> {
        self.calls.file_system(self.root.as_fd())
    }

    /// The directory that holds `path`, and its name there.
    fn split<'a>(&self, path: &'a ViewPath) -> Result<(OwnedFd, &'a [u8]), Errno> {
        let (_, name) = path.split().ok_or(Errno::EINVAL)?;
        Ok((self.directory(path.directory_bytes())?, name))
    }

    fn directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let (base, rest) = self.near(path)?;
        self.calls.directory(base.as_ref().unwrap_or(&self.root).as_fd(), rest)
    }

    /// A directory on the way of a path that is too long for one call, and the rest of it, which is not; none where it is
    /// the root.
    fn near<'a>(&self, path: &'a [u8]) -> Result<(Option<OwnedFd>, &'a [u8]), Errno> {
        let (mut base, mut rest) = (None::<OwnedFd>, path);
        while rest.len() > limits::PATH_BYTES_MAX {
            let cut =
                rest[..limits::PATH_BYTES_MAX].iter().rposition(|byte| *byte == b'/').ok_or(Errno::ENAMETOOLONG)?;
            base = Some(self.calls.directory(base.as_ref().unwrap_or(&self.root).as_fd(), &rest[..cut])?);
            rest = &rest[cut + 1..];
        }
        Ok((base, rest))
    }
}

/// Makes what changed in a directory durable. A file system that cannot do that does it anyway, or never.
fn sync(calls: &Calls, directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let open = calls.listable(directory)?;
    match fs::fsync(open).map_err(errno) {
        Err(Errno::EINVAL) => Ok(()),
        synced => synced,
    }
}
