//! A directory of profiles, profiles and packs to put there, and ways to need root honestly.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use forebay_profile::{Piece, Profile, ProfileDirectory, ProfileFiles, Use};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Generation, ViewPath};

/// Room for everything.
pub const AMPLE_BYTES: u64 = 1 << 30;

/// A place that goes when the test ends.
pub struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.root.path().join("cache/profiles")
    }

    pub fn open(&self) -> ProfileDirectory {
        ProfileDirectory::open(&self.path(), AMPLE_BYTES).unwrap()
    }

    /// The names of all files in it.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub fn view(text: &str) -> ViewPath {
    ViewPath::new(text.as_bytes()).unwrap()
}

/// Bytes that compress by half, because what is in them is repeated; different ones for every seed.
pub fn contents(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let mut contents = Vec::new();
    while contents.len() < len {
        let stretch: Vec<u8> = (0..64).map(|_| next()).collect();
        contents.extend(stretch.repeat(2));
    }
    contents.truncate(len);
    contents
}

/// A file's size and its chunks.
pub const FILES: [(&str, usize); 4] =
    [("soft/a.py", 10), ("soft/b.py", 3000), ("soft/lib.so", 2 * CHUNK_BYTES as usize + 77), ("soft/c.py", 1)];

pub fn generation(size_bytes: usize) -> Generation {
    Generation { ino: 7, size_bytes: size_bytes as u64, ..Generation::default() }
}

/// All pieces of `FILES`, with their bytes.
pub fn pieces() -> Vec<(Piece, Vec<u8>)> {
    static PIECES: OnceLock<Vec<(Piece, Vec<u8>)>> = OnceLock::new();
    PIECES.get_or_init(make_pieces).clone()
}

fn make_pieces() -> Vec<(Piece, Vec<u8>)> {
    let mut pieces = Vec::new();
    for (seed, (name, size)) in (1..).zip(FILES) {
        for (index, chunk) in (0..).zip(contents(seed, size).chunks(CHUNK_BYTES as usize)) {
            let piece = Piece::of(view(name), generation(size), ChunkIndex(index), chunk).unwrap();
            pieces.push((piece, chunk.to_vec()));
        }
    }
    pieces
}

/// A profile of `command` that used `FILES`.
pub fn profile(command: &str) -> Profile {
    let mut profile = Profile::new(command.to_owned(), vec![view("soft")], 1_700_000_000);
    profile.uses.push(Use::Directory { path: view("soft"), generation: generation(4096) });
    for (name, size) in FILES {
        let chunks = (0..size.div_ceil(CHUNK_BYTES as usize) as u64).map(ChunkIndex).collect();
        profile.uses.push(Use::File { path: view(name), generation: generation(size), chunks });
    }
    profile
}

/// Writes the pack of all of `FILES`.
pub fn write_whole_pack(files: &ProfileFiles) {
    write(files, pieces());
}

/// Writes the pack of the small ones of `FILES`, for tests that care for the file alone.
pub fn write_pack(files: &ProfileFiles) {
    write(files, pieces().into_iter().filter(|(_, bytes)| bytes.len() <= 3000));
}

fn write(files: &ProfileFiles, pieces: impl IntoIterator<Item = (Piece, Vec<u8>)>) {
    let mut pack = files.begin_pack(3).unwrap();
    for (piece, bytes) in pieces {
        pack.add(piece, &bytes).unwrap();
    }
    pack.finish().unwrap();
}

/// Whether this is root; says so where it is not. On the project's own test machines nothing may be skipped.
pub fn is_root() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "must not be skipped in CI: not root");
    println!("skipped: not root");
    false
}
