//! The metadata cache of a node that does not lead the tree: recent answers of the leader (`leases`).
//!
//! An answer may come after a change that it does not know of. Each invalidation, by a change of this node's own or by
//! a message of the leader, has a number. If an answer was requested before its file's last number, it is not kept. A change of this
//! node's own invalidates its files when it begins and when it ends, so that no answer in between is kept longer. Its result
//! is kept only if no other invalidation came meanwhile.

use std::ops::Range;
use std::time::Duration;

use forebay_types::{Attributes, Errno, FileId, Kind, Map, Name, Time};
use forebay_wire::write::{Caller, Done, FileState, Operation, Place};
use forebay_wire::write_message::{Contents, Entries};

use crate::limits::{KNOWN_MAX, LISTED_MAX, PIECES_KNOWN_MAX};
use crate::timing::LEASE_TTL;
use crate::tree::permissions::{self, EXECUTE};

/// Numbers are kept by so many groups of files: a file may be taken for another of its group.
const GROUPS: usize = 1 << 12;

/// How long nobody must have changed a file before answers about it are kept.
const QUIET: Duration = Duration::from_secs(1);

/// See the module.
pub struct MetadataCache {
    states: Map<FileId, State>,
    directories: Map<FileId, Directory>,
    names: usize,
    /// Where bytes of files are.
    places: Map<FileId, Places>,
    pieces: usize,
    /// Of what happened last.
    last: u64,
    /// The same by groups of files.
    numbers: Vec<u64>,
    /// When the leader told last that files are not what they were, by groups.
    told_at: Vec<Time>,
    /// Whether keeping has ended.
    has_stopped: bool,
}

struct State {
    state: FileState,
    until: Time,
}

/// Where bytes of a file are.
struct Places {
    contents: Contents,
    range: Range<u64>,
    until: Time,
}

/// The cached state of a directory.
struct Directory {
    until: Time,
    /// The last invalidation when it was cached.
    since: u64,
    /// Mode, owner and group.
    rights: Option<Attributes>,
    names: Map<Name, Entry>,
    /// Whether a name that is not in `names` is absent.
    is_whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Is(FileId),
    Absent,
    Unknown,
}

/// When something was asked, or a change begun.
#[derive(Clone, Copy)]
pub struct Asked {
    number: u64,
    at: Time,
    /// Whether the answer is to be kept: the leader must tell of changes then.
    pub is_leased: bool,
}

/// The cache's knowledge of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The answer that the leader would give.
    Answer(Result<FileState, Errno>),
    /// Which file it is, of which more is to be asked.
    File(FileId),
    /// The leader must be asked.
    Unknown,
}

/// A change of this node's own, under way.
pub struct Changing {
    asked: Asked,
    files: Vec<FileId>,
    /// It is about a file that was not known of.
    is_blind: bool,
}

impl Directory {
    fn entry(&self, name: &Name) -> Entry {
        match self.names.get(name) {
            Some(entry) => *entry,
            None if self.is_whole => Entry::Absent,
            None => Entry::Unknown,
        }
    }
}

impl Default for MetadataCache {
    fn default() -> Self {
        let (states, directories) = (Map::default(), Map::default());
        let (numbers, told_at) = (vec![0; GROUPS], vec![Time::default(); GROUPS]);
        let (places, pieces) = (Map::default(), 0);
        Self { states, directories, names: 0, places, pieces, last: 0, numbers, told_at, has_stopped: false }
    }
}

impl MetadataCache {
    /// The file that `place` names, as far as it is cached.
    #[must_use]
    pub fn lookup(&self, now: Time, caller: &Caller, place: &Place) -> Found {
        let directory = self.directories.get(&place.directory).filter(|directory| directory.until > now);
        let Some((directory, rights)) = directory.and_then(|known| Some((known, known.rights.as_ref()?))) else {
            return Found::Unknown;
        };
        if let Err(errno) = permissions::check(caller, rights, EXECUTE) {
            return Found::Answer(Err(errno));
        }
        match directory.entry(&place.name) {
            Entry::Is(file) => self.state(now, file).map_or(Found::File(file), |(state, _)| Found::Answer(Ok(state))),
            Entry::Absent => Found::Answer(Err(Errno::ENOENT)),
            Entry::Unknown => Found::Unknown,
        }
    }

    /// A file as it is, if that is known, and until when.
    #[must_use]
    pub fn state(&self, now: Time, file: FileId) -> Option<(FileState, Time)> {
        let known = self.states.get(&file).filter(|known| known.until > now)?;
        Some((known.state, known.until))
    }

    /// Mode, owner and group of a directory, which decide access to it, if they are cached.
    #[must_use]
    pub fn rights(&self, now: Time, directory: FileId) -> Option<Attributes> {
        self.directories.get(&directory).filter(|known| known.until > now)?.rights
    }

    /// Where the bytes of a range are, if that is known.
    #[must_use]
    pub fn contents(&self, now: Time, file: FileId, range: &Range<u64>) -> Option<Contents> {
        let known = self.places.get(&file).filter(|known| known.until > now)?;
        let end = range.end.min(known.contents.state.attributes.size_bytes);
        if range.start < known.range.start || end > known.range.end {
            return None;
        }
        let Contents { state, pieces, backing } = &known.contents;
        let first = pieces.partition_point(|piece| piece.offset + piece.len <= range.start);
        let within = pieces[first..].iter().take_while(|piece| piece.offset < end);
        let pieces = within.filter_map(|piece| piece.part(range.start..end)).collect();
        Some(Contents { state: *state, pieces, backing: backing.clone() })
    }

    /// The leader has told where the bytes of a range are.
    pub fn told_contents(&mut self, now: Time, asked: Asked, range: Range<u64>, told: &Contents) {
        let file = told.state.file;
        if !self.is_news(now, asked, file) || told.pieces.len() > PIECES_KNOWN_MAX / 4 {
            return;
        }
        self.drop_places(file);
        if self.pieces + told.pieces.len() >= PIECES_KNOWN_MAX {
            self.places.clear();
            self.pieces = 0;
        }
        self.pieces += told.pieces.len() + 1;
        self.places.insert(file, Places { contents: told.clone(), range, until: asked.at.after(LEASE_TTL) });
    }

    /// Bytes of a file are not where they were, though it is what it was: it has landed.
    pub fn drop_places(&mut self, file: FileId) {
        if let Some(places) = self.places.remove(&file) {
            self.pieces -= places.contents.pieces.len() + 1;
        }
    }

    /// The leader is about to be asked about a file, or about a name in a directory. If others change it often, the answer is not kept:
    /// they would have to wait for this node each time.
    #[must_use]
    pub fn ask(&self, now: Time, file: FileId) -> Asked {
        let told_at = self.told_at[group(file)];
        let is_leased = !self.has_stopped && (told_at == Time::default() || now.since(told_at) > QUIET);
        Asked { number: self.last, at: now, is_leased }
    }

    /// The leader has told what a file is.
    pub fn told_state(&mut self, now: Time, asked: Asked, state: FileState) {
        if self.is_news(now, asked, state.file) {
            self.make_room();
            self.states.insert(state.file, State { state, until: asked.at.after(LEASE_TTL) });
            if state.attributes.kind() == Kind::Directory {
                self.directory(now, asked, state.file).rights = Some(state.attributes);
            }
        }
    }

    /// The leader has told what a name names, or that it names nothing.
    pub fn told_name(&mut self, now: Time, asked: Asked, place: &Place, state: Option<FileState>) {
        if let Some(state) = state {
            self.told_state(now, asked, state);
        }
        if self.is_news(now, asked, place.directory) {
            self.make_room();
            let entry = state.map_or(Entry::Absent, |state| Entry::Is(state.file));
            let before = self.directory(now, asked, place.directory).names.insert(place.name.clone(), entry);
            self.names += usize::from(before.is_none());
        }
    }

    /// The leader has told what is in a directory.
    pub fn told_entries(&mut self, now: Time, asked: Asked, told: &Entries) {
        if told.entries.len() > LISTED_MAX || !asked.is_leased {
            return;
        }
        self.told_state(now, asked, told.own);
        if !self.is_news(now, asked, told.own.file) {
            return;
        }
        self.drop_directory(told.own.file);
        for (name, state) in &told.entries {
            let place = Place { directory: told.own.file, name: name.clone() };
            self.told_name(now, asked, &place, Some(*state));
        }
        let directory = self.directory(now, asked, told.own.file);
        directory.rights = Some(told.own.attributes);
        // Making room may have dropped some.
        directory.is_whole = directory.names.len() == told.entries.len();
    }

    /// The leader tells that files are not what they were; none means all.
    pub fn invalidate(&mut self, now: Time, files: &[FileId]) {
        if files.is_empty() {
            self.forget_all();
        }
        self.last += 1;
        for file in files {
            self.make_old(*file);
            self.drop_directory(*file);
            self.told_at[group(*file)] = now;
        }
    }

    /// Keeps nothing any more: of a change of this node's own nobody knows whether it was carried out, or will be.
    pub fn stop(&mut self) {
        self.has_stopped = true;
        self.forget_all();
    }

    fn forget_all(&mut self) {
        self.last += 1;
        self.numbers.fill(self.last);
        self.drop_all();
    }

    /// A change of this node's own begins.
    pub fn begin(&mut self, now: Time, operation: &Operation) -> Changing {
        let (files, is_blind) = self.files_of(now, operation);
        self.last += 1;
        files.iter().for_each(|file| self.make_old(*file));
        self.drop_names(operation);
        Changing { asked: Asked { number: self.last, at: now, is_leased: !self.has_stopped }, files, is_blind }
    }

    /// It is over.
    pub fn end(&mut self, now: Time, changing: &Changing, operation: &Operation, outcome: Result<&Done, Errno>) {
        let is_alone = changing.files.iter().all(|file| self.number(*file) <= changing.asked.number);
        if let (Operation::Create { file, mode, .. }, Ok(Done::File(state))) = (operation, outcome)
            && state.file == *file
        {
            self.keep_new(now, changing.asked, state, Kind::from_mode(*mode) == Some(Kind::Directory));
        }
        self.last += 1;
        changing.files.iter().for_each(|file| self.make_old(*file));
        self.drop_names(operation);
        match outcome {
            Ok(done) if is_alone && !changing.is_blind => self.keep_name(now, changing.asked, operation, done),
            // The names may have meant other files than the cached ones.
            _ if names_unseen(operation) => self.forget_all(),
            _ => {}
        }
    }

    /// Keeps a file that this node has made, unless it was changed since.
    fn keep_new(&mut self, now: Time, asked: Asked, state: &FileState, is_directory: bool) {
        self.told_state(now, asked, *state);
        if is_directory && self.is_news(now, asked, state.file) {
            self.directory(now, asked, state.file).is_whole = true;
        }
    }

    fn keep_name(&mut self, now: Time, asked: Asked, operation: &Operation, done: &Done) {
        match (operation, done) {
            (Operation::Create { place, .. }, Done::File(state)) => {
                self.set_name(now, asked, place, Entry::Is(state.file));
            }
            (Operation::Link { file, place }, _) => self.set_name(now, asked, place, Entry::Is(*file)),
            (Operation::Unlink { place } | Operation::RemoveDirectory { place }, _) => {
                self.set_name(now, asked, place, Entry::Absent);
            }
            _ => {}
        }
    }

    /// A name of a directory that was known when the change began, so that the leader would have told what others did to it since.
    /// Its lease is longer now: the leader has seen the change.
    fn set_name(&mut self, now: Time, asked: Asked, place: &Place, entry: Entry) {
        let Some(directory) = self.directories.get_mut(&place.directory) else { return };
        if directory.until > now && directory.since < asked.number {
            directory.until = directory.until.max(asked.at.after(LEASE_TTL));
            let before = directory.names.insert(place.name.clone(), entry);
            self.names += usize::from(before.is_none());
        }
    }

    /// The files that a change of this node's own invalidates, and whether there may be more: a name that it uses may be unknown.
    fn files_of(&self, now: Time, operation: &Operation) -> (Vec<FileId>, bool) {
        let (mut files, mut is_blind) = (vec![], false);
        let mut named = |place: &Place| {
            files.push(place.directory);
            match self.named(now, place) {
                Entry::Is(file) => files.push(file),
                Entry::Absent => {}
                Entry::Unknown => is_blind = true,
            }
        };
        match operation {
            Operation::Unlink { place } | Operation::RemoveDirectory { place } => named(place),
            Operation::Rename { from, to, .. } => {
                named(from);
                named(to);
            }
            Operation::Create { place, .. } => files.push(place.directory),
            Operation::Link { file, place } => files.extend([*file, place.directory]),
            Operation::SetAttributes { file, .. }
            | Operation::Commit { file, .. }
            | Operation::Allocate { file, .. }
            | Operation::SetExtended { file, .. } => files.push(*file),
            _ => {}
        }
        (files, is_blind)
    }

    fn named(&self, now: Time, place: &Place) -> Entry {
        let known = self.directories.get(&place.directory).filter(|directory| directory.until > now);
        known.map_or(Entry::Unknown, |directory| directory.entry(&place.name))
    }

    /// Which names a change of this node's own is about, and whose rights.
    fn drop_names(&mut self, operation: &Operation) {
        let mut unknown = |place: &Place| {
            if let Some(directory) = self.directories.get_mut(&place.directory) {
                let before = directory.names.insert(place.name.clone(), Entry::Unknown);
                self.names += usize::from(before.is_none());
            }
        };
        match operation {
            Operation::Create { place, .. }
            | Operation::Link { place, .. }
            | Operation::Unlink { place }
            | Operation::RemoveDirectory { place } => unknown(place),
            Operation::Rename { from, to, .. } => {
                unknown(from);
                unknown(to);
            }
            Operation::SetAttributes { file, .. } => self.drop_directory(*file),
            _ => {}
        }
    }

    /// The cached state of a directory, with its lease extended by this answer.
    fn directory(&mut self, now: Time, asked: Asked, file: FileId) -> &mut Directory {
        if self.directories.get(&file).is_none_or(|directory| directory.until <= now) {
            // The leader may not have told of changes since.
            self.drop_directory(file);
        }
        let (until, since) = (asked.at.after(LEASE_TTL), self.last);
        let directory = self.directories.entry(file).or_insert_with(|| Directory {
            until,
            since,
            rights: None,
            names: Map::default(),
            is_whole: false,
        });
        directory.until = directory.until.max(until);
        directory
    }

    /// Whether an answer tells of a file what it is, and holds for some time.
    fn is_news(&self, now: Time, asked: Asked, file: FileId) -> bool {
        asked.is_leased && asked.at.after(LEASE_TTL) > now && self.number(file) <= asked.number
    }

    fn make_old(&mut self, file: FileId) {
        self.numbers[group(file)] = self.last;
        self.states.remove(&file);
        self.drop_places(file);
    }

    fn number(&self, file: FileId) -> u64 {
        self.numbers[group(file)]
    }

    fn drop_directory(&mut self, file: FileId) {
        if let Some(directory) = self.directories.remove(&file) {
            self.names -= directory.names.len();
        }
    }

    fn make_room(&mut self) {
        if self.states.len() + self.names + self.directories.len() >= KNOWN_MAX {
            self.drop_all();
        }
    }

    fn drop_all(&mut self) {
        self.states.clear();
        self.directories.clear();
        self.names = 0;
        self.places.clear();
        self.pieces = 0;
    }
}

/// Whether an operation is about files that it does not name itself.
fn names_unseen(operation: &Operation) -> bool {
    matches!(operation, Operation::Unlink { .. } | Operation::RemoveDirectory { .. } | Operation::Rename { .. })
}

fn group(file: FileId) -> usize {
    (file.serial ^ u64::from(file.creator.0) << 7) as usize % GROUPS
}
