//! The states of each path of the backing file system, one after the other, and their changes.
//!
//! The number of a state counts the changes of its path before it. So "not older than" is a comparison of numbers, and
//! a node's floor is a number for each path (`Versions`).

use std::collections::BTreeMap;

use forebay_types::{Kind, Time, Timestamp, ViewPath};

use crate::model::{Model, Node};

/// The numbers of the states of paths; 0 for those that are not named.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Versions(BTreeMap<ViewPath, usize>);

/// The state of each path now, and the states before.
#[derive(Clone, Debug)]
pub(crate) struct History {
    first: Model,
    /// The state of each path now.
    pub now: Model,
    later: BTreeMap<ViewPath, Vec<State>>,
    changes: i64,
    next_ino: u64,
}

/// The state of a path from a time on.
#[derive(Clone, Debug)]
struct State {
    since: Time,
    node: Option<Node>,
    by: Change,
}

/// The change that led to a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Rewritten,
    Resized,
    Created,
    Linked,
    Removed,
    Renamed,
}

impl Versions {
    /// The number of a path's state.
    pub fn of(&self, path: &ViewPath) -> usize {
        self.0.get(path).copied().unwrap_or(0)
    }

    /// Raises paths at or below the given ones to their versions in `other`.
    pub fn raise(&mut self, other: &Self, paths: &[ViewPath]) {
        let is_named = |path: &ViewPath| paths.iter().any(|named| path.is_within(named));
        other.0.iter().filter(|(path, _)| is_named(path)).for_each(|(path, version)| self.raise_one(path, *version));
    }

    /// Raises a path to a version.
    pub fn raise_one(&mut self, path: &ViewPath, version: usize) {
        if version > self.of(path) {
            self.0.insert(path.clone(), version);
        }
    }
}

impl History {
    /// A history that begins with this model.
    pub fn new(model: &Model) -> Self {
        let next_ino = model.nodes.len() as u64 + 2;
        Self { first: model.clone(), now: model.clone(), later: BTreeMap::new(), changes: 0, next_ino }
    }

    /// The number of the state of every path now.
    pub fn versions(&self) -> Versions {
        Versions(self.later.iter().map(|(path, states)| (path.clone(), states.len())).collect())
    }

    /// The number of a path's state now.
    pub fn of(&self, path: &ViewPath) -> usize {
        self.later.get(path).map_or(0, Vec::len)
    }

    /// The numbers of the states of all paths at `time`.
    pub fn versions_at(&self, time: Time) -> Versions {
        let count = |states: &Vec<State>| states.partition_point(|state| state.since <= time);
        Versions(self.later.iter().map(|(path, states)| (path.clone(), count(states))).collect())
    }

    /// The file of a path in a state; `None` for none.
    pub fn state(&self, path: &ViewPath, version: usize) -> Option<&Node> {
        match version.checked_sub(1) {
            None => self.first.nodes.get(path),
            Some(later) => self.later.get(path)?.get(later)?.node.as_ref(),
        }
    }

    /// The change that led to a state of a path; `None` for the first.
    pub fn change(&self, path: &ViewPath, version: usize) -> Option<Change> {
        Some(self.later.get(path)?.get(version.checked_sub(1)?)?.by)
    }

    /// The states of a path from one on until now, with their numbers.
    pub fn since<'a>(
        &'a self,
        path: &'a ViewPath,
        version: usize,
    ) -> impl DoubleEndedIterator<Item = (usize, Option<&'a Node>)> {
        (version..=self.of(path)).map(move |version| (version, self.state(path, version)))
    }

    /// Whether there ever was anything else at a path.
    pub fn has_changed(&self, path: &ViewPath) -> bool {
        self.later.contains_key(path)
    }

    /// Every path in a directory at which anything ever stood, in the order of names.
    pub fn ever_in<'a>(&'a self, dir: &'a ViewPath) -> impl Iterator<Item = &'a ViewPath> {
        let mut paths: Vec<&ViewPath> = self.first.nodes.keys().chain(self.later.keys()).collect();
        paths.retain(|path| path.split().is_some_and(|(parent, _)| parent == *dir));
        paths.sort_unstable();
        paths.dedup();
        paths.into_iter()
    }

    /// A file has other contents of a size, or as many as before, under all its names.
    pub fn rewrite(&mut self, at: Time, path: &ViewPath, size_bytes: Option<u64>) {
        let Some(mut node) = self.now.nodes.get(path).cloned() else { return };
        node.attributes.size_bytes = size_bytes.unwrap_or(node.attributes.size_bytes);
        node.attributes.mtime = self.next_mtime();
        let is_it = |other: &Node| other.attributes.ino == node.attributes.ino;
        let names = self.now.nodes.iter().filter(|(_, other)| is_it(other)).map(|(path, _)| path.clone());
        let by = if size_bytes.is_some() { Change::Resized } else { Change::Rewritten };
        for name in names.collect::<Vec<_>>() {
            self.put((at, by), &name, Some(node.clone()));
        }
    }

    /// Something new stands at a path where nothing stood.
    pub fn create(&mut self, at: Time, path: &ViewPath, kind: Kind, size_bytes: u64) {
        if !self.is_free(path) {
            return;
        }
        let mut node = Node::new(kind, size_bytes, self.next_ino, true);
        self.next_ino += 1;
        node.attributes.mtime = self.next_mtime();
        self.put((at, Change::Created), path, Some(node));
        self.touch_directory_of(at, path);
    }

    /// Another name of a file.
    pub fn link(&mut self, at: Time, from: &ViewPath, to: &ViewPath) {
        let Some(mut node) = self.now.nodes.get(from).cloned().filter(|_| self.is_free(to)) else { return };
        node.attributes.nlink += 1;
        self.put((at, Change::Linked), from, Some(node.clone()));
        self.put((at, Change::Linked), to, Some(node));
        self.touch_directory_of(at, to);
    }

    /// Removes the file at a path, with all below.
    pub fn remove(&mut self, at: Time, path: &ViewPath) {
        if path.is_root() {
            return;
        }
        self.below(path).into_iter().for_each(|path| self.put((at, Change::Removed), &path, None));
        self.touch_directory_of(at, path);
    }

    /// Moves the file at a path to another one, with all below; the file there is gone.
    pub fn rename(&mut self, at: Time, from: &ViewPath, to: &ViewPath) {
        let Some((to_dir, _)) = to.split() else { return };
        let has_place = self.now.is_directory(&to_dir);
        if from.is_root() || to.is_within(from) || from.is_within(to) || !has_place {
            return;
        }
        self.below(to).into_iter().for_each(|path| self.put((at, Change::Removed), &path, None));
        for path in self.below(from) {
            let node = self.now.nodes.get(&path).cloned();
            let rest = path.as_bytes()[from.as_bytes().len()..].to_vec();
            let mut moved = rest.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            let moved = moved.try_fold(to.clone(), |dir, name| dir.join(name)).ok();
            if let (Some(moved), Some(node)) = (moved, node) {
                self.put((at, Change::Renamed), &path, None);
                self.put((at, Change::Renamed), &moved, Some(node));
            }
        }
        self.touch_directory_of(at, from);
        self.touch_directory_of(at, to);
    }

    fn is_free(&self, path: &ViewPath) -> bool {
        let has_place = path.split().is_some_and(|(dir, _)| self.now.is_directory(&dir));
        has_place && !self.now.nodes.contains_key(path)
    }

    fn below(&self, path: &ViewPath) -> Vec<ViewPath> {
        self.now.nodes.keys().filter(|other| other.is_within(path)).cloned().collect()
    }

    fn touch_directory_of(&mut self, at: Time, path: &ViewPath) {
        let dir = path.split().map(|(dir, _)| dir);
        dir.into_iter().for_each(|dir| self.rewrite(at, &dir, None));
    }

    /// No two states of a file have the same.
    fn next_mtime(&mut self) -> Timestamp {
        self.changes += 1;
        Timestamp { seconds: self.changes, nanos: 0 }
    }

    fn put(&mut self, (since, by): (Time, Change), path: &ViewPath, node: Option<Node>) {
        match &node {
            Some(node) => drop(self.now.nodes.insert(path.clone(), node.clone())),
            None => drop(self.now.nodes.remove(path)),
        }
        self.later.entry(path.clone()).or_default().push(State { since, node, by });
    }
}
