//! This node's part in who owns the tree (`forebay_write::Tenure`): a node of the council grants the owner its tenure and votes, the owner
//! asks for it, and the tree's second home takes the tree over (`SecondHome::follow`).
//!
//! Where a node begins or ceases to own the tree, or becomes its second home, its next daemon does: it finds in the log who owns it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, NodeRank};
use forebay_wire::write_message::{Bid, Owns, Renewal, Verdict, WriteMessage};
use forebay_write::timing::{BELIEVED, RENEW_AGAIN_AFTER, RENEW_EVERY, RENEWED_WITHIN, VOTED_WITHIN};
use forebay_write::{Member, Tenure, is_majority, second_home};
use tokio::sync::Notify;

use crate::write::local::Local;
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
    /// The tenure is another, or is to be.
    changed: Condvar,
    /// The same, for tasks.
    changed_for_tasks: Notify,
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
            changed: Condvar::new(),
            changed_for_tasks: Notify::new(),
            is_leaving: AtomicBool::new(false),
            begin_next,
        })
    }

    /// The owner asks this node for a tenure.
    ///
    /// # Errors
    /// A newer owner.
    pub fn renew(self: &Arc<Self>, renewal: Renewal) -> Result<(), Owns> {
        let owns = renewal.owns;
        self.member().renew(self.nodes.now(), renewal)?;
        self.nodes.adopt(owns);
        if self.role == Role::Owner && owns.node != self.local.rank {
            self.tenure().refused(owns);
        }
        if role(owns, self.nodes.council(), self.local.rank) != self.role {
            // The owner goes on when it is answered, and then this node tells it what the one before may not have.
            let council = Arc::clone(self);
            std::thread::spawn(move || {
                let _ = council.nodes.wait_for(council.nodes.settle());
                council.leave(owns);
            });
        } else if let Err(error) = self.local.note_owns(owns) {
            tracing::error!(%error, "who owns the burst tree cannot be written down");
        }
        Ok(())
    }

    /// Another node wants to own the tree.
    pub fn vote(&self, bid: Bid) -> Verdict {
        if self.role == Role::Owner && self.tenure().newer().is_none() {
            return Verdict::TooEarly;
        }
        let verdict = self.member().vote(self.nodes.now(), bid);
        if verdict == Verdict::Granted
            && !bid.is_trial
            && bid.owns.node != self.local.rank
            && let Err(error) = self.local.note_owns(bid.owns)
        {
            tracing::error!(%error, "a vote cannot be written down");
            return Verdict::TooEarly;
        }
        verdict
    }

    /// Whether the next daemon is to go on as something else.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// The next daemon goes on as what the node is under this owner.
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
    pub fn keep(self: &Arc<Self>, member: NodeRank, renewal: impl Fn() -> Renewal) {
        while !self.nodes.is_ending() && self.tenure().newer().is_none() {
            let (asked, said) = (self.nodes.now(), renewal());
            self.tenure().asks(member, said.is_followed);
            let told = match member == self.local.rank {
                true => Some(self.renew(said)),
                false => self.nodes.ask_once(member, &WriteMessage::Renew(said), RENEWED_WITHIN),
            };
            match told {
                Some(Ok(())) => self.tenure().granted(member, asked, said.is_followed),
                Some(Err(newer)) => self.tenure().refused(newer),
                None => {}
            }
            self.wake();
            self.pause(&renewal, said);
        }
    }

    /// Until a member is to be asked again.
    fn pause(&self, renewal: &impl Fn() -> Renewal, said: Renewal) {
        let began = Instant::now();
        while !self.nodes.is_ending() && renewal().is_followed == said.is_followed {
            let held = self.is_held();
            let pause = if held { RENEW_EVERY } else { RENEW_AGAIN_AFTER };
            let Some(left) = pause.checked_sub(began.elapsed()) else { return };
            let tenure = self.tenure();
            drop(self.changed.wait_timeout(tenure, left).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Members are to be told what has changed, or all is over.
    pub fn wake(&self) {
        self.changed.notify_all();
        self.changed_for_tasks.notify_waiters();
    }

    /// Whether this node owns the tree beyond doubt. A job without a council has one process.
    pub fn is_held(&self) -> bool {
        self.nodes.council().is_empty() || self.tenure().is_held(self.nodes.now())
    }

    /// Whether those who might let the second home take the tree over know that it is not waited for.
    pub fn may_go_on_alone(&self) -> bool {
        self.nodes.council().is_empty() || self.tenure().may_go_on_alone(self.nodes.now())
    }

    /// Waits until this node owns the tree beyond doubt. May block.
    ///
    /// # Errors
    /// EIO when it does not for a long time.
    pub fn hold(&self) -> Result<(), Errno> {
        if self.is_held() {
            return Ok(());
        }
        let began = Instant::now();
        while !self.nodes.is_ending() && began.elapsed() < PATIENCE {
            let tenure = self.tenure();
            if tenure.is_held(self.nodes.now()) {
                return Ok(());
            }
            drop(self.changed.wait_timeout(tenure, RENEW_AGAIN_AFTER).unwrap_or_else(PoisonError::into_inner));
        }
        tracing::error!("{CUT_OFF}: nothing can be changed");
        Err(Errno::EIO)
    }

    /// The same by a task.
    ///
    /// # Errors
    /// As `hold`.
    pub async fn until_held(&self) -> Result<(), Errno> {
        let began = Instant::now();
        loop {
            let changed = self.changed_for_tasks.notified();
            if self.is_held() {
                return Ok(());
            }
            if self.nodes.is_ending() || began.elapsed() >= PATIENCE {
                tracing::error!("{CUT_OFF}: nothing can be changed");
                return Err(Errno::EIO);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.nodes.pause(RENEW_AGAIN_AFTER) => {}
            }
        }
    }

    /// Why the tree cannot be changed, if it cannot.
    pub fn why_not(&self) -> Option<String> {
        (!self.is_held()).then(|| match self.tenure().newer() {
            Some(newer) => format!("node {} owns the burst tree by now", newer.node),
            None => CUT_OFF.to_owned(),
        })
    }

    /// Asks the council whether this node may own a tree whose owner is silent, with what it has of its history. As which owner, if so.
    pub fn stand(self: &Arc<Self>, line: u64) -> Option<Owns> {
        let known = self.member().owns();
        let owns = match known.node == self.local.rank {
            // Asked before.
            true => known,
            false => known.next(self.local.rank)?,
        };
        let wins = |is_trial| {
            let bid = Bid { owns, line, is_trial };
            let verdicts = self.ask_until_won(bid);
            tracing::info!(epoch = owns.epoch, is_trial, ?verdicts, "the owner of the burst tree is silent");
            has_won(self.nodes.council(), &verdicts)
        };
        (wins(true) && wins(false)).then_some(owns)
    }

    /// Asks all members at once. A silent one is waited for only while it may decide.
    fn ask_until_won(self: &Arc<Self>, bid: Bid) -> Vec<(NodeRank, Option<Verdict>)> {
        let (said, verdicts) = mpsc::channel();
        for member in self.nodes.council().to_vec() {
            let (council, said) = (Arc::clone(self), said.clone());
            std::thread::spawn(move || {
                let verdict = match member == council.local.rank {
                    true => Some(council.vote(bid)),
                    false => council.nodes.ask_once(member, &WriteMessage::Vote(bid), VOTED_WITHIN),
                };
                // It may have been decided without this one.
                let _ = said.send((member, verdict));
            });
        }
        drop(said);
        let mut all = vec![];
        while !has_won(self.nodes.council(), &all)
            && let Ok(verdict) = verdicts.recv()
        {
            all.push(verdict);
        }
        all
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

    fn tenure(&self) -> MutexGuard<'_, Tenure> {
        self.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
