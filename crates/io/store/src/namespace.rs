//! Which part of the backing file system the view shows: the exports, and the directories that lead to them.
//!
//! An export is held open as a directory descriptor from start to end, and everything in it is reached below that
//! descriptor. A strict ancestor of an export is shown with its own attributes but lists only what leads to exports.
//! Any other path does not exist in the view.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_types::{Errno, Name, ViewPath};
use rustix::fs::{self, Mode, OFlags};

use crate::calls::{Calls, errno};
use crate::descriptors::Shared;
use crate::error::StoreError;
use crate::mounts::Table;
use crate::stat::Device;

/// A directory served with all that lies below it.
pub(crate) struct Export {
    pub(crate) path: ViewPath,
    pub(crate) descriptor: Shared,
    pub(crate) device: Device,
}

/// A strict ancestor of an export.
pub(crate) struct Ancestor {
    pub(crate) descriptor: Shared,
    /// The names that lead to exports.
    pub(crate) children: Vec<Name>,
}

/// Where in the view a path is.
pub(crate) enum Place<'a> {
    Inside(&'a Export),
    Above(&'a Ancestor),
}

pub(crate) struct Namespace {
    /// In the order given.
    exports: Vec<Export>,
    paths: Vec<ViewPath>,
    ancestors: BTreeMap<ViewPath, Ancestor>,
}

impl Namespace {
    /// Checks and opens the exports.
    pub(crate) fn open(given: &[PathBuf], calls: &Calls, table: &Table) -> Result<Self, StoreError> {
        if given.is_empty() {
            return Err(StoreError::NoExports);
        }
        let mut exports = Vec::new();
        for path in given {
            exports.push(open_export(path, calls, table)?);
        }
        let exports = fold(exports, table)?;
        let paths: Vec<ViewPath> = exports.iter().map(|export| export.path.clone()).collect();
        let ancestors = open_ancestors(&paths, calls)?;
        Ok(Self { exports, paths, ancestors })
    }

    /// Where `path` is; `None` where the view shows nothing.
    pub(crate) fn place(&self, path: &ViewPath) -> Option<Place<'_>> {
        let inside = self.exports.iter().find(|export| path.is_within(&export.path)).map(Place::Inside);
        inside.or_else(|| self.ancestors.get(path).map(Place::Above))
    }

    /// The descriptor of an export's own directory or of an ancestor; `None` for any other path.
    pub(crate) fn fixed(&self, path: &ViewPath) -> Option<&Shared> {
        match self.place(path)? {
            Place::Inside(export) => (export.path == *path).then_some(&export.descriptor),
            Place::Above(ancestor) => Some(&ancestor.descriptor),
        }
    }

    pub(crate) fn exports(&self) -> &[Export] {
        &self.exports
    }

    pub(crate) fn paths(&self) -> &[ViewPath] {
        &self.paths
    }
}

fn open_export(given: &Path, calls: &Calls, table: &Table) -> Result<Export, StoreError> {
    let failed = |errno: Errno| match errno {
        Errno::ENOENT => StoreError::Missing { path: given.into() },
        Errno::ENOTDIR => StoreError::NotDirectory { path: given.into() },
        errno => StoreError::Unreadable { path: given.into(), errno },
    };
    let canonical = std::fs::canonicalize(given).map_err(|error| failed(Errno::of(&error)))?;
    let path = ViewPath::from_absolute(canonical.as_os_str().as_bytes())
        .map_err(|reason| StoreError::Path { path: canonical.clone(), reason })?;
    let descriptor = open_absolute(&path, calls).map_err(failed)?;
    let stat = calls.stat_open(descriptor.as_fd()).map_err(failed)?;
    if table.hides_device(stat.device) {
        let file_system = table.type_of(stat.device).unwrap_or_default().into();
        return Err(StoreError::NotServed { path: given.into(), file_system });
    }
    calls.listable(descriptor.as_fd()).map_err(failed)?;
    Ok(Export { path, descriptor, device: stat.device })
}

/// Keeps of several exports within one another the outermost, in the order given.
fn fold(exports: Vec<Export>, table: &Table) -> Result<Vec<Export>, StoreError> {
    let display = |path: &ViewPath| PathBuf::from(path.to_string());
    let mut kept: Vec<Export> = Vec::new();
    for export in exports {
        if let Some(outer) = kept.iter().find(|outer| export.path.is_within(&outer.path)) {
            if table.hides(&export.path, &outer.path) {
                return Err(StoreError::Hidden { inner: display(&export.path), outer: display(&outer.path) });
            }
            continue;
        }
        if let Some(inner) =
            kept.iter().find(|inner| inner.path.is_within(&export.path) && table.hides(&inner.path, &export.path))
        {
            return Err(StoreError::Hidden { inner: display(&inner.path), outer: display(&export.path) });
        }
        kept.retain(|inner| !inner.path.is_within(&export.path));
        kept.push(export);
    }
    Ok(kept)
}

fn open_ancestors(exports: &[ViewPath], calls: &Calls) -> Result<BTreeMap<ViewPath, Ancestor>, StoreError> {
    let mut ancestors: BTreeMap<ViewPath, Ancestor> = BTreeMap::new();
    for export in exports {
        let mut at = export.clone();
        while let Some((parent, name)) = at.split() {
            let failed = |errno| StoreError::Unreadable { path: parent.to_string().into(), errno };
            // The bytes are a component of a path, which is a name.
            let Ok(name) = Name::new(name) else { break };
            if let Some(known) = ancestors.get_mut(&parent) {
                if !known.children.contains(&name) {
                    known.children.push(name);
                }
                break;
            }
            let descriptor = open_absolute(&parent, calls).map_err(failed)?;
            ancestors.insert(parent.clone(), Ancestor { descriptor, children: vec![name] });
            at = parent;
        }
    }
    Ok(ancestors)
}

/// The directory at an absolute path that has no symbolic link in it.
fn open_absolute(path: &ViewPath, calls: &Calls) -> Result<Shared, Errno> {
    let root = fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
    Ok(Arc::new(calls.directory(root.as_fd(), path.as_bytes())?))
}

impl Export {
    /// `path`, which lies within the export, as seen from its descriptor.
    pub(crate) fn relative<'a>(&self, path: &'a ViewPath) -> &'a [u8] {
        below(path, self.path.as_bytes().len())
    }

    pub(crate) fn base(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The rest of `path` behind its first `len` bytes, an ancestor's path, without a slash in front.
pub(crate) fn below(path: &ViewPath, len: usize) -> &[u8] {
    let rest = &path.as_bytes()[len..];
    rest.strip_prefix(b"/").unwrap_or(rest)
}
