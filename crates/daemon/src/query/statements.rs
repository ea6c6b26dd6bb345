//! This node's part in statements of SQL: its workers, and the streams to and from them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_launch::JobDirectory;
use forebay_offload::AskedStream;
use forebay_transport::Replier;
use forebay_types::{Errno, NodeRank};
use forebay_wire::{Outcome, QueryMessage, QueryStream};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::net::UnixStream;

use super::streams::{Open, Streams, carry, carry_here};
use super::workers::{Statement, WorkerOptions, Workers};
use crate::shared::gather::call;
use crate::shared::node::Node;

/// How long another node may take to open a stream: longer than its worker may take to join.
const OPEN_DEADLINE: Duration = Duration::from_secs(15);

/// The statements that this node has a part in.
pub struct Statements {
    node: Arc<Node>,
    streams: Arc<Streams>,
    /// Its workers.
    pub workers: Arc<Workers>,
}

/// The other end of a stream that a process on this node has opened.
pub enum FarEnd {
    /// A worker on this node, with its life if the stream is the statement's.
    Here(Open, UnixStream, Option<Statement>),
    /// A worker on another.
    There(Open, NodeRank),
}

impl Statements {
    /// None yet.
    pub fn new(node: &Arc<Node>) -> Arc<Self> {
        let options = &node.options;
        let workers = Workers::new(WorkerOptions {
            socket: JobDirectory::socket_in(&options.job_directory, node.rank()),
            spill: options.burst.as_ref().map(|burst| burst.store.clone()),
            budget_bytes: options.budget_bytes,
        });
        Arc::new(Self { node: Arc::clone(node), streams: Arc::default(), workers })
    }

    /// Takes a request of another node.
    pub fn take(self: &Arc<Self>, from: NodeRank, message: QueryMessage, remaining: Duration, reply: Replier) {
        let this = Arc::clone(self);
        drop(self.node.spawn(async move {
            match message {
                QueryMessage::PullStream { stream, offset_bytes } => {
                    answer(reply, this.streams.pull(stream, offset_bytes, remaining).await);
                }
                QueryMessage::OpenStream(asked) => this.take_stream(from, asked, reply).await,
                _ => answer(reply, Err(Errno::EINVAL)),
            }
        }));
    }

    /// Opens a stream that another node asks for, and carries it.
    async fn take_stream(&self, from: NodeRank, asked: QueryStream, reply: Replier) {
        let opened = async {
            let open = self.streams.open(asked.stream)?;
            let (local, life) = self.workers.connect(asked).await?;
            Ok((open, local, life))
        };
        match opened.await {
            Ok((open, local, life)) => {
                let count = self.workers.count() as u64;
                answer(reply, Ok(Bytes::copy_from_slice(&count.to_le_bytes())));
                carry(&self.node, &open, from, local).await;
                drop(life);
            }
            Err(errno) => answer(reply, Err(errno)),
        }
    }

    /// Opens a stream for a process on this node; how many workers run on the other, too.
    ///
    /// # Errors
    /// There is no such node, it is lost, or its worker cannot be reached.
    pub async fn open(&self, asked: AskedStream) -> Result<(u64, FarEnd), String> {
        let AskedStream { rank, statement, starts } = asked;
        let peer = NodeRank(rank);
        if rank as usize >= self.node.options.nodes.len() {
            return Err(format!("the job has no node {peer}"));
        }
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|_| "there are no random numbers")?;
        let stream = u64::from_le_bytes(random);
        let asked = QueryStream { statement, stream, starts };
        let open = self.streams.open(stream).map_err(said_of_streams)?;
        if peer == self.node.rank() {
            let (local, life) = self.workers.connect(asked).await.map_err(said)?;
            return Ok((self.workers.count() as u64, FarEnd::Here(open, local, life)));
        }
        let reply = call(&self.node, peer, QueryMessage::OpenStream(asked), OPEN_DEADLINE).await?;
        let body = reply.body.ok_or("the answer has no body")?;
        body.whole_bytes().await.map_err(said)?;
        let count = body.contiguous().and_then(|bytes| bytes.as_ref().try_into().ok());
        let count = count.map(u64::from_le_bytes).ok_or("the answer cannot be decoded")?;
        Ok((count, FarEnd::There(open, peer)))
    }

    /// Carries a stream until either end closes it.
    pub async fn carry(&self, far: FarEnd, local: UnixStream) {
        match far {
            FarEnd::There(open, peer) => carry(&self.node, &open, peer, local).await,
            FarEnd::Here(open, worker, life) => {
                carry_here(local, worker).await;
                drop((open, life));
            }
        }
    }
}

fn answer(reply: Replier, with: Result<Bytes, Errno>) {
    match with {
        Ok(bytes) => reply.answer(Outcome::Body, Some(Body::whole(bytes))),
        Err(errno) => reply.answer(Outcome::Failed(errno), None),
    }
}

fn said_of_streams(errno: Errno) -> String {
    match errno {
        Errno::EBUSY => "it has as many streams of SQL as it may".to_owned(),
        errno => errno.to_string(),
    }
}

/// Why a worker on this node cannot be reached.
fn said(errno: Errno) -> String {
    match errno {
        Errno::ENOSYS => "it has no forebay-sql that starts".to_owned(),
        Errno::EBUSY => "it has as many workers of SQL as it may".to_owned(),
        errno => errno.to_string(),
    }
}
