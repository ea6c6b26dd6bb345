//! The entries of one directory of an export, as the view shows them.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use forebay_types::{Errno, Kind, ViewPath};
use forebay_wire::EntryRecord;

use crate::backing::Backing;
use crate::inode_numbers::Salt;
use crate::mounts::Table;
use crate::stat::Device;

/// A directory with what is needed to tell of its entries.
pub(crate) struct Directory<'a> {
    pub(crate) backing: &'a Backing,
    pub(crate) path: &'a ViewPath,
    pub(crate) base: BorrowedFd<'a>,
    table: &'a Table,
    /// Names that are mount points or hidden, and whether they are hidden.
    points: HashMap<&'a [u8], bool>,
}

impl<'a> Directory<'a> {
    pub(crate) fn new(backing: &'a Backing, path: &'a ViewPath, base: BorrowedFd<'a>, table: &'a Table) -> Self {
        Self { backing, path, base, table, points: table.names_in(path) }
    }

    /// The record of `name`; `None` when it does not exist or is not shown.
    pub(crate) fn record(&self, name: &[u8]) -> Result<Option<EntryRecord>, Errno> {
        if self.hides(name) {
            return Ok(None);
        }
        let calls = &self.backing.calls;
        let stat = match calls.stat_entry(self.base, name) {
            Err(Errno::ENOENT) => return Ok(None),
            outcome => outcome?,
        };
        if self.backing.hides_device(stat.device, self.table)? {
            return Ok(None);
        }
        let target = match stat.attributes.kind() {
            Kind::Symlink => match calls.read_link(self.base, name) {
                Err(Errno::ENOENT) => return Ok(None),
                // It was a link a moment ago.
                Err(Errno::EINVAL) => return Err(Errno::ESTALE),
                outcome => outcome?,
            },
            _ => Vec::new(),
        };
        let attributes = self.salt(stat.device, Some(name)).attributes(&stat);
        Ok(Some(EntryRecord { attributes, target }))
    }

    /// Whether `name` is never shown.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        self.points.get(name) == Some(&true)
    }

    /// Whether something is mounted on `name`, so that the directory's own record of it tells of what lies beneath.
    pub(crate) fn is_mount_point(&self, name: &[u8]) -> bool {
        self.points.contains_key(name)
    }

    /// The salt of inode numbers of `device`, for entry `name` or for the directory itself.
    pub(crate) fn salt(&self, device: Device, name: Option<&[u8]>) -> Salt {
        let numbers = &self.backing.numbers;
        let entry = name.filter(|_| !numbers.is_exported(device)).and_then(|name| self.path.join(name).ok());
        numbers.salt(device, entry.as_ref().unwrap_or(self.path), self.table)
    }

    /// Fails for a directory on a device that is never shown.
    pub(crate) fn check_shown(&self, device: Device) -> Result<(), Errno> {
        if self.backing.hides_device(device, self.table)? { Err(Errno::ENOENT) } else { Ok(()) }
    }
}
