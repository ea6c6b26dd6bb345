//! Files of the backing file system with names that the tree does not know.

use std::collections::BTreeMap;

use forebay_types::{Attributes, FileId, LogPosition, NodeRank, Timestamp};
use forebay_wire::journal::{ImportedEntry, LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::write::{AttributeChanges, BURST_ROOT, CommitAt, Operation, Place, RenameRule, WrittenExtent};
use forebay_write::{Action, Tree, Turn};
use proptest::prelude::*;

use crate::tree::landing::{Backing, follow, names};
use crate::tree::support::{Asked, ROOT, backed, create, id, in_root, within};

/// The file, which the tree knows as `a`, and the directory with its other name.
const FILE: FileId = id(1);
const DIRECTORY: FileId = id(2);

/// By which the file is known if its directory is looked at when the tree has forgotten it.
const MET_LATE: FileId = id(3);

fn hidden() -> Place {
    within(DIRECTORY, "b")
}

fn entry(name: &str, file: FileId, ino: u64, mode: u32) -> ImportedEntry {
    let attributes = Attributes { ino, mode, nlink: 2, size_bytes: 10, ..Attributes::default() };
    ImportedEntry { name: in_root(name).name, file, attributes, born: Timestamp::default(), target: vec![] }
}

/// A tree that knows `a`, and not yet what is in the directory.
fn imported() -> Asked {
    let root = Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() };
    let mut asked = Asked { tree: Tree::new(root, true, 1), ..Asked::new() };
    let entries = vec![entry("a", FILE, 1, 0o100_644), entry("d", DIRECTORY, 8, 0o040_755)];
    asked.note(LeaderEntry::Import { directory: BURST_ROOT, entries, is_last: true }).unwrap();
    asked
}

fn meet() -> LeaderEntry {
    LeaderEntry::Import { directory: DIRECTORY, entries: vec![entry("b", MET_LATE, 1, 0o100_644)], is_last: true }
}

fn write(offset: u64) -> Operation {
    let position = LogPosition { segment: offset, offset: 0 };
    let extents = vec![WrittenExtent { offset, len: 5, node: NodeRank(0), position, skip: 0 }];
    Operation::Commit { file: FILE, extents, at: CommitAt::Start }
}

fn unlink(name: &str) -> Operation {
    Operation::Unlink { place: in_root(name) }
}

fn rename(from: &str, to: &str) -> Operation {
    Operation::Rename { from: in_root(from), to: in_root(to), rule: RenameRule::Replace }
}

/// Takes the next step.
fn land(asked: &mut Asked) -> Option<Action> {
    let Turn { step, action, is_over } = asked.tree.next_landing()?;
    assert!(!is_over, "{action:?}");
    let outcome = match &action {
        Action::Publish { version, .. } | Action::Update { version, .. } | Action::UpdateUnnamed { version, .. } => {
            StepOutcome::Contents(LandedContents { version: *version, backed: backed(1), blocks: 1 })
        }
        _ => StepOutcome::Done,
    };
    asked.note(LeaderEntry::Landed { step, outcome }).unwrap();
    Some(action)
}

fn remove(name: &str) -> Action {
    Action::Remove { place: in_root(name), is_directory: false }
}

/// Before, the tree forgot the file with its name, and its bytes.
#[test]
fn writes_land_before_the_last_known_name_goes() {
    let (mut removed, mut replaced) = (imported(), imported());
    let a = in_root("a");
    for asked in [&mut removed, &mut replaced] {
        asked.ask(&ROOT, write(0)).unwrap();
    }
    removed.ask(&ROOT, unlink("a")).unwrap();
    replaced.make(&ROOT, in_root("new"), 9, 0o100_644).unwrap();
    replaced.ask(&ROOT, rename("new", "a")).unwrap();
    for asked in [&mut removed, &mut replaced] {
        assert_eq!(asked.tree.state(FILE).map(|state| state.attributes.nlink), Ok(0), "it stays");
        assert_eq!(asked.released.extents, [], "and so do its bytes");
        assert_eq!(land(asked), Some(Action::Update { file: FILE, version: 2, place: a.clone() }));
        assert_eq!(asked.released.extents.len(), 1);
        assert!(asked.tree.state(FILE).is_err(), "then it goes");
        assert_eq!(asked.released.files, [FILE]);
    }
    assert_eq!(land(&mut removed), Some(remove("a")));
    assert_eq!(land(&mut removed), None);
    assert!(matches!(land(&mut replaced), Some(Action::Publish { file, .. }) if file == id(9)));
    assert!(matches!(land(&mut replaced), Some(Action::Rename { to, .. }) if to == a));
}

/// A file all of whose names are known goes with the last of them.
#[test]
fn a_file_without_other_names_goes_with_its_last_one() {
    let mut asked = imported();
    asked.note(meet()).unwrap();
    asked.ask(&ROOT, write(0)).unwrap();
    asked.ask(&ROOT, Operation::Unlink { place: hidden() }).unwrap();
    asked.ask(&ROOT, unlink("a")).unwrap();
    assert!(asked.tree.state(FILE).is_err());
    assert_eq!(asked.released.extents.len(), 1);
}

/// So does one that nothing in the tree has changed.
#[test]
fn a_file_that_is_as_it_was_goes_with_its_known_name() {
    let mut asked = imported();
    asked.ask(&ROOT, unlink("a")).unwrap();
    assert!(asked.tree.state(FILE).is_err());
    assert_eq!(land(&mut asked), Some(remove("a")));
}

/// The mode of a file is that of all its names.
#[test]
fn attributes_land_before_the_last_known_name_goes() {
    let mut asked = imported();
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::default() };
    asked.ask(&ROOT, Operation::SetAttributes { file: FILE, changes }).unwrap();
    asked.ask(&ROOT, unlink("a")).unwrap();
    assert_eq!(land(&mut asked), Some(Action::SetAttributes { file: FILE, place: Some(in_root("a")) }));
    assert!(asked.tree.state(FILE).is_err());
}

/// Contents that are committed land by the old name, although a program has the file open; later ones when it is closed, by the draft.
#[test]
fn writes_to_an_open_file_land_after_its_last_known_name_has_gone() {
    let mut asked = imported();
    asked.ask(&ROOT, Operation::Open { file: FILE }).unwrap();
    asked.ask(&ROOT, write(0)).unwrap();
    asked.ask(&ROOT, unlink("a")).unwrap();
    assert!(matches!(land(&mut asked), Some(Action::Update { version: 2, .. })));
    assert_eq!(asked.tree.unlinked_at(&in_root("a")), Some(FILE));
    asked.note(LeaderEntry::Drafting { file: FILE, directory: BURST_ROOT }).unwrap();
    assert_eq!(land(&mut asked), Some(remove("a")));
    asked.ask(&ROOT, write(5)).unwrap();
    assert_eq!(land(&mut asked), None);
    assert_eq!(asked.tree.unlinked_with_drafts(), [] as [FileId; 0], "its draft is needed");
    asked.ask(&ROOT, Operation::Close { file: FILE, handle: 0 }).unwrap();
    assert_eq!(land(&mut asked), Some(Action::UpdateUnnamed { file: FILE, version: 3 }));
    assert!(asked.tree.state(FILE).is_err());
    assert!(matches!(land(&mut asked), Some(Action::Discard { .. })));
    assert_eq!((land(&mut asked), asked.tree.backed(FILE)), (None, None));
}

/// A name that is looked up meanwhile leads to the bytes that are to land.
#[test]
fn a_name_that_is_met_meanwhile_is_of_the_same_file() {
    let mut asked = imported();
    asked.ask(&ROOT, write(0)).unwrap();
    asked.ask(&ROOT, unlink("a")).unwrap();
    asked.note(meet()).unwrap();
    let met = asked.lookup(&hidden()).unwrap();
    assert_eq!((met.file, met.attributes.nlink, asked.tree.directory_of(FILE)), (FILE, 1, Some(DIRECTORY)));
    asked.land_all();
    assert_eq!(asked.tree.backing_place(FILE), Some(&hidden()));
    assert!(asked.tree.state(FILE).is_ok() && asked.tree.state(MET_LATE).is_err());
}

/// Where others have taken the name away before its contents have landed, these do not appear there anew.
#[test]
fn a_file_that_others_take_away_meanwhile_is_let_go() {
    let mut asked = imported();
    asked.ask(&ROOT, write(0)).unwrap();
    asked.ask(&ROOT, unlink("a")).unwrap();
    asked.note(LeaderEntry::NotThere { place: in_root("a") }).unwrap();
    let Turn { step, is_over, .. } = asked.tree.next_landing().unwrap();
    assert!(is_over);
    asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::LeftOut }).unwrap();
    assert_eq!((asked.tree.next_landing(), asked.tree.state(FILE).is_err()), (None, true));
    assert_eq!(asked.released.extents.len(), 1);
}

#[derive(Clone, Debug)]
enum Event {
    Ask(Operation),
    Note(LeaderEntry),
    Follow(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let name = || prop_oneof![2 => Just("a"), 1 => Just("x"), 1 => Just("y")];
    let mode = |mode| AttributeChanges { mode: Some(mode), ..AttributeChanges::default() };
    let size = |size| AttributeChanges { size_bytes: Some(size), ..AttributeChanges::default() };
    prop_oneof![
        3 => (0..30_u64).prop_map(|offset| Event::Ask(write(offset))),
        1 => Just(Event::Ask(Operation::Open { file: FILE })),
        1 => Just(Event::Ask(Operation::Close { file: FILE, handle: 0 })),
        1 => Just(Event::Note(LeaderEntry::Publish { file: FILE })),
        1 => (0..0o777_u32).prop_map(move |to| Event::Ask(Operation::SetAttributes { file: FILE, changes: mode(to) })),
        1 => (0..20_u64).prop_map(move |to| Event::Ask(Operation::SetAttributes { file: FILE, changes: size(to) })),
        2 => name().prop_map(|name| Event::Ask(unlink(name))),
        2 => (name(), name()).prop_map(|(from, to)| Event::Ask(rename(from, to))),
        1 => name().prop_map(|to| Event::Ask(Operation::Link { file: FILE, place: in_root(to) })),
        2 => (name(), 10..40_u64).prop_map(|(name, serial)| Event::Ask(create(in_root(name), serial, 0o100_644))),
        1 => Just(Event::Note(meet())),
        3 => (1..4_usize).prop_map(Event::Follow),
    ]
}

proptest! {
    /// Also for a follower that has only the tree's changes.
    #[test]
    fn every_name_shows_what_was_written_last(events in prop::collection::vec(event(), 1..60)) {
        let (mut asked, mut backing) = (imported(), Backing::default());
        let mut follower = imported().tree;
        backing.places.extend([(in_root("a"), (FILE, 1)), (hidden(), (FILE, 1)), (in_root("d"), (DIRECTORY, 0))]);
        let (mut version, mut is_open, mut is_met) = (1, false, false);
        let mut made = BTreeMap::new();
        let end = [Event::Ask(Operation::CloseAll), Event::Follow(usize::MAX)];
        for event in events.into_iter().chain(end) {
            match event {
                Event::Follow(steps) => {
                    let mut under_way = None;
                    follow(&mut asked, &mut backing, &mut under_way, steps);
                    if let Some((step, outcome)) = under_way {
                        asked.note(LeaderEntry::Landed { step, outcome }).unwrap();
                    }
                }
                Event::Ask(Operation::Create { file, .. }) if made.insert(file, ()).is_some() => continue,
                // A file is written to by a node that has it open, or finds it.
                Event::Ask(Operation::Commit { .. } | Operation::SetAttributes { .. } | Operation::Open { .. })
                    if !is_open && asked.tree.state(FILE).is_ok_and(|state| state.attributes.nlink == 0) => continue,
                Event::Ask(Operation::Close { .. }) if !is_open => continue,
                Event::Ask(operation) => drop(asked.ask(&ROOT, operation)),
                Event::Note(entry) => {
                    let meets = matches!(entry, LeaderEntry::Import { .. });
                    let _ = asked.note(entry);
                    if meets && !is_met && asked.tree.state(MET_LATE).is_ok() {
                        backing.places.insert(hidden(), (MET_LATE, 1));
                    }
                    is_met |= meets;
                }
            }
            version = asked.tree.state(FILE).map_or(version, |state| state.version);
            is_open = asked.tree.open_on(FILE).is_ok_and(|on| !on.is_empty());
        }
        if !is_met {
            prop_assert_eq!(backing.places[&hidden()], (FILE, version));
            asked.note(meet()).unwrap();
            if asked.tree.state(MET_LATE).is_ok() {
                backing.places.insert(hidden(), (MET_LATE, 1));
            }
        }
        prop_assert_eq!(&backing.places, &names(&asked.tree));
        prop_assert_eq!(backing.drafts, BTreeMap::new());
        prop_assert!(asked.tree.state(FILE).map_or(true, |state| state.attributes.nlink > 0), "it is let go");
        for entry in asked.entries.iter().skip(1) {
            let _ = follower.apply(entry, &mut forebay_write::Released::default());
        }
        let _ = (follower.next_landing(), asked.tree.next_landing());
        prop_assert_eq!(follower, asked.tree);
    }
}
