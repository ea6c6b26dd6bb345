//! This node: what it was told, its place in the forest, what it stands on, its clock, its memory for bodies, its connections.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use forebay_body::Pool;
use forebay_keeper::Death;
use forebay_overlay::Forest;
use forebay_transport::Endpoint;
use forebay_transport::life::Life;
use forebay_types::{NodeRank, Time};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::environment::Environment;
use crate::options::DaemonOptions;
use crate::shared::pool_task;

/// Free pieces of 128 KiB that the pool keeps: enough for a stream of read-ahead to run without fresh memory.
const POOL_PIECES: usize = 32;

/// Blocking work under way. Dropping this does not stop it.
pub struct Blocking<T>(oneshot::Receiver<T>);

impl<T> Future for Blocking<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context).map(Result::ok)
    }
}

/// A task that enters the runtime each time that it goes on: times are the runtime's.
struct InContext {
    runtime: Handle,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Future for InContext {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let _entered = self.runtime.clone().enter();
        self.task.as_mut().poll(context)
    }
}

/// Where a node's metrics are, in `status --json`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricsPlaces {
    /// The Unix socket.
    pub socket: String,
    /// The TCP address; `null` without `--metrics-listen`.
    pub address: Option<SocketAddr>,
    /// The file with the token that the address asks for.
    pub token_file: Option<String>,
}

/// The reason why a call that may last has no result.
pub const NO_THREAD: &str = "the daemon ends, or its node gives it no further thread (limit of processes, ulimit -u)";

/// The parts that every part of a daemon may need.
pub struct Node {
    pub options: DaemonOptions,
    pub forest: Forest,
    pub environment: Arc<dyn Environment>,
    pub pool: Pool,
    runtime: Handle,
    life: Option<Life>,
    started: Instant,
    endpoint: OnceLock<Endpoint>,
    /// Where its metrics are, once they are served.
    pub metrics_places: OnceLock<MetricsPlaces>,
    /// How its view was made, once that is handed over.
    pub view_made_by: OnceLock<String>,
    job_is_up: AtomicBool,
    came_up: Notify,
    /// The last death before this daemon, once it serves.
    last_death: OnceLock<Death>,
    end: Notify,
    hand_over: Notify,
}

impl Node {
    /// The node that `options` describe. Its clock begins now, its tasks run in the runtime it is made in.
    pub fn new(options: DaemonOptions, forest: Forest, environment: Arc<dyn Environment>) -> Arc<Self> {
        // A job that is up, or that was not started by a job spec, has no start to wait for.
        let job_is_up = options.kept.job_is_up || options.report.is_none();
        Arc::new(Self {
            options,
            forest,
            life: environment.life(),
            environment,
            runtime: Handle::current(),
            pool: Pool::new(POOL_PIECES),
            started: Instant::now(),
            endpoint: OnceLock::new(),
            metrics_places: OnceLock::new(),
            view_made_by: OnceLock::new(),
            job_is_up: AtomicBool::new(job_is_up),
            came_up: Notify::new(),
            last_death: OnceLock::new(),
            end: Notify::new(),
            hand_over: Notify::new(),
        })
    }

    pub fn rank(&self) -> NodeRank {
        self.options.rank
    }

    /// The host of a node, as the job lists it.
    pub fn host(&self, rank: NodeRank) -> &str {
        &self.options.nodes[rank.0 as usize].host
    }

    /// Starts a task.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        match &self.life {
            None => self.runtime.spawn(task),
            Some(life) => {
                let task = life.gate(task);
                // Tasks that would wait for it ended with its node.
                self.runtime.spawn(async {
                    match task.await {
                        Some(outcome) => outcome,
                        None => std::future::pending().await,
                    }
                })
            }
        }
    }

    /// Has something done that may block, beside everything else. It returns the result, unless the daemon ends.
    pub fn block<T: Send + 'static>(&self, operation: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
        let (sender, done) = oneshot::channel();
        // The receiver may be gone.
        self.environment.block(Box::new(move || drop(sender.send(operation()))));
        Blocking(done)
    }

    /// The same for what may last, as a read of a file system that hangs. It has no result either where there is no thread for it (`NO_THREAD`).
    pub fn block_long<T: Send + 'static>(&self, operation: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
        let (sender, done) = oneshot::channel();
        self.environment.block_long(Box::new(move || drop(sender.send(operation()))));
        Blocking(done)
    }

    /// Waits, on a thread that may, for what the network brings.
    pub fn wait_for<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The outcome of a task that may wait for the node's own disk (`pool_task`); `None` when the daemon ends.
    pub async fn on_pool<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        pool_task::on_pool(|operation| self.environment.block(operation), task).await
    }

    /// A task that somebody else than the runtime goes on with, and that waits for the network and for times.
    pub fn in_context(
        &self,
        task: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(InContext { runtime: self.runtime.clone(), task })
    }

    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Programs are served from now on.
    pub fn note_serving(&self) {
        if let Some(death) = self.options.kept.last_death {
            self.last_death.get_or_init(|| death.served_now());
        }
    }

    /// The last death of a daemon of this node.
    pub fn last_death(&self) -> Option<Death> {
        self.last_death.get().copied().or(self.options.kept.last_death)
    }

    /// The cores' time now.
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time left until `deadline`.
    pub fn remaining(&self, deadline: Time) -> Duration {
        deadline.since(self.now())
    }

    pub fn set_endpoint(&self, endpoint: Endpoint) {
        let _ = self.endpoint.set(endpoint);
    }

    /// The overlay's endpoint; `None` only while the daemon starts.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    pub fn is_job_up(&self) -> bool {
        self.job_is_up.load(Ordering::Relaxed)
    }

    pub fn set_job_up(&self) {
        self.job_is_up.store(true, Ordering::Relaxed);
        self.came_up.notify_waiters();
    }

    /// Until the job is up.
    pub async fn until_job_up(&self) {
        let came_up = self.came_up.notified();
        if !self.is_job_up() {
            came_up.await;
        }
    }

    /// Makes the daemon end.
    pub fn tell_to_end(&self) {
        self.end.notify_one();
    }

    /// Makes the daemon end, so that another goes on.
    pub fn tell_to_hand_over(&self) {
        self.hand_over.notify_one();
    }

    pub async fn until_told_to_hand_over(&self) {
        self.hand_over.notified().await;
    }

    pub async fn until_told_to_end(&self) {
        self.end.notified().await;
    }
}
