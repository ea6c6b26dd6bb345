//! Extended attributes as a file has them on the backing file system, which the tree asks for while programs have changed none.

use forebay_store::{Draft, Held};
use forebay_types::{Backed, Errno, ExtendedAttributes, FileId, ViewPath};
use forebay_write::Tree;

use super::paths::backing_path;
use crate::write::local::Local;

/// So many bytes have room wherever there can be any: ext4 has 4 KiB for names, values and 16 bytes more for each.
const SURE_BYTES: usize = 1 << 10;

/// A file there.
pub struct There<'a> {
    local: &'a Local,
    path: Option<ViewPath>,
    backed: Option<Backed>,
}

impl<'a> There<'a> {
    /// As a tree knows it.
    pub fn of(local: &'a Local, tree: &Tree, file: FileId) -> Self {
        Self { local, path: backing_path(tree, file), backed: tree.backed(file) }
    }

    /// The value of an attribute, or the names of all with a NUL after each.
    ///
    /// # Errors
    /// ENODATA, ESTALE where it is between two names there, else what the backing file system says; so do all others.
    pub fn told(&self, name: Option<&[u8]>) -> Result<Vec<u8>, Errno> {
        match (self.held()?, name) {
            (Some(held), Some(name)) => self.local.calls.serve(|| held.extended_value(name)),
            (None, Some(_)) => Err(Errno::ENODATA),
            (Some(held), None) => self.local.calls.serve(|| held.extended_names()),
            (None, None) => Ok(vec![]),
        }
    }

    /// All of them; EOPNOTSUPP where there can be none.
    pub fn all(&self) -> Result<ExtendedAttributes, Errno> {
        self.local.calls.serve(|| self.local.place.check_extended())?;
        match self.held()? {
            Some(held) => self.local.calls.serve(|| held.extended()),
            None => Ok(ExtendedAttributes::default()),
        }
    }

    fn held(&self) -> Result<Option<Held>, Errno> {
        let Some(path) = &self.path else { return Ok(None) };
        let held = match self.local.calls.serve(|| self.local.place.hold(path)) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Errno::ESTALE),
            held => held,
        }?;
        let is_its = self.backed.is_none_or(|backed| backed.is_same_file(&held.backed()));
        if is_its { Ok(Some(held)) } else { Err(Errno::ESTALE) }
    }
}

/// Whether a file of a directory can have so many: tried on a draft of this number. What does not fit would keep all from landing.
pub fn check_room(local: &Local, directory: &ViewPath, number: u128, wanted: &ExtendedAttributes) -> Result<(), Errno> {
    if wanted.bytes() <= SURE_BYTES {
        return Ok(());
    }
    let path = Draft::path(directory, number)?;
    let draft = match local.calls.land(|| local.place.draft(&path, number)) {
        // Where others have removed the directory, or no file may be made there, this is not known before.
        Err(Errno::EACCES | Errno::EPERM | Errno::ENOENT | Errno::ENOTDIR) => return Ok(()),
        draft => draft?,
    };
    match local.calls.land(|| draft.set_extended(wanted)) {
        Err(Errno::E2BIG | Errno::ERANGE | Errno::ENOSPC) => Err(Errno::ENOSPC),
        set => set,
    }
}
