//! The tree's second home: a node that does not own it, and has all of it written down.
//!
//! It asks the owner for what has happened since (`forebay_write::History`), writes that down and asks for more, which tells the
//! owner how far it is. When the owner's node is lost, what landed there is lost with it, and the tree is not: this node takes it over,
//! with what the other nodes have changed of late and this one does not have yet.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use forebay_types::NodeRank;
use forebay_types::threads::NODES_ASKED_AT_ONCE;
use forebay_wire::journal::{JournalEntry, LeaderEntry};
use forebay_wire::message::{Checked, decode};
use forebay_wire::write::Change;
use forebay_wire::write_message::{Followed, Handed, Have, Owns, WriteMessage};
use forebay_write::timing::{BELIEVED_HELD, FOLLOW_AGAIN_AFTER, FOLLOWED_WITHIN, HANDED_WITHIN, TENURE};
use forebay_write::{Released, Tree};
use serde::{Deserialize, Serialize};

use super::council::Council;
use super::memory::Footprint;
use crate::write::local::Local;
use crate::write::notes::Note;
use crate::write::remote::Nodes;

/// The tree as it is known here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mirror {
    pub have: Have,
    pub tree: Tree,
}

/// See the module.
pub struct SecondHome {
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
        // The owner's.
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
}

/// A tree of which the parts before `next` are here.
struct Coming {
    have: Have,
    next: u32,
    tree: Tree,
}

impl SecondHome {
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

    /// Follows until all is over, or until this node owns the tree. `keep` makes a checkpoint.
    pub fn follow(&self, council: &Arc<Council>, keep: impl Fn() -> Result<(), String>) {
        let (began, mut heard_at, mut coming) = (Instant::now(), Instant::now(), None);
        while !self.nodes.is_ending() {
            match self.follow_once(&mut coming, &keep) {
                Ok(()) => {
                    heard_at = Instant::now();
                    self.footprint.set(self.mirror().as_ref().map_or(0, |mirror| mirror.tree.files()));
                }
                Err(_) if self.nodes.is_ending() => return,
                Err(failed) => {
                    tracing::warn!(failed, "the tree's second home does not follow");
                    let known = self.mirror().as_ref().map(|mirror| mirror.have);
                    if let Some(have) = known.filter(|_| heard_at.elapsed() >= TENURE)
                        && let Some(owns) = council.stand(have.line)
                    {
                        // The owner before may have been another's node so lately that its kernel believes what it was told then.
                        while began.elapsed() < BELIEVED_HELD && !self.nodes.is_ending() {
                            std::thread::sleep(FOLLOW_AGAIN_AFTER);
                        }
                        return self.take_over(owns, council);
                    }
                    std::thread::sleep(FOLLOW_AGAIN_AFTER);
                }
            }
        }
    }

    /// This node is to own the tree. The owner before changes it no more.
    fn take_over(&self, owns: Owns, council: &Council) {
        let Some(have) = self.mirror().as_ref().map(|mirror| mirror.have) else { return };
        let mut handed = vec![];
        while let Ok(Handed(changes)) = self.nodes.hand_over(owns, handed.last().map_or(have, |(have, _)| *have))
            && !changes.is_empty()
        {
            handed.extend(changes);
        }
        if self.nodes.owns() != owns {
            tracing::warn!("another node owns the burst tree by now");
            return;
        }
        let before = council.owner_before(owns);
        // The owner before has told what it was asked for when it answered: nobody waits for it.
        let others: Vec<NodeRank> = self.nodes.others().into_iter().filter(|node| Some(*node) != before).collect();
        for nodes in others.chunks(NODES_ASKED_AT_ONCE) {
            std::thread::scope(|scope| {
                let asked: Vec<_> =
                    nodes.iter().map(|node| scope.spawn(move || self.handed_by(*node, owns, have))).collect();
                handed.extend(asked.into_iter().filter_map(|asked| asked.join().ok()).flatten());
            });
        }
        handed.sort_by_key(|(have, _)| *have);
        tracing::warn!(?before, epoch = owns.epoch, changes = handed.len(), "this node takes the burst tree over");
        let handed = handed.into_iter().map(|(_, change)| JournalEntry::Request(change));
        let without = before.into_iter().flat_map(|before| self.without(before)).map(JournalEntry::Leader);
        for entry in handed.chain(without) {
            if let Err(failed) = self.add(&entry) {
                tracing::error!(failed, ?entry, "a change is lost with the node that owned the burst tree");
            }
        }
        council.leave(owns);
    }

    /// Changes of a node that came after what this one has.
    fn handed_by(&self, node: NodeRank, owns: Owns, have: Have) -> Vec<(Have, Change)> {
        let (mut all, mut after, began) = (vec![], have, Instant::now());
        while !self.nodes.is_ending() && began.elapsed() < HANDED_WITHIN {
            match self.nodes.ask_once::<Handed>(node, &WriteMessage::HandOver { owns, after }, FOLLOWED_WITHIN) {
                Some(Handed(changes)) if changes.is_empty() => break,
                Some(Handed(changes)) => {
                    after = changes.last().map_or(after, |(last, _)| *last);
                    // Those that it has not asked for itself are none of its own.
                    all.extend(changes.into_iter().filter(|(_, change)| change.check_sender(node).is_ok()));
                }
                None => std::thread::sleep(FOLLOW_AGAIN_AFTER),
            }
        }
        all
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

    /// One more change, which the owner before has carried out and not told.
    fn add(&self, entry: &JournalEntry) -> Result<(), String> {
        let mut mirror = self.mirror();
        let Some(known) = &mut *mirror else { return Ok(()) };
        known.tree.apply(entry, &mut Released::default()).map_err(|refusal| format!("{refusal:?}"))?;
        self.local.log.append_note(&Note::followed(known.have.count + 1, entry)).map_err(|error| error.to_string())?;
        known.have.count += 1;
        Ok(())
    }

    fn follow_once(&self, coming: &mut Option<Coming>, keep: &impl Fn() -> Result<(), String>) -> Result<(), String> {
        let have = self.mirror().as_ref().map(|mirror| mirror.have);
        let parts = coming.as_ref().map(|coming| (coming.have, coming.next));
        let asked =
            self.nodes.ask::<Followed>(self.nodes.owns().node, &WriteMessage::Follow { have, parts }, FOLLOWED_WITHIN);
        match asked.map_err(|errno| format!("the owner does not answer: {errno}"))? {
            Followed::Changes { have, changes } => {
                *coming = None;
                changes.iter().try_for_each(|change| self.take(change))?;
                self.go_on_as(have)
            }
            Followed::Parts { have, first, next, tree } => {
                let Travelling(tree) = decode(&tree).map_err(|error| format!("the tree cannot be decoded: {error}"))?;
                if Some(tree.number()) != self.local.tree_number() {
                    return Err("the owner has another tree than this node's store".to_owned());
                }
                let Some(tree) = self.come_on(coming, (have, first, next), tree) else { return Ok(()) };
                *self.mirror() = Some(Mirror { have, tree });
                // A tree that is not written down is not known.
                keep().inspect_err(|_| *self.mirror() = None)
            }
            Followed::NotNow => Err("the owner has no time for it".to_owned()),
        }
    }

    /// Adds parts to the tree that is coming. The tree, once it is whole.
    fn come_on(
        &self,
        coming: &mut Option<Coming>,
        (have, first, next): (Have, u32, Option<u32>),
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

    /// The mirror has come about as `have` says: perhaps under another daemon of the owner.
    fn go_on_as(&self, have: Have) -> Result<(), String> {
        let mut mirror = self.mirror();
        let Some(known) = mirror.as_mut().filter(|known| known.have != have) else { return Ok(()) };
        if known.have.count != have.count {
            *mirror = None;
            return Err("the owner counts other changes than it has sent".to_owned());
        }
        self.local.log.append_note(&Note::line(have.line)).map_err(|error| error.to_string())?;
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
