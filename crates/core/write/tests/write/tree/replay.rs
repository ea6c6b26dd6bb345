//! Random operations: the tree stays a tree, and the same operations make the same one.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::support::{Asked, ROOT, create, empty, id, within};
use forebay_types::{FileId, Kind, LogPosition, NodeRank};
use forebay_wire::write::{AttributeChanges, BURST_ROOT, CommitAt, Operation, Place, RenameRule, WrittenExtent};
use forebay_write::{Released, Tree};
use proptest::prelude::*;

/// Directories that operations choose from, by number; most names are met often.
pub const FILES: u64 = 40;

fn place() -> impl Strategy<Value = Place> {
    (0..FILES, 0..5_u8).prop_map(|(directory, name)| {
        let directory = if directory < 8 { BURST_ROOT } else { id(directory) };
        within(directory, &name.to_string())
    })
}

pub fn operation() -> impl Strategy<Value = Operation> {
    let mode = prop_oneof![Just(0o100_644_u32), Just(0o040_755), Just(0o120_777)];
    let rule = prop_oneof![Just(RenameRule::Replace), Just(RenameRule::Keep), Just(RenameRule::Exchange)];
    let file = || (1..FILES).prop_map(id);
    prop_oneof![
        8 => (place(), 1..FILES, mode).prop_map(|(place, serial, mode)| create(place, serial, mode)),
        2 => (place(), file()).prop_map(|(place, file)| Operation::Link { file, place }),
        2 => place().prop_map(|place| Operation::Unlink { place }),
        1 => place().prop_map(|place| Operation::RemoveDirectory { place }),
        6 => (place(), place(), rule).prop_map(|(from, to, rule)| Operation::Rename { from, to, rule }),
        1 => (1..FILES, any::<bool>()).prop_map(|(serial, may_be_named)| {
            Operation::CreateUnnamed { directory: BURST_ROOT, file: id(serial), mode: 0o600, may_be_named }
        }),
        1 => file().prop_map(|file| Operation::Open { file }),
        1 => file().prop_map(|file| Operation::Close { file, handle: 0 }),
        3 => (file(), 0..50_u64, 1..9_u64).prop_map(|(file, offset, len)| commit(file, offset, len)),
        1 => (file(), 0..60_u64).prop_map(|(file, size)| {
            let changes = AttributeChanges { size_bytes: Some(size), ..AttributeChanges::default() };
            Operation::SetAttributes { file, changes }
        }),
    ]
}

fn commit(file: FileId, offset: u64, len: u64) -> Operation {
    let position = LogPosition { segment: offset, offset: len as u32 };
    let extents = vec![WrittenExtent { offset, len, node: NodeRank(0), position, skip: 0 }];
    Operation::Commit { file, extents, at: if len.is_multiple_of(2) { CommitAt::Start } else { CommitAt::End } }
}

proptest! {
    #[test]
    fn the_tree_stays_a_tree_and_can_be_made_again(operations in prop::collection::vec(operation(), 1..120)) {
        let mut asked = Asked::new();
        let mut made = BTreeSet::new();
        for operation in operations {
            // No node gives an identity twice.
            if matches!(&operation, Operation::Create { file, .. } | Operation::CreateUnnamed { file, .. } if !made.insert(*file)) {
                continue;
            }
            let _ = asked.ask(&ROOT, operation);
            check(&asked.tree, &asked.released)?;
        }
        let (mut again, mut released) = (empty(), Released::default());
        for (index, entry) in asked.entries.iter().enumerate() {
            // Some come twice.
            for _ in 0..1 + index % 2 {
                let _ = again.apply(entry, &mut released);
            }
        }
        prop_assert_eq!(again, asked.tree);
        prop_assert_eq!(released, asked.released);
    }
}

/// Every file has as many names as it says; every directory is in the one it says; none holds itself.
fn check(tree: &Tree, released: &Released) -> Result<(), TestCaseError> {
    let mut names: BTreeMap<FileId, u32> = BTreeMap::new();
    let mut todo = vec![BURST_ROOT];
    while let Some(directory) = todo.pop() {
        let mut directories = 0;
        for listed in tree.list(directory, None, usize::MAX).unwrap() {
            let file = listed.state.file;
            prop_assert!(!released.files.contains(&file), "{} is gone and has a name", file);
            let count = names.entry(file).or_default();
            *count += 1;
            if listed.state.attributes.kind() == Kind::Directory {
                prop_assert_eq!((*count, tree.parent(file)), (1, Ok(directory)));
                directories += 1;
                todo.push(file);
            }
        }
        prop_assert_eq!(tree.state(directory).unwrap().attributes.nlink, 2 + directories);
    }
    for serial in 1..FILES {
        let Ok(state) = tree.state(id(serial)) else { continue };
        let is_directory = state.attributes.kind() == Kind::Directory;
        let counted = names.get(&id(serial)).copied().unwrap_or(0);
        prop_assert_eq!(if is_directory { 1 } else { state.attributes.nlink }, counted, "{}", id(serial));
    }
    Ok(())
}
