//! Prefetches of the node that reads the backing file system, by habits of programs.
//!
//! A start-up walks its files one after the other, so each of them costs the backing file system's latency in turn. Two
//! habits of programs make some of it avoidable, and both are learned from what this job does, not from names known
//! beforehand. A program that reads some files of a kind in a directory (one suffix) reads most of them: their small
//! siblings follow, twice as many as were read so far, or at once where directories of this name were mostly read
//! before. And a directory that was entered wherever it appeared (`__pycache__`) will be entered in the next place too:
//! its listing is asked for with its parent's.
//!
//! Correctness never depends on this module: it decides only what is prefetched, how much, and in which order.

use std::collections::VecDeque;

use forebay_cache::Key;
use forebay_types::{Kind, Map, ViewPath, limits};
use forebay_wire::{Listing, ListingEntry};

use crate::bundle::suffix_of;

/// Siblings asked for and not read yet, at most.
const UNREAD_MAX: usize = 16;

/// A directory name is trusted when it was entered in this many places, and in three of four where it appeared.
const ENTERED_MIN: u32 = 3;

/// A kind of file is known when so many of it were met in directories of one name.
const MET_MIN: usize = 8;

/// Directories, names and queued candidates remembered; beyond that all is forgotten and learned anew.
const REMEMBERED_MAX: usize = 8192;

/// Files remembered, in all directories.
const FILES_REMEMBERED_MAX: usize = 1 << 17;

/// Entries of a listing that are looked at for one thing: a directory may have millions, and each file read asks again.
const LOOKED_AT_MAX: usize = 1024;

type Bytes = Box<[u8]>;

/// Something to prefetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Candidate {
    /// A directory's listing.
    Listing(ViewPath),
    /// The beginning of a file of this version.
    File(ViewPath, forebay_types::Generation),
}

/// The habits learned so far, and the candidates.
#[derive(Default)]
pub struct Habits {
    /// By directory and suffix.
    kinds: Map<(ViewPath, Bytes), Siblings>,
    /// By the name of the directory and suffix.
    habits: Map<(Bytes, Bytes), Habit>,
    names: Map<Bytes, Places>,
    /// Names that were entered `ENTERED_MIN` times.
    frequent: Vec<Bytes>,
    entered: Map<ViewPath, ()>,
    candidates: VecDeque<Candidate>,
    /// Files in `kinds`.
    files_count: usize,
    /// Prefetched objects that no program has wanted yet.
    unused: Map<Key, ()>,
}

/// The files of one kind in one directory: by their place in the listing, whether they were read.
#[derive(Default)]
struct Siblings {
    was_read: Map<usize, bool>,
    read_count: usize,
    unread_count: usize,
}

/// Of the files of one kind in all directories of one name that were read from: how many there were, how many were read.
#[derive(Clone, Copy, Default)]
struct Habit {
    met: usize,
    read: usize,
}

/// Where a directory name appeared, and in how many of these places it was entered.
#[derive(Clone, Copy, Default)]
struct Places {
    seen: u32,
    entered: u32,
}

impl Habits {
    /// Learns that the beginning of the file at `index` of `listing` is wanted. How many of its siblings may be next, if
    /// that is news. Without attributes, in a large directory, no sibling can be asked for: nothing is to be learned.
    pub fn on_file_wanted(&mut self, dir: &ViewPath, listing: &Listing, index: usize) -> Option<usize> {
        self.bound();
        let entry = listing.entry(index);
        entry.attributes?;
        let suffix = suffix_of(entry.name);
        let siblings = self.kinds.entry((dir.clone(), suffix.into())).or_default();
        match siblings.was_read.insert(index, true) {
            Some(true) => return None,
            Some(false) => siblings.unread_count -= 1,
            None => self.files_count += 1,
        }
        siblings.read_count += 1;
        let read_count = siblings.read_count;
        let habit = self.habits.entry((name_of(dir).into(), suffix.into())).or_default();
        habit.read += 1;
        if read_count == 1 {
            habit.met += listing.entries().filter(|entry| is_sibling(entry, suffix)).count();
        }
        Some(if habit.is_read_whole() { UNREAD_MAX } else { UNREAD_MAX.min(2 * read_count) })
    }

    /// Wishes for siblings of the file at `index` until `room` of them are unread.
    pub fn add_siblings_of(&mut self, dir: &ViewPath, listing: &Listing, index: usize, room: usize) {
        self.wish_siblings(dir, listing, suffix_of(listing.entry(index).name), index + 1, room);
    }

    /// Whether files with this suffix in directories of this name are usually read, most of them.
    pub fn is_read_whole(&self, dir: &ViewPath, suffix: &[u8]) -> bool {
        let habit = self.habits.get(&(name_of(dir).into(), suffix.into()));
        habit.is_some_and(|habit| habit.is_read_whole())
    }

    /// The listing of `dir` is wanted for something in it. `true` the first time. It candidates for what usually follows if
    /// `may_issue`; habits are learned either way.
    pub fn on_directory_entered(&mut self, dir: &ViewPath, may_issue: bool) -> bool {
        self.bound();
        if self.entered.insert(dir.clone(), ()).is_some() {
            return false;
        }
        let own_name = name_of(dir);
        let places = self.names.entry(own_name.into()).or_default();
        places.entered += 1;
        if places.entered == ENTERED_MIN {
            self.frequent.push(own_name.into());
        }
        for name in self.frequent.iter().filter(|name| may_issue && ***name != *own_name) {
            let entered = self.names.get(name).map_or(0, |places| places.entered);
            // Entered in half of the other directories: likely enough that this one has it, which is not known yet.
            if 3 * entered as usize >= self.entered.len()
                && let Ok(path) = dir.join(name)
            {
                self.candidates.push_front(Candidate::Listing(path));
            }
        }
        true
    }

    /// Whether something in `dir` was wanted.
    pub fn is_entered(&self, dir: &ViewPath) -> bool {
        self.entered.contains_key(dir)
    }

    /// The listing of a directory that was entered has arrived: its directories follow that are always entered, and its
    /// files that are always read, if `may_issue`.
    pub fn on_listing_arrived(&mut self, dir: &ViewPath, listing: &Listing, may_issue: bool) {
        for entry in listing.entries().filter(|entry| entry.kind == Kind::Directory).take(LOOKED_AT_MAX) {
            let places = self.names.entry(entry.name.into()).or_default();
            places.seen += 1;
            let is_trusted = places.entered >= ENTERED_MIN && 4 * (places.entered + 1) >= 3 * places.seen;
            if may_issue
                && is_trusted
                && let Ok(path) = dir.join(entry.name)
            {
                self.candidates.push_front(Candidate::Listing(path));
            }
        }
        if !may_issue {
            return;
        }
        let name = name_of(dir);
        let read_whole = self.habits.iter().filter(|((other, _), habit)| **other == *name && habit.is_read_whole());
        for suffix in read_whole.map(|((_, suffix), _)| suffix.clone()).collect::<Vec<_>>() {
            self.wish_siblings(dir, listing, &suffix, 0, UNREAD_MAX);
        }
    }

    /// The next thing to prefetch.
    pub fn next_candidate(&mut self) -> Option<Candidate> {
        self.candidates.pop_front()
    }

    /// It is prefetched.
    pub fn on_issued(&mut self, key: Key) {
        self.unused.insert(key, ());
    }

    /// It is wanted; whether it was prefetched and is wanted for the first time.
    pub fn on_used(&mut self, key: &Key) -> bool {
        self.unused.remove(key).is_some()
    }

    /// Forgets all that was learned.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Wishes for files of a kind, in the listing's order from `first` on and round, until `room` of them are unread.
    fn wish_siblings(&mut self, dir: &ViewPath, listing: &Listing, suffix: &[u8], first: usize, room: usize) {
        let siblings = self.kinds.entry((dir.clone(), suffix.into())).or_default();
        let wanted: Vec<usize> = (first..listing.len())
            .chain(0..first.min(listing.len()))
            .take(LOOKED_AT_MAX)
            .filter(|index| !siblings.was_read.contains_key(index) && is_sibling(&listing.entry(*index), suffix))
            .take(room.saturating_sub(siblings.unread_count))
            .collect();
        for index in wanted {
            siblings.was_read.insert(index, false);
            siblings.unread_count += 1;
            self.files_count += 1;
            let entry = listing.entry(index);
            if let (Some(attributes), Ok(path)) = (entry.attributes, dir.join(entry.name)) {
                self.candidates.push_back(Candidate::File(path, attributes.generation()));
            }
        }
    }

    fn bound(&mut self) {
        if self.names.len() > REMEMBERED_MAX {
            self.names.retain(|_, places| places.entered > 0);
        }
        let learned = [self.kinds.len(), self.habits.len(), self.names.len(), self.entered.len()];
        let lens = learned.into_iter().chain([self.candidates.len(), self.unused.len()]);
        if lens.into_iter().any(|len| len > REMEMBERED_MAX) || self.files_count > FILES_REMEMBERED_MAX {
            self.clear();
        }
    }
}

impl Habit {
    /// Most of them were read.
    fn is_read_whole(self) -> bool {
        self.met >= MET_MIN && 2 * self.read >= self.met
    }
}

fn is_sibling(entry: &ListingEntry<'_>, suffix: &[u8]) -> bool {
    let is_small =
        entry.attributes.is_some_and(|attributes| (1..=limits::SMALL_FILE_BYTES_MAX).contains(&attributes.size_bytes));
    entry.kind == Kind::File && is_small && suffix_of(entry.name) == suffix
}

/// The last name of a path; nothing for the root.
fn name_of(dir: &ViewPath) -> &[u8] {
    dir.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Attributes;
    use forebay_wire::ListingBuilder;

    fn listing(names: &[(&str, Kind)]) -> Listing {
        let mut builder = ListingBuilder::new();
        for (name, kind) in names {
            let mode = (u32::from(kind.dirent()) << 12) | 0o644;
            let attributes = Some(Attributes { mode, size_bytes: 10, ..Attributes::default() });
            let entry = ListingEntry { name: name.as_bytes(), kind: *kind, ino: 1, attributes, target: &[] };
            builder.push(entry).unwrap();
        }
        builder.finish(&Attributes::default()).unwrap()
    }

    fn path(text: &str) -> ViewPath {
        ViewPath::new(text.as_bytes()).unwrap()
    }

    fn candidates(anticipation: &mut Habits) -> Vec<String> {
        let text = |wish| match wish {
            Candidate::Listing(path) | Candidate::File(path, _) => path.to_string(),
        };
        std::iter::from_fn(|| anticipation.next_candidate()).map(text).collect()
    }

    fn wanted(anticipation: &mut Habits, listing: &Listing, name: &str) {
        let index = listing.find(name.as_bytes()).unwrap();
        if let Some(room) = anticipation.on_file_wanted(&path("d"), listing, index) {
            anticipation.add_siblings_of(&path("d"), listing, index, room);
        }
    }

    #[test]
    fn siblings_of_the_same_kind_follow_twice_as_many_as_were_read() {
        let names: Vec<String> = (0..9).map(|number| format!("m{number}.pyc")).collect();
        let mut all: Vec<(&str, Kind)> = names.iter().map(|name| (name.as_str(), Kind::File)).collect();
        all.extend([("readme.txt", Kind::File), ("sub.pyc", Kind::Directory)]);
        let listing = listing(&all);
        let mut anticipation = Habits::default();
        wanted(&mut anticipation, &listing, "m3.pyc");
        assert_eq!(candidates(&mut anticipation), ["/d/m4.pyc", "/d/m5.pyc"]);
        wanted(&mut anticipation, &listing, "m3.pyc");
        assert_eq!(candidates(&mut anticipation), [] as [&str; 0], "the same file again teaches nothing");
        wanted(&mut anticipation, &listing, "m4.pyc");
        assert_eq!(candidates(&mut anticipation), ["/d/m6.pyc", "/d/m7.pyc", "/d/m8.pyc"]);
    }

    #[test]
    fn a_directory_entered_everywhere_is_entered_in_the_next_place_too() {
        let listing = listing(&[("__pycache__", Kind::Directory), ("tests", Kind::Directory)]);
        let mut anticipation = Habits::default();
        for number in 0..4 {
            let dir = path(&format!("p{number}"));
            anticipation.on_listing_arrived(&dir, &listing, true);
            let wished = candidates(&mut anticipation);
            match number {
                0..3 => assert!(wished.is_empty()),
                _ => assert_eq!(wished, ["/p3/__pycache__"]),
            }
            assert!(anticipation.on_directory_entered(&dir.join(b"__pycache__").unwrap(), true));
        }
    }

    #[test]
    fn a_directory_that_most_others_have_is_asked_for_before_it_is_seen() {
        let mut anticipation = Habits::default();
        for number in 0..4 {
            let dir = path(&format!("p{number}"));
            anticipation.on_directory_entered(&dir, true);
            let expected: &[&str] = if number < 3 { &[] } else { &["/p3/__pycache__"] };
            assert_eq!(candidates(&mut anticipation), expected);
            anticipation.on_directory_entered(&dir.join(b"__pycache__").unwrap(), true);
            assert_eq!(candidates(&mut anticipation), [] as [&str; 0], "not below itself");
        }
        for number in 0..12 {
            anticipation.on_directory_entered(&path(&format!("other{number}")), true);
        }
        candidates(&mut anticipation);
        anticipation.on_directory_entered(&path("last"), true);
        assert_eq!(candidates(&mut anticipation), [] as [&str; 0], "most others do not have it any more");
    }

    #[test]
    fn files_that_were_read_in_directories_of_this_name_follow_their_listing() {
        let names: Vec<String> = (0..9).map(|number| format!("m{number}.pyc")).collect();
        let mut all: Vec<(&str, Kind)> = names.iter().map(|name| (name.as_str(), Kind::File)).collect();
        all.push(("notes.txt", Kind::File));
        let listing = listing(&all);
        let mut anticipation = Habits::default();
        let (first, second) = (path("a/cache"), path("b/cache"));
        for index in 0..4 {
            anticipation.on_file_wanted(&first, &listing, index);
        }
        assert!(!anticipation.is_read_whole(&second, b"pyc"), "four of nine");
        anticipation.on_file_wanted(&first, &listing, 4);
        assert!(anticipation.is_read_whole(&second, b"pyc") && !anticipation.is_read_whole(&second, b"txt"));
        anticipation.on_listing_arrived(&second, &listing, true);
        let expected: Vec<String> = names.iter().take(UNREAD_MAX).map(|name| format!("/b/cache/{name}")).collect();
        assert_eq!(candidates(&mut anticipation), expected);
        anticipation.on_listing_arrived(&path("b/store"), &listing, true);
        assert_eq!(candidates(&mut anticipation), [] as [&str; 0], "another name");
    }

    #[test]
    fn a_directory_of_a_million_files_costs_no_more_than_others() {
        let names: Vec<String> = (0..2 * LOOKED_AT_MAX).map(|number| format!("image{number:05}.jpg")).collect();
        let all: Vec<(&str, Kind)> = names.iter().map(|name| (name.as_str(), Kind::File)).collect();
        let full = listing(&all);
        let mut builder = ListingBuilder::new();
        for entry in full.entries() {
            builder.push(ListingEntry { attributes: None, ..entry }).unwrap();
        }
        let names_only = builder.finish(&Attributes::default()).unwrap();
        let mut anticipation = Habits::default();
        for number in 0..2 * FILES_REMEMBERED_MAX / names.len() {
            for index in 0..full.len() {
                assert_eq!(anticipation.on_file_wanted(&path("large"), &names_only, index), None);
                anticipation.on_file_wanted(&path(&format!("d{number}")), &full, index);
            }
        }
        let remembered: usize = anticipation.kinds.values().map(|siblings| siblings.was_read.len()).sum();
        assert_eq!(remembered, anticipation.files_count);
        assert!(remembered <= FILES_REMEMBERED_MAX + 1);
    }

    #[test]
    fn a_directory_of_many_directories_does_not_drive_out_what_was_learned() {
        let mut anticipation = Habits::default();
        for number in 0..4 {
            anticipation.on_directory_entered(&path(&format!("p{number}/__pycache__")), true);
        }
        for number in 0..20 {
            let names: Vec<String> = (0..3000).map(|user| format!("user{number}-{user}")).collect();
            let homes: Vec<(&str, Kind)> = names.iter().map(|name| (name.as_str(), Kind::Directory)).collect();
            anticipation.on_listing_arrived(&path(&format!("home{number}")), &listing(&homes), true);
            anticipation.on_directory_entered(&path(&format!("home{number}")), false);
        }
        candidates(&mut anticipation);
        anticipation.on_listing_arrived(&path("p4"), &listing(&[("__pycache__", Kind::Directory)]), true);
        assert_eq!(candidates(&mut anticipation), ["/p4/__pycache__"]);
    }

    #[test]
    fn memories_of_attempts_have_a_limit() {
        let mut anticipation = Habits::default();
        for number in 0..3 * REMEMBERED_MAX {
            anticipation.on_directory_entered(&path(&format!("d{number}")), true);
        }
        assert!(anticipation.entered.len() <= REMEMBERED_MAX + 1);
    }
}
