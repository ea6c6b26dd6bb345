//! The backing file system follows the tree.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{FileId, Kind, NodeRank, Rights};
use forebay_wire::journal::{Drained, JournalEntry, LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::write::{BURST_ROOT, Operation, Place, RenameRule};
use forebay_write::{Action, Ahead, Drain, Released, Removable, Tree, Turn};
use proptest::prelude::*;

use crate::tree::replay::operation;
use crate::tree::support::{Asked, ROOT, backed, create, id, in_root};

/// A backing file system: what is at which place, with which contents. It refuses what a real one refuses.
#[derive(Default)]
pub struct Backing {
    pub places: BTreeMap<Place, (FileId, u64)>,
    directories: BTreeSet<FileId>,
    /// In which directory files have drafts.
    pub drafts: BTreeMap<FileId, FileId>,
}

impl Backing {
    fn follow(&mut self, action: &Action) {
        match action.clone() {
            Action::Make { file, kind, place } => {
                assert!(!self.places.contains_key(&place), "{place:?} is taken");
                if kind == Kind::Directory {
                    self.directories.insert(file);
                }
                self.places.insert(place, (file, 0));
            }
            Action::Publish { file, version, places } => {
                self.drafts.remove(&file);
                self.places.extend(places.into_iter().map(|place| (place, (file, version))));
            }
            Action::Update { file, version, place } => {
                assert_eq!(self.places[&place].0, file);
                self.update(file, version);
            }
            Action::UpdateUnnamed { file, version } => {
                assert!(self.drafts.contains_key(&file));
                self.update(file, version);
            }
            Action::Link { from, to, .. } => {
                assert!(!self.places.contains_key(&to), "{to:?} is taken");
                let linked = self.places[&from];
                self.places.insert(to, linked);
            }
            Action::Rename { from, to, is_exchange } => {
                let moved = self.places.remove(&from).expect("what is renamed is there");
                let replaced = self.places.insert(to, moved);
                match (is_exchange, replaced) {
                    (true, replaced) => drop(self.places.insert(from, replaced.expect("what is exchanged is there"))),
                    (false, Some((replaced, _))) => self.check_empty(replaced),
                    (false, None) => {}
                }
            }
            Action::Remove { place, is_directory } => {
                let (removed, _) = self.places.remove(&place).expect("what is removed is there");
                assert_eq!(self.directories.contains(&removed), is_directory);
                self.check_empty(removed);
            }
            Action::SetAttributes { file, place: Some(place) } => assert_eq!(self.places[&place].0, file),
            Action::SetAttributes { file, place: None } => assert_eq!(file, BURST_ROOT),
            Action::Discard { file, directory } => assert_eq!(self.drafts.remove(&file), Some(directory)),
        }
    }

    /// A file changes by all its names.
    fn update(&mut self, file: FileId, version: u64) {
        self.places.values_mut().filter(|(at, _)| *at == file).for_each(|(_, contents)| *contents = version);
    }

    /// Drafts in a directory that goes move to the root.
    fn save_drafts(&mut self, tree: &Tree, action: &Action) {
        let (Action::Remove { place, .. } | Action::Rename { to: place, is_exchange: false, .. }) = action else {
            return;
        };
        for file in tree.drafts_at(place) {
            assert_eq!(Some(self.drafts[&file]), self.places.get(place).map(|(directory, _)| *directory));
            self.drafts.insert(file, BURST_ROOT);
        }
    }

    fn check_empty(&self, directory: FileId) {
        let within = self.places.keys().find(|place| place.directory == directory);
        assert_eq!(within, None, "{directory} is removed and not empty");
        assert!(!self.drafts.values().any(|within| *within == directory), "{directory} is removed and has drafts");
    }
}

/// A step that was done and is not noted yet.
pub type UnderWay = Option<(u64, StepOutcome)>;

fn note(asked: &mut Asked, under_way: &mut UnderWay) {
    if let Some((step, outcome)) = under_way.take() {
        asked.note(LeaderEntry::Landed { step, outcome }).unwrap();
    }
}

/// Follows up to `count` steps; the last one is noted with the next call.
pub fn follow(asked: &mut Asked, backing: &mut Backing, under_way: &mut UnderWay, count: usize) {
    for _ in 0..count {
        note(asked, under_way);
        let Some(Turn { step, action, is_over }) = asked.tree.next_landing() else {
            if asked.tree.has_files_to_let_go() {
                let step = asked.tree.steps_end();
                asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::LeftOut }).unwrap();
                continue;
            }
            return;
        };
        let outcome = match &action {
            _ if is_over => StepOutcome::LeftOut,
            Action::Publish { file, version, .. }
            | Action::Update { file, version, .. }
            | Action::UpdateUnnamed { file, version } => {
                let backed = backed(file.serial);
                StepOutcome::Contents(LandedContents { version: *version, backed, blocks: 1 })
            }
            Action::Make { file, .. } => StepOutcome::Made(backed(file.serial)),
            _ => StepOutcome::Done,
        };
        if let Action::Publish { file, .. } = &action
            && !is_over
        {
            draft(asked, backing, *file);
        }
        if !is_over {
            keep_unlinked(asked, backing, &action);
            backing.save_drafts(&asked.tree, &action);
            backing.follow(&action);
        }
        *under_way = Some((step, outcome));
    }
}

/// Follows all.
fn follow_all(asked: &mut Asked, backing: &mut Backing) {
    follow(asked, backing, &mut None, usize::MAX);
}

/// A file with other names that loses the last one which the tree knows, and is needed, stays as its draft.
fn keep_unlinked(asked: &mut Asked, backing: &mut Backing, action: &Action) {
    let places = match action {
        Action::Remove { place, .. } | Action::Rename { to: place, is_exchange: false, .. } => {
            std::slice::from_ref(place)
        }
        Action::Publish { places, .. } => places,
        _ => return,
    };
    for place in places {
        let file = asked.tree.unlinked_at(place).filter(|file| asked.tree.has_names_elsewhere(*file));
        if let Some(file) = file.filter(|file| asked.tree.draft(*file).is_none()) {
            let directory = place.directory;
            asked.note(LeaderEntry::Drafting { file, directory }).unwrap();
            backing.drafts.insert(file, directory);
        }
    }
}

/// A file gets a draft if it has none.
fn draft(asked: &mut Asked, backing: &mut Backing, file: FileId) {
    if asked.tree.draft(file).is_none() {
        let directory = asked.tree.directory_for_draft(file);
        assert!(directory == BURST_ROOT || backing.places.values().any(|(file, _)| *file == directory));
        asked.note(LeaderEntry::Drafting { file, directory }).unwrap();
        backing.drafts.insert(file, directory);
    }
}

/// The daemon dies before what it has drafted is published.
fn draft_and_die(asked: &mut Asked, backing: &mut Backing) {
    if let Some(Turn { action: Action::Publish { file, .. }, is_over: false, .. }) = asked.tree.next_landing() {
        draft(asked, backing, file);
    }
}

/// Others have changed in place what is to be updated next: it is theirs from now on.
fn copy_on_conflict(asked: &mut Asked, backing: &mut Backing) {
    let Some(Turn { action: Action::Update { file, .. }, is_over: false, .. }) = asked.tree.next_landing() else {
        return;
    };
    let base = asked.tree.backing_resident_of(file);
    if !base.is_empty() {
        draft(asked, backing, file);
    }
    let copied_on_conflict = (!base.is_empty()).then(|| backed(1));
    asked
        .note(LeaderEntry::CopiedOnConflict { file, draft: copied_on_conflict, bytes: 1, rights: Rights::default() })
        .unwrap();
    backing.places.retain(|_, (there, _)| *there != file);
    assert_eq!((asked.tree.backing_place(file), asked.tree.backed(file)), (None, copied_on_conflict));
}

/// Sends ahead what open files have.
fn drain(asked: &mut Asked, backing: &mut Backing) {
    let Some(drain) = asked.tree.next_drain(Ahead::OfNodes(&BTreeSet::from([NodeRank(0)])), 20) else { return };
    if !drain.is_there {
        draft(asked, backing, drain.file);
    }
    let Drain { file, version, size_bytes, extents, .. } = drain;
    let drained = Drained { version, size_bytes, backed: backed(0), extents, is_kept: false };
    asked.note(LeaderEntry::Drained { file, drained }).unwrap();
}

/// Files that are gone go before their turn.
fn make_room(asked: &mut Asked, backing: &mut Backing) {
    for Removable { place, file, .. } in asked.tree.removable(u64::MAX, 2, u64::MAX) {
        assert!(asked.tree.state(file).is_err(), "only what programs have removed goes");
        assert_eq!(backing.places.remove(&place).map(|(there, _)| there), Some(file));
        assert!(!backing.places.values().any(|(there, _)| *there == file), "it has no other name");
        asked.note(LeaderEntry::NotThere { place }).unwrap();
    }
}

/// All names of the tree, with what the backing file system should have there.
pub fn names(tree: &Tree) -> BTreeMap<Place, (FileId, u64)> {
    let mut names = BTreeMap::new();
    let mut todo = vec![BURST_ROOT];
    while let Some(directory) = todo.pop() {
        for listed in tree.list(directory, None, usize::MAX).unwrap() {
            let (file, kind) = (listed.state.file, listed.state.attributes.kind());
            let version = if kind == Kind::File { listed.state.version } else { 0 };
            names.insert(Place { directory, name: listed.name }, (file, version));
            todo.extend((kind == Kind::Directory).then_some(file));
        }
    }
    names
}

proptest! {
    #[test]
    fn what_has_landed_is_the_tree(
        operations in prop::collection::vec((operation(), 0..7_usize), 1..120),
    ) {
        let (mut asked, mut backing, mut under_way) = (Asked::new(), Backing::default(), None);
        let mut made = BTreeSet::new();
        for (operation, steps) in operations {
            if matches!(&operation, Operation::Create { file, .. } if !made.insert(*file)) {
                continue;
            }
            let _ = asked.ask(&ROOT, operation);
            if steps < 3 {
                follow(&mut asked, &mut backing, &mut under_way, steps);
                continue;
            }
            // A step that was done is noted before the next begins.
            note(&mut asked, &mut under_way);
            let begin = [drain, draft_and_die, copy_on_conflict, make_room][steps - 3];
            begin(&mut asked, &mut backing);
        }
        for node in 0..8 {
            let _ = asked.ask_of(NodeRank(node), &ROOT, Operation::CloseAll);
        }
        follow(&mut asked, &mut backing, &mut under_way, usize::MAX);
        prop_assert_eq!(backing.places, names(&asked.tree));
        prop_assert_eq!(asked.tree.steps_to_land(), 0);
        prop_assert_eq!(backing.drafts, BTreeMap::new());
        let there: BTreeSet<FileId> = names(&asked.tree).into_values().map(|(file, _)| file).collect();
        prop_assert!(made.iter().all(|file| asked.tree.backed(*file).is_some() == there.contains(file)));
    }

    /// Half of the changes have landed when the others find no room, and `steps` of these come before each time that room is made.
    #[test]
    fn removals_before_their_turn_change_nothing_in_the_end(
        operations in prop::collection::vec(operation(), 2..120),
        steps in 0..4_usize,
    ) {
        let (mut asked, mut backing, mut under_way) = (Asked::new(), Backing::default(), None);
        let mut made = BTreeSet::new();
        let (landed, to_land) = operations.split_at(operations.len() / 2);
        for operations in [landed, to_land] {
            follow_all(&mut asked, &mut backing);
            for operation in operations {
                if !matches!(operation, Operation::Create { file, .. } if !made.insert(*file)) {
                    let _ = asked.ask(&ROOT, operation.clone());
                }
            }
            for node in 0..8 {
                let _ = asked.ask_of(NodeRank(node), &ROOT, Operation::CloseAll);
            }
        }
        while asked.tree.steps_to_land() > 0 {
            note(&mut asked, &mut under_way);
            make_room(&mut asked, &mut backing);
            follow(&mut asked, &mut backing, &mut under_way, 1 + steps);
        }
        note(&mut asked, &mut under_way);
        prop_assert_eq!(backing.places, names(&asked.tree));
        let there: BTreeSet<FileId> = names(&asked.tree).into_values().map(|(file, _)| file).collect();
        prop_assert!(made.iter().all(|file| asked.tree.backed(*file).is_some() == there.contains(file)));
    }
}

/// The step that waits for room stays the first one. Files that are open or have another name stay, too.
#[test]
fn removed_files_may_go_before_what_waits_for_room() {
    let (mut asked, mut backing) = (Asked::new(), Backing::default());
    for (serial, name) in (1..).zip(["old", "older", "twice", "again", "open", "there"]) {
        asked.make(&ROOT, in_root(name), serial, 0o100_644).unwrap();
    }
    asked.ask(&ROOT, Operation::Link { file: id(3), place: in_root("second") }).unwrap();
    follow_all(&mut asked, &mut backing);
    asked.make(&ROOT, in_root("new"), 7, 0o100_644).unwrap();
    asked.ask_of(NodeRank(1), &ROOT, Operation::Open { file: id(5) }).unwrap();
    for name in ["old", "older", "twice", "again", "open"] {
        asked.ask(&ROOT, Operation::Unlink { place: in_root(name) }).unwrap();
    }
    asked.make(&ROOT, in_root("again"), 8, 0o100_644).unwrap();
    let end = asked.tree.steps_end();
    let names_of = |asked: &Asked, end, count, bytes| {
        asked.tree.removable(end, count, bytes).into_iter().map(|found| found.place.name).collect::<Vec<_>>()
    };
    let expected = ["old", "older", "again"].map(|name| in_root(name).name);
    assert_eq!(names_of(&asked, end, 9, u64::MAX), expected);
    assert_eq!(names_of(&asked, end, 2, u64::MAX), expected[..2], "so many at most");
    assert_eq!(names_of(&asked, end, 9, 1), expected[..1], "no more than are needed");
    let first = asked.tree.next_landing().unwrap().step;
    assert!(names_of(&asked, first + 1, 9, u64::MAX).is_empty(), "nor any that is not to land yet");
    make_room(&mut asked, &mut backing);
    assert_eq!(asked.tree.next_landing().unwrap().step, first, "the order of all others stays");
    follow_all(&mut asked, &mut backing);
    // An open file stays until it is closed.
    let _ = asked.ask_of(NodeRank(1), &ROOT, Operation::CloseAll);
    follow_all(&mut asked, &mut backing);
    assert_eq!(backing.places, names(&asked.tree));
}

#[test]
fn a_checkpoint_that_replaces_the_last_one_does_so_at_once() {
    let (mut asked, mut backing) = (Asked::new(), Backing::default());
    asked.make(&ROOT, in_root("latest"), 1, 0o100_644).unwrap();
    follow_all(&mut asked, &mut backing);
    let opened = |place, serial| match create(place, serial, 0o100_644) {
        Operation::Create { place, file, mode, rdev, target, is_exclusive, .. } => {
            Operation::Create { place, file, mode, rdev, target, is_exclusive, is_opened: true }
        }
        other => other,
    };
    asked.ask_of(NodeRank(1), &ROOT, Operation::Open { file: id(1) }).unwrap();
    asked.ask(&ROOT, opened(in_root("new"), 2)).unwrap();
    let (from, to) = (in_root("new"), in_root("latest"));
    asked.ask(&ROOT, Operation::Rename { from, to, rule: RenameRule::Replace }).unwrap();
    follow_all(&mut asked, &mut backing);
    assert_eq!(backing.places[&in_root("latest")].0, id(1), "the last one stays until the new one is whole");
    assert_eq!(asked.tree.backing_place(id(1)), Some(&in_root("latest")), "who has it open reads it there");
    asked.ask_of(NodeRank(0), &ROOT, Operation::Close { file: id(2), handle: 0 }).unwrap();
    let publication = asked.tree.next_landing().unwrap().action;
    assert!(matches!(publication, Action::Publish { places, .. } if places == [in_root("latest")]));
    assert_eq!(asked.tree.unlinked_at(&in_root("latest")), Some(id(1)), "and goes on when it is replaced");
    follow_all(&mut asked, &mut backing);
    assert_eq!(asked.tree.backing_place(id(1)), None);
    assert_eq!(backing.places.keys().collect::<Vec<_>>(), [&in_root("latest")]);
}

/// Its place there shows it until the file that replaced it is whole, wherever that place is moved.
#[test]
fn a_replaced_file_that_is_open_is_read_where_its_place_was_exchanged_to() {
    let (mut asked, mut backing) = (Asked::new(), Backing::default());
    asked.make(&ROOT, in_root("kept"), 1, 0o100_644).unwrap();
    asked.make(&ROOT, in_root("other"), 2, 0o100_644).unwrap();
    follow_all(&mut asked, &mut backing);
    asked.ask_of(NodeRank(1), &ROOT, Operation::Open { file: id(1) }).unwrap();
    let Operation::Create { place, file, mode, rdev, target, is_exclusive, .. } = create(in_root("new"), 3, 0o100_644)
    else {
        panic!("a file is created")
    };
    let opened = Operation::Create { place, file, mode, rdev, target, is_exclusive, is_opened: true };
    asked.ask(&ROOT, opened).unwrap();
    for (from, to, rule) in [("new", "kept", RenameRule::Replace), ("other", "kept", RenameRule::Exchange)] {
        asked.ask(&ROOT, Operation::Rename { from: in_root(from), to: in_root(to), rule }).unwrap();
    }
    follow_all(&mut asked, &mut backing);
    assert_eq!(backing.places[&in_root("other")].0, id(1), "the new one is not whole");
    assert_eq!(asked.tree.backing_place(id(1)), Some(&in_root("other")));
    asked.ask_of(NodeRank(0), &ROOT, Operation::Close { file: id(3), handle: 0 }).unwrap();
    follow_all(&mut asked, &mut backing);
    assert_eq!(backing.places, names(&asked.tree));
}

#[test]
fn contents_that_change_while_they_land_stay_in_the_logs() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, 0o100_644).unwrap();
    let Turn { step, .. } = asked.tree.next_landing().unwrap();
    asked.ask(&ROOT, Operation::Open { file: id(1) }).unwrap();
    let position = forebay_types::LogPosition { segment: 1, offset: 0 };
    let extent = forebay_wire::write::WrittenExtent { offset: 0, len: 5, node: NodeRank(0), position, skip: 0 };
    let at = forebay_wire::write::CommitAt::Start;
    asked.ask(&ROOT, Operation::Commit { file: id(1), extents: vec![extent], at }).unwrap();
    assert!(asked.tree.next_landing().is_some_and(|turn| turn.is_over), "newer contents are to come");
    asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::LeftOut }).unwrap();
    assert_eq!(asked.tree.next_landing(), None);
    assert_eq!(asked.released.extents, []);
    asked.ask(&ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    let Turn { step, action, is_over } = asked.tree.next_landing().unwrap();
    assert!(matches!(action, Action::Publish { .. }) && !is_over);
    let contents = LandedContents { version: asked.tree.state(id(1)).unwrap().version, backed: backed(0), blocks: 1 };
    asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::Contents(contents) }).unwrap();
    assert_eq!(asked.released.extents, [extent], "what has landed may go");
}

/// The daemon died after a file had appeared, before it could say so, and the file is removed meanwhile: the next one finds it there.
#[test]
fn an_unnoted_published_file_goes_with_its_name() {
    let mut asked = Asked::new();
    asked.make(&ROOT, in_root("a"), 1, 0o100_644).unwrap();
    let there = backed(77);
    asked.note(LeaderEntry::Publishing { file: id(1), backed: there }).unwrap();
    asked.ask(&ROOT, Operation::Unlink { place: in_root("a") }).unwrap();
    let turn = asked.tree.next_landing().unwrap();
    assert!(matches!(turn.action, Action::Publish { .. }) && turn.is_over);
    let mut left_out = asked.tree.clone();
    assert_eq!(asked.tree.backed(id(1)), Some(there));
    asked.note(LeaderEntry::Landed { step: turn.step, outcome: StepOutcome::Done }).unwrap();
    let Turn { action, is_over, .. } = asked.tree.next_landing().unwrap();
    assert_eq!((action, is_over), (Action::Remove { place: in_root("a"), is_directory: false }, false));
    assert_eq!(asked.tree.backed_at(&in_root("a")), Some(there), "only this is removed");
    left_out.apply(&landed(turn.step), &mut Released::default()).unwrap();
    assert_eq!((left_out.next_landing(), left_out.backed(id(1))), (None, None), "what did not appear is not removed");
}

/// The same where a node is lost meanwhile that has some of it: it lands anew when the node is back.
#[test]
fn an_unnoted_published_file_lands_again_when_its_node_is_back() {
    let mut asked = Asked::new();
    let Operation::Create { place, file, mode, rdev, target, is_exclusive, .. } = create(in_root("a"), 1, 0o100_644)
    else {
        panic!("a file is created")
    };
    let opened = Operation::Create { place, file, mode, rdev, target, is_exclusive, is_opened: true };
    asked.ask_of(NodeRank(3), &ROOT, opened).unwrap();
    let position = forebay_types::LogPosition { segment: 1, offset: 0 };
    let extent = forebay_wire::write::WrittenExtent { offset: 0, len: 5, node: NodeRank(3), position, skip: 0 };
    let at = forebay_wire::write::CommitAt::Start;
    asked.ask_of(NodeRank(3), &ROOT, Operation::Commit { file, extents: vec![extent], at }).unwrap();
    asked.ask_of(NodeRank(3), &ROOT, Operation::Close { file, handle: 0 }).unwrap();
    let there = backed(77);
    asked.note(LeaderEntry::Publishing { file: id(1), backed: there }).unwrap();
    asked.note(LeaderEntry::Lost { nodes: vec![NodeRank(3)] }).unwrap();
    let Turn { step, is_over, .. } = asked.tree.next_landing().unwrap();
    assert!(is_over);
    asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::Done }).unwrap();
    asked.note(LeaderEntry::Lost { nodes: vec![] }).unwrap();
    let Turn { action, is_over, .. } = asked.tree.next_landing().unwrap();
    assert!(matches!(action, Action::Update { .. }) && !is_over, "{action:?}");
}

fn landed(step: u64) -> JournalEntry {
    LeaderEntry::Landed { step, outcome: StepOutcome::LeftOut }.into()
}
