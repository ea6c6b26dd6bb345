//! Other nodes' requests about the burst tree and the logs that hold its contents.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::Replier;
use forebay_types::{Errno, FileId, NodeRank};
use forebay_wire::Outcome;
use forebay_wire::message::encode;
use forebay_wire::write::{Caller, Change, Done};
use forebay_wire::write_message::{
    Answer, Changed, Leadership, LogPart, Question, ReplicatedIndex, Stripe, WriteMessage,
};
use forebay_write::standby;
use serde::Serialize;

use super::calls::{By, Cost, MayLand};
use super::drain::uploading::{is_from_leader, write_stripe};
use super::parts::WriteParts;
use super::peers::{Answered, Waiting};
use super::stripe_lease::StripeLease;
use super::tree::calling::On;
use super::tree::fits::Tried;
use super::tree::knowing::Needs;
use super::tree::leader::{Applied, Leader};
use super::tree::questions::Asker;
use super::waiting_requests::Admitted;
use crate::shared::node::Node;

/// The answer to a request for the leader, which may be this node soon, or another: it is to be asked again.
const NOT_THE_LEADER: Answered = AGAIN;

/// For a node that is to ask again.
const AGAIN: Answered = (Outcome::Failed(Errno::EAGAIN), vec![]);

/// For a message that has no answer in this way.
const UNKNOWN: Answered = (Outcome::Failed(Errno::EINVAL), vec![]);

impl WriteParts {
    /// Answers node `from`. By a task, whose calls that may block have threads of the pool.
    pub(super) async fn answer(self: Arc<Self>, from: NodeRank, message: WriteMessage) -> Answered {
        match self.begin(from, message) {
            Ok(waiting) => waiting.await,
            Err(answered) => answered,
        }
    }

    /// Answers node `from`, or begins to: the rest waits for other nodes, or for the backing file system. May block for this node's own disk.
    fn begin(self: Arc<Self>, from: NodeRank, message: WriteMessage) -> Result<Waiting<'static, Answered>, Answered> {
        match message {
            message if keeps_tree(&message) => Ok(Box::pin(self.answer_to_keep(from, message))),
            WriteMessage::Change(change) => self.begin_change(from, change),
            WriteMessage::Question { caller, question, is_leased } => {
                self.begin_question(Asker { node: from, is_leased }, (caller, question))
            }
            WriteMessage::Invalidate { files } => Ok(Box::pin(async move { self.invalidate(&files).await })),
            WriteMessage::Failover { node } => self
                .begin_by_leader(from, move |leader| async move { told(&leader.find_elsewhere(On::Pool, node).await) }),
            WriteMessage::Unlinked { file, offset, len } => self.begin_by_leader(from, move |leader| async move {
                contents(leader.read_unlinked(file, offset, len).await)
            }),
            WriteMessage::Stripe(stripe) => Ok(Box::pin(async move { told(&self.write_stripe(from, &stripe).await) })),
            message if is_of_drain(&message) => Ok(Box::pin(async move {
                let parts = Arc::clone(&self);
                self.nodes.on_pool(async move { parts.answer_to_drain(message).await }).await.unwrap_or(AGAIN)
            })),
            message => Err(self.answer_of_store(message)),
        }
    }

    /// Answers a request of a drain. A node that has not joined commits nothing and gives nothing back: its store may be about another tree.
    async fn answer_to_drain(&self, message: WriteMessage) -> Answered {
        match message {
            WriteMessage::CommitAll | WriteMessage::EndChanges | WriteMessage::Reclaim if !self.joined.is_served() => {
                AGAIN
            }
            WriteMessage::CommitAll => told(&self.commit_all().await),
            WriteMessage::EndChanges => told(&self.end_changes().await),
            WriteMessage::Reclaim => told(&self.reclaim().await),
            // It would find nothing to be done.
            _ if self.leader().is_none() => NOT_THE_LEADER,
            WriteMessage::Drain { wait_ms } => text(&self.drain(Duration::from_millis(wait_ms.into())).await),
            WriteMessage::Landed { path } => text(&self.landed(path.as_ref()).await),
            _ => UNKNOWN,
        }
    }

    fn answer_of_store(&self, message: WriteMessage) -> Answered {
        match message {
            WriteMessage::Contents { parts } => contents(self.read_parts(&parts)),
            WriteMessage::Pending => told(&self.files.with_pending_bytes(|| ()).1),
            WriteMessage::Copies { of, after } => told(&self.local.copies().page(of, after)),
            WriteMessage::Uncommitted { file } => {
                told(&self.files.find(file).map_or_else(Vec::new, |open| open.pending_ranges()))
            }
            _ => UNKNOWN,
        }
    }

    /// Answers a request that keeps the tree and its copies safe: each node speaks for itself.
    async fn answer_to_keep(self: Arc<Self>, from: NodeRank, message: WriteMessage) -> Answered {
        let is_standby = || standby(self.nodes.voters(), self.local.rank) == Some(from);
        match message {
            WriteMessage::Renew(renewal) if may_lead(from, renewal.leadership, self.nodes.voters()) => {
                told(&self.election.renew(renewal).await)
            }
            WriteMessage::Vote(vote_request) if may_lead(from, vote_request.leadership, self.nodes.voters()) => {
                told(&self.election.vote(vote_request).await)
            }
            WriteMessage::WhoLeads => told(&self.nodes.leadership()),
            WriteMessage::Replay { leadership, after } if may_lead(from, leadership, self.nodes.voters()) => {
                self.nodes.replay_for(leadership, after).map_or(NOT_THE_LEADER, |handed| told(&handed))
            }
            WriteMessage::Follow { have, parts } if is_standby() => match self.leader() {
                Some(leader) if self.election.is_held() => {
                    let followed = leader.followed(have, parts).await;
                    self.if_held(told(&followed))
                }
                _ => NOT_THE_LEADER,
            },
            // Another node would be taken for the partner, which then lacked what that one says it has.
            WriteMessage::Copy { have } if self.nodes.partners_of(self.local.rank).contains(&from) => {
                match &self.local.copying {
                    Some(copying) => told(&copying.answer(&self.nodes, have).await),
                    None => AGAIN,
                }
            }
            _ => (Outcome::Failed(Errno::EPERM), vec![]),
        }
    }

    /// This node believes nothing of these files any more, nor does its kernel.
    async fn invalidate(&self, files: &[FileId]) -> Answered {
        self.reader.tree.invalidate(files);
        match self.cache.invalidate(files).await {
            Ok(()) => told(&Ok::<(), Errno>(())),
            Err(errno) => (Outcome::Failed(errno), vec![]),
        }
    }

    /// The leader, if this node is it beyond doubt, and one more request of a node that waits for it.
    fn admit(&self, from: NodeRank) -> Result<(Arc<Leader>, Admitted), Answered> {
        let leader = self.leader().filter(|_| self.election.is_held()).ok_or(NOT_THE_LEADER)?;
        Ok((Arc::clone(leader), self.waiting_tasks.admit(from).ok_or(AGAIN)?))
    }

    /// The same answer, where this node is still the leader beyond doubt.
    fn if_held(&self, answered: Answered) -> Answered {
        if self.election.is_held() { answered } else { NOT_THE_LEADER }
    }

    /// Carries a change of node `from` out, as far as nothing is waited for.
    fn begin_change(self: Arc<Self>, from: NodeRank, change: Change) -> Result<Waiting<'static, Answered>, Answered> {
        let (leader, admitted) = self.admit(from)?;
        if let Err(errno) = change.check_sender(from) {
            return Err(told(&Changed { outcome: Err(errno), have: None, safe: None }));
        }
        let is_lost = leader.is_lost(from);
        let begun = if is_lost { Err(Needs::Task) } else { leader.apply_knowing(&change, Tried::default()) };
        let outcome = match begun {
            Ok(applied) if applied.is_for_all(leader.local.rank) => Ok(applied.outcome()),
            Err(Needs::Nothing(errno)) => Err(errno),
            begun => {
                return Ok(Box::pin(async move {
                    let outcome = end_change(&leader, from, is_lost, (change, begun)).await;
                    drop(admitted);
                    match outcome {
                        Ok(outcome) => self.if_held(told(&leader.changed_by(outcome))),
                        Err(_) => NOT_THE_LEADER,
                    }
                }));
            }
        };
        Err(self.if_held(told(&leader.changed_by(outcome))))
    }

    /// Answers a question of another node, as far as nothing is waited for.
    fn begin_question(
        self: Arc<Self>,
        asker: Asker,
        asked: (Caller, Question),
    ) -> Result<Waiting<'static, Answered>, Answered> {
        let (leader, admitted) = self.admit(asker.node)?;
        let is_lost = leader.is_lost(asker.node);
        let known = if is_lost { Err(Needs::Task) } else { leader.tell_known(asker, &asked.0, &asked.1) };
        let needs = match known {
            Err(Needs::Nothing(errno)) => return Err(self.if_held(told(&Err::<Answer, _>(errno)))),
            Err(needs) => needs,
            Ok(known) => return Err(self.if_held(told(&Ok::<_, Errno>(known)))),
        };
        Ok(Box::pin(async move {
            let outcome = async {
                if is_lost {
                    leader.hear(asker.node).await?;
                }
                leader.tell_by_task(On::Pool, asker, Arc::new(asked), needs).await
            };
            let outcome = outcome.await;
            drop(admitted);
            if outcome == Err(Errno::EAGAIN) { NOT_THE_LEADER } else { self.if_held(told(&outcome)) }
        }))
    }

    /// Has the leader answer by a task.
    fn begin_by_leader<T: Future<Output = Answered> + Send>(
        self: Arc<Self>,
        from: NodeRank,
        answer: impl FnOnce(Arc<Leader>) -> T + Send + 'static,
    ) -> Result<Waiting<'static, Answered>, Answered> {
        let (leader, admitted) = self.admit(from)?;
        Ok(Box::pin(async move {
            let answered = answer(leader).await;
            drop(admitted);
            self.if_held(answered)
        }))
    }

    /// Writes what the leader wants in a file's draft. One that is none any more changes nothing there.
    async fn write_stripe(&self, from: NodeRank, stripe: &Stripe) -> Result<(), Errno> {
        if !is_from_leader(from, stripe.leadership, self.nodes.leadership()) {
            return Err(Errno::EPERM);
        }
        let _under_way = self.local.stripes_under_way.begin(&stripe.draft, &stripe.extents)?;
        let lease = StripeLease::new(&self.nodes, stripe.leadership);
        let may_land = lease.may_land();
        lease.begin().await;
        tokio::select! {
            written = self.write_while(&may_land, stripe) => written,
            never = lease.keep() => match never {},
        }
    }

    async fn write_while(&self, may_land: &MayLand, stripe: &Stripe) -> Result<(), Errno> {
        let (place, path, draft) = (Arc::clone(&self.local.place), stripe.path.clone(), stripe.draft);
        let open = self.local.calls.write(By::Helper(may_land), Cost::calls(2), move |may_land| {
            let held = may_land.call(|| place.hold(&path))?;
            if !held.backed().is_same_file(&draft) {
                return Err(Errno::ESTALE);
            }
            may_land.call(|| held.open_to_write())
        });
        write_stripe(&self.reader, By::Helper(may_land), &Arc::new(open.await?), &stripe.extents).await
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

/// Ends a change that was begun for a node, which was lost or not: with what it came to, of which all nodes know then.
///
/// # Errors
/// EAGAIN where this node may not lead the tree any more, EIO where the daemon ends: the node asks again. The inner one is the program's.
async fn end_change(
    leader: &Leader,
    from: NodeRank,
    is_lost: bool,
    (change, begun): (Change, Result<Applied, Needs>),
) -> Result<Result<(Done, Option<ReplicatedIndex>), Errno>, Errno> {
    if is_lost {
        leader.hear(from).await?;
    }
    let applied = match begun {
        Ok(applied) => applied,
        Err(needs) => match leader.apply_by_task(change, needs).await? {
            Ok(applied) => applied,
            Err(errno) => return Ok(Err(errno)),
        },
    };
    leader.tell_of(&applied).await?;
    Ok(Ok(applied.outcome()))
}

/// Whether a node may lead the tree, and ask as its owner: it speaks for itself, and is one of those among which owners are chosen.
fn may_lead(from: NodeRank, leadership: Leadership, voters: &[NodeRank]) -> bool {
    leadership.leader == from && voters.contains(&from)
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

/// For `Nodes::ask_leader_for_text`. Fails only for maps whose keys are no text.
fn text(told: &impl Serialize) -> Answered {
    (Outcome::Text, serde_json::to_vec(&[told]).unwrap_or_default())
}

/// Hands a request to the write path of a node that has one. A request that waits for other nodes waits without a thread.
pub fn take(node: &Arc<Node>, write: Option<Arc<WriteParts>>, from: NodeRank, message: WriteMessage, reply: Replier) {
    let Some(write) = write else { return reply.answer(Outcome::Failed(Errno::EAGAIN), None) };
    let tasks = Arc::clone(node);
    match message {
        WriteMessage::Invalidate { files } => {
            drop(node.spawn(async move { send(reply, write.invalidate(&files).await) }))
        }
        message if keeps_tree(&message) || is_of_drain(&message) => {
            let tasks = if keeps_tree(&message) { &write.tree_tasks } else { &write.drain_tasks };
            let Some(admitted) = tasks.admit(from) else { return send(reply, AGAIN) };
            drop(node.spawn(async move {
                send(reply, write.answer(from, message).await);
                drop(admitted);
            }));
        }
        message => drop(node.block(move || match write.begin(from, message) {
            Ok(waiting) => drop(tasks.spawn(async move { send(reply, waiting.await) })),
            Err(answered) => send(reply, answered),
        })),
    }
}

fn send(reply: Replier, (outcome, body): Answered) {
    let has_body = !matches!(outcome, Outcome::Bundle(_));
    reply.answer(outcome, has_body.then(|| Body::whole(Bytes::from(body))));
}

/// Whether a request keeps the tree and its copies safe: it is a task, which needs a thread of the pool only to write something down.
fn keeps_tree(message: &WriteMessage) -> bool {
    use WriteMessage::{Copy, Follow, Renew, Replay, Vote, WhoLeads};
    matches!(message, Copy { .. } | Follow { .. } | Replay { .. } | Renew(_) | Vote(_) | WhoLeads)
}

/// Whether a request is one of a drain: it may last.
fn is_of_drain(message: &WriteMessage) -> bool {
    use WriteMessage::{CommitAll, Drain, EndChanges, Landed, Reclaim};
    matches!(message, CommitAll | Drain { .. } | EndChanges | Reclaim | Landed { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_of_the_council_says_that_it_owns_the_tree_and_only_of_itself() {
        let voters = [0, 2, 4].map(NodeRank);
        let leadership = |node| Leadership { term: 3, leader: NodeRank(node) };
        assert!(may_lead(NodeRank(2), leadership(2), &voters));
        assert!(!may_lead(NodeRank(4), leadership(2), &voters), "another node says it");
        assert!(!may_lead(NodeRank(1), leadership(1), &voters), "it cannot be chosen");
    }
}
