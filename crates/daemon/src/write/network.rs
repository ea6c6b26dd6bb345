//! The other nodes of a job that runs: over its connections.

use std::sync::Arc;
use std::time::Duration;

use forebay_transport::CallError;
use forebay_types::NodeRank;
use forebay_wire::Request;
use forebay_wire::write_message::WriteMessage;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::peers::{Called, Calls, Unanswered, Waiting};
use crate::environment::Operation;
use crate::shared::gather::chain;
use crate::shared::node::Node;

/// See the module.
pub struct Network {
    node: Arc<Node>,
    /// The node that is not waited for any more.
    forsaken: watch::Sender<Option<NodeRank>>,
    /// Whether no node is.
    is_ending: watch::Sender<bool>,
}

impl Network {
    pub fn new(node: &Arc<Node>) -> Self {
        Self { node: Arc::clone(node), forsaken: watch::Sender::new(None), is_ending: watch::Sender::new(false) }
    }

    async fn try_to_call(&self, to: NodeRank, message: &WriteMessage, within: Duration) -> Result<Called, String> {
        let endpoint = self.node.endpoint().ok_or("the daemon is starting")?.clone();
        let request = Request::from(message.clone());
        let (mut forsaken, mut is_ending) = (self.forsaken.subscribe(), self.is_ending.subscribe());
        let told = |error: CallError| chain(&error);
        let reply = tokio::select! {
            // First: when all is over there are no timers any more.
            biased;
            _ = is_ending.wait_for(|is_ending| *is_ending) => return Err("this daemon is ending".to_owned()),
            reply = endpoint.call(to, request, within) => reply.map_err(told)?,
            _ = async { while forsaken.changed().await.is_ok() && *forsaken.borrow() != Some(to) {} } => {
                return Err("it does not lead the burst tree any more".to_owned());
            }
        };
        let Some(body) = reply.body else { return Ok((reply.outcome, vec![])) };
        body.whole_bytes().await.map_err(|errno| errno.to_string())?;
        Ok((reply.outcome, body.slices(0, body.expected_bytes()).into_iter().collect()))
    }
}

impl Calls for Network {
    fn own(&self) -> NodeRank {
        self.node.rank()
    }

    fn others(&self) -> Vec<NodeRank> {
        let own = self.node.rank();
        (0..self.node.options.nodes.len() as u32).map(NodeRank).filter(|rank| *rank != own).collect()
    }

    fn call<'a>(
        &'a self,
        to: NodeRank,
        message: &'a WriteMessage,
        within: Duration,
    ) -> Waiting<'a, Result<Called, Unanswered>> {
        Box::pin(async move { self.try_to_call(to, message, within).await.map_err(Unanswered::Yet) })
    }

    fn pause(&self, time: Duration) -> Waiting<'static, ()> {
        let mut is_ending = self.is_ending.subscribe();
        Box::pin(async move {
            tokio::select! {
                biased;
                _ = is_ending.wait_for(|is_ending| *is_ending) => {}
                () = tokio::time::sleep(time) => {}
            }
        })
    }

    fn block(&self, operation: Operation) {
        self.node.environment.block(operation);
    }

    fn spawn(&self, task: Waiting<'static, ()>) -> JoinHandle<()> {
        self.node.spawn(task)
    }

    fn in_context(&self, task: Waiting<'static, ()>) -> Waiting<'static, ()> {
        self.node.in_context(task)
    }

    fn forsake(&self, node: NodeRank) {
        let _ = self.forsaken.send(Some(node));
    }

    fn end(&self) {
        self.is_ending.send_replace(true);
    }

    fn since_boot(&self) -> Duration {
        self.node.environment.since_boot()
    }
}
