//! Requests about the job as a whole, carried over the tree: downwards status and shutdown, upwards explain and probe.
//!
//! No node that is dead or silent hides another (`gather`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_body::Body;
use forebay_offload::FilesHolders;
use forebay_read::Source;
use forebay_transport::Replier;
use forebay_types::{Epoch, Errno, NodeRank, PIECE_BYTES, ViewPath};
use forebay_wire::{JobMessage, Outcome, QueryWants};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::query::JobQueries;
use super::sampling::Sampler;
use super::status::{JobStatus, NodeStatus, Status, Totals, UnreachableNode};
use super::summed::Summed;
use crate::read::ReadParts;
use crate::shared::gather::{Answer, Gathered, answer_all, ask_children, ask_from, ask_if_there, call};
use crate::shared::node::Node;
use crate::shared::readiness::Starting;
use crate::write::{Left, WriteParts};

/// How long a whole job may take to answer.
const JOB_DEADLINE: Duration = Duration::from_secs(10);

/// The share of the time that a hop leaves to the next, so that its own answer is still in time.
const HOP_SHARE: f64 = 0.8;

/// The job, as this node takes part in it.
pub struct Job {
    pub node: Arc<Node>,
    pub read: Arc<ReadParts>,
    /// Its part of the burst tier.
    pub write: Option<Arc<WriteParts>>,
    /// Its part in queries.
    pub queries: JobQueries,
    /// Its history.
    pub sampler: Arc<Sampler>,
    /// Its part in the start of the job.
    pub starting: Option<Arc<Starting>>,
    /// Whether the job is being ended from this node: it stays until it has told who ended.
    is_ended_here: AtomicBool,
}

/// A node on the way of a request, and what it says.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum Step {
    There { rank: u32, host: String, answer: String, why: String, kept: Vec<String> },
    Unreachable(UnreachableNode),
}

/// A node that ends.
#[derive(Serialize, Deserialize)]
struct Ended {
    rank: u32,
    /// The files of the burst tier that, as far as it knows, have not landed.
    left: Option<Left>,
}

impl Job {
    pub fn new(
        node: &Arc<Node>,
        read: &Arc<ReadParts>,
        starting: Option<Arc<Starting>>,
        write: Option<Arc<WriteParts>>,
    ) -> Arc<Self> {
        let (node, read) = (Arc::clone(node), Arc::clone(read));
        let queries = JobQueries::new(&node, &read, write.as_ref());
        let sampler = Arc::new(Sampler::new(&node));
        Arc::new(Self { node, read, write, queries, sampler, starting, is_ended_here: AtomicBool::new(false) })
    }

    /// Answers a peer's request about the job.
    pub async fn answer(self: Arc<Self>, message: JobMessage, remaining: Duration, reply: Replier) {
        let left = remaining.mul_f64(HOP_SHARE);
        match message {
            JobMessage::Status => answer_all(reply, &self.status_below(left).await),
            JobMessage::Holders { files, wants } => {
                answer_all(reply, &self.queries.holders_below(files, wants, left).await)
            }
            JobMessage::Explain { path } => answer_all(reply, &self.explain(path, left).await),
            JobMessage::Shutdown => {
                answer_all(reply, &self.shutdown_below(left).await);
                if !self.is_ended_here.load(Ordering::Relaxed) {
                    self.node.tell_to_end();
                }
            }
            JobMessage::Probe { payload_bytes } => self.probe_answer(reply, payload_bytes, left).await,
            _ => reply.answer(Outcome::Failed(Errno::EINVAL), None),
        }
    }

    /// This node's part of it.
    pub fn own_status(&self) -> Value {
        json!(NodeStatus::of(&self.node, &self.read, self.write.as_deref()))
    }

    /// The state of the whole job, as `status --json` shows it.
    pub async fn status(&self) -> Status {
        let root = self.root();
        let mut nodes = match root == self.node.rank() {
            true => self.status_below(JOB_DEADLINE).await,
            false => self.with_unreachable(self.ask_from(root, JobMessage::Status, JOB_DEADLINE).await),
        };
        // It may not have been asked, having lost who would ask it.
        if !nodes.iter().any(|node| node.rank() == self.node.rank().0) {
            nodes.push(self.status_with_summed());
        }
        nodes.sort_by_key(NodeStatus::rank);
        Status { job: JobStatus::of(&self.node), totals: Totals::of(&mut nodes), nodes }
    }

    /// Ends the daemons of the whole job; the ranks that ended, and what of the burst tier has not landed.
    pub async fn shutdown(&self) -> Value {
        self.is_ended_here.store(true, Ordering::Relaxed);
        let (root, own) = (self.root(), self.node.rank());
        let mut ended = match root == own {
            true => self.shutdown_below(JOB_DEADLINE).await,
            false => without_unreachable(self.ask_from(root, JobMessage::Shutdown, JOB_DEADLINE).await),
        };
        // It may not have been asked, having lost who would ask it.
        if !ended.iter().any(|ended| ended.rank == own.0) {
            self.leave().await;
            ended.push(self.ended());
        }
        self.node.tell_to_end();
        let ranks: Vec<u32> = ended.iter().map(|ended| ended.rank).collect();
        let left: Vec<Left> = ended.into_iter().filter_map(|ended| ended.left).collect();
        json!({"ended": ranks, "left": left})
    }

    /// The nodes of the job that hold each of some files.
    pub async fn holders(&self, files: Vec<ViewPath>, wants: QueryWants) -> FilesHolders {
        self.queries.holders(files, wants, JOB_DEADLINE).await
    }

    /// Where an answer for `path` would come from, from this node up to where the request ends.
    pub async fn explain_path(&self, path: ViewPath) -> Vec<Step> {
        self.explain(path, JOB_DEADLINE).await
    }

    /// Round trips to the root and back with `payload_bytes` on the way back, microseconds each.
    pub async fn probe(&self, payload_bytes: u32, count: u32) -> Result<Value, String> {
        let Some(parent) = self.node.forest.first().parent(self.node.rank()) else {
            return Err("this node is the root; ask another node".to_owned());
        };
        let mut round_trip_us = Vec::new();
        for _ in 0..count {
            let begun = std::time::Instant::now();
            let reply = call(&self.node, parent, JobMessage::Probe { payload_bytes }, JOB_DEADLINE).await?;
            if let Some(body) = &reply.body {
                body.whole_bytes().await.map_err(|errno| errno.to_string())?;
            }
            round_trip_us.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        Ok(json!({"payload_bytes": payload_bytes, "round_trip_us": round_trip_us}))
    }

    /// The root of the tree on which the job itself is asked.
    fn root(&self) -> NodeRank {
        self.node.forest.first().root()
    }

    fn epoch(&self) -> Epoch {
        self.read.core.lock().epoch()
    }

    async fn ask_from<T: Answer>(&self, top: NodeRank, request: JobMessage, left: Duration) -> Gathered<T> {
        ask_from(Arc::clone(&self.node), self.epoch(), top, request, left).await
    }

    async fn ask_children<T: Answer>(&self, request: &JobMessage, left: Duration) -> Gathered<T> {
        ask_children(&self.node, self.epoch(), self.node.rank(), request, left).await
    }

    async fn status_below(&self, left: Duration) -> Vec<NodeStatus> {
        let below = self.ask_children(&JobMessage::Status, left).await;
        let mut nodes = vec![self.status_with_summed()];
        nodes.extend(self.with_unreachable(below));
        let summed = NodeStatus::take_summed(&mut nodes);
        nodes[0].set_summed(summed);
        if let Some(write) = &self.write {
            nodes.iter_mut().for_each(|node| node.name_burst_files(write));
        }
        nodes
    }

    /// This node's part of it, with what is summed over nodes.
    pub fn status_with_summed(&self) -> NodeStatus {
        let mut status = NodeStatus::of(&self.node, &self.read, self.write.as_deref());
        let history = self.sampler.sample(&self.read, self.write.as_deref());
        status.set_summed(Some(Summed::of(history, &self.read)));
        status
    }

    fn with_unreachable(&self, gathered: Gathered<NodeStatus>) -> Vec<NodeStatus> {
        let Gathered { mut answers, unreachable } = gathered;
        let silent = unreachable.iter().map(|(rank, why)| NodeStatus::Unreachable(self.unreachable(*rank, why)));
        answers.extend(silent);
        answers
    }

    async fn shutdown_below(&self, left: Duration) -> Vec<Ended> {
        self.read.prefill.look_before_end().await;
        let below = self.ask_children(&JobMessage::Shutdown, left);
        let (below, ()) = tokio::join!(below, self.leave());
        let mut ended = without_unreachable(below);
        // Where this node leads the burst tree, nodes below it change nothing there any more.
        ended.push(self.ended());
        ended
    }

    /// Programs of this node change nothing any more.
    async fn leave(&self) {
        if let Some(write) = &self.write {
            write.leave().await;
        }
    }

    fn ended(&self) -> Ended {
        Ended { rank: self.node.rank().0, left: self.write.as_ref().and_then(|write| write.left()) }
    }

    async fn explain(&self, path: ViewPath, left: Duration) -> Vec<Step> {
        let explanation = self.read.core.lock().explain(&path);
        let answer = match () {
            () if explanation.is_absent => "absent",
            () if explanation.answers || explanation.source == Source::Backing => "here",
            () => "parent",
        };
        let rank = self.node.rank();
        let mut steps = vec![Step::There {
            rank: rank.0,
            host: self.node.host(rank).to_owned(),
            answer: answer.to_owned(),
            why: explanation.why,
            kept: explanation.kept,
        }];
        if !explanation.answers {
            steps.extend(self.explain_above(&explanation.failover_order, &path, left).await);
        }
        steps
    }

    /// The steps from the first of a failover order on that answers.
    async fn explain_above(&self, failover_order: &[NodeRank], path: &ViewPath, left: Duration) -> Vec<Step> {
        let deadline = Instant::now() + left;
        let mut steps = Vec::new();
        for peer in failover_order {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = JobMessage::Explain { path: path.clone() };
            match ask_if_there::<Step>(&self.node, self.epoch(), *peer, message, left).await {
                Ok(above) => {
                    steps.extend(above);
                    break;
                }
                Err(why) => steps.push(Step::Unreachable(self.unreachable(*peer, &why))),
            }
        }
        steps
    }

    /// The root makes the payload; every node on the way forwards it while it arrives.
    async fn probe_answer(&self, reply: Replier, payload_bytes: u32, left: Duration) {
        let Some(parent) = self.node.forest.first().parent(self.node.rank()) else {
            let body = Body::filling(payload_bytes as usize);
            let mut left_bytes = payload_bytes as usize;
            while left_bytes > 0 {
                let piece_bytes = left_bytes.min(PIECE_BYTES);
                body.push(self.node.pool.take(piece_bytes).freeze(piece_bytes));
                left_bytes -= piece_bytes;
            }
            return reply.answer(Outcome::Body, Some(body));
        };
        match call(&self.node, parent, JobMessage::Probe { payload_bytes }, left).await {
            Ok(answer) => reply.answer(answer.outcome, answer.body),
            Err(_) => reply.answer(Outcome::Failed(Errno::EHOSTUNREACH), None),
        }
    }

    fn unreachable(&self, rank: NodeRank, why: &str) -> UnreachableNode {
        let is_missing = self.starting.as_ref().is_some_and(|starting| starting.is_missing(rank));
        UnreachableNode {
            rank: rank.0,
            host: self.node.host(rank).to_owned(),
            state: if is_missing { "missing" } else { "unreachable" }.to_owned(),
            why: why.to_owned(),
        }
    }
}

fn without_unreachable(gathered: Gathered<Ended>) -> Vec<Ended> {
    for (rank, why) in gathered.unreachable {
        tracing::warn!(%rank, why, "a node did not end");
    }
    gathered.answers
}
