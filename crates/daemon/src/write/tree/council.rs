//! This node's part in who owns the tree (`forebay_write::Tenure`): a node of the council grants the owner its tenure and votes, the owner
//! asks for it, and the tree's second home takes the tree over (`SecondHome::follow`).
//!
//! Where a node begins or ceases to own the tree, or becomes its second home, its next daemon does: it finds in the log who owns it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, NodeRank};
use forebay_wire::write_message::{Bid, Owns, Renewal, Verdict, WriteMessage};
use forebay_write::timing::{BELIEVED, RENEW_AGAIN_AFTER, RENEW_EVERY, RENEWED_WITHIN, VOTED_WITHIN};
use forebay_write::{Member, Tenure, is_majority, second_home};
use tokio::sync::Notify;

use crate::write::local::Local;
use crate::write::peers::{Waiting, until};
use crate::write::remote::{Nodes, PATIENCE};

/// Why an owner changes nothing.
const CUT_OFF: &str = "this node is cut off from most of those that decide who owns the burst tree";

/// The role of a node for the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Owner,
    SecondHome,
    Neither,
}

/// See the module.
pub struct Council {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    role: Role,
    member: Mutex<Member>,
    tenure: Mutex<Tenure>,
    /// The newest owner that is written down, as far as is known.
    written: Mutex<Owns>,
    /// The tenure is another, or is to be.
    changed: Notify,
    /// A task tells a newer owner what the one before may not have.
    is_settling: AtomicBool,
    is_leaving: AtomicBool,
    /// Has the node's next daemon begin.
    begin_next: Box<dyn Fn() + Send + Sync>,
}

fn has_won(council: &[NodeRank], verdicts: &[(NodeRank, Option<Verdict>)]) -> bool {
    is_majority(council, |member| verdicts.contains(&(member, Some(Verdict::Granted))))
}

fn role(owns: Owns, council: &[NodeRank], node: NodeRank) -> Role {
    match owns.node == node {
        true => Role::Owner,
        false if second_home(council, owns.node) == Some(node) => Role::SecondHome,
        false => Role::Neither,
    }
}

impl Council {
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, begin_next: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        let owns = local.owns();
        Arc::new(Self {
            local: Arc::clone(local),
            nodes: Arc::clone(nodes),
            role: role(owns, nodes.council(), local.rank),
            member: Mutex::new(Member::new(nodes.now(), owns)),
            tenure: Mutex::new(Tenure::new(nodes.council().to_vec())),
            written: Mutex::new(owns),
            changed: Notify::new(),
            is_settling: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            begin_next,
        })
    }

    /// The owner asks this node for a tenure.
    ///
    /// # Errors
    /// A newer owner.
    pub async fn renew(self: &Arc<Self>, renewal: Renewal) -> Result<(), Owns> {
        let owns = renewal.owns;
        self.member().renew(self.nodes.now(), renewal)?;
        self.nodes.adopt(owns);
        if self.role == Role::Owner && owns.node != self.local.rank {
            self.tenure().refused(owns);
        }
        if role(owns, self.nodes.council(), self.local.rank) != self.role {
            self.begin_to_leave(owns);
        } else {
            self.note_owns(owns).await;
        }
        Ok(())
    }

    /// The next daemon is to go on under this owner. The owner goes on when it is answered, and then this node tells it what the one before may
    /// not have.
    fn begin_to_leave(self: &Arc<Self>, owns: Owns) {
        if self.is_settling.swap(true, Ordering::Relaxed) {
            return;
        }
        let council = Arc::clone(self);
        self.nodes.spawn(async move {
            let _ = council.nodes.settle().await;
            let nodes = Arc::clone(&council.nodes);
            let leave = move || {
                council.leave(owns);
                council.is_settling.store(false, Ordering::Relaxed);
            };
            nodes.block(leave).await;
        });
    }

    /// Another node wants to own the tree.
    pub async fn vote(self: &Arc<Self>, bid: Bid) -> Verdict {
        if self.role == Role::Owner && self.tenure().newer().is_none() {
            return Verdict::TooEarly;
        }
        let verdict = self.member().vote(self.nodes.now(), bid);
        let is_binding = verdict == Verdict::Granted && !bid.is_trial && bid.owns.node != self.local.rank;
        // A vote that is not written down is none.
        if is_binding && !self.note_owns(bid.owns).await { Verdict::TooEarly } else { verdict }
    }

    /// Writes down who owns the tree. Whether that is written.
    async fn note_owns(self: &Arc<Self>, owns: Owns) -> bool {
        if *self.written() >= owns {
            return true;
        }
        let council = Arc::clone(self);
        let noted = self.nodes.block(move || council.local.note_owns(owns)).await;
        match noted {
            Some(Ok(())) => {
                let mut written = self.written();
                *written = owns.max(*written);
                true
            }
            Some(Err(error)) => {
                tracing::error!(%error, "who owns the burst tree cannot be written down");
                false
            }
            None => false,
        }
    }

    /// Whether the next daemon is to go on as something else.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// The next daemon goes on as what the node is under this owner. May block.
    pub fn leave(&self, owns: Owns) {
        if self.is_leaving.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(node = %owns.node, epoch = owns.epoch, "what this node is to the burst tree changes: another daemon goes on");
        match self.local.note_owns(owns) {
            Ok(()) => (self.begin_next)(),
            Err(error) => {
                tracing::error!(%error, "who owns the burst tree cannot be written down");
                self.is_leaving.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Keeps the owner's tenure at one member, until all is over, or there is a newer owner: nobody would vote for it otherwise.
    pub async fn keep(self: Arc<Self>, member: NodeRank, renewal: impl Fn() -> Renewal + Send + Sync) {
        while !self.nodes.is_ending() && self.tenure().newer().is_none() {
            let (asked, said) = (self.nodes.now(), renewal());
            self.tenure().asks(member, said.is_followed);
            let told = match member == self.local.rank {
                true => Some(self.renew(said).await),
                false => self.nodes.ask_once(member, &WriteMessage::Renew(said), RENEWED_WITHIN).await,
            };
            match told {
                Some(Ok(())) => self.tenure().granted(member, asked, said.is_followed),
                Some(Err(newer)) => self.tenure().refused(newer),
                None => {}
            }
            self.changed.notify_waiters();
            self.pause(&renewal, said).await;
        }
    }

    /// Until a member is to be asked again.
    async fn pause(&self, renewal: &(impl Fn() -> Renewal + Sync), said: Renewal) {
        let began = Instant::now();
        loop {
            let changed = self.changed.notified();
            let pause = if self.is_held() { RENEW_EVERY } else { RENEW_AGAIN_AFTER };
            let left = pause.saturating_sub(began.elapsed());
            if left.is_zero() || self.nodes.is_ending() || renewal().is_followed != said.is_followed {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.nodes.pause(left) => {}
            }
        }
    }

    /// Members are to be told what has changed, or all is over.
    pub fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Whether this node owns the tree beyond doubt. A job without a council has one process.
    pub fn is_held(&self) -> bool {
        self.nodes.council().is_empty() || self.tenure().is_held(self.nodes.now())
    }

    /// Whether those who might let the second home take the tree over know that it is not waited for.
    pub fn may_go_on_alone(&self) -> bool {
        self.nodes.council().is_empty() || self.tenure().may_go_on_alone(self.nodes.now())
    }

    /// Waits until this node owns the tree beyond doubt.
    ///
    /// # Errors
    /// EIO when it does not for a long time.
    pub async fn hold(&self) -> Result<(), Errno> {
        let began = Instant::now();
        loop {
            let changed = self.changed.notified();
            if self.is_held() {
                return Ok(());
            } else if self.nodes.is_ending() || began.elapsed() >= PATIENCE {
                break;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.nodes.pause(RENEW_AGAIN_AFTER) => {}
            }
        }
        tracing::error!("{CUT_OFF}: nothing can be changed");
        Err(Errno::EIO)
    }

    /// Why the tree cannot be changed, if it cannot.
    pub fn why_not(&self) -> Option<String> {
        (!self.is_held()).then(|| match self.tenure().newer() {
            Some(newer) => format!("node {} owns the burst tree by now", newer.node),
            None => CUT_OFF.to_owned(),
        })
    }

    /// Asks the council whether this node may own a tree whose owner is silent, with what it has of its history. As which owner, if so.
    pub async fn stand(self: &Arc<Self>, line: u64) -> Option<Owns> {
        let known = self.member().owns();
        let owns = match known.node == self.local.rank {
            // Asked before.
            true => known,
            false => known.next(self.local.rank)?,
        };
        for is_trial in [true, false] {
            let verdicts = self.ask_until_won(Bid { owns, line, is_trial }).await;
            tracing::info!(epoch = owns.epoch, is_trial, ?verdicts, "the owner of the burst tree is silent");
            if !has_won(self.nodes.council(), &verdicts) {
                return None;
            }
        }
        Some(owns)
    }

    /// Asks all members at once. A silent one is waited for only while it may decide.
    async fn ask_until_won(self: &Arc<Self>, bid: Bid) -> Vec<(NodeRank, Option<Verdict>)> {
        let members = self.nodes.council();
        let asked = members.iter().map(|member| Box::pin(self.ask_for_vote(*member, bid)) as Waiting<'_, _>);
        until(asked.collect(), |verdicts| has_won(members, verdicts)).await
    }

    async fn ask_for_vote(self: &Arc<Self>, member: NodeRank, bid: Bid) -> (NodeRank, Option<Verdict>) {
        let verdict = match member == self.local.rank {
            true => Some(self.vote(bid).await),
            false => self.nodes.ask_once(member, &WriteMessage::Vote(bid), VOTED_WITHIN).await,
        };
        (member, verdict)
    }

    /// How long this node's kernel may believe what it is told by the owner that this node is: another one may own the tree after that.
    pub fn believed_here(&self) -> Duration {
        match self.nodes.council().is_empty() {
            true => BELIEVED,
            false => self.tenure().left(self.nodes.now()).min(BELIEVED),
        }
    }

    /// The node that owned the tree, if it was another one.
    pub fn owner_before(&self, owns: Owns) -> Option<NodeRank> {
        let written = self.local.owns();
        (written < owns).then_some(written.node).filter(|node| *node != self.local.rank)
    }

    fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> MutexGuard<'_, Owns> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tenure(&self) -> MutexGuard<'_, Tenure> {
        self.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
