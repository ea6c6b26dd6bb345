//! Asking other nodes, by tasks.
//!
//! A node whose daemon has died is asked again until its keeper has started the next one. The request may then have been carried out
//! already: a change has a name, by which the leader knows it again. The leader may be another node by then. Answers of the old one do not
//! count once this node knows the new one: they were not in what this node has handed over (`replay_for`).

pub(super) mod asking;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::{Errno, NodeRank, Time};
use forebay_wire::message::encode;
use forebay_wire::write::Change;
use forebay_wire::write_message::{Leadership, Replayed, ReplicatedIndex, UNREPLICATED_MAX};
use forebay_write::Unreplicated;
use tokio::task::JoinHandle;

use super::lost_changes::LostChanges;
use super::peers::Calls;
use crate::shared::pool_task;

/// The error for an answer that a leader of another build might give.
pub const UNEXPECTED_REPLY: Errno = Errno::EPROTO;

/// How long a node is asked again that does not answer.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of changes that are handed over at once.
const REPLAYED_BYTES_MAX: usize = 1 << 20;

/// Which node has copies of what each has written.
pub enum Partners {
    /// There are none.
    None,
    /// This one, by rank.
    Of(Vec<Option<NodeRank>>),
    /// Any node that has some.
    Any,
}

/// The other nodes of the job.
pub struct Nodes {
    pub(super) calls: Box<dyn Calls>,
    leader: Mutex<KnownLeader>,
    /// Those who decide who leads the tree.
    voters: Vec<NodeRank>,
    /// Held by whoever tells the leader what was left over.
    resending: tokio::sync::Mutex<()>,
    /// Held by a call that looks for another leader.
    looking: tokio::sync::Mutex<()>,
    partners: Partners,
    /// Changes of this node's programs that the leader does not have.
    pub lost: LostChanges,
    is_alone: bool,
    began: Duration,
    is_ending: AtomicBool,
    /// Those that end when all is over.
    pub(super) tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// The leader, and what it has carried out for this node.
struct KnownLeader {
    leadership: Leadership,
    unreplicated: Unreplicated,
    /// Changes that a leader before this one has carried out: this one may have them, and is told them once more.
    to_resend: VecDeque<(ReplicatedIndex, Change)>,
}

impl KnownLeader {
    fn new(leadership: Leadership) -> Self {
        Self { leadership, unreplicated: Unreplicated::default(), to_resend: VecDeque::new() }
    }

    fn keep_to_resend(&mut self) {
        let unreplicated = self.unreplicated.take();
        self.to_resend.extend(unreplicated);
    }
}

impl Nodes {
    pub fn new(
        calls: impl Calls + 'static,
        leadership: Leadership,
        voters: Vec<NodeRank>,
        partners: Partners,
    ) -> Arc<Self> {
        let (is_alone, began) = (calls.others().is_empty(), calls.since_boot());
        Arc::new(Self {
            calls: Box::new(calls),
            leader: Mutex::new(KnownLeader::new(leadership)),
            voters,
            resending: tokio::sync::Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            partners,
            lost: LostChanges::default(),
            is_alone,
            began,
            is_ending: AtomicBool::new(false),
            tasks: Mutex::default(),
        })
    }

    /// The ranks of all but this one.
    pub fn others(&self) -> Vec<NodeRank> {
        self.calls.others()
    }

    /// Whether nodes copy what others write.
    pub fn has_partners(&self) -> bool {
        !matches!(self.partners, Partners::None)
    }

    /// The nodes that may have copies of what a node has written.
    pub fn partners_of(&self, node: NodeRank) -> Vec<NodeRank> {
        match &self.partners {
            Partners::None => vec![],
            Partners::Of(partners) => partners.get(node.0 as usize).copied().flatten().into_iter().collect(),
            Partners::Any => {
                let own = std::iter::once(self.calls.own());
                own.chain(self.calls.others()).filter(|partner| *partner != node).collect()
            }
        }
    }

    /// The nodes whose partner `node` is.
    pub fn partner_of(&self, node: NodeRank) -> Vec<NodeRank> {
        let Partners::Of(partners) = &self.partners else { return vec![] };
        let all = (0..).map(NodeRank).zip(partners);
        all.filter(|(_, partner)| **partner == Some(node)).map(|(of, _)| of).collect()
    }

    /// Whether there are no others.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The leader.
    pub fn leadership(&self) -> Leadership {
        self.known_leader().leadership
    }

    /// The nodes that decide that.
    pub fn voters(&self) -> &[NodeRank] {
        &self.voters
    }

    /// Another node leads the tree, which has not asked for what the one before has carried out. Whether that is news.
    pub fn switch_leader(&self, leadership: Leadership) -> bool {
        let old = {
            let mut known = self.known_leader();
            if known.leadership >= leadership {
                return false;
            }
            known.keep_to_resend();
            std::mem::replace(&mut known.leadership, leadership)
        };
        tracing::warn!(node = %leadership.leader, term = leadership.term, "the burst tree has another leader");
        self.calls.forsake(old.leader);
        true
    }

    /// The same, and replays what the one before has carried out for this node, and the new one may not have.
    ///
    /// # Errors
    /// A newer leader.
    pub fn replay_for(&self, leadership: Leadership, after: ReplicatedIndex) -> Result<Replayed, Leadership> {
        let (handed, old) = {
            let mut known = self.known_leader();
            if known.leadership > leadership {
                return Err(known.leadership);
            }
            let old = std::mem::replace(&mut known.leadership, leadership);
            if old != leadership {
                known.keep_to_resend();
            }
            let mut bytes = 0;
            let handed = known.to_resend.iter().filter(|(have, _)| *have > after);
            let fits = handed.take_while(|(_, change)| {
                let is_first = bytes == 0;
                bytes += encode(change).len();
                is_first || bytes <= REPLAYED_BYTES_MAX
            });
            (fits.take(UNREPLICATED_MAX).cloned().collect(), old)
        };
        if old != leadership {
            tracing::warn!(node = %leadership.leader, term = leadership.term, "the burst tree has another leader");
            self.calls.forsake(old.leader);
        }
        Ok(Replayed(handed))
    }

    /// Whether all is over.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Ends all waits.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.calls.end();
    }

    /// The time of this node's leases, which goes on while the machine sleeps.
    pub fn now(&self) -> Time {
        Time::default().after(self.calls.since_boot().saturating_sub(self.began))
    }

    /// A time that goes by.
    pub async fn pause(&self, time: Duration) {
        self.calls.pause(time).await;
    }

    /// The result of what may block, on one of the threads for that; `None` when the daemon ends.
    pub async fn block<T: Send + 'static>(&self, operation: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        pool_task::block(|operation| self.calls.block(operation), operation).await
    }

    /// The outcome of a task that may wait for the node's own disk (`pool_task`); `None` when the daemon ends.
    pub async fn on_pool<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        pool_task::on_pool(|operation| self.calls.block(operation), task).await
    }

    fn known_leader(&self) -> MutexGuard<'_, KnownLeader> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
