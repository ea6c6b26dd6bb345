//! Measures packs: how long the files of a start-up take to be packed and to be read again, and how large the pack is.
//!
//! Reads the files that LIST names below TREE (`r` and `m` lines of a list of operations, each file once), packs them at
//! each LEVEL on one thread, reads the pack and opens every piece. The files are read before, so that the backing file
//! system's time is no part of it.
//! Run with `cargo run --release -p forebay-profile --example pack -- TREE LIST LEVEL...`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use forebay_profile::{BlockOpener, LEVEL_DEFAULT, Piece, Profile, ProfileDirectory, Use};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Generation, ViewPath};
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tree, list, levels @ ..] = &arguments[..] else { bail!("usage: pack TREE LIST LEVEL...") };
    let profile = profile_of(Path::new(tree), &fs::read_to_string(list)?)?;
    let pieces = pieces_of(Path::new(tree), &profile)?;
    println!(
        "{} files, {} pieces, {:.1} MB; the profile has {} bytes",
        profile.file_count(),
        pieces.len(),
        profile.content_bytes() as f64 / 1e6,
        profile.encode()?.len()
    );
    let levels: Vec<i32> = levels.iter().map(|level| level.parse()).collect::<Result<_, _>>()?;
    for level in if levels.is_empty() { vec![LEVEL_DEFAULT] } else { levels } {
        measure(&profile, &pieces, level)?;
    }
    Ok(())
}

/// The profile that reading every file of the list would record.
fn profile_of(tree: &Path, list: &str) -> Result<Profile> {
    let mut profile = Profile::new("pack".to_owned(), vec![ViewPath::root()], 0);
    let mut seen = BTreeSet::new();
    let tree = tree.canonicalize()?;
    for name in list.lines().filter(|line| line.starts_with(['r', 'm'])).filter_map(|line| line.get(2..)) {
        let Ok(path) = tree.join(name).canonicalize() else { continue };
        let found = fs::metadata(&path)?;
        let chunks: Vec<ChunkIndex> = (0..found.len().div_ceil(CHUNK_BYTES)).map(ChunkIndex).collect();
        let path = ViewPath::new(path.strip_prefix(&tree)?.as_os_str().as_bytes())?;
        if seen.insert(path.clone()) && !chunks.is_empty() {
            let generation = Generation { ino: found.ino(), size_bytes: found.len(), ..Generation::default() };
            profile.uses.push(Use::File { path, generation, chunks });
        }
    }
    Ok(profile)
}

fn pieces_of(tree: &Path, profile: &Profile) -> Result<Vec<(Piece, Vec<u8>)>> {
    let mut pieces = Vec::new();
    for wanted in profile.wanted() {
        let name = std::str::from_utf8(wanted.path.as_bytes())?.to_owned();
        let contents = fs::read(tree.join(&name))?;
        let start = wanted.index.start_bytes() as usize;
        let chunk = contents[start..contents.len().min(start + CHUNK_BYTES as usize)].to_vec();
        pieces.push((Piece::of(wanted.path, wanted.generation, wanted.index, &chunk)?, chunk));
    }
    Ok(pieces)
}

fn measure(profile: &Profile, pieces: &[(Piece, Vec<u8>)], level: i32) -> Result<()> {
    let place = tempfile::tempdir()?;
    let directory =
        ProfileDirectory::open(&place.path().join("profiles"), forebay_profile::limits::PROFILE_BUDGET_BYTES)?;
    let files = directory.files(profile.key());
    let (written, packing) = timed(|| {
        let mut pack = files.begin_pack(level)?;
        for (piece, bytes) in pieces {
            pack.add(piece.clone(), bytes)?;
        }
        Ok(pack.finish()?)
    })?;
    let (opened, opening) = timed(|| {
        let pack = files.open_pack()?.context("it was written")?;
        let blocks = pack.read_blocks(0..written.blocks_count)?;
        Ok((pack, blocks))
    })?;
    let (pack, blocks) = opened;
    let (count, unpacking) = timed(|| {
        let (mut count, mut opener) = (0, BlockOpener::new());
        for (entry, block) in pack.index().blocks().iter().zip(&blocks) {
            count += opener.open(block, &entry.pieces)?.len();
        }
        Ok(count)
    })?;
    println!(
        "level {level:2}: {:.1} MB in {} blocks; packed in {packing:.2} CPU s, read in {opening:.3}, {count} pieces \
         opened in {unpacking:.3}",
        written.file_bytes as f64 / 1e6,
        written.blocks_count,
    );
    Ok(())
}

/// The result of `act`, and the processor seconds of this process that it took. Says so where the wall time is longer by
/// half.
fn timed<T>(act: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let cpu_s = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let (wall, before) = (Instant::now(), cpu_s());
    let value = act()?;
    let (took, wall) = (cpu_s() - before, wall.elapsed().as_secs_f64());
    if wall > took * 1.5 {
        eprintln!("the machine was busy: {wall:.2} s passed in {took:.2} CPU s");
    }
    Ok((value, took))
}
