//! Channels to workers: gRPC, as `datafusion-distributed` has it, over streams of the daemons. There is no port and no second key.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest, WorkerChannel, grpc};
use forebay_offload::{AskedStream, request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tonic::transport::Endpoint;
use url::Url;

/// Bytes of a channel, and of one of its streams, that may be under way: more than the daemons' buffers hold.
pub const WINDOW_BYTES: u32 = 4 << 20;

/// How often a channel is tried, and how long its worker may then be silent: one that is stopped answers nothing.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(12));

/// How long a worker may take to say that it is there, when a statement has failed.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes to and from a node.
#[derive(Default, Debug)]
pub struct Traffic {
    /// To it.
    pub sent_bytes: AtomicU64,
    /// From it.
    pub received_bytes: AtomicU64,
}

/// The channels of a process of a statement, each opened at its first use.
#[derive(Clone)]
pub struct Channels {
    socket: PathBuf,
    statement: u64,
    /// Whether opening one starts its worker.
    starts: bool,
    open: Arc<Mutex<HashMap<u32, Arc<OnceCell<Channel>>>>>,
}

/// A channel that is open.
#[derive(Clone)]
pub struct Channel {
    channel: grpc::BoxCloneSyncChannel,
    /// Workers of all statements on its node.
    pub workers: u64,
    /// The bytes that it carried.
    pub traffic: Arc<Traffic>,
}

/// The name by which plans know a node.
///
/// # Errors
/// None.
pub fn url_of(rank: u32) -> Result<Url> {
    Url::parse(&format!("http://node-{rank}")).map_err(|error| DataFusionError::External(error.into()))
}

fn rank_of(url: &Url) -> Result<u32> {
    let rank = url.host_str().and_then(|host| host.strip_prefix("node-")?.parse().ok());
    rank.ok_or_else(|| DataFusionError::Plan(format!("{url} names no node")))
}

impl Channels {
    /// Those of a process of this statement.
    pub fn new(socket: PathBuf, statement: u64, starts: bool) -> Self {
        Self { socket, statement, starts, open: Arc::default() }
    }

    /// The channel to a node's worker.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn channel(&self, rank: u32) -> anyhow::Result<Channel> {
        let cell = Arc::clone(self.open.lock().unwrap_or_else(PoisonError::into_inner).entry(rank).or_default());
        cell.get_or_try_init(|| self.connect(rank)).await.cloned()
    }

    async fn connect(&self, rank: u32) -> anyhow::Result<Channel> {
        let asked = AskedStream { rank, statement: self.statement, starts: self.starts };
        let opened = crate::daemon::stream(&self.socket, &request("querystream", &asked)?).await;
        let (stream, answer) = opened.with_context(|| format!("node {rank} has no worker"))?;
        let traffic = Arc::new(Traffic::default());
        let mut stream = Some(Counted { stream, traffic: Arc::clone(&traffic) });
        // A channel that has broken is not made anew: the worker is lost with it.
        let connector = tower::service_fn(move |_| {
            let stream = stream.take().map(TokioIo::new);
            async move { stream.ok_or_else(|| io::Error::other("the worker is lost")) }
        });
        let (every, silent) = KEEP_ALIVE;
        let endpoint = Endpoint::try_from(url_of(rank)?.to_string())?
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .http2_keep_alive_interval(every)
            .keep_alive_timeout(silent)
            .keep_alive_while_idle(true);
        let channel = grpc::BoxCloneSyncChannel::new(endpoint.connect_with_connector_lazy(connector));
        Ok(Channel { channel, workers: answer.as_u64().unwrap_or_default(), traffic })
    }
}

impl Channel {
    /// Whether the worker says that it is there.
    pub async fn is_alive(&self) -> bool {
        let mut client = grpc::create_worker_client(self.channel.clone());
        let asked = client.get_worker_info(GetWorkerInfoRequest {});
        tokio::time::timeout(ALIVE_TIMEOUT, asked).await.is_ok_and(|said| said.is_ok())
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = self.channel(rank_of(url)?).await;
        let channel = channel.map_err(|error| DataFusionError::Execution(format!("{error:#}")))?;
        Ok(grpc::create_worker_client(channel.channel))
    }
}

/// A stream whose bytes are counted.
struct Counted {
    stream: UnixStream,
    traffic: Arc<Traffic>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.traffic.received_bytes.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            self.traffic.sent_bytes.fetch_add(written as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
