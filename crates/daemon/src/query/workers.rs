//! Workers of SQL: processes of `forebay-sql`, one for each statement that this node has a part in.
//!
//! A worker starts with the statement's stream from the host, and ends with it, however that ends. Other streams to it come from the
//! workers of other nodes. The daemon writes the number of each stream to the worker's standard input, and the worker connects to the control
//! socket for it. A worker ends when its standard input does, so that none outlives its daemon.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_body::LiveBytes;
use forebay_offload::sql_program;
use forebay_types::Errno;
use forebay_wire::QueryStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Notify, oneshot};

/// Workers of a node: each takes all its processors, and a part of its budget.
const WORKERS_MAX: usize = 4;

/// The part of the budget that a worker has.
const BUDGET_SHARE: u64 = 8;

/// Less than this makes it spill for anything.
const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// No worker takes more, whatever the budget is: the node has programs to run.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// How long a worker may take to join a stream, its start included.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);

/// The part of a failed worker's error output that is kept, bytes.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// The options of a worker's command line.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The control socket.
    pub socket: PathBuf,
    /// Where it spills, if not in its temporary directory.
    pub spill: Option<PathBuf>,
    /// The daemon's budget, bytes.
    pub budget_bytes: u64,
}

/// The workers of this node, by their statements.
pub struct Workers {
    options: WorkerOptions,
    running: Mutex<HashMap<u64, Arc<Worker>>>,
}

struct Worker {
    input: tokio::sync::Mutex<ChildStdin>,
    /// Streams that it has not joined yet.
    expected: Mutex<HashMap<u64, oneshot::Sender<UnixStream>>>,
    end: Notify,
}

/// A worker's life: it ends when this is dropped.
pub struct Statement {
    workers: Arc<Workers>,
    number: u64,
    worker: Arc<Worker>,
}

impl Drop for Statement {
    fn drop(&mut self) {
        self.workers.remove(self.number, &self.worker);
        self.worker.end.notify_one();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    /// None yet.
    pub fn new(options: WorkerOptions) -> Arc<Self> {
        Arc::new(Self { options, running: Mutex::default() })
    }

    fn list(&self) -> MutexGuard<'_, HashMap<u64, Arc<Worker>>> {
        locked(&self.running)
    }

    /// Forgets a worker, but none that has its number since.
    fn remove(&self, number: u64, worker: &Arc<Worker>) {
        let mut list = self.list();
        if list.get(&number).is_some_and(|listed| Arc::ptr_eq(listed, worker)) {
            list.remove(&number);
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list().len()
    }

    /// The worker's end of a new stream to it, and its life if the stream starts it.
    ///
    /// # Errors
    /// As `QueryMessage::OpenStream` has them; `EIO` where the worker ends early, `ETIMEDOUT` where it does not join.
    pub async fn connect(self: &Arc<Self>, asked: QueryStream) -> Result<(UnixStream, Option<Statement>), Errno> {
        let QueryStream { statement, stream, starts } = asked;
        let life = if starts { Some(self.start(statement)?) } else { None };
        let worker = self.list().get(&statement).cloned().ok_or(Errno::ENOENT)?;
        let (joins, joined) = oneshot::channel();
        locked(&worker.expected).insert(stream, joins);
        let line = format!("{stream}\n");
        let told = async { worker.input.lock().await.write_all(line.as_bytes()).await };
        let joined = async {
            told.await.map_err(|_| Errno::EIO)?;
            joined.await.map_err(|_| Errno::EIO)
        };
        let joined = tokio::time::timeout(JOIN_DEADLINE, joined).await.unwrap_or(Err(Errno::ETIMEDOUT));
        locked(&worker.expected).remove(&stream);
        joined.map(|joined| (joined, life))
    }

    /// Takes the connection by which a worker joins a stream.
    pub fn join(&self, statement: u64, stream: u64, connection: UnixStream) {
        let worker = self.list().get(&statement).cloned();
        if let Some(joins) = worker.and_then(|worker| locked(&worker.expected).remove(&stream)) {
            // The receiver may have given up.
            drop(joins.send(connection));
        }
    }

    /// Whether a worker is expected to join a stream.
    pub fn expects(&self, statement: u64, stream: u64) -> bool {
        self.list().get(&statement).is_some_and(|worker| locked(&worker.expected).contains_key(&stream))
    }

    fn start(self: &Arc<Self>, number: u64) -> Result<Statement, Errno> {
        let program = sql_program().ok_or(Errno::ENOSYS)?;
        let memory_bytes = (self.options.budget_bytes / BUDGET_SHARE).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX);
        let mut list = self.list();
        if list.len() >= WORKERS_MAX || list.contains_key(&number) {
            return Err(Errno::EBUSY);
        }
        let mut child = spawn(&program, &self.options, number, memory_bytes)?;
        let input = tokio::sync::Mutex::new(child.stdin.take().ok_or(Errno::EIO)?);
        let worker = Arc::new(Worker { input, expected: Mutex::default(), end: Notify::new() });
        list.insert(number, Arc::clone(&worker));
        drop(list);
        // The caches make room for it.
        let memory = LiveBytes::new(memory_bytes as usize);
        let life = Statement { workers: Arc::clone(self), number, worker: Arc::clone(&worker) };
        let workers = Arc::clone(self);
        tokio::spawn(async move {
            watch(child, &worker).await;
            workers.remove(number, &worker);
            // Those that expect it to join need not wait.
            locked(&worker.expected).clear();
            drop(memory);
        });
        Ok(life)
    }
}

/// Waits for a worker's end, or brings it about.
async fn watch(mut child: Child, worker: &Worker) {
    let complaint = child.stderr.take();
    let mut said = vec![];
    let ended = async {
        if let Some(complaint) = complaint {
            let mut complaint = complaint.take(COMPLAINT_BYTES_MAX);
            let _ = complaint.read_to_end(&mut said).await;
            let _ = tokio::io::copy(&mut complaint.into_inner(), &mut tokio::io::sink()).await;
        }
        child.wait().await
    };
    let status = tokio::select! {
        status = ended => Some(status),
        () = worker.end.notified() => None,
    };
    match status {
        Some(status) => {
            let complaint = String::from_utf8_lossy(&said);
            tracing::warn!("a worker of SQL ended early ({status:?}): {}", complaint.trim());
        }
        None => {
            let _ = child.kill().await;
        }
    }
}

fn spawn(program: &Path, options: &WorkerOptions, statement: u64, memory_bytes: u64) -> Result<Child, Errno> {
    let mut command = Command::new(program);
    command.arg("worker").arg("--daemon").arg(&options.socket);
    command.args(["--statement", &statement.to_string(), "--memory-bytes", &memory_bytes.to_string()]);
    if let Some(spill) = &options.spill {
        command.arg("--spill").arg(spill);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().map_err(|error| {
        tracing::warn!(program = %program.display(), %error, "a worker of SQL");
        Errno::ENOSYS
    })
}
