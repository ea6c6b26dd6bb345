//! Messages of a drain about files that could not land, or not under their names.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use forebay_types::{Errno, Name, NodeRank};
use forebay_wire::write::Place;
use forebay_write::Action;

use crate::write::tree::leader::Leader;
use crate::write::tree::paths::backing_path;

/// Two reasons, if there are two.
pub fn both(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}

/// A call on the backing file system, in the directory `backing`, that failed.
pub fn action(leader: &Leader, backing: &Path, action: &Action) -> String {
    let path = |place: &Place| {
        leader.path_of(place).map_or_else(|_| "?".to_owned(), |path| format!("{}{path}", backing.display()))
    };
    match action {
        Action::Make { place, .. } => format!("cannot make {}", path(place)),
        Action::Publish { places, .. } => format!("cannot create {}", places.first().map(path).unwrap_or_default()),
        Action::Update { place, .. } => format!("cannot update {}", path(place)),
        Action::UpdateUnnamed { file, .. } => format!("cannot update file {file}, whose name the job has removed"),
        Action::Link { from, to, .. } => format!("cannot link {} to {}", path(to), path(from)),
        Action::Rename { from, to, .. } => format!("cannot rename {} to {}", path(from), path(to)),
        Action::Remove { place, .. } => format!("cannot remove {}", path(place)),
        Action::SetAttributes { place: Some(place), .. } => format!("cannot set the attributes of {}", path(place)),
        Action::SetAttributes { place: None, .. } => format!("cannot set the attributes of {}", backing.display()),
        Action::Discard { file, .. } => format!("cannot remove the draft of file {file}, which is gone"),
    }
}

/// The message about data that a node's kernel has not sent.
pub fn unsent(node: NodeRank) -> String {
    format!("the kernel of node {node} has not sent all that programs stored in maps")
}

/// The message about writes that a node has not committed, and why.
pub fn uncommitted(node: NodeRank, errno: Errno) -> String {
    format!("what programs of node {node} wrote last cannot be committed: {errno}")
}

/// The message about changes that programs of nodes made and did not sync, if any are lost.
pub fn lost_changes(nodes: &BTreeSet<NodeRank>) -> Option<String> {
    (!nodes.is_empty()).then(|| {
        format!(
            "the last unsynced changes of programs are lost (nodes {}): another node came to lead the tree before it had them; fsync of \
             such a file fails once",
            list(nodes)
        )
    })
}

/// The message about nodes that are not in the job any more and had files open, if any.
pub fn left_open(nodes: &BTreeSet<NodeRank>) -> Option<String> {
    (!nodes.is_empty()).then(|| {
        format!(
            "an earlier run of the job had files open on nodes that this one does not have ({}): what programs wrote there last is in \
             the stores of these nodes alone, and lands with them (forebay salvage, or as many nodes again)",
            list(nodes)
        )
    })
}

/// The message about files that have landed in the directory `backing` under other names than theirs, if any.
pub fn aside(leader: &Leader, backing: &Path) -> Option<String> {
    let tree = leader.tree();
    let aside = tree.set_aside_places();
    let (place, name) = aside.first()?;
    let path = |name: &Name| {
        let path = backing_path(&tree, place.directory)?.join_deep(name.as_bytes()).ok()?;
        Some(format!("{}{path}", backing.display()))
    };
    let others = match aside.len() - 1 {
        0 => String::new(),
        1 => "; 1 other file likewise".to_owned(),
        others => format!("; {others} other files likewise"),
    };
    Some(format!(
        "others have put something at {}, or changed what was there: what the job put there is at {}{others}",
        path(&place.name)?,
        path(name)?
    ))
}

/// The message about files that cannot land since nodes do not answer, if any.
pub fn lost(leader: &Leader, dir: &Path) -> Option<String> {
    let lost = leader.tree().lost_files();
    let first = lost.first()?;
    let bytes: u64 = lost.iter().flat_map(|file| &file.ranges).map(|(_, len)| len).sum();
    let nodes: BTreeSet<NodeRank> = lost.iter().flat_map(|file| file.nodes.iter().copied()).collect();
    let away = list(&leader.partners_away(&nodes));
    let has_any = !nodes.is_empty();
    let nodes = list(&nodes);
    let others = match lost.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} other files"),
    };
    let path = dir.join(OsStr::from_bytes(&first.path));
    if !has_any {
        return Some(format!(
            "{}{others} cannot land: {bytes} bytes were only in the file on the backing file system, which others \
             have removed or replaced, or cut short; it lands when a program writes it whole again",
            path.display()
        ));
    }
    let are_gone = lost.iter().all(|file| file.is_gone);
    if are_gone && !away.is_empty() {
        return Some(format!(
            "{}{others} cannot land: {bytes} bytes are not in the stores of their nodes any more ({nodes}), and nodes that may have \
             copies do not answer ({away}); it lands when these answer, or when a program writes these bytes again, or removes it",
            path.display()
        ));
    }
    if are_gone {
        return Some(format!(
            "{}{others} cannot land: {bytes} bytes are gone: they were not synced when the power of nodes went ({nodes}); \
             it lands when a program writes these again, or removes it",
            path.display()
        ));
    }
    Some(format!(
        "{}{others} cannot land: {bytes} bytes are only in the stores of nodes that do not answer ({nodes}); \
         `forebay salvage` lands them when these stores are available again",
        path.display()
    ))
}

/// Nodes, one after the other.
pub fn list(nodes: &BTreeSet<NodeRank>) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
