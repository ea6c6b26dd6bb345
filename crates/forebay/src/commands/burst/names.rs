//! Kinds of names in the burst tier: files, links to them, or directories that have some. Looked at through the burst mount, because
//! programs alone see the tier at its own directory.

use std::fs;
use std::path::{Component, Path, PathBuf};

use forebay_keeper::own_paths::BurstPlaces;

use crate::commands::stage::places::below_burst;

/// Links that are followed one after the other, as `path_resolution(7)` has it.
const LINKS_MAX: usize = 40;

/// Files of directories that are asked about at most; each is a question to the leader.
const FILES_MAX: usize = 10_000;

/// The kind of a name.
#[derive(PartialEq, Eq, Debug)]
pub enum Named {
    /// A file, or nothing that can be looked at: the tier says what it knows.
    File(PathBuf),
    /// A link, its text, and the path below the tier's directory that it leads to; `None` where that is elsewhere.
    Link(PathBuf, PathBuf, Option<PathBuf>),
    /// A directory of the tier that has no files.
    Empty(PathBuf),
    /// A directory has more files than can be asked about.
    TooMany(PathBuf),
}

/// The kind of `path`: one answer, or for a directory one for each file and link below it.
pub fn of(burst: &BurstPlaces, path: &Path) -> Vec<Named> {
    let Some(in_mount) = below_burst(burst, path) else { return vec![Named::File(path.to_owned())] };
    let mut named = vec![];
    add(burst, path, &in_mount, &mut named);
    if named.is_empty() {
        named.push(Named::Empty(path.to_owned()));
    }
    named
}

fn add(burst: &BurstPlaces, path: &Path, in_mount: &Path, named: &mut Vec<Named>) {
    if named.len() >= FILES_MAX {
        if named.len() == FILES_MAX {
            named.push(Named::TooMany(path.to_owned()));
        }
        return;
    }
    let kind = in_mount.symlink_metadata().map(|found| found.file_type());
    match kind {
        Ok(kind) if kind.is_dir() => {
            let entries = fs::read_dir(in_mount).into_iter().flatten().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names.iter().for_each(|name| add(burst, &path.join(name), &in_mount.join(name), named));
        }
        Ok(kind) if kind.is_symlink() => {
            let text = fs::read_link(in_mount).unwrap_or_default();
            named.push(Named::Link(path.to_owned(), text, end_of(burst, in_mount)));
        }
        _ => named.push(Named::File(path.to_owned())),
    }
}

/// Where a link in the mount ends, as a path below the tier's directory.
fn end_of(burst: &BurstPlaces, link: &Path) -> Option<PathBuf> {
    let mut at = link.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(text) = fs::read_link(&at) else {
            return Some(burst.dir.join(at.strip_prefix(&burst.mount.path).ok()?));
        };
        at = match text.is_absolute() {
            true => below_burst(burst, &text)?,
            false => plain(&at.parent()?.join(text)),
        };
    }
    None
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}
