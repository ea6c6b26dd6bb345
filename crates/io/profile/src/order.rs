//! In which order a profile's contents are read ahead and packed.
//!
//! The order of first use, so that what is wanted first comes first; but small files of one directory, which programs
//! read in between others, are brought next to each other, at most a block of them: they compress better together, and
//! a backing file system reads a directory's files faster one after the other.

use forebay_types::{ChunkIndex, Generation, Map, ViewPath, limits};

use crate::{Profile, Use};

/// Bytes of a directory's small files that lie together in a pack though other files were used in between: a block.
const PACK_GROUP_BYTES: u64 = crate::limits::PACK_BLOCK_BYTES as u64;

/// One chunk of a file that a profile names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The file.
    pub path: ViewPath,
    /// Its version when the profile was made.
    pub generation: Generation,
    /// The chunk.
    pub index: ChunkIndex,
}

impl Profile {
    /// All chunks, in the order in which they are read ahead and packed.
    #[must_use]
    pub fn wanted(&self) -> Vec<Wanted> {
        self.file_order().into_iter().flat_map(|at| chunks_of(&self.uses[at])).collect()
    }

    /// The places of the files in `uses`, small ones of one directory together.
    fn file_order(&self) -> Vec<usize> {
        let files = || (0..).zip(&self.uses).filter(|(_, each)| matches!(each, Use::File { .. }));
        let mut small_files = Map::<ViewPath, Vec<usize>>::default();
        for (at, each) in files().filter(|(_, each)| is_small(each)) {
            small_files.entry(directory_of(each)).or_default().push(at);
        }
        // The next of them are taken from the end.
        small_files.values_mut().for_each(|group| group.reverse());
        let mut order = Vec::with_capacity(self.file_count());
        let mut is_placed = vec![false; self.uses.len()];
        for (at, each) in files() {
            if is_placed[at] {
                continue;
            }
            let group = small_files.get_mut(&directory_of(each)).filter(|_| is_small(each));
            let Some(group) = group else {
                order.push(at);
                continue;
            };
            let mut bytes = 0;
            while let Some(next) = group.pop() {
                bytes += self.uses[next].content_bytes();
                if bytes > PACK_GROUP_BYTES {
                    group.push(next);
                    break;
                }
                is_placed[next] = true;
                order.push(next);
            }
        }
        order
    }
}

fn is_small(each: &Use) -> bool {
    each.generation().is_some_and(|generation| generation.size_bytes <= limits::BUNDLE_FILE_BYTES_MAX)
}

fn directory_of(each: &Use) -> ViewPath {
    each.path().split().map_or_else(ViewPath::root, |(directory, _)| directory)
}

fn chunks_of(each: &Use) -> impl Iterator<Item = Wanted> {
    let generation = each.generation().copied().unwrap_or_default();
    each.chunks().iter().map(move |index| Wanted { path: each.path().clone(), generation, index: *index })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{generation, path, profile};
    use proptest::prelude::*;

    fn order(files: &[(&str, u64)]) -> Vec<String> {
        let file = |(name, size): &(&str, u64)| Use::File {
            path: path(name),
            generation: generation(1, *size),
            chunks: vec![ChunkIndex(0)],
        };
        let uses = files.iter().map(file).collect();
        let wanted = Profile { uses, ..Profile::new("x".into(), vec![], 0) }.wanted();
        wanted.iter().map(|each| String::from_utf8_lossy(each.path.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn small_files_of_a_directory_come_together() {
        let files = [("a/1", 9), ("b/1", 9), ("a/large", 1 << 20), ("a/2", 9), ("c/1", 9), ("b/2", 9), ("top", 9)];
        assert_eq!(order(&files), ["a/1", "a/2", "b/1", "b/2", "a/large", "c/1", "top"]);
    }

    #[test]
    fn no_more_than_a_block_of_them() {
        let names: Vec<String> = (0..12).map(|number| format!("a/{number:02}")).collect();
        let mut files: Vec<(&str, u64)> = names.iter().map(|name| (&**name, 128 << 10)).collect();
        files.insert(1, ("b/1", 9));
        let order = order(&files);
        assert_eq!(order[7..10], ["a/07", "b/1", "a/08"]);
        assert_eq!(order.len(), 13);
    }

    proptest! {
        #[test]
        fn every_chunk_is_wanted_once(profile in profile()) {
            let key = |each: &Wanted| (each.path.clone(), each.index);
            let mut wanted: Vec<_> = profile.wanted().iter().map(key).collect();
            let mut named: Vec<_> = profile.uses.iter().flat_map(chunks_of).map(|each| key(&each)).collect();
            wanted.sort();
            named.sort();
            prop_assert_eq!(wanted, named);
        }
    }
}
