//! A view and its source side by side: what must be equal, and the first thing that is not.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Above this, files are compared in places, not as a whole.
const WHOLE_BYTES_MAX: u64 = 256 << 20;

/// Everything below two directories: names, attributes, link targets, contents.
///
/// # Panics
/// With the first difference.
#[track_caller]
pub fn trees(source: &Path, view: &Path) {
    attributes(source, view);
    let names = names(source);
    assert_eq!(names, self::names(view), "names in {}", source.display());
    for name in names {
        let (source, view) = (source.join(&name), view.join(&name));
        let kind = fs::symlink_metadata(&source).expect("the source").file_type();
        if kind.is_dir() {
            trees(&source, &view);
            continue;
        }
        attributes(&source, &view);
        if kind.is_symlink() {
            let target =
                |path: &Path| fs::read_link(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(target(&source), target(&view), "target of {}", source.display());
        } else if kind.is_file() {
            bytes(&source, &view);
        }
    }
}

/// The names in a directory.
///
/// # Panics
/// If it cannot be listed or names something twice.
#[must_use]
#[track_caller]
pub fn names(directory: &Path) -> BTreeSet<OsString> {
    let listed = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let listed: Vec<OsString> = listed.map(|entry| entry.expect("an entry").file_name()).collect();
    let names: BTreeSet<OsString> = listed.iter().cloned().collect();
    assert_eq!(names.len(), listed.len(), "{} names something twice", directory.display());
    names
}

/// The attributes from `lstat(2)`, but for the device number and the access time, which are a mount's own.
///
/// # Panics
/// With what differs.
#[track_caller]
pub fn attributes(source: &Path, view: &Path) {
    let of = |path: &Path| {
        let known = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let kind = known.file_type();
        let rdev = if kind.is_char_device() || kind.is_block_device() { known.rdev() } else { 0 };
        [
            ("mode", i64::from(known.mode())),
            ("nlink", known.nlink().cast_signed()),
            ("uid", i64::from(known.uid())),
            ("gid", i64::from(known.gid())),
            ("size", known.size().cast_signed()),
            ("blocks", known.blocks().cast_signed()),
            ("blksize", known.blksize().cast_signed()),
            ("ino", known.ino().cast_signed()),
            ("rdev", rdev.cast_signed()),
            ("mtime", known.mtime()),
            ("mtime_nsec", known.mtime_nsec()),
            ("ctime", known.ctime()),
            ("ctime_nsec", known.ctime_nsec()),
        ]
    };
    assert_eq!(of(source), of(view), "attributes of {}", source.display());
}

/// The contents of a file. A large one is skipped.
///
/// # Panics
/// With the offset of the first byte that differs.
#[track_caller]
pub fn bytes(source: &Path, view: &Path) {
    if fs::metadata(source).expect("the source").len() > WHOLE_BYTES_MAX {
        return;
    }
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    same(&read(source), &read(view), source);
}

/// Two runs of bytes.
///
/// # Panics
/// With the offset of the first byte that differs.
#[track_caller]
pub fn same(source: &[u8], view: &[u8], path: &Path) {
    assert_eq!(source.len(), view.len(), "length of {}", path.display());
    let different = source.iter().zip(view).position(|(a, b)| a != b);
    assert_eq!(different, None, "first different byte of {}", path.display());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::panic::catch_unwind;

    use super::*;

    /// Two equal directories, one of which `change` then makes different.
    fn differ(change: impl FnOnce(&Path)) -> bool {
        let base = tempfile::tempdir().unwrap();
        let (source, view) = (base.path().join("source"), base.path().join("view"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("file"), "text").unwrap();
        symlink("file", source.join("link")).unwrap();
        // The same inode under two names is equal in every attribute.
        fs::create_dir(&view).unwrap();
        fs::hard_link(source.join("file"), view.join("file")).unwrap();
        change(&view);
        catch_unwind(|| {
            assert_eq!(names(&source), names(&view));
            for name in names(&source) {
                attributes(&source.join(&name), &view.join(&name));
                bytes(&source.join(&name), &view.join(&name));
            }
        })
        .is_err()
    }

    #[test]
    fn every_difference_is_found() {
        let link = |view: &Path| fs::hard_link(view.join("../source/link"), view.join("link")).unwrap();
        assert!(!differ(link), "nothing differs");
        assert!(differ(|_| {}), "a name is missing");
        let copied = |view: &Path| {
            link(view);
            fs::remove_file(view.join("file")).unwrap();
            fs::copy(view.join("../source/file"), view.join("file")).unwrap();
        };
        assert!(differ(copied), "another inode");
        let mode = |view: &Path| {
            copied(view);
            fs::set_permissions(view.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
        };
        assert!(differ(mode), "another mode");
    }

    #[test]
    fn the_first_different_byte_is_found() {
        assert!(catch_unwind(|| same(b"abc", b"abd", Path::new("x"))).is_err());
        assert!(catch_unwind(|| same(b"abc", b"ab", Path::new("x"))).is_err());
        same(b"abc", b"abc", Path::new("x"));
    }
}
