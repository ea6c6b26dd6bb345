//! The parts of the write path, from its beginning to its end.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forebay_fuse::{Handler, Session};
use forebay_latency::Register;
use forebay_types::threads::NODES_ASKED_AT_ONCE;
use forebay_types::{Errno, NodeRank};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::message::Checked;
use forebay_wire::write_message::WriteMessage;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::commits::Commits;
use super::contents::Reader;
use super::drain::drain_messages;
use super::drain::drainer::Drainer;
use super::drain::meter::Meter;
use super::drain::progress::Progress;
use super::drain::several::several;
use super::early_commits::EarlyCommits;
use super::files::Files;
use super::kernel_leases::KernelLeases;
use super::local::Local;
use super::page_cache::PageCache;
use super::partner::Partner;
use super::programs::close_retry::CloseRetries;
use super::programs::committing::Committing;
use super::programs::directories::Readings;
use super::programs::freeze::{Freezable, Freeze};
use super::programs::joined::Joined;
use super::programs::kernel::Kernel;
use super::programs::locks::Locking;
use super::programs::requests::{Line, UnderWay};
use super::programs::room::Room;
use super::reclaim::Reclaim;
use super::recovery::OpenedStore;
use super::remote::Nodes;
use super::time_limit::{left_of, watch};
use super::tree::calling::On;
use super::tree::election::{BeginNext, Election};
use super::tree::leader::{Leader, Life};
use super::tree::remote_tree::RemoteTree;
use super::tree::standby::Standby;
use super::tree::tree_link::TreeLink;
use super::waiting_requests::{DRAINS_PER_NODE_MAX, TASKS_PER_NODE_MAX, TREE_TASKS_PER_NODE_MAX, WaitingRequests};
use crate::options::DrainPolicy;

/// How often a drain looks how far it is.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long a drain waits for a node that does not answer.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_secs(8);

/// The same for one that has just not answered.
const NODE_TIMEOUT_AGAIN: Duration = Duration::from_secs(2);

/// How long a kernel may take to send what it has gathered: less than `NODE_TIMEOUT`, with the time to commit it. It gathers a hundredth of
/// the memory at most.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(4);

/// The answer of a node that has committed all, and whose programs have not been told of changes that are lost.
const LOST_CHANGES: Errno = Errno::ESTALE;

/// The write path of one node.
pub struct WriteParts {
    pub(super) mount: PathBuf,
    pub(super) dir: PathBuf,
    /// Where it lands.
    pub(super) backing: PathBuf,
    pub(super) local: Arc<Local>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) reader: Arc<Reader>,
    pub(super) files: Arc<Files>,
    pub(super) commits: Arc<Commits>,
    early_commits: Arc<EarlyCommits>,
    pub(super) locking: Arc<Locking>,
    pub(super) cache: Arc<PageCache>,
    /// Of the kernel's session, once it serves.
    pub(super) latencies: OnceLock<Arc<Register>>,
    pub(super) election: Arc<Election>,
    /// Requests of other nodes that wait: those that keep the tree and its copies safe, those of drains, and all others.
    pub(super) tree_tasks: Arc<WaitingRequests>,
    pub(super) drain_tasks: Arc<WaitingRequests>,
    pub(super) waiting_tasks: Arc<WaitingRequests>,
    pub(super) made_at_ms: u64,
    /// Programs are served from then on.
    pub(super) joined: Arc<Joined>,
    pub(super) drain: DrainPolicy,
    pub(super) has_kernel: bool,
    pub(super) ends_at: Option<Duration>,
    /// How long a program may wait.
    deadline: Duration,
    /// How many there were before on this node.
    daemon: u64,
    /// The gate that programs' changes go through.
    pub(super) freeze: Arc<Freeze>,
    /// Of the leader.
    pub(super) drainer: Option<Arc<Drainer>>,
    pub(super) reclaim: Arc<Reclaim>,
    /// Where the tree has it here.
    pub(super) second: Option<Arc<Standby>>,
    /// Where nodes have partners.
    pub(super) partner: Option<Arc<Partner>>,
}

/// Settings that a node begins with.
pub struct Beginning {
    pub dir: PathBuf,
    pub backing: PathBuf,
    pub mount: PathBuf,
    /// When what is written lands.
    pub drain: DrainPolicy,
    /// When the job's time is over, since 1970.
    pub ends_at: Option<Duration>,
    /// Tells the mount from those before it.
    pub made_at_ms: u64,
    /// Whether a kernel serves programs from it: where stores are salvaged, none does.
    pub has_kernel: bool,
    /// The end of the leases that its kernel has.
    pub kernel_leases: KernelLeases,
    /// How many daemons there were before on this mount.
    pub daemon: u64,
    /// How long a program may wait.
    pub deadline: Duration,
    /// The node where the tree has its standby, if any.
    pub standby: Option<NodeRank>,
    /// Memory that the node may take for the exports and the tree together.
    pub budget_bytes: u64,
}

impl WriteParts {
    /// The parts of a daemon that begins.
    pub fn new(nodes: Arc<Nodes>, opened: OpenedStore, beginning: Beginning, begin_next: BeginNext) -> Self {
        let Beginning { drain, has_kernel, made_at_ms, kernel_leases, daemon, standby, .. } = beginning;
        let known = (opened.has_mirrored, opened.may_lack_end);
        let OpenedStore { local, tree, leader_before, history, mirror, files, unanswered, .. } = opened;
        nodes.lost.begin(opened.unheard, opened.overtaken);
        let cache = PageCache::new(daemon == 0, kernel_leases);
        let (is_first, has_standby, budget_bytes) = (daemon == 0, standby.is_some(), beginning.budget_bytes);
        let life = Life { is_first, leader_before, history, has_standby, cache: Arc::clone(&cache), budget_bytes };
        let election = Election::new(&local, &nodes, begin_next);
        let leader = tree.map(|tree| Leader::new(&local, &nodes, &election, tree, life));
        let (session, is_standby) = (Line::Commits.session(made_at_ms), standby == Some(local.rank));
        let second = is_standby.then(|| Arc::new(Standby::new(&local, &nodes, mirror)));
        let (files, remote) = (Arc::new(files), Arc::new(RemoteTree::new(&nodes)));
        let link = || match &leader {
            Some(leader) => TreeLink::Here(Arc::clone(leader)),
            None => TreeLink::There(Arc::clone(&remote)),
        };
        let reader = Arc::new(Reader { local: Arc::clone(&local), nodes: Arc::clone(&nodes), tree: link() });
        let partner = nodes.has_partners().then(|| Arc::new(Partner::new(&local, &nodes, link(), &files)));
        let commits = Arc::new(Commits::new(&local, &files, link(), session, daemon, unanswered));
        let sends_old = drain == DrainPolicy::Auto;
        let (leads, backing) = (leader.as_ref(), &beginning.backing);
        let drainer = leads.map(|leader| Drainer::new((leader, backing), &reader, &commits, drain));
        Self {
            early_commits: EarlyCommits::new(&nodes, &commits),
            locking: Locking::new(&reader, &commits, daemon > 0),
            dir: beginning.dir,
            backing: beginning.backing,
            mount: beginning.mount,
            joined: Arc::new(Joined::new(known, daemon > 0 && local.has_served(made_at_ms))),
            local,
            made_at_ms,
            drain,
            has_kernel,
            ends_at: beginning.ends_at,
            deadline: beginning.deadline,
            daemon,
            freeze: Arc::default(),
            drainer,
            reclaim: Reclaim::new(&reader, &files, &commits, second.as_ref(), partner.as_ref(), sends_old),
            second,
            partner,
            commits,
            cache,
            latencies: OnceLock::new(),
            election,
            tree_tasks: WaitingRequests::new(TREE_TASKS_PER_NODE_MAX),
            drain_tasks: WaitingRequests::new(DRAINS_PER_NODE_MAX),
            waiting_tasks: WaitingRequests::new(TASKS_PER_NODE_MAX),
            nodes,
            reader,
            files,
        }
    }

    /// The request handler of the burst mount.
    pub fn handler(&self) -> Arc<impl Handler + use<>> {
        Arc::new(Freezable { handler: Arc::new(self.kernel()), freeze: Arc::clone(&self.freeze) })
    }

    /// Has the kernel send what it has gathered: what programs have changed in maps.
    ///
    /// # Errors
    /// EAGAIN if not all has come in time, as far as can be known. Files that are open keep the rest.
    pub async fn flush(&self) -> Result<(), Errno> {
        // Data that comes now is refused: nobody waits for it, and programs are to be told by their own `close`. Before the node has
        // joined, none has been served.
        if !self.has_kernel || self.freeze.is_frozen() || self.is_first_daemon() && self.joined.outcome().is_none() {
            return Ok(());
        }
        let (local, files, mount) = (Arc::clone(&self.local), Arc::clone(&self.files), self.mount.clone());
        let flush = move || files.while_flushing(|| local.flush(&mount, &|| files.to_flush(), FLUSH_TIMEOUT));
        let Err(error) = self.nodes.block(flush).await.ok_or(Errno::EAGAIN)? else { return Ok(()) };
        tracing::warn!(%error, "what programs have written and not closed may not all have come from the kernel");
        Err(Errno::EAGAIN)
    }

    fn kernel(&self) -> Kernel {
        Kernel {
            close_retries: CloseRetries::new(&self.reader, &self.commits, &self.locking),
            reader: Arc::clone(&self.reader),
            cache: Arc::clone(&self.cache),
            files: Arc::clone(&self.files),
            commits: Arc::clone(&self.commits),
            committing: Committing {
                reader: Arc::clone(&self.reader),
                files: Arc::clone(&self.files),
                commits: Arc::clone(&self.commits),
            },
            early_commits: Arc::clone(&self.early_commits),
            locking: Arc::clone(&self.locking),
            room: Room::new(&self.local, &self.nodes, self.drain, self.deadline),
            readings: Readings::of(self.daemon),
            under_way: UnderWay::new(Line::Kernel.session(self.made_at_ms)),
            joined: Arc::clone(&self.joined),
        }
    }

    /// The kernel's session serves: what the kernel has cached can be taken back.
    pub fn set_session(&self, session: &Session) {
        self.cache.set_notifier(session.notifier());
        let _ = self.latencies.set(Arc::clone(session.latencies()));
    }

    /// Whether this node's part in the tree changes with its next daemon.
    pub fn is_leaving(&self) -> bool {
        self.election.is_leaving()
    }

    pub(super) fn is_first_daemon(&self) -> bool {
        self.daemon == 0
    }

    /// The leader's part, if this node is it.
    pub(super) fn leader(&self) -> Option<&Arc<Leader>> {
        self.reader.tree.here()
    }

    /// Follows the tree on the backing file system, or gives back what it has landed, until `end`.
    pub(super) async fn land(&self) {
        let Some(drainer) = &self.drainer else { return self.reclaim.go_on().await };
        tokio::join!(drainer.follow(), self.watch_time());
    }

    /// Has everything landed before the job's time is over.
    async fn watch_time(&self) {
        let (Some(ends_at), Some(leader), Some(meter)) = (self.ends_at, self.leader(), self.meter()) else { return };
        let left = move || {
            let left = left_of(&leader.tree());
            let takes = meter.time_for(left, leader.nodes.now()).0;
            (left.0, takes, ends_at.saturating_sub(leader.local.unix_time()))
        };
        watch(&self.nodes, left, || Box::pin(async { drop(self.drain(Duration::ZERO).await) })).await;
    }

    /// How much is sent; asked of the leader.
    pub(super) fn meter(&self) -> Option<&Meter> {
        Some(&self.drainer.as_ref()?.meter)
    }

    /// How far the backing file system has followed; asked of the leader.
    pub fn progress(&self) -> Progress {
        self.drainer.as_ref().map_or_else(Progress::default, |drainer| drainer.progress())
    }

    /// Lets everything land that was written until now on any node, files that are still open with their last commit, and waits
    /// for that, so long at most. Bytes that only silent nodes have are left out. How far it came. Asked of the leader.
    pub async fn drain(&self, time: Duration) -> Progress {
        self.drain_without(time, &[]).await
    }

    /// The same, where some nodes have just not answered: they are given less time.
    pub(super) async fn drain_without(&self, time: Duration, silent: &[NodeRank]) -> Progress {
        let deadline = Instant::now() + time;
        let (mut why, with_lost_changes) = self.commit_everywhere(silent).await;
        if let Some(drainer) = &self.drainer {
            drainer.allow();
        }
        while self.progress().steps > 0 && Instant::now() < deadline && !self.nodes.is_ending() {
            self.nodes.pause(POLL_INTERVAL).await;
        }
        let progress = self.progress();
        // Room that the standby's tree may need is not given back.
        if progress.steps == 0
            && let Some(leader) = self.leader()
        {
            if why.is_none() {
                why = leader.make_durable().await.err().map(|errno| format!("the standby: {errno}"));
            }
            leader.replicator.release_safe();
        }
        if progress.steps == 0 && why.is_none() {
            why = self.reclaim_everywhere().await;
        }
        let awaits_node = self.leader().is_some_and(|leader| !leader.tree().lost_nodes().is_empty());
        let is_final = progress.steps == 0 && progress.why.is_none() && why.is_none() && !awaits_node;
        let leader = self.leader();
        let lost = leader.and_then(|leader| drain_messages::lost(leader, &self.dir));
        let why = drain_messages::both(lost.or(progress.why), why);
        let why = drain_messages::both(why, leader.and_then(|leader| drain_messages::aside(leader, &self.backing)));
        let why = drain_messages::both(why, drain_messages::lost_changes(&with_lost_changes));
        let why = drain_messages::both(why, drain_messages::left_open(&self.absent_openers()));
        let has_lost_changes = !with_lost_changes.is_empty();
        Progress { why, has_lost_changes, is_final, ..progress }
    }

    /// Nodes that had files open in a larger run of the job, if this one leads the tree: their stores may have writes to these.
    pub(super) fn absent_openers(&self) -> BTreeSet<NodeRank> {
        let Some(leader) = self.leader() else { return BTreeSet::new() };
        let mut openers = leader.tree().openers();
        let others = self.nodes.others();
        openers.retain(|node| *node != self.local.rank && !others.contains(node));
        openers
    }

    /// The obstacle that keeps a node from committing, if any, and nodes whose programs have lost changes. Nodes that have just not answered are
    /// given less time.
    async fn commit_everywhere(&self, silent_before: &[NodeRank]) -> (Option<String>, BTreeSet<NodeRank>) {
        let Some(leader) = self.leader() else { return Default::default() };
        let (mut lost, mut why, mut with_lost_changes) = (vec![], None, BTreeSet::new());
        let told = |node: NodeRank, errno: Errno| {
            Some(match errno {
                Errno::EAGAIN => drain_messages::unsent(node),
                errno => drain_messages::uncommitted(node, errno),
            })
        };
        let silent = |node: NodeRank| {
            let open = leader.tree().open_files_of(node);
            let plural = if open == 1 { "" } else { "s" };
            let why = format!(
                "node {node} does not answer: what it has not committed of {open} open file{plural} is in its store"
            );
            (open > 0).then_some(why)
        };
        match self.commit_all().await {
            Err(LOST_CHANGES) => drop(with_lost_changes.insert(self.local.rank)),
            committed => why = committed.err().and_then(|errno| told(self.local.rank, errno)),
        }
        let (again, first): (Vec<_>, Vec<_>) =
            self.nodes.others().into_iter().partition(|node| silent_before.contains(node));
        let mut answers = self.ask_all::<Result<(), Errno>>(&first, &WriteMessage::CommitAll, NODE_TIMEOUT).await;
        answers.extend(self.ask_all(&again, &WriteMessage::CommitAll, NODE_TIMEOUT_AGAIN).await);
        answers.sort_unstable_by_key(|(node, _)| *node);
        for (node, answer) in answers {
            match answer {
                Ok(Ok(())) => {}
                Ok(Err(LOST_CHANGES)) => drop(with_lost_changes.insert(node)),
                Ok(Err(errno)) => why = why.or(told(node, errno)),
                Err(_) => {
                    lost.push(node);
                    why = why.or_else(|| silent(node));
                }
            }
        }
        for node in lost.iter().filter(|_| self.nodes.has_partners()) {
            if let Err(errno) = leader.failover(On::Task, *node).await {
                why = why.or(Some(format!("records of nodes that do not answer: {errno}")));
                break;
            }
        }
        why = why.or(self.hear_again(leader, &mut lost).await);
        // Until they answer.
        lost.iter().for_each(|node| leader.unverified.note(*node));
        let are_known = leader.tree().lost_nodes().iter().eq(&lost);
        if !are_known && let Err(errno) = leader.note_found(LeaderEntry::Lost { nodes: lost }).await {
            why = why.or(Some(format!("nodes that do not answer cannot be written down: {errno}")));
        }
        let open = leader.tree().open_and_changed();
        for file in open {
            if let Err(errno) = leader.note_found(LeaderEntry::Publish { file }).await {
                why = why.or(Some(format!("file {file} cannot be published: {errno}")));
            }
        }
        (why, with_lost_changes)
    }

    /// Takes back what nodes that answer again have copied. A node of which that is not known stays `lost`.
    async fn hear_again(&self, leader: &Leader, lost: &mut Vec<NodeRank>) -> Option<String> {
        let answering: Vec<_> =
            leader.tree().lost_nodes().iter().copied().filter(|node| !lost.contains(node)).collect();
        let mut why = None;
        for node in answering {
            if let Err(errno) = leader.take_gone_from(node).await {
                why = Some(format!("node {node} does not say what it has copied: {errno}"));
                lost.push(node);
            }
        }
        lost.sort_unstable();
        why
    }

    /// Asks all other nodes.
    pub(super) async fn ask_others<T: DeserializeOwned + Checked + Send>(
        &self,
        message: &WriteMessage,
        timeout: Duration,
    ) -> Vec<(NodeRank, Result<T, Errno>)> {
        self.ask_all(&self.nodes.others(), message, timeout).await
    }

    /// Asks nodes, many at once: several may be silent, and a drain near the time limit has no time for one after the other.
    async fn ask_all<T: DeserializeOwned + Checked + Send>(
        &self,
        nodes: &[NodeRank],
        message: &WriteMessage,
        timeout: Duration,
    ) -> Vec<(NodeRank, Result<T, Errno>)> {
        let asked =
            nodes.iter().map(|node| async move { (*node, self.nodes.answer_of(*node, message, timeout).await) });
        several(NODES_ASKED_AT_ONCE, asked.collect::<Vec<_>>()).await
    }

    /// Commits what programs of this node have written.
    ///
    /// # Errors
    /// EAGAIN where the kernel has not sent all; else why not, also where it has and that could not be written; at last `LOST_CHANGES`.
    pub async fn commit_all(&self) -> Result<(), Errno> {
        let flushed = self.flush().await;
        self.commits.commit_all().await?;
        self.local.make_durable_for_all().await?;
        flushed.and(self.files.failed())?;
        if self.nodes.lost.are_untold() { Err(LOST_CHANGES) } else { Ok(()) }
    }

    async fn reclaim_everywhere(&self) -> Option<String> {
        let lost = self.leader()?.tree().lost_nodes().clone();
        for node in self.nodes.others().into_iter().filter(|node| !lost.contains(node)) {
            let told = self.nodes.answer_of::<Result<(), Errno>>(node, &WriteMessage::Reclaim, NODE_TIMEOUT).await;
            if let Err(errno) = told.and_then(|done| done) {
                return Some(format!("the store of node {node} keeps what has landed: {errno}"));
            }
        }
        None
    }

    /// Gives back what has landed.
    ///
    /// # Errors
    /// Why not.
    pub async fn reclaim(&self) -> Result<(), Errno> {
        self.reclaim.all().await
    }
}
