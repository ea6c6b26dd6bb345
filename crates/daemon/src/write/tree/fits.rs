//! Whether the backing file system takes what programs ask for: tried on a draft, since what it does not take would keep all from landing.

use forebay_store::Draft;
use forebay_types::{Errno, ExtendedAttributes, FileId, ViewPath};
use forebay_wire::write::{Change, Operation};
use forebay_write::{Refusal, Tree};

use super::leader::Leader;
use crate::write::local::Local;

/// So many bytes of extended attributes have room wherever there can be any: ext4 has 4 KiB for names, values and 16 bytes more for each.
const SURE_EXTENDED_BYTES: usize = 1 << 10;

/// Files of so many bytes can be everywhere: ext4 takes 16 TiB, and 2 TiB where it has the blocks of ext3.
pub const SURE_FILE_BYTES: u64 = 1 << 40;

/// The state of a file after a change that not every file system takes.
struct Wanted {
    file: FileId,
    extended: ExtendedAttributes,
    size_bytes: u64,
}

/// The sizes that the backing file system has taken in a trial. Others may change the file meanwhile: then it needs another one.
#[derive(Clone, Copy, Default)]
pub struct Tried {
    extended_bytes: usize,
    size_bytes: u64,
}

impl Tried {
    fn covers(self, wanted: &Wanted) -> bool {
        wanted.extended.bytes() <= self.extended_bytes.max(SURE_EXTENDED_BYTES)
            && wanted.size_bytes <= self.size_bytes.max(SURE_FILE_BYTES)
    }
}

/// Whether the backing file system may refuse what a change makes of a file, as far as trials have shown.
///
/// # Errors
/// The refusal that says what has to be known first.
pub fn needs_trial(tree: &Tree, change: &Change, tried: Tried) -> Result<bool, Refusal> {
    Ok(wanted_by(tree, change)?.is_some_and(|wanted| !tried.covers(&wanted)))
}

fn wanted_by(tree: &Tree, change: &Change) -> Result<Option<Wanted>, Refusal> {
    let file = match &change.operation {
        Operation::SetExtended { file, .. } | Operation::Allocate { file, .. } => *file,
        Operation::SetAttributes { file, changes } if changes.size_bytes.is_some() => *file,
        _ => return Ok(None),
    };
    let extended = match tree.extended_by(change) {
        // The tree refuses it by itself.
        Err(Refusal::Errno(_)) => return Ok(None),
        extended => extended?.unwrap_or_default(),
    };
    Ok(Some(Wanted { file, extended, size_bytes: tree.size_by(change).unwrap_or(0) }))
}

impl Leader {
    /// Tries it. May block.
    ///
    /// # Errors
    /// The backing file system's error.
    pub fn try_to_land(&self, change: &Change) -> Result<Tried, Errno> {
        // Where it has become unknown again, nothing is tried, and the tree asks for it.
        let Ok(Some(Wanted { file, extended, size_bytes })) = wanted_by(&self.tree(), change) else {
            return Ok(Tried::default());
        };
        let (directory, number) = {
            let tree = self.tree();
            (tree.directory_of(file), tree.draft_number(self.local.new_file()))
        };
        let directory = directory.and_then(|directory| self.backing_path(directory)).unwrap_or_else(ViewPath::root);
        let trial = Trial { local: &self.local, directory: &directory, number };
        trial.size(size_bytes)?;
        trial.extended(&extended)?;
        Ok(Tried { extended_bytes: extended.bytes(), size_bytes })
    }
}

/// A file that could be in a directory.
struct Trial<'a> {
    local: &'a Local,
    directory: &'a ViewPath,
    /// Of a draft that nothing else is.
    number: u128,
}

impl Trial<'_> {
    /// Whether it could have these extended attributes.
    ///
    /// # Errors
    /// ENOSPC, else what the backing file system says.
    fn extended(&self, wanted: &ExtendedAttributes) -> Result<(), Errno> {
        if wanted.bytes() <= SURE_EXTENDED_BYTES {
            return Ok(());
        }
        match self.draft(|draft| draft.set_extended(wanted)) {
            Err(Errno::E2BIG | Errno::ERANGE | Errno::ENOSPC) => Err(Errno::ENOSPC),
            set => set,
        }
    }

    /// Whether it could be so large.
    ///
    /// # Errors
    /// EFBIG.
    fn size(&self, size_bytes: u64) -> Result<(), Errno> {
        if size_bytes <= SURE_FILE_BYTES {
            return Ok(());
        }
        let set = |draft: &Draft| draft.file().set_len(size_bytes).map_err(|error| Errno::of(&error));
        match self.draft(set) {
            Err(Errno::EFBIG | Errno::EINVAL) => Err(Errno::EFBIG),
            set => set,
        }
    }

    /// Where others have removed the directory, or no file may be made there, nothing is known before.
    fn draft(&self, attempt: impl Fn(&Draft) -> Result<(), Errno>) -> Result<(), Errno> {
        let path = Draft::path(self.directory, self.number)?;
        match self.local.calls.serve_in_time(|| self.local.place.draft(&path, self.number)) {
            Err(Errno::EACCES | Errno::EPERM | Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
            draft => {
                let draft = draft?;
                let tried = self.local.calls.serve_in_time(|| attempt(&draft));
                // No tree knows of it, and no other node gives its name: it goes, whoever leads the tree by now.
                if let Err(errno) = self.local.calls.serve(|| draft.remove()) {
                    tracing::warn!(%path, %errno, "a file that was made for a trial stays");
                }
                tried
            }
        }
    }
}
