//! The state of a node's kernel caches: pages of files, and attributes.
//!
//! Pages come from readings, and each reading is of some version of its file. If all are of the file's own version, the kernel may go on
//! with its pages, and believe attributes that are leased. If it gets another size or another time of change, it drops a file's pages
//! itself. If it gets attributes while a notification drops pages, it ignores them and goes on with the pages that are still there: a program
//! gets the answer when they are gone. A file that has grown would then seem as short as before. So a notification comes before a change has
//! returned, or when no other way is left; a late one waits for answers that the kernel waits for. The kernel sees no change if its last attributes are
//! not those of its pages. They may count uncommitted writes of this node's programs, or come from the answer to a change of attributes,
//! for which it drops no pages.

use forebay_types::{Attributes, FileId, Map, Time, Timestamp};
use forebay_wire::write::FileState;

use crate::limits::PAGED_MAX;
use crate::timing::LEASE_TTL;

/// All files of one node's kernel.
#[derive(Default)]
pub struct Pages {
    files: Map<FileId, Entry>,
    /// Until when attributes may be believed of files that are not in `files`; such files may have pages.
    other_leases_until: Option<Time>,
    /// How often something was forgotten.
    forgotten: u64,
    /// Numbers of droppings.
    dropped: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    pages: Cached,
    /// Whether the kernel may go on with the attributes that it has.
    is_believed: bool,
    /// The attributes that it got last, with pending writes.
    told: Option<Shown>,
    /// The last time of change that the kernel may have; `None`: it may have any.
    latest: Option<Timestamp>,
    /// Changes of the file wait at least until then for this node to be told of them.
    leased_until: Time,
}

impl Entry {
    /// The kernel is about to be told that.
    fn tell(&mut self, shown: Shown) {
        self.told = Some(shown);
        self.latest = self.latest.map(|latest| latest.max(shown.modified));
    }

    fn new(pages: Cached) -> Self {
        let latest = (pages == Cached::Nothing).then(Timestamp::default);
        Self { pages, is_believed: false, told: None, latest, leased_until: Time::default() }
    }
}

/// Of what the kernel is told, that by which it sees that a file has changed; with what is pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    modified: Timestamp,
    size_bytes: u64,
}

impl From<&Attributes> for Shown {
    fn from(attributes: &Attributes) -> Self {
        Self { modified: attributes.mtime, size_bytes: attributes.size_bytes }
    }
}

/// The kernel's pages of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    Nothing,
    /// Pages of this version.
    Of(Version),
    /// Pages of this version; earlier ones are dropped when the kernel takes its attributes, which it was told once.
    Replaced(Version),
    /// None, as soon as those that are there have been dropped.
    Dropping(u64),
    /// Of several versions, or of one that is over.
    Old,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    /// After a takeover a number may mean other contents.
    number: u64,
    modified: Timestamp,
    size_bytes: u64,
}

/// How the kernel is told what a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// It may believe that for as long as it is leased.
    Leased,
    /// It asks again the next time.
    Once,
    /// The same, when its pages have been dropped: it sees nothing by which it would drop them itself.
    Dropped(Dropping),
    /// The same, and its pages are dropped afterwards.
    ThenDrop(Dropping),
    /// The same, when a dropping of the file's pages that is under way has ended.
    AfterDropping,
}

/// The files whose pages are to be dropped.
#[derive(Default, Debug)]
pub struct Invalidated {
    /// Droppings that end before the change returns.
    pub droppings: Vec<Dropping>,
    /// Files of which this node was told too late: the change has returned, and the kernel asks before it goes on with their pages.
    pub late: Vec<FileId>,
}

/// A dropping of pages by a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropping {
    /// Of this file.
    pub file: FileId,
    number: u64,
}

impl From<&FileState> for Version {
    fn from(state: &FileState) -> Self {
        let attributes = &state.attributes;
        Self { number: state.version, modified: attributes.mtime, size_bytes: attributes.size_bytes }
    }
}

impl Version {
    /// Whether the kernel sees a difference.
    fn looks_like(self, other: Self) -> bool {
        (self.modified, self.size_bytes) == (other.modified, other.size_bytes)
    }
}

impl Pages {
    /// Those of a kernel that had a daemon before this one, whose leases end at `lease_until` at the latest.
    #[must_use]
    pub fn unknown(lease_until: Time) -> Self {
        Self { other_leases_until: Some(lease_until), ..Self::default() }
    }

    /// The kernel is about to be given pages of a file, which are those of `state`. `state` is without what is pending; it was told what is
    /// `shown` before.
    pub fn fill(&mut self, now: Time, state: &FileState, shown: Shown) {
        let version = Version::from(state);
        if !self.files.contains_key(&state.file) {
            self.make_room(now);
            let pages = if self.are_others_known() { Cached::Nothing } else { Cached::Old };
            self.files.insert(state.file, Entry::new(pages));
        }
        if let Some(entry) = self.files.get_mut(&state.file) {
            entry.leased_until = now.after(LEASE_TTL);
            if entry.pages == Cached::Nothing && entry.told.is_none() {
                entry.tell(shown);
            }
            entry.pages = match entry.pages {
                Cached::Nothing => Cached::Of(version),
                Cached::Of(of) if of == version => Cached::Of(of),
                Cached::Replaced(by) if by == version => Cached::Replaced(by),
                _ => Cached::Old,
            };
        }
    }

    /// Whether the kernel has no pages of a file but those of `state`.
    #[must_use]
    pub fn are_current(&self, state: &FileState) -> bool {
        match self.files.get(&state.file).map(|entry| entry.pages) {
            Some(Cached::Nothing) => true,
            Some(Cached::Of(version)) => version == state.into(),
            Some(_) => false,
            None => self.are_others_known(),
        }
    }

    /// The kernel is about to be told a file's attributes by the answer to a change of them.
    pub fn answer_change(&mut self, file: FileId, shown: Shown) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.tell(shown);
        }
    }

    /// The kernel is about to be told that a file is as `state` says, with what is pending. Changes of it wait until `leased_until` for this
    /// node to be told.
    pub fn tell(&mut self, now: Time, state: &FileState, shown: Shown, leased_until: Time) -> Telling {
        let version = Version::from(state);
        if !self.files.contains_key(&state.file) {
            if self.are_others_known() {
                return Telling::Once;
            }
            self.make_room(now);
            self.files.insert(state.file, Entry::new(Cached::Old));
        }
        let Some(entry) = self.files.get_mut(&state.file) else { return Telling::Once };
        entry.leased_until = entry.leased_until.max(leased_until);
        let dropping = Dropping { file: state.file, number: self.dropped + 1 };
        let dropped = (Cached::Dropping(dropping.number), Telling::Dropped(dropping));
        // The kernel sees no difference, and would go on with what it has.
        let is_same = entry.told == Some(shown);
        let is_newer = entry.latest.is_some_and(|latest| latest < shown.modified);
        let (pages, telling) = match entry.pages {
            Cached::Nothing => (Cached::Nothing, Telling::Leased),
            Cached::Of(of) if of == version => (Cached::Of(of), Telling::Leased),
            Cached::Dropping(number) => (Cached::Dropping(number), Telling::AfterDropping),
            Cached::Replaced(by) if by == version => (Cached::Of(by), Telling::Once),
            _ if is_same => dropped,
            Cached::Of(of) if of.looks_like(version) => dropped,
            // It may not take what it is told, so it is told twice.
            Cached::Of(_) => (Cached::Replaced(version), Telling::Once),
            // It sees that, whichever it has. A notification would come before it takes the answer, and with that the size.
            Cached::Replaced(_) | Cached::Old if is_newer => (Cached::Replaced(version), Telling::Once),
            Cached::Replaced(_) | Cached::Old => (Cached::Dropping(dropping.number), Telling::ThenDrop(dropping)),
        };
        entry.pages = pages;
        entry.tell(shown);
        self.dropped += u64::from(matches!(telling, Telling::Dropped(_) | Telling::ThenDrop(_)));
        telling
    }

    /// The kernel has been told, and believes it.
    pub fn believe(&mut self, file: FileId) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.is_believed = true;
        }
    }

    /// Pages were dropped. Whether no dropping of the file is under way any more.
    #[must_use]
    pub fn have_dropped(&mut self, dropping: Dropping) -> bool {
        self.end(dropping, Cached::Nothing)
    }

    /// Pages could not be dropped. Whether no dropping of the file is under way any more.
    #[must_use]
    pub fn have_not_dropped(&mut self, dropping: Dropping) -> bool {
        self.end(dropping, Cached::Old)
    }

    fn end(&mut self, dropping: Dropping, pages: Cached) -> bool {
        let Some(entry) = self.files.get_mut(&dropping.file) else { return true };
        if entry.pages == Cached::Dropping(dropping.number) {
            entry.pages = pages;
        }
        !matches!(entry.pages, Cached::Dropping(_))
    }

    /// Files are not what they were; none means all. Of which ones the kernel is to drop what it has.
    pub fn invalidate(&mut self, now: Time, files: &[FileId]) -> Invalidated {
        self.forgotten += 1;
        let all: Vec<FileId> = if files.is_empty() { self.files.keys().copied().collect() } else { files.to_vec() };
        let mut invalidated = Invalidated::default();
        for file in all {
            match self.files.get_mut(&file) {
                Some(entry) if entry.leased_until <= now => {
                    entry.is_believed = false;
                    invalidated.late.push(file);
                }
                _ => invalidated.droppings.extend(self.drop_of(now, file)),
            }
        }
        invalidated
    }

    /// The kernel is to drop its pages of a file, if it has some.
    pub fn drop_of(&mut self, now: Time, file: FileId) -> Option<Dropping> {
        let are_other_leases_held = self.other_leases_until() > now;
        let dropping = Dropping { file, number: self.dropped + 1 };
        match self.files.get_mut(&file) {
            Some(Entry { pages: Cached::Nothing, is_believed: false, .. }) => return None,
            Some(entry) => (entry.pages, entry.is_believed) = (Cached::Dropping(dropping.number), false),
            None if are_other_leases_held => {}
            None => return None,
        }
        self.dropped += 1;
        Some(dropping)
    }

    /// How often something was forgotten: what was asked for before is not believed afterwards.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Until when the kernel may believe attributes of files that are not known here.
    #[must_use]
    pub fn other_leases_until(&self) -> Time {
        self.other_leases_until.unwrap_or_default()
    }

    fn are_others_known(&self) -> bool {
        self.other_leases_until.is_none()
    }

    fn make_room(&mut self, now: Time) {
        if self.files.len() >= PAGED_MAX {
            self.files.clear();
            self.other_leases_until = Some(now.after(LEASE_TTL));
        }
    }
}
