//! Other nodes' requests about the burst tree and the logs that hold its contents.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::Replier;
use forebay_types::{Errno, FileId, NodeRank};
use forebay_wire::Outcome;
use forebay_wire::message::encode;
use forebay_wire::write::Change;
use forebay_wire::write_message::{Changed, LogPart, Owns, Stripe, WriteMessage};
use forebay_write::second_home;
use serde::Serialize;

use super::contents::{open_backing, read_exactly};
use super::drain::uploading::{is_from_owner, write_stripe};
use super::parts::WriteParts;
use super::peers::{Answered, Waiting};
use super::tree::owner::Owner;
use super::tree::questions::Asker;
use crate::shared::node::Node;

/// What only the owner can be asked, which may be this node soon, or another: it is to be asked again.
const NOT_THE_OWNER: Answered = (Outcome::Failed(Errno::EAGAIN), vec![]);

impl WriteParts {
    /// Answers node `from`. May block. A node that has not joined commits nothing and gives nothing back: its store may be about another tree.
    pub(super) fn answer(&self, from: NodeRank, message: WriteMessage) -> Answered {
        match message {
            WriteMessage::CommitAll | WriteMessage::EndChanges | WriteMessage::GiveBack if !self.joined.is_served() => {
                (Outcome::Failed(Errno::EAGAIN), vec![])
            }
            message => self.answer_of_store(from, message),
        }
    }

    fn answer_of_store(&self, from: NodeRank, message: WriteMessage) -> Answered {
        match message {
            WriteMessage::Change(change) => self.as_owner(|owner| {
                owner.hear(from);
                told(&change_of(owner, from, &change))
            }),
            WriteMessage::Question { caller, question, is_leased } => {
                let asker = Asker { node: from, is_leased };
                self.as_owner(|owner| {
                    owner.hear(from);
                    told(&owner.tell(asker, &caller, &question))
                })
            }
            WriteMessage::Renew(_)
            | WriteMessage::Vote(_)
            | WriteMessage::WhoOwns
            | WriteMessage::HandOver { .. }
            | WriteMessage::Follow { .. } => self.answer_of_ownership(from, message),
            WriteMessage::Forget { files } => self.nodes.wait_for(self.forget(&files)),
            WriteMessage::Contents { parts } => contents(self.read_parts(&parts)),
            WriteMessage::Unlinked { file, offset, len } => {
                let mut bytes = vec![0; len as usize];
                self.as_owner(|owner| {
                    let mut read = |open: &File| self.local.calls.serve(|| read_exactly(open, offset, &mut bytes));
                    let read = open_backing(owner, file).and_then(|open| read(&open));
                    contents(read.map(|()| bytes))
                })
            }
            WriteMessage::Copy { done } => match &self.local.copying {
                Some(copying) => told(&copying.hand(done)),
                None => (Outcome::Failed(Errno::EAGAIN), vec![]),
            },
            WriteMessage::Pending => told(&self.files.with_pending_bytes(|| ()).1),
            WriteMessage::Copies { of, after } => told(&self.local.copies().page(of, after)),
            WriteMessage::Rescue { node } => self.as_owner(|owner| told(&owner.rescue(node))),
            WriteMessage::CommitAll => told(&self.commit_all()),
            WriteMessage::EndChanges => told(&self.end_changes()),
            WriteMessage::Uncommitted { file } => {
                told(&self.files.find(file).map_or_else(Vec::new, |open| open.pending_ranges()))
            }
            WriteMessage::GiveBack => told(&self.give_back()),
            // It would find nothing to be done.
            WriteMessage::Drain { .. } | WriteMessage::Landed { .. } if self.owner().is_none() => NOT_THE_OWNER,
            WriteMessage::Drain { wait_ms } => text(&self.drain(Duration::from_millis(wait_ms.into()))),
            WriteMessage::Stripe(stripe) => told(&self.write_stripe(from, &stripe)),
            WriteMessage::Landed { path } => text(&self.landed(path.as_ref())),
        }
    }

    /// About who owns the tree: each node speaks for itself.
    fn answer_of_ownership(&self, from: NodeRank, message: WriteMessage) -> Answered {
        let is_second_home = || second_home(self.nodes.council(), self.local.rank) == Some(from);
        match message {
            WriteMessage::Renew(renewal) if renewal.owns.node == from => told(&self.council.renew(renewal)),
            WriteMessage::Vote(bid) if bid.owns.node == from => told(&self.council.vote(bid)),
            WriteMessage::WhoOwns => told(&self.nodes.owns()),
            WriteMessage::HandOver { owns, after } if may_own(from, owns, self.nodes.council()) => {
                self.nodes.hand_over(owns, after).map_or(NOT_THE_OWNER, |handed| told(&handed))
            }
            WriteMessage::Follow { have, parts } if is_second_home() => {
                self.as_owner(|owner| told(&owner.followed(have, parts)))
            }
            _ => (Outcome::Failed(Errno::EPERM), vec![]),
        }
    }

    /// This node believes nothing of these files any more, nor does its kernel.
    async fn forget(&self, files: &[FileId]) -> Answered {
        self.reader.tree.forget(files);
        match self.cache.forget(files).await {
            Ok(()) => told(&Ok::<(), Errno>(())),
            Err(errno) => (Outcome::Failed(errno), vec![]),
        }
    }

    /// Carries a change of node `from` out. What it is answered when all nodes know of it, which the rest waits for.
    fn begin_change(self: Arc<Self>, from: NodeRank, change: &Change) -> Result<Waiting<'static, Answered>, Answered> {
        let Some(owner) = self.owner().filter(|_| self.council.is_held()).cloned() else { return Err(NOT_THE_OWNER) };
        owner.hear(from);
        if !change.may_come_from(from) {
            return Err(told(&Changed { outcome: Err(Errno::EPERM), have: None, safe: None }));
        }
        let Some(admitted) = self.waiting_changes.admit(from) else {
            return Err((Outcome::Failed(Errno::EAGAIN), vec![]));
        };
        let applied = owner.apply_knowing(change);
        let answer = move |owner: &Owner, outcome| {
            let answered = told(&owner.changed_by(outcome));
            if self.council.is_held() { answered } else { NOT_THE_OWNER }
        };
        match applied {
            Ok(applied) if !applied.is_for_all(owner.local.rank) => Ok(Box::pin(async move {
                let told_of = owner.tell_of(&applied).await;
                drop(admitted);
                // Where this daemon ends, it is asked again, and knows what it has carried out.
                if told_of.is_ok() { answer(&owner, Ok(applied.outcome())) } else { NOT_THE_OWNER }
            })),
            applied => Err(answer(&owner, applied.map(|applied| applied.outcome()))),
        }
    }

    /// What the owner answers, where this node is it beyond doubt, before and after.
    fn as_owner(&self, answer: impl FnOnce(&Owner) -> Answered) -> Answered {
        let Some(owner) = self.owner().filter(|_| self.council.is_held()) else { return NOT_THE_OWNER };
        let answered = answer(owner);
        if self.council.is_held() { answered } else { NOT_THE_OWNER }
    }

    /// Writes what the owner wants in a file's draft. One that is none any more changes nothing there.
    fn write_stripe(&self, from: NodeRank, stripe: &Stripe) -> Result<(), Errno> {
        if !is_from_owner(from, stripe.owns, self.nodes.owns()) {
            return Err(Errno::EPERM);
        }
        let _under_way = self.local.stripes_under_way.begin(&stripe.draft, &stripe.extents)?;
        let calls = &self.local.calls;
        let held = calls.land_paced(|| self.local.place.hold(&stripe.path))?;
        if !held.backed().is_same_file(&stripe.draft) {
            return Err(Errno::ESTALE);
        }
        let draft = calls.land_paced(|| held.open_to_write())?;
        write_stripe(&self.reader, &draft, &stripe.extents)
    }

    fn read_parts(&self, parts: &[LogPart]) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; parts.iter().map(|part| part.len as usize).sum()];
        let mut rest = &mut bytes[..];
        for part in parts {
            let (into, after) = rest.split_at_mut(part.len as usize);
            self.local.read(part.position, part.skip, into)?;
            rest = after;
        }
        Ok(bytes)
    }
}

fn change_of(owner: &Owner, from: NodeRank, change: &Change) -> Changed {
    if !change.may_come_from(from) {
        return Changed { outcome: Err(Errno::EPERM), have: None, safe: None };
    }
    owner.change(change)
}

/// Whether a node may say that it owns the tree from now on: it says so of itself, and is one of those among which owners are chosen.
fn may_own(from: NodeRank, owns: Owns, council: &[NodeRank]) -> bool {
    owns.node == from && council.contains(&from)
}

fn told(told: &impl Serialize) -> Answered {
    (Outcome::Body, encode(told))
}

fn contents(read: Result<Vec<u8>, Errno>) -> Answered {
    match read {
        Ok(bytes) => (Outcome::Body, bytes),
        Err(errno) => (Outcome::Bundle(vec![Some(errno)]), vec![]),
    }
}

/// For `Nodes::ask_owner_for_text`. Fails only for maps whose keys are no text.
fn text(told: &impl Serialize) -> Answered {
    (Outcome::Text, serde_json::to_vec(&[told]).unwrap_or_default())
}

/// Hands a request to the write path of a node that has one. What waits for other nodes waits without a thread.
pub fn take(node: &Arc<Node>, write: Option<Arc<WriteParts>>, from: NodeRank, message: WriteMessage, reply: Replier) {
    let Some(write) = write else { return reply.answer(Outcome::Failed(Errno::EAGAIN), None) };
    match message {
        WriteMessage::Forget { files } => drop(node.spawn(async move { send(reply, write.forget(&files).await) })),
        WriteMessage::Change(change) => {
            let tasks = Arc::clone(node);
            drop(node.block(move || match write.begin_change(from, &change) {
                Ok(waiting) => drop(tasks.spawn(async move { send(reply, waiting.await) })),
                Err(answered) => send(reply, answered),
            }));
        }
        message => {
            let has_own_thread = is_waited_for(&message);
            let answer = move || send(reply, write.answer(from, message));
            match has_own_thread {
                // Where there are no more threads it is asked again.
                true => drop(std::thread::Builder::new().name("answer".to_owned()).spawn(answer)),
                false => drop(node.block(answer)),
            }
        }
    }
}

fn send(reply: Replier, (outcome, body): Answered) {
    let has_body = !matches!(outcome, Outcome::Bundle(_));
    reply.answer(outcome, has_body.then(|| Body::whole(Bytes::from(body))));
}

/// Whether whoever else is answered may wait for this one: it has a thread of its own.
fn is_waited_for(message: &WriteMessage) -> bool {
    use WriteMessage::{Follow, HandOver, Renew, Vote, WhoOwns};
    matches!(message, Follow { .. } | HandOver { .. } | Renew(_) | Vote(_) | WhoOwns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_of_the_council_says_that_it_owns_the_tree_and_only_of_itself() {
        let council = [0, 2, 4].map(NodeRank);
        let owns = |node| Owns { epoch: 3, node: NodeRank(node) };
        assert!(may_own(NodeRank(2), owns(2), &council));
        assert!(!may_own(NodeRank(4), owns(2), &council), "another node says it");
        assert!(!may_own(NodeRank(1), owns(1), &council), "it cannot be chosen");
    }
}
