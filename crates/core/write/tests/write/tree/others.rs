//! Changes by others on the backing file system are told from the tier's own.

use forebay_types::{Attributes, BackingId, FileId, Generation, LogPosition, NodeRank, Rights, Timestamp};
use forebay_wire::journal::{ImportedEntry, LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::write::{AttributeChanges, BURST_ROOT, CommitAt, Operation, RenameRule, WrittenExtent};
use forebay_write::{Action, Identified, Tree, Turn};

use crate::tree::support::{Asked, ROOT, backed, id, in_root, within};

const FILE: u32 = 0o100_644;
const RIGHTS: Rights = Rights { mode: 0o600, uid: 0, gid: 0 };

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

/// The same file, changed at a time.
fn changed(seconds: i64) -> BackingId {
    BackingId { generation: Generation { mtime: at(seconds), size_bytes: 10, ..backed(7).generation }, ..backed(7) }
}

/// A tree over files that are names of one file of the backing file system, as it was at first.
fn imported(names: &[&str]) -> Asked {
    let root = Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() };
    let mut asked = Asked { tree: Tree::new(root, true, 1), ..Asked::new() };
    let nlink = names.len() as u32;
    let attributes = Attributes { ino: 7, mode: FILE, nlink, size_bytes: 10, mtime: at(1), ..Attributes::default() };
    let entry = |(index, name): (usize, &&str)| ImportedEntry {
        name: in_root(name).name,
        file: id(index as u64 + 1),
        attributes,
        born: Timestamp::default(),
        target: vec![],
    };
    let entries = names.iter().enumerate().map(entry).collect();
    asked.note(LeaderEntry::Import { directory: BURST_ROOT, entries, is_last: true }).unwrap();
    asked
}

fn write(asked: &mut Asked, file: FileId, offset: u64, len: u64) {
    let position = LogPosition { segment: offset, offset: 0 };
    let extents = vec![WrittenExtent { offset, len, node: NodeRank(0), position, skip: 0 }];
    asked.ask(&ROOT, Operation::Commit { file, extents, at: CommitAt::Start }).unwrap();
}

fn landed(asked: &mut Asked, backed: BackingId) {
    let Turn { step, action, .. } = asked.tree.next_landing().unwrap();
    let (Action::Update { version, .. } | Action::Publish { version, .. }) = action else { panic!("{action:?}") };
    let outcome = StepOutcome::Contents(LandedContents { version, backed, blocks: 1 });
    asked.note(LeaderEntry::Landed { step, outcome }).unwrap();
}

#[test]
fn files_that_the_tier_is_changing_are_its_own_until_known_again() {
    let mut asked = imported(&["a"]);
    let identify = |asked: &Asked, found: &BackingId| asked.tree.identify(id(1), found);
    assert_eq!(identify(&asked, &changed(1)), Identified::Unmodified);
    assert_eq!(identify(&asked, &changed(2)), Identified::Changed);
    assert_eq!(identify(&asked, &backed(8)), Identified::Another);
    write(&mut asked, id(1), 0, 5);
    asked.note(LeaderEntry::Changing { file: id(1) }).unwrap();
    // Its daemon may have died.
    assert_eq!(identify(&asked, &changed(2)), Identified::Unmodified);
    assert_eq!(identify(&asked, &backed(8)), Identified::Another, "which file it is, it knows all the time");
    landed(&mut asked, changed(2));
    assert_eq!(identify(&asked, &changed(2)), Identified::Unmodified);
    assert_eq!(identify(&asked, &changed(3)), Identified::Changed);
}

/// Also where the other is met later, in another directory: before, what was written through one name was lost through the other.
#[test]
fn names_of_one_file_there_are_names_of_one_file_of_the_tree() {
    let mut asked = imported(&["a", "b"]);
    let of = |asked: &Asked, name: &str| asked.lookup(&in_root(name)).map(|state| (state.file, state.attributes.nlink));
    assert_eq!((of(&asked, "a"), of(&asked, "b")), (Some((id(1), 2)), Some((id(1), 2))));
    write(&mut asked, id(1), 0, 5);
    landed(&mut asked, changed(2));
    assert_eq!(asked.tree.next_landing(), None);
    asked.ask(&ROOT, Operation::Unlink { place: in_root("a") }).unwrap();
    let removal = Some(Action::Remove { place: in_root("a"), is_directory: false });
    assert_eq!(asked.tree.next_landing().map(|turn| turn.action), removal);
    assert_eq!((of(&asked, "b"), asked.tree.file_at(&in_root("b"))), (Some((id(1), 1)), Some(id(1))));
    asked.land_all();
    let (from, to) = (in_root("b"), in_root("c"));
    asked.ask(&ROOT, Operation::Rename { from, to, rule: RenameRule::Replace }).unwrap();
    asked.land_all();
    assert_eq!((of(&asked, "c"), asked.tree.file_at(&in_root("c"))), (Some((id(1), 1)), Some(id(1))));
}

/// Another name leads to a file of the tree only while that has a name: a file that programs have removed does not come back by it.
#[test]
fn a_name_that_is_met_late_is_of_the_file_that_is_there() {
    let root = Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() };
    let mut asked = Asked { tree: Tree::new(root, true, 1), ..Asked::new() };
    let entry = |name: &str, serial: u64, ino: u64, mode: u32| ImportedEntry {
        name: in_root(name).name,
        file: id(serial),
        attributes: Attributes { ino, mode, nlink: 2, size_bytes: 10, mtime: at(1), ..Attributes::default() },
        born: Timestamp::default(),
        target: vec![],
    };
    let entries = vec![entry("a", 1, 7, FILE), entry("d", 2, 8, 0o040_755), entry("e", 3, 9, 0o040_755)];
    asked.note(LeaderEntry::Import { directory: BURST_ROOT, entries, is_last: true }).unwrap();
    let meet = |directory: u64, serial: u64| LeaderEntry::Import {
        directory: id(directory),
        entries: vec![entry("b", serial, 7, FILE)],
        is_last: true,
    };
    assert_eq!(asked.tree.touched_by(&meet(2, 4)), [id(2), id(1)], "its number of names changes");
    asked.note(meet(2, 4)).unwrap();
    let of = |asked: &Asked, directory: u64| asked.lookup(&within(id(directory), "b")).map(|state| state.file);
    assert_eq!(of(&asked, 2), Some(id(1)));
    asked.ask(&ROOT, Operation::Unlink { place: in_root("a") }).unwrap();
    asked.ask(&ROOT, Operation::Unlink { place: within(id(2), "b") }).unwrap();
    asked.note(meet(3, 5)).unwrap();
    assert_eq!(of(&asked, 3), Some(id(5)));
}

#[test]
fn files_that_others_have_changed_are_left_to_them_and_appear_anew() {
    let mut asked = imported(&["a"]);
    write(&mut asked, id(1), 8, 5);
    asked.ask(&ROOT, Operation::Link { file: id(1), place: in_root("linked") }).unwrap();
    assert!(matches!(asked.tree.next_landing().unwrap().action, Action::Update { .. }));
    assert_eq!(asked.tree.backing_resident_of(id(1)), [(0, 8)]);
    asked.note(LeaderEntry::Drafting { file: id(1), directory: BURST_ROOT }).unwrap();
    asked
        .note(LeaderEntry::CopiedOnConflict { file: id(1), draft: Some(backed(9)), bytes: 8, rights: RIGHTS })
        .unwrap();
    assert_eq!(asked.tree.file_at(&in_root("a")), None);
    assert_eq!((asked.tree.backed(id(1)), asked.tree.bytes_of_others(id(1))), (Some(backed(9)), 8));
    assert!(!asked.tree.lost_files().iter().any(|lost| lost.path == b"a"), "its base is in the draft");
    let action = asked.tree.next_landing().unwrap().action;
    assert!(matches!(&action, Action::Publish { places, .. } if places[..] == [in_root("a")]), "{action:?}");
    asked.note(LeaderEntry::SetAside { place: in_root("a"), name: in_root("second").name }).unwrap();
    landed(&mut asked, backed(9));
    assert_eq!(asked.tree.backing_name(&in_root("a")), &in_root("second").name);
    assert_eq!(asked.land_all(), [] as [FileId; 0]);
    assert_eq!(asked.tree.file_at(&in_root("linked")), Some(id(1)));
    // Written whole again, nothing of it is theirs.
    write(&mut asked, id(1), 0, 20);
    landed(&mut asked, backed(9));
    assert_eq!(asked.tree.bytes_of_others(id(1)), 0);
}

/// A daemon that died after a file had appeared has not said so: what the file has by now follows, to that file.
#[test]
fn contents_follow_a_file_that_has_appeared_without_being_known() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    write(&mut asked, id(1), 0, 5);
    asked.ask(&ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    asked.note(LeaderEntry::Publishing { file: id(1), backed: backed(9) }).unwrap();
    let Turn { step, action, .. } = asked.tree.next_landing().unwrap();
    assert!(matches!(action, Action::Publish { .. }), "{action:?}");
    asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::Done }).unwrap();
    let action = asked.tree.next_landing().unwrap().action;
    assert!(matches!(&action, Action::Update { place, .. } if *place == in_root("a")), "{action:?}");
    landed(&mut asked, backed(9));
    assert_eq!(asked.tree.next_landing(), None);
    // One that a program has open is not held to be whole.
    asked.make(&ROOT, in_root("b"), 2, FILE).unwrap();
    write(&mut asked, id(2), 0, 5);
    asked.ask(&ROOT, Operation::Close { file: id(2), handle: 0 }).unwrap();
    asked.ask(&ROOT, Operation::Open { file: id(2) }).unwrap();
    write(&mut asked, id(2), 0, 6);
    let Turn { step, is_over, .. } = asked.tree.next_landing().unwrap();
    assert!(is_over);
    asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::Done }).unwrap();
    assert!(asked.tree.next_landing().is_none_or(|turn| turn.is_over));
}

/// Others may give a file another mode where it lies: that of the tree lands only after programs have set it, once.
#[test]
fn rights_land_when_programs_have_set_them() {
    let mut asked = imported(&["a"]);
    write(&mut asked, id(1), 0, 5);
    assert!(!asked.tree.has_own_rights(id(1)));
    landed(&mut asked, backed(7));
    let mode = AttributeChanges { mode: Some(0o600), ..AttributeChanges::default() };
    asked.ask(&ROOT, Operation::SetAttributes { file: id(1), changes: mode }).unwrap();
    // A version that was to land before brings them too, and so does their own step.
    write(&mut asked, id(1), 0, 5);
    assert!(asked.tree.has_own_rights(id(1)));
    assert_eq!(asked.land_all(), [id(1)]);
    assert!(!asked.tree.has_own_rights(id(1)));
    asked.make(&ROOT, in_root("made"), 9, FILE).unwrap();
    assert!(asked.tree.has_own_rights(id(9)));
    asked.ask(&ROOT, Operation::Close { file: id(9), handle: 0 }).unwrap();
    asked.land_all();
    assert!(!asked.tree.has_own_rights(id(9)));
}

/// A copy that lands beside theirs has the rights that were found for it, and is not overtaken by publications of other files.
#[test]
fn the_root_and_copies_have_rights_that_land() {
    let mut asked = imported(&["a"]);
    write(&mut asked, id(1), 8, 5);
    asked.note(LeaderEntry::CopiedOnConflict { file: id(1), draft: None, bytes: 0, rights: RIGHTS }).unwrap();
    assert_eq!(asked.tree.state(id(1)).unwrap().attributes.mode, 0o100_600);
    assert!(asked.tree.has_own_rights(id(1)));
    let mode = AttributeChanges { mode: Some(0o700), ..AttributeChanges::default() };
    asked.ask(&ROOT, Operation::SetAttributes { file: BURST_ROOT, changes: mode }).unwrap();
    asked.make(&ROOT, in_root("b"), 9, FILE).unwrap();
    asked.ask(&ROOT, Operation::Close { file: id(9), handle: 0 }).unwrap();
    assert_eq!(asked.tree.next_landings(64, 1 << 20).len(), 1, "the root's turn is between");
    landed(&mut asked, backed(9));
    let Turn { step, action, .. } = asked.tree.next_landing().unwrap();
    assert_eq!(action, Action::SetAttributes { file: BURST_ROOT, place: None });
    asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::Done }).unwrap();
    assert!(!asked.tree.has_own_rights(BURST_ROOT));
}

/// Changes of its name that are still to be followed end with the file.
#[test]
fn pending_steps_on_a_foreign_name_are_dropped() {
    let mut asked = imported(&["a"]);
    let (from, to) = (in_root("a"), in_root("moved"));
    asked.ask(&ROOT, Operation::Rename { from, to, rule: RenameRule::Replace }).unwrap();
    asked.ask(&ROOT, Operation::Open { file: id(1) }).unwrap();
    write(&mut asked, id(1), 0, 10);
    asked.note(LeaderEntry::CopiedOnConflict { file: id(1), draft: None, bytes: 0, rights: RIGHTS }).unwrap();
    assert_eq!(asked.tree.next_landing(), None, "theirs is not moved");
    asked.ask(&ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    let action = asked.tree.next_landing().unwrap().action;
    assert!(matches!(&action, Action::Publish { places, .. } if places[..] == [in_root("moved")]), "{action:?}");
}
