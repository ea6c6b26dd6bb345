//! The state of a node's kernel caches: pages of files, and attributes.
//!
//! Pages come from readings, and each reading is of some version of its file. If all are of the file's own version, the kernel may go on
//! with its pages, and believe attributes that are leased. Otherwise a notification drops them before a program that reads is told what the
//! file is: the kernel would drop them, too, when it takes an answer with another time of change. But it ignores an answer to a question that
//! it asked before another answer, a write or a notification, and then goes on with the pages and the size that it has. So a program that reads
//! finds no old page, whether or not the kernel takes its answer, and the notification brings the file's size along.
//!
//! For programs that have mapped pages, a notification drops them when another node changes the file: before the change has returned if the kernel
//! would not ask, else when no answer is on its way to it.

use forebay_types::{FileId, Map, Time, Timestamp};
use forebay_wire::write::FileState;

use crate::limits::PAGED_MAX;
use crate::timing::{ANSWER_TAKEN_IN, LEASE_TTL};

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
    /// The last dropping, while it is under way.
    dropping: Option<UnderWay>,
    /// Until when the kernel goes on with the attributes that it has.
    believed_until: Time,
    /// Changes of the file wait at least until then for this node to be told of them.
    leased_until: Time,
    /// Until when an answer to a program that reads may be on its way to it.
    answering_until: Time,
    /// Whether pages of programs that have mapped them are still to be dropped.
    is_late: bool,
}

#[derive(Clone, Copy)]
struct UnderWay {
    number: u64,
    /// The pages that came since it began.
    since: Cached,
    /// The version whose size it brings along.
    brings: Option<Version>,
}

/// The kernel's pages of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    Nothing,
    /// Pages of this version.
    Of(Version),
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

/// The purpose for which the kernel asks for attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedFor {
    /// A program reads on.
    Reading,
    /// A program looks at them.
    Other,
}

/// How the kernel is told what a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// It may believe that for as long as it is leased.
    Leased,
    /// It asks again the next time.
    Once,
    /// The same, when its pages have been dropped.
    Dropped(Dropping),
    /// The same, when this dropping has ended, which is under way.
    After(Dropping),
}

/// The files whose pages are to be dropped.
#[derive(Default, Debug)]
pub struct Invalidated {
    /// Droppings that end before the change returns.
    pub droppings: Vec<Dropping>,
    /// Files of which the kernel asks before it goes on with their pages: those are dropped when no answer is on its way to it.
    pub late: Vec<FileId>,
}

/// How it stands with pages that are to be dropped later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// The kernel has dropped them, or there are none.
    Over,
    /// An answer may be on its way to the kernel.
    Wait,
    /// They are to be dropped now.
    Drop(Dropping),
}

/// A dropping of pages by a notification.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dropping {
    /// Of this file.
    pub file: FileId,
    number: u64,
}

impl Entry {
    fn new(pages: Cached) -> Self {
        let never = Time::default();
        let (believed_until, leased_until, answering_until) = (never, never, never);
        Self { pages, dropping: None, believed_until, leased_until, answering_until, is_late: false }
    }

    fn is_empty(&self) -> bool {
        self.pages == Cached::Nothing && self.dropping.is_none()
    }

    /// Whether all pages are of a version.
    fn has(&self, version: Version) -> bool {
        self.pages == Cached::Of(version) && self.dropping.is_none()
    }

    /// Whether pages may be dropped later: the kernel asks before it goes on with them, and an answer may be on its way to it.
    fn can_wait(&self, now: Time, is_asked: bool) -> bool {
        self.believed_until <= now && (is_asked || self.answering_until > now)
    }
}

impl Cached {
    fn with(self, version: Version) -> Self {
        match self {
            Self::Nothing => Self::Of(version),
            Self::Of(of) if of == version => self,
            Self::Of(_) | Self::Old => Self::Old,
        }
    }
}

impl From<&FileState> for Version {
    fn from(state: &FileState) -> Self {
        let attributes = &state.attributes;
        Self { number: state.version, modified: attributes.mtime, size_bytes: attributes.size_bytes }
    }
}

impl Pages {
    /// Those of a kernel that had a daemon before this one, whose leases end at `lease_until` at the latest.
    #[must_use]
    pub fn unknown(lease_until: Time) -> Self {
        Self { other_leases_until: Some(lease_until), ..Self::default() }
    }

    /// The kernel is about to be given pages of a file, which are those of `state`, without what is pending.
    pub fn fill(&mut self, now: Time, state: &FileState) {
        let version = Version::from(state);
        if !self.files.contains_key(&state.file) {
            self.make_room(now);
            let pages = if self.are_others_known() { Cached::Nothing } else { Cached::Old };
            self.files.insert(state.file, Entry::new(pages));
        }
        if let Some(entry) = self.files.get_mut(&state.file) {
            entry.leased_until = now.after(LEASE_TTL);
            match &mut entry.dropping {
                Some(under_way) => under_way.since = under_way.since.with(version),
                None => entry.pages = entry.pages.with(version),
            }
        }
    }

    /// Whether the kernel has no pages of a file but those of `state`.
    #[must_use]
    pub fn are_current(&self, state: &FileState) -> bool {
        match self.files.get(&state.file) {
            Some(entry) => entry.is_empty() || entry.has(state.into()),
            None => self.are_others_known(),
        }
    }

    /// The kernel is about to be told that a file is as `state` says, without what is pending. Changes of it wait until `leased_until` for this
    /// node to be told.
    pub fn tell(&mut self, now: Time, state: &FileState, asked: AskedFor, leased_until: Time) -> Telling {
        if !self.files.contains_key(&state.file) {
            if self.are_others_known() {
                return Telling::Once;
            }
            self.make_room(now);
            self.files.insert(state.file, Entry::new(Cached::Old));
        }
        let Some(entry) = self.files.get_mut(&state.file) else { return Telling::Once };
        entry.leased_until = entry.leased_until.max(leased_until);
        if asked == AskedFor::Reading {
            entry.answering_until = now.after(ANSWER_TAKEN_IN);
        }
        let version = Version::from(state);
        match (asked, entry.dropping) {
            _ if entry.is_empty() || entry.has(version) => Telling::Leased,
            // A program that does not read goes on with no pages.
            (AskedFor::Other, _) => Telling::Once,
            (AskedFor::Reading, Some(UnderWay { number, brings, .. })) if brings == Some(version) => {
                Telling::After(Dropping { file: state.file, number })
            }
            (AskedFor::Reading, _) => Telling::Dropped(self.drop_of(state.file, Some(version))),
        }
    }

    /// The kernel has been told, and believes it until then.
    pub fn believe(&mut self, file: FileId, until: Time) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.believed_until = entry.believed_until.max(until);
        }
    }

    /// Pages were dropped.
    pub fn have_dropped(&mut self, dropping: Dropping) {
        self.end(dropping, |since| since);
    }

    /// Pages could not be dropped.
    pub fn have_not_dropped(&mut self, dropping: Dropping) {
        self.end(dropping, |_| Cached::Old);
    }

    fn end(&mut self, dropping: Dropping, pages: impl FnOnce(Cached) -> Cached) {
        let Some(entry) = self.files.get_mut(&dropping.file) else { return };
        if let Some(ended) = entry.dropping.take_if(|under_way| under_way.number == dropping.number) {
            entry.pages = pages(ended.since);
        }
    }

    /// Files are not what they were; none means all. Of which ones the kernel is to drop what it has. `is_asked`: the kernel waits for an
    /// answer about a file.
    pub fn invalidate(&mut self, now: Time, files: &[FileId], is_asked: impl Fn(&FileId) -> bool) -> Invalidated {
        self.forgotten += 1;
        let all: Vec<FileId> = if files.is_empty() { self.files.keys().copied().collect() } else { files.to_vec() };
        let are_others_believed = self.other_leases_until() > now;
        let mut invalidated = Invalidated::default();
        for file in all {
            match self.files.get_mut(&file) {
                Some(entry) if entry.is_empty() && entry.believed_until <= now => {}
                Some(entry) if entry.leased_until <= now || entry.can_wait(now, is_asked(&file)) => {
                    let is_known = std::mem::replace(&mut entry.is_late, true);
                    invalidated.late.extend((!is_known).then_some(file));
                }
                Some(_) => invalidated.droppings.push(self.drop_of(file, None)),
                None if are_others_believed => invalidated.droppings.push(self.drop_of(file, None)),
                None => {}
            }
        }
        invalidated
    }

    /// How it stands with pages that are to be dropped later.
    pub fn drop_late(&mut self, now: Time, file: FileId, is_asked: bool) -> Late {
        match self.files.get_mut(&file) {
            Some(entry) if entry.is_late && !entry.is_empty() => {
                if is_asked || entry.answering_until > now {
                    Late::Wait
                } else {
                    Late::Drop(self.drop_of(file, None))
                }
            }
            Some(entry) => {
                entry.is_late = false;
                Late::Over
            }
            None => Late::Over,
        }
    }

    fn drop_of(&mut self, file: FileId, brings: Option<Version>) -> Dropping {
        self.dropped += 1;
        if let Some(entry) = self.files.get_mut(&file) {
            let under_way = UnderWay { number: self.dropped, since: Cached::Nothing, brings };
            (entry.dropping, entry.is_late) = (Some(under_way), false);
            entry.believed_until = Time::default();
        }
        Dropping { file, number: self.dropped }
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
