//! Kinds of names in the burst tier: files, links to them, or directories that have some. Looked at through the burst mount, because
//! programs alone see the tier at its own directory, and by a process of its own (`look`), which alone may wait for the leader. For the same reason links and `..` are followed here, as the kernel does for programs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use forebay_keeper::own_paths::BurstPlaces;
use serde::{Deserialize, Serialize};

use crate::commands::paths::resolved;
use crate::commands::stage::places::below_burst;

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
pub fn of(burst: &BurstPlaces, paths: &[PathBuf]) -> Vec<Named> {
    let mut names = Names { burst, named: vec![], seen: BTreeSet::new() };
    paths.iter().for_each(|path| names.add_given(path));
    names.named
}

struct Names<'a> {
    burst: &'a BurstPlaces,
    named: Vec<Named>,
    seen: BTreeSet<Named>,
}

impl Names<'_> {
    fn add_given(&mut self, path: &Path) {
        let in_mount = below_burst(self.burst, path).or_else(|| below_burst(self.burst, &resolved(path)));
        let Some(in_mount) = in_mount else { return self.push(Named::File(path.to_owned())) };
        match self.walk(&in_mount, Last::AsItIs) {
            Ok(place) => {
                let is_link = place.is_symlink();
                match self.walk(&in_mount, Last::Followed) {
                    // A directory is the same by a link.
                    Ok(end) if is_link && end.is_dir() => self.add(&end),
                    _ => self.add(&place),
                }
            }
            Err(why) => self.push(Named::Other(path.to_owned(), why)),
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

    /// The place in the mount that a path in the mount leads to, with links and `..` on the way followed; else the reason why it leads to none.
    fn walk(&self, in_mount: &Path, last: Last) -> Result<PathBuf, String> {
        let mount = &self.burst.mount.path;
        let rest = |path: &Path| parts(path.strip_prefix(mount).unwrap_or(path));
        let (mut at, mut todo, mut links) = (mount.clone(), rest(in_mount), 0);
        while let Some(part) = todo.pop() {
            let part = Path::new(&part);
            let out = |path: &Path| format!("{} is not in the burst tier", path.display());
            match part.components().next() {
                Some(Component::ParentDir) if at == *mount => return Err(out(&self.burst.dir.join(".."))),
                Some(Component::ParentDir) if !at.is_dir() => {
                    return Err(format!("{} is not a directory", self.known(&at).display()));
                }
                Some(Component::ParentDir) => drop(at.pop()),
                Some(Component::Normal(name)) => {
                    let next = at.join(name);
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
                        let inside = below_burst(self.burst, &text).ok_or_else(|| out(&text))?;
                        at.clone_from(mount);
                        todo.extend(rest(&inside));
                    } else {
                        todo.extend(parts(&text));
                    }
                }
                _ => {}
            }
        }
        Ok(at)
    }
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
