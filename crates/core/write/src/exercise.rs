//! For fuzzing and for its corpus: the state of a tree after nodes have requested arbitrary changes.
//!
//! Bytes are a script of steps of its history. Most are spelled in a few bytes each, with files, names and numbers from small sets, so that
//! they meet. Others are messages as they travel. Requests of a node that speaks for another are skipped, as the leader does.

mod script;

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{Attributes, FileId, LogPosition};
use forebay_wire::journal::{JournalEntry, LeaderEntry, StepOutcome};
use forebay_wire::message::{Checked, decode, encode};
use forebay_wire::write::{BURST_ROOT, Done};
use serde::Deserialize;

use crate::tree::{Ahead, Refusal, Released, Tree};
use script::Script;

/// Changes of one script: a tree is checked after each.
const CHANGES_MAX: usize = 300;

/// As the standby gets it.
#[derive(Deserialize)]
struct Travelling(Tree);

impl Checked for Travelling {
    fn is_within_limits(&self) -> bool {
        true
    }
}

/// Carries out the changes of a script, and checks what must hold after each and of the tree that they make; how many were
/// carried out.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn apply(bytes: &[u8]) -> usize {
    let mut script = Script::new(bytes);
    let is_backed = script.number() & 1 == 1;
    let mut tree = empty(is_backed);
    let (mut released, mut outcomes) = (Released::default(), vec![]);
    while outcomes.len() < CHANGES_MAX
        && let Some(mut entry) = script.entry()
    {
        aim(&mut entry, &tree);
        let is_refused =
            matches!(&entry, JournalEntry::Request(change) if change.check_sender(change.id.node).is_err());
        if !entry.is_within_limits() || is_refused {
            continue;
        }
        let before = tree.clone();
        let outcome = tree.apply(&entry, &mut released);
        assert!(outcome.is_ok() || tree.is_same_but_for_results(&before), "what is refused changes nothing: {entry:?}");
        assert!(!matches!(outcome, Err(Refusal::Unlisted(_) | Refusal::Unread(_))) || tree == before);
        tree.assert_sound();
        outcomes.push((entry, outcome));
    }
    ask(&tree);
    assert_eq!(again(&outcomes, is_backed), (tree.clone(), released));
    assert_eq!(decode::<Travelling>(&encode(&tree)).map(|Travelling(tree)| tree).as_ref(), Ok(&tree));
    outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count()
}

/// Checks everything in a tree.
///
/// # Panics
/// When something does not hold.
pub fn check(tree: &Tree) {
    tree.assert_sound();
    ask(tree);
}

fn empty(is_backed: bool) -> Tree {
    Tree::new(Attributes { mode: 0o040_777, nlink: 2, ..Attributes::default() }, is_backed, 1)
}

/// The leader's word about a step is mostly about the one whose turn it is, and about the contents that are there.
fn aim(entry: &mut JournalEntry, tree: &Tree) {
    let JournalEntry::Leader(entry) = entry else { return };
    match entry {
        LeaderEntry::Landed { step, outcome } if *step < 8 => {
            let turn = tree.clone().next_landing();
            *step = turn.map_or(*step, |turn| turn.step);
            if let StepOutcome::Contents(contents) = outcome {
                contents.version = contents.version.min(4);
            }
        }
        LeaderEntry::Drained { file, drained } if drained.version < 8 => {
            drained.version = tree.state(*file).map_or(0, |state| state.version);
            drained.extents = tree.written().take(drained.extents.len()).collect();
        }
        _ => {}
    }
}

/// The tree and what it released, made by the same changes as they travel, every second one twice.
fn again(outcomes: &[(JournalEntry, Result<Done, Refusal>)], is_backed: bool) -> (Tree, Released) {
    let (mut tree, mut released) = (empty(is_backed), Released::default());
    for (index, (entry, outcome)) in outcomes.iter().enumerate() {
        let Ok(travelled) = decode::<JournalEntry>(&encode(entry)) else { panic!("{entry:?} does not travel") };
        assert_eq!(&travelled, entry);
        assert_eq!(tree.apply(&travelled, &mut released), *outcome, "{entry:?}");
        let comes_again = matches!(entry, JournalEntry::Request(change) if change.oldest <= change.id.serial);
        if index % 2 == 1 && comes_again {
            assert_eq!(tree.apply(&travelled, &mut released), *outcome, "{entry:?} again");
        }
    }
    (tree, released)
}

/// All questions to a tree that do not change it.
fn ask(tree: &Tree) {
    let files: Vec<FileId> = tree.all_files().collect();
    for file in &files {
        let size_bytes = tree.state(*file).map_or(0, |state| state.attributes.size_bytes);
        let _ = (tree.pieces(*file, 0..size_bytes), tree.pieces(*file, size_bytes / 2..u64::MAX));
        let _ = (tree.way(*file), tree.list(*file, None, usize::MAX), tree.target(*file), tree.lost_of(*file));
        let _ =
            (tree.written_ranges(*file), tree.backing_resident_of(*file), tree.sent(*file), tree.draft_number(*file));
        let _ = (tree.backing_place(*file), tree.directory_for_draft(*file), tree.next_serial_of(file.creator));
        let _ = (tree.needed_of(file.creator), tree.records_of(file.creator), tree.open_files_of(file.creator));
        let _ = (tree.extended(*file), tree.directory_of(*file));
        let at = BTreeMap::from([(file.creator, LogPosition { segment: 4, offset: 0 })]);
        let nodes = BTreeSet::from([file.creator]);
        let _ = (tree.next_drain(Ahead::OfNodes(&nodes), 100), tree.next_drain(Ahead::Old(&at), 100));
    }
    let _ = (tree.lost_files(), tree.files_not_landed(), tree.is_needed(), tree.open_and_changed());
    let _ = (tree.set_aside_places(), tree.unlinked_with_drafts());
    follow(tree.clone());
}

/// The backing file system follows a tree to its end, in as many steps as there are.
fn follow(mut tree: Tree) {
    let steps = tree.steps_to_land();
    for _ in 0..=steps {
        let turns = tree.next_landings(4, 1 << 20);
        let Some(turn) = turns.first() else { break };
        let outcome = if turn.is_over { StepOutcome::LeftOut } else { StepOutcome::Done };
        let landed = LeaderEntry::Landed { step: turn.step, outcome };
        let _ = tree.apply(&landed, &mut Released::default());
        tree.assert_sound();
    }
    assert_eq!(tree.steps_to_land(), 0, "the backing file system never gets to the end");
    assert!(tree.state(BURST_ROOT).is_ok());
}
