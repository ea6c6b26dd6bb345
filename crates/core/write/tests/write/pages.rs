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
    let mtime = Timestamp { seconds: version as i64, nanos: 0 };
    FileState { file: id(serial), attributes: Attributes { mtime, ..Attributes::default() }, version }
}

/// The first version once more, by its time of change.
fn restored() -> FileState {
    FileState { version: 2, ..file(1, 1) }
}

/// A program reads on.
fn tell(pages: &mut Pages, state: &FileState) -> Telling {
    pages.tell(NOW, state, AskedFor::Reading, leased())
}

#[track_caller]
fn dropped_before(pages: &mut Pages, state: &FileState) -> Dropping {
    match tell(pages, state) {
        Telling::Dropped(dropping) => dropping,
        other => panic!("{other:?}"),
    }
}

fn look(pages: &mut Pages, state: &FileState) -> Telling {
    pages.tell(NOW, state, AskedFor::Other, leased())
}

fn fill(pages: &mut Pages, state: &FileState) {
    pages.fill(NOW, state);
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
}

/// The kernel may not take an answer, by which it would drop them itself.
#[test]
fn old_pages_are_dropped_before_a_program_reads_on() {
    for state in [file(1, 2), restored()] {
        let mut pages = filled();
        let dropping = dropped_before(&mut pages, &state);
        assert!(!pages.are_current(&state), "they are still there");
        fill(&mut pages, &state);
        pages.have_dropped(dropping);
        assert!(pages.are_current(&state), "those that came meanwhile are of that version, whether or not they stay");
        assert_eq!(tell(&mut pages, &state), Telling::Leased);
    }

    let mut pages = filled();
    let dropping = dropped_before(&mut pages, &file(1, 2));
    fill(&mut pages, &file(1, 1));
    pages.have_dropped(dropping);
    assert!(!pages.are_current(&file(1, 2)), "an older page came");
    let dropping = dropped_before(&mut pages, &file(1, 2));
    pages.have_not_dropped(dropping);
    let _ = dropped_before(&mut pages, &file(1, 2));
}

#[test]
fn a_program_that_only_looks_waits_for_nothing_and_changes_nothing() {
    let mut pages = filled();
    assert_eq!(look(&mut pages, &restored()), Telling::Once);
    assert_eq!(look(&mut pages, &restored()), Telling::Once);
    assert!(!pages.are_current(&restored()), "the pages are old");
    let dropping = dropped_before(&mut pages, &restored());
    assert_eq!(look(&mut pages, &restored()), Telling::Once);
    pages.have_dropped(dropping);
    assert_eq!(look(&mut pages, &restored()), Telling::Leased);
}

/// A dropping brings along the size that the file had.
#[test]
fn programs_that_read_the_same_version_wait_for_one_dropping() {
    let mut pages = filled();
    let first = dropped_before(&mut pages, &file(1, 2));
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::After(first));
    let second = dropped_before(&mut pages, &file(1, 3));
    assert_ne!(first, second);
    pages.have_dropped(first);
    assert!(!pages.are_current(&file(1, 3)), "those that came since are not dropped yet");
    assert_eq!(tell(&mut pages, &file(1, 3)), Telling::After(second));
    pages.have_dropped(second);
    assert_eq!(tell(&mut pages, &file(1, 3)), Telling::Leased);

    // One that a change waits for brings no size.
    let mut pages = filled();
    let [of_change] = dropped(&mut pages, &[id(1)])[..] else { panic!("it has pages") };
    let of_reader = dropped_before(&mut pages, &file(1, 2));
    pages.have_dropped(of_change);
    pages.have_dropped(of_reader);
    assert!(pages.are_current(&file(1, 2)));
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
        pages.have_dropped(dropping);
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
    let dropping = dropped_before(&mut pages, &file(1, 2));
    pages.have_dropped(dropping);
    assert_eq!(pages.drop_late(taken(), id(1), false), Late::Over, "a program has read");
}

#[test]
fn forgotten_entries_are_dropped_once() {
    let mut pages = filled();
    fill(&mut pages, &file(2, 1));
    let forgotten = dropped(&mut pages, &[id(3), id(1)]);
    assert_eq!(forgotten.iter().map(|dropping| dropping.file).collect::<Vec<_>>(), [id(1)]);
    assert!(!pages.are_current(&file(1, 1)) && pages.are_current(&file(2, 1)));
    pages.have_dropped(forgotten[0]);
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
    let dropping = dropped_before(&mut pages, &file(1, 1));
    pages.have_dropped(dropping);
    assert_eq!(tell(&mut pages, &file(1, 1)), Telling::Leased);
    let _ = dropped_before(&mut pages, &file(2, 1));

    let mut pages = Pages::default();
    (0..=PAGED_MAX as u64).for_each(|serial| fill(&mut pages, &file(serial, 1)));
    assert!(!pages.are_current(&file(0, 1)) && !pages.are_current(&file(PAGED_MAX as u64 + 1, 1)));
}
