//! Calls to the leader, by nodes that are none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_types::{Errno, NodeRank, OperationId, Timestamp};
use forebay_wire::Outcome;
use forebay_wire::message::encode;
use forebay_wire::write::{Caller, Change, Done, Operation};
use forebay_wire::write_message::{Answer, Changed, Leadership, Question, ReplicatedIndex, WriteMessage};
use tokio::sync::watch;

use super::peers::{Called, Calls, Unanswered, Waiting};
use super::remote::asking::To;
use super::remote::{Nodes, Partners, TIMEOUT};
use crate::environment;

/// Node 0, the leader, is silent and refuses nothing; node 1 knows that node 2 leads the tree by now.
struct SilentLeader {
    forsaken: watch::Sender<Option<NodeRank>>,
    /// Changes that node 0 still carries out before it is silent.
    carries_out: AtomicUsize,
    /// The kinds of messages to node 2.
    asked: Arc<Mutex<Vec<&'static str>>>,
}

impl SilentLeader {
    /// It carries out so many changes first.
    fn after(changes: usize) -> (Self, Arc<Mutex<Vec<&'static str>>>) {
        let asked = Arc::default();
        let (forsaken, carries_out) = (watch::Sender::new(None), AtomicUsize::new(changes));
        (Self { forsaken, carries_out, asked: Arc::clone(&asked) }, asked)
    }
}

/// The answer to a change, which the standby does not have yet.
fn changed() -> Called {
    let have = Some(ReplicatedIndex { incarnation: 1, count: 1 });
    (Outcome::Body, vec![encode(&Changed { outcome: Ok(Done::Nothing), have, safe: None }).into()])
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
        message: &'a WriteMessage,
        within: Duration,
    ) -> Waiting<'a, Result<Called, Unanswered>> {
        let mut forsaken = self.forsaken.subscribe();
        Box::pin(async move {
            if to == NodeRank(2) {
                self.asked.lock().unwrap().push(message.word());
                return Ok(match message {
                    WriteMessage::Change(_) => changed(),
                    _ => (Outcome::Body, vec![encode(&Ok::<_, Errno>(Answer::Nothing)).into()]),
                });
            }
            if to == NodeRank(0) {
                if self.carries_out.load(Ordering::Relaxed) > 0 {
                    self.carries_out.fetch_sub(1, Ordering::Relaxed);
                    return Ok(changed());
                }
                let _ = tokio::time::timeout(within, forsaken.wait_for(|node| *node == Some(to))).await;
                return Err(Unanswered::Yet("it is no leader any more".to_owned()));
            }
            Ok((Outcome::Body, vec![encode(&Leadership { term: 1, leader: NodeRank(2) }).into()]))
        })
    }

    fn pause(&self, time: Duration) -> Waiting<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn block(&self, operation: environment::Operation) {
        operation();
    }

    fn spawn(&self, task: Waiting<'static, ()>) -> tokio::task::JoinHandle<()> {
        tokio::spawn(task)
    }

    fn forsake(&self, node: NodeRank) {
        let _ = self.forsaken.send(Some(node));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_silent_leader_ends_when_another_node_owns_the_tree() {
    let (calls, _) = SilentLeader::after(0);
    let nodes = Nodes::new(calls, Leadership::default(), [0, 1, 2].map(NodeRank).into(), Partners::None);
    let began = tokio::time::Instant::now();
    let (leadership, _) = nodes.call(To::Leader, &WriteMessage::Pending, TIMEOUT).await.unwrap();
    assert_eq!(leadership.leader, NodeRank(2));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Otherwise the answer would be about a tree without the change: bytes that it needs would be given back, or be called durable.
#[tokio::test(start_paused = true)]
async fn a_new_leader_is_told_what_the_one_before_carried_out_before_it_answers_a_question_under_way() {
    let (calls, asked) = SilentLeader::after(1);
    let nodes = Nodes::new(calls, Leadership::default(), [0, 1, 2].map(NodeRank).into(), Partners::None);
    let id = OperationId { node: NodeRank(3), session: 1, serial: 1 };
    let (caller, now) = (Caller::default(), Timestamp::default());
    let change = Change { id, oldest: 1, caller: caller.clone(), now, operation: Operation::CloseAll };
    nodes.change(&change).await.unwrap().unwrap();
    let question = WriteMessage::Question { caller, question: Question::Durable, is_leased: false };
    nodes.ask_leader::<Result<Answer, Errno>>(&question).await.unwrap().unwrap();
    assert_eq!(*asked.lock().unwrap(), ["change", "question"]);
}
