//! Allowed answers to programs: each answer is compared with the states of its path, from the node's floor until now.

use std::collections::BTreeMap;

use forebay_types::{Errno, Kind, ViewPath};

use crate::history::{Change, History, Versions};
use crate::kernel::{Inode, Listed};
use crate::model::Node;
use crate::reached::{Reach, Reached};

/// Which version of a path a name may have led to, the oldest one; `None` for what it never led to since the floor.
pub(crate) fn version_of(history: &History, floor: &Versions, path: &ViewPath, inode: Option<&Inode>) -> Option<usize> {
    let is_it = |node: Option<&Node>| match (node, inode) {
        (Some(node), Some(inode)) => is_shown_as(node, inode),
        (None, None) => true,
        _ => false,
    };
    let found = history.since(path, floor.of(path)).find(|(_, node)| is_it(*node)).map(|(version, _)| version);
    // There is no name in what is no directory.
    let is_lost = inode.is_none() && found.is_none() && was_no_directory(history, floor, path.split()?.0);
    found.or(is_lost.then(|| floor.of(path)))
}

/// The version of a path that has a generation: the last one, since the others of it differ in their names only.
pub(crate) fn version_with(history: &History, path: &ViewPath, inode: &Inode) -> Option<usize> {
    history.since(path, 0).rfind(|(_, node)| node.is_some_and(|node| is_shown_as(node, inode))).map(|(at, _)| at)
}

fn is_shown_as(node: &Node, inode: &Inode) -> bool {
    let attributes = &node.attributes;
    (attributes.generation(), attributes.mode, attributes.nlink) == (inode.generation, inode.mode, inode.nlink)
}

/// Whether something else than a directory stood at a path, or at one above it, at any time since the floor.
fn was_no_directory(history: &History, floor: &Versions, mut path: ViewPath) -> bool {
    let is_none = |node: Option<&Node>| node.is_none_or(|node| node.attributes.kind() != Kind::Directory);
    loop {
        if history.since(&path, floor.of(&path)).any(|(_, node)| is_none(node)) {
            return true;
        }
        match path.split() {
            Some((dir, _)) => path = dir,
            None => return false,
        }
    }
}

/// The errors of a listing as a program got it; each name is compared with the states of its path.
pub(crate) fn wrong_listing(
    history: &History,
    floor: &Versions,
    dir: &ViewPath,
    told: &[Listed],
    reached: &mut Reached,
) -> Option<String> {
    let mut by_name: BTreeMap<&[u8], Vec<&Listed>> = BTreeMap::new();
    told.iter().for_each(|listed| by_name.entry(&listed.name).or_default().push(listed));
    let mut is_stable = true;
    let mut wrong = None;
    for path in history.ever_in(dir) {
        let Some((_, name)) = path.split() else { continue };
        let states: Vec<Option<&Node>> = history.since(path, floor.of(path)).map(|(_, node)| node).collect();
        let listed = by_name.remove(name).unwrap_or_default();
        let (is_there, is_absent) = (states.iter().all(Option::is_some), states.iter().all(Option::is_none));
        is_stable &= is_there || is_absent;
        let is_one = |listed: &&Listed| states.iter().flatten().any(|node| is_listed_as(node, listed));
        if let Some(other) = listed.iter().find(|listed| !is_one(listed)) {
            return Some(format!("{path} is listed as {other:?}, not behind {}", floor.of(path)));
        }
        reached.add(Reach::ListedAttributes, listed.iter().filter(|listed| listed.inode.is_some()).count() as u64);
        let count_is_right = if is_there { listed.len() == 1 } else { !is_absent || listed.is_empty() };
        if !count_is_right || listed.len() > 1 {
            wrong.get_or_insert(format!("{path} is listed {} times, not behind {}", listed.len(), floor.of(path)));
        }
    }
    if let Some(name) = by_name.keys().next() {
        return Some(format!("{:?} is listed and never was there", String::from_utf8_lossy(name)));
    }
    // Positions are places in the order of names: whoever reads a listing in parts may miss one when it is another by then.
    wrong.filter(|_| is_stable && !was_no_directory(history, floor, dir.clone()))
}

fn is_listed_as(node: &Node, listed: &Listed) -> bool {
    let is_shown = listed.inode.as_ref().is_none_or(|inode| is_shown_as(node, inode));
    let kind = u32::from(node.attributes.kind().dirent());
    is_shown && listed.ino == node.attributes.ino && listed.kind == kind
}

/// Whether the tree has changed so that an error is true.
pub(crate) fn is_true(history: &History, floor: &Versions, errno: Errno, asked: &AskedOf<'_>) -> bool {
    let dir = || asked.about.clone();
    match errno {
        Errno::EACCES if asked.lists => history
            .since(asked.about, floor.of(asked.about))
            .any(|(_, node)| node.is_some_and(|node| node.attributes.kind() == Kind::Directory && !node.listable)),
        Errno::ENOENT | Errno::ENOTDIR if !asked.reads => was_no_directory(history, floor, dir()),
        Errno::ESTALE if asked.reads => {
            let now = history.now.nodes.get(asked.path);
            now.is_none_or(|node| node.attributes.generation() != asked.inode.generation)
        }
        // The inode of a link whose name leads elsewhere by now.
        Errno::ESTALE | Errno::EINVAL if !asked.lists && !asked.reads => {
            let states = history.since(asked.path, floor.of(asked.path));
            states.into_iter().any(|(_, node)| node.is_none_or(|node| node.attributes.kind() != Kind::Symlink))
        }
        _ => false,
    }
}

/// The subject of a request.
pub(crate) struct AskedOf<'a> {
    /// The path that the program has followed.
    pub path: &'a ViewPath,
    /// The path that the backing file system is asked about for it: its directory, or itself.
    pub about: &'a ViewPath,
    /// The inode that the path led to.
    pub inode: Inode,
    /// Whether it lists a directory.
    pub lists: bool,
    /// Whether it reads a file.
    pub reads: bool,
}

/// The event that a program reached which was shown a version of a path.
pub(crate) fn reached_by(history: &History, path: &ViewPath, version: usize) -> Option<Reach> {
    let is_there = history.state(path, version).is_some();
    Some(match history.change(path, version)? {
        Change::Created if is_there => Reach::Created,
        Change::Removed => Reach::Deleted,
        Change::Renamed => Reach::Renamed,
        _ => return None,
    })
}
