//! Calls to the leader, by nodes that are none.

use std::time::Duration;

use forebay_types::NodeRank;
use forebay_wire::Outcome;
use forebay_wire::message::encode;
use forebay_wire::write_message::{Leadership, WriteMessage};
use tokio::sync::watch;

use super::peers::{Called, Calls, OnThread, Unanswered, Waiting};
use super::remote::{Nodes, Partners, TIMEOUT, To};
use crate::environment::Operation;

/// Node 0, the leader, is silent and refuses nothing; node 1 knows that node 2 leads the tree by now.
struct SilentLeader {
    forsaken: watch::Sender<Option<NodeRank>>,
}

impl Calls for SilentLeader {
    fn own(&self) -> NodeRank {
        NodeRank(3)
    }

    fn others(&self) -> Vec<NodeRank> {
        [0, 1, 2].map(NodeRank).into()
    }

    fn call<'a>(
        &'a self,
        to: NodeRank,
        _: &'a WriteMessage,
        within: Duration,
    ) -> Waiting<'a, Result<Called, Unanswered>> {
        let mut forsaken = self.forsaken.subscribe();
        Box::pin(async move {
            if to == NodeRank(0) {
                let _ = tokio::time::timeout(within, forsaken.wait_for(|node| *node == Some(to))).await;
                return Err(Unanswered::Yet("it is no leader any more".to_owned()));
            }
            Ok((Outcome::Body, vec![encode(&Leadership { term: 1, leader: NodeRank(2) }).into()]))
        })
    }

    fn pause(&self, time: Duration) -> Waiting<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn block(&self, operation: Operation) {
        operation();
    }

    fn spawn(&self, task: Waiting<'static, ()>) -> tokio::task::JoinHandle<()> {
        tokio::spawn(task)
    }

    fn wait_for(&self, _: Waiting<'_, ()>) {
        unreachable!("the test waits by a task");
    }

    fn carry_out(&self, _: OnThread<'_>) {
        unreachable!("the test waits by a task");
    }

    fn forsake(&self, node: NodeRank) {
        let _ = self.forsaken.send(Some(node));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_silent_leader_ends_when_another_node_owns_the_tree() {
    let calls = SilentLeader { forsaken: watch::Sender::new(None) };
    let nodes = Nodes::new(calls, Leadership::default(), [0, 1, 2].map(NodeRank).into(), Partners::None);
    let began = tokio::time::Instant::now();
    let (leadership, _) = nodes.call(To::Leader, &WriteMessage::Pending, TIMEOUT).await.unwrap();
    assert_eq!(leadership.leader, NodeRank(2));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
