//! Queries over the job: which nodes hold a file, and parts of it made by them, for the command on this host.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use forebay_offload::{AskedColumn, AskedDraft, AskedPart, FilesHolders, HeldFile, Holds, NodeFiles};
use forebay_query::limits::BLOCK_BYTES;
use forebay_types::{Epoch, NodeRank, ViewPath};
use forebay_wire::{JobMessage, QueryColumn, QueryDraft, QueryMessage, QueryPart, QueryWants};

use crate::query::{QueryParts, Statements};
use crate::read::ReadParts;
use crate::shared::gather::{Gathered, ask_children, ask_from, call};
use crate::shared::node::Node;
use crate::write::{Home, WriteParts};

/// Runs of blocks that `homes` is told in at most; the nodes of a file that is more scattered are not told apart.
const HOME_RUNS_MAX: usize = 1 << 16;

/// Nodes that are named beside those that hold a file: a query has no more requests under way (`forebay_offload`).
const READERS_MAX: usize = 64;

/// The job's nodes as a query sees them from this one.
pub struct JobQueries {
    node: Arc<Node>,
    read: Arc<ReadParts>,
    write: Option<Arc<WriteParts>>,
    /// The parts that this node makes itself.
    pub(crate) parts: Arc<QueryParts>,
    /// This node's part in statements of SQL.
    pub(crate) statements: Arc<Statements>,
}

impl JobQueries {
    pub fn new(node: &Arc<Node>, read: &Arc<ReadParts>, write: Option<&Arc<WriteParts>>) -> Self {
        let parts = QueryParts::new(node, read, write);
        let statements = Statements::new(node);
        Self { node: Arc::clone(node), read: Arc::clone(read), write: write.cloned(), parts, statements }
    }

    /// A file by the path by which all nodes know it.
    pub fn known_path(&self, path: ViewPath) -> ViewPath {
        self.write.as_ref().and_then(|write| write.path_of(&path)).unwrap_or(path)
    }

    /// The nodes of the job that hold each of some files.
    pub async fn holders(&self, files: Vec<ViewPath>, wants: QueryWants, left: Duration) -> FilesHolders {
        let mut found = FilesHolders::of(files.len(), self.all_holders(files.clone(), wants, left).await);
        for (file, held) in files.into_iter().zip(&mut found.files) {
            self.in_logs(file, held).await;
        }
        found
    }

    /// Of a file of the burst tier, the nodes whose logs have most of a block, and which version that is.
    async fn in_logs(&self, file: ViewPath, held: &mut HeldFile) {
        let Some(write) = self.write.clone().filter(|write| write.holds_path(&file)) else { return };
        let homes = self.node.on_pool(async move { write.homes(&file, BLOCK_BYTES).await }).await;
        let Some(Ok((version, homes))) = homes else {
            return held.holders.retain(|(_, holds, _)| *holds != Holds::Burst);
        };
        held.holders.retain(|(rank, holds, _)| *holds != Holds::Burst || homes.contains(&Some(*rank)));
        held.holders.iter_mut().filter(|(_, holds, _)| *holds == Holds::Burst).for_each(|(.., other)| *other = version);
        held.homes = runs(&homes);
    }

    /// Nodes that can read some of the files, in any order.
    async fn all_holders(&self, files: Vec<ViewPath>, wants: QueryWants, left: Duration) -> Vec<NodeFiles> {
        let (root, own) = (self.node.forest.first().root(), self.node.rank());
        let mut holders = match root == own {
            true => self.holders_below(files.clone(), wants, left).await,
            false => {
                let message = JobMessage::Holders { files: files.clone(), wants };
                ask_from(Arc::clone(&self.node), self.epoch(), root, message, left).await.answers
            }
        };
        // It may not have been asked, having lost who would ask it.
        if !holders.iter().any(|holder: &NodeFiles| holder.node.rank == own.0) {
            holders.extend(self.parts.files(files, wants).await);
        }
        holders
    }

    fn epoch(&self) -> Epoch {
        self.read.core.lock().epoch()
    }

    /// Those of this node and the nodes below it.
    pub async fn holders_below(&self, files: Vec<ViewPath>, wants: QueryWants, left: Duration) -> Vec<NodeFiles> {
        let message = JobMessage::Holders { files: files.clone(), wants };
        let (own, below): (_, Gathered<NodeFiles>) = tokio::join!(
            self.parts.files(files, wants),
            ask_children(&self.node, self.epoch(), self.node.rank(), &message, left)
        );
        enough(own.into_iter().chain(below.answers).collect())
    }

    /// A part, made by the node that is asked.
    pub async fn part(&self, asked: AskedPart, file: ViewPath) -> Result<Bytes, String> {
        let AskedPart { rank, generation, counts_bytes, table, first, blocks, begins_quoted, timeout_ms, path: _ } =
            asked;
        let timeout = Duration::from_millis(timeout_ms);
        let part = QueryPart { file, generation, counts_bytes, table, first, blocks, begins_quoted };
        self.answer(NodeRank(rank), QueryMessage::Part(part), timeout).await
    }

    /// Some blocks of a column, made by the node that is asked.
    pub async fn column(&self, asked: AskedColumn, file: ViewPath, output: Option<ViewPath>) -> Result<Bytes, String> {
        let AskedColumn { rank, generation, table, first, blocks, begins_quoted, mean_bits, deviation_bits, .. } =
            asked;
        let draft = asked.draft.zip(output).map(|(draft, output)| {
            let AskedDraft { number, head, output: _ } = draft;
            QueryDraft { output, number, head: head.into_bytes() }
        });
        let column =
            QueryColumn { file, generation, table, first, blocks, begins_quoted, mean_bits, deviation_bits, draft };
        self.answer(NodeRank(rank), QueryMessage::Column(column), Duration::from_millis(asked.timeout_ms)).await
    }

    /// Has a node end a draft.
    pub async fn end_draft(&self, rank: u32, number: u64, publishes: bool, timeout: Duration) -> Result<Bytes, String> {
        self.answer(NodeRank(rank), QueryMessage::EndDraft { number, publishes }, timeout).await
    }

    /// The answer of a node, which may be this one.
    async fn answer(&self, from: NodeRank, message: QueryMessage, timeout: Duration) -> Result<Bytes, String> {
        if from.0 as usize >= self.node.options.nodes.len() {
            return Err(format!("the job has no node {from}"));
        }
        // A message to another node is checked where that decodes it.
        if !message.is_within_limits() {
            return Err("the request is beyond the limits of a query, such as 1,024 columns of a Gramian".to_owned());
        }
        if from == self.node.rank() {
            // A caller that waits no longer drops this, which gives it up.
            let is_given_up = Arc::new(AtomicBool::new(false));
            return self.parts.answer(message, timeout, is_given_up).await.map_err(|errno| errno.to_string());
        }
        self.ask(from, message, timeout).await
    }

    /// The whole body of another node's answer.
    async fn ask(&self, to: NodeRank, message: QueryMessage, timeout: Duration) -> Result<Bytes, String> {
        let reply = call(&self.node, to, message, timeout).await?;
        let body = reply.body.ok_or("the answer has no body")?;
        let whole = tokio::time::timeout(timeout, body.whole_bytes()).await;
        whole.map_err(|_| "the answer did not arrive in time")?.map_err(|errno| errno.to_string())?;
        body.contiguous().ok_or_else(|| "the answer is incomplete".to_owned())
    }
}

/// All nodes that hold a file, and of those that can only read one as many as a query asks at once.
fn enough(mut nodes: Vec<NodeFiles>) -> Vec<NodeFiles> {
    nodes.sort_by_key(|files| files.node.rank);
    let mut readers = 0;
    nodes.retain(|files| {
        readers += usize::from(files.held.is_empty());
        !files.held.is_empty() || readers <= READERS_MAX
    });
    nodes
}

/// The first of each run of equal homes, while they are not too many.
fn runs(homes: &[Home]) -> Vec<(u64, Home)> {
    let mut runs: Vec<(u64, Home)> = vec![];
    for (block, home) in homes.iter().enumerate() {
        if runs.len() < HOME_RUNS_MAX && runs.last().is_none_or(|(_, last)| last != home) {
            runs.push((block as u64, *home));
        }
    }
    runs
}
