//! Conditions that hold in every tree after every operation, for fuzzing.

use std::collections::BTreeMap;

use forebay_types::{FileId, Kind};
use forebay_wire::write::BURST_ROOT;

use super::nodes::{Contents, Node};
use super::state::Tree;

impl Tree {
    /// Checks every file, directory and lock.
    ///
    /// # Panics
    /// When something does not hold.
    pub(crate) fn assert_sound(&self) {
        let (names, directories) = self.counted_names();
        for (file, node) in self.nodes.iter() {
            let count = names.get(file).copied().unwrap_or(0);
            self.assert_counted(*file, node, count, directories.get(file).copied().unwrap_or(0));
            assert!(node.open_on.values().all(|opens| *opens > 0), "{file} is open on a node and not");
            if let Contents::File(extents) = &node.contents {
                extents.assert_sound(node.attributes.size_bytes);
            }
        }
        assert!(names.keys().all(|file| self.nodes.contains_key(file)), "a name leads nowhere");
        let extended = self.nodes.iter().filter_map(|(_, node)| Some(&node.extended.as_deref()?.attributes));
        let bytes: usize = extended.inspect(|found| assert!(found.is_within_limits())).map(|found| found.bytes()).sum();
        assert_eq!(self.nodes.extended_bytes(), bytes as u64, "bytes of extended attributes");
        self.locks.assert_sound();
    }

    /// Whether both are the same but for what operations came to.
    pub(crate) fn is_same_but_for_results(&self, other: &Self) -> bool {
        self.nodes == other.nodes
            && self.landing == other.landing
            && self.locks == other.locks
            && self.lost == other.lost
            && self.number == other.number
    }

    /// All files, in no order.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = FileId> {
        self.nodes.iter().map(|(file, _)| *file)
    }

    /// The names of each file, and the directories in each directory.
    fn counted_names(&self) -> (BTreeMap<FileId, u32>, BTreeMap<FileId, u32>) {
        let (mut names, mut directories) = (BTreeMap::<_, u32>::new(), BTreeMap::<_, u32>::new());
        for (at, node) in self.nodes.iter() {
            let Contents::Directory(entries) = &node.contents else { continue };
            for (_, file) in entries.entries_after(None) {
                *names.entry(*file).or_default() += 1;
                if self.nodes.get(file).is_some_and(|node| node.attributes.kind() == Kind::Directory) {
                    *directories.entry(*at).or_default() += 1;
                    assert_eq!(
                        self.node(*file).map(|node| node.directory),
                        Ok(*at),
                        "{file} is in another directory than it says"
                    );
                }
            }
        }
        (names, directories)
    }

    fn assert_counted(&self, file: FileId, node: &Node, names: u32, directories: u32) {
        let links = node.attributes.nlink;
        if node.attributes.kind() != Kind::Directory {
            assert_eq!(links, names, "{file} says how many names it has");
            let is_kept = self.landing.is_kept(file);
            assert!(links > 0 || !node.open_on.is_empty() || is_kept, "{file} is not reached any more");
            return;
        }
        assert!(matches!(node.contents, Contents::Directory(_)), "{file} is a directory without entries");
        if file == BURST_ROOT || names > 0 {
            assert_eq!((links, names), (2 + directories, u32::from(file != BURST_ROOT)), "{file} says what is in it");
        } else {
            assert_eq!((links, directories), (0, 0), "{file} has gone and has entries");
            assert!(!node.open_on.is_empty(), "{file} is not reached any more");
        }
        assert!(names == 0 || self.is_within(file, BURST_ROOT) == Ok(true), "{file} is not below the root");
    }
}
