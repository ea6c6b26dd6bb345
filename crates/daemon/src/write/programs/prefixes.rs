//! The directories of `--private` in the tree, and what the burst mount does with them.
//!
//! Files below them are written on the private mount (`private`), which lies over them under `forebay run`. On the burst mount itself
//! they can be read: what is changed there would pass by the kernel that gathers writes. So the kernel's numbers of what is below a
//! prefix have a mark, which goes from a directory to what is looked up in it. Names that lead to a prefix stay: the kernel
//! believes them for ever, since it takes a mount away whose place it finds changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Duration;

use forebay_fuse::{Change, Entry, Request};
use forebay_types::{Errno, FileId, Kind, Name, ViewPath};
use forebay_wire::write::{BURST_ROOT, Caller, FileState, Operation, Place};

use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::kernel_words::{BELOW_PREFIX, file_of, node_of, place};

/// Permissions of a prefix that is made.
const MODE: u32 = 0o040_777;

/// The prefixes of a job, found in the tree when they are needed first.
#[derive(Default)]
pub struct Prefixes {
    paths: Vec<ViewPath>,
    ways: OnceLock<Ways>,
}

/// Where they are.
#[derive(Default)]
pub struct Ways {
    prefixes: BTreeSet<FileId>,
    /// Directories that they are in.
    above: BTreeSet<FileId>,
    /// Names that lead there.
    names: BTreeSet<Place>,
    /// Names at which there is no way, and why: something that is no directory has one, or none may be made there. They are not used,
    /// so that no node writes elsewhere what another one takes for its own.
    wrong: BTreeMap<Place, Errno>,
}

impl Prefixes {
    pub fn new(paths: Vec<ViewPath>) -> Self {
        Self { paths, ways: OnceLock::new() }
    }

    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether the owner has not been asked yet where they are.
    pub fn are_unknown(&self) -> bool {
        !self.are_none() && self.ways.get().is_none()
    }

    /// Where they are; those that are missing are made.
    ///
    /// # Errors
    /// The tree owner's error, unless it is about a prefix alone.
    pub fn ways(&self, reader: &Reader, commits: &Commits) -> Result<&Ways, Errno> {
        if let Some(ways) = self.ways.get() {
            return Ok(ways);
        }
        let mut ways = Ways::default();
        'paths: for path in &self.paths {
            let mut directory = BURST_ROOT;
            for name in path.components() {
                ways.above.insert(directory);
                let place = Place { directory, name: Name::new(name).map_err(|_| Errno::ENAMETOOLONG)? };
                match find_or_make(&place, reader, commits) {
                    Ok(found) => directory = found,
                    Err(errno) if is_lasting(errno) => {
                        tracing::error!(path = %path, %errno, "--private: this directory cannot be used");
                        ways.wrong.insert(place, errno);
                        continue 'paths;
                    }
                    Err(errno) => return Err(errno),
                }
                ways.names.insert(place);
            }
            ways.prefixes.insert(directory);
        }
        Ok(self.ways.get_or_init(|| ways))
    }

    /// Why a change is not made on the burst mount, if it is not.
    pub fn refusal(
        &self,
        (reader, commits): (&Reader, &Commits),
        request: &Request<'_>,
        asked: &Change<'_>,
    ) -> Option<Errno> {
        match asked {
            // A write to an open file goes on while the owner cannot be asked where the prefixes are.
            Change::Write { .. } => is_below(request.node).then_some(Errno::EROFS),
            _ => self.ways(reader, commits).map_or_else(Some, |ways| ways.refusal(request, asked)),
        }
    }
}

fn find_or_make(place: &Place, reader: &Reader, commits: &Commits) -> Result<FileId, Errno> {
    let all_rights = Caller::default();
    let found = match reader.tree.lookup(&all_rights, place.clone()) {
        Err(Errno::ENOENT) => {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            let operation = Operation::Create {
                place: place.clone(),
                file: reader.local.new_file(),
                mode: MODE & !umask(),
                rdev: 0,
                target: vec![],
                is_opened: false,
                is_exclusive: false,
            };
            match commits.carry_out_own(&Caller { uid, gid, groups: vec![] }, operation) {
                // Another node was faster.
                Ok(()) | Err(Errno::EEXIST) => reader.tree.lookup(&all_rights, place.clone())?,
                Err(errno) => return Err(errno),
            }
        }
        found => found?,
    };
    if found.attributes.kind() == Kind::Directory { Ok(found.file) } else { Err(Errno::ENOTDIR) }
}

/// The umask of the daemon's user, as `up` was given it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask.and_then(|umask| u32::from_str_radix(umask.trim(), 8).ok()).unwrap_or(0o022)
}

/// Whether a directory stays as wrong as that.
fn is_lasting(errno: Errno) -> bool {
    matches!(errno, Errno::ENOTDIR | Errno::EACCES | Errno::EPERM | Errno::EROFS)
}

impl Ways {
    /// Whether there may be something at a name.
    ///
    /// # Errors
    /// The error of the prefix that has the name.
    pub fn check(&self, directory: u64, name: &[u8]) -> Result<(), Errno> {
        if self.wrong.is_empty() {
            return Ok(());
        }
        let wrong = place(directory, name).ok().and_then(|place| self.wrong.get(&place).copied());
        wrong.map_or(Ok(()), Err)
    }

    /// Whether `directory` leads to a prefix and is above all that are in it.
    pub fn is_above(&self, directory: FileId) -> bool {
        self.above.contains(&directory) && !self.prefixes.contains(&directory)
    }

    /// Whether a name leads to a prefix.
    pub fn leads(&self, directory: u64, name: &[u8]) -> bool {
        !self.names.is_empty() && place(directory, name).is_ok_and(|place| self.names.contains(&place))
    }

    /// How long the kernel may believe a name that leads to `file`, of which it may believe others for `ttl`.
    pub fn ttl(&self, file: FileId, ttl: Duration) -> Duration {
        let is_on_way = self.above.contains(&file) || self.prefixes.contains(&file);
        if is_on_way { Duration::MAX } else { ttl }
    }

    /// The kernel's entry for a file that it has come to by the directory `parent`, on the burst mount.
    pub fn entry(&self, parent: u64, state: &FileState, ttl: Duration) -> Entry {
        let is_below = is_below(parent) || self.prefixes.contains(&state.file);
        let node = node_of(state.file) | if is_below { BELOW_PREFIX } else { 0 };
        let entry_ttl = self.ttl(state.file, ttl);
        Entry { node, generation: 0, attributes: state.attributes, entry_ttl, attribute_ttl: ttl }
    }

    /// The same of the directory in which the one is that has the number `directory`.
    pub fn entry_of_parent(&self, directory: u64, parent: &FileState, ttl: Duration) -> Entry {
        let is_prefix = self.prefixes.contains(&file_of(directory));
        self.entry(if is_prefix { 0 } else { directory }, parent, ttl)
    }

    /// See `Prefixes`.
    fn refusal(&self, request: &Request<'_>, asked: &Change<'_>) -> Option<Errno> {
        let is_below_one = match asked {
            Change::GetLock(_) | Change::SetLock(_) | Change::SetLockWaiting(_) => return None,
            Change::Rename { to_directory, .. } => is_below(request.node) || is_below(*to_directory),
            Change::Link { node, .. } => is_below(request.node) || is_below(*node),
            _ => is_below(request.node),
        };
        if is_below_one { Some(Errno::EROFS) } else { self.move_refusal(request.node, asked) }
    }

    /// Why the names that lead to a prefix stay.
    fn move_refusal(&self, directory: u64, asked: &Change<'_>) -> Option<Errno> {
        let wrong = match asked {
            Change::Rename { name, to_directory, to_name, .. } => {
                self.check(directory, name).and_then(|()| self.check(*to_directory, to_name))
            }
            Change::Mknod { name, .. }
            | Change::Mkdir { name, .. }
            | Change::Symlink { name, .. }
            | Change::Link { name, .. }
            | Change::Unlink { name }
            | Change::Rmdir { name }
            | Change::Create { name, .. } => self.check(directory, name),
            _ => Ok(()),
        };
        if let Err(errno) = wrong {
            return Some(errno);
        }
        let leads = match asked {
            Change::Rmdir { name } => self.leads(directory, name),
            Change::Rename { name, to_directory, to_name, .. } => {
                self.leads(directory, name) || self.leads(*to_directory, to_name)
            }
            _ => false,
        };
        leads.then_some(Errno::EBUSY)
    }
}

/// Whether the kernel has come to a file on the burst mount by way of a prefix.
pub fn is_below(node: u64) -> bool {
    node & BELOW_PREFIX != 0
}
