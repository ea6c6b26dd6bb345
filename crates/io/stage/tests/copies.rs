//! Copies: whole, resumed, refused; on a file system that fills.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use forebay_stage::{
    Copied, Listing, Place, StageError, Target, Writers, copy_file, copy_link, limits::BLOCK_BYTES, read_whole,
};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, mknodat, setxattr};

/// The draft of `copy`: the next version of this program goes on with it.
const DRAFT: &str = ".forebay-stage-6d1f0b52c8a94e37-copy";

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

    fn place(&self, name: &str) -> Place {
        Target::open(&self.path(name), Writers::Owner).unwrap().place(Path::new("")).unwrap()
    }

    fn copy(&self) -> Result<Copied, StageError> {
        copy_file(&self.path("source"), &self.place("copy"), &AtomicU64::new(0))
    }

    fn link(&self, name: &str) -> Result<Copied, StageError> {
        copy_link(&self.path("link"), &self.place(name))
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
    chmod(&bed.path("source"), 0o4750);
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
fn existing_blocks_are_verified_and_not_copied_again() {
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

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A draft as a copy leaves it that is killed after two of three blocks.
fn broken_off(bed: &Bed) -> (PathBuf, PathBuf) {
    let whole = fs::read(bed.path("source")).unwrap();
    let metadata = bed.path("source").metadata().unwrap();
    let (draft, sums) = (bed.path(DRAFT), bed.path(&format!("{DRAFT}.sums")));
    let mut journal = format!("forebay-stage-1 {} {} {}\n", metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    let head = journal.len();
    let mut journal = std::mem::take(&mut journal).into_bytes();
    for block in whole.chunks(BLOCK_BYTES).take(2) {
        journal.extend(crc32c::crc32c(block).to_le_bytes());
    }
    assert_eq!(journal.len(), head + 8);
    fs::write(&draft, &whole[..2 * BLOCK_BYTES + 1]).unwrap();
    fs::write(&sums, journal).unwrap();
    [&draft, &sums].into_iter().for_each(|path| chmod(path, 0o600));
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
    let sums = bed.path(&format!("{DRAFT}.sums"));
    let other = File::create(&sums).unwrap();
    chmod(&sums, 0o600);
    other.lock().unwrap();
    assert!(matches!(bed.copy(), Err(StageError::Busy(_))));
    drop(other);
    bed.copy().unwrap();
}

/// Such names are not those of drafts, whatever begins or ends like these.
#[test]
fn files_with_names_like_drafts_are_copied_and_stay() {
    let bed = Bed::of(5);
    let names = [".forebay-stage-copy", ".forebay-stage-copy.sums", "link.forebay-link"];
    names.iter().for_each(|name| fs::write(bed.path(name), name).unwrap());
    bed.copy().unwrap();
    std::os::unix::fs::symlink("a", bed.path("from")).unwrap();
    copy_link(&bed.path("from"), &bed.place("link")).unwrap();
    names.iter().for_each(|name| assert_eq!(fs::read_to_string(bed.path(name)).unwrap(), *name));
    fs::write(bed.path(DRAFT), "a draft").unwrap();
    let listing = Listing::of(bed.directory.path()).unwrap();
    let listed: Vec<_> = listing.entries().iter().map(|entry| entry.path.to_str().unwrap()).collect();
    assert_eq!(listed, ["", names[0], names[1], "copy", "from", "link", names[2], "source"]);
}

/// With what it begins and ends with, too.
#[test]
fn the_longest_name_has_a_draft() {
    let bed = Bed::of(5);
    let name = "n".repeat(255);
    copy_file(&bed.path("source"), &bed.place(&name), &AtomicU64::new(0)).unwrap();
    assert!(is_same(&bed.path("source"), &bed.path(&name)));
    fs::remove_file(bed.path(&name)).unwrap();
    std::os::unix::fs::symlink("a", bed.path("from")).unwrap();
    copy_link(&bed.path("from"), &bed.place(&name)).unwrap();
}

#[test]
fn an_entry_that_is_no_file_is_not_replaced() {
    let bed = Bed::of(5);
    fs::create_dir(bed.path("copy")).unwrap();
    assert!(bed.copy().unwrap_err().to_string().ends_with("copy is there and is not a file"));
    std::os::unix::fs::symlink("a", bed.path("link")).unwrap();
    assert!(bed.link("copy").is_err());
    std::os::unix::fs::symlink("b", bed.path("other")).unwrap();
    assert_eq!(bed.link("other").unwrap(), Copied::New { bytes: 0 });
    assert_eq!(fs::read_link(bed.path("other")).unwrap(), Path::new("a"));
    assert_eq!(bed.link("other").unwrap(), Copied::WasThere);
}

/// A user that is not root.
const SOMEBODY: u32 = 12_345;

/// Whether another user's files can be made here.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

const NOTE: &str = "user.forebay.stage";

/// Puts a file at the copy's place that looks as if it were one: other bytes, with the size, the time and the note of a copy.
fn plant(bed: &Bed) -> Vec<u8> {
    bed.copy().unwrap();
    let mut other = fs::read(bed.path("copy")).unwrap();
    other[3] ^= 1;
    let text = {
        let mut text = [0; 128];
        let len = getxattr(bed.path("copy"), NOTE, &mut text[..]).unwrap();
        String::from_utf8(text[..len].to_vec()).unwrap()
    };
    let (of, _) = text.rsplit_once(' ').unwrap();
    let note = format!("{of} {:08x}", crc32c::crc32c(&other));
    let modified = bed.path("copy").metadata().unwrap().modified().unwrap();
    fs::write(bed.path("copy"), &other).unwrap();
    setxattr(bed.path("copy"), NOTE, note.as_bytes(), XattrFlags::REPLACE).unwrap();
    File::options().write(true).open(bed.path("copy")).unwrap().set_modified(modified).unwrap();
    other
}

#[test]
fn a_note_counts_only_in_a_file_that_nobody_else_can_have_written_to() {
    let bed = Bed::of(5);
    let believed = plant(&bed);
    assert_eq!(bed.copy().unwrap(), Copied::WasThere);
    assert_eq!(fs::read(bed.path("copy")).unwrap(), believed, "this user's own note is believed");
    chmod(&bed.path("copy"), 0o664);
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 5 });
    assert!(is_same(&bed.path("source"), &bed.path("copy")));
    // A right one is left alone, whoever may write to it.
    chmod(&bed.path("copy"), 0o666);
    assert_eq!(bed.copy().unwrap(), Copied::WasThere);
}

#[test]
fn a_file_or_link_of_another_user_is_no_copy() {
    if !is_root() {
        return;
    }
    let bed = Bed::of(5);
    plant(&bed);
    chown(bed.path("copy"), Some(SOMEBODY), None).unwrap();
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 5 });
    assert!(is_same(&bed.path("source"), &bed.path("copy")));
    // Nor is one with the right bytes: its owner can change them at any time.
    chown(bed.path("copy"), Some(SOMEBODY), None).unwrap();
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 5 });
    assert_eq!(bed.path("copy").metadata().unwrap().uid(), 0);
    std::os::unix::fs::symlink("a", bed.path("link")).unwrap();
    assert_eq!(bed.link("other").unwrap(), Copied::New { bytes: 0 });
    lchown(bed.path("other"), Some(SOMEBODY), None).unwrap();
    assert_eq!(bed.link("other").unwrap(), Copied::New { bytes: 0 });
}

#[test]
fn drafts_and_journals_that_others_have_put_there_are_refused() {
    let bed = Bed::of(5);
    fs::write(bed.path("victim"), "precious").unwrap();
    let sums = format!("{DRAFT}.sums");
    for name in [DRAFT, &sums] {
        let planted = bed.path(name);
        let refused = |what: &str| {
            let error = bed.copy().unwrap_err();
            assert!(matches!(error, StageError::Foreign { .. }), "{what} at {name}: {error}");
            assert!(error.to_string().contains("remove it, or choose another destination"), "{error}");
            fs::remove_file(&planted).unwrap();
            let _ = fs::remove_file(bed.path(&sums));
            assert_eq!(fs::read(bed.path("victim")).unwrap(), b"precious", "{what} at {name}");
            assert!(!bed.path("copy").exists());
        };
        std::os::unix::fs::symlink(bed.path("victim"), &planted).unwrap();
        refused("a link");
        fs::hard_link(bed.path("victim"), &planted).unwrap();
        refused("a second name of a file");
        mknodat(CWD, &planted, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        refused("a pipe");
        if is_root() {
            fs::write(&planted, "").unwrap();
            chmod(&planted, 0o666);
            chown(&planted, Some(SOMEBODY), None).unwrap();
            refused("another user's file");
        }
    }
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 5 });
}

#[test]
fn a_draft_that_others_may_have_open_is_made_anew() {
    let bed = Bed::of(2 * BLOCK_BYTES + 100);
    let (draft, _) = broken_off(&bed);
    chmod(&draft, 0o644);
    let reader = File::open(&draft).unwrap();
    let before = fs::read(&draft).unwrap();
    chmod(&bed.path("source"), 0o600);
    assert_eq!(bed.copy().unwrap(), Copied::New { bytes: 2 * BLOCK_BYTES as u64 + 100 });
    let mut seen = vec![0; before.len()];
    reader.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!((seen, reader.metadata().unwrap().size()), (before.clone(), before.len() as u64));
    assert_eq!(bed.path("copy").metadata().unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_link_in_place_of_a_directory_leads_nowhere() {
    let bed = Bed::of(5);
    let target = Target::open(&bed.path("tree"), Writers::ByUmask).unwrap();
    ["", "below"].into_iter().for_each(|path| target.make_directory(Path::new(path)).unwrap());
    fs::create_dir(bed.path("elsewhere")).unwrap();
    fs::remove_dir(bed.path("tree/below")).unwrap();
    std::os::unix::fs::symlink(bed.path("elsewhere"), bed.path("tree/below")).unwrap();
    let error = target.place(Path::new("below/file")).unwrap_err();
    assert!(error.to_string().ends_with("tree/below is there and is not a directory"), "{error}");
    assert!(target.make_directory(Path::new("below")).is_err());
}

#[test]
fn a_pipe_that_takes_the_place_of_a_file_is_not_waited_for() {
    let bed = Bed::of(5);
    fs::remove_file(bed.path("source")).unwrap();
    mknodat(CWD, bed.path("source"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(matches!(bed.copy(), Err(StageError::Special(_))));
    assert!(matches!(read_whole(&bed.path("source"), &AtomicU64::new(0)), Err(StageError::Special(_))));
}
