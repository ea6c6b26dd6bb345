//! This node's part in who leads the tree (`forebay_write::LeaderLease`): a voter grants the leader its leader lease and votes, the leader
//! asks for it, and the standby takes the tree over (`Standby::follow`).
//!
//! Where a node begins or ceases to lead the tree, or becomes its standby, its next daemon does: it finds in the log who owns it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::{Errno, NodeRank};
use forebay_wire::write_message::{Leadership, Renewal, VoteReply, VoteRequest, WriteMessage};
use forebay_write::timing::{LEASE_TTL, RENEW_EVERY, RENEW_RETRY_DELAY, RENEWED_WITHIN, VOTED_WITHIN};
use forebay_write::{LeaderLease, Voter, is_majority, standby};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::write::local::Local;
use crate::write::peers::{Waiting, until};
use crate::write::remote::{Nodes, TIMEOUT};

/// Why a leader changes nothing.
const CUT_OFF: &str = "this node is cut off from most of those that decide who leads the burst tree";

/// The pause before a leader that did not answer is told once more of changes that it may lack.
const RESEND_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The role of a node for the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Leader,
    Standby,
    Neither,
}

/// Has the node's next daemon begin.
pub type BeginNext = Box<dyn Fn() + Send + Sync>;

/// See the module.
pub struct Election {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    role: Role,
    voter: Mutex<Voter>,
    leader_lease: Mutex<LeaderLease>,
    /// The newest leader that is written down, as far as is known.
    written: Mutex<Leadership>,
    /// The leader lease is another, or is to be.
    changed: Notify,
    /// A task tells a newer leader what the one before may not have.
    is_settling: AtomicBool,
    is_leaving: AtomicBool,
    /// The node ends, and no daemon of it goes on.
    is_retired: AtomicBool,
    /// Has the node's next daemon begin.
    begin_next: BeginNext,
}

fn has_won(voters: &[NodeRank], vote_replies: &[(NodeRank, Option<VoteReply>)]) -> bool {
    is_majority(voters, |voter| vote_replies.contains(&(voter, Some(VoteReply::Granted))))
}

fn role(leadership: Leadership, voters: &[NodeRank], node: NodeRank) -> Role {
    match leadership.leader == node {
        true => Role::Leader,
        false if standby(voters, leadership.leader) == Some(node) => Role::Standby,
        false => Role::Neither,
    }
}

impl Election {
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, begin_next: BeginNext) -> Arc<Self> {
        let leadership = local.leadership();
        Arc::new(Self {
            local: Arc::clone(local),
            nodes: Arc::clone(nodes),
            role: role(leadership, nodes.voters(), local.rank),
            voter: Mutex::new(Voter::new(nodes.now(), leadership)),
            leader_lease: Mutex::new(LeaderLease::new(nodes.voters().to_vec())),
            written: Mutex::new(leadership),
            changed: Notify::new(),
            is_settling: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            begin_next,
        })
    }

    /// The leader asks this node for a leader lease.
    ///
    /// # Errors
    /// A newer leader.
    pub async fn renew(self: &Arc<Self>, renewal: Renewal) -> Result<(), Leadership> {
        let leadership = renewal.leadership;
        self.voter().renew(self.nodes.now(), renewal)?;
        self.nodes.switch_leader(leadership);
        if self.role == Role::Leader && leadership.leader != self.local.rank {
            self.leader_lease().refused(leadership);
        }
        if role(leadership, self.nodes.voters(), self.local.rank) != self.role {
            self.begin_to_leave(leadership);
        } else {
            self.note_leadership(leadership).await;
        }
        Ok(())
    }

    /// The next daemon is to go on under this leader. The leader goes on when it is answered, and then this node tells it what the one before may
    /// not have.
    fn begin_to_leave(self: &Arc<Self>, leadership: Leadership) {
        if self.is_settling.swap(true, Ordering::Relaxed) {
            return;
        }
        let voters = Arc::clone(self);
        self.nodes.spawn(async move {
            let nodes = Arc::clone(&voters.nodes);
            // Changes that are known here alone would be lost with this daemon.
            while let Err(errno) = nodes.resend_unreplicated().await
                && !nodes.is_ending()
            {
                tracing::warn!(%errno, "the leader is not told of changes that it may lack: it is told again");
                nodes.pause(RESEND_RETRY_DELAY).await;
            }
            let leave = move || {
                voters.leave(leadership);
                voters.is_settling.store(false, Ordering::Relaxed);
            };
            nodes.block(leave).await;
        });
    }

    /// The node ends, and leaves it to others who leads the tree: its vote would outlive it, and name a leader that may never come to lead.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Another node wants to lead the tree.
    pub async fn vote(self: &Arc<Self>, vote_request: VoteRequest) -> VoteReply {
        if self.is_retired.load(Ordering::Relaxed) {
            return VoteReply::TooEarly;
        }
        if self.role == Role::Leader && self.leader_lease().newer().is_none() {
            return VoteReply::TooEarly;
        }
        let vote_reply = self.voter().vote(self.nodes.now(), vote_request);
        let is_binding = vote_reply == VoteReply::Granted
            && !vote_request.is_trial
            && vote_request.leadership.leader != self.local.rank;
        // A vote that is not written down is none.
        if is_binding && !self.note_leadership(vote_request.leadership).await {
            VoteReply::TooEarly
        } else {
            vote_reply
        }
    }

    /// Writes down who leads the tree. Whether that is written.
    async fn note_leadership(self: &Arc<Self>, leadership: Leadership) -> bool {
        if *self.written() >= leadership {
            return true;
        }
        let voters = Arc::clone(self);
        let noted = self.nodes.block(move || voters.local.note_leadership(leadership)).await;
        match noted {
            Some(Ok(())) => {
                let mut written = self.written();
                *written = leadership.max(*written);
                true
            }
            Some(Err(error)) => {
                tracing::error!(%error, "who leads the burst tree cannot be written down");
                false
            }
            None => false,
        }
    }

    /// Whether the next daemon is to go on as something else.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// The next daemon goes on as what the node is under this leader. May block.
    pub fn leave(&self, leadership: Leadership) {
        if self.is_leaving.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(node = %leadership.leader, term = leadership.term, "what this node is to the burst tree changes: another daemon goes on");
        match self.local.note_leadership(leadership) {
            Ok(()) => (self.begin_next)(),
            Err(error) => {
                tracing::error!(%error, "who leads the burst tree cannot be written down");
                self.is_leaving.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Keeps the leader's leader lease at one member, until all is over, or there is a newer leader: nobody would vote for it otherwise.
    pub async fn keep(self: Arc<Self>, voter: NodeRank, renewal: impl Fn() -> Renewal + Send + Sync) {
        while !self.nodes.is_ending() && self.leader_lease().newer().is_none() {
            let (asked, said) = (self.nodes.now(), renewal());
            self.leader_lease().asks(voter, said.is_followed);
            let told = match voter == self.local.rank {
                true => Some(self.renew(said).await),
                false => self.nodes.ask_once(voter, &WriteMessage::Renew(said), RENEWED_WITHIN).await,
            };
            match told {
                Some(Ok(())) => self.leader_lease().granted(voter, asked, said.is_followed),
                Some(Err(newer)) => self.leader_lease().refused(newer),
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
            let pause = if self.is_held() { RENEW_EVERY } else { RENEW_RETRY_DELAY };
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

    /// Whether this node leads the tree beyond doubt. A job without voters has one process.
    pub fn is_held(&self) -> bool {
        self.nodes.voters().is_empty() || self.leader_lease().is_held(self.nodes.now())
    }

    /// Whether those who might let the standby take the tree over know that it is not waited for.
    pub fn may_go_on_alone(&self) -> bool {
        self.nodes.voters().is_empty() || self.leader_lease().may_go_on_alone(self.nodes.now())
    }

    /// Waits until this node leads the tree beyond doubt.
    ///
    /// # Errors
    /// EIO when it does not for a long time.
    pub async fn hold(&self) -> Result<(), Errno> {
        let began = Instant::now();
        loop {
            let changed = self.changed.notified();
            if self.is_held() {
                return Ok(());
            } else if self.nodes.is_ending() || began.elapsed() >= TIMEOUT {
                break;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.nodes.pause(RENEW_RETRY_DELAY) => {}
            }
        }
        tracing::error!("{CUT_OFF}: nothing can be changed");
        Err(Errno::EIO)
    }

    /// Why the tree cannot be changed, if it cannot.
    pub fn why_not(&self) -> Option<String> {
        (!self.is_held()).then(|| match self.leader_lease().newer() {
            Some(newer) => format!("node {} leads the burst tree by now", newer.leader),
            None => CUT_OFF.to_owned(),
        })
    }

    /// Asks the voters whether this node may own a tree whose leader is silent, with what it has of its history. As which leader, if so.
    pub async fn request_votes(self: &Arc<Self>, incarnation: u64) -> Option<Leadership> {
        if self.is_retired.load(Ordering::Relaxed) {
            return None;
        }
        let known = self.voter().leadership();
        let leadership = match known.leader == self.local.rank {
            // Asked before.
            true => known,
            false => known.next(self.local.rank)?,
        };
        for is_trial in [true, false] {
            let vote_replies = self.ask_until_won(VoteRequest { leadership, incarnation, is_trial }).await;
            tracing::info!(term = leadership.term, is_trial, ?vote_replies, "the leader is silent");
            if !has_won(self.nodes.voters(), &vote_replies) {
                return None;
            }
        }
        Some(leadership)
    }

    /// Asks all members at once. A silent one is waited for only while it may decide.
    async fn ask_until_won(self: &Arc<Self>, vote_request: VoteRequest) -> Vec<(NodeRank, Option<VoteReply>)> {
        let voters = self.nodes.voters();
        let asked = voters.iter().map(|voter| Box::pin(self.ask_for_vote(*voter, vote_request)) as Waiting<'_, _>);
        until(asked.collect(), |vote_replies| has_won(voters, vote_replies)).await
    }

    async fn ask_for_vote(
        self: &Arc<Self>,
        voter: NodeRank,
        vote_request: VoteRequest,
    ) -> (NodeRank, Option<VoteReply>) {
        let vote_reply = match voter == self.local.rank {
            true => Some(self.vote(vote_request).await),
            false => self.nodes.ask_once(voter, &WriteMessage::Vote(vote_request), VOTED_WITHIN).await,
        };
        (voter, vote_reply)
    }

    /// How long this node's kernel may believe what it is told by the leader that this node is: another one may lead the tree after that.
    pub fn lease_here(&self) -> Duration {
        match self.nodes.voters().is_empty() {
            true => LEASE_TTL,
            false => self.leader_lease().left(self.nodes.now()).min(LEASE_TTL),
        }
    }

    /// The node that led the tree, if it was another one.
    pub fn leader_before(&self, leadership: Leadership) -> Option<NodeRank> {
        let written = self.local.leadership();
        (written < leadership).then_some(written.leader).filter(|node| *node != self.local.rank)
    }

    fn voter(&self) -> MutexGuard<'_, Voter> {
        self.voter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> MutexGuard<'_, Leadership> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leader_lease(&self) -> MutexGuard<'_, LeaderLease> {
        self.leader_lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
