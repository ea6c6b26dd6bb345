//! Packs: what goes in comes out, and whatever happens to the bytes in between is noticed.

use std::fs;
use std::os::unix::fs::FileExt;

use forebay_profile::{Block, BlockOpener, PackReader, Piece, ProfileError, ProfileFiles};
use forebay_types::{CHUNK_BYTES, ChunkIndex};

use crate::files::place::{Place, contents, generation, pieces, profile, view, write_whole_pack};

fn files(place: &Place) -> ProfileFiles {
    place.open().files(profile("train").key())
}

fn all(pack: &PackReader) -> Result<Vec<(Piece, Vec<u8>)>, ProfileError> {
    let mut found = Vec::new();
    for (number, block) in pack.index().blocks().iter().enumerate() {
        let bytes = pack.read_pieces(number, &mut BlockOpener::new())?;
        found.extend(block.pieces.iter().cloned().zip(bytes.iter().map(|bytes| bytes.to_vec())));
    }
    Ok(found)
}

#[test]
fn bytes_come_out_as_they_went_in() {
    let place = Place::new();
    let files = files(&place);
    assert!(files.open_pack().unwrap().is_none());
    write_whole_pack(&files);
    let pack = files.open_pack().unwrap().unwrap();
    assert_eq!(all(&pack).unwrap(), pieces());
    // Two small files and, since a whole chunk has no room beside them, the large one alone.
    let counts: Vec<usize> = pack.index().blocks().iter().map(|block| block.pieces.len()).collect();
    assert_eq!(counts, [2, 1, 1, 2]);
    assert_eq!(pack.index().contents_bytes(), pieces().iter().map(|(_, bytes)| bytes.len() as u64).sum());
    let end = pack.index().blocks_end();
    assert!(end < pack.index().contents_bytes() * 6 / 10, "compressed");
    assert!(fs::metadata(files.pack_path()).unwrap().len() > end);
}

#[test]
fn blocks_are_read_many_at_a_time() {
    let place = Place::new();
    let files = files(&place);
    write_whole_pack(&files);
    let pack = files.open_pack().unwrap().unwrap();
    let singly: Vec<_> = (0..4).map(|number| pack.read_block(number).unwrap()).collect();
    assert_eq!(pack.read_blocks(0..4).unwrap(), singly);
    assert_eq!(pack.read_blocks(1..3).unwrap(), singly[1..3]);
    assert!(pack.read_blocks(2..2).unwrap().is_empty());
}

#[test]
fn a_pack_is_renewed_from_the_one_before() {
    let place = Place::new();
    let files = files(&place);
    write_whole_pack(&files);
    let old = files.open_pack().unwrap().unwrap();
    let changed = contents(99, 5000);
    let piece = Piece::of(view("soft/b.py"), generation(5000), ChunkIndex(0), &changed).unwrap();
    let mut new = files.begin_pack(3).unwrap();
    new.add(piece.clone(), &changed).unwrap();
    for number in 1..4 {
        let pieces = old.index().blocks()[number].pieces.clone();
        new.add_block(&Block { pieces, compressed: old.read_block(number).unwrap() }).unwrap();
    }
    let written = new.finish().unwrap();
    let expected: Vec<_> = std::iter::once((piece, changed)).chain(pieces().into_iter().skip(2)).collect();
    assert_eq!(all(&files.open_pack().unwrap().unwrap()).unwrap(), expected);
    assert_eq!((written.blocks_count, written.pieces_count), (4, 5));
    assert_eq!(written.file_bytes, fs::metadata(files.pack_path()).unwrap().len());
    // Readers of the one before read on.
    assert_eq!(all(&old).unwrap(), pieces());
}

#[test]
fn a_profile_without_contents_has_an_empty_pack() {
    let place = Place::new();
    let files = files(&place);
    files.begin_pack(3).unwrap().finish().unwrap();
    assert!(files.open_pack().unwrap().unwrap().index().blocks().is_empty());
}

/// A pack of two small blocks, so that every byte can be spoiled.
fn small_pack(files: &ProfileFiles) -> Vec<(Piece, Vec<u8>)> {
    let mut pack = files.begin_pack(3).unwrap();
    let mut added = Vec::new();
    for (name, len) in [("soft/a", 60), ("soft/b", 40)] {
        let bytes = contents(3, len);
        let piece = Piece::of(view(name), generation(len), ChunkIndex(0), &bytes).unwrap();
        let mut block = forebay_profile::BlockBuilder::new();
        block.add(piece.clone(), &bytes).unwrap();
        pack.add_block(&block.finish(3).unwrap()).unwrap();
        added.push((piece, bytes));
    }
    pack.finish().unwrap();
    added
}

#[test]
fn every_spoiled_byte_is_noticed() {
    let place = Place::new();
    let files = files(&place);
    let added = small_pack(&files);
    let good = fs::read(files.pack_path()).unwrap();
    let file = fs::File::options().write(true).open(files.pack_path()).unwrap();
    for at in 0..good.len() {
        file.write_all_at(&[good[at] ^ 1 << (at % 8)], at as u64).unwrap();
        let outcome = files.open_pack().and_then(|pack| all(&pack.unwrap()));
        assert!(matches!(outcome, Err(ProfileError::Broken { .. })), "byte {at} of {}: {outcome:?}", good.len());
        file.write_all_at(&good[at..=at], at as u64).unwrap();
    }
    assert_eq!(all(&files.open_pack().unwrap().unwrap()).unwrap(), added);
    for len in (0..good.len()).rev() {
        file.set_len(len as u64).unwrap();
        assert!(matches!(files.open_pack(), Err(ProfileError::Broken { .. })), "cut at {len}");
    }
    fs::write(files.pack_path(), [&good[..], b"x"].concat()).unwrap();
    assert!(files.open_pack().is_err());
}

#[test]
fn a_spoiled_block_leaves_the_others_as_they_are() {
    let place = Place::new();
    let files = files(&place);
    write_whole_pack(&files);
    let pack = files.open_pack().unwrap().unwrap();
    let middle = pack.index().block_range(1..2);
    let file = fs::File::options().write(true).open(files.pack_path()).unwrap();
    file.write_all_at(b"spoiled", (middle.start + middle.end) / 2).unwrap();
    let error = pack.read_block(1).unwrap_err().to_string();
    assert!(error.contains("its checksum is wrong") && error.contains(".pack is not used"), "{error}");
    assert!(pack.read_blocks(0..4).is_err());
    for number in [0, 2, 3] {
        pack.read_pieces(number, &mut BlockOpener::new()).unwrap();
    }
}

#[test]
fn bytes_that_are_no_chunk_of_their_file_are_not_packed() {
    let place = Place::new();
    let files = files(&place);
    let piece = Piece::of(view("a"), generation(3), ChunkIndex(0), b"abc").unwrap();
    assert!(files.begin_pack(3).unwrap().add(piece.clone(), b"abx").is_err());
    assert!(Piece::of(view("a"), generation(CHUNK_BYTES as usize + 1), ChunkIndex(0), b"abc").is_err());
    let mut pack = files.begin_pack(3).unwrap();
    assert!(pack.add(Piece { index: ChunkIndex(1), ..piece }, b"abc").is_err());
    drop(pack);
    assert!(place.names().is_empty(), "nothing unfinished stays");
}
