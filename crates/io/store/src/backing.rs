//! The backing file system as all of the store's operations see it: what may be seen of it, by which descriptors, and how
//! it is asked.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use forebay_body::Pool;
use forebay_types::{Errno, ViewPath};

use crate::calls::Calls;
use crate::descriptors::{Descriptors, Shared};
use crate::inode_numbers::InodeNumbers;
use crate::mounts::{Mounts, Table};
use crate::namespace::{Export, Namespace, Place, below};
use crate::read_sizes::ReadSizes;
use crate::stat::Device;

/// State that all operations share.
pub(crate) struct Backing {
    pub(crate) calls: Calls,
    pub(crate) mounts: Mounts,
    pub(crate) numbers: InodeNumbers,
    pub(crate) namespace: Namespace,
    pub(crate) directories: Descriptors,
    pub(crate) files: Descriptors,
    pub(crate) read_sizes: ReadSizes,
    pub(crate) pool: Pool,
}

impl Backing {
    /// Where `path` is in the view, unless it is hidden.
    pub(crate) fn place(&self, path: &ViewPath, table: &Table) -> Result<Place<'_>, Errno> {
        match self.namespace.place(path) {
            Some(Place::Inside(export)) if table.hides(path, &export.path) => Err(Errno::ENOENT),
            Some(place) => Ok(place),
            None => Err(Errno::ENOENT),
        }
    }

    /// Whether what lies on `device` is never shown. A device that is not in `table` may have been mounted since.
    pub(crate) fn hides_device(&self, device: Device, table: &Table) -> Result<bool, Errno> {
        if self.numbers.is_exported(device) {
            return Ok(false);
        }
        match table.type_of(device) {
            Some(_) => Ok(table.hides_device(device)),
            None => Ok(self.mounts.table()?.hides_device(device)),
        }
    }

    /// Runs `act` on a descriptor of `dir`. A kept one may name a directory that was removed meanwhile; then the path
    /// is walked anew, once.
    pub(crate) fn in_directory<T>(
        &self,
        export: &Export,
        dir: &ViewPath,
        act: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (base, was_kept) = self.base(export, dir)?;
        match act(base.as_fd()) {
            Err(Errno::ESTALE | Errno::ENOENT) if was_kept => {
                self.directories.forget_line(dir);
                act(self.base(export, dir)?.0.as_fd())
            }
            outcome => outcome,
        }
    }

    /// A descriptor of `dir`, and whether it was kept from before: by the deepest ancestor at hand, else from the export.
    fn base(&self, export: &Export, dir: &ViewPath) -> Result<(Shared, bool), Errno> {
        if *dir == export.path {
            return Ok((Arc::clone(&export.descriptor), false));
        }
        self.directories.get_or_open(dir, || {
            if let Some((end, ancestor)) = self.directories.deepest(dir, &export.path) {
                match self.calls.directory(ancestor.as_fd(), below(dir, end)) {
                    Err(Errno::ESTALE | Errno::ENOENT | Errno::ENOTDIR) => {
                        dir.split().inspect(|(parent, _)| self.directories.forget_line(parent));
                    }
                    outcome => return outcome,
                }
            }
            self.calls.directory(export.base(), export.relative(dir))
        })
    }
}
