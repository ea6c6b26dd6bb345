//! Whether the backing file system takes what programs ask for: tried on a draft, since what it does not take would keep all from landing.

use forebay_store::Draft;
use forebay_types::{Errno, ExtendedAttributes, ViewPath};

use crate::write::local::Local;

/// So many bytes of extended attributes have room wherever there can be any: ext4 has 4 KiB for names, values and 16 bytes more for each.
const SURE_EXTENDED_BYTES: usize = 1 << 10;

/// Files of so many bytes can be everywhere: ext4 takes 16 TiB, and 2 TiB where it has the blocks of ext3.
pub const SURE_FILE_BYTES: u64 = 1 << 40;

/// A file that could be in a directory.
pub struct Trial<'a> {
    pub local: &'a Local,
    pub directory: &'a ViewPath,
    /// Of a draft that nothing else is.
    pub number: u128,
}

impl Trial<'_> {
    /// Whether it could have these extended attributes.
    ///
    /// # Errors
    /// ENOSPC, else what the backing file system says.
    pub fn extended(&self, wanted: &ExtendedAttributes) -> Result<(), Errno> {
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
    pub fn size(&self, size_bytes: u64) -> Result<(), Errno> {
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
        match self.local.calls.land(|| self.local.place.draft(&path, self.number)) {
            Err(Errno::EACCES | Errno::EPERM | Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
            draft => {
                let draft = draft?;
                self.local.calls.land(|| attempt(&draft))
            }
        }
    }
}
