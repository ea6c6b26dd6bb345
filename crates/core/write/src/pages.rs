//! The state of a node's kernel caches: pages of files, and attributes.
//!
//! Pages come from readings, and each reading is of some version of its file. If all are of the file's own version, the kernel may go on
//! with its pages, and believe attributes that are leased. Otherwise it is told a time of change that it has never had: it then takes the
//! size, and drops a file's pages itself, before the program reads on. Where no such time is true, a program that reads gets one that is not;
//! the next that asks for it, for instance by `stat`, gets the true one.
//!
//! A notification drops pages, too, for programs that have mapped them. From its beginning, the kernel ignores answers to questions
//! that it asked before, and goes on with the size that it has, and with pages that are still there. So a notification comes before a change has
//! returned, or when no answer is on its way to the kernel.

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
    /// Until when the kernel goes on with the attributes that it has.
    believed_until: Time,
    /// The last time of change that the kernel may have; `None`: it may have any.
    latest: Option<Timestamp>,
    /// Changes of the file wait at least until then for this node to be told of them.
    leased_until: Time,
    /// Until when an answer to a program that reads may be on its way to it.
    answering_until: Time,
    /// Whether pages of programs that have mapped them are still to be dropped.
    is_late: bool,
}

impl Entry {
    /// Whether pages may be dropped later: the kernel asks before it goes on with them, and an answer may be on its way to it.
    fn can_wait(&self, now: Time, is_asked: bool) -> bool {
        self.believed_until <= now && (is_asked || self.answering_until > now)
    }

    fn new(pages: Cached) -> Self {
        Self {
            pages,
            believed_until: Time::default(),
            latest: (pages == Cached::Nothing).then(Timestamp::default),
            leased_until: Time::default(),
            answering_until: Time::default(),
            is_late: false,
        }
    }

    /// The kernel is about to be told that time of change.
    fn tell(&mut self, modified: Timestamp) {
        self.latest = self.latest.map(|latest| latest.max(modified));
    }

    /// A time of change that the kernel has never had: the file's own, or one like it.
    fn new_time(&self, now: Time, modified: Timestamp) -> Timestamp {
        let after = |time: Timestamp, nanos: u64| {
            let nanos = u64::from(time.nanos) + nanos;
            Timestamp { seconds: time.seconds + (nanos / 1_000_000_000) as i64, nanos: (nanos % 1_000_000_000) as u32 }
        };
        match self.latest {
            Some(latest) if latest < modified => modified,
            Some(latest) => after(latest, 1),
            // Those of a daemon before are true ones, or follow from another moment.
            None => after(modified, 1 + now.0 % 999_999_999),
        }
    }
}

/// The kernel's pages of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    Nothing,
    /// Pages of this version.
    Of(Version),
    /// Pages of this version; earlier ones are dropped when the kernel takes this time of change, which it was told once.
    Replaced(Version, Timestamp),
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
    /// The same, with this time of change.
    As(Timestamp),
    /// It asks again the next time, and is answered when a dropping of the file's pages that is under way has ended.
    AfterDropping,
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

impl Pages {
    /// Those of a kernel that had a daemon before this one, whose leases end at `lease_until` at the latest.
    #[must_use]
    pub fn unknown(lease_until: Time) -> Self {
        Self { other_leases_until: Some(lease_until), ..Self::default() }
    }

    /// The kernel is about to be given pages of a file, which are those of `state`. `state` is without what is pending; the kernel may
    /// have been told `shown` before as its time of change.
    pub fn fill(&mut self, now: Time, state: &FileState, shown: Timestamp) {
        let version = Version::from(state);
        if !self.files.contains_key(&state.file) {
            self.make_room(now);
            let mut entry = Entry::new(if self.are_others_known() { Cached::Nothing } else { Cached::Old });
            entry.tell(shown);
            self.files.insert(state.file, entry);
        }
        if let Some(entry) = self.files.get_mut(&state.file) {
            entry.leased_until = now.after(LEASE_TTL);
            entry.pages = match entry.pages {
                Cached::Nothing => Cached::Of(version),
                Cached::Of(of) if of == version => Cached::Of(of),
                Cached::Replaced(by, time) if by == version => Cached::Replaced(by, time),
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

    /// The kernel is about to be told a file's time of change by the answer to a change of its attributes.
    pub fn answer_change(&mut self, file: FileId, shown: Timestamp) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.tell(shown);
        }
    }

    /// The kernel is about to be told that a file is as `state` says, and its time of change, `shown`, with what is pending. Changes of it wait until
    /// `leased_until` for this node to be told.
    pub fn tell(
        &mut self,
        now: Time,
        state: &FileState,
        shown: Timestamp,
        asked: AskedFor,
        leased_until: Time,
    ) -> Telling {
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
        if asked == AskedFor::Reading {
            entry.answering_until = now.after(ANSWER_TAKEN_IN);
        }
        let time = entry.new_time(now, shown);
        let (pages, telling) = match entry.pages {
            Cached::Nothing => (Cached::Nothing, Telling::Leased),
            Cached::Of(of) if of == version => (Cached::Of(of), Telling::Leased),
            Cached::Dropping(number) => (Cached::Dropping(number), Telling::AfterDropping),
            // A program that does not read goes on with no pages.
            pages if time != shown && asked == AskedFor::Other => (pages, Telling::Once),
            // It may not take what it is told, so it is told twice.
            Cached::Replaced(by, time) if by == version => {
                (entry.is_late, entry.latest) = (false, Some(entry.latest.map_or(time, |latest| latest.max(time))));
                (Cached::Of(by), Telling::As(time))
            }
            _ => (Cached::Replaced(version, time), Telling::As(time)),
        };
        entry.pages = pages;
        entry.tell(shown);
        match telling {
            Telling::As(time) if time == shown => Telling::Once,
            Telling::As(time) => {
                entry.tell(time);
                telling
            }
            telling => telling,
        }
    }

    /// The kernel has been told, and believes it until then.
    pub fn believe(&mut self, file: FileId, until: Time) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.believed_until = entry.believed_until.max(until);
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

    /// Files are not what they were; none means all. Of which ones the kernel is to drop what it has. `is_asked`: the kernel waits for an
    /// answer about a file.
    pub fn invalidate(&mut self, now: Time, files: &[FileId], is_asked: impl Fn(&FileId) -> bool) -> Invalidated {
        self.forgotten += 1;
        let all: Vec<FileId> = if files.is_empty() { self.files.keys().copied().collect() } else { files.to_vec() };
        let are_others_believed = self.other_leases_until() > now;
        let mut invalidated = Invalidated::default();
        for file in all {
            match self.files.get_mut(&file) {
                Some(entry) if entry.pages == Cached::Nothing && entry.believed_until <= now => {}
                Some(entry) if entry.leased_until <= now || entry.can_wait(now, is_asked(&file)) => {
                    let is_known = std::mem::replace(&mut entry.is_late, true);
                    invalidated.late.extend((!is_known).then_some(file));
                }
                Some(_) => invalidated.droppings.push(self.drop_of(file)),
                None if are_others_believed => invalidated.droppings.push(self.drop_of(file)),
                None => {}
            }
        }
        invalidated
    }

    /// How it stands with pages that are to be dropped later.
    pub fn drop_late(&mut self, now: Time, file: FileId, is_asked: bool) -> Late {
        match self.files.get_mut(&file) {
            Some(entry) if entry.is_late && entry.pages != Cached::Nothing => {
                if is_asked || entry.answering_until > now { Late::Wait } else { Late::Drop(self.drop_of(file)) }
            }
            Some(entry) => {
                entry.is_late = false;
                Late::Over
            }
            None => Late::Over,
        }
    }

    fn drop_of(&mut self, file: FileId) -> Dropping {
        self.dropped += 1;
        if let Some(entry) = self.files.get_mut(&file) {
            (entry.pages, entry.is_late) = (Cached::Dropping(self.dropped), false);
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
