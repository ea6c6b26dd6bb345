//! A directory with every oddity a file system can hold, small enough to be built for each job.
//!
//! Contents are made from the file's own size by a formula, so that a byte of another file or another place shows.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::program::copy_program;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid};

/// Bytes of a chunk, the unit Forebay reads in: sizes around it are where mistakes are.
pub const CHUNK_BYTES: usize = 1 << 20;

/// The size of the file that does not fit into 32 bits.
pub const BIG_BYTES: u64 = 5 << 30;

/// Offsets in the sparse files where something is written, below their sizes.
pub const BIG_WRITES: [u64; 4] = [0, (4 << 30) - 50, (4 << 30) + CHUNK_BYTES as u64, BIG_BYTES - 100];

/// The 100 bytes at each of them.
pub const MARK: [u8; 100] =
    *b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789abcdefghijklmnopqrstuvwxyz.";

/// Names that a program which takes names for text stumbles over.
pub const ODD_NAMES: [&[u8]; 12] = [
    b"\xff\xfe\x80 invalid",
    b"line\nbreak",
    b" leading and trailing ",
    b"-rf",
    b"*?[a-z]",
    b"back\\slash",
    b"...",
    b".hidden",
    b"tab\tand\x07bell",
    b"quote'\"`$(x)",
    "na\u{ef}ve \u{1f30a}".as_bytes(),
    b"\x01",
];

/// The tree that was built.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Builds everything below the directory `root`; scripts in it name interpreters below `view`, where the last
    /// view of a job will show them.
    ///
    /// # Panics
    /// If the file system refuses something.
    #[must_use]
    pub fn build(root: &Path, view: &Path) -> Self {
        let tree = Self { root: root.to_owned() };
        tree.plain();
        tree.sparse();
        tree.names();
        tree.links();
        tree.modes();
        tree.times();
        tree.special();
        tree.programs(view);
        tree
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    fn plain(&self) {
        let directory = self.directory("plain");
        for size in SIZES {
            write(&directory.join(size.to_string()), &contents(size));
        }
        fs::create_dir_all(directory.join("a/b/c")).expect("directories");
        write(&directory.join("a/b/c/text"), b"some text\n");
        fs::create_dir(directory.join("empty")).expect("a directory");
    }

    fn sparse(&self) {
        let directory = self.directory("sparse");
        let hole = File::create(directory.join("hole")).expect("a file");
        hole.set_len(8 << 20).expect("a hole");
        let holes = File::create(directory.join("holes")).expect("a file");
        holes.set_len(64 << 20).expect("a hole");
        for offset in [0, 10 << 20, (33 << 20) - 50] {
            holes.write_all_at(&MARK, offset).expect("a write");
        }
        let big = File::create(directory.join("big")).expect("a file");
        big.set_len(BIG_BYTES).expect("a hole");
        for offset in BIG_WRITES {
            big.write_all_at(&MARK, offset).expect("a write");
        }
    }

    fn names(&self) {
        let directory = self.directory("names");
        for name in ODD_NAMES {
            write(&directory.join(OsStr::from_bytes(name)), name);
        }
        write(&directory.join("x".repeat(255)), b"longest");
        write(&directory.join("\u{e9}".repeat(127)), b"longest in two-byte characters");
        for byte in (1..=255u8).filter(|byte| *byte != b'/') {
            write(&directory.join(OsStr::from_bytes(&[b'b', byte])), &[byte]);
        }
    }

    fn links(&self) {
        let directory = self.directory("links");
        let file = directory.join("file");
        write(&file, b"linked\n");
        fs::create_dir(directory.join("other")).expect("a directory");
        fs::hard_link(&file, directory.join("hard")).expect("a hard link");
        fs::hard_link(&file, directory.join("other/hard")).expect("a hard link");
        let long = "x/".repeat(2000);
        let targets: [(&str, &OsStr); 8] = [
            ("relative", "file".as_ref()),
            ("up", "../plain/1".as_ref()),
            ("absolute", file.as_os_str()),
            ("dangling", "nowhere/at all".as_ref()),
            ("loop", "loop".as_ref()),
            ("directory", "other".as_ref()),
            ("long", long.as_ref()),
            ("odd", OsStr::from_bytes(b"\xff\n\x01")),
        ];
        for (name, target) in targets {
            symlink(target, directory.join(name)).expect("a symbolic link");
        }
    }

    fn modes(&self) {
        let directory = self.directory("modes");
        for mode in [0o000, 0o400, 0o444, 0o600, 0o755, 0o4755, 0o2755, 0o6711] {
            let path = directory.join(format!("{mode:o}"));
            write(&path, b"mode");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        }
        let sticky = directory.join("sticky");
        fs::create_dir(&sticky).expect("a directory");
        fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).expect("a mode");
        let owned = directory.join("owned");
        write(&owned, b"owned");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&owned, Some(12_345), Some(54_321)).expect("an owner");
        }
    }

    fn times(&self) {
        let directory = self.directory("times");
        let times =
            [(0, 0), (1, 1), (1_700_000_000, 999_999_999), (-1, 5), (-2_000_000_000, 123_456_789), (7_258_118_400, 7)];
        for (tv_sec, tv_nsec) in times {
            let path = directory.join(format!("{tv_sec}.{tv_nsec}"));
            write(&path, b"time");
            let time = Timespec { tv_sec, tv_nsec };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).expect("a time");
        }
    }

    fn special(&self) {
        let directory = self.directory("special");
        let mode = Mode::from_raw_mode(0o640);
        let make = |name: &str, kind, device| {
            rustix::fs::mknodat(CWD, directory.join(name), kind, mode, device).expect("a special file");
        };
        make("fifo", FileType::Fifo, 0);
        make("socket", FileType::Socket, 0);
        if rustix::process::geteuid().is_root() {
            make("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
            make("disk", FileType::BlockDevice, rustix::fs::makedev(259, 70_000));
            let _ = rustix::fs::chownat(
                CWD,
                directory.join("fifo"),
                Some(Uid::from_raw(1)),
                Some(Gid::ROOT),
                AtFlags::empty(),
            );
        }
    }

    fn programs(&self, view: &Path) {
        let directory = self.directory("programs");
        copy_program(Path::new("/bin/cat"), &directory.join("cat"));
        copy_program(Path::new("/bin/sh"), &directory.join("sh"));
        executable(&directory.join("script"), "#!/bin/sh\necho script \"$@\"\n");
        // A view shows the source at its own path below it, and lies below `view` by its rank.
        for rank in ["0", "6"] {
            let shown = view.join(rank).join(directory.strip_prefix("/").unwrap_or(&directory)).join("sh");
            executable(
                &directory.join(format!("script-by-view{rank}")),
                &format!("#!{}\necho by view \"$@\"\n", shown.display()),
            );
        }
        for level in ["include", "include/deep"] {
            fs::create_dir(directory.join(level)).expect("a directory");
        }
        write(&directory.join("include/first.h"), b"#include \"deep/second.h\"\n#define FIRST SECOND\n");
        write(&directory.join("include/deep/second.h"), b"#define SECOND 42\n");
    }
}

/// Sizes of plain files: nothing, around pages, around the kernel's reads, around chunks.
pub const SIZES: [usize; 12] = [
    0,
    1,
    4095,
    4096,
    4097,
    (128 << 10) - 1,
    (128 << 10) + 1,
    CHUNK_BYTES - 1,
    CHUNK_BYTES,
    CHUNK_BYTES + 1,
    3 * CHUNK_BYTES + 17,
    9 * CHUNK_BYTES,
];

/// `size` bytes that differ from place to place and from file to file (xorshift).
#[must_use]
pub fn contents(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ size as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    // By words: without optimisation, byte by byte, this would be most of what building a tree costs.
    let mut bytes = vec![0; size.next_multiple_of(8)];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&next());
    }
    bytes.truncate(size);
    bytes
}

/// Makes a file.
///
/// # Panics
/// If that fails.
#[track_caller]
pub fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn executable(path: &Path, text: &str) {
    write(path, text.as_bytes());
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a mode");
}

/// Fills `directory` with `count` empty files whose names begin with `prefix`.
///
/// # Panics
/// If that fails.
pub fn fill(directory: &Path, prefix: &str, count: usize) {
    for index in 0..count {
        File::create(directory.join(format!("{prefix}{index:06}"))).expect("an empty file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_differ_from_place_to_place_and_file_to_file() {
        let bytes = contents(3 * CHUNK_BYTES + 17);
        assert_eq!(bytes.len(), 3 * CHUNK_BYTES + 17);
        assert_ne!(bytes[..CHUNK_BYTES], bytes[CHUNK_BYTES..2 * CHUNK_BYTES]);
        assert_ne!(bytes[..100], contents(CHUNK_BYTES)[..100]);
        assert_eq!(contents(4097), contents(4097));
    }

    #[test]
    fn all_odd_entries_are_there() {
        let base = tempfile::tempdir().expect("a directory");
        let _tree = Tree::build(base.path(), Path::new("/nowhere"));
        assert_eq!(fs::metadata(base.path().join("sparse/big")).expect("a file").len(), BIG_BYTES);
        assert!(fs::read_dir(base.path().join("names")).expect("a directory").count() > 260);
        assert_eq!(fs::read_link(base.path().join("links/long")).expect("a link").as_os_str().len(), 4000);
    }
}
