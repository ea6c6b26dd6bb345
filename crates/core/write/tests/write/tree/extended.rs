//! Extended attributes in the tree.

use forebay_types::{Errno, ExtendedAttributes, ExtendedRule, FileId, OperationId};
use forebay_wire::journal::{LeaderEntry, StepOutcome};
use forebay_wire::write::{BURST_ROOT, Caller, Change, Operation};
use forebay_write::{Action, Refusal};

use super::support::{Asked, ROOT, empty, id, in_root, refused};

const FILE: u32 = 0o100_644;
const A: &[u8] = b"user.a";

fn set(file: FileId, name: &[u8], value: Option<&[u8]>) -> Operation {
    let rule = if value.is_some() { ExtendedRule::Any } else { ExtendedRule::Known };
    Operation::SetExtended { file, name: name.to_vec(), value: value.map(<[u8]>::to_vec), rule }
}

fn alice() -> Caller {
    Caller { uid: 1000, gid: 100, groups: vec![] }
}

fn import(asked: &mut Asked, serial: u64) {
    let found = ExtendedAttributes::default();
    asked.note(LeaderEntry::ImportExtended { file: id(serial), found }).unwrap();
}

fn value<'a>(asked: &'a Asked, serial: u64, name: &[u8]) -> Option<&'a [u8]> {
    asked.tree.extended(id(serial)).unwrap().and_then(|known| known.get(name))
}

#[test]
fn they_are_read_where_the_file_lies_before_one_is_changed() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, FILE).unwrap();
    assert_eq!(asked.tree.extended(id(1)), Ok(None));
    assert_eq!(asked.ask(&ROOT, set(id(1), A, Some(b"1"))), Err(Refusal::Unread(id(1))));
    let there = ExtendedAttributes::default().with(b"user.old", Some(b"0"), ExtendedRule::New).unwrap();
    asked.note(LeaderEntry::ImportExtended { file: id(1), found: there }).unwrap();
    asked.ask(&ROOT, set(id(1), A, Some(b"1"))).unwrap();
    assert_eq!((value(&asked, 1, A), value(&asked, 1, b"user.old")), (Some(&b"1"[..]), Some(&b"0"[..])));
    // A second reading that was slower changes nothing.
    import(&mut asked, 1);
    assert_eq!(value(&asked, 1, A), Some(&b"1"[..]));
    asked.ask(&ROOT, set(id(1), A, None)).unwrap();
    assert_eq!(refused(asked.ask(&ROOT, set(id(1), A, None))), Errno::ENODATA);
}

#[test]
fn they_land_after_the_file() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("directory"), 1, 0o040_755).unwrap();
    asked.land_all();
    import(&mut asked, 1);
    asked.ask(&ROOT, set(id(1), A, Some(b"1"))).unwrap();
    let action = asked.tree.next_landing().map(|turn| turn.action);
    assert_eq!(action, Some(Action::SetAttributes { file: id(1), place: Some(in_root("directory")) }));
    assert_eq!(value(&asked, 1, A), Some(&b"1"[..]));
    asked.land_all();
    assert_eq!(asked.tree.extended(id(1)), Ok(None), "others may change them there");
}

/// A change that comes while an earlier one lands is kept until it has landed too; so is one that did not land.
#[test]
fn they_are_kept_until_the_last_of_them_has_landed() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("directory"), 1, 0o040_755).unwrap();
    asked.land_all();
    import(&mut asked, 1);
    let set_one = |asked: &mut Asked, bytes: &[u8]| asked.ask(&ROOT, set(id(1), A, Some(bytes))).map(drop).unwrap();
    let landed = |asked: &mut Asked, outcome: StepOutcome| {
        let step = asked.tree.next_landing().expect("something is to land").step;
        asked.note(LeaderEntry::Landed { step, outcome }).map(drop).unwrap();
    };
    set_one(&mut asked, b"1");
    assert!(asked.tree.next_landing().is_some(), "the first is about to land");
    set_one(&mut asked, b"2");
    landed(&mut asked, StepOutcome::Done);
    assert_eq!(value(&asked, 1, A), Some(&b"2"[..]));
    landed(&mut asked, StepOutcome::LeftOut);
    assert_eq!(value(&asked, 1, A), Some(&b"2"[..]));
    set_one(&mut asked, b"3");
    landed(&mut asked, StepOutcome::Done);
    assert_eq!(asked.tree.extended(id(1)), Ok(None));
}

/// A change that comes a second time, since its answer was lost, has been carried out: it is not tried against what it made.
#[test]
fn a_change_that_comes_again_sets_nothing_again() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("directory"), 1, 0o040_755).unwrap();
    import(&mut asked, 1);
    let operation =
        Operation::SetExtended { file: id(1), name: A.to_vec(), value: Some(b"1".to_vec()), rule: ExtendedRule::New };
    asked.ask(&ROOT, operation).unwrap();
    let change = asked.last_request();
    asked.land_all();
    assert_eq!(asked.tree.extended_by(&change), Ok(None));
    asked.tree.apply(&change, &mut asked.released).unwrap();
    assert_eq!(asked.tree.extended(id(1)), Ok(None));
    let later = Change { id: OperationId { serial: 99, ..change.id }, ..change };
    assert_eq!(asked.tree.extended_by(&later), Err(Refusal::Unread(id(1))));
}

/// Names that were set and removed are remembered until that has landed, and are so many at most.
#[test]
fn names_to_land_are_limited() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("directory"), 1, 0o040_755).unwrap();
    import(&mut asked, 1);
    let name = |number: usize| format!("user.{number}").into_bytes();
    for number in 0..forebay_write::limits::EXTENDED_NAMES_MAX {
        asked.ask(&ROOT, set(id(1), &name(number), Some(b""))).unwrap();
        asked.ask(&ROOT, set(id(1), &name(number), None)).unwrap();
    }
    assert_eq!(refused(asked.ask(&ROOT, set(id(1), A, Some(b"")))), Errno::ENOSPC);
    asked.land_all();
    import(&mut asked, 1);
    asked.ask(&ROOT, set(id(1), A, Some(b""))).unwrap();
}

#[test]
fn mode_bits_say_who_may_change_them() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("readable"), 1, FILE).unwrap();
    asked.make(&ROOT, in_root("link"), 3, 0o120_777).unwrap();
    import(&mut asked, 1);
    assert_eq!(refused(asked.ask(&alice(), set(id(1), A, Some(b"1")))), Errno::EACCES);
    for nobodys in [id(3), BURST_ROOT] {
        assert_eq!(refused(asked.ask(&ROOT, set(nobodys, A, Some(b"1")))), Errno::EPERM);
    }
    assert_eq!(refused(asked.ask(&ROOT, set(id(1), b"trusted.a", Some(b"1")))), Errno::EOPNOTSUPP);
    assert_eq!(refused(asked.ask(&ROOT, set(id(9), A, Some(b"1")))), Errno::ESTALE);
}

/// A tree has room for so many of the largest; what is removed, with its file or not, makes room again.
#[test]
fn a_tree_has_so_much_room_for_them() {
    let mut asked = Asked { tree: empty(), ..Asked::new() };
    let most = vec![0; ExtendedAttributes::BYTES_MAX - A.len() - 1];
    let fit = forebay_write::limits::EXTENDED_BYTES_MAX / ExtendedAttributes::BYTES_MAX as u64;
    for serial in 1..=fit + 1 {
        asked.make(&ROOT, in_root(&serial.to_string()), serial, FILE).unwrap();
        import(&mut asked, serial);
        let outcome = asked.ask(&ROOT, set(id(serial), A, Some(&most)));
        assert_eq!(outcome.is_ok(), serial <= fit, "{serial}: {outcome:?}");
    }
    assert_eq!(refused(asked.ask(&ROOT, set(id(fit + 1), A, Some(b"")))), Errno::ENOSPC);
    asked.ask(&ROOT, Operation::Unlink { place: in_root("1") }).unwrap();
    asked.ask(&ROOT, set(id(fit + 1), A, Some(&most))).unwrap();
    asked.ask(&ROOT, set(id(2), A, None)).unwrap();
    asked.ask(&ROOT, set(id(3), b"user.b", Some(b""))).unwrap_err();
    asked.ask(&ROOT, set(id(2), A, Some(&most))).unwrap();
}
