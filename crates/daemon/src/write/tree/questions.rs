//! Questions to the leader, by its own node's programs and by other nodes, among them the standby.

use std::sync::Arc;

use forebay_types::{Errno, FileId, NodeRank};
use forebay_wire::write::Caller;
use forebay_wire::write_message::{Answer, Entries, Followed, Question, ReplicatedIndex};
use forebay_write::limits::LISTED_MAX;
use forebay_write::{Next, Refusal, Tree, gone_from};

use super::calling::On;
use super::knowing::{Needs, io_for_again};
use super::leader::Leader;
use super::paths::contents;
use crate::options::Copied;

/// The bit of `access(2)` for reading.
const READ: u32 = 4;

/// Which node asks.
#[derive(Clone, Copy)]
pub struct Asker {
    pub node: NodeRank,
    /// Whether it goes on believing the answer.
    pub is_leased: bool,
}

impl Leader {
    /// Answers a question of this node.
    ///
    /// # Errors
    /// The error for the program.
    pub async fn tell_on_task(&self, caller: &Caller, question: Question) -> Result<Answer, Errno> {
        self.election.hold().await?;
        let asker = Asker { node: self.local.rank, is_leased: false };
        match self.tell_known(asker, caller, &question) {
            Ok(told) => Ok(told),
            Err(Needs::Nothing(errno)) => Err(errno),
            Err(needs) => {
                let asked = Arc::new((caller.clone(), question));
                self.tell_by_task(On::Task, asker, asked, needs).await.map_err(io_for_again)
            }
        }
    }

    /// Answers a question once the tree knows what it needs. By a task.
    ///
    /// # Errors
    /// EAGAIN where this node may not lead the tree any more, else what the program is told.
    pub async fn tell_by_task(
        &self,
        on: On,
        asker: Asker,
        asked: Arc<(Caller, Question)>,
        mut needs: Needs,
    ) -> Result<Answer, Errno> {
        loop {
            match (&asked.1, needs) {
                (Question::FileSystem, _) => {
                    let look = |leader: &Self| leader.local.calls.serve(|| leader.local.place.file_system());
                    return self.call_backing(look).await?.map(Answer::FileSystem);
                }
                (Question::Durable, _) => return self.replicator.make_durable_on(on).await.map(|()| Answer::Nothing),
                (Question::Needed { of, is_filling }, _) => return self.needed(on, asker, *of, *is_filling).await,
                (Question::Extended { name, .. }, Needs::Extended(file)) => {
                    let name = name.clone();
                    let told = self.look_there(file, move |there| there.told(name.as_deref())).await;
                    return told.map(Answer::Extended);
                }
                (_, needs) => {
                    self.meet(on, None, needs).await?;
                }
            }
            let again = Arc::clone(&asked);
            match self.call(on, move |leader| leader.tell_known(asker, &again.0, &again.1)).await? {
                Ok(told) => return Ok(told),
                Err(next) => needs = next,
            }
        }
    }

    /// The standby's answer. It has `have`, and of a tree that it is being sent has come to `parts`.
    pub async fn followed(&self, have: Option<ReplicatedIndex>, parts: Option<(ReplicatedIndex, u32)>) -> Followed {
        if !self.replicator.hear(have) {
            return Followed::NotNow;
        }
        if self.replicator.is_releasing()
            && self.call(On::Pool, |leader| leader.replicator.release_safe()).await.is_err()
        {
            return Followed::NotNow;
        }
        match self.replicator.next().await {
            Next::Entries { have, entries } => Followed::Changes { have, changes: entries },
            Next::All => {
                let of_tree = move |leader: &Self| {
                    leader.replicator.parts(parts, || {
                        let tree = leader.tree();
                        (leader.replicator.lineage().have(), tree.clone())
                    })
                };
                self.call(On::Pool, of_tree).await.unwrap_or(Followed::NotNow)
            }
        }
    }

    /// How much of a node's log the tree needs, which a crash must not make more.
    async fn needed(&self, on: On, asker: Asker, of: Option<NodeRank>, is_filling: bool) -> Result<Answer, Errno> {
        let needed = move |leader: &Self| {
            let tree = leader.tree();
            let mut needed = tree.needed_of(of.unwrap_or(asker.node));
            // Of what the node does not have any more, its partner may have the only copies.
            for (segment, bytes) in of.into_iter().flat_map(|of| tree.needed_of(gone_from(of))) {
                *needed.entry(segment).or_default() += bytes;
            }
            needed
        };
        let needed = self.call(on, needed).await?;
        if of.is_none() {
            self.stores.note(asker.node, is_filling);
        }
        self.replicator.make_durable_on(on).await.map(|()| Answer::Needed(needed))
    }

    /// Answers a question as far as the tree knows. Waits for nothing.
    ///
    /// # Errors
    /// The need that comes before the answer.
    pub fn tell_known(&self, asker: Asker, caller: &Caller, question: &Question) -> Result<Answer, Needs> {
        let tree = self.tree();
        Ok(match question {
            Question::Lookup { place } => {
                self.forgetting.used(place.directory);
                self.grant(asker, &[place.directory]);
                let state = tree.lookup(caller, place)?;
                self.grant(asker, &[state.file]);
                Answer::State(state)
            }
            Question::State { file } => {
                self.grant(asker, &[*file]);
                Answer::State(tree.seen(*file)?)
            }
            Question::Access { file, wanted } => {
                tree.check_access(caller, *file, *wanted)?;
                Answer::Nothing
            }
            Question::Target { file } => Answer::Target(tree.target(*file)?.to_vec()),
            Question::List { directory } => Answer::Entries(self.listing(&tree, asker, *directory)?),
            Question::Contents { file, range } => {
                self.grant(asker, &[*file]);
                Answer::Contents(contents(&tree, *file, tree.pieces_for(asker.node, *file, range.clone())?)?)
            }
            Question::Seek { file, seek } => {
                Answer::Contents(contents(&tree, *file, tree.seek(*file, seek)?.into_iter().collect())?)
            }
            Question::Extended { file, name } => {
                if name.is_some() {
                    tree.check_access(caller, *file, READ)?;
                }
                let known = tree.extended(*file)?.ok_or(Refusal::Unread(*file))?;
                Answer::Extended(known.told(name.as_deref())?)
            }
            Question::Lock { file, request } => Answer::Lock(tree.lock_in_the_way(asker.node, *file, request)),
            Question::NextSerial => Answer::NextSerial(tree.next_serial_of(asker.node)),
            Question::LastCommitted => Answer::LastCommitted(tree.last_committed_of(asker.node)),
            Question::CarriedOut { id } => Answer::CarriedOut(tree.has_carried_out(*id)),
            Question::Tree(known) => Answer::Tree(self.tree_for(asker.node, *known, tree.number())),
            Question::Copied { file } => Answer::Copied(self.is_copied(&tree, *file)),
            Question::FileSystem | Question::Durable | Question::Needed { .. } => return Err(Needs::Task),
        })
    }

    fn listing(&self, tree: &Tree, asker: Asker, directory: FileId) -> Result<Entries, Refusal> {
        self.forgetting.used(directory);
        let listed = tree.list(directory, None, usize::MAX)?;
        if listed.len() <= LISTED_MAX {
            let files: Vec<FileId> = listed.iter().map(|listed| listed.state.file).collect();
            self.grant(asker, &[&[directory], &files[..]].concat());
        }
        let entries = listed.into_iter().map(|listed| (listed.name, listed.state)).collect();
        Ok(Entries { own: tree.seen(directory)?, parent: tree.parent(directory)?, entries })
    }

    /// The tree's number, for a node whose log is about `known`. Where that is another, it is not the log that may have been there.
    fn tree_for(&self, node: NodeRank, known: Option<u64>, number: u64) -> u64 {
        if known != Some(number) {
            self.unverified.note(node);
        }
        number
    }

    /// Whether partners copy what is written to a file.
    fn is_copied(&self, tree: &Tree, file: FileId) -> bool {
        match self.local.copying.as_ref().map(|copying| &copying.rule) {
            Some(Copied::Below(paths)) => tree.is_below(file, paths),
            rule => rule == Some(&Copied::All),
        }
    }

    /// The asking node is about to be told of `files`.
    fn grant(&self, asker: Asker, files: &[FileId]) {
        if asker.is_leased {
            let (mut leases, now) = (self.leases(), self.nodes.now());
            files.iter().for_each(|file| leases.grant(now, asker.node, *file));
        }
    }
}
