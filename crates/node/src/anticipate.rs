//! What the reader of the backing file system asks for before anybody does.
//!
//! A start-up walks its files one after the other, so each of them costs the backing file system's latency in turn. Two
//! habits of programs make some of it avoidable, and both are learned from what this job does, not from names known
//! beforehand. A program that reads some files of a kind in a directory (one suffix) reads most of them: their small
//! siblings follow, twice as many as were read so far. And a directory that was entered wherever it appeared
//! (`__pycache__`) will be entered in the next place too: its listing follows its parent's.
//!
//! Nothing here is ever needed: it decides only what is asked for early, how much, and in which order. Replayed on the
//! trace of a large Python import, 2 times the reads and 16 at most asks early for 1,015 of 1,501 files, and for 185
//! (5.7 MB) in vain.

use std::collections::VecDeque;

use forebay_types::{Kind, Map, ViewPath, limits};
use forebay_wire::{Listing, ListingEntry};

/// A sibling worth asking for early is at most this large, bytes: for larger files the latency is not what counts.
const SIBLING_BYTES_MAX: u64 = 256 << 10;

/// Siblings asked for and not read yet: twice the reads of the kind so far, and at most this many.
const UNREAD_MAX: usize = 16;

/// A directory name is trusted when it was entered in this many places, and in three of four where it appeared.
const ENTERED_MIN: u32 = 3;

/// Directories, names and queued wishes remembered; beyond that all is forgotten and learned anew.
const REMEMBERED_MAX: usize = 8192;

/// A directory and a suffix: files of one kind in one place.
type KindOfFile = (ViewPath, Box<[u8]>);

/// Something to ask for early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Listing(ViewPath),
    File(ViewPath, forebay_types::Generation),
}

/// What has been learned, and what is wished for.
#[derive(Default)]
pub(crate) struct Anticipation {
    kinds: Map<KindOfFile, Siblings>,
    names: Map<Box<[u8]>, Places>,
    entered: Map<ViewPath, ()>,
    wishes: VecDeque<Wish>,
}

/// The files of one kind in one directory: by their place in the listing, whether they were read.
#[derive(Default)]
struct Siblings {
    was_read: Map<usize, bool>,
    read_count: usize,
}

/// Where a directory name appeared, and in how many of these places it was entered.
#[derive(Clone, Copy, Default)]
struct Places {
    seen: u32,
    entered: u32,
}

impl Anticipation {
    /// The beginning of the file at `index` of `listing` is wanted: its siblings may be next.
    pub fn on_file_wanted(&mut self, dir: &ViewPath, listing: &Listing, index: usize) {
        let suffix = suffix_of(listing.entry(index).name);
        self.bound();
        let siblings = self.kinds.entry((dir.clone(), suffix.into())).or_default();
        if siblings.was_read.insert(index, true) == Some(true) {
            return;
        }
        siblings.read_count += 1;
        let unread = siblings.was_read.values().filter(|was_read| !**was_read).count();
        let room = (2 * siblings.read_count).min(UNREAD_MAX).saturating_sub(unread);
        let others = (index + 1..listing.len()).chain(0..index);
        let wanted: Vec<usize> = others
            .filter(|other| !siblings.was_read.contains_key(other) && is_sibling(&listing.entry(*other), suffix))
            .take(room)
            .collect();
        for other in wanted {
            siblings.was_read.insert(other, false);
            let entry = listing.entry(other);
            if let (Some(attributes), Ok(path)) = (entry.attributes, dir.join(entry.name)) {
                self.wishes.push_back(Wish::File(path, attributes.generation()));
            }
        }
    }

    /// The listing of `dir` is wanted for something in it. `true` the first time.
    pub fn on_directory_entered(&mut self, dir: &ViewPath) -> bool {
        self.bound();
        if self.entered.insert(dir.clone(), ()).is_some() {
            return false;
        }
        if let Some((_, name)) = dir.split() {
            self.names.entry(name.into()).or_default().entered += 1;
        }
        true
    }

    /// Whether something in `dir` was wanted.
    pub fn is_entered(&self, dir: &ViewPath) -> bool {
        self.entered.contains_key(dir)
    }

    /// The listing of a directory that was entered has arrived: those of its directories follow that are always entered.
    pub fn on_listing_arrived(&mut self, dir: &ViewPath, listing: &Listing) {
        for entry in listing.entries().filter(|entry| entry.kind == Kind::Directory) {
            let places = self.names.entry(entry.name.into()).or_default();
            places.seen += 1;
            let is_trusted = places.entered >= ENTERED_MIN && 4 * (places.entered + 1) >= 3 * places.seen;
            if is_trusted && let Ok(path) = dir.join(entry.name) {
                self.wishes.push_front(Wish::Listing(path));
            }
        }
    }

    /// The next thing to ask for early.
    pub fn next_wish(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn bound(&mut self) {
        let most = [self.kinds.len(), self.names.len(), self.entered.len(), self.wishes.len()].into_iter().max();
        if most.unwrap_or(0) > REMEMBERED_MAX {
            self.clear();
        }
    }
}

fn is_sibling(entry: &ListingEntry<'_>, suffix: &[u8]) -> bool {
    let is_small = entry.attributes.is_some_and(|attributes| (1..=SIBLING_BYTES_MAX).contains(&attributes.size_bytes));
    entry.kind == Kind::File && is_small && suffix_of(entry.name) == suffix
}

/// What follows the last dot of a name; nothing where there is none.
fn suffix_of(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'.').map_or(&[], |dot| &name[dot + 1..])
}

/// How many early questions may be under way: enough to keep two servers busy, few enough that a question somebody
/// waits for finds its turn soon.
pub(crate) const UNDER_WAY_MAX: usize = limits::ANTICIPATED_UNDER_WAY;

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

    fn wishes(anticipation: &mut Anticipation) -> Vec<String> {
        let text = |wish| match wish {
            Wish::Listing(path) | Wish::File(path, _) => path.to_string(),
        };
        std::iter::from_fn(|| anticipation.next_wish()).map(text).collect()
    }

    #[test]
    fn siblings_of_the_same_kind_follow_twice_as_many_as_were_read() {
        let names: Vec<String> = (0..9).map(|number| format!("m{number}.pyc")).collect();
        let mut all: Vec<(&str, Kind)> = names.iter().map(|name| (name.as_str(), Kind::File)).collect();
        all.extend([("readme.txt", Kind::File), ("sub.pyc", Kind::Directory)]);
        let listing = listing(&all);
        let mut anticipation = Anticipation::default();
        let at = |name: &str| listing.find(name.as_bytes()).unwrap();
        anticipation.on_file_wanted(&path("d"), &listing, at("m3.pyc"));
        assert_eq!(wishes(&mut anticipation), ["/d/m4.pyc", "/d/m5.pyc"]);
        anticipation.on_file_wanted(&path("d"), &listing, at("m3.pyc"));
        assert_eq!(wishes(&mut anticipation), [] as [&str; 0], "the same file again teaches nothing");
        anticipation.on_file_wanted(&path("d"), &listing, at("m4.pyc"));
        assert_eq!(wishes(&mut anticipation), ["/d/m6.pyc", "/d/m7.pyc", "/d/m8.pyc"]);
    }

    #[test]
    fn a_directory_entered_everywhere_is_entered_in_the_next_place_too() {
        let listing = listing(&[("__pycache__", Kind::Directory), ("tests", Kind::Directory)]);
        let mut anticipation = Anticipation::default();
        for number in 0..4 {
            let dir = path(&format!("p{number}"));
            anticipation.on_listing_arrived(&dir, &listing);
            let wished = wishes(&mut anticipation);
            match number {
                0..3 => assert!(wished.is_empty()),
                _ => assert_eq!(wished, ["/p3/__pycache__"]),
            }
            assert!(anticipation.on_directory_entered(&dir.join(b"__pycache__").unwrap()));
        }
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let mut anticipation = Anticipation::default();
        for number in 0..3 * REMEMBERED_MAX {
            anticipation.on_directory_entered(&path(&format!("d{number}")));
        }
        assert!(anticipation.entered.len() <= REMEMBERED_MAX + 1);
    }
}
