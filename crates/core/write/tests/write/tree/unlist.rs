//! Files that are only on the backing file system can be forgotten: a tree that forgets and imports again tells the same as one that
//! remembers.

use std::collections::BTreeMap;

use forebay_types::{Attributes, Errno, ExtendedAttributes, FileId, Kind, NodeRank, Timestamp};
use forebay_wire::journal::{ImportedEntry, LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::write::{
    BURST_ROOT, CommitAt, Done, LockKind, LockRequest, Operation, Place, RenameRule, WrittenExtent,
};
use forebay_write::{Action, Refusal, Released, Tree, Turn};
use proptest::prelude::*;

use crate::tree::support::{Asked, ROOT, backed, create, id, in_root, within};

const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_755;

/// Files of each directory at first, and names that events choose from.
const FILES: u8 = 5;
const NAMES: u8 = 8;

/// Something that programs or the tier do, by names: each tree calls files differently.
#[derive(Clone, Copy, Debug)]
enum Event {
    Create(Named, u32),
    Unlink(Named),
    RemoveDirectory(Named),
    Rename(Named, Named, RenameRule),
    Write(Named),
    /// A commit that is refused.
    WriteForAnother(Named),
    Open(Named),
    /// The one that was opened first.
    Close,
    /// So many steps on the backing file system.
    Land(usize),
    /// Of one of the two alone.
    Unlist(u8),
}

/// A name of the root, or of the directory with that name in it.
type Named = (Option<u8>, u8);

/// A file at a place of the backing file system: its kind, and which write made its contents.
type There = (Kind, u64);

/// A tree over a backing file system of its own.
struct World {
    asked: Asked,
    /// The same tree at its standby.
    follower: Tree,
    there: BTreeMap<Place, There>,
    /// Which write made which contents of a file.
    written: BTreeMap<(FileId, u64), u64>,
    open: Vec<FileId>,
    serials: u64,
    forgets: bool,
}

impl World {
    /// Over two directories with files, and a file.
    fn new(forgets: bool) -> Self {
        let root = Attributes { mode: DIRECTORY, nlink: 2, ..Attributes::default() };
        let asked = Asked { tree: Tree::new(root, true, 1), ..Asked::new() };
        let follower = asked.tree.clone();
        let there = [("0", Kind::Directory), ("1", Kind::Directory), ("2", Kind::File)];
        let there = there.into_iter().map(|(name, kind)| (in_root(name), (kind, 0))).collect();
        let mut world = Self { asked, follower, there, written: BTreeMap::new(), open: vec![], serials: 0, forgets };
        let directories: Vec<FileId> = ["0", "1"].map(|name| world.find(&in_root(name)).unwrap()).into();
        for directory in directories {
            world.there.extend((0..FILES).map(|name| (within(directory, &name.to_string()), (Kind::File, 0))));
        }
        world
    }

    fn serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// An operation that is carried out is carried out by the follower too. It sees neither those that are refused, nor when the leader looks what is to land.
    fn carry_out(&mut self, operation: Operation) -> Result<Done, Refusal> {
        let done = self.asked.ask(&ROOT, operation);
        self.has_followed(done)
    }

    fn note(&mut self, entry: LeaderEntry) -> Result<Done, Refusal> {
        let done = self.asked.note(entry);
        self.has_followed(done)
    }

    fn has_followed(&mut self, done: Result<Done, Refusal>) -> Result<Done, Refusal> {
        if done.is_ok() {
            let entry = self.asked.entries.last().unwrap();
            assert_eq!(self.follower.apply(entry, &mut Released::default()), done, "{entry:?}");
        }
        done
    }

    /// As the leader does: a directory is imported when it must be.
    fn ask(&mut self, operation: Operation) -> Result<Done, Errno> {
        loop {
            match self.carry_out(operation.clone()) {
                Err(Refusal::Unlisted(directory)) => self.import(directory),
                Err(Refusal::Unread(file)) => {
                    let found = ExtendedAttributes::default();
                    self.note(LeaderEntry::ImportExtended { file, found }).unwrap();
                }
                Err(Refusal::Errno(errno)) => return Err(errno),
                Ok(done) => return Ok(done),
            }
        }
    }

    fn find(&mut self, place: &Place) -> Result<FileId, Errno> {
        loop {
            match self.asked.tree.lookup(&ROOT, place) {
                Err(Refusal::Unlisted(directory)) => self.import(directory),
                Err(Refusal::Unread(file)) => panic!("{file} is looked up"),
                Err(Refusal::Errno(errno)) => return Err(errno),
                Ok(state) => return Ok(state.file),
            }
        }
    }

    fn import(&mut self, directory: FileId) {
        let within = self.there.iter().filter(|(place, _)| place.directory == directory);
        let within: Vec<(Place, There)> = within.map(|(place, there)| (place.clone(), *there)).collect();
        let mut entries = vec![];
        for (place, (kind, written)) in within {
            let file = id(self.serial());
            let mode = if kind == Kind::Directory { DIRECTORY } else { FILE };
            let attributes = Attributes { mode, size_bytes: written, nlink: 1, ..Attributes::default() };
            entries.push(ImportedEntry {
                name: place.name,
                file,
                attributes,
                born: Timestamp::default(),
                target: vec![],
            });
            self.written.insert((file, 1), written);
        }
        self.note(LeaderEntry::Import { directory, entries, is_last: true }).unwrap();
    }

    fn place(&mut self, (directory, name): Named) -> Result<Place, Errno> {
        let directory = match directory {
            Some(directory) => self.find(&in_root(&directory.to_string()))?,
            None => BURST_ROOT,
        };
        Ok(within(directory, &name.to_string()))
    }

    /// The outcome of an event; `number` is its own.
    fn take(&mut self, event: Event, number: u64) -> Result<(), Errno> {
        match event {
            Event::Create(named, mode) => {
                let (place, serial) = (self.place(named)?, self.serial());
                self.ask(create(place, serial, mode)).map(drop)
            }
            Event::Unlink(named) => self.place(named).and_then(|place| self.ask(Operation::Unlink { place })).map(drop),
            Event::RemoveDirectory(named) => {
                self.place(named).and_then(|place| self.ask(Operation::RemoveDirectory { place })).map(drop)
            }
            Event::Rename(from, to, rule) => {
                let (from, to) = (self.place(from)?, self.place(to)?);
                self.ask(Operation::Rename { from, to, rule }).map(drop)
            }
            Event::Write(named) => {
                let place = self.place(named)?;
                let file = self.find(&place)?;
                let position = forebay_types::LogPosition { segment: number, offset: 0 };
                let extents = vec![WrittenExtent { offset: 0, len: number, node: NodeRank(0), position, skip: 0 }];
                let done = self.ask(Operation::Commit { file, extents, at: CommitAt::Start })?;
                let Done::File(state) = done else { panic!("{done:?}") };
                self.written.insert((file, state.version), number);
                Ok(())
            }
            Event::WriteForAnother(named) => {
                let place = self.place(named)?;
                let file = self.find(&place)?;
                let position = forebay_types::LogPosition { segment: 1, offset: 0 };
                let extents = vec![WrittenExtent { offset: 0, len: 1, node: NodeRank(1), position, skip: 0 }];
                self.ask(Operation::Commit { file, extents, at: CommitAt::Start }).map(drop)
            }
            Event::Open(named) => {
                let place = self.place(named)?;
                let file = self.find(&place)?;
                self.ask(Operation::Open { file })?;
                self.open.push(file);
                Ok(())
            }
            Event::Close if self.open.is_empty() => Ok(()),
            Event::Close => {
                let file = self.open.remove(0);
                self.ask(Operation::Close { file, handle: 0 }).map(drop)
            }
            Event::Land(steps) => {
                self.land(steps);
                Ok(())
            }
            Event::Unlist(directory) => {
                let known = in_root(&directory.to_string());
                let directory = if directory == 9 { BURST_ROOT } else { self.find(&known).unwrap_or(BURST_ROOT) };
                if self.forgets {
                    let _ = self.note(LeaderEntry::Unlist { directory });
                }
                assert!(self.open.iter().all(|file| self.asked.tree.state(*file).is_ok()), "an open file is forgotten");
                Ok(())
            }
        }
    }

    fn land(&mut self, steps: usize) {
        for _ in 0..steps {
            let Some(Turn { step, action, is_over }) = self.asked.tree.next_landing() else { return };
            let outcome = match &action {
                _ if is_over => StepOutcome::LeftOut,
                Action::Publish { version, .. }
                | Action::Update { version, .. }
                | Action::UpdateUnnamed { version, .. } => {
                    StepOutcome::Contents(LandedContents { version: *version, backed: backed(0), blocks: 1 })
                }
                Action::Make { .. } => StepOutcome::Made(backed(0)),
                _ => StepOutcome::Done,
            };
            if !is_over {
                self.follow(action);
            }
            self.note(LeaderEntry::Landed { step, outcome }).unwrap();
        }
    }

    fn follow(&mut self, action: Action) {
        let written = |file, version| self.written.get(&(file, version)).copied().unwrap_or(0);
        match action {
            Action::Make { kind, place, .. } => assert_eq!(self.there.insert(place, (kind, 0)), None),
            Action::Publish { file, version, places } => {
                let there = (Kind::File, written(file, version));
                self.there.extend(places.into_iter().map(|place| (place, there)));
            }
            Action::Update { file, version, place } => {
                self.there.insert(place, (Kind::File, written(file, version)));
            }
            Action::Link { from, to, .. } => assert_eq!(self.there.insert(to, self.there[&from]), None),
            Action::Rename { from, to, is_exchange } => {
                let moved = self.there.remove(&from).expect("what is renamed is there");
                if let Some(replaced) = self.there.insert(to, moved).filter(|_| is_exchange) {
                    self.there.insert(from, replaced);
                }
            }
            Action::Remove { place, .. } => drop(self.there.remove(&place).expect("what is removed is there")),
            Action::SetAttributes { .. } | Action::Discard { .. } | Action::UpdateUnnamed { .. } => {}
        }
    }

    /// Owner and standby call the same files the same.
    fn assert_followed(&self) {
        let mut todo = vec![BURST_ROOT];
        while let Some(directory) = todo.pop() {
            let listed = self.asked.tree.list(directory, None, usize::MAX);
            assert_eq!(self.follower.list(directory, None, usize::MAX), listed, "{directory}");
            let directories = listed.unwrap_or_default().into_iter().map(|entry| entry.state);
            todo.extend(directories.filter(|state| state.attributes.kind() == Kind::Directory).map(|state| state.file));
        }
    }

    /// The tree as programs see it, by paths.
    fn seen(&mut self) -> BTreeMap<String, (Kind, u64, u64)> {
        let (mut seen, mut todo) = (BTreeMap::new(), vec![(BURST_ROOT, String::new())]);
        while let Some((directory, path)) = todo.pop() {
            let listed = loop {
                match self.asked.tree.list(directory, None, usize::MAX) {
                    Err(Refusal::Unlisted(directory)) => self.import(directory),
                    listed => break listed.unwrap(),
                }
            };
            for entry in listed {
                let (file, attributes) = (entry.state.file, entry.state.attributes);
                let path = format!("{path}/{}", std::str::from_utf8(entry.name.as_bytes()).unwrap());
                if attributes.kind() == Kind::Directory {
                    todo.push((file, path.clone()));
                }
                let written = self.written.get(&(file, entry.state.version)).copied().unwrap_or(0);
                seen.insert(path, (attributes.kind(), attributes.size_bytes, written));
            }
        }
        seen
    }
}

fn named() -> impl Strategy<Value = Named> {
    (prop_oneof![Just(None), (0..3_u8).prop_map(Some)], 0..NAMES)
}

fn event() -> impl Strategy<Value = Event> {
    let rule = prop_oneof![Just(RenameRule::Replace), Just(RenameRule::Keep), Just(RenameRule::Exchange)];
    prop_oneof![
        3 => (named(), prop_oneof![Just(FILE), Just(DIRECTORY)]).prop_map(|(named, mode)| Event::Create(named, mode)),
        2 => named().prop_map(Event::Unlink),
        1 => named().prop_map(Event::RemoveDirectory),
        4 => (named(), named(), rule).prop_map(|(from, to, rule)| Event::Rename(from, to, rule)),
        3 => named().prop_map(Event::Write),
        2 => named().prop_map(Event::WriteForAnother),
        2 => named().prop_map(Event::Open),
        2 => Just(Event::Close),
        4 => (1..6_usize).prop_map(Event::Land),
        8 => prop_oneof![0..3_u8, Just(9)].prop_map(Event::Unlist),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    #[test]
    fn a_tree_that_forgets_tells_the_same(events in prop::collection::vec(event(), 1..80)) {
        let (mut one, mut other) = (World::new(true), World::new(false));
        for (number, event) in (1..).zip(events) {
            let (came, same) = (one.take(event, number), other.take(event, number));
            prop_assert_eq!(came, same, "{:?}", event);
            one.assert_followed();
        }
        prop_assert_eq!(one.seen(), other.seen());
        for world in [&mut one, &mut other] {
            while !world.open.is_empty() {
                world.take(Event::Close, 0).unwrap();
            }
            world.land(usize::MAX);
        }
        prop_assert_eq!(one.seen(), other.seen());
    }
}

/// Files that have changed or are in use stay, and the rest is forgotten.
#[test]
fn only_what_is_as_it_was_met_and_unused_is_forgotten() {
    let mut world = World::new(true);
    let directory = world.find(&in_root("0")).unwrap();
    let files: Vec<FileId> =
        (0..FILES).map(|name| world.find(&within(directory, &name.to_string())).unwrap()).collect();
    world.take(Event::Write((Some(0), 0)), 7).unwrap();
    world.take(Event::Open((Some(0), 1)), 8).unwrap();
    let request =
        LockRequest { owner: 1, start: 0, end: 9, kind: Some(LockKind::Shared), pid: 1, is_flock: false, handle: 0 };
    world.ask(Operation::Lock { file: files[2], request }).unwrap();
    world.land(usize::MAX);
    let before = world.asked.tree.files();
    world.asked.note(LeaderEntry::Unlist { directory }).unwrap();
    let is_there: Vec<bool> = files.iter().map(|file| world.asked.tree.state(*file).is_ok()).collect();
    assert_eq!((is_there, before - world.asked.tree.files()), (vec![true, true, true, false, false], 2));
    assert_eq!(world.asked.tree.list(directory, None, 1), Err(Refusal::Unlisted(directory)));
    assert_eq!(world.seen().len(), 3 + 2 * usize::from(FILES));
    assert_eq!(world.find(&within(directory, "0")), Ok(files[0]));
    // A name that is still to go there is not met again.
    world.take(Event::Unlink((Some(0), 3)), 9).unwrap();
    world.asked.note(LeaderEntry::Unlist { directory }).unwrap();
    assert!(world.asked.tree.list(directory, None, 1).is_ok());
    world.land(usize::MAX);
    world.asked.note(LeaderEntry::Unlist { directory }).unwrap();
    assert_eq!(world.seen().len(), 2 + 2 * usize::from(FILES));
}
