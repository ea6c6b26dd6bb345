//! Extended attributes as a file has them on the backing file system, which the tree asks for while programs have changed none.

use forebay_store::Held;
use forebay_types::{BackingId, Errno, ExtendedAttributes, FileId, ViewPath};
use forebay_write::Tree;

use super::paths::backing_paths;
use crate::write::local::Local;

/// A file there.
pub struct There<'a> {
    local: &'a Local,
    paths: Vec<ViewPath>,
    backed: Option<BackingId>,
}

impl<'a> There<'a> {
    /// As a tree knows it.
    pub fn of(local: &'a Local, tree: &Tree, file: FileId) -> Self {
        Self { local, paths: backing_paths(tree, file), backed: tree.backed(file) }
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
        for path in &self.paths {
            match self.local.calls.serve(|| self.local.place.hold(path)) {
                Ok(held) if self.backed.is_none_or(|backed| backed.is_same_file(&held.backed())) => {
                    return Ok(Some(held));
                }
                Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if self.paths.is_empty() { Ok(None) } else { Err(Errno::ESTALE) }
    }
}
