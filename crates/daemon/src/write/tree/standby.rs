//! The standby: a node that does not own it, and has all of it written down.
//!
//! It follows the tree (`replication`): it asks the leader for what has happened since, writes that down and asks for more, which tells the
//! leader how far it is. When the leader's node is lost, what landed there is lost with it, and the tree is not: this node takes it over,
//! with what the other nodes have changed of late and this one does not have yet.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::NodeRank;
use forebay_types::threads::NODES_ASKED_AT_ONCE;
use forebay_wire::journal::{JournalEntry, LeaderEntry};
use forebay_wire::message::{Checked, decode};
use forebay_wire::write::Change;
use forebay_wire::write_message::{Followed, Leadership, Replayed, ReplicatedIndex, WriteMessage};
use forebay_write::timing::{FOLLOW_RETRY_DELAY, FOLLOWED_WITHIN, LEADER_LEASE, LEASE_TTL_HELD, REPLAYED_WITHIN};
use forebay_write::{Released, Tree};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::election::Election;
use super::memory::Footprint;
use crate::write::local::Local;
use crate::write::notes::Note;
use crate::write::peers::{Waiting, all};
use crate::write::remote::Nodes;
use crate::write::replication::follower::{Stream, follow};

/// The tree as it is known here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mirror {
    pub have: ReplicatedIndex,
    pub tree: Tree,
}

/// See the module.
pub struct Standby {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    mirror: Mutex<Option<Mirror>>,
    footprint: Footprint,
}

/// A tree as it travels.
#[derive(Deserialize)]
#[serde(transparent)]
struct Travelling(Tree);

impl Checked for Travelling {
    fn is_within_limits(&self) -> bool {
        // The leader's.
        true
    }
}

impl Mirror {
    /// One more change.
    pub fn follow(&mut self, entry: &JournalEntry) {
        // It was carried out before: it has the same outcome again.
        let _ = self.tree.apply(entry, &mut Released::default());
        self.have.count += 1;
    }

    /// Whether it has names of files that have not landed, or that nodes beside these may have written to.
    pub fn is_needed_beside(&self, nodes: &[NodeRank]) -> bool {
        self.tree.is_needed() || self.tree.is_open_beside(nodes)
    }
}

/// Makes a checkpoint. May block.
pub type Keep = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The tree that is followed.
struct FollowedTree {
    second: Arc<Standby>,
    election: Arc<Election>,
    keep: Keep,
    began: Instant,
    /// When the leader answered last.
    heard_at: Instant,
    coming: Option<Coming>,
}

/// A tree of which the parts before `next` are here.
struct Coming {
    have: ReplicatedIndex,
    next: u32,
    tree: Tree,
}

impl Stream for FollowedTree {
    type Answer = Followed;

    fn leader(&self) -> NodeRank {
        self.second.nodes.leadership().leader
    }

    fn question(&self) -> WriteMessage {
        let parts = self.coming.as_ref().map(|coming| (coming.have, coming.next));
        WriteMessage::Follow { have: self.second.have(), parts }
    }

    async fn take(&mut self, answer: Followed) -> Result<(), String> {
        let coming = self.coming.take();
        match answer {
            Followed::Changes { have, changes } if changes.is_empty() && self.second.have() == Some(have) => {}
            Followed::Changes { have, changes } => {
                self.second.block(move |second| second.take_changes(have, &changes)).await?;
            }
            Followed::Parts { have, first, next, tree } => {
                let keep = Arc::clone(&self.keep);
                let take = move |second: &Standby| second.take_parts(coming, (have, first, next), &tree, &keep);
                self.coming = self.second.block(take).await?;
            }
            Followed::NotNow => return Err("the leader has no time for it".to_owned()),
        }
        self.heard_at = Instant::now();
        Ok(())
    }

    /// Whether this node is to lead the tree from now on.
    async fn fail(&mut self, failed: String) -> bool {
        tracing::warn!(failed, "the standby does not follow");
        let Some(have) = self.second.have().filter(|_| self.heard_at.elapsed() >= LEADER_LEASE) else { return false };
        let Some(leadership) = self.election.request_votes(have.incarnation).await else { return false };
        // The leader before may have been another's node so lately that its kernel believes what it was told then.
        self.second.nodes.pause(LEASE_TTL_HELD.saturating_sub(self.began.elapsed())).await;
        self.second.take_over(leadership, &self.election).await;
        true
    }
}

impl Standby {
    /// With what was found of it in the node's log.
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, mirror: Option<Mirror>) -> Self {
        Self {
            local: Arc::clone(local),
            nodes: Arc::clone(nodes),
            mirror: Mutex::new(mirror),
            footprint: Footprint::default(),
        }
    }

    /// The tree as this node has it, if it is known.
    pub fn mirror(&self) -> MutexGuard<'_, Option<Mirror>> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much this node has of the tree's history, if it has the tree.
    fn have(&self) -> Option<ReplicatedIndex> {
        self.mirror().as_ref().map(|mirror| mirror.have)
    }

    /// Follows until all is over, or until this node leads the tree.
    pub async fn follow(self: Arc<Self>, election: Arc<Election>, keep: Keep) {
        let (nodes, now) = (Arc::clone(&self.nodes), Instant::now());
        follow(&nodes, FollowedTree { second: self, election, keep, began: now, heard_at: now, coming: None }).await;
    }

    /// A call that may block, on a thread of the pool.
    async fn block<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let second = Arc::clone(self);
        let called = self.nodes.block(move || call(&second)).await;
        called.unwrap_or_else(|| Err("this daemon is ending".to_owned()))
    }

    /// This node is to lead the tree. The leader before changes it no more.
    async fn take_over(self: &Arc<Self>, leadership: Leadership, election: &Arc<Election>) {
        let Some(have) = self.have() else { return };
        let mut handed = vec![];
        while let Ok(Replayed(changes)) =
            self.nodes.replay_for(leadership, handed.last().map_or(have, |(have, _)| *have))
            && !changes.is_empty()
        {
            handed.extend(changes);
        }
        if self.nodes.leadership() != leadership {
            tracing::warn!("another node leads the burst tree by now");
            return;
        }
        let of_council = Arc::clone(election);
        let Some(before) = self.nodes.block(move || of_council.leader_before(leadership)).await else { return };
        // The leader before has told what it was asked for when it answered: nobody waits for it.
        let others: Vec<NodeRank> = self.nodes.others().into_iter().filter(|node| Some(*node) != before).collect();
        for nodes in others.chunks(NODES_ASKED_AT_ONCE) {
            let asked = nodes.iter().map(|node| Box::pin(self.replayed_by(*node, leadership, have)) as Waiting<'_, _>);
            handed.extend(all(asked.collect()).await.into_iter().flatten());
        }
        // Changes of nodes that were not asked would be lost: the next daemon stands again.
        if self.nodes.is_ending() {
            return;
        }
        tracing::warn!(?before, term = leadership.term, changes = handed.len(), "this node takes the burst tree over");
        let election = Arc::clone(election);
        let gone_on = move |second: &Self| {
            second.go_on_with(handed, before);
            election.leave(leadership);
            Ok(())
        };
        if let Err(failed) = self.block(gone_on).await {
            tracing::error!(failed, "the burst tree is not taken over");
        }
    }

    /// Changes of a node that came after what this one has.
    async fn replayed_by(
        &self,
        node: NodeRank,
        leadership: Leadership,
        have: ReplicatedIndex,
    ) -> Vec<(ReplicatedIndex, Change)> {
        let (mut all, mut after, began) = (vec![], have, Instant::now());
        while !self.nodes.is_ending() && began.elapsed() < REPLAYED_WITHIN {
            let asked = WriteMessage::Replay { leadership, after };
            match self.nodes.ask_once::<Replayed>(node, &asked, FOLLOWED_WITHIN).await {
                Some(Replayed(changes)) if changes.is_empty() => break,
                Some(Replayed(changes)) => {
                    after = changes.last().map_or(after, |(last, _)| *last);
                    // Those that it has not asked for itself are none of its own.
                    all.extend(changes.into_iter().filter(|(_, change)| change.check_sender(node).is_ok()));
                }
                None => self.nodes.pause(FOLLOW_RETRY_DELAY).await,
            }
        }
        all
    }

    /// The tree goes on with what other nodes have changed, and without the node that owned it.
    fn go_on_with(&self, mut handed: Vec<(ReplicatedIndex, Change)>, before: Option<NodeRank>) {
        handed.sort_by_key(|(have, _)| *have);
        let handed = handed.into_iter().map(|(_, change)| JournalEntry::Request(change));
        let without = before.into_iter().flat_map(|before| self.without(before)).map(JournalEntry::Leader);
        for entry in handed.chain(without) {
            if let Err(failed) = self.add(&entry) {
                tracing::error!(failed, ?entry, "a change is lost with the node that led the burst tree");
            }
        }
    }

    /// The tree goes on without a node: nothing waits for bytes that it alone has, what its programs have open is closed, and their locks are
    /// free.
    fn without(&self, node: NodeRank) -> [LeaderEntry; 2] {
        let mut lost = self.mirror().as_ref().map_or_else(BTreeSet::new, |mirror| mirror.tree.lost_nodes().clone());
        lost.insert(node);
        // It was, perhaps.
        lost.remove(&self.local.rank);
        [LeaderEntry::Lost { nodes: lost.into_iter().collect() }, LeaderEntry::GiveUp { node }]
    }

    /// One more change, which the leader before has carried out and not told.
    fn add(&self, entry: &JournalEntry) -> Result<(), String> {
        let mut mirror = self.mirror();
        let Some(known) = &mut *mirror else { return Ok(()) };
        known.tree.apply(entry, &mut Released::default()).map_err(|refusal| format!("{refusal:?}"))?;
        self.local.log.append_note(&Note::followed(known.have.count + 1, entry)).map_err(|error| error.to_string())?;
        known.have.count += 1;
        Ok(())
    }

    /// The changes that come next, which lead to `have`.
    fn take_changes(&self, have: ReplicatedIndex, changes: &[Vec<u8>]) -> Result<(), String> {
        changes.iter().try_for_each(|change| self.take(change))?;
        self.go_on_as(have)?;
        self.note_footprint();
        Ok(())
    }

    /// The parts of the tree that come next. If the tree is not whole yet, the parts of it so far.
    fn take_parts(
        &self,
        mut coming: Option<Coming>,
        (have, first, next): (ReplicatedIndex, u32, Option<u32>),
        tree: &[u8],
        keep: &Keep,
    ) -> Result<Option<Coming>, String> {
        let Travelling(tree) = decode(tree).map_err(|error| format!("the tree cannot be decoded: {error}"))?;
        if Some(tree.number()) != self.local.tree_number() {
            return Err("the leader has another tree than this node's store".to_owned());
        }
        let Some(tree) = self.come_on(&mut coming, (have, first, next), tree) else { return Ok(coming) };
        *self.mirror() = Some(Mirror { have, tree });
        // A tree that is not written down is not known.
        keep().inspect_err(|_| *self.mirror() = None)?;
        self.note_footprint();
        Ok(None)
    }

    fn note_footprint(&self) {
        self.footprint.set(self.mirror().as_ref().map_or(0, |mirror| mirror.tree.files()));
    }

    /// Adds parts to the tree that is coming. The tree, once it is whole.
    fn come_on(
        &self,
        coming: &mut Option<Coming>,
        (have, first, next): (ReplicatedIndex, u32, Option<u32>),
        parts: Tree,
    ) -> Option<Tree> {
        let tree = match coming.take().filter(|coming| first > 0 && (coming.have, coming.next) == (have, first)) {
            Some(mut coming) => {
                coming.tree.absorb(parts);
                coming.tree
            }
            None if first == 0 => parts,
            // The answer to an older question.
            None => return None,
        };
        let Some(next) = next else { return Some(tree) };
        *coming = Some(Coming { have, next, tree });
        None
    }

    /// The mirror has come about as `have` says: perhaps under another daemon of the leader.
    fn go_on_as(&self, have: ReplicatedIndex) -> Result<(), String> {
        let mut mirror = self.mirror();
        let Some(known) = mirror.as_mut().filter(|known| known.have != have) else { return Ok(()) };
        if known.have.count != have.count {
            *mirror = None;
            return Err("the leader counts other changes than it has sent".to_owned());
        }
        self.local.log.append_note(&Note::incarnation(have.incarnation)).map_err(|error| error.to_string())?;
        known.have = have;
        Ok(())
    }

    fn take(&self, entry: &[u8]) -> Result<(), String> {
        let entry: JournalEntry = decode(entry).map_err(|error| format!("a change cannot be decoded: {error}"))?;
        let mut mirror = self.mirror();
        let Some(known) = &mut *mirror else { return Ok(()) };
        self.local.log.append_note(&Note::followed(known.have.count + 1, &entry)).map_err(|error| error.to_string())?;
        known.follow(&entry);
        Ok(())
    }
}
