//! The entries to copy, and the share of each node.
//!
//! A listing has an order, and shares follow from it by arithmetic; nodes that have the same one (`digest`) need not speak about it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{StageError, What};
use crate::limits::{DEPTH_MAX, ENTRIES_MAX};

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Made before anything in it.
    Directory,
    /// Copied.
    File,
    /// Made anew with the same target.
    Link,
    /// Neither; it cannot be copied.
    Special,
}

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Below the root; empty for the root itself.
    pub path: PathBuf,
    /// Its kind.
    pub kind: Kind,
    /// Of a file.
    pub bytes: u64,
}

/// A file, or a directory with all that is in it, ordered by path: what is in a directory comes after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    entries: Vec<Entry>,
}

impl Listing {
    /// Lists what is at `root`. A link there is followed.
    ///
    /// # Errors
    /// When something cannot be looked at, or there is too much.
    pub fn of(root: &Path) -> Result<Self, StageError> {
        let mut listing = Self { entries: vec![] };
        let metadata = fs::metadata(root).map_err(|error| StageError::io(What::Look, root, error))?;
        listing.add(root, PathBuf::new(), &metadata, 0)?;
        listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(listing)
    }

    fn add(&mut self, root: &Path, path: PathBuf, metadata: &fs::Metadata, depth: usize) -> Result<(), StageError> {
        if self.entries.len() >= ENTRIES_MAX || depth > DEPTH_MAX {
            return Err(StageError::TooMuch(root.to_owned()));
        }
        let full = root.join(&path);
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_file() => Kind::File,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Special,
        };
        if kind == Kind::Directory {
            let failed = |error| StageError::io(What::Look, &full, error);
            for entry in fs::read_dir(&full).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                let below = full.join(&name);
                if crate::journal::is_draft(&name) {
                    continue;
                }
                let metadata = below.symlink_metadata().map_err(|error| StageError::io(What::Look, &below, error))?;
                self.add(root, path.join(name), &metadata, depth + 1)?;
            }
        }
        let bytes = if kind == Kind::File { metadata.size() } else { 0 };
        self.entries.push(Entry { path, kind, bytes });
        Ok(())
    }

    /// All of it.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// The part of it that `rank` of `count` takes: all directories, and of the rest each entry once. The largest first, each to whoever
    /// has least.
    #[must_use]
    pub fn share(&self, rank: usize, count: usize) -> Self {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(self.entries[*index].bytes));
        // Bytes so far and entries so far, so that empty ones are spread too.
        let mut loads = vec![(0_u64, 0_usize); count.max(1)];
        let mut own = vec![];
        for index in order {
            let entry = &self.entries[index];
            if entry.kind == Kind::Directory {
                own.push(index);
                continue;
            }
            let least = (0..loads.len()).min_by_key(|node| loads[*node]).unwrap_or(0);
            loads[least] = (loads[least].0 + entry.bytes, loads[least].1 + 1);
            if least == rank {
                own.push(index);
            }
        }
        own.sort_unstable();
        Self { entries: own.into_iter().map(|index| self.entries[index].clone()).collect() }
    }

    /// Differs where two listings do.
    #[must_use]
    pub fn digest(&self) -> u32 {
        self.entries.iter().fold(0, |digest, entry| {
            let digest = crc32c::crc32c_append(digest, entry.path.as_os_str().as_bytes());
            let digest = crc32c::crc32c_append(digest, &[0, entry.kind as u8]);
            crc32c::crc32c_append(digest, &entry.bytes.to_le_bytes())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Listing) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        for (name, bytes) in [("a/one", 100), ("a/b/two", 60), ("three", 50), ("four", 0), ("five", 0)] {
            fs::write(directory.path().join(name), vec![1; bytes]).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", directory.path().join("link")).unwrap();
        let listing = Listing::of(directory.path()).unwrap();
        (directory, listing)
    }

    #[test]
    fn a_directory_comes_before_what_is_in_it() {
        let (_directory, listing) = tree();
        let paths: Vec<_> = listing.entries().iter().map(|entry| entry.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["", "a", "a/b", "a/b/two", "a/one", "five", "four", "link", "three"]);
        assert_eq!(listing.bytes(), 210);
        let link = &listing.entries()[7];
        assert_eq!((link.kind, link.bytes), (Kind::Link, 0), "it is not followed");
    }

    #[test]
    fn shares_have_everything_once_and_as_much_as_each_other() {
        let (_directory, listing) = tree();
        let shares: Vec<Listing> = (0..2).map(|rank| listing.share(rank, 2)).collect();
        assert_eq!(shares.iter().map(Listing::bytes).collect::<Vec<_>>(), [100, 110]);
        let mut files: Vec<_> = shares.iter().flat_map(|share| share.entries().iter().cloned()).collect();
        files.retain(|entry| entry.kind != Kind::Directory);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let mut expected = listing.entries().to_vec();
        expected.retain(|entry| entry.kind != Kind::Directory);
        assert_eq!(files, expected);
        let directories =
            |share: &Listing| share.entries().iter().filter(|entry| entry.kind == Kind::Directory).count();
        assert!(shares.iter().all(|share| directories(share) == 3), "each makes the directories of its files");
    }

    #[test]
    fn a_digest_tells_of_names_and_sizes() {
        let (directory, listing) = tree();
        assert_eq!(Listing::of(directory.path()).unwrap().digest(), listing.digest());
        fs::write(directory.path().join("four"), "x").unwrap();
        let grown = Listing::of(directory.path()).unwrap().digest();
        assert_ne!(grown, listing.digest());
        fs::rename(directory.path().join("four"), directory.path().join("fours")).unwrap();
        assert_ne!(Listing::of(directory.path()).unwrap().digest(), grown);
    }

    #[test]
    fn a_file_is_a_tree_of_one() {
        let (directory, _) = tree();
        let listing = Listing::of(&directory.path().join("three")).unwrap();
        assert_eq!(listing.entries(), [Entry { path: PathBuf::new(), kind: Kind::File, bytes: 50 }]);
        assert!(Listing::of(&directory.path().join("none")).unwrap_err().to_string().contains("look at"));
    }
}
