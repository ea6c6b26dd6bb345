//! Bundles: the small files of one kind in a directory, cut into runs that travel together.
//!
//! A program that reads one small file of a kind usually reads its neighbours, and a question for each costs every node
//! on the way more than the bytes do. The runs follow from the listing alone, so all nodes cut alike and join each
//! other's questions.

use forebay_cache::Key;
use forebay_types::{ChunkIndex, Generation, Kind, Name, ViewPath, limits};
use forebay_wire::{Listing, ListingEntry, ReadMessage};

/// A run of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    dir: ViewPath,
    generation: Generation,
    first: u32,
    files: Vec<(Name, Generation)>,
}

impl Bundle {
    /// The run in which the file at `index` of `dir`'s listing lies, and its place there. `None` where it is alone.
    pub fn around(dir: &ViewPath, listing: &Listing, index: usize) -> Option<(Self, usize)> {
        let suffix = suffix_of(listing.entry(index).name);
        let mut run = Vec::new();
        let mut run_bytes = 0;
        for (at, (entry, size_bytes)) in
            listing.entries().enumerate().filter_map(|(at, entry)| Some((at, (entry, small_size(&entry, suffix)?))))
        {
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
        let place = run.iter().position(|(at, _)| *at == index)?;
        if run.len() < 2 {
            return None;
        }
        let first = run.first()?.0 as u32;
        let file = |(_, entry): &(usize, ListingEntry<'_>)| {
            Some((Name::new(entry.name).ok()?, entry.attributes?.generation()))
        };
        let files = run.iter().map(file).collect::<Option<_>>()?;
        Some((Self { dir: dir.clone(), generation: listing.generation(), first, files }, place))
    }

    /// The run that a peer asks for; `None` for any other request.
    pub fn of(message: &ReadMessage) -> Option<Self> {
        match message.clone() {
            ReadMessage::Bundle { dir, generation, first, files } => Some(Self { dir, generation, first, files }),
            _ => None,
        }
    }

    /// Under which it is joined.
    pub fn key(&self) -> Key {
        Key::Bundle { dir: self.dir.clone(), generation: self.generation, first: self.first }
    }

    /// By which it is asked for.
    pub fn message(&self) -> ReadMessage {
        let Self { dir, generation, first, files } = self.clone();
        ReadMessage::Bundle { dir, generation, first, files }
    }

    /// Under which its files are kept; `None` when a path would be too long.
    pub fn members(&self) -> Option<Vec<Key>> {
        let member = |(name, generation): &(Name, Generation)| {
            let file = self.dir.join(name.as_bytes()).ok()?;
            Some(Key::Chunk { file, generation: *generation, index: ChunkIndex(0) })
        };
        self.files.iter().map(member).collect()
    }
}

/// The size of a file that may travel in a bundle of files with this suffix.
fn small_size(entry: &ListingEntry<'_>, suffix: &[u8]) -> Option<u64> {
    let size_bytes = entry.attributes?.size_bytes;
    let is_small = (1..=limits::BUNDLE_FILE_BYTES_MAX).contains(&size_bytes);
    (entry.kind == Kind::File && is_small && suffix_of(entry.name) == suffix).then_some(size_bytes)
}

/// What follows the last dot of a name; nothing where there is none.
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
                let Some((bundle, place)) = Bundle::around(&ViewPath::root(), &listing, index) else { continue };
                prop_assert_eq!(bundle.files[place].0.as_bytes(), listing.entry(index).name);
                let bytes: u64 = bundle.files.iter().map(|(_, generation)| generation.size_bytes).sum();
                prop_assert!((2..=limits::BUNDLE_FILES_MAX).contains(&bundle.files.len()));
                prop_assert!(bytes <= limits::BUNDLE_BYTES_MAX);
                for (name, _) in &bundle.files {
                    let other = listing.find(name.as_bytes()).unwrap();
                    let found = Bundle::around(&ViewPath::root(), &listing, other).map(|(bundle, _)| bundle);
                    prop_assert_eq!(found.as_ref(), Some(&bundle));
                }
            }
        }
    }

    #[test]
    fn a_large_file_and_one_without_neighbours_travel_alone() {
        let listing = listing(&[10, 10, limits::BUNDLE_FILE_BYTES_MAX + 1, 10, 10, 10, 10]);
        assert_eq!(Bundle::around(&ViewPath::root(), &listing, 2), None);
        assert_eq!(Bundle::around(&ViewPath::root(), &listing, 6), None);
        let (bundle, place) = Bundle::around(&ViewPath::root(), &listing, 3).unwrap();
        assert_eq!((bundle.files.len(), place, bundle.first), (5, 2, 0));
    }
}
