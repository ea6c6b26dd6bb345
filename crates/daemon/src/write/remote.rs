//! Asking other nodes, by threads that wait.
//!
//! A node whose daemon has died is asked again until its keeper has started the next one. What is asked may then have been carried out
//! already: a change has a name, by which the owner knows it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_types::{Errno, NodeRank, Time};
use forebay_wire::Outcome;
use forebay_wire::message::{Checked, decode};
use forebay_wire::write_message::{LogPart, WriteMessage};
use forebay_write::Told;
use serde::de::DeserializeOwned;

/// The node that owns a job's tree.
pub const OWNER: NodeRank = NodeRank(0);

/// What an owner of another build might say.
pub const SENSELESS: Errno = Errno::EPROTO;

/// How long one call may take: longer than a directory of a slow backing file system takes to be read.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How long a node is asked again that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same where somebody else has what is asked for.
const COPIED_PATIENCE: Duration = Duration::from_secs(4);

/// The same for who asks by a command.
const TEXT_PATIENCE: Duration = Duration::from_secs(5);

/// How often.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Which node has copies of what each has written.
pub enum Partners {
    /// There are none.
    None,
    /// This one, by rank.
    Of(Vec<Option<NodeRank>>),
    /// Whoever has any.
    Any,
}

/// How nodes reach each other.
pub trait Calls: Send + Sync {
    /// This node.
    fn own(&self) -> NodeRank;

    /// The ranks of all nodes but this one.
    fn others(&self) -> Vec<NodeRank>;

    /// What a node answers within a time. May block.
    ///
    /// # Errors
    /// Why it does not.
    fn call(&self, to: NodeRank, message: &WriteMessage, within: Duration) -> Result<Answered, Unanswered>;
}

/// An answer with its body.
pub type Answered = (Outcome, Vec<u8>);

/// Why a node does not answer.
pub enum Unanswered {
    /// It may later.
    Yet(String),
    /// It will not.
    Ever(String),
}

/// The other nodes of the job.
pub struct Nodes {
    calls: Box<dyn Calls>,
    /// The node that owns the tree.
    owner: NodeRank,
    partners: Partners,
    is_alone: bool,
    began: Instant,
    is_ending: AtomicBool,
}

impl Nodes {
    pub fn new(calls: impl Calls + 'static, owner: NodeRank, partners: Partners) -> Arc<Self> {
        let is_alone = calls.others().is_empty();
        Arc::new(Self {
            calls: Box::new(calls),
            owner,
            partners,
            is_alone,
            began: Instant::now(),
            is_ending: AtomicBool::new(false),
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

    /// The node that owns the tree.
    pub fn owner(&self) -> NodeRank {
        self.owner
    }

    /// Whether all is over.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Nobody waits any more.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// The time of this node's leases.
    pub fn now(&self) -> Time {
        Time::default().after(self.began.elapsed())
    }

    /// Has nodes forget what they were told, and waits until they have, or have done so by themselves when `ends` says.
    pub fn have_forget(&self, told: &[Told], ends: &(impl Fn(&Told) -> Time + Sync)) {
        let Some((last, others)) = told.split_last() else { return };
        std::thread::scope(|scope| {
            for told in others {
                scope.spawn(move || self.have_one_forget(told, ends));
            }
            self.have_one_forget(last, ends);
        });
    }

    fn have_one_forget(&self, told: &Told, ends: &impl Fn(&Told) -> Time) {
        let message = WriteMessage::Forget { files: told.files.clone() };
        while !self.is_ending.load(Ordering::Relaxed) {
            let patience = ends(told).since(self.now());
            if patience.is_zero() || self.ask::<Result<(), Errno>>(told.node, &message, patience).is_ok() {
                return;
            }
            std::thread::sleep(AGAIN_AFTER);
        }
    }

    /// Asks the owner until it answers.
    ///
    /// # Errors
    /// EIO when it does not for a long time: whether it did what was asked is not known then.
    pub fn ask_owner<T: DeserializeOwned + Checked>(&self, message: &WriteMessage) -> Result<T, Errno> {
        self.ask(self.owner, message, PATIENCE)
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
        let (outcome, body) = self.call(to, message, patience)?;
        match outcome {
            Outcome::Body => decode(&body).map_err(|_| Errno::EPROTO),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Asks the owner for what is told in words.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn ask_owner_for_text<T: DeserializeOwned>(&self, message: &WriteMessage) -> Result<T, String> {
        let failed = |errno| format!("node {}, which owns the burst tree, does not answer: {errno}", self.owner);
        let (_, body) = self.call(self.owner, message, TEXT_PATIENCE).map_err(failed)?;
        let answers: Vec<T> = serde_json::from_slice(&body).map_err(|error| format!("not understood: {error}"))?;
        answers.into_iter().next().ok_or_else(|| "an empty answer".to_owned())
    }

    /// Fills `into` with what `message` asks for.
    ///
    /// # Errors
    /// What the other node says; EIO when it says nothing.
    pub fn read(&self, from: NodeRank, message: &WriteMessage, into: &mut [u8]) -> Result<(), Errno> {
        let patience = if self.has_partners() { COPIED_PATIENCE } else { PATIENCE };
        match self.call(from, message, patience)? {
            (Outcome::Body, body) if body.len() == into.len() => {
                into.copy_from_slice(&body);
                Ok(())
            }
            (Outcome::Bundle(errors), _) => Err(errors.into_iter().flatten().next().unwrap_or(Errno::EIO)),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Contents of another node's log.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_log(&self, from: NodeRank, part: LogPart, into: &mut [u8]) -> Result<(), Errno> {
        self.read(from, &WriteMessage::Contents { parts: vec![part] }, into)
    }

    fn call(&self, to: NodeRank, message: &WriteMessage, patience: Duration) -> Result<Answered, Errno> {
        let began = Instant::now();
        let mut has_told = false;
        while !self.is_ending.load(Ordering::Relaxed) {
            let left = patience.saturating_sub(began.elapsed()).max(AGAIN_AFTER);
            let (failed, is_final) = match self.calls.call(to, message, left.min(CALL_DEADLINE)) {
                Ok((Outcome::Failed(errno), _)) => (errno.to_string(), false),
                Ok(answered) => return Ok(answered),
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
            std::thread::sleep(AGAIN_AFTER);
        }
        Err(Errno::EIO)
    }
}
