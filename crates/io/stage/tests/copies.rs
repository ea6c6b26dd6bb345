//! Copies: whole, resumed, refused; on a file system that fills.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use forebay_stage::{Copied, StageError, copy_file, copy_link, limits::BLOCK_BYTES};

struct Bed {
    directory: tempfile::TempDir,
}

impl Bed {
    /// With a file of so many bytes, none of them like its neighbours.
    fn of(bytes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..bytes as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(directory.path().join("source"), bytes).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn copy(&self) -> Result<Copied, StageError> {
        copy_file(&self.path("source"), &self.path("copy"), &AtomicU64::new(0))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

#[test]
fn a_copy_has_contents_mode_and_time() {
    let bed = Bed::of(2 * BLOCK_BYTES + 5);
    fs::set_permissions(bed.path("source"), fs::Permissions::from_mode(0o4750)).unwrap();
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 2 * BLOCK_BYTES as u64 + 5 });
    let (source, copy) = (bed.path("source").metadata().unwrap(), bed.path("copy").metadata().unwrap());
    assert!(is_same(&bed.path("source"), &bed.path("copy")));
    assert_eq!((copy.mode() & 0o7777, copy.mtime_nsec()), (0o750, source.mtime_nsec()), "no set-user-id bit");
    assert_eq!(bed.names(), ["copy", "source"]);
    for bytes in [0, 1] {
        let small = Bed::of(bytes);
        assert_eq!(small.copy().unwrap(), Copied::New { bytes: bytes as u64 });
        assert_eq!(small.copy().unwrap(), Copied::WasThere);
    }
}

#[test]
fn what_is_there_is_verified_and_not_copied_again() {
    let bed = Bed::of(BLOCK_BYTES + 5);
    bed.copy().unwrap();
    let ino = bed.path("copy").metadata().unwrap().ino();
    assert_eq!(bed.copy().unwrap(), Copied::WasThere);
    // One byte, and the time that it had.
    let copy = File::options().write(true).open(bed.path("copy")).unwrap();
    let modified = copy.metadata().unwrap().modified().unwrap();
    copy.write_all_at(b"\xff\xfe", 7).unwrap();
    copy.set_modified(modified).unwrap();
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: BLOCK_BYTES as u64 + 5 });
    assert!(is_same(&bed.path("source"), &bed.path("copy")));
    assert_ne!(bed.path("copy").metadata().unwrap().ino(), ino, "a new file took its place");
}

/// A draft as a copy leaves it that is killed after two of three blocks.
fn broken_off(bed: &Bed) -> (PathBuf, PathBuf) {
    let whole = fs::read(bed.path("source")).unwrap();
    let metadata = bed.path("source").metadata().unwrap();
    let (draft, sums) = (bed.path(".forebay-stage-copy"), bed.path(".forebay-stage-copy.sums"));
    let mut journal = format!("forebay-stage-1 {} {} {}\n", metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    let head = journal.len();
    let mut journal = std::mem::take(&mut journal).into_bytes();
    for block in whole.chunks(BLOCK_BYTES).take(2) {
        journal.extend(crc32c::crc32c(block).to_le_bytes());
    }
    assert_eq!(journal.len(), head + 8);
    fs::write(&draft, &whole[..2 * BLOCK_BYTES + 1]).unwrap();
    fs::write(&sums, journal).unwrap();
    (draft, sums)
}

#[test]
fn a_copy_that_was_broken_off_goes_on() {
    let bed = Bed::of(2 * BLOCK_BYTES + 100);
    broken_off(&bed);
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 100 });
    assert!(is_same(&bed.path("source"), &bed.path("copy")));
    assert_eq!(bed.names(), ["copy", "source"]);
}

#[test]
fn a_draft_is_believed_as_far_as_it_is_right() {
    let bed = Bed::of(2 * BLOCK_BYTES + 100);
    let (draft, _) = broken_off(&bed);
    File::options().write(true).open(draft).unwrap().write_all_at(b"\xff\xfe", BLOCK_BYTES as u64 + 3).unwrap();
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: BLOCK_BYTES as u64 + 100 });
    assert!(is_same(&bed.path("source"), &bed.path("copy")));
    // A draft of another version is worth nothing.
    fs::remove_file(bed.path("copy")).unwrap();
    broken_off(&bed);
    let source = File::options().write(true).open(bed.path("source")).unwrap();
    source.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 2 * BLOCK_BYTES as u64 + 100 });
}

#[test]
fn holes_stay_holes() {
    let bed = Bed::of(5);
    let source = File::options().write(true).open(bed.path("source")).unwrap();
    source.set_len(8 * BLOCK_BYTES as u64).unwrap();
    bed.copy().unwrap();
    assert!(is_same(&bed.path("source"), &bed.path("copy")));
    assert!(bed.path("copy").metadata().unwrap().blocks() * 512 <= 2 * BLOCK_BYTES as u64);
}

#[test]
fn two_do_not_copy_to_one_place_at_once() {
    let bed = Bed::of(5);
    let other = File::create(bed.path(".forebay-stage-copy.sums")).unwrap();
    other.lock().unwrap();
    assert!(matches!(bed.copy(), Err(StageError::Busy(_))));
    drop(other);
    bed.copy().unwrap();
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let bed = Bed::of(5);
    fs::create_dir(bed.path("copy")).unwrap();
    assert!(bed.copy().unwrap_err().to_string().ends_with("copy is there and is not a file"));
    std::os::unix::fs::symlink("a", bed.path("link")).unwrap();
    assert!(copy_link(&bed.path("link"), &bed.path("copy")).is_err());
    std::os::unix::fs::symlink("b", bed.path("other")).unwrap();
    assert_eq!(copy_link(&bed.path("link"), &bed.path("other")).unwrap(), Copied::New { bytes: 0 });
    assert_eq!(fs::read_link(bed.path("other")).unwrap(), Path::new("a"));
    assert_eq!(copy_link(&bed.path("link"), &bed.path("other")).unwrap(), Copied::WasThere);
}
