//! The original of a copy: noted with it in an extended attribute, `user.forebay.stage`, so that it can be verified
//! without reading the original again. A file system that has none costs such a reading.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

/// Where it is noted.
pub const ATTRIBUTE: &str = "user.forebay.stage";

/// The mark that tells a file's version from others of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    pub bytes: u64,
    pub modified: (i64, i64),
}

impl Version {
    pub fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.size(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }

    fn words(self) -> String {
        format!("{} {} {}", self.bytes, self.modified.0, self.modified.1)
    }

    /// As a line of text.
    pub fn line(self) -> String {
        format!("forebay-stage-1 {}\n", self.words())
    }
}

/// Notes that `copy` is of this version, with these contents. Where that is not possible it is not noted.
pub fn note(copy: &File, version: Version, checksum: u32) {
    let text = format!("1 {} {checksum:08x}", version.words());
    let _ = fsetxattr(copy, ATTRIBUTE, text.as_bytes(), XattrFlags::empty());
}

/// The checksum that a copy of this version is noted to have.
pub fn noted(copy: &File, version: Version) -> Option<u32> {
    let mut text = [0; 128];
    let len = fgetxattr(copy, ATTRIBUTE, &mut text[..]).ok()?;
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    let (of, checksum) = text.rsplit_once(' ')?;
    (of == format!("1 {}", version.words())).then(|| u32::from_str_radix(checksum, 16).ok())?
}
