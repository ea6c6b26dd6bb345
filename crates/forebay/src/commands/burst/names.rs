//! Kinds of names in the burst tier: files, links to them, or directories that have some. Looked at through the burst mount, because
//! programs alone see the tier at its own directory, and by a process of its own (`look`), which alone may wait for the leader. For the same reason links and `..` are followed here, as the kernel does for programs.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use forebay_keeper::own_paths::BurstPlaces;
use serde::{Deserialize, Serialize};

use crate::commands::paths::resolved;

/// Links that are followed one after the other, as `path_resolution(7)` has it.
const LINKS_MAX: usize = 40;

/// Files of directories that are asked about at most; each is a question to the leader.
const FILES_MAX: usize = 10_000;

/// The kind of a name. Paths are those that programs know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Named {
    /// A file, or nothing that can be looked at: the tier says what it knows.
    File(#[serde(with = "bytes")] PathBuf),
    /// A link, its text, and the file that it leads to.
    Link(#[serde(with = "bytes")] PathBuf, #[serde(with = "bytes")] PathBuf, #[serde(with = "bytes")] PathBuf),
    /// A name without contents, in words, and whether the backing file system has it.
    Empty(#[serde(with = "bytes")] PathBuf, String, bool),
    /// A name of which the tier has nothing to say, and the reason.
    Other(#[serde(with = "bytes")] PathBuf, String),
}

/// A path of any bytes, which is no text for `serde`.
mod bytes {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}

/// The kinds of `paths`, each once: one answer for each, or for a directory one for each file and link below it.
pub fn of(burst: &BurstPlaces, mounts: &[PathBuf], paths: &[PathBuf]) -> Vec<Named> {
    let mut names = Names { burst, mounts, resolved: OnceCell::new(), named: vec![], seen: BTreeSet::new() };
    paths.iter().for_each(|path| names.add_given(path));
    names.named
}

struct Names<'a> {
    burst: &'a BurstPlaces,
    /// Of other nodes of this host.
    mounts: &'a [PathBuf],
    /// Where the tier's directories for programs lead, which are looked at only where a path does not name one of them.
    resolved: OnceCell<[PathBuf; 2]>,
    named: Vec<Named>,
    seen: BTreeSet<Named>,
}

impl Names<'_> {
    fn add_given(&mut self, path: &Path) {
        match self.walk(path, Last::AsItIs) {
            Ok(place) => {
                let is_link = place.is_symlink();
                match self.walk(path, Last::Followed) {
                    // A directory is the same by a link.
                    Ok(end) if is_link && end.is_dir() => self.add(&end),
                    _ => self.add(&place),
                }
            }
            Err(why) if self.entered(path).is_some() => self.push(Named::Other(path.to_owned(), why)),
            Err(_) => self.push(Named::File(path.to_owned())),
        }
    }

    fn push(&mut self, named: Named) {
        if self.seen.insert(named.clone()) {
            self.named.push(named);
        }
    }

    fn add(&mut self, place: &Path) {
        let known = self.known(place);
        if self.named.len() >= FILES_MAX {
            if self.named.len() == FILES_MAX {
                let why = "this and the files after it are too many to be asked about; name fewer";
                self.push(Named::Other(known, why.to_owned()));
            }
            return;
        }
        match place.symlink_metadata().map(|found| found.file_type()) {
            Ok(kind) if kind.is_dir() => {
                let listed = fs::read_dir(place)
                    .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
                let mut names = match listed {
                    Ok(names) => names,
                    Err(error) => return self.push(Named::Other(known, format!("it cannot be listed: {error}"))),
                };
                names.sort();
                // It lands by itself; another has landed with what is in it.
                if names.is_empty() {
                    self.push_empty(place, "an empty directory".to_owned());
                }
                names.iter().for_each(|name| self.add(&place.join(name)));
            }
            Ok(kind) if kind.is_symlink() => self.add_link(place, known),
            Ok(kind) if kind.is_file() => self.push(Named::File(known)),
            Ok(kind) => {
                let what = if kind.is_fifo() {
                    "a named pipe"
                } else if kind.is_socket() {
                    "a socket"
                } else {
                    "a device"
                };
                self.push_empty(place, what.to_owned());
            }
            Err(_) => self.push(Named::File(known)),
        }
    }

    fn add_link(&mut self, place: &Path, known: PathBuf) {
        let text = fs::read_link(place).unwrap_or_default();
        match self.walk(place, Last::Followed) {
            // Its files have names of their own. Those that lie in a directory above would be told of without end.
            Ok(end) if end.is_dir() => {
                self.push_empty(place, format!("a link to the directory {}", self.known(&end).display()));
            }
            Ok(end) if end.symlink_metadata().is_ok() => self.push(Named::Link(known, text, self.known(&end))),
            Ok(_) => self.push_empty(place, format!("a link to {}, which does not exist", text.display())),
            Err(why) => {
                let shown = text.display().to_string();
                let why =
                    why.strip_prefix(&shown).map_or_else(|| format!(", and {why}"), |rest| format!(", which{rest}"));
                self.push_empty(place, format!("a link to {shown}{why}"));
            }
        }
    }

    /// Its name alone lands: as what it is.
    fn push_empty(&mut self, place: &Path, what: String) {
        let known = self.known(place);
        let rest = place.strip_prefix(&self.burst.mount.path).unwrap_or(place);
        let kind =
            |path: &Path| path.symlink_metadata().ok().map(|found| (found.file_type(), fs::read_link(path).ok()));
        let has_landed = kind(place).is_some_and(|own| Some(own) == kind(&self.burst.backing.join(rest)));
        self.push(Named::Empty(known, what, has_landed));
    }

    /// The path that programs know of a place in the mount.
    fn known(&self, place: &Path) -> PathBuf {
        let rest = place.strip_prefix(&self.burst.mount.path).unwrap_or(place);
        if rest.as_os_str().is_empty() { self.burst.dir.clone() } else { self.burst.dir.join(rest) }
    }

    /// The place in the mount that a path leads to, with links and `..` on the way followed, also where they leave the tier and come back; else
    /// the reason why it leads to none.
    fn walk(&self, path: &Path, last: Last) -> Result<PathBuf, String> {
        let mount = &self.burst.mount.path;
        let (mut at, mut entrance, mut todo) = self.start(path);
        let mut links = 0;
        while let Some(part) = todo.pop() {
            let part = Path::new(&part);
            match part.components().next() {
                // Above the tier is what is above the directory by which the path has come in.
                Some(Component::ParentDir) if at == *mount => at = entrance.parent().unwrap_or(&entrance).to_owned(),
                // Those above the tier may be seen by its programs alone.
                Some(Component::ParentDir) if !at.is_dir() && !self.burst.dir.starts_with(&at) => {
                    return Err(format!("{} is not a directory", self.known(&at).display()));
                }
                Some(Component::ParentDir) => drop(at.pop()),
                Some(Component::Normal(name)) => {
                    let next = at.join(name);
                    if !at.starts_with(mount)
                        && let Some((base, _)) = self.entered(&next).or_else(|| self.entered_by_a_link(&next))
                    {
                        (at, entrance) = (mount.clone(), base);
                        continue;
                    }
                    let is_end = todo.is_empty() && last == Last::AsItIs;
                    let Some(text) = fs::read_link(&next).ok().filter(|_| !is_end) else {
                        at = next;
                        continue;
                    };
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(format!("{} leads in a circle", self.known(&next).display()));
                    }
                    if text.is_absolute() {
                        let rest;
                        (at, entrance, rest) = self.start(&text);
                        todo.extend(rest);
                    } else {
                        todo.extend(parts(&text));
                    }
                }
                _ => {}
            }
        }
        if at.starts_with(mount) { Ok(at) } else { Err(format!("{} is not in the burst tier", at.display())) }
    }

    /// Where a walk begins, the directory by which it has come into the tier, and what is left of the path.
    fn start(&self, path: &Path) -> (PathBuf, PathBuf, Vec<OsString>) {
        let root = || (PathBuf::from("/"), PathBuf::from("/"), parts(path));
        self.entered(path).map_or_else(root, |(base, rest)| (self.burst.mount.path.clone(), base, parts(&rest)))
    }

    /// The directory of the tier that the path names first, and the rest of the path.
    fn entered(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let known = [&self.burst.mount.path, &self.burst.dir, &self.burst.backing];
        below(known.into_iter().chain(self.mounts), path)
    }

    fn entered_by_a_link(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let resolved = self.resolved.get_or_init(|| [&self.burst.dir, &self.burst.backing].map(|dir| resolved(dir)));
        below(resolved, path)
    }
}

fn below<'a>(bases: impl IntoIterator<Item = &'a PathBuf>, path: &Path) -> Option<(PathBuf, PathBuf)> {
    bases.into_iter().find_map(|base| Some((base.clone(), path.strip_prefix(base).ok()?.to_owned())))
}

/// Whether the last component of a path is followed, if it is a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    AsItIs,
    Followed,
}

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}
