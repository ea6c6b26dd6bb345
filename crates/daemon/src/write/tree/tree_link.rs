//! The tree as a node reaches it: its own, or the leader's on another node.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use forebay_types::{Errno, FileId, FileSystem, LogPosition, NodeRank, OperationId};
use forebay_wire::write::{Caller, Change, Done, FileState, HeldLock, LockRequest, Place};
use forebay_wire::write_message::{Answer, Contents, Entries, Question, Seek};

use super::calling::On;
use super::leader::Leader;
use super::remote_tree::RemoteTree;
use crate::write::remote::{Nodes, UNEXPECTED_REPLY};

/// See the module. Everything may wait: until the leader's node has a daemon again, if need be.
#[derive(Clone)]
pub enum TreeLink {
    Here(Arc<Leader>),
    There(Arc<RemoteTree>),
}

impl TreeLink {
    /// The leader, if it is this node.
    pub fn here(&self) -> Option<&Arc<Leader>> {
        match self {
            Self::Here(leader) => Some(leader),
            Self::There(_) => None,
        }
    }

    /// The nodes that it leads through.
    pub fn nodes(&self) -> &Arc<Nodes> {
        match self {
            Self::Here(leader) => &leader.nodes,
            Self::There(remote) => &remote.nodes,
        }
    }

    /// Has a change carried out, once however often it is sent.
    ///
    /// # Errors
    /// The error for the program.
    pub async fn carry_out(&self, change: &Change) -> Result<Done, Errno> {
        match self {
            Self::Here(leader) => leader.carry_out_on_task(change).await,
            Self::There(remote) => remote.carry_out(change).await,
        }
    }

    /// The leader tells that files are not what it has told; none means all.
    pub fn invalidate(&self, files: &[FileId]) {
        if let Self::There(remote) = self {
            remote.invalidate(files);
        }
    }

    async fn ask(&self, caller: &Caller, question: Question) -> Result<Answer, Errno> {
        match self {
            Self::Here(leader) => leader.tell_on_task(caller, question).await,
            Self::There(remote) => remote.ask(caller, question, false).await,
        }
    }

    async fn ask_own(&self, question: Question) -> Result<Answer, Errno> {
        self.ask(&Caller::default(), question).await
    }

    pub async fn lookup(&self, caller: &Caller, place: Place) -> Result<FileState, Errno> {
        if let Self::There(remote) = self {
            return remote.lookup(caller, place).await;
        }
        match self.ask(caller, Question::Lookup { place }).await? {
            Answer::State(state) => Ok(state),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    pub async fn state(&self, file: FileId) -> Result<FileState, Errno> {
        if let Self::There(remote) = self {
            return remote.state(file).await;
        }
        match self.ask_own(Question::State { file }).await? {
            Answer::State(state) => Ok(state),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// A file as it is, and for how long: where it changes before, `PageCache::invalidate` is told.
    pub async fn leased_state(&self, file: FileId) -> Result<(FileState, Duration), Errno> {
        match self {
            Self::Here(leader) => {
                let lease = leader.election.lease_here();
                Ok((self.state(file).await?, lease))
            }
            Self::There(remote) => remote.leased_state(file).await,
        }
    }

    /// Whether `caller` may do what `wanted` says: the bits of `access(2)`.
    pub async fn check_access(&self, caller: &Caller, file: FileId, wanted: u32) -> Result<(), Errno> {
        if let Self::There(remote) = self {
            return remote.check_access(caller, file, wanted).await;
        }
        self.ask(caller, Question::Access { file, wanted }).await.map(drop)
    }

    pub async fn target(&self, file: FileId) -> Result<Vec<u8>, Errno> {
        match self.ask_own(Question::Target { file }).await? {
            Answer::Target(target) => Ok(target),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    pub async fn list(&self, directory: FileId) -> Result<Entries, Errno> {
        if let Self::There(remote) = self {
            return remote.list(directory).await;
        }
        match self.ask_own(Question::List { directory }).await? {
            Answer::Entries(entries) => Ok(entries),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    pub async fn contents(&self, file: FileId, range: Range<u64>) -> Result<Contents, Errno> {
        if let Self::There(remote) = self {
            return remote.contents(file, range).await;
        }
        match self.ask_own(Question::Contents { file, range }).await? {
            Answer::Contents(contents) => Ok(contents),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// The first piece of a file that may be what is sought.
    ///
    /// # Errors
    /// The error that the program gets.
    pub async fn seek(&self, file: FileId, seek: Seek) -> Result<Contents, Errno> {
        match self.ask_own(Question::Seek { file, seek }).await? {
            Answer::Contents(contents) => Ok(contents),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// The value of an extended attribute, or the names of all.
    ///
    /// # Errors
    /// The error that the program gets.
    pub async fn extended(&self, caller: &Caller, file: FileId, name: Option<Vec<u8>>) -> Result<Vec<u8>, Errno> {
        match self.ask(caller, Question::Extended { file, name }).await? {
            Answer::Extended(told) => Ok(told),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// Bytes of a file are not where they were said to be: it is asked again.
    pub fn drop_places(&self, file: FileId) {
        if let Self::There(remote) = self {
            remote.drop_places(file);
        }
    }

    /// The lock that is in the way of another.
    pub async fn lock_in_the_way(&self, file: FileId, request: LockRequest) -> Result<Option<HeldLock>, Errno> {
        match self.ask_own(Question::Lock { file, request }).await? {
            Answer::Lock(held) => Ok(held),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    pub async fn file_system(&self) -> Result<FileSystem, Errno> {
        match self.ask_own(Question::FileSystem).await? {
            Answer::FileSystem(sizes) => Ok(sizes),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// All changes until now survive the loss of power, and of the leader's node. Writes of this node do so only
    /// as far as `Local::make_durable` says.
    pub async fn make_durable(&self) -> Result<(), Errno> {
        match self {
            Self::Here(leader) => leader.replicator.make_durable_on(On::Task).await,
            Self::There(_) => self.ask_own(Question::Durable).await.map(drop),
        }
    }

    /// Above all serials that the tree knows of this node.
    pub async fn next_serial(&self) -> Result<u64, Errno> {
        match self.ask_own(Question::NextSerial).await? {
            Answer::NextSerial(next) => Ok(next),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// The record of this node's log that its last commit was about, as far as the tree knows of one.
    pub async fn last_committed(&self) -> Result<Option<LogPosition>, Errno> {
        match self.ask_own(Question::LastCommitted).await? {
            Answer::LastCommitted(position) => Ok(position),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// Whether the tree has a change, or never gets it.
    pub async fn has_carried_out(&self, id: OperationId) -> Result<bool, Errno> {
        match self.ask_own(Question::CarriedOut { id }).await? {
            Answer::CarriedOut(has) => Ok(has),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// The number of the tree, for a node whose log is about `known`.
    pub async fn number(&self, known: Option<u64>) -> Result<u64, Errno> {
        match self.ask_own(Question::Tree(known)).await? {
            Answer::Tree(number) => Ok(number),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// Whether partners copy what is written to a file.
    pub async fn is_copied(&self, file: FileId) -> Result<bool, Errno> {
        match self.ask_own(Question::Copied { file }).await? {
            Answer::Copied(is_copied) => Ok(is_copied),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// How much of another node's log the tree needs: bytes, by segment.
    pub async fn needed_of(&self, of: NodeRank) -> Result<BTreeMap<u64, u64>, Errno> {
        self.ask_needed(Question::Needed { of: Some(of), is_filling: false }).await
    }

    /// The leader is to go on without a node that does not answer. Whether it can.
    pub async fn failover(&self, node: NodeRank) -> Result<bool, Errno> {
        match self {
            Self::Here(leader) => leader.find_elsewhere(On::Task, node).await,
            Self::There(remote) => remote.failover(node).await,
        }
    }

    /// How much of this node's log the tree needs: bytes, by segment.
    pub async fn needed(&self, is_filling: bool) -> Result<BTreeMap<u64, u64>, Errno> {
        self.ask_needed(Question::Needed { of: None, is_filling }).await
    }

    async fn ask_needed(&self, question: Question) -> Result<BTreeMap<u64, u64>, Errno> {
        match self.ask_own(question).await? {
            Answer::Needed(needed) => Ok(needed),
            _ => Err(UNEXPECTED_REPLY),
        }
    }
}
