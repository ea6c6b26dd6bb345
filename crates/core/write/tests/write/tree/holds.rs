//! A file that a node holds: until it has closed it, and whatever programs lock.

use forebay_types::{Errno, NodeRank};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::write::{CommitAt, LockKind, LockRequest, Operation, WrittenExtent};
use forebay_write::hold;

use crate::tree::support::{Asked, ROOT, file, id, in_root, refused};

const ONE: NodeRank = NodeRank(1);
const TWO: NodeRank = NodeRank(2);

fn with_file() -> Asked {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, 0o100_644).unwrap();
    asked
}

fn hold_of(node: NodeRank, asked: &mut Asked) -> Result<(), Errno> {
    let request = hold::request(hold::identity(&asked.tree.state(id(1)).unwrap()));
    match asked.ask_of(node, &ROOT, Operation::Lock { file: id(1), request }) {
        Ok(_) => Ok(()),
        refusal => Err(refused(refusal)),
    }
}

#[test]
fn a_hold_ends_with_the_last_close_of_its_node() {
    let mut asked = with_file();
    for node in [ONE, ONE, TWO] {
        asked.ask_of(node, &ROOT, Operation::Open { file: id(1) }).unwrap();
    }
    hold_of(ONE, &mut asked).unwrap();
    assert_eq!(hold_of(TWO, &mut asked), Err(Errno::EAGAIN));
    for _ in 0..2 {
        assert_eq!(hold_of(TWO, &mut asked), Err(Errno::EAGAIN), "it is open there still");
        let held = asked.tree.lock_in_the_way(TWO, id(1), &hold::any()).unwrap();
        assert_eq!(held.node, ONE);
        asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    }
    assert_eq!(asked.tree.lock_in_the_way(TWO, id(1), &hold::any()), None);
    hold_of(TWO, &mut asked).unwrap();
    asked.note(LeaderEntry::GiveUp { node: TWO }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
}

/// As daemons do that follow another, and may be killed at any moment: what each asks again changes nothing.
#[test]
fn what_was_taken_without_being_opened_is_given_back_unless_it_is_open() {
    let give_back = |asked: &mut Asked| {
        asked.ask_of(ONE, &ROOT, Operation::Lock { file: id(1), request: hold::unless_open() }).unwrap();
    };
    let mut asked = with_file();
    asked.ask_of(ONE, &ROOT, Operation::Open { file: id(1) }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
    give_back(&mut asked);
    assert_eq!(hold_of(TWO, &mut asked), Err(Errno::EAGAIN), "it is open");
    asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
    for _ in 0..2 {
        give_back(&mut asked);
        assert_eq!(asked.tree.lock_in_the_way(TWO, id(1), &hold::any()), None);
    }
    hold_of(TWO, &mut asked).unwrap();
    give_back(&mut asked);
    assert_eq!(hold_of(ONE, &mut asked), Err(Errno::EAGAIN), "another node's is not ended by it");
}

fn write_of(node: NodeRank, segment: u64) -> Operation {
    let position = forebay_types::LogPosition { segment, offset: 0 };
    let extents = vec![WrittenExtent { offset: 0, len: 4, node, position, skip: 0 }];
    Operation::Commit { file: id(1), extents, at: CommitAt::Start }
}

/// `ONE` holds the file, has written to it, and is given up.
fn given_up() -> Asked {
    let mut asked = with_file();
    asked.ask_of(ONE, &ROOT, Operation::Open { file: id(1) }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
    asked.ask_of(ONE, &ROOT, write_of(ONE, 1)).unwrap();
    asked.note(LeaderEntry::GiveUp { node: ONE }).unwrap();
    asked
}

/// The identity under which a node that was given up may resume.
fn resumable(node: NodeRank, asked: &Asked) -> Option<u64> {
    let lapsed = asked.tree.lock_in_the_way(node, id(1), &hold::lapsed_of(node));
    lapsed.and_then(|lapsed| hold::resumable(&lapsed))
}

/// Another node has the file meanwhile, and has it no more: both times what the node that is back has not committed is refused, and it
/// may hold the file anew.
#[test]
fn what_another_node_has_written_is_not_written_over() {
    let mut asked = given_up();
    asked.ask_of(TWO, &ROOT, Operation::Open { file: id(1) }).unwrap();
    hold_of(TWO, &mut asked).unwrap();
    let held = file(asked.ask_of(TWO, &ROOT, write_of(TWO, 2)).unwrap());
    assert_eq!(refused(asked.ask_of(ONE, &ROOT, write_of(ONE, 3))), hold::REFUSED);
    asked.ask_of(TWO, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    assert_eq!(refused(asked.ask_of(ONE, &ROOT, write_of(ONE, 4))), hold::REFUSED);
    assert_eq!((resumable(ONE, &asked), asked.tree.state(id(1)).unwrap().version), (None, held.version));
    // Its programs opened the file before.
    asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    assert_eq!(refused(asked.ask_of(ONE, &ROOT, write_of(ONE, 5))), hold::REFUSED);
    asked.ask_of(ONE, &ROOT, Operation::Open { file: id(1) }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
    asked.ask_of(ONE, &ROOT, write_of(ONE, 6)).unwrap();
    asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    hold_of(TWO, &mut asked).unwrap();
}

/// If no other node has had the file, the node goes on with it, and others may take it.
#[test]
fn a_node_goes_on_with_what_nobody_has_taken() {
    let mut asked = given_up();
    let identity = resumable(ONE, &asked).unwrap();
    asked.ask_of(ONE, &ROOT, write_of(ONE, 2)).unwrap();
    asked.ask_of(ONE, &ROOT, Operation::Lock { file: id(1), request: hold::request(identity) }).unwrap();
    assert_eq!((resumable(ONE, &asked), hold_of(TWO, &mut asked)), (None, Err(Errno::EAGAIN)));
    // Opened twice, before it was given up.
    asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    assert_eq!(resumable(ONE, &asked), Some(identity));
    asked.ask_of(ONE, &ROOT, write_of(ONE, 3)).unwrap();
    // Given up again, it has no more than before.
    asked.note(LeaderEntry::GiveUp { node: ONE }).unwrap();
    assert_eq!(resumable(ONE, &asked), Some(identity));
    hold_of(TWO, &mut asked).unwrap();
    assert_eq!(resumable(ONE, &asked), None);
    assert_eq!(refused(asked.ask_of(ONE, &ROOT, write_of(ONE, 4))), hold::REFUSED);
}

/// A node begins anew: what it committed of an earlier job's programs before that was refused, or was not.
#[test]
fn on_a_new_mount_nothing_is_refused_any_more() {
    let mut asked = given_up();
    hold_of(TWO, &mut asked).unwrap();
    for node in [TWO, ONE] {
        asked.ask_of(node, &ROOT, Operation::CloseAll).unwrap();
    }
    asked.ask_of(ONE, &ROOT, write_of(ONE, 2)).unwrap();
    assert_eq!(asked.tree.lock_in_the_way(TWO, id(1), &hold::lapsed_of(ONE)), None);
}

/// A writer by a name elsewhere has had the file, too.
#[test]
fn what_was_written_elsewhere_is_not_written_over() {
    let mut asked = given_up();
    asked.ask_of(TWO, &ROOT, Operation::Open { file: id(1) }).unwrap();
    asked.ask_of(TWO, &ROOT, Operation::Lock { file: id(1), request: hold::refusal() }).unwrap();
    asked.ask_of(TWO, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    assert_eq!(refused(asked.ask_of(ONE, &ROOT, write_of(ONE, 2))), hold::REFUSED);
}

#[test]
fn programs_lock_what_is_held_as_ever() {
    let mut asked = with_file();
    asked.ask_of(ONE, &ROOT, Operation::Open { file: id(1) }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
    // The whole file, to the largest offset that a program can name.
    let all = LockRequest {
        owner: 7,
        start: 0,
        end: i64::MAX as u64,
        kind: Some(LockKind::Exclusive),
        pid: 1,
        is_flock: false,
        handle: 0,
    };
    asked.ask_of(TWO, &ROOT, Operation::Lock { file: id(1), request: all }).unwrap();
    asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    assert_eq!(asked.tree.lock_in_the_way(ONE, id(1), &all).map(|held| held.node), Some(TWO), "it is no hold");
    assert_eq!(asked.tree.lock_in_the_way(TWO, id(1), &hold::any()), None);
}

#[test]
fn contents_are_told_apart_by_every_change_of_them() {
    let mut asked = with_file();
    let mut seen = vec![hold::identity(&asked.tree.state(id(1)).unwrap())];
    for segment in 1..100 {
        let position = forebay_types::LogPosition { segment, offset: 0 };
        let extents = vec![WrittenExtent { offset: 0, len: 1, node: NodeRank(0), position, skip: 0 }];
        let done = asked.ask(&ROOT, Operation::Commit { file: id(1), extents, at: CommitAt::Start }).unwrap();
        seen.push(hold::identity(&file(done)));
    }
    assert!(seen.iter().all(|identity| *identity < 1 << 63));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 100);
}

#[test]
fn nobody_holds_what_nodes_write_elsewhere() {
    let mut asked = with_file();
    let refuse = || Operation::Lock { file: id(1), request: hold::refusal() };
    for node in [ONE, TWO] {
        asked.ask_of(node, &ROOT, Operation::Open { file: id(1) }).unwrap();
        asked.ask_of(node, &ROOT, refuse()).unwrap();
    }
    for node in [ONE, TWO] {
        assert_eq!(hold_of(ONE, &mut asked), Err(Errno::EAGAIN));
        assert!(!hold::is_hold(&asked.tree.lock_in_the_way(ONE, id(1), &hold::any()).unwrap()));
        asked.ask_of(node, &ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    }
    hold_of(ONE, &mut asked).unwrap();
    assert!(hold::is_hold(&asked.tree.lock_in_the_way(TWO, id(1), &hold::any()).unwrap()));
    for node in [ONE, TWO] {
        assert_eq!(refused(asked.ask_of(node, &ROOT, refuse())), Errno::EAGAIN);
    }
}
