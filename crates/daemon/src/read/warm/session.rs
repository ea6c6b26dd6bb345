//! One warm-up: files are found, brought, and counted, a bounded number at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Epoch, Extent, NodeRank, ViewPath};
use forebay_wire::JobMessage;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::found::{Found, Walk};
use super::reader::Reader;
use super::spread::{Share, shares, spread};
use crate::read::own::Own;
use crate::shared::gather::{ask, is_there};
use crate::shared::node::Node;

/// Shares that are brought at once: several for each of a few homes.
const AT_ONCE: usize = 32;

/// Bytes that every node reads at once, of one file.
const READ_AT_ONCE_BYTES: u64 = 256 << 20;

/// How long a node may take for them: at 1 MB/s.
const READ_DEADLINE: Duration = Duration::from_secs(300);

/// Files that are named of those that could not be brought; the others are counted.
const NAMED_MAX: usize = 1_000;

/// Where data are brought to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Each chunk to its home.
    Spread,
    /// All to the kernel of each node.
    Each,
}

/// How far it is.
#[derive(Clone, Default, Serialize)]
pub struct Progress {
    /// Of all files that were found.
    bytes: u64,
    files: u64,
    /// Whether those are all.
    is_counted: bool,
    bytes_done: u64,
    files_done: u64,
    bytes_per_s: f64,
    /// Once all files were found.
    time_left_ms: Option<u64>,
    failed_count: u64,
    failed: Vec<Failed>,
    done: bool,
}

/// A file that could not be brought.
#[derive(Clone, Serialize)]
struct Failed {
    path: String,
    why: String,
}

/// The progress that is told of, from any thread.
pub struct Told {
    begun: Instant,
    progress: Mutex<Progress>,
}

impl Told {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), progress: Mutex::default() })
    }

    /// How far it is now.
    pub fn now(&self) -> Progress {
        let mut progress = self.lock().clone();
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        progress.bytes_per_s = progress.bytes_done as f64 / seconds;
        let left = progress.bytes.saturating_sub(progress.bytes_done) as f64 * 1e3 / progress.bytes_per_s;
        progress.time_left_ms = (progress.is_counted && left.is_finite()).then_some(left as u64);
        progress
    }

    fn failed(&self, file: &ViewPath, why: String) {
        let mut progress = self.lock();
        progress.failed_count += 1;
        if progress.failed.len() < NAMED_MAX {
            let path = format!("/{}", String::from_utf8_lossy(file.as_bytes()));
            progress.failed.push(Failed { path, why });
        }
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins a warm-up; it goes on as long as the future is polled.
pub fn begin(
    node: &Arc<Node>,
    own: &Arc<Own>,
    reader: &Arc<Reader>,
    paths: Vec<ViewPath>,
    mode: Mode,
) -> (Arc<Told>, impl Future<Output = ()> + Send + use<>) {
    let told = Told::new();
    let (count, bring) = (count(own, &told, paths.clone()), bring((node, own, reader), &told, paths, mode));
    let told_at_end = Arc::clone(&told);
    (told, async move {
        tokio::join!(count, bring);
        told_at_end.lock().done = true;
    })
}

/// Counts files, so that the time left is known.
fn count(own: &Arc<Own>, told: &Arc<Told>, paths: Vec<ViewPath>) -> impl Future<Output = ()> + Send + use<> {
    let (mut walk, told) = (Walk::new(own, paths), Arc::clone(told));
    async move {
        while let Some(found) = walk.next().await {
            if let Ok(found) = found {
                let mut progress = told.lock();
                progress.files += 1;
                progress.bytes += found.generation.size_bytes;
            }
        }
        told.lock().is_counted = true;
    }
}

fn bring(
    (node, own, reader): (&Arc<Node>, &Arc<Own>, &Arc<Reader>),
    told: &Arc<Told>,
    paths: Vec<ViewPath>,
    mode: Mode,
) -> impl Future<Output = ()> + Send + use<> {
    let (node, own, reader, told) = (Arc::clone(node), Arc::clone(own), Arc::clone(reader), Arc::clone(told));
    async move {
        let mut walk = Walk::new(&own, paths);
        let (workers, silent) = (Workers::start(&node, &own), Silent::default());
        while let Some(found) = walk.next().await {
            match (found, mode) {
                (Err((path, errno)), _) => told.failed(&path, errno.to_string()),
                (Ok(found), Mode::Spread) if is_direct(&node, &found) => {
                    told.failed(
                        &found.file,
                        "every node reads it itself (--direct-above), so no home keeps it".to_owned(),
                    );
                }
                (Ok(found), Mode::Spread) => {
                    let file = Arc::new(File::of(&found, &told));
                    for share in shares(&found) {
                        workers.bring(share, Arc::clone(&file)).await;
                    }
                }
                (Ok(found), Mode::Each) => {
                    let file = File::of(&found, &told);
                    let size_bytes = found.generation.size_bytes;
                    for offset_bytes in (0..size_bytes).step_by(READ_AT_ONCE_BYTES as usize) {
                        let len_bytes = READ_AT_ONCE_BYTES.min(size_bytes - offset_bytes);
                        let extent = Extent { offset_bytes, len_bytes };
                        read_everywhere(&node, (&reader, own.epoch()), &silent, &file, extent).await;
                    }
                }
            }
        }
        workers.end().await;
    }
}

/// Tasks that bring shares, as long as a warm-up takes. With a task for each share, the memory that one leaves is cut up by chunks that stay, so the
/// next takes new memory: for 100,000 small files, 1.6 KB each.
struct Workers {
    queue: mpsc::Sender<(Share, Arc<File>)>,
    tasks: JoinSet<()>,
}

impl Workers {
    fn start(node: &Arc<Node>, own: &Arc<Own>) -> Self {
        let (queue, shares) = mpsc::channel(1);
        let shares = Arc::new(tokio::sync::Mutex::new(shares));
        let mut tasks = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (node, own, shares) = (Arc::clone(node), Arc::clone(own), Arc::clone(&shares));
            tasks.spawn(async move {
                // The lock is free again before the share is brought.
                let next = async || shares.lock().await.recv().await;
                while let Some((share, file)) = next().await {
                    bring_share(Arc::clone(&node), Arc::clone(&own), share, file).await;
                }
            });
        }
        Self { queue, tasks }
    }

    /// Waits until one takes it.
    async fn bring(&self, share: Share, file: Arc<File>) {
        if let Err(mpsc::error::SendError((share, file))) = self.queue.send((share, file)).await {
            file.done(share.bytes(), Err("the daemon ends".to_owned()));
        }
    }

    /// Waits until all is brought.
    async fn end(self) {
        let Self { queue, mut tasks } = self;
        drop(queue);
        while tasks.join_next().await.is_some() {}
    }
}

/// Whether every node reads a file from the backing file system itself.
fn is_direct(node: &Node, found: &Found) -> bool {
    node.options.direct_above_bytes.is_some_and(|limit| found.generation.size_bytes > limit)
}

/// A file that is being brought: done with its last part.
struct File {
    found: Found,
    told: Arc<Told>,
    why: Mutex<Option<String>>,
}

impl File {
    fn of(found: &Found, told: &Arc<Told>) -> Self {
        Self { found: found.clone(), told: Arc::clone(told), why: Mutex::default() }
    }

    fn done(&self, bytes: u64, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.told.lock().bytes_done += bytes,
            Err(why) => {
                self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        match self.why.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            Some(why) => self.told.failed(&self.found.file, why),
            None => self.told.lock().files_done += 1,
        }
    }
}

async fn bring_share(node: Arc<Node>, own: Arc<Own>, share: Share, file: Arc<File>) {
    let outcome = spread(&node, &own, &share).await;
    file.done(share.bytes(), outcome);
}

/// The nodes that gave no answer in this warm-up, with the reason: they are not asked again.
type Silent = Arc<Mutex<BTreeMap<NodeRank, String>>>;

/// Has every node's kernel read a part of a file, all at the same time: each chunk comes from the backing file system once.
/// A node that does not say that it is there costs a second, once.
async fn read_everywhere(
    node: &Arc<Node>,
    (reader, epoch): (&Arc<Reader>, Epoch),
    silent: &Silent,
    file: &File,
    extent: Extent,
) {
    let mut under_way = JoinSet::new();
    for rank in (0..node.options.nodes.len() as u32).map(NodeRank) {
        let (node, reader, path) = (Arc::clone(node), Arc::clone(reader), file.found.file.clone());
        let silent = Arc::clone(silent);
        under_way.spawn(async move {
            let outcome = if rank == node.rank() {
                reader.read(&node, path, extent).await.map_err(|errno| errno.to_string())
            } else {
                read_at(&node, epoch, rank, &silent, JobMessage::ReadFile { file: path, extent }).await
            };
            outcome.map_err(|why| format!("node {rank}: {why}"))
        });
    }
    let mut outcome = Ok(());
    while let Some(joined) = under_way.join_next().await {
        outcome = outcome.and(joined.unwrap_or_else(|_| Err("the daemon ends".to_owned())));
    }
    file.done(extent.len_bytes, outcome);
}

/// Has another node's kernel read, unless it has been silent in this warm-up.
async fn read_at(
    node: &Node,
    epoch: Epoch,
    rank: NodeRank,
    silent: &Silent,
    message: JobMessage,
) -> Result<(), String> {
    let known = || silent.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = known().get(&rank) {
        return Err(why.clone());
    }
    if let Err(why) = is_there(node, epoch, rank, READ_DEADLINE).await {
        known().insert(rank, why.clone());
        return Err(why);
    }
    ask::<()>(node, rank, message, READ_DEADLINE).await.map(drop)
}
