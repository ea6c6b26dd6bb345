//! Queries over the job: which nodes hold a file, and parts of it made by them, for the command on this host.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use forebay_types::{Epoch, Generation, NodeRank, ViewPath};
use forebay_wire::query::{QUERY_FILES_MAX, QUERY_PLAN_BYTES_MAX};
use forebay_wire::{JobMessage, QueryFragment, QueryMessage, QueryPart, QueryTable, QueryWants};
use serde::{Deserialize, Serialize};

use crate::query::{Holder, QueryParts, bytes_of};
use crate::read::ReadParts;
use crate::shared::gather::{Gathered, ask_children, ask_from, call};
use crate::shared::node::Node;

/// A part as the command asks for it.
#[derive(Serialize, Deserialize, Debug)]
pub struct AskedPart {
    /// Of which node.
    pub rank: u32,
    /// The file, by its absolute path.
    pub path: String,
    /// The version, as that node has it.
    pub generation: Generation,
    /// How often each byte occurs is wanted.
    pub counts_bytes: bool,
    /// Rows are wanted.
    pub table: Option<QueryTable>,
    /// The first block.
    pub first: u64,
    /// Blocks.
    pub blocks: u32,
    /// Whether the part begins within quotes, if that is known.
    pub begins_quoted: Option<bool>,
    /// How long it may take.
    pub timeout_ms: u64,
}

/// A fragment of SQL as `forebay-sql` asks for it.
#[derive(Serialize, Deserialize, Debug)]
pub struct AskedFragment {
    /// Of which node.
    pub rank: u32,
    /// The files, by their absolute paths, in the versions that the node has.
    pub files: Vec<(String, Generation)>,
    /// The plan, in hexadecimal.
    pub plan: String,
    /// How long it may take.
    pub timeout_ms: u64,
}

/// The job's nodes as a query sees them from this one.
pub struct JobQueries {
    node: Arc<Node>,
    read: Arc<ReadParts>,
    /// What this node makes itself.
    pub(crate) parts: Arc<QueryParts>,
}

impl JobQueries {
    pub fn new(node: &Arc<Node>, read: &Arc<ReadParts>) -> Self {
        let parts = QueryParts::new(node, read);
        Self { node: Arc::clone(node), read: Arc::clone(read), parts }
    }

    /// The nodes of the job that hold a file, by rank.
    pub async fn holders(&self, file: ViewPath, wants: QueryWants, left: Duration) -> Vec<Holder> {
        let (root, own) = (self.node.forest.first().root(), self.node.rank());
        let mut holders = match root == own {
            true => self.holders_below(file.clone(), wants, left).await,
            false => {
                let message = JobMessage::Holders { file: file.clone(), wants };
                ask_from(Arc::clone(&self.node), self.epoch(), root, message, left).await.answers
            }
        };
        // It may not have been asked, having lost who would ask it.
        if !holders.iter().any(|holder: &Holder| holder.rank == own.0) {
            holders.extend(self.parts.holder(file, wants).await);
        }
        holders.sort_by_key(|holder| holder.rank);
        holders
    }

    fn epoch(&self) -> Epoch {
        self.read.core.lock().epoch()
    }

    /// Those of this node and the nodes below it.
    pub async fn holders_below(&self, file: ViewPath, wants: QueryWants, left: Duration) -> Vec<Holder> {
        let message = JobMessage::Holders { file: file.clone(), wants };
        let (own, below): (_, Gathered<Holder>) = tokio::join!(
            self.parts.holder(file, wants),
            ask_children(&self.node, self.epoch(), self.node.rank(), &message, left)
        );
        let mut holders = below.answers;
        holders.extend(own);
        holders
    }

    /// A part, made by the node that is asked.
    pub async fn part(&self, asked: AskedPart, file: ViewPath) -> Result<Bytes, String> {
        let AskedPart { rank, generation, counts_bytes, table, first, blocks, begins_quoted, timeout_ms, path: _ } =
            asked;
        let timeout = Duration::from_millis(timeout_ms);
        if rank as usize >= self.node.options.nodes.len() {
            return Err(format!("the job has no node {rank}"));
        }
        let part = QueryPart { file, generation, counts_bytes, table, first, blocks, begins_quoted };
        if NodeRank(rank) == self.node.rank() {
            let is_given_up = Arc::new(AtomicBool::new(false));
            return self.parts.part(part, timeout, is_given_up).await.map_err(|errno| errno.to_string());
        }
        self.ask(NodeRank(rank), QueryMessage::Part(part), timeout).await
    }

    /// A fragment, carried out by the node that is asked.
    pub async fn fragment(&self, asked: AskedFragment, files: Vec<ViewPath>) -> Result<Bytes, String> {
        let AskedFragment { rank, files: asked_files, plan, timeout_ms } = asked;
        let timeout = Duration::from_millis(timeout_ms);
        if rank as usize >= self.node.options.nodes.len() {
            return Err(format!("the job has no node {rank}"));
        }
        let plan = bytes_of(&plan).ok_or("the plan is not encoded as bytes")?;
        if files.is_empty() || files.len() > QUERY_FILES_MAX || plan.len() > QUERY_PLAN_BYTES_MAX {
            return Err(format!(
                "a fragment has 1 to {QUERY_FILES_MAX} files and {QUERY_PLAN_BYTES_MAX} bytes at most"
            ));
        }
        let files = files.into_iter().zip(asked_files).map(|(file, (_, generation))| (file, generation)).collect();
        let fragment = QueryFragment { files, plan };
        if NodeRank(rank) == self.node.rank() {
            return self.parts.fragment(fragment, timeout).await.map_err(|errno| errno.to_string());
        }
        self.ask(NodeRank(rank), QueryMessage::Fragment(fragment), timeout).await
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
