//! Landing what the stores of a job hold, without the job.
//!
//! One process has the stores. The node of each is there as its daemon would have it, without programs, and they reach each other
//! within the process: what they wrote is committed and lands as at the end of the job. Bytes that only missing stores have are
//! left out and named; a store of which all has landed goes. A store of another run of the job, which the names of these files say
//! nothing about, is left out, too.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use anyhow::{Context, ensure};
use forebay_log::{Capacity, Owner as StoreOwner, boot_identity, whose};
use forebay_types::NodeRank;
use forebay_types::threads::BACKING_CONCURRENCY;
use forebay_wire::write_message::{Leadership, WriteMessage};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::calls::{BackingCalls, DrainLimits};
use super::drain::progress::Progress;
use super::kernel_leases::KernelLeases;
use super::parts::{Beginning, WriteParts};
use super::peers::{Called, Calls, Unanswered, Waiting};
use super::recovery::{OpenedStore, open_store};
use super::remote::{Nodes, Partners};
use crate::environment::{Environment, Operation};
use crate::machine::Machine;
use crate::options::{Copied, DrainPolicy};

/// How long what reads waits: nothing is written here.
const DEADLINE: Duration = Duration::from_secs(60);

/// The nodes of the stores of one job.
pub struct Salvage {
    /// The job that wrote them.
    pub job: String,
    /// Where they land.
    pub landing: PathBuf,
    /// The stores, by their nodes.
    pub stores: BTreeMap<NodeRank, PathBuf>,
    /// The node whose store has the names of the files.
    pub leader: NodeRank,
    /// Those of them that are of another run of the job, and stay as they are.
    pub of_other_runs: Vec<PathBuf>,
    nodes: BTreeMap<NodeRank, Arc<WriteParts>>,
    runtime: Arc<Runtime>,
}

/// Whether a directory holds a store; one that cannot be read may.
#[must_use]
pub fn holds_store(path: &Path) -> bool {
    path.exists() && whose(path).map_or(true, |owner| owner.is_some())
}

/// The job whose store a directory holds, if it holds one that can be read.
#[must_use]
pub fn job_of_store(path: &Path) -> Option<String> {
    Some(whose(path).ok()??.job)
}

/// A file with bytes that are not here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NotLanded {
    /// Where it would lie on the backing file system.
    pub path: PathBuf,
    /// The nodes that have what is missing.
    pub nodes: Vec<u32>,
    /// Offset and length, bytes.
    pub missing: Vec<(u64, u64)>,
}

/// The rest, which has not landed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SalvageEnd {
    /// Changes.
    pub steps: usize,
    /// Bytes.
    pub bytes: u64,
    /// Files that cannot land from these stores alone.
    pub missing: Vec<NotLanded>,
}

impl Salvage {
    /// Opens those of `paths` that are stores; `None` where none is. With `landing` they are to land there.
    ///
    /// # Errors
    /// If one of them, or the directory that they land in, cannot be used; if they do not belong together; if the nodes which knew
    /// the names of the files are not among them.
    pub fn open(paths: &[PathBuf], landing: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let mut found = vec![];
        for path in paths {
            found.extend(whose(path)?.map(|leader| (path, leader)));
        }
        let Some((first_path, first)) = found.first() else { return Ok(None) };
        for (path, leader) in &found {
            let (one, other) = (first_path.display(), path.display());
            ensure!(
                leader.job == first.job && leader.landing == first.landing,
                "the stores {one} and {other} are of different jobs ({}, {}): name the stores of one job only",
                first.job,
                leader.job
            );
        }
        let (job, nodes) = (first.job.clone(), found.iter().map(|(_, leader)| leader.nodes).max().unwrap_or(1));
        let landing = match landing {
            Some(landing) => std::fs::canonicalize(landing).with_context(|| landing.display().to_string())?,
            None => first.landing.clone(),
        };
        let stores: BTreeMap<_, _> = found.iter().map(|(path, leader)| (leader.node, (*path).clone())).collect();
        ensure!(stores.len() == found.len(), "two stores of one node of job {job}: name one run's");
        let runtime = Runtime::start().context("no threads")?;
        let environment = runtime.machine()?;
        let threads = environment.backing_threads(BACKING_CONCURRENCY);
        let boot = boot_identity().context("this boot has no identity")?;
        let open = |node: NodeRank, path: &Path| {
            let leader = StoreOwner { job: job.clone(), node, nodes, landing: landing.clone(), boot };
            let calls = BackingCalls::new(&threads, DrainLimits::default());
            open_store(path, &leader, Capacity::AsFound, (&environment, calls), (Copied::Nothing, DEADLINE))
        };
        let mut opened = BTreeMap::new();
        for (node, path) in &stores {
            opened.insert(*node, open(*node, path)?);
        }
        let of_other_runs = leave_out_other_runs(&mut opened, &stores);
        let leadership = who_leads(&job, &opened)?;
        let here: Here = Arc::default();
        let mut parts = BTreeMap::new();
        for (node, mut opened) in opened {
            if opened.tree.is_some() != (node == leadership.leader) {
                opened.local.note_leadership(leadership)?;
                let may_lack_end = opened.may_lack_end;
                drop(opened);
                opened = open(node, &stores[&node])?;
                opened.may_lack_end |= may_lack_end;
            }
            let (here, environment, runtime) = (Arc::clone(&here), Arc::clone(&environment), Arc::clone(&runtime));
            let calls = Together { own: node, nodes, here, environment, runtime };
            parts.insert(node, begin(opened, leadership, &landing, calls));
        }
        let _ = here.set(parts.iter().map(|(node, parts)| (*node, Arc::downgrade(parts))).collect());
        Ok(Some(Self { job, landing, stores, leader: leadership.leader, of_other_runs, nodes: parts, runtime }))
    }

    /// Whether the names come from the standby, since the store of its first leader is not here.
    #[must_use]
    pub fn lacks_first(&self) -> bool {
        !self.stores.contains_key(&Leadership::default().leader)
    }

    /// Starts: what was written is committed, and begins to land.
    ///
    /// # Errors
    /// When a store cannot be written to.
    pub fn start(&self) -> std::io::Result<()> {
        for parts in self.nodes.values() {
            self.runtime.wait_for(parts.join()).map_err(std::io::Error::other)?;
        }
        for parts in self.nodes.values() {
            let of_node = Arc::clone(parts);
            parts.spawn_on_pool(async move { of_node.land().await });
        }
        Ok(())
    }

    /// Bytes that have not landed.
    pub fn bytes_left(&self) -> u64 {
        let leader = self.nodes.get(&self.leader).and_then(|parts| parts.leader());
        leader.map_or(0, |leader| leader.tree().written().map(|extent| extent.len).sum())
    }

    /// Lets it land, and waits for that, so long at most.
    pub fn drain(&self, time: Duration) -> Progress {
        let leader = self.nodes.get(&self.leader);
        leader.map_or_else(Progress::default, |parts| self.runtime.wait_for(parts.drain(time)))
    }

    /// Files that cannot land from these stores alone.
    fn not_landed(&self) -> Vec<NotLanded> {
        let leader = self.nodes.get(&self.leader).and_then(|parts| parts.leader());
        let lost = leader.map_or_else(Vec::new, |leader| leader.tree().lost_files());
        let told = lost.into_iter().map(|file| NotLanded {
            path: self.landing.join(std::ffi::OsStr::from_bytes(&file.path)),
            nodes: file.nodes.iter().map(|node| node.0).collect(),
            missing: file.ranges,
        });
        told.collect()
    }

    /// Ends, and returns what is left. The stores of which all has landed are gone then.
    #[must_use]
    pub fn end(self) -> SalvageEnd {
        // The leader knows what the others are still needed for.
        let others = self.nodes.iter().filter(|(node, _)| **node != self.leader);
        for (_, parts) in others.chain(self.nodes.get_key_value(&self.leader)) {
            self.runtime.wait_for(parts.end(true));
        }
        let steps = self.nodes.get(&self.leader).map_or(0, |parts| parts.progress().steps);
        SalvageEnd { steps, bytes: self.bytes_left(), missing: self.not_landed() }
    }
}

/// The leader: the newest one, or where its store is not here, the standby from now on.
fn who_leads(job: &str, opened: &BTreeMap<NodeRank, OpenedStore>) -> anyhow::Result<Leadership> {
    let newest = opened.values().map(|opened| opened.leadership).max().unwrap_or_default();
    if opened.contains_key(&newest.leader) {
        return Ok(newest);
    }
    let second =
        opened.iter().filter(|(_, opened)| opened.mirror.is_some()).max_by_key(|(_, opened)| opened.leadership);
    let (second, _) = second.with_context(|| {
        let here: Vec<String> = opened.keys().map(ToString::to_string).collect();
        format!(
            "job {job}: the stores that are given (of nodes {}) do not have the names of its files; give also the \
             store of its node {} or of its standby",
            here.join(", "),
            newest.leader
        )
    })?;
    newest.next(*second).with_context(|| format!("job {job}: its stores name a leader after which there can be none"))
}

/// Takes those out that are not of the run which lands: the one whose leader is here; of several, or of none, the one of most stores. Where
/// they are. No note is written before.
fn leave_out_other_runs(
    opened: &mut BTreeMap<NodeRank, OpenedStore>,
    stores: &BTreeMap<NodeRank, PathBuf>,
) -> Vec<PathBuf> {
    let mut runs = BTreeMap::<u64, (bool, usize, Leadership)>::new();
    for store in opened.values() {
        let Some(number) = store.tree_number() else { continue };
        let (has_leader, count, leadership) = runs.entry(number).or_default();
        (*has_leader, *count, *leadership) =
            (*has_leader || store.tree.is_some(), *count + 1, store.leadership.max(*leadership));
    }
    let lands = runs.into_iter().max_by_key(|(_, run)| *run).map(|(number, _)| number);
    let is_other = |opened: &OpenedStore| opened.tree_number().is_some_and(|number| Some(number) != lands);
    let others: Vec<NodeRank> = opened.iter().filter(|(_, opened)| is_other(opened)).map(|(node, _)| *node).collect();
    opened.retain(|node, _| !others.contains(node));
    others.iter().map(|node| stores[node].clone()).collect()
}

/// Timers and tasks, which a thread carries out until no node is left.
struct Runtime {
    handle: Handle,
    _until: oneshot::Sender<()>,
}

impl Runtime {
    fn start() -> std::io::Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (handle, (until, over)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let carry_out = move || {
            // It is dropped, not sent.
            let _ = runtime.block_on(over);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("tasks".to_owned()).spawn(carry_out)?;
        Ok(Arc::new(Self { handle, _until: until }))
    }

    /// Waits on this thread, which may block.
    fn wait_for<T>(&self, task: impl Future<Output = T>) -> T {
        self.handle.block_on(task)
    }

    /// This machine.
    fn machine(&self) -> std::io::Result<Arc<dyn Environment>> {
        let _in = self.handle.enter();
        Ok(Machine::here()?)
    }
}

fn begin(opened: OpenedStore, leadership: Leadership, landing: &Path, calls: Together) -> Arc<WriteParts> {
    let now = opened.local.now();
    let beginning = Beginning {
        dir: landing.to_owned(),
        backing: landing.to_owned(),
        mount: landing.to_owned(),
        drain: DrainPolicy::Auto,
        ends_at: None,
        made_at_ms: now.seconds.cast_unsigned() * 1000 + u64::from(now.nanos) / 1_000_000,
        has_kernel: false,
        kernel_leases: KernelLeases::new(None),
        daemon: 0,
        deadline: DEADLINE,
        standby: None,
        budget_bytes: u64::MAX,
    };
    // No other node decides who leads the tree.
    let nodes = Nodes::new(calls, leadership, vec![], Partners::Any);
    Arc::new(WriteParts::new(nodes, opened, beginning, Box::new(|| ())))
}

/// The nodes whose stores are here. None keeps the others alive.
type Here = Arc<OnceLock<BTreeMap<NodeRank, Weak<WriteParts>>>>;

/// Nodes that are in one process.
struct Together {
    own: NodeRank,
    /// How many the job had.
    nodes: u32,
    here: Here,
    environment: Arc<dyn Environment>,
    runtime: Arc<Runtime>,
}

impl Calls for Together {
    fn own(&self) -> NodeRank {
        self.own
    }

    fn others(&self) -> Vec<NodeRank> {
        (0..self.nodes).map(NodeRank).filter(|node| *node != self.own).collect()
    }

    fn call<'a>(
        &'a self,
        to: NodeRank,
        message: &'a WriteMessage,
        _: Duration,
    ) -> Waiting<'a, Result<Called, Unanswered>> {
        Box::pin(async move {
            let parts = self.here.get().and_then(|here| here.get(&to)?.upgrade());
            let parts = parts.ok_or_else(|| Unanswered::Ever("its store was not given".to_owned()))?;
            let (outcome, body) = parts.answer(self.own, message.clone()).await;
            Ok((outcome, vec![body.into()]))
        })
    }

    fn pause(&self, time: Duration) -> Waiting<'static, ()> {
        // Made when it is waited for: by then the thread is in the runtime.
        Box::pin(async move { tokio::time::sleep(time).await })
    }

    fn block(&self, operation: Operation) {
        self.environment.block(operation);
    }

    fn spawn(&self, task: Waiting<'static, ()>) -> tokio::task::JoinHandle<()> {
        self.runtime.handle.spawn(task)
    }
}
