//! Operations of the kernel, but for reads: answered from what is known, else parked until it has arrived.
//!
//! An operation is resumed from its beginning when something arrives, with that thing in hand (`Known`); so there is
//! one text for the first attempt and for every later one, and a cache that keeps nothing still answers.

use std::time::Duration;

use forebay_cache::Key;
use forebay_dispatch::Waiting;
use forebay_types::{Attributes, Errno, Kind, Name, Priority, Time, ViewPath};
use forebay_wire::{ReadMessage, Use};

use super::state::ReadPath;
use crate::effect::{Entry, KernelAnswer, KernelRequest, KernelTicket, PeerAnswer};
use crate::inode_id::InodeId;
use crate::links::{shown_attributes, shown_target};
use crate::names::{Finder, Known, Search};
use crate::waiter::{Asker, Operation, ReadFinished, Waiter};

/// How long the sizes of the file system are believed: `find` asks for them at each directory.
const SIZES_HOLD: Duration = Duration::from_secs(1);

/// The next step of an operation.
enum Step<B> {
    Answer(KernelAnswer<B>),
    Wants(Key, ReadMessage),
}

impl<B: Clone> ReadPath<B> {
    /// Hands an answer to all its waiters.
    pub(super) fn deliver(&mut self, finished: Option<ReadFinished>, arrived: Known, answer: PeerAnswer<B>) {
        let Some(finished) = finished else { return };
        self.on_end(finished.request);
        for Waiting { who, until } in finished.waiters {
            match who {
                Waiter::Kernel { ticket, operation, known } => {
                    self.resume(until, ticket, operation, known.with(&arrived));
                }
                Waiter::Peer(Asker { ticket, .. }) => self.tell_peer(ticket, answer.clone()),
                // No other waiter waits for names.
                _ => {}
            }
        }
    }

    /// Resumes a parked operation with what has arrived for it.
    pub(super) fn resume(&mut self, deadline: Time, ticket: KernelTicket, operation: Operation, known: Known) {
        if let Some(answer) = self.attempt_until(deadline, ticket, operation, known) {
            self.tell_kernel(ticket, answer);
        }
    }

    pub(super) fn attempt(
        &mut self,
        now: Time,
        ticket: KernelTicket,
        operation: Operation,
        known: Known,
    ) -> Option<KernelAnswer<B>> {
        let deadline = now.after(self.options.deadline);
        let wanted = match &operation {
            Operation::Lookup { dir, .. } | Operation::Directory { dir } => Some(Key::Listing { dir: dir.clone() }),
            _ => None,
        };
        let answer = self.attempt_until(deadline, ticket, operation, known);
        if let Some(key) = wanted {
            self.note_wanted(&key);
        }
        answer
    }

    fn attempt_until(
        &mut self,
        deadline: Time,
        ticket: KernelTicket,
        operation: Operation,
        mut known: Known,
    ) -> Option<KernelAnswer<B>> {
        match self.step(&operation, &mut known) {
            Step::Answer(answer) => Some(answer),
            Step::Wants(key, request) => {
                let waiter = Waiter::Kernel { ticket, operation, known };
                self.ask(key, request, Priority::Demand, deadline, Some(waiter));
                None
            }
        }
    }

    pub(super) fn operation_of(&mut self, request: KernelRequest) -> Result<Operation, Errno> {
        let inodes = &self.inodes;
        let path_of = |inode| inodes.get(inode).map(|inode| inode.path.clone()).ok_or(Errno::ESTALE);
        Ok(match request {
            KernelRequest::Lookup { parent, name } => {
                let dir = path_of(parent)?;
                self.recording.note(self.now, || Use::Directory(dir.clone()));
                let name = Name::new(name).map_err(|_| Errno::ENAMETOOLONG)?;
                dir.join(name.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)?;
                Operation::Lookup { dir, name }
            }
            KernelRequest::Attributes { inode } => Operation::Attributes { inode },
            KernelRequest::Readlink { inode } => Operation::Readlink { inode },
            KernelRequest::Directory { inode } => {
                let dir = path_of(inode)?;
                self.recording.note(self.now, || Use::Directory(dir.clone()));
                Operation::Directory { dir }
            }
            KernelRequest::FileSystem { inode } => {
                path_of(inode)?;
                Operation::FileSystem
            }
            KernelRequest::Read { .. } => return Err(Errno::EINVAL),
        })
    }

    fn step(&mut self, operation: &Operation, known: &mut Known) -> Step<B> {
        match operation {
            Operation::Lookup { dir, name } => self.lookup(dir, name, known),
            Operation::Attributes { inode } => self.attributes(*inode, known),
            Operation::Readlink { inode } => self.readlink(*inode, known),
            Operation::Directory { dir } => match self.finder().listing_of(dir, known) {
                Ok(listing) => Step::Answer(KernelAnswer::Directory(listing)),
                Err(wanted) => Step::Wants(wanted.0, wanted.1),
            },
            // The view's own sizes are those of its first export; the root of the tree knows which that is.
            Operation::FileSystem => match self.sizes {
                Some((told, sizes)) if self.now.since(told) < SIZES_HOLD => {
                    Step::Answer(KernelAnswer::FileSystem(sizes))
                }
                _ => {
                    let path = ViewPath::root();
                    Step::Wants(Key::FileSystem { path: path.clone() }, ReadMessage::FileSystem { path })
                }
            },
        }
    }

    fn lookup(&mut self, dir: &ViewPath, name: &Name, known: &mut Known) -> Step<B> {
        match self.finder().search(dir, name.as_bytes(), known) {
            Search::Found(attributes, target) => match dir.join(name.as_bytes()) {
                Ok(path) => {
                    let attributes = shown_attributes(self.options.links.as_ref(), attributes, &target);
                    let inode = self.inodes.remember(path, &attributes);
                    Step::Answer(KernelAnswer::Entry(Entry { inode, attributes }))
                }
                Err(_) => Step::Answer(KernelAnswer::Failed(Errno::ENAMETOOLONG)),
            },
            Search::Absent => {
                self.counters.negative_hits += u64::from(!known.unlistable);
                if let Ok(path) = dir.join(name.as_bytes()) {
                    self.recording.note(self.now, || Use::Absent(path));
                }
                Step::Answer(KernelAnswer::Absent)
            }
            Search::Wants(key, request) => Step::Wants(key, request),
            Search::Failed(errno) => Step::Answer(KernelAnswer::Failed(errno)),
        }
    }

    fn attributes(&mut self, id: InodeId, known: &mut Known) -> Step<B> {
        let Some(inode) = self.inodes.get(id) else {
            return Step::Answer(KernelAnswer::Failed(Errno::ESTALE));
        };
        if let Some(attributes) = inode.attributes.filter(|_| self.options.entry_ttl.is_none()) {
            return Step::Answer(KernelAnswer::Attributes(attributes));
        }
        let path = inode.path.clone();
        let attributes = match path.split() {
            None => match self.finder().listing_of(&path, known) {
                Ok(listing) => listing.directory(),
                Err(wanted) => return Step::Wants(wanted.0, wanted.1),
            },
            Some((dir, name)) => match self.finder().search(&dir, name, known) {
                Search::Found(attributes, target) => shown_attributes(self.options.links.as_ref(), attributes, &target),
                Search::Absent => return Step::Answer(KernelAnswer::Failed(Errno::ESTALE)),
                Search::Wants(key, request) => return Step::Wants(key, request),
                Search::Failed(errno) => return Step::Answer(KernelAnswer::Failed(errno)),
            },
        };
        self.refreshed(id, attributes)
    }

    /// Attributes asked for again: of the same generation they are the inode's, of another they are a new inode's, and
    /// who still holds the old one is told so.
    fn refreshed(&mut self, id: InodeId, attributes: Attributes) -> Step<B> {
        let Some(inode) = self.inodes.get_mut(id) else {
            return Step::Answer(KernelAnswer::Failed(Errno::ESTALE));
        };
        if !inode.may_become(&attributes) {
            return Step::Answer(KernelAnswer::Failed(Errno::ESTALE));
        }
        inode.generation = attributes.generation();
        inode.attributes = Some(attributes);
        Step::Answer(KernelAnswer::Attributes(attributes))
    }

    fn finder(&mut self) -> Finder<'_, B> {
        Finder { kept: &mut self.kept, now: self.now }
    }

    fn readlink(&mut self, id: InodeId, known: &mut Known) -> Step<B> {
        let place = self.inodes.get(id).and_then(|inode| inode.path.split().map(|(dir, name)| (dir, name.to_vec())));
        let Some((dir, name)) = place else {
            return Step::Answer(KernelAnswer::Failed(Errno::EINVAL));
        };
        match self.finder().search(&dir, &name, known) {
            Search::Found(attributes, target) if attributes.kind() == Kind::Symlink => {
                Step::Answer(KernelAnswer::Target(shown_target(self.options.links.as_ref(), target)))
            }
            Search::Found(..) => Step::Answer(KernelAnswer::Failed(Errno::EINVAL)),
            Search::Absent => Step::Answer(KernelAnswer::Failed(Errno::ESTALE)),
            Search::Wants(key, request) => Step::Wants(key, request),
            Search::Failed(errno) => Step::Answer(KernelAnswer::Failed(errno)),
        }
    }
}
