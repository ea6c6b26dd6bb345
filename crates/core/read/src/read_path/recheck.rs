//! A file that turns out to be another version than the one it was listed as: who opens it again must be told the new one.
//!
//! What lists the old version is dropped here. Who brought the chunk knows that the version is old, but with more than one
//! tree others are asked for the listing, and would tell it as before. They are told first, by a question that goes the
//! listing's way: each node on it drops what it has when the answer comes back, the reader of the backing file system
//! before the others, and until then nothing about the directory is asked from here.

use forebay_cache::{Key, Object};
use forebay_dispatch::{HoldId, RequestId, Source};
use forebay_types::{Generation, Priority, ViewPath, limits};
use forebay_wire::ReadMessage;

use super::ReadPath;
use crate::{Effect, StaleInode};

/// A question that tells others that a version is old.
#[derive(Debug)]
pub(super) struct Recheck {
    dir: ViewPath,
    /// What is asked about the directory meanwhile waits for this.
    hold: HoldId,
}

impl<B: Clone> ReadPath<B> {
    /// The backing file system holds another version of a file than the one that was asked for.
    pub(super) fn start_over(&mut self, key: &Key) {
        let Key::Chunk { file, generation, .. } = key else { return };
        let is_known = self.forget_version(file, generation);
        // What comes in the listing's own tree was asked of the same nodes, and they have dropped it.
        if is_known && (self.routing().is_direct(key) || self.routing().is_striped(key)) {
            self.recheck(file, generation);
        }
    }

    /// Drops what says that a file is of this version, and lets the kernel forget it. Whether this node had been told so. A
    /// listing that says another already stays.
    pub(super) fn forget_version(&mut self, file: &ViewPath, generation: &Generation) -> bool {
        let Some((dir, name)) = file.split() else { return false };
        let source = self.source_of_generation(&dir, name, generation);
        if let Some(source) = &source {
            self.objects.remove(source);
        }
        for request in self.requests_about(&dir) {
            self.ask_anew(request);
        }
        let inode = self.inodes.id_of(file);
        let inode = inode.filter(|id| self.inodes.get(*id).is_some_and(|known| known.generation == *generation));
        if let Some(inode) = inode {
            let entry = self.inodes.id_of(&dir).map(|dir| (dir, name.to_vec()));
            self.effects.push_back(Effect::Stale(vec![StaleInode { inode, entry }]));
        }
        source.is_some() || inode.is_some()
    }

    /// Tells those whom the directory is asked of; what is asked of it waits.
    fn recheck(&mut self, file: &ViewPath, generation: &Generation) {
        let key = Key::Recheck { file: file.clone(), generation: *generation };
        let Some((dir, _)) = file.split() else { return };
        if self.dispatch.source_of(&key) == Source::Backing {
            return;
        }
        let message = ReadMessage::Recheck { file: file.clone(), generation: *generation };
        let deadline = self.now.after(self.options.deadline);
        if let Some(recheck) = self.ask(key, message, Priority::Demand, deadline, None) {
            let hold = self.new_hold();
            for request in self.requests_about(&dir) {
                self.hold(request, hold);
            }
            self.rechecks.insert(recheck, Recheck { dir, hold });
        }
    }

    /// What a request for `key` has to wait for, where its directory is rechecked.
    pub(super) fn rechecks_of(&self, key: &Key) -> impl Iterator<Item = HoldId> {
        let dir = listed_in(key);
        self.rechecks.values().filter(move |recheck| Some(&recheck.dir) == dir).map(|recheck| recheck.hold)
    }

    /// A request has ended; if it was a recheck, what waited for it goes on.
    pub(super) fn end_recheck(&mut self, request: RequestId) {
        if let Some(Recheck { hold, .. }) = self.rechecks.remove(&request) {
            let now = self.now;
            self.dispatching(|dispatch| dispatch.release(now, hold));
        }
    }

    /// The requests under way whose answers list what is in `dir`.
    fn requests_about(&self, dir: &ViewPath) -> Vec<RequestId> {
        self.requests_where(|key| listed_in(key) == Some(dir))
    }

    /// What is kept that says a file has this generation: the listing, the page of attributes, or the name on its own.
    fn source_of_generation(&self, dir: &ViewPath, name: &[u8], generation: &Generation) -> Option<Key> {
        let key = Key::Listing { dir: dir.clone() };
        let Some(Object::Listing(listing)) = self.objects.peek(&key) else {
            let key = Key::Name { dir: dir.clone(), name: forebay_types::Name::new(name).ok()? };
            return matches!(self.objects.peek(&key), Some(Object::Entries(_))).then_some(key);
        };
        let index = listing.find(name)?;
        match listing.entry(index).attributes {
            Some(attributes) => (attributes.generation() == *generation).then_some(key),
            None => {
                let page = (index / limits::ATTRIBUTES_PAGE_NAMES) as u32;
                Some(Key::Page { dir: dir.clone(), listing: listing.version(), page })
            }
        }
    }
}

/// The directory of which an answer to `key` lists something.
fn listed_in(key: &Key) -> Option<&ViewPath> {
    match key {
        Key::Listing { dir } | Key::Page { dir, .. } | Key::Name { dir, .. } => Some(dir),
        Key::Chunk { .. } | Key::Parcel { .. } | Key::FileSystem { .. } | Key::Recheck { .. } => None,
    }
}
