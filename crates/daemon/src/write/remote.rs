//! Asking other nodes, by tasks, and by threads that wait.
//!
//! A node whose daemon has died is asked again until its keeper has started the next one. The request may then have been carried out
//! already: a change has a name, by which the owner knows it again. The owner may be another node by then. Answers of the old one do not
//! count once this node knows the new one: they were not in what this node has handed over (`hand_over`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, NodeRank, Time};
use forebay_wire::Outcome;
use forebay_wire::message::{Checked, decode, encode};
use forebay_wire::write::{Caller, Change, Done};
use forebay_wire::write_message::{self as wire, Changed, Handed, Have, Owns, Question, UNCONFIRMED_MAX, WriteMessage};
use forebay_write::Unconfirmed;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::peers::{Called, Calls, Unanswered, Waiting, decoded, whole};

/// The error for an answer that an owner of another build might give.
pub const SENSELESS: Errno = Errno::EPROTO;

/// How long one call may take: longer than a directory of a slow backing file system takes to be read.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How long a node is asked again that does not answer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long an owner does not answer until others are asked who owns the tree, and again.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Bytes of changes that are handed over at once.
const HANDED_BYTES_MAX: usize = 1 << 20;

/// How long one of them is asked.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// The same for who asks by a command.
const TEXT_PATIENCE: Duration = Duration::from_secs(5);

/// How often.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(20);

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
    owner: Mutex<KnownOwner>,
    /// Those who decide who owns the tree.
    council: Vec<NodeRank>,
    /// Held by whoever tells the owner what was left over.
    settling: tokio::sync::Mutex<()>,
    /// Held by a call that looks for another owner.
    looking: tokio::sync::Mutex<()>,
    partners: Partners,
    is_alone: bool,
    began: Duration,
    is_ending: AtomicBool,
    /// Those that end when all is over.
    pub(super) tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// The tree's owner, and what it has carried out for this node.
struct KnownOwner {
    owns: Owns,
    unconfirmed: Unconfirmed,
    /// Changes that an owner before this one has carried out: this one may have them, and is told them once more.
    left_over: VecDeque<(Have, Change)>,
}

impl KnownOwner {
    fn leave_over(&mut self) {
        let unconfirmed = self.unconfirmed.take();
        self.left_over.extend(unconfirmed);
    }
}

/// The node that is asked.
#[derive(Clone, Copy)]
pub(super) enum To {
    Node(NodeRank),
    /// The node that owns the tree.
    Owner,
}

impl Nodes {
    pub fn new(calls: impl Calls + 'static, owns: Owns, council: Vec<NodeRank>, partners: Partners) -> Arc<Self> {
        let (is_alone, began) = (calls.others().is_empty(), calls.since_boot());
        Arc::new(Self {
            calls: Box::new(calls),
            owner: Mutex::new(KnownOwner { owns, unconfirmed: Unconfirmed::default(), left_over: VecDeque::new() }),
            council,
            settling: tokio::sync::Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            partners,
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

    /// The tree's owner.
    pub fn owns(&self) -> Owns {
        self.known_owner().owns
    }

    /// The nodes that decide that.
    pub fn council(&self) -> &[NodeRank] {
        &self.council
    }

    /// Another node owns the tree, which has not asked for what the one before has carried out. Whether that is news.
    pub fn adopt(&self, owns: Owns) -> bool {
        let old = {
            let mut known = self.known_owner();
            if known.owns >= owns {
                return false;
            }
            known.leave_over();
            std::mem::replace(&mut known.owns, owns)
        };
        tracing::warn!(node = %owns.node, epoch = owns.epoch, "the burst tree has another owner");
        self.calls.forsake(old.node);
        true
    }

    /// The same, and hands over what the one before has carried out for this node, and the new one may not have.
    ///
    /// # Errors
    /// A newer owner.
    pub fn hand_over(&self, owns: Owns, after: Have) -> Result<Handed, Owns> {
        let (handed, old) = {
            let mut known = self.known_owner();
            if known.owns > owns {
                return Err(known.owns);
            }
            let old = std::mem::replace(&mut known.owns, owns);
            if old != owns {
                known.leave_over();
            }
            let mut bytes = 0;
            let handed = known.left_over.iter().filter(|(have, _)| *have > after);
            let fits = handed.take_while(|(_, change)| {
                let is_first = bytes == 0;
                bytes += encode(change).len();
                is_first || bytes <= HANDED_BYTES_MAX
            });
            (fits.take(UNCONFIRMED_MAX).cloned().collect(), old)
        };
        if old != owns {
            tracing::warn!(node = %owns.node, epoch = owns.epoch, "the burst tree has another owner");
            self.calls.forsake(old.node);
        }
        Ok(Handed(handed))
    }

    /// Has the owner carry out a change, once however often it is sent.
    ///
    /// # Errors
    /// EIO when it does not answer for a long time: whether it did is not known then.
    pub async fn change(&self, change: &Change) -> Result<Result<Done, Errno>, Errno> {
        self.settle().await?;
        self.change_once(change).await
    }

    /// Has the owner carry out what one before it has, and perhaps not told: before anything else of this node.
    ///
    /// # Errors
    /// EIO when it does not answer for a long time.
    pub async fn settle(&self) -> Result<(), Errno> {
        if self.known_owner().left_over.is_empty() {
            return Ok(());
        }
        let _alone = self.settling.lock().await;
        loop {
            let Some((_, change)) = self.known_owner().left_over.front().cloned() else { return Ok(()) };
            match self.change_once(&change).await? {
                Ok(_) | Err(Errno::EALREADY) => {}
                Err(errno) => {
                    tracing::warn!(?change.operation, %errno, "a change is lost with the node that owned the burst tree");
                }
            }
            let mut known = self.known_owner();
            if known.left_over.front().is_some_and(|(_, front)| front.id == change.id) {
                known.left_over.pop_front();
            }
        }
    }

    async fn change_once(&self, change: &Change) -> Result<Result<Done, Errno>, Errno> {
        let message = WriteMessage::Change(change.clone());
        loop {
            let (owns, (outcome, body)) = self.call(To::Owner, &message, PATIENCE).await?;
            let Changed { outcome, have, safe } = decoded(&outcome, &body)?;
            let is_full = {
                let mut known = self.known_owner();
                if known.owns != owns {
                    continue;
                }
                match (&outcome, have) {
                    (Ok(_), Some(have)) => known.unconfirmed.note(have, safe, change.clone()),
                    _ => safe.into_iter().for_each(|safe| known.unconfirmed.confirm(safe)),
                }
                known.unconfirmed.is_full()
            };
            if is_full {
                self.wait_for_second_home(have).await?;
            }
            return Ok(outcome);
        }
    }

    async fn wait_for_second_home(&self, have: Option<Have>) -> Result<(), Errno> {
        let question =
            WriteMessage::Question { caller: Caller::default(), question: Question::Durable, is_leased: false };
        let (_, (outcome, body)) = self.call(To::Owner, &question, PATIENCE).await?;
        let durable: Result<wire::Told, Errno> = decoded(&outcome, &body)?;
        durable?;
        have.into_iter().for_each(|have| self.known_owner().unconfirmed.confirm(have));
        Ok(())
    }

    fn known_owner(&self) -> MutexGuard<'_, KnownOwner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a node of the council after the other who owns the tree, until one knows a newer owner.
    async fn look_for_owner(&self) {
        let own = self.calls.own();
        for member in self.council.iter().filter(|member| **member != own) {
            if let Ok((_, body)) = self.calls.call(*member, &WriteMessage::WhoOwns, LOOK_PATIENCE).await
                && let Ok(owns) = decode::<Owns>(&whole(&body))
                && self.adopt(owns)
            {
                return;
            }
        }
    }

    /// The end of a call to the owner. A host that is gone refuses nothing: meanwhile others are asked who owns the tree, by one call at a time.
    /// Where another node does, calls to the one before end (`forsake`).
    async fn or_other_owner(
        &self,
        owns: Owns,
        mut called: Waiting<'_, Result<Called, Unanswered>>,
    ) -> Result<Called, Unanswered> {
        loop {
            tokio::select! {
                biased;
                called = &mut called => return called,
                () = self.calls.pause(LOOK_AFTER) => {}
            }
            // A call that began as this node learnt of the new owner was not ended.
            if self.owns() != owns {
                return Err(Unanswered::Yet("it does not own the burst tree any more".to_owned()));
            }
            let Ok(_alone) = self.looking.try_lock() else { continue };
            tokio::select! {
                biased;
                called = &mut called => return called,
                () = self.look_for_owner() => {}
            }
        }
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
        let (done, outcome) = oneshot::channel();
        self.calls.block(Box::new(move || drop(done.send(operation()))));
        outcome.await.ok()
    }

    /// Waits for what other nodes do. May block.
    pub fn wait_for<T: Send>(&self, waiting: impl Future<Output = T> + Send) -> T {
        let mut outcome = None;
        self.calls.wait_for(Box::pin(async { outcome = Some(waiting.await) }));
        outcome.expect("it has been waited for to its end")
    }

    /// Asks the owner until it answers.
    ///
    /// # Errors
    /// EIO when it does not for a long time: whether it did what was asked is not known then.
    pub async fn ask_owner<T: DeserializeOwned + Checked>(&self, message: &WriteMessage) -> Result<T, Errno> {
        self.settle().await?;
        let (_, (outcome, body)) = self.call(To::Owner, message, PATIENCE).await?;
        decoded(&outcome, &body)
    }

    /// The owner's answer to a question that is about nothing which an owner before it has carried out for this node. By a task.
    ///
    /// # Errors
    /// As `ask_owner`.
    pub async fn answer_of_owner<T: DeserializeOwned + Checked>(&self, message: &WriteMessage) -> Result<T, Errno> {
        let (_, (outcome, body)) = self.call(To::Owner, message, PATIENCE).await?;
        decoded(&outcome, &body)
    }

    /// Asks a node for what is not a file's contents, for `patience` at most.
    ///
    /// # Errors
    /// EIO when it does not answer.
    pub fn ask<T: DeserializeOwned + Checked>(
        &self,
        to: NodeRank,
        message: &WriteMessage,
        patience: Duration,
    ) -> Result<T, Errno> {
        let (_, (outcome, body)) = self.wait_for_call(To::Node(to), message, patience)?;
        decoded(&outcome, &body)
    }

    /// The same by a task.
    ///
    /// # Errors
    /// As `ask`.
    pub async fn answer_of<T: DeserializeOwned + Checked>(
        &self,
        to: NodeRank,
        message: &WriteMessage,
        patience: Duration,
    ) -> Result<T, Errno> {
        let (_, (outcome, body)) = self.call(To::Node(to), message, patience).await?;
        decoded(&outcome, &body)
    }

    /// Asks a node once. `None` when it does not answer.
    pub async fn ask_once<T: DeserializeOwned + Checked>(
        &self,
        to: NodeRank,
        message: &WriteMessage,
        within: Duration,
    ) -> Option<T> {
        let (outcome, body) = self.call_once(to, message, within).await.ok()?;
        decoded(&outcome, &body).ok()
    }

    /// Asks the owner for what is told in words.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn ask_owner_for_text<T: DeserializeOwned>(&self, message: &WriteMessage) -> Result<T, String> {
        let failed = |errno| format!("node {}, which owns the burst tree, does not answer: {errno}", self.owns().node);
        let (_, (_, body)) = self.wait_for_call(To::Owner, message, TEXT_PATIENCE).map_err(failed)?;
        let answers: Vec<T> =
            serde_json::from_slice(&whole(&body)).map_err(|error| format!("invalid answer: {error}"))?;
        answers.into_iter().next().ok_or_else(|| "an empty answer".to_owned())
    }

    /// A node's answer within a time.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn call_once(
        &self,
        to: NodeRank,
        message: &WriteMessage,
        within: Duration,
    ) -> Result<Called, Unanswered> {
        self.calls.call(to, message, within).await
    }

    fn wait_for_call(&self, to: To, message: &WriteMessage, patience: Duration) -> Result<(Owns, Called), Errno> {
        self.wait_for(self.call(to, message, patience))
    }

    /// The answer, and who owned the tree then.
    pub(super) async fn call(
        &self,
        to: To,
        message: &WriteMessage,
        patience: Duration,
    ) -> Result<(Owns, Called), Errno> {
        let began = Instant::now();
        let (mut has_told, mut looked_at) = (false, began);
        while !self.is_ending.load(Ordering::Relaxed) {
            let left = patience.saturating_sub(began.elapsed()).max(AGAIN_AFTER);
            let owns = self.owns();
            let is_to_owner = matches!(to, To::Owner);
            let to = match to {
                To::Node(node) => node,
                To::Owner => owns.node,
            };
            let called = self.calls.call(to, message, left.min(CALL_DEADLINE));
            let called = if is_to_owner { self.or_other_owner(owns, called).await } else { called.await };
            let (failed, is_final) = match called {
                Ok((Outcome::Failed(errno), _)) => (errno.to_string(), false),
                // An owner before this one may not have known what there is by now.
                Ok(_) if is_to_owner && self.owns() != owns => continue,
                Ok(answered) => return Ok((owns, answered)),
                Err(Unanswered::Yet(failed)) => (failed, false),
                Err(Unanswered::Ever(failed)) => (failed, true),
            };
            if is_final || began.elapsed() >= patience {
                tracing::error!(%to, failed, asked = message.word(), "a node of the burst tier does not answer");
                return Err(Errno::EIO);
            }
            if !std::mem::replace(&mut has_told, true) {
                tracing::warn!(%to, failed, asked = message.word(), "a node of the burst tier is asked again");
            }
            if is_to_owner && looked_at.elapsed() >= LOOK_AFTER {
                self.look_for_owner().await;
                looked_at = Instant::now();
            }
            self.calls.pause(AGAIN_AFTER).await;
        }
        Err(Errno::EIO)
    }
}
