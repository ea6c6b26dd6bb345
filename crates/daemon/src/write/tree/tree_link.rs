//! The tree as a node reaches it: its own, or the owner's on another node.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use forebay_types::{Errno, FileId, FileSystem, NodeRank};
use forebay_wire::write::{Caller, Change, Done, FileState, HeldLock, LockRequest, Place};
use forebay_wire::write_message::{Contents, Entries, Question, Seek, Told};

use super::calling::On;
use super::owner::Owner;
use super::remote_tree::RemoteTree;
use crate::write::remote::SENSELESS;

/// See the module. Everything may block: until the owner's node has a daemon again, if need be.
pub enum TreeLink {
    Here(Arc<Owner>),
    There(Arc<RemoteTree>),
}

impl TreeLink {
    /// The owner, if it is this node.
    pub fn here(&self) -> Option<&Arc<Owner>> {
        match self {
            Self::Here(owner) => Some(owner),
            Self::There(_) => None,
        }
    }

    /// Has a change carried out, once however often it is sent.
    ///
    /// # Errors
    /// The error for the program.
    pub fn carry_out(&self, change: &Change) -> Result<Done, Errno> {
        match self {
            Self::Here(owner) => owner.carry_out(change),
            Self::There(remote) => remote.carry_out(change),
        }
    }

    /// The owner tells that files are not what it has told; none means all.
    pub fn forget(&self, files: &[FileId]) {
        if let Self::There(remote) = self {
            remote.forget(files);
        }
    }

    fn ask(&self, caller: &Caller, question: Question) -> Result<Told, Errno> {
        match self {
            Self::Here(owner) => owner.tell(caller, &question),
            Self::There(remote) => remote.ask(caller, question, false),
        }
    }

    fn ask_own(&self, question: Question) -> Result<Told, Errno> {
        self.ask(&Caller::default(), question)
    }

    pub fn lookup(&self, caller: &Caller, place: Place) -> Result<FileState, Errno> {
        if let Self::There(remote) = self {
            return remote.lookup(caller, place);
        }
        match self.ask(caller, Question::Lookup { place })? {
            Told::State(state) => Ok(state),
            _ => Err(SENSELESS),
        }
    }

    pub fn state(&self, file: FileId) -> Result<FileState, Errno> {
        if let Self::There(remote) = self {
            return remote.state(file);
        }
        match self.ask_own(Question::State { file })? {
            Told::State(state) => Ok(state),
            _ => Err(SENSELESS),
        }
    }

    /// Whether `state` is answered without another node.
    pub fn knows(&self, file: FileId) -> bool {
        match self {
            // Without a tenure it waits for one.
            Self::Here(owner) => owner.council.is_held(),
            Self::There(remote) => remote.knows(file),
        }
    }

    /// A file as it is, and for how long: where it changes before, `PageCache::forget` is told.
    pub fn leased_state(&self, file: FileId) -> Result<(FileState, Duration), Errno> {
        match self {
            Self::Here(owner) => {
                let lease = owner.council.believed_here();
                Ok((self.state(file)?, lease))
            }
            Self::There(remote) => remote.leased_state(file),
        }
    }

    /// Whether `caller` may do what `wanted` says: the bits of `access(2)`.
    pub fn check_access(&self, caller: &Caller, file: FileId, wanted: u32) -> Result<(), Errno> {
        if let Self::There(remote) = self {
            return remote.check_access(caller, file, wanted);
        }
        self.ask(caller, Question::Access { file, wanted }).map(drop)
    }

    pub fn target(&self, file: FileId) -> Result<Vec<u8>, Errno> {
        match self.ask_own(Question::Target { file })? {
            Told::Target(target) => Ok(target),
            _ => Err(SENSELESS),
        }
    }

    pub fn list(&self, directory: FileId) -> Result<Entries, Errno> {
        if let Self::There(remote) = self {
            return remote.list(directory);
        }
        match self.ask_own(Question::List { directory })? {
            Told::Entries(entries) => Ok(entries),
            _ => Err(SENSELESS),
        }
    }

    pub fn contents(&self, file: FileId, range: Range<u64>) -> Result<Contents, Errno> {
        if let Self::There(remote) = self {
            return remote.contents(file, range);
        }
        match self.ask_own(Question::Contents { file, range })? {
            Told::Contents(contents) => Ok(contents),
            _ => Err(SENSELESS),
        }
    }

    /// The same where it is known without another node.
    pub fn known_contents(&self, file: FileId, range: Range<u64>) -> Option<Contents> {
        match self {
            Self::Here(owner) if owner.council.is_held() => owner.known_contents(file, range),
            Self::Here(_) => None,
            Self::There(remote) => remote.known_contents(file, &range),
        }
    }

    /// The first piece of a file that may be what is sought.
    ///
    /// # Errors
    /// The error that the program gets.
    pub fn seek(&self, file: FileId, seek: Seek) -> Result<Contents, Errno> {
        match self.ask_own(Question::Seek { file, seek })? {
            Told::Contents(contents) => Ok(contents),
            _ => Err(SENSELESS),
        }
    }

    /// The value of an extended attribute, or the names of all.
    ///
    /// # Errors
    /// The error that the program gets.
    pub fn extended(&self, caller: &Caller, file: FileId, name: Option<Vec<u8>>) -> Result<Vec<u8>, Errno> {
        match self.ask(caller, Question::Extended { file, name })? {
            Told::Extended(told) => Ok(told),
            _ => Err(SENSELESS),
        }
    }

    /// Bytes of a file are not where they were said to be: it is asked again.
    pub fn drop_places(&self, file: FileId) {
        if let Self::There(remote) = self {
            remote.drop_places(file);
        }
    }

    /// The lock that is in the way of another.
    pub fn lock_in_the_way(&self, file: FileId, request: LockRequest) -> Result<Option<HeldLock>, Errno> {
        match self.ask_own(Question::Lock { file, request })? {
            Told::Lock(held) => Ok(held),
            _ => Err(SENSELESS),
        }
    }

    pub fn file_system(&self) -> Result<FileSystem, Errno> {
        match self.ask_own(Question::FileSystem)? {
            Told::FileSystem(sizes) => Ok(sizes),
            _ => Err(SENSELESS),
        }
    }

    /// All changes until now survive the loss of power, and of the owner's node. Writes of this node do so only
    /// as far as `Local::make_durable` says.
    pub fn make_durable(&self) -> Result<(), Errno> {
        match self {
            Self::Here(owner) => owner.make_durable(),
            Self::There(_) => self.ask_own(Question::Durable).map(drop),
        }
    }

    /// Above all serials that the tree knows of this node.
    pub fn next_serial(&self) -> Result<u64, Errno> {
        match self.ask_own(Question::NextSerial)? {
            Told::NextSerial(next) => Ok(next),
            _ => Err(SENSELESS),
        }
    }

    /// The number of the tree, for a node whose log is about `known`.
    pub fn number(&self, known: Option<u64>) -> Result<u64, Errno> {
        match self.ask_own(Question::Tree(known))? {
            Told::Tree(number) => Ok(number),
            _ => Err(SENSELESS),
        }
    }

    /// Whether partners copy what is written to a file.
    pub fn is_copied(&self, file: FileId) -> Result<bool, Errno> {
        match self.ask_own(Question::Copied { file })? {
            Told::Copied(is_copied) => Ok(is_copied),
            _ => Err(SENSELESS),
        }
    }

    /// How much of another node's log the tree needs: bytes, by segment. By a task.
    pub async fn needed_of(&self, of: NodeRank) -> Result<BTreeMap<u64, u64>, Errno> {
        let question = Question::Needed { of: Some(of), is_filling: false };
        let told = match self {
            Self::Here(owner) => owner.tell_own_by_task(question).await,
            Self::There(remote) => remote.ask_by_task(question).await,
        };
        bytes_by_segment(told?)
    }

    /// The owner is to go on without a node that does not answer. Whether it can.
    pub fn rescue(&self, node: NodeRank) -> Result<bool, Errno> {
        match self {
            Self::Here(owner) => owner.nodes.wait_for(owner.rescue(On::ThisThread, node)),
            Self::There(remote) => remote.rescue(node),
        }
    }

    /// How much of this node's log the tree needs: bytes, by segment.
    pub fn needed(&self, is_filling: bool) -> Result<BTreeMap<u64, u64>, Errno> {
        bytes_by_segment(self.ask_own(Question::Needed { of: None, is_filling })?)
    }
}

fn bytes_by_segment(told: Told) -> Result<BTreeMap<u64, u64>, Errno> {
    match told {
        Told::Needed(needed) => Ok(needed),
        _ => Err(SENSELESS),
    }
}
