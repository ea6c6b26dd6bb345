//! Which pages and attributes a node leaves to its kernel.

use forebay_types::{Attributes, FileId, NodeRank, Time, Timestamp};
use forebay_wire::write::FileState;
use forebay_write::limits::PAGED_MAX;
use forebay_write::{Dropping, LEASE_TTL, Pages, Shown, Telling};

const NOW: Time = Time(0);

fn leased() -> Time {
    NOW.after(LEASE_TTL)
}

fn id(serial: u64) -> FileId {
    FileId { creator: NodeRank(1), serial }
}

/// A version with a time of its own.
fn file(serial: u64, version: u64) -> FileState {
    let mtime = Timestamp { seconds: version as i64, nanos: 0 };
    FileState { file: id(serial), attributes: Attributes { mtime, ..Attributes::default() }, version }
}

fn tell(pages: &mut Pages, state: &FileState) -> Telling {
    pages.tell(NOW, state, Shown::from(&state.attributes), leased())
}

fn fill(pages: &mut Pages, state: &FileState) {
    pages.fill(NOW, state, Shown::from(&state.attributes));
}

/// Droppings that a change waits for.
fn dropped(pages: &mut Pages, files: &[FileId]) -> Vec<Dropping> {
    let invalidated = pages.invalidate(NOW, files);
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

/// A notification would come before the kernel has taken the answer, and with that how large the file is.
#[test]
fn no_notification_follows_an_answer_that_is_newer_than_all_before() {
    let mut pages = filled();
    for version in 2..9 {
        assert_eq!(tell(&mut pages, &file(1, version)), Telling::Once, "{version}");
        fill(&mut pages, &file(1, version));
    }
    assert!(matches!(tell(&mut pages, &file(1, 3)), Telling::ThenDrop(_)), "the kernel may have that time");

    // The kernel may have any time from the daemon before.
    let mut pages = Pages::unknown(leased());
    fill(&mut pages, &file(1, 1));
    assert!(matches!(tell(&mut pages, &file(1, 2)), Telling::ThenDrop(_)));
}

#[test]
fn a_kernel_that_sees_a_change_drops_pages_by_itself_and_is_told_twice() {
    let mut pages = filled();
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Once);
    assert!(!pages.are_current(&file(1, 2)), "it may not have taken it");
    fill(&mut pages, &file(1, 2));
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Once);
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Leased);

    let mut pages = filled();
    let _ = tell(&mut pages, &file(1, 2));
    assert!(matches!(tell(&mut pages, &file(1, 1)), Telling::ThenDrop(_)), "its time is what it was");
}

#[test]
fn pages_are_dropped_first_where_the_kernel_sees_no_change() {
    let mut pages = filled();
    let mut restored = file(1, 1);
    restored.version = 2;
    let Telling::Dropped(dropping) = tell(&mut pages, &restored) else { panic!("it sees none") };
    assert_eq!(tell(&mut pages, &restored), Telling::AfterDropping, "the kernel would go on with them");
    assert!(pages.have_dropped(dropping));
    assert!(pages.are_current(&restored));
    assert_eq!(tell(&mut pages, &restored), Telling::Leased);

    let mut pages = filled();
    let Telling::Dropped(dropping) = tell(&mut pages, &restored) else { panic!("it sees none") };
    fill(&mut pages, &file(1, 1));
    assert!(pages.have_dropped(dropping));
    assert!(!pages.are_current(&restored), "an older page came");
}

#[test]
fn an_answer_waits_for_the_last_dropping() {
    let mut pages = filled();
    let [first] = dropped(&mut pages, &[id(1)])[..] else { panic!("it has pages") };
    let [second] = dropped(&mut pages, &[id(1)])[..] else { panic!("they are not dropped yet") };
    assert!(!pages.have_dropped(first), "those that came since are not dropped yet");
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::AfterDropping);
    assert!(pages.have_dropped(second));
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Leased);

    fill(&mut pages, &file(1, 2));
    let [third] = dropped(&mut pages, &[id(1)])[..] else { panic!("it has pages") };
    assert!(pages.have_not_dropped(third));
    assert!(matches!(tell(&mut pages, &file(1, 2)), Telling::Dropped(_)), "they are dropped once more");
}

#[test]
fn where_a_change_has_not_waited_the_kernel_asks_before_pages_are_dropped() {
    let mut pages = filled();
    let invalidated = pages.invalidate(leased(), &[id(1)]);
    assert_eq!((invalidated.droppings.len(), &invalidated.late[..]), (0, &[id(1)][..]));
    assert!(!pages.are_current(&file(1, 2)));
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Once, "it sees the change");
    let dropping = pages.drop_of(leased(), id(1)).expect("there are pages");
    assert!(pages.have_dropped(dropping));
    assert_eq!(pages.drop_of(leased(), id(1)), None);
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
    assert_eq!(tell(&mut pages, &file(1, 2)), Telling::Leased);
    pages.believe(id(1));
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
    assert_eq!(pages.invalidate(leased(), &[id(1)]).droppings, []);
    fill(&mut pages, &file(1, 1));
    assert!(!pages.are_current(&file(1, 1)), "there may be others");
    let Telling::ThenDrop(dropping) = tell(&mut pages, &file(1, 1)) else { panic!("there may be others") };
    assert!(pages.have_dropped(dropping));
    fill(&mut pages, &file(1, 1));
    assert_eq!(tell(&mut pages, &file(1, 1)), Telling::Leased);

    let mut pages = Pages::default();
    (0..=PAGED_MAX as u64).for_each(|serial| fill(&mut pages, &file(serial, 1)));
    assert!(!pages.are_current(&file(0, 1)) && !pages.are_current(&file(PAGED_MAX as u64 + 1, 1)));
}

#[test]
fn pages_are_dropped_first_where_the_kernel_was_told_other_attributes() {
    // By the answer to a change of attributes, for which it drops nothing.
    let mut pages = filled();
    pages.answer_change(id(1), Shown::from(&file(1, 2).attributes));
    assert!(matches!(tell(&mut pages, &file(1, 2)), Telling::Dropped(_)));
    let mut pages = filled();
    pages.answer_change(id(1), Shown::from(&file(1, 2).attributes));
    assert_eq!(tell(&mut pages, &file(1, 3)), Telling::Once, "it sees that");

    // With what this node's programs have written: another node's change looks like nothing.
    let (mut pages, shown) = (Pages::default(), Shown::from(&file(1, 9).attributes));
    assert_eq!(pages.tell(NOW, &file(1, 1), shown, leased()), Telling::Once);
    pages.fill(NOW, &file(1, 1), shown);
    assert!(matches!(pages.tell(NOW, &file(1, 2), shown, leased()), Telling::Dropped(_)));
}

#[test]
fn pages_of_several_versions_are_dropped_first_where_the_kernel_sees_no_change() {
    let mut pages = filled();
    let _ = tell(&mut pages, &file(1, 1));
    let mut restored = file(1, 1);
    restored.version = 2;
    fill(&mut pages, &restored);
    assert!(matches!(tell(&mut pages, &restored), Telling::Dropped(_)));
}
