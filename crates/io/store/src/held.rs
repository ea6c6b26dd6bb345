//! What is at a place of the backing file system, held by a descriptor: what others put there meanwhile is another file.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use forebay_types::{Attributes, Backed, Errno, ExtendedAttributes, Kind, Timestamp};
use rustix::fs::{self, AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::process::geteuid;

use crate::calls::errno;
use crate::extended;
use crate::given::{lent_mode, times};

/// See the module.
#[derive(Debug)]
pub struct Held {
    place: OwnedFd,
    attributes: Attributes,
    born: Timestamp,
}

impl Held {
    pub(crate) fn new(place: OwnedFd, attributes: Attributes, born: Timestamp) -> Self {
        Self { place, attributes, born }
    }

    /// What it was when it was taken hold of.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The same, as far as it tells it from other files and versions.
    #[must_use]
    pub fn backed(&self) -> Backed {
        Backed { generation: self.attributes.generation(), born: self.born, kind: self.attributes.kind() }
    }

    /// The file, for reading and writing. Where this user owns it and has made it read-only, it is writable from then on.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn open_to_write(&self) -> Result<File, Errno> {
        if self.attributes.kind() != Kind::File {
            return Err(Errno::ESTALE);
        }
        let open = || fs::open(self.path(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(errno);
        let opened = match open() {
            Err(Errno::EACCES) if self.attributes.uid == geteuid().as_raw() => {
                let mode = Mode::from_raw_mode(self.attributes.mode) | Mode::RUSR | Mode::WUSR;
                fs::chmod(self.path(), mode).map_err(errno)?;
                open()
            }
            opened => opened,
        };
        opened.map(File::from)
    }

    /// Gives it the mode, times and, for root, owner of `attributes`. Where it stays another's, it does not lend that one's
    /// rights.
    ///
    /// # Errors
    /// As the backing file system gave it; ESTALE for something of another kind.
    pub fn set_attributes(&self, attributes: &Attributes) -> Result<(), Errno> {
        if self.attributes.kind() != attributes.kind() {
            return Err(Errno::ESTALE);
        }
        if geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            fs::chownat(&self.place, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        if attributes.kind() != Kind::Symlink {
            fs::chmod(self.path(), lent_mode(attributes)).map_err(errno)?;
        }
        fs::utimensat(CWD, self.path(), &times(attributes), AtFlags::empty()).map_err(errno)
    }

    /// The value of an extended attribute of users.
    ///
    /// # Errors
    /// As the backing file system gave it; ENODATA.
    pub fn extended_value(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        extended::value(&self.path(), name)
    }

    /// The names of all, each with a NUL after it.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn extended_names(&self) -> Result<Vec<u8>, Errno> {
        Ok(extended::names(&self.path())?.into_iter().flat_map(|name| name.into_iter().chain([0])).collect())
    }

    /// All of them.
    ///
    /// # Errors
    /// As the backing file system gave it; ENOSPC where they are more than `ExtendedAttributes::BYTES_MAX`.
    pub fn extended(&self) -> Result<ExtendedAttributes, Errno> {
        extended::all(&self.path())
    }

    /// Gives it those that are wanted, before the mode that may forbid it. With names, only these are changed: one that is not wanted goes. Where
    /// this user owns the file and has made it read-only, it is writable from then on.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn set_extended(&self, wanted: &ExtendedAttributes, names: Option<&BTreeSet<Vec<u8>>>) -> Result<(), Errno> {
        match extended::set(&self.path(), wanted, names) {
            Err(Errno::EACCES) if self.attributes.uid == geteuid().as_raw() => {
                let mode = Mode::from_raw_mode(self.attributes.mode) | Mode::RUSR | Mode::WUSR;
                fs::chmod(self.path(), mode).map_err(errno)?;
                extended::set(&self.path(), wanted, names)
            }
            set => set,
        }
    }

    /// Makes its attributes durable. Where nobody may open it, that is left to the file system.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn sync(&self) -> Result<(), Errno> {
        let open = |access: OFlags| fs::open(self.path(), access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        match open(OFlags::RDONLY).or_else(|_| open(OFlags::WRONLY)).map_err(errno) {
            Err(Errno::EACCES) => Ok(()),
            opened => fs::fsync(opened?).map_err(errno),
        }
    }

    /// A name of the descriptor: leads to what it holds, wherever that is.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.place.as_raw_fd())
    }
}
