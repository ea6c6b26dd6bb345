//! The parts of the write path, from its beginning to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_fuse::{Handler, Notifier};
use forebay_types::threads::{NODES_ASKED_AT_ONCE, THREADS_PER_NODE_MAX};
use forebay_types::{Errno, NodeRank};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::message::Checked;
use forebay_wire::write_message::WriteMessage;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::beliefs::Beliefs;
use super::commits::Commits;
use super::contents::Reader;
use super::drain::drain_words;
use super::drain::drainer::Drainer;
use super::drain::meter::Meter;
use super::drain::progress::Progress;
use super::drain::several::several;
use super::early_commits::EarlyCommits;
use super::files::Files;
use super::giving_back::GivingBack;
use super::local::Local;
use super::page_cache::PageCache;
use super::partner::Partner;
use super::programs::committing::Committing;
use super::programs::directories::Readings;
use super::programs::gate::{Gate, Gated};
use super::programs::joined::Joined;
use super::programs::kernel::Kernel;
use super::programs::locks::Locking;
use super::programs::owed::Owed;
use super::programs::requests::{Line, UnderWay};
use super::programs::room::Room;
use super::recovery::OpenedStore;
use super::remote::Nodes;
use super::time_limit::{left_of, watch};
use super::tree::calling::On;
use super::tree::council::Council;
use super::tree::owner::{Life, Owner};
use super::tree::remote_tree::RemoteTree;
use super::tree::second_home::SecondHome;
use super::tree::tree_link::TreeLink;
use super::waiting_requests::{TASKS_PER_NODE_MAX, TREE_TASKS_PER_NODE_MAX, WaitingRequests};
use crate::options::DrainPolicy;

/// How often a drain looks how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a drain waits for a node that does not answer.
pub(super) const NODE_PATIENCE: Duration = Duration::from_secs(8);

/// The same for one that has just not answered.
const NODE_PATIENCE_AGAIN: Duration = Duration::from_secs(2);

/// How long a kernel may take to send what it has gathered: less than `NODE_PATIENCE`, with the time to commit it. It gathers a hundredth of
/// the memory at most.
const FLUSH_PATIENCE: Duration = Duration::from_secs(4);

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
    pub(super) council: Arc<Council>,
    /// Requests of other nodes: tasks, those of them that keep the tree and its copies safe, and threads.
    pub(super) waiting_tasks: Arc<WaitingRequests>,
    pub(super) tree_tasks: Arc<WaitingRequests>,
    pub(super) waiting_threads: Arc<WaitingRequests>,
    pub(super) made_at_ms: u64,
    /// Programs are served from then on.
    pub(super) joined: Arc<Joined>,
    drain: DrainPolicy,
    pub(super) ends_at: Option<Duration>,
    /// How long a program may wait.
    deadline: Duration,
    /// How many there were before on this node.
    daemon: u64,
    /// The gate that programs' changes go through.
    pub(super) gate: Arc<Gate>,
    /// Of the owner.
    pub(super) drainer: Option<Arc<Drainer>>,
    pub(super) giving_back: Arc<GivingBack>,
    /// Where the tree has it here.
    pub(super) second: Option<Arc<SecondHome>>,
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
    /// The end of the leases that its kernel has.
    pub beliefs: Beliefs,
    /// How many daemons there were before on this mount.
    pub daemon: u64,
    /// How long a program may wait.
    pub deadline: Duration,
    /// The node where the tree has its second home, if any.
    pub second_home: Option<NodeRank>,
    /// Memory that the node may take for the exports and the tree together.
    pub budget_bytes: u64,
}

impl WriteParts {
    /// `begin_next` has the node's next daemon begin.
    pub fn new(
        nodes: Arc<Nodes>,
        opened: OpenedStore,
        beginning: Beginning,
        begin_next: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let Beginning { drain, made_at_ms, beliefs, daemon, second_home, .. } = beginning;
        let OpenedStore { local, tree, owner_before, history, mirror, files, unanswered, has_mirrored, .. } = opened;
        let cache = PageCache::new(daemon == 0, beliefs);
        let (is_first, has_second, budget_bytes) = (daemon == 0, second_home.is_some(), beginning.budget_bytes);
        let life = Life { is_first, owner_before, history, has_second, cache: Arc::clone(&cache), budget_bytes };
        let council = Council::new(&local, &nodes, begin_next);
        let owner = tree.map(|tree| Owner::new(&local, &nodes, &council, tree, life));
        let (session, is_second) = (Line::Commits.session(made_at_ms), second_home == Some(local.rank));
        let second = is_second.then(|| Arc::new(SecondHome::new(&local, &nodes, mirror)));
        let (files, remote) = (Arc::new(files), Arc::new(RemoteTree::new(&nodes)));
        let link = || match &owner {
            Some(owner) => TreeLink::Here(Arc::clone(owner)),
            None => TreeLink::There(Arc::clone(&remote)),
        };
        let reader = Arc::new(Reader { local: Arc::clone(&local), nodes: Arc::clone(&nodes), tree: link() });
        let partner = nodes.has_partners().then(|| Arc::new(Partner::new(&local, &nodes, link(), &files)));
        let commits = Arc::new(Commits::new(&local, &files, link(), session, daemon, unanswered));
        Self {
            early_commits: EarlyCommits::new(&nodes, &commits),
            locking: Locking::new(&reader, &commits, daemon > 0),
            dir: beginning.dir,
            backing: beginning.backing,
            mount: beginning.mount,
            joined: Arc::new(Joined::new(has_mirrored, daemon > 0 && local.has_served(made_at_ms))),
            local,
            made_at_ms,
            drain,
            ends_at: beginning.ends_at,
            deadline: beginning.deadline,
            daemon,
            gate: Arc::default(),
            drainer: owner.as_ref().map(|owner| Drainer::new(owner, &reader, &commits, drain)),
            giving_back: GivingBack::new(
                &reader,
                &files,
                &commits,
                second.as_ref(),
                partner.as_ref(),
                drain == DrainPolicy::Auto,
            ),
            second,
            partner,
            commits,
            cache,
            council,
            waiting_tasks: WaitingRequests::new(TASKS_PER_NODE_MAX),
            tree_tasks: WaitingRequests::new(TREE_TASKS_PER_NODE_MAX),
            waiting_threads: WaitingRequests::new(THREADS_PER_NODE_MAX),
            nodes,
            reader,
            files,
        }
    }

    /// The request handler of the burst mount.
    pub fn handler(&self) -> Arc<impl Handler + use<>> {
        Arc::new(Gated { handler: Arc::new(self.kernel()), gate: Arc::clone(&self.gate) })
    }

    /// Has the kernel send what it has gathered: what programs have changed in maps.
    ///
    /// # Errors
    /// EAGAIN if not all has come in time, as far as can be known. Files that are open keep the rest.
    pub fn flush(&self) -> Result<(), Errno> {
        // Data that comes now is refused: nobody waits for it, and programs are to be told by their own `close`. Before the node has
        // joined, none has been served.
        if self.gate.is_shut() || self.is_first_daemon() && self.joined.outcome().is_none() {
            return Ok(());
        }
        let flush = || self.local.flush(&self.mount, &|| self.files.to_settle(), FLUSH_PATIENCE);
        let Err(error) = self.files.while_settled(flush) else { return Ok(()) };
        tracing::warn!(%error, "what programs have written and not closed may not all have come from the kernel");
        Err(Errno::EAGAIN)
    }

    fn kernel(&self) -> Kernel {
        Kernel {
            owed: Owed::new(&self.reader, &self.commits, &self.locking),
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
    pub fn set_notifier(&self, notifier: Notifier) {
        self.cache.set_notifier(notifier);
    }

    /// Whether this node's part in the tree changes with its next daemon.
    pub fn is_leaving(&self) -> bool {
        self.council.is_leaving()
    }

    pub(super) fn is_first_daemon(&self) -> bool {
        self.daemon == 0
    }

    /// The owner's part, if this node is it.
    pub(super) fn owner(&self) -> Option<&Arc<Owner>> {
        self.reader.tree.here()
    }

    /// Follows the tree on the backing file system, or gives back what it has landed, until `end`.
    pub(super) fn land(self: &Arc<Self>) {
        let Some(drainer) = &self.drainer else { return self.giving_back.go_on() };
        self.nodes.calls.carry_out(Box::pin(async {
            tokio::join!(drainer.follow(), self.watch_time());
        }));
    }

    /// Has everything landed before the job's time is over.
    async fn watch_time(self: &Arc<Self>) {
        let (Some(ends_at), Some(owner), Some(meter)) = (self.ends_at, self.owner(), self.meter()) else { return };
        let left = move || {
            let left = left_of(&owner.tree());
            let takes = meter.time_for(left, owner.nodes.now()).0;
            (left.0, takes, ends_at.saturating_sub(owner.local.unix_time()))
        };
        watch(&self.nodes, left, || self.drain_beside()).await;
    }

    /// Has everything committed and landed that was written until now, by a thread of its own. Where there is none, it is tried again.
    async fn drain_beside(self: &Arc<Self>) {
        let (parts, (done, drained)) = (Arc::clone(self), oneshot::channel());
        let drain = move || drop(done.send(parts.drain(Duration::ZERO)));
        match std::thread::Builder::new().name("time-limit".to_owned()).spawn(drain) {
            Ok(_) => drop(drained.await),
            Err(error) => tracing::warn!(%error, "no thread to drain with before the time limit"),
        }
    }

    /// How much is sent; asked of the owner.
    pub(super) fn meter(&self) -> Option<&Meter> {
        Some(&self.drainer.as_ref()?.meter)
    }

    /// How far the backing file system has followed; asked of the owner.
    pub fn progress(&self) -> Progress {
        self.drainer.as_ref().map_or_else(Progress::default, |drainer| drainer.progress())
    }

    /// Lets everything land that was written until now on any node, files that are still open with their last commit, and waits
    /// for that, so long at most. Bytes that only silent nodes have are left out. How far it came. May block. Asked of the
    /// owner.
    pub fn drain(&self, time: Duration) -> Progress {
        self.drain_without(time, &[])
    }

    /// The same, where some nodes have just not answered: they are given less time.
    pub(super) fn drain_without(&self, time: Duration, silent: &[NodeRank]) -> Progress {
        let deadline = Instant::now() + time;
        let mut why = self.commit_everywhere(silent);
        if let Some(drainer) = &self.drainer {
            drainer.allow();
        }
        while self.progress().steps > 0 && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        let progress = self.progress();
        // Room that the second home's tree may need is not given back.
        if progress.steps == 0
            && let Some(owner) = self.owner()
        {
            why = why.or_else(|| owner.make_durable().err().map(|errno| format!("the second home: {errno}")));
            owner.safe.release_safe();
        }
        if progress.steps == 0 {
            why = why.or_else(|| self.give_back_everywhere());
        }
        let awaits_node = self.owner().is_some_and(|owner| !owner.tree().lost_nodes().is_empty());
        let is_final = progress.steps == 0 && progress.why.is_none() && why.is_none() && !awaits_node;
        let owner = self.owner();
        let lost = owner.and_then(|owner| drain_words::lost(owner, &self.dir));
        let why = drain_words::both(lost.or(progress.why), why);
        let why = drain_words::both(why, owner.and_then(|owner| drain_words::aside(owner)));
        Progress { why, is_final, ..progress }
    }

    /// The obstacle that keeps a node from committing, if any. Nodes that have just not answered are given less time.
    fn commit_everywhere(&self, silent_before: &[NodeRank]) -> Option<String> {
        let owner = self.owner()?;
        let (mut lost, mut why) = (vec![], None);
        let told = |node: NodeRank, errno: Errno| {
            Some(match errno {
                Errno::EAGAIN => drain_words::unsent(node),
                errno => drain_words::uncommitted(node, errno),
            })
        };
        let silent = |node: NodeRank| {
            let open = owner.tree().open_files_of(node);
            let plural = if open == 1 { "" } else { "s" };
            let why = format!(
                "node {node} does not answer: what it has not committed of {open} open file{plural} is in its store"
            );
            (open > 0).then_some(why)
        };
        if let Err(errno) = self.commit_all() {
            why = told(self.local.rank, errno);
        }
        let ask =
            |nodes: &[NodeRank], patience| self.ask_all::<Result<(), Errno>>(nodes, &WriteMessage::CommitAll, patience);
        let (again, first): (Vec<_>, Vec<_>) =
            self.nodes.others().into_iter().partition(|node| silent_before.contains(node));
        let mut answers = ask(&first, NODE_PATIENCE);
        answers.extend(ask(&again, NODE_PATIENCE_AGAIN));
        answers.sort_unstable_by_key(|(node, _)| *node);
        for (node, answer) in answers {
            match answer {
                Ok(Ok(())) => {}
                Ok(Err(errno)) => why = why.or(told(node, errno)),
                Err(_) => {
                    lost.push(node);
                    why = why.or_else(|| silent(node));
                }
            }
        }
        if self.nodes.has_partners()
            && let Some(errno) =
                lost.iter().find_map(|node| self.nodes.wait_for(owner.rescue(On::ThisThread, *node)).err())
        {
            why = why.or(Some(format!("records of nodes that do not answer: {errno}")));
        }
        // Until they answer.
        lost.iter().for_each(|node| owner.unverified.note(*node));
        if !owner.tree().lost_nodes().iter().eq(&lost)
            && let Err(errno) = owner.note(&LeaderEntry::Lost { nodes: lost })
        {
            why = why.or(Some(format!("nodes that do not answer cannot be written down: {errno}")));
        }
        let open = owner.tree().open_and_changed();
        for file in open {
            if let Err(errno) = owner.note(&LeaderEntry::Publish { file }) {
                why = why.or(Some(format!("file {file} cannot be published: {errno}")));
            }
        }
        why
    }

    /// Asks all other nodes.
    pub(super) fn ask_others<T: DeserializeOwned + Checked + Send>(
        &self,
        message: &WriteMessage,
        patience: Duration,
    ) -> Vec<(NodeRank, Result<T, Errno>)> {
        self.ask_all(&self.nodes.others(), message, patience)
    }

    /// Asks nodes, many at once: several may be silent, and a drain near the time limit has no time for one after the other.
    fn ask_all<T: DeserializeOwned + Checked + Send>(
        &self,
        nodes: &[NodeRank],
        message: &WriteMessage,
        patience: Duration,
    ) -> Vec<(NodeRank, Result<T, Errno>)> {
        let ask = async |node: NodeRank| (node, self.nodes.answer_of::<T>(node, message, patience).await);
        self.nodes.wait_for(several(NODES_ASKED_AT_ONCE, nodes.iter().map(|node| ask(*node)).collect::<Vec<_>>()))
    }

    /// Commits what programs of this node have written.
    ///
    /// # Errors
    /// EAGAIN where the kernel has not sent all; else why not, also where it has and that could not be written.
    pub fn commit_all(&self) -> Result<(), Errno> {
        let flushed = self.flush();
        self.nodes.wait_for(self.commits.commit_all())?;
        self.local.make_durable()?;
        flushed.and(self.files.failed())
    }

    fn give_back_everywhere(&self) -> Option<String> {
        let ask = |node| self.nodes.ask::<Result<(), Errno>>(node, &WriteMessage::GiveBack, NODE_PATIENCE);
        let lost = self.owner()?.tree().lost_nodes().clone();
        let mut others = self.nodes.others().into_iter().filter(|node| !lost.contains(node));
        let failed = others.find_map(|node| Some((node, ask(node).and_then(|done| done).err()?)));
        failed.map(|(node, errno)| format!("the store of node {node} keeps what has landed: {errno}"))
    }

    /// Gives back what has landed.
    ///
    /// # Errors
    /// Why not.
    pub fn give_back(&self) -> Result<(), Errno> {
        self.giving_back.all()
    }
}
