//! A file at a place of the backing file system, held by a descriptor: one that others put there meanwhile is another file.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use forebay_types::{Attributes, BackingId, Errno, ExtendedAttributes, Kind, Timestamp};
use rustix::fs::{self, AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::process::geteuid;

use crate::calls::errno;
use crate::extended;
use crate::given::{lent_bits, lent_mode, times};

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

    /// Its attributes when it was taken hold of.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The same, as far as it tells it from other files and versions.
    #[must_use]
    pub fn backed(&self) -> BackingId {
        BackingId { generation: self.attributes.generation(), born: self.born, kind: self.attributes.kind() }
    }

    /// The file, for reading.
    ///
    /// # Errors
    /// As the backing file system gave it; ESTALE for what is no file.
    pub fn open_to_read(&self) -> Result<File, Errno> {
        if self.attributes.kind() != Kind::File {
            return Err(Errno::ESTALE);
        }
        fs::open(self.path(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(File::from).map_err(errno)
    }

    /// The file, for reading and writing: also where this user owns it and has made it read-only.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn open_to_write(&self) -> Result<File, Errno> {
        if self.attributes.kind() != Kind::File {
            return Err(Errno::ESTALE);
        }
        let open = || fs::open(self.path(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(errno);
        self.while_writable(open).map(File::from)
    }

    /// Takes the bits of its mode away by which who runs it gets rights of others, before bytes come into it that these have not seen. Those
    /// bits.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn end_lent_rights(&self) -> Result<u32, Errno> {
        let mode = self.mode_now()?;
        let lent = lent_bits(&Attributes { mode, ..self.attributes });
        if lent != 0 {
            self.unless_anothers(fs::chmod(self.path(), Mode::from_raw_mode(mode & !lent)))?;
        }
        Ok(lent)
    }

    /// Gives such bits back.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn lend_again(&self, lent: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(self.mode_now()? | lent);
        if lent == 0 { Ok(()) } else { self.unless_anothers(fs::chmod(self.path(), mode)).map(drop) }
    }

    /// Gives it the mode, times and, for root, owner of `attributes`. Where it stays another's, it does not lend that one's
    /// rights. Whether it has got them: a file that belongs to another user, who alone may change them, keeps its own.
    ///
    /// # Errors
    /// As the backing file system gave it; ESTALE for something of another kind.
    pub fn set_attributes(&self, attributes: &Attributes) -> Result<bool, Errno> {
        if self.attributes.kind() != attributes.kind() {
            return Err(Errno::ESTALE);
        }
        if geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            fs::chownat(&self.place, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        let is_set = match attributes.kind() {
            Kind::Symlink => true,
            _ => self.unless_anothers(fs::chmod(self.path(), lent_mode(attributes)))?,
        };
        Ok(self.set_times(attributes)? && is_set)
    }

    /// Gives it the times of `attributes` alone, as `set_attributes`.
    ///
    /// # Errors
    /// As `set_attributes`.
    pub fn set_times(&self, attributes: &Attributes) -> Result<bool, Errno> {
        if self.attributes.kind() != attributes.kind() {
            return Err(Errno::ESTALE);
        }
        self.unless_anothers(fs::utimensat(CWD, self.path(), &times(attributes), AtFlags::empty()))
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

    /// Gives it those that are wanted, before the mode that may forbid it: also where this user owns the file and has made it read-only. With
    /// names, only these are changed: one that is not wanted goes.
    ///
    /// # Errors
    /// As the backing file system gave it.
    pub fn set_extended(&self, wanted: &ExtendedAttributes, names: Option<&BTreeSet<Vec<u8>>>) -> Result<(), Errno> {
        self.while_writable(|| extended::set(&self.path(), wanted, names))
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

    /// Does what a file of this user that is read-only forbids; it is writable for no longer than that.
    fn while_writable<T>(&self, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match act() {
            Err(Errno::EACCES) if self.is_own() => {}
            done => return done,
        }
        let mode = Mode::from_raw_mode(self.mode_now()?);
        fs::chmod(self.path(), mode | Mode::RUSR | Mode::WUSR).map_err(errno)?;
        let done = act();
        fs::chmod(self.path(), mode).map_err(errno)?;
        done
    }

    /// The mode that it has now; others may have changed it since it was taken hold of.
    fn mode_now(&self) -> Result<u32, Errno> {
        Ok(fs::fstat(&self.place).map_err(errno)?.st_mode)
    }

    fn is_own(&self) -> bool {
        self.attributes.uid == geteuid().as_raw()
    }

    /// Whether a call was carried out; one that its owner alone may make of another user's file is none of this user's.
    fn unless_anothers(&self, called: rustix::io::Result<()>) -> Result<bool, Errno> {
        match called.map_err(errno) {
            Err(Errno::EPERM) if !geteuid().is_root() && !self.is_own() => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// A name of the descriptor: leads to what it holds, wherever that is.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.place.as_raw_fd())
    }
}
