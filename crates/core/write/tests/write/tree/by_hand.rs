//! The tree by hand: what each operation does, and to whom it is refused.

use crate::tree::support::{Asked, ROOT, create, file, id, in_root, refused, within};
use forebay_types::{Attributes, Errno, LogPosition, NodeRank, Timestamp, ViewPath};
use forebay_wire::journal::{ImportedEntry, LeaderEntry};
use forebay_wire::write::Source;
use forebay_wire::write::{
    AttributeChanges, BURST_ROOT, Caller, CommitAt, Copy, Operation, RenameRule, TimeChange, WrittenExtent,
};
use forebay_write::{Refusal, Released, Way, gone_from};

const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_755;

fn alice() -> Caller {
    Caller { uid: 1000, gid: 1000, groups: vec![7] }
}

fn extent(node: u32, offset: u64, len: u64, segment: u64) -> WrittenExtent {
    let position = LogPosition { segment, offset: 0 };
    WrittenExtent { offset, len, node: NodeRank(node), position, skip: 0 }
}

fn rename(from: &str, to: &str, rule: RenameRule) -> Operation {
    Operation::Rename { from: in_root(from), to: in_root(to), rule }
}

#[test]
fn names_are_made_found_and_removed() {
    let mut asked = Asked::new();
    let made = asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    assert_eq!((made.file, made.attributes.nlink, made.attributes.mode), (id(1), 1, FILE));
    assert_eq!(asked.lookup(&in_root("a")), Some(made));
    assert_eq!(refused(asked.make(&ROOT, in_root("a"), 2, FILE)), Errno::EEXIST);
    asked.make(&ROOT, in_root("d"), 3, DIRECTORY).unwrap();
    asked.make(&ROOT, within(id(3), "x"), 4, FILE).unwrap();
    assert_eq!(asked.tree.state(BURST_ROOT).unwrap().attributes.nlink, 3);
    assert_eq!(refused(asked.ask(&ROOT, Operation::RemoveDirectory { place: in_root("d") })), Errno::ENOTEMPTY);
    assert_eq!(refused(asked.ask(&ROOT, Operation::Unlink { place: in_root("d") })), Errno::EISDIR);
    asked.ask(&ROOT, Operation::Unlink { place: within(id(3), "x") }).unwrap();
    asked.ask(&ROOT, Operation::RemoveDirectory { place: in_root("d") }).unwrap();
    assert_eq!(asked.tree.state(BURST_ROOT).unwrap().attributes.nlink, 2);
    assert_eq!(asked.released.files, [id(4), id(3)]);
    assert_eq!(refused(asked.make(&ROOT, within(id(3), "late"), 5, FILE)), Errno::ENOENT);
}

/// Contents that only a lost node has are held back, whatever happens to their names; all other files go on.
#[test]
fn a_file_of_a_lost_node_waits_and_nothing_waits_for_it() {
    let mut asked = Asked::new();
    let written = |asked: &mut Asked, serial: u64, name: &str, node: u32| {
        asked.make(&ROOT, in_root(name), serial, FILE).unwrap();
        let extents = vec![extent(node, 0, 10, serial)];
        asked
            .ask_of(NodeRank(node), &ROOT, Operation::Commit { file: id(serial), extents, at: CommitAt::Start })
            .unwrap();
    };
    written(&mut asked, 1, "gone", 1);
    asked.ask(&ROOT, rename("gone", "moved", RenameRule::Replace)).unwrap();
    written(&mut asked, 2, "here", 0);
    asked.note(LeaderEntry::Lost { nodes: vec![NodeRank(1)] }).unwrap();
    let left = |asked: &Asked| asked.tree.files_not_landed();
    let named = |name: &str| (name.as_bytes().to_vec(), vec![(0, 10)]);
    assert_eq!(left(&asked), [named("here"), named("moved")]);
    assert_eq!(asked.land_all(), [id(2)]);
    assert_eq!(left(&asked), [named("moved")]);
    assert_eq!((asked.tree.way(id(1)), asked.tree.is_needed()), (Ok(Way::Lost), true));
    let lost = asked.tree.lost_files();
    assert_eq!((lost.len(), &lost[0].path[..], &lost[0].ranges[..]), (1, &b"moved"[..], &[(0, 10)][..]));
    // No operation publishes it short.
    asked.note(LeaderEntry::Publish { file: id(1) }).unwrap();
    assert_eq!(asked.land_all(), []);
    asked.note(LeaderEntry::Lost { nodes: vec![] }).unwrap();
    assert_eq!((asked.land_all(), left(&asked)), (vec![id(1)], vec![]));
    assert_eq!((asked.tree.way(id(1)), asked.tree.is_needed()), (Ok(Way::Landed), false));
}

/// Writes over all lost ranges make a file whole.
#[test]
fn a_lost_file_that_is_written_again_lands() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    let commit = |node: u32, segment| Operation::Commit {
        file: id(1),
        extents: vec![extent(node, 0, 10, segment)],
        at: CommitAt::Start,
    };
    asked.ask_of(NodeRank(1), &ROOT, commit(1, 1)).unwrap();
    asked.note(LeaderEntry::Lost { nodes: vec![NodeRank(1)] }).unwrap();
    assert_eq!(asked.land_all(), []);
    asked.ask(&ROOT, commit(0, 2)).unwrap();
    assert_eq!((asked.land_all(), asked.tree.lost_files()), (vec![id(1)], vec![]));
}

/// The same with what no log has any more, of a part of a file.
#[test]
fn a_file_of_which_records_are_gone_waits_until_they_are_written_again() {
    let mut asked = Asked::new();
    for (serial, name) in [(1, "a"), (2, "b")] {
        asked.make(&ROOT, in_root(name), serial, FILE).unwrap();
    }
    let commit = |serial, node: u32, offset, segment| Operation::Commit {
        file: id(serial),
        extents: vec![extent(node, offset, 10, segment)],
        at: CommitAt::Start,
    };
    for (serial, offset, segment) in [(1, 0, 1), (1, 10, 2), (2, 0, 3)] {
        asked.ask_of(NodeRank(1), &ROOT, commit(serial, 1, offset, segment)).unwrap();
    }
    let gone = extent(1, 10, 10, 2).position;
    let copies = vec![Copy { from: gone, to: gone, len: 10 }];
    asked.note(LeaderEntry::Relocated { node: NodeRank(1), to: gone_from(NodeRank(1)), copies }).unwrap();
    assert_eq!((asked.land_all(), asked.tree.way(id(1))), (vec![id(2)], Ok(Way::Lost)));
    let lost = asked.tree.lost_of(id(1));
    assert_eq!((lost.nodes, lost.is_gone, lost.ranges), ([NodeRank(1)].into(), true, vec![(10, 10)]));
    asked.ask(&ROOT, commit(1, 0, 12, 4)).unwrap();
    assert_eq!((asked.land_all(), asked.tree.lost_of(id(1)).ranges), (vec![], vec![(10, 2)]));
    asked.ask(&ROOT, commit(1, 0, 5, 5)).unwrap();
    assert_eq!((asked.land_all(), asked.tree.lost_files()), (vec![id(1)], vec![]));
}

#[test]
fn only_one_of_two_creates_a_name_exclusively() {
    let mut asked = Asked::new();
    let exclusive = |serial| Operation::Create {
        place: in_root("lock"),
        file: id(serial),
        mode: FILE,
        rdev: 0,
        target: vec![],
        is_opened: true,
        is_exclusive: true,
    };
    assert!(asked.ask_of(NodeRank(1), &ROOT, exclusive(1)).is_ok());
    assert_eq!(refused(asked.ask_of(NodeRank(2), &ROOT, exclusive(2))), Errno::EEXIST);
}

#[test]
fn an_operation_that_comes_again_is_carried_out_once() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    asked.ask(&ROOT, Operation::Unlink { place: in_root("a") }).unwrap();
    asked.make(&ROOT, in_root("a"), 2, FILE).unwrap();
    let (before, unlink) = (asked.tree.clone(), asked.entries[1].clone());
    assert!(asked.tree.apply(&unlink, &mut Released::default()).is_ok(), "the result is told again");
    assert_eq!(asked.tree, before, "the new file of that name stays");
    // Once its node has said that it will not ask again, the result is gone, and EALREADY says that nobody knows.
    let mut newer = asked.last_request();
    (newer.id.serial, newer.oldest) = (9, 9);
    let _ = asked.tree.apply(&newer, &mut Released::default());
    assert_eq!(refused(asked.tree.apply(&unlink, &mut Released::default())), Errno::EALREADY);
}

#[test]
fn a_rename_replaces_what_was_there_at_once() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("new"), 1, FILE).unwrap();
    asked.make(&ROOT, in_root("old"), 2, FILE).unwrap();
    assert_eq!(refused(asked.ask(&ROOT, rename("new", "old", RenameRule::Keep))), Errno::EEXIST);
    asked.ask(&ROOT, rename("new", "old", RenameRule::Replace)).unwrap();
    assert_eq!(asked.lookup(&in_root("old")).unwrap().file, id(1));
    assert_eq!(asked.lookup(&in_root("new")), None);
    assert_eq!(asked.released.files, [id(2)]);
}

#[test]
fn directories_move_whole_and_never_into_themselves() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, DIRECTORY).unwrap();
    asked.make(&ROOT, within(id(1), "b"), 2, DIRECTORY).unwrap();
    asked.make(&ROOT, in_root("c"), 3, DIRECTORY).unwrap();
    let into_itself = Operation::Rename { from: in_root("a"), to: within(id(2), "a"), rule: RenameRule::Replace };
    assert_eq!(refused(asked.ask(&ROOT, into_itself)), Errno::EINVAL);
    let moved = Operation::Rename { from: within(id(1), "b"), to: within(id(3), "b"), rule: RenameRule::Replace };
    asked.ask(&ROOT, moved).unwrap();
    assert_eq!(asked.tree.parent(id(2)), Ok(id(3)));
    let links = |asked: &Asked, serial| asked.tree.state(id(serial)).unwrap().attributes.nlink;
    assert_eq!([links(&asked, 1), links(&asked, 3)], [2, 3]);
    assert_eq!(refused(asked.ask(&ROOT, rename("a", "c", RenameRule::Replace))), Errno::ENOTEMPTY);
    asked.ask(&ROOT, rename("a", "c", RenameRule::Exchange)).unwrap();
    assert_eq!(asked.lookup(&in_root("a")).unwrap().file, id(3));
    assert_eq!(asked.tree.state(BURST_ROOT).unwrap().attributes.nlink, 4);
}

#[test]
fn a_file_lives_as_long_as_a_node_has_it_open() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    asked.ask_of(NodeRank(5), &ROOT, Operation::Open { file: id(1) }).unwrap();
    let commit = Operation::Commit { file: id(1), extents: vec![extent(5, 0, 10, 1)], at: CommitAt::Start };
    asked.ask_of(NodeRank(5), &ROOT, commit).unwrap();
    asked.ask(&ROOT, Operation::Unlink { place: in_root("a") }).unwrap();
    assert_eq!(asked.tree.state(id(1)).unwrap().attributes.nlink, 0);
    assert_eq!(asked.released, Released::default());
    asked.ask_of(NodeRank(5), &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    assert_eq!(asked.released, Released { extents: vec![extent(5, 0, 10, 1)], files: vec![id(1)] });
}

#[test]
fn a_file_made_without_a_name_gets_one_unless_it_may_not() {
    let mut asked = Asked::new();
    let unnamed = |serial, may_be_named| {
        let (directory, file) = (BURST_ROOT, id(serial));
        Operation::CreateUnnamed { directory, file, mode: 0o600, may_be_named }
    };
    assert_eq!(refused(asked.ask(&alice(), unnamed(1, true))), Errno::EACCES);
    for (serial, may_be_named) in [(1, true), (2, false), (3, true)] {
        let made = file(asked.ask(&ROOT, unnamed(serial, may_be_named)).unwrap());
        assert_eq!((made.attributes.nlink, made.attributes.mode), (0, 0o100_600));
    }
    let link = |serial, name| Operation::Link { file: id(serial), place: in_root(name) };
    assert_eq!(refused(asked.ask(&ROOT, link(2, "b"))), Errno::ENOENT);
    assert_eq!(file(asked.ask(&ROOT, link(1, "a")).unwrap()).attributes.nlink, 1);
    asked.ask(&ROOT, Operation::Unlink { place: in_root("a") }).unwrap();
    assert_eq!(refused(asked.ask(&ROOT, link(1, "a"))), Errno::ENOENT, "it has had its name");
    asked.ask(&ROOT, link(3, "c")).unwrap();
    assert_eq!(asked.land_all(), [], "all are open");
    for serial in 1..=3 {
        asked.ask(&ROOT, Operation::Close { file: id(serial), handle: 0 }).unwrap();
    }
    assert_eq!(asked.released.files, [id(1), id(2)]);
    assert_eq!(asked.land_all(), [id(3)]);
}

#[test]
fn appended_commits_follow_each_other_whoever_makes_them() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("log"), 1, FILE).unwrap();
    for node in [1, 2, 1] {
        let appended = Operation::Commit { file: id(1), extents: vec![extent(node, 0, 10, 1)], at: CommitAt::End };
        asked.ask_of(NodeRank(node), &ROOT, appended).unwrap();
    }
    let pieces = asked.tree.pieces(id(1), 0..100).unwrap();
    let nodes: Vec<(u64, u32)> = pieces.iter().map(|piece| (piece.offset, node_of(piece.source))).collect();
    assert_eq!(nodes, [(0, 1), (10, 2), (20, 1)]);
    assert_eq!(asked.tree.state(id(1)).unwrap().attributes.size_bytes, 30);
}

/// A node that has lost the end of its log learns by this that it has.
#[test]
fn the_last_record_of_which_a_node_has_committed_something_is_known() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    assert_eq!(asked.tree.last_committed_of(NodeRank(1)), None);
    let (first, last) = (extent(1, 0, 10, 1), extent(1, 5, 10, 2));
    for (extents, at) in [(vec![first, last], CommitAt::Start), (vec![extent(1, 0, 10, 3)], CommitAt::End)] {
        asked.ask_of(NodeRank(1), &ROOT, Operation::Commit { file: id(1), extents, at }).unwrap();
        assert_eq!(asked.tree.last_committed_of(NodeRank(1)), Some(last.position), "appends are not pending");
    }
    assert_eq!(asked.tree.last_committed_of(NodeRank(2)), None);
    let (mut first, mut next) = asked.tree.parts(0, 1);
    while let Some(from) = next {
        let (more, after) = asked.tree.parts(from, 1);
        first.absorb(more);
        next = after;
    }
    assert_eq!(first, asked.tree, "it travels with the tree");
}

fn node_of(source: Source) -> u32 {
    match source {
        Source::Log(extent) => extent.node.0,
        _ => panic!("not written"),
    }
}

#[test]
fn commits_that_lie_are_refused() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    let before = asked.tree.state(id(1));
    let cases = [(0, u64::MAX, 5, Errno::EFBIG), (0, i64::MAX as u64, 1, Errno::EFBIG), (3, 0, 1, Errno::EINVAL)];
    for (node, offset, len, errno) in cases {
        let extents = vec![extent(0, 0, 1, 1), extent(node, offset, len, 1)];
        let commit = Operation::Commit { file: id(1), extents, at: CommitAt::Start };
        assert_eq!(refused(asked.ask(&ROOT, commit)), errno);
        assert_eq!(asked.tree.state(id(1)), before, "nothing of it is taken");
    }
}

#[test]
fn a_directory_of_the_backing_file_system_is_adopted_before_anything_is_decided_in_it() {
    let root = Attributes { mode: 0o040_755, nlink: 7, ..Attributes::default() };
    let mut asked = Asked { tree: forebay_write::Tree::new(root, true, 1), ..Asked::new() };
    let unlisted = Err(Refusal::Unlisted(BURST_ROOT));
    assert_eq!(asked.ask(&ROOT, create(in_root("new"), 1, FILE)).map(|_| ()), unlisted);
    let attributes = Attributes { mode: FILE, size_bytes: 100, nlink: 1, ..Attributes::default() };
    let entry = |name: &str, serial, attributes| ImportedEntry {
        name: in_root(name).name,
        file: id(serial),
        attributes,
        born: Timestamp::default(),
        target: vec![],
    };
    let first = vec![entry("data", 2, attributes)];
    asked.note(LeaderEntry::Import { directory: BURST_ROOT, entries: first, is_last: false }).unwrap();
    assert_eq!(asked.ask(&ROOT, create(in_root("data"), 1, FILE)).map(|_| ()), unlisted);
    let sub = Attributes { mode: DIRECTORY, nlink: 9, ..Attributes::default() };
    let rest = vec![entry("sub", 3, sub)];
    asked.note(LeaderEntry::Import { directory: BURST_ROOT, entries: rest, is_last: true }).unwrap();
    assert_eq!(refused(asked.ask(&ROOT, create(in_root("data"), 1, FILE))), Errno::EEXIST);
    assert_eq!(asked.tree.state(BURST_ROOT).unwrap().attributes.nlink, 3);
    assert_eq!(asked.tree.list(id(3), None, 10), Err(Refusal::Unlisted(id(3))));
    // Writing to it keeps the rest where it is.
    let commit = Operation::Commit { file: id(2), extents: vec![extent(0, 40, 10, 1)], at: CommitAt::Start };
    assert_eq!(file(asked.ask(&ROOT, commit).unwrap()).attributes.size_bytes, 100);
    let pieces = asked.tree.pieces(id(2), 0..200).unwrap().into_iter();
    let sources = pieces.map(|piece| (piece.offset, piece.len, piece.source == Source::Backing)).collect::<Vec<_>>();
    assert_eq!(sources, [(0, 40, true), (40, 10, false), (50, 50, true)]);
}

#[test]
fn allocation_cuts_off_no_concurrent_writes() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    let allocate = |asked: &mut Asked, least_bytes| {
        file(asked.ask(&ROOT, Operation::Allocate { file: id(1), least_bytes }).unwrap()).attributes.size_bytes
    };
    assert_eq!(allocate(&mut asked, 100), 100);
    let commit = Operation::Commit { file: id(1), extents: vec![extent(0, 400, 100, 1)], at: CommitAt::Start };
    asked.ask(&ROOT, commit).unwrap();
    assert_eq!([200, 0].map(|least_bytes| allocate(&mut asked, least_bytes)), [500, 500]);
    let pieces = asked.tree.pieces(id(1), 0..1000).unwrap();
    assert_eq!(pieces.last().map(|piece| (piece.offset, piece.len)), Some((400, 100)));
}

#[test]
fn mode_bits_decide_who_may_what() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("open"), 1, 0o041_777).unwrap();
    asked.make(&ROOT, in_root("closed"), 2, DIRECTORY).unwrap();
    asked.make(&ROOT, within(id(1), "roots"), 3, FILE).unwrap();
    let alice = alice();
    assert_eq!(refused(asked.make(&alice, within(id(2), "x"), 4, FILE)), Errno::EACCES);
    asked.make(&alice, within(id(1), "hers"), 5, 0o106_755).unwrap();
    assert_eq!(refused(asked.ask(&alice, Operation::Unlink { place: within(id(1), "roots") })), Errno::EPERM);
    let chmod = |mode| AttributeChanges { mode: Some(mode), ..AttributeChanges::default() };
    let set = |serial, changes| Operation::SetAttributes { file: id(serial), changes };
    assert_eq!(refused(asked.ask(&alice, set(3, chmod(0o777)))), Errno::EPERM);
    let mode_of = |asked: &Asked| asked.tree.state(id(5)).unwrap().attributes.mode;
    assert_eq!(mode_of(&asked), 0o106_755);
    // To a group of hers she may give it, and it lends no rights then; to another user not.
    let chgrp = AttributeChanges { gid: Some(7), ..AttributeChanges::default() };
    asked.ask(&alice, set(5, chgrp)).unwrap();
    assert_eq!(mode_of(&asked), 0o100_755);
    let chown = AttributeChanges { uid: Some(0), ..AttributeChanges::default() };
    assert_eq!(refused(asked.ask(&alice, set(5, chown))), Errno::EPERM);
    let times = AttributeChanges { mtime: Some(TimeChange::To(Timestamp::default())), ..AttributeChanges::default() };
    assert_eq!(refused(asked.ask(&alice, set(3, times))), Errno::EPERM);
    let cut = AttributeChanges { size_bytes: Some(0), ..AttributeChanges::default() };
    assert_eq!(refused(asked.ask(&alice, set(3, cut))), Errno::EACCES);
    asked.ask(&alice, set(3, AttributeChanges { is_through_descriptor: true, ..cut })).unwrap();
}

/// Without the group's execute bit the set-group-id bit stays, unless a user from outside the group writes.
#[test]
fn writers_outside_the_group_end_its_lent_rights() {
    let mut asked = Asked::new();
    let stranger = Caller { uid: 1001, gid: 1001, groups: vec![] };
    let cut = AttributeChanges { size_bytes: Some(0), is_through_descriptor: true, ..AttributeChanges::default() };
    for (serial, caller, left) in [(1, ROOT, 0o106_666), (2, alice(), 0o102_666), (3, stranger, 0o100_666)] {
        asked.make(&ROOT, in_root(&serial.to_string()), serial, FILE).unwrap();
        let mode = AttributeChanges { gid: Some(7), ..AttributeChanges::default() };
        asked.ask(&ROOT, Operation::SetAttributes { file: id(serial), changes: mode }).unwrap();
        let mode = AttributeChanges { mode: Some(0o6666), ..AttributeChanges::default() };
        asked.ask(&ROOT, Operation::SetAttributes { file: id(serial), changes: mode }).unwrap();
        asked.ask(&caller, Operation::SetAttributes { file: id(serial), changes: cut }).unwrap();
        assert_eq!(asked.tree.state(id(serial)).unwrap().attributes.mode, left, "{serial}");
    }
}

#[test]
fn a_file_is_below_what_its_newest_name_is_below() {
    let path = |text: &str| ViewPath::new(text.as_bytes()).unwrap();
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("d"), 1, DIRECTORY).unwrap();
    asked.make(&ROOT, within(id(1), "e"), 2, DIRECTORY).unwrap();
    asked.make(&ROOT, within(id(2), "f"), 3, FILE).unwrap();
    asked.make(&ROOT, in_root("g"), 4, FILE).unwrap();
    let below = |asked: &Asked, serial, paths: &[&str]| {
        asked.tree.is_below(id(serial), &paths.iter().map(|text| path(text)).collect::<Vec<_>>())
    };
    assert!(below(&asked, 3, &["d"]) && below(&asked, 3, &["d/e"]) && below(&asked, 3, &["x", "d/e/f"]));
    assert!(below(&asked, 1, &["d"]) && below(&asked, 4, &[""]));
    assert!(!below(&asked, 4, &["d"]) && !below(&asked, 1, &["d/e"]) && !below(&asked, 3, &[]));
    // A directory on the way goes elsewhere, and another comes in its place.
    asked.ask(&ROOT, rename("d", "away", RenameRule::Replace)).unwrap();
    asked.make(&ROOT, in_root("d"), 5, DIRECTORY).unwrap();
    assert!(!below(&asked, 3, &["d"]) && below(&asked, 3, &["away"]));
    asked.ask(&ROOT, Operation::Link { file: id(4), place: within(id(5), "again") }).unwrap();
    assert!(below(&asked, 4, &["d"]));
}

#[test]
fn the_largest_files_to_land_are_named_within_a_bound() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("d"), 1, DIRECTORY).unwrap();
    for (serial, place) in [(2, within(id(1), "small")), (3, in_root("large")), (4, within(id(1), "none"))] {
        asked.make(&ROOT, place, serial, FILE).unwrap();
    }
    for (serial, len, segment) in [(2, 10, 1), (3, 30, 2)] {
        let extents = vec![extent(0, 0, len, segment)];
        asked.ask(&ROOT, Operation::Commit { file: id(serial), extents, at: CommitAt::Start }).unwrap();
    }
    let named = |path: &str, bytes| (path.as_bytes().to_vec(), bytes);
    assert_eq!(asked.tree.largest_to_land(9, 100), [named("large", 30), named("d/small", 10)]);
    assert_eq!(asked.tree.largest_to_land(1, 100), [named("large", 30)]);
    // `d` and `large` are looked at for the first, `none`, `small` and `d` for the second.
    assert_eq!(asked.tree.largest_to_land(9, 4), [named("large", 30)]);
    assert_eq!(asked.tree.largest_to_land(9, 0), []);
    asked.ask(&ROOT, rename("d", "away", RenameRule::Replace)).unwrap();
    assert_eq!(asked.tree.largest_to_land(9, 100)[1], named("away/small", 10));
}
