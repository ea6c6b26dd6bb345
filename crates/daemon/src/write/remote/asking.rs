//! Calls to other nodes, and to the leader, which may be another node by the answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_types::{Errno, NodeRank};
use forebay_wire::Outcome;
use forebay_wire::message::{Checked, decode};
use forebay_wire::write::{Caller, Change, Done};
use forebay_wire::write_message::{self as wire, Changed, Leadership, Question, ReplicatedIndex, WriteMessage};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{Nodes, TIMEOUT};
use crate::write::peers::{Called, Unanswered, Waiting, decoded, whole};

/// How long one call may take: longer than a directory of a slow backing file system takes to be read.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How long a leader does not answer until others are asked who leads the tree, and again.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long it is asked by a command.
const TEXT_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before a node is asked again.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(20);

/// How long a voter is asked who leads the tree.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The node that is asked.
#[derive(Clone, Copy)]
pub(crate) enum To {
    Node(NodeRank),
    /// The node that leads the tree.
    Leader,
    /// The same, once it knows what one before it has carried out for this node: also where another node comes to lead during the call.
    LeaderThatKnows,
}

impl Nodes {
    /// Has the leader carry out a change, once however often it is sent.
    ///
    /// # Errors
    /// EIO when it does not answer for a long time: whether it did is not known then.
    pub async fn change(&self, change: &Change) -> Result<Result<Done, Errno>, Errno> {
        self.resend_unreplicated().await?;
        self.change_once(change).await
    }

    /// Has the leader carry out what one before it has, and perhaps not told: before anything else of this node.
    ///
    /// # Errors
    /// EIO when it does not answer for a long time.
    pub async fn resend_unreplicated(&self) -> Result<(), Errno> {
        if self.known_leader().to_resend.is_empty() {
            return Ok(());
        }
        let _alone = self.resending.lock().await;
        loop {
            let Some((_, change)) = self.known_leader().to_resend.front().cloned() else { return Ok(()) };
            match self.change_once(&change).await? {
                Ok(_) | Err(Errno::EALREADY) => {}
                Err(errno) => {
                    tracing::warn!(?change.operation, %errno, "a change is lost with the node that led the burst tree");
                    self.lost.note(&change);
                }
            }
            let mut known = self.known_leader();
            if known.to_resend.front().is_some_and(|(_, front)| front.id == change.id) {
                known.to_resend.pop_front();
            }
        }
    }

    /// The leader, which knows by now what one before it has carried out.
    async fn known_to_leader(&self) -> Result<Leadership, Errno> {
        loop {
            self.resend_unreplicated().await?;
            let known = self.known_leader();
            if known.to_resend.is_empty() {
                return Ok(known.leadership);
            }
        }
    }

    async fn change_once(&self, change: &Change) -> Result<Result<Done, Errno>, Errno> {
        let message = WriteMessage::Change(change.clone());
        loop {
            let (leadership, (outcome, body)) = self.call(To::Leader, &message, TIMEOUT).await?;
            let Changed { outcome, have, safe } = decoded(&outcome, &body)?;
            let is_full = {
                let mut known = self.known_leader();
                if known.leadership != leadership {
                    continue;
                }
                match (&outcome, have) {
                    (Ok(_), Some(have)) => known.unreplicated.note(have, safe, change.clone()),
                    _ => safe.into_iter().for_each(|safe| known.unreplicated.confirm(safe)),
                }
                known.unreplicated.is_full()
            };
            if is_full {
                self.wait_for_standby(have).await?;
            }
            return Ok(outcome);
        }
    }

    async fn wait_for_standby(&self, have: Option<ReplicatedIndex>) -> Result<(), Errno> {
        let question =
            WriteMessage::Question { caller: Caller::default(), question: Question::Durable, is_leased: false };
        let (_, (outcome, body)) = self.call(To::Leader, &question, TIMEOUT).await?;
        let durable: Result<wire::Answer, Errno> = decoded(&outcome, &body)?;
        durable?;
        have.into_iter().for_each(|have| self.known_leader().unreplicated.confirm(have));
        Ok(())
    }

    /// Asks a voter after the other who leads the tree, until one knows a newer leader.
    async fn look_for_leader(&self) {
        let own = self.calls.own();
        for voter in self.voters.iter().filter(|voter| **voter != own) {
            if let Ok((_, body)) = self.calls.call(*voter, &WriteMessage::WhoLeads, LOOK_TIMEOUT).await
                && let Ok(leadership) = decode::<Leadership>(&whole(&body))
                && self.switch_leader(leadership)
            {
                return;
            }
        }
    }

    /// The end of a call to the leader. A host that is gone refuses nothing: meanwhile others are asked who leads the tree, by one call at a time.
    /// Where another node does, calls to the one before end (`forsake`).
    async fn or_other_leader(
        &self,
        leadership: Leadership,
        mut called: Waiting<'_, Result<Called, Unanswered>>,
    ) -> Result<Called, Unanswered> {
        loop {
            tokio::select! {
                biased;
                called = &mut called => return called,
                () = self.calls.pause(LOOK_AFTER) => {}
            }
            // A call that began as this node learnt of the new leader was not ended.
            if self.leadership() != leadership {
                return Err(Unanswered::Yet("it does not lead the burst tree any more".to_owned()));
            }
            let Ok(_alone) = self.looking.try_lock() else { continue };
            tokio::select! {
                biased;
                called = &mut called => return called,
                () = self.look_for_leader() => {}
            }
        }
    }

    /// Asks the leader until it answers.
    ///
    /// # Errors
    /// EIO when it does not for a long time: whether it did what was asked is not known then.
    pub async fn ask_leader<T: DeserializeOwned + Checked>(&self, message: &WriteMessage) -> Result<T, Errno> {
        let (_, (outcome, body)) = self.call(To::LeaderThatKnows, message, TIMEOUT).await?;
        decoded(&outcome, &body)
    }

    /// The leader's answer to a question that is about nothing which a leader before it has carried out for this node. By a task.
    ///
    /// # Errors
    /// As `ask_leader`.
    pub async fn answer_of_leader<T: DeserializeOwned + Checked>(&self, message: &WriteMessage) -> Result<T, Errno> {
        let (_, (outcome, body)) = self.call(To::Leader, message, TIMEOUT).await?;
        decoded(&outcome, &body)
    }

    /// Asks a node for what is not a file's contents, for `timeout` at most.
    ///
    /// # Errors
    /// EIO when it does not answer.
    pub async fn answer_of<T: DeserializeOwned + Checked>(
        &self,
        to: NodeRank,
        message: &WriteMessage,
        timeout: Duration,
    ) -> Result<T, Errno> {
        let (_, (outcome, body)) = self.call(To::Node(to), message, timeout).await?;
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

    /// Asks the leader for what is told in words.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask_leader_for_text<T: DeserializeOwned>(&self, message: &WriteMessage) -> Result<T, String> {
        let failed =
            |errno| format!("node {}, which leads the burst tree, does not answer: {errno}", self.leadership().leader);
        let (_, (_, body)) = self.call(To::Leader, message, TEXT_TIMEOUT).await.map_err(failed)?;
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

    /// The answer, and who led the tree then.
    pub(crate) async fn call(
        &self,
        to: To,
        message: &WriteMessage,
        timeout: Duration,
    ) -> Result<(Leadership, Called), Errno> {
        let began = Instant::now();
        let (mut has_told, mut looked_at) = (false, began);
        while !self.is_ending.load(Ordering::Relaxed) {
            let left = timeout.saturating_sub(began.elapsed()).max(RETRY_DELAY);
            let leadership = match to {
                // Boxed, since a change is sent again by a call.
                To::LeaderThatKnows => Box::pin(self.known_to_leader()).await?,
                To::Leader | To::Node(_) => self.leadership(),
            };
            let is_to_leader = !matches!(to, To::Node(_));
            let to = if let To::Node(node) = to { node } else { leadership.leader };
            let called = self.calls.call(to, message, left.min(CALL_DEADLINE));
            let called = if is_to_leader { self.or_other_leader(leadership, called).await } else { called.await };
            let (failed, is_final) = match called {
                Ok((Outcome::Failed(errno), _)) => (errno.to_string(), false),
                // A leader before this one may not have known what there is by now.
                Ok(_) if is_to_leader && self.leadership() != leadership => continue,
                Ok(answered) => return Ok((leadership, answered)),
                Err(Unanswered::Yet(failed)) => (failed, false),
                Err(Unanswered::Ever(failed)) => (failed, true),
            };
            if is_final || began.elapsed() >= timeout {
                tracing::error!(%to, failed, asked = message.word(), "a node of the burst tier does not answer");
                return Err(Errno::EIO);
            }
            if !std::mem::replace(&mut has_told, true) {
                tracing::warn!(%to, failed, asked = message.word(), "a node of the burst tier is asked again");
            }
            if is_to_leader && self.leadership() == leadership && looked_at.elapsed() >= LOOK_AFTER {
                self.look_for_leader().await;
                looked_at = Instant::now();
            }
            self.calls.pause(RETRY_DELAY).await;
        }
        Err(Errno::EIO)
    }
}
