//! Bundles: the small files of one kind in a directory, cut into runs that travel together.
//!
//! A program that reads one small file of a kind usually reads its neighbours, and a message for each costs every node
//! on the way more than the bytes do. The runs follow from the listing alone, so all nodes cut alike and join each
//! other's requests.

use forebay_cache::Key;
use forebay_types::{ChunkIndex, Kind, ViewPath, limits};
use forebay_wire::{Listing, ListingEntry};

/// The files that travel with the one at `index` of `dir`'s listing, by their chunks, in the order of the listing; none
/// where it travels alone.
#[must_use]
pub fn neighbours(dir: &ViewPath, listing: &Listing, index: usize) -> Vec<Key> {
    let chunk = |(_, entry): &(usize, ListingEntry<'_>)| {
        let (file, generation) = (dir.join(entry.name).ok()?, entry.attributes?.generation());
        Some(Key::Chunk { file, generation, index: ChunkIndex(0) })
    };
    run_around(listing, index).iter().filter(|(at, _)| *at != index).filter_map(chunk).collect()
}

/// The run in which the file at `index` lies: entries with their places.
fn run_around(listing: &Listing, index: usize) -> Vec<(usize, ListingEntry<'_>)> {
    let suffix = suffix_of(listing.entry(index).name);
    let mut run = Vec::new();
    let mut run_bytes = 0;
    for (at, entry) in listing.entries().enumerate() {
        let Some(size_bytes) = small_size(&entry, suffix) else { continue };
        if run.len() == limits::BUNDLE_FILES_MAX || run_bytes + size_bytes > limits::BUNDLE_BYTES_MAX {
            if at > index {
                break;
            }
            run.clear();
            run_bytes = 0;
        }
        run_bytes += size_bytes;
        run.push((at, entry));
    }
    if run.iter().any(|(at, _)| *at == index) { run } else { Vec::new() }
}

/// The size of a file that may travel in a bundle of files with this suffix.
fn small_size(entry: &ListingEntry<'_>, suffix: &[u8]) -> Option<u64> {
    let size_bytes = entry.attributes?.size_bytes;
    let is_small = (1..=limits::BUNDLE_FILE_BYTES_MAX).contains(&size_bytes);
    (entry.kind == Kind::File && is_small && suffix_of(entry.name) == suffix).then_some(size_bytes)
}

/// The part of a name behind its last dot; empty where there is none.
pub fn suffix_of(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'.').map_or(&[], |dot| &name[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Attributes;
    use forebay_wire::ListingBuilder;
    use proptest::prelude::*;

    fn listing(sizes: &[u64]) -> Listing {
        let mut builder = ListingBuilder::new();
        for (number, size_bytes) in sizes.iter().enumerate() {
            let name = format!("m{number:03}.{}", if number % 7 == 6 { "so" } else { "pyc" });
            let attributes = Some(Attributes { mode: 0o100_644, size_bytes: *size_bytes, ..Attributes::default() });
            let entry = ListingEntry { name: name.as_bytes(), kind: Kind::File, ino: 1, attributes, target: &[] };
            builder.push(entry).unwrap();
        }
        builder.finish(&Attributes::default()).unwrap()
    }

    proptest! {
        /// Whichever file is asked for first, all files of its run are of the same run, and runs keep to their limits.
        #[test]
        fn all_files_of_a_run_agree_about_it(sizes in proptest::collection::vec(0u64..200_000, 1..60)) {
            let listing = listing(&sizes);
            for index in 0..listing.len() {
                let run = run_around(&listing, index);
                prop_assert!(run.is_empty() || run.iter().any(|(at, _)| *at == index));
                prop_assert!(run.len() <= limits::BUNDLE_FILES_MAX);
                prop_assert!(run.iter().map(|(at, _)| sizes[*at]).sum::<u64>() <= limits::BUNDLE_BYTES_MAX);
                prop_assert_eq!(neighbours(&ViewPath::root(), &listing, index).len(), run.len().saturating_sub(1));
                for (at, _) in &run {
                    prop_assert_eq!(&run_around(&listing, *at), &run);
                }
            }
        }
    }

    #[test]
    fn a_large_file_and_one_without_neighbours_travel_alone() {
        let listing = listing(&[10, 10, limits::BUNDLE_FILE_BYTES_MAX + 1, 10, 10, 10, 10]);
        let count = |index| neighbours(&ViewPath::root(), &listing, index).len();
        assert_eq!((count(2), count(6), count(3)), (0, 0, 4));
    }
}
