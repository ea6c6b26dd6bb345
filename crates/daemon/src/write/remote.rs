//! Asking other nodes, by threads that wait.
//!
//! A node whose daemon has died is asked again until its keeper has started the next one. What is asked may then have been carried out
//! already: a change has a name, by which the owner knows it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_transport::CallError;
use forebay_types::{Errno, NodeRank};
use forebay_wire::message::{Checked, decode};
use forebay_wire::write_message::{LogPart, WriteMessage};
use forebay_wire::{Outcome, Request};
use serde::de::DeserializeOwned;

use crate::shared::node::Node;

/// The node that owns the tree.
pub const OWNER: NodeRank = NodeRank(0);

/// How long one call may take: longer than a directory of a slow backing file system takes to be read.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How long a node is asked again that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for who asks by a command.
const TEXT_PATIENCE: Duration = Duration::from_secs(5);

/// How often.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The other nodes of the job.
pub struct Nodes {
    node: Arc<Node>,
    is_ending: AtomicBool,
}

impl Nodes {
    pub fn new(node: &Arc<Node>) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), is_ending: AtomicBool::new(false) })
    }

    /// The ranks of all but this one.
    pub fn others(&self) -> impl Iterator<Item = NodeRank> + use<> {
        let own = self.node.rank();
        (0..self.node.options.nodes.len() as u32).map(NodeRank).filter(move |rank| *rank != own)
    }

    /// Nobody waits any more.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Asks the owner until it answers.
    ///
    /// # Errors
    /// EIO when it does not for a long time: whether it did what was asked is not known then.
    pub fn ask_owner<T: DeserializeOwned + Checked>(&self, message: &WriteMessage) -> Result<T, Errno> {
        self.ask(OWNER, message, PATIENCE)
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
        let failed = |errno| format!("node {OWNER}, which owns the burst tree, does not answer: {errno}");
        let (_, body) = self.call(OWNER, message, TEXT_PATIENCE).map_err(failed)?;
        let answers: Vec<T> = serde_json::from_slice(&body).map_err(|error| format!("not understood: {error}"))?;
        answers.into_iter().next().ok_or_else(|| "an empty answer".to_owned())
    }

    /// Fills `into` with what `message` asks for.
    ///
    /// # Errors
    /// What the other node says; EIO when it says nothing.
    pub fn read(&self, from: NodeRank, message: &WriteMessage, into: &mut [u8]) -> Result<(), Errno> {
        match self.call(from, message, PATIENCE)? {
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

    fn call(&self, to: NodeRank, message: &WriteMessage, patience: Duration) -> Result<(Outcome, Vec<u8>), Errno> {
        let began = Instant::now();
        let mut has_told = false;
        while !self.is_ending.load(Ordering::Relaxed) {
            let failed = match self.try_to_call(to, message) {
                Ok((Outcome::Failed(errno), _)) => errno.to_string(),
                Ok(answered) => return Ok(answered),
                Err(failed) => failed,
            };
            if began.elapsed() >= patience {
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

    fn try_to_call(&self, to: NodeRank, message: &WriteMessage) -> Result<(Outcome, Vec<u8>), String> {
        let endpoint = self.node.endpoint().ok_or("the daemon is starting")?.clone();
        let request = Request::from(message.clone());
        self.node.wait_for(async move {
            let told = |error: CallError| crate::shared::gather::chain(&error);
            let reply = endpoint.call(to, request, CALL_DEADLINE).await.map_err(told)?;
            let Some(body) = reply.body else { return Ok((reply.outcome, vec![])) };
            body.whole_bytes().await.map_err(|errno| errno.to_string())?;
            Ok((reply.outcome, body.slices(0, body.expected_bytes()).concat()))
        })
    }
}
