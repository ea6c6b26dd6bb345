//! A file that a node holds: until it has closed it, and whatever programs lock.

use forebay_types::{Errno, NodeRank};
use forebay_wire::write::{CommitAt, LockKind, LockRequest, Operation, WrittenExtent};
use forebay_write::hold;

use crate::support::{Asked, ROOT, file, id, in_root, refused};

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
        asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1) }).unwrap();
    }
    assert_eq!(asked.tree.lock_in_the_way(TWO, id(1), &hold::any()), None);
    hold_of(TWO, &mut asked).unwrap();
    asked.ask(&ROOT, Operation::CloseAll { node: TWO }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
}

/// A node that was cut off, whose file another one has meanwhile, and that is back.
#[test]
fn what_another_node_holds_is_not_written_over() {
    let mut asked = with_file();
    let write = |node, segment| {
        let position = forebay_types::LogPosition { segment, offset: 0 };
        let extents = vec![WrittenExtent { offset: 0, len: 4, node, position, skip: 0 }];
        Operation::Commit { file: id(1), extents, at: CommitAt::Start }
    };
    asked.ask_of(ONE, &ROOT, Operation::Open { file: id(1) }).unwrap();
    hold_of(ONE, &mut asked).unwrap();
    asked.ask_of(ONE, &ROOT, write(ONE, 1)).unwrap();
    asked.ask(&ROOT, Operation::CloseAll { node: ONE }).unwrap();
    asked.ask_of(TWO, &ROOT, Operation::Open { file: id(1) }).unwrap();
    hold_of(TWO, &mut asked).unwrap();
    let held = file(asked.ask_of(TWO, &ROOT, write(TWO, 2)).unwrap());
    assert_eq!(refused(asked.ask_of(ONE, &ROOT, write(ONE, 3))), Errno::ESTALE);
    assert_eq!(asked.tree.state(id(1)).unwrap().version, held.version);
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
    };
    asked.ask_of(TWO, &ROOT, Operation::Lock { file: id(1), request: all }).unwrap();
    asked.ask_of(ONE, &ROOT, Operation::Close { file: id(1) }).unwrap();
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
        asked.ask_of(node, &ROOT, Operation::Close { file: id(1) }).unwrap();
    }
    hold_of(ONE, &mut asked).unwrap();
    assert!(hold::is_hold(&asked.tree.lock_in_the_way(TWO, id(1), &hold::any()).unwrap()));
    for node in [ONE, TWO] {
        assert_eq!(refused(asked.ask_of(node, &ROOT, refuse())), Errno::EAGAIN);
    }
}
