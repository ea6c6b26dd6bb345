//! Which pages and attributes a node leaves to its kernel.

use forebay_types::{Attributes, FileId, NodeRank, Time, Timestamp};
use forebay_wire::write::FileState;
use forebay_write::limits::PAGED_MAX;
use forebay_write::{ANSWER_TAKEN_IN, AskedFor, Dropping, LEASE_TTL, Late, Pages, Telling};

const NOW: Time = Time(0);

fn leased() -> Time {
    NOW.after(LEASE_TTL)
}

fn taken() -> Time {
    NOW.after(ANSWER_TAKEN_IN)
}

fn id(serial: u64) -> FileId {
    FileId { creator: NodeRank(1), serial }
}

/// A version with a time of its own.
fn file(serial: u64, version: u64) -> FileState {
    let mtime = time(version as i64, 0);
    FileState { file: id(serial), attributes: Attributes { mtime, ..Attributes::default() }, version }
}

fn time(seconds: i64, nanos: u32) -> Timestamp {
    Timestamp { seconds, nanos }
}

/// The first version once more, by its time of change.
fn restored() -> FileState {
    FileState { version: 2, ..file(1, 1) }
}

/// A program reads on.
fn tell(pages: &mut Pages, state: &FileState) -> Telling {
    pages.tell(NOW, state, state.attributes.mtime, AskedFor::Reading, leased())
}

fn look(pages: &mut Pages, state: &FileState) -> Telling {
    pages.tell(NOW, state, state.attributes.mtime, AskedFor::Other, leased())
}

fn fill(pages: &mut Pages, state: &FileState) {
    pages.fill(NOW, state, state.attributes.mtime);
}

/// Droppings that a change waits for.
fn dropped(pages: &mut Pages, files: &[FileId]) -> Vec<Dropping> {
    let invalidated = pages.invalidate(NOW, files, |_| false);
    assert_eq!(invalidated.late, [], "changes wait");
    invalidated.droppings
}

/// Pages of one version.
fn filled() -> Pages {
    let mut pages = Pages::default();
    fill(&mut pages, &file(1, 1));
    pages
}

#[test]
fn pages_stay_while_all_are_of_the_files_version() {
    let mut pages = Pages::default();
    assert!(pages.are_current(&file(1, 1)), "there are none");
    assert_eq!(tell(&mut pages, &file(1, 1)), Telling::Once, "nobody reads it");
    fill(&mut pages, &file(1, 1));
    assert!(pages.are_current(&file(1, 1)) && !pages.are_current(&file(1, 2)));
    assert_eq!(tell(&mut pages, &file(1, 1)), Telling::Leased);
    fill(&mut pages, &file(1, 2));
    assert!([1, 2].iter().all(|version| !pages.are_current(&file(1, *version))), "they are of two");
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Once, "the kernel sees that they are old");
    assert!(!pages.are_current(&file(1, 2)), "it may not have taken it");
}

#[test]
fn a_kernel_that_sees_a_change_drops_pages_by_itself_and_is_told_twice() {
    let mut pages = filled();
    for version in 2..9 {
        assert_eq!(tell(&mut pages, &file(1, version)), Telling::Once, "{version}");
        fill(&mut pages, &file(1, version));
        assert!(!pages.are_current(&file(1, version)), "it may not have taken it");
    }
    assert_eq!(tell(&mut pages, &file(1, 8)), Telling::Once);
    assert!(pages.are_current(&file(1, 8)));
    assert_eq!(tell(&mut pages, &file(1, 8)), Telling::Leased);
}

#[test]
fn where_the_kernel_would_see_no_change_readers_get_a_time_that_it_has_never_had() {
    // The contents changed, and somebody restored the time.
    let mut pages = filled();
    assert_eq!(tell(&mut pages, &restored()), Telling::As(time(1, 1)));
    assert_eq!(look(&mut pages, &restored()), Telling::Once, "others get the true one");
    assert!(!pages.are_current(&restored()), "it may not have taken it");
    assert_eq!(tell(&mut pages, &restored()), Telling::As(time(1, 1)), "the same once more");
    assert!(pages.are_current(&restored()));
    assert_eq!(tell(&mut pages, &restored()), Telling::Leased, "the true one, and the kernel reads once more");

    // An earlier version, whose time the kernel may have.
    let mut pages = filled();
    let _ = tell(&mut pages, &file(1, 5));
    assert_eq!(tell(&mut pages, &file(1, 3)), Telling::As(time(5, 1)));
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::As(time(5, 2)), "another change");
    assert_eq!(tell(&mut pages, &file(1, 6)), Telling::Once, "newer than all");

    // A time that ends a second.
    let mut pages = Pages::default();
    let mut end = file(1, 1);
    end.attributes.mtime.nanos = 999_999_999;
    fill(&mut pages, &end);
    assert_eq!(tell(&mut pages, &FileState { version: 2, ..end }), Telling::As(time(2, 0)));
}

#[test]
fn a_program_that_only_looks_gets_the_true_time_and_changes_nothing() {
    let mut pages = filled();
    assert_eq!(look(&mut pages, &restored()), Telling::Once);
    assert_eq!(look(&mut pages, &restored()), Telling::Once);
    assert!(!pages.are_current(&restored()), "the pages are old");
    assert_eq!(tell(&mut pages, &restored()), Telling::As(time(1, 1)));
}

#[test]
fn an_answer_waits_for_the_last_dropping() {
    let mut pages = filled();
    let [first] = dropped(&mut pages, &[id(1)])[..] else { panic!("it has pages") };
    let [second] = dropped(&mut pages, &[id(1)])[..] else { panic!("they are not dropped yet") };
    assert!(!pages.have_dropped(first), "those that came since are not dropped yet");
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::AfterDropping);
    fill(&mut pages, &file(1, 2));
    assert!(pages.have_not_dropped(second));
    assert!(!pages.are_current(&file(1, 2)), "older ones are there");

    let mut pages = filled();
    let [dropping] = dropped(&mut pages, &[id(1)])[..] else { panic!("it has pages") };
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::AfterDropping);
    assert!(pages.have_dropped(dropping));
    assert!(pages.are_current(&file(1, 2)));
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Leased);
}

/// A notification would keep the kernel from taking the answer, and with that the size.
#[test]
fn pages_are_dropped_when_no_answer_is_on_its_way() {
    // A question of a program that reads has just been answered, or is being answered.
    for is_asked in [false, true] {
        let mut pages = filled();
        let _ = if is_asked { Telling::Once } else { tell(&mut pages, &file(1, 1)) };
        let invalidated = pages.invalidate(NOW, &[id(1)], |_| is_asked);
        assert_eq!((invalidated.droppings.len(), &invalidated.late[..]), (0, &[id(1)][..]), "{is_asked}");
        assert_eq!(pages.invalidate(NOW, &[id(1)], |_| is_asked).late, [], "once is enough");
        assert_eq!(pages.drop_late(NOW, id(1), is_asked), Late::Wait);
        let Late::Drop(dropping) = pages.drop_late(taken(), id(1), false) else { panic!("no answer is on its way") };
        assert!(pages.have_dropped(dropping));
        assert_eq!(pages.drop_late(taken(), id(1), false), Late::Over);
    }

    // The kernel believes what it has: a change waits until it does no longer.
    let mut pages = filled();
    assert_eq!(tell(&mut pages, &file(1, 1)), Telling::Leased);
    pages.believe(id(1), leased());
    assert_eq!(dropped(&mut pages, &[id(1)]).len(), 1);
}

#[test]
fn where_a_change_has_not_waited_the_kernel_asks_before_pages_are_dropped() {
    let mut pages = filled();
    let invalidated = pages.invalidate(leased(), &[id(1)], |_| false);
    assert_eq!((invalidated.droppings.len(), &invalidated.late[..]), (0, &[id(1)][..]));
    assert!(!pages.are_current(&file(1, 2)));
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Once, "it sees the change");
    assert_eq!(pages.drop_late(NOW, id(1), false), Late::Wait);
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Once);
    assert_eq!(pages.drop_late(taken(), id(1), false), Late::Over, "it has dropped them itself");
    assert!(pages.are_current(&file(1, 2)));
}

#[test]
fn forgotten_entries_are_dropped_once() {
    let mut pages = filled();
    fill(&mut pages, &file(2, 1));
    let forgotten = dropped(&mut pages, &[id(3), id(1)]);
    assert_eq!(forgotten.iter().map(|dropping| dropping.file).collect::<Vec<_>>(), [id(1)]);
    assert!(!pages.are_current(&file(1, 1)) && pages.are_current(&file(2, 1)));
    assert!(pages.have_dropped(forgotten[0]));
    assert!(pages.are_current(&file(1, 2)), "there are none");
    assert_eq!(dropped(&mut pages, &[id(1)]), [], "the kernel has nothing of it");
    assert_eq!(look(&mut pages, &file(1, 2)), Telling::Leased);
    pages.believe(id(1), leased());
    assert_eq!(dropped(&mut pages, &[id(1)]).len(), 1, "it believes attributes");
    assert_eq!(dropped(&mut pages, &[]).len(), 2);
    assert_eq!(pages.forgotten(), 4);
}

#[test]
fn unknown_files_may_have_pages_after_another_daemon_or_above_the_limit() {
    let mut pages = Pages::unknown(NOW.after(LEASE_TTL));
    assert!(!pages.are_current(&file(1, 1)));
    assert_eq!(pages.other_leases_until(), NOW.after(LEASE_TTL));
    assert_eq!(dropped(&mut pages, &[id(1)]).len(), 1, "it may believe what the daemon before has told");
    assert_eq!(pages.invalidate(leased(), &[id(1)], |_| false).droppings, []);
    fill(&mut pages, &file(1, 1));
    assert!(!pages.are_current(&file(1, 1)), "there may be others");
    // The kernel may have any true time from the daemon before.
    for _ in 0..2 {
        let Telling::As(time) = tell(&mut pages, &file(1, 1)) else { panic!("there may be others") };
        assert_ne!(time, file(1, 1).attributes.mtime);
    }
    assert_eq!(tell(&mut pages, &file(1, 1)), Telling::Leased);
    assert_eq!(tell(&mut pages, &file(1, 3)), Telling::Once, "newer than all");

    let mut pages = Pages::default();
    (0..=PAGED_MAX as u64).for_each(|serial| fill(&mut pages, &file(serial, 1)));
    assert!(!pages.are_current(&file(0, 1)) && !pages.are_current(&file(PAGED_MAX as u64 + 1, 1)));
}

#[test]
fn the_kernel_sees_no_change_where_it_was_told_other_attributes() {
    // By the answer to a change of attributes, for which it drops nothing.
    let mut pages = filled();
    pages.answer_change(id(1), file(1, 2).attributes.mtime);
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::As(time(2, 1)));
    let mut pages = filled();
    pages.answer_change(id(1), file(1, 2).attributes.mtime);
    assert_eq!(tell(&mut pages, &file(1, 3)), Telling::Once, "it sees that");

    // With what this node's programs have written: another node's change looks like nothing.
    let (mut pages, shown) = (Pages::default(), file(1, 9).attributes.mtime);
    pages.fill(NOW, &file(1, 1), shown);
    assert_eq!(pages.tell(NOW, &file(1, 2), shown, AskedFor::Reading, leased()), Telling::As(time(9, 1)));
}
