//! The tree that is read during a fault: some thousand files of which every byte follows from path and offset.
//!
//! Most files are as small as those of a Python environment, some lie around the sizes where buffers end, and some are
//! longer than a chunk. No state about them is needed: size and bytes are formulas, so a reader can tell a
//! byte of another file, or of another place in the same one, without a second copy to compare with.

use std::path::Path;

/// Files in a directory; its listing takes a request of its own.
const FILES_IN_DIRECTORY: usize = 60;

/// Sizes where mistakes are: nothing, around a page, around what travels within an answer, around a kernel's request.
const ODD_BYTES: [usize; 8] = [0, 1, 4095, 4096, 4097, 16 << 10, (16 << 10) + 1, (128 << 10) - 1];

/// One of so many files is longer than a chunk.
const ONE_LONG_IN: usize = 97;

/// The directories of a tree of `files` files, with the files of each.
pub fn directories(files: usize) -> impl Iterator<Item = (String, Vec<usize>)> {
    let first = (0..files).step_by(FILES_IN_DIRECTORY);
    first.map(move |first| (directory(first), (first..files.min(first + FILES_IN_DIRECTORY)).collect()))
}

/// The directory of file `index`.
pub fn directory(index: usize) -> String {
    format!("part-{:03}", index / FILES_IN_DIRECTORY)
}

/// The name of file `index` in its directory.
pub fn name(index: usize) -> String {
    format!("file-{index:05}")
}

/// How long file `index` is.
pub fn size_bytes(index: usize) -> usize {
    match index % ONE_LONG_IN {
        0 => (1 << 20) - 1 + index / ONE_LONG_IN % 3,
        1 => (3 << 20) + 12_345 + index,
        rest if rest % 7 == 0 => ODD_BYTES[rest / 7 % ODD_BYTES.len()],
        _ => (mixed(index as u64) % 60_000) as usize,
    }
}

/// Bytes of file `index` at `offset`, as many as fit into `buffer`.
pub fn fill(index: usize, offset: usize, buffer: &mut [u8]) {
    let seed = mixed(index as u64 + 1);
    let mut at = 0;
    while at < buffer.len() {
        let (word, within) = ((offset + at) / 8, (offset + at) % 8);
        let bytes = mixed(seed ^ word as u64).to_le_bytes();
        let count = (8 - within).min(buffer.len() - at);
        buffer[at..at + count].copy_from_slice(&bytes[within..within + count]);
        at += count;
    }
}

/// Writes the tree.
pub fn build(root: &Path, files: usize) {
    for (directory, indexes) in directories(files) {
        let directory = root.join(directory);
        std::fs::create_dir(&directory).unwrap();
        for index in indexes {
            let mut bytes = vec![0; size_bytes(index)];
            fill(index, 0, &mut bytes);
            std::fs::write(directory.join(name(index)), bytes).unwrap();
        }
    }
}

/// The finishing of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of `value`.
pub fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[test]
fn bytes_follow_from_the_place_alone() {
    let mut whole = [0; 100];
    fill(5, 0, &mut whole);
    for start in 0..100 {
        let mut part = vec![0; 100 - start];
        fill(5, start, &mut part);
        assert_eq!(part, whole[start..]);
    }
    let mut other = [0; 100];
    fill(6, 0, &mut other);
    assert!(whole.iter().zip(other).filter(|(one, other)| **one == *other).count() < 10, "files differ everywhere");
}
