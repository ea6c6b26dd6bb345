//! Refreshes, carried over the tree: each step is taken here, then by the children, then answered.
//!
//! A child that cannot be reached is bypassed, and its children are asked in its place; it is named in the end. The root
//! leads, one refresh after the other; whoever is asked by the user passes the wish on to it. Where the root is lost, the next
//! that may be one leads. Two may lead at once for a while, and whoever leads may not know of the last refresh, or have a
//! clock that is behind: a node that has met a later one says so, and the refresh is led anew, above all that were met.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forebay_read::{QUIET_MAX, ReadPath};
use forebay_transport::Replier;
use forebay_types::{Epoch, NodeRank, ViewPath};
use forebay_wire::{JobMessage, RefreshStep};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::backing::Backing;
use super::cached_chunks::CacheTier;
use super::core::Core;
use super::view::{View, invalidate};
use crate::shared::gather;
use crate::shared::node::Node;

/// How long one step may take on the whole job: the kernel may make a node wait for requests that are under way.
const STEP_DEADLINE: Duration = Duration::from_secs(9);

/// How long answers may be on their way to the kernel: it takes one in microseconds, a busy machine in milliseconds.
const TOLD_MAX: Duration = Duration::from_secs(2);

/// How often a refresh is led anew above what nodes have met.
const ATTEMPTS_MAX: u32 = 4;

/// The share of the time that a hop leaves to the next, so that its own answer is still in time.
const HOP_SHARE: f64 = 0.9;

/// A step of a refresh of some paths.
type Step = (Epoch, RefreshStep, Vec<ViewPath>);

/// The nodes' answers to a step.
#[derive(Serialize, Deserialize, Default)]
struct Taken {
    /// Ranks of the nodes that took it.
    reached: BTreeSet<u32>,
    /// The latest refresh that was met by those who refused it.
    met: Epoch,
}

impl Taken {
    fn add(&mut self, other: Self) {
        self.reached.extend(other.reached);
        self.met = self.met.max(other.met);
    }
}

/// The outcome of a refresh.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Refreshed {
    /// Its number.
    pub epoch: Epoch,
    /// How many nodes took all its steps.
    pub reached: usize,
    /// The others, by rank.
    pub unreached: Vec<u32>,
    /// How long it took, milliseconds.
    pub took_ms: f64,
}

/// The parts that lead a refresh, or take a step of one.
pub struct Refresh {
    node: Arc<Node>,
    core: Arc<Core>,
    backing: Arc<Backing>,
    cache: Arc<CacheTier>,
    view: Arc<View>,
    /// Held by whoever leads one.
    leading: tokio::sync::Mutex<()>,
}

impl Refresh {
    pub fn new(
        node: &Arc<Node>,
        core: &Arc<Core>,
        (backing, cache): (&Arc<Backing>, &Arc<CacheTier>),
        view: &Arc<View>,
    ) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            core: Arc::clone(core),
            backing: Arc::clone(backing),
            cache: Arc::clone(cache),
            view: Arc::clone(view),
            leading: tokio::sync::Mutex::default(),
        })
    }

    /// Leads a refresh for a peer.
    pub async fn answer_lead(self: Arc<Self>, paths: Vec<ViewPath>, reply: Replier) {
        let outcome = self.lead(paths).await;
        gather::answer_all(reply, &[outcome]);
    }

    /// Takes a step that a peer asks for.
    pub async fn answer(self: Arc<Self>, step: Step, remaining: Duration, reply: Replier) {
        let (epoch, step, paths) = step;
        let taken = self.take_step(epoch, step, paths, remaining.mul_f64(HOP_SHARE)).await;
        gather::answer_all(reply, &[taken]);
    }

    /// Refreshes `paths` on the whole job: how long it took, and the nodes that were not reached.
    ///
    /// # Errors
    /// When no node that may lead can be reached, or others lead all the time.
    pub async fn refresh(&self, paths: Vec<ViewPath>) -> Result<Refreshed, String> {
        let leaders: Vec<NodeRank> = {
            let suspects = self.core.lock().suspects();
            let candidates = self.node.forest.first().root_candidates();
            candidates.filter(|rank| !suspects.contains(rank)).collect()
        };
        let mut why = "no node that may lead it can be reached".to_owned();
        for leader in leaders {
            if leader == self.node.rank() {
                return self.lead(paths).await;
            }
            let request = JobMessage::LeadRefresh { paths: paths.clone() };
            match gather::ask::<Result<Refreshed, String>>(&self.node, leader, request, STEP_DEADLINE * 3).await {
                Ok(mut answer) if answer.len() == 1 => return answer.remove(0),
                Ok(_) => why = format!("node {leader} gave an invalid answer"),
                Err(error) => why = error,
            }
        }
        Err(format!("it is not certain that anything was refreshed: {why}; try again"))
    }

    async fn lead(&self, paths: Vec<ViewPath>) -> Result<Refreshed, String> {
        let begun = Instant::now();
        let _one_at_a_time = self.leading.lock().await;
        for attempt in 1..=ATTEMPTS_MAX {
            let epoch = self.next_epoch();
            let (reached, met) = self.lead_at(epoch, &paths).await;
            if met > epoch {
                tracing::info!(%epoch, %met, attempt, "nodes have met a later refresh: led anew");
                self.core.decide(|core, now| core.handle_epoch(now, met));
                continue;
            }
            let all = 0..self.node.options.nodes.len() as u32;
            let unreached: Vec<u32> = all.filter(|rank| !reached.contains(rank)).collect();
            let took_ms = begun.elapsed().as_secs_f64() * 1e3;
            tracing::info!(%epoch, ?unreached, took_ms, "refreshed");
            return Ok(Refreshed { epoch, reached: reached.len(), unreached, took_ms });
        }
        Err(format!("the refresh is incomplete: other refreshes interfered {ATTEMPTS_MAX} times; try again"))
    }

    /// Takes all steps on the whole job. Returns the nodes that took each, and the latest refresh met by those that
    /// refused the first or the second. When that is a later one, the next step has not been taken.
    async fn lead_at(&self, epoch: Epoch, paths: &[ViewPath]) -> (BTreeSet<u32>, Epoch) {
        let mut reached: Option<BTreeSet<u32>> = None;
        let mut met = Epoch::default();
        for step in [RefreshStep::Quiet, RefreshStep::Hold, RefreshStep::Release] {
            let taken = self.take_step_everywhere(epoch, step, paths.to_vec()).await;
            let all_before = reached.take();
            reached = Some(all_before.map_or_else(|| taken.reached.clone(), |before| &before & &taken.reached));
            if step != RefreshStep::Release {
                met = met.max(taken.met);
                if met > epoch {
                    // Held paths must not wait: a kernel cannot be told to forget what a program waits for.
                    if step == RefreshStep::Hold {
                        self.take_step_everywhere(epoch, RefreshStep::Release, paths.to_vec()).await;
                    }
                    break;
                }
            }
        }
        (reached.unwrap_or_default(), met)
    }

    /// A number above all that this node has met: by the time of day, since whoever leads may have been started after the last
    /// one. Of each run of numbers every node that may lead has its own, so that no two refreshes have the same.
    fn next_epoch(&self) -> Epoch {
        let today = self.node.environment.unix_time().as_millis() as u64;
        let least = today.max(self.core.lock().met_epoch().0.saturating_add(1));
        let leaders = self.node.forest.first().root_candidates();
        let count = leaders.clone().count() as u64;
        let place = leaders.take_while(|leader| *leader != self.node.rank()).count() as u64;
        Epoch(least.saturating_add((place + count - least % count) % count))
    }

    /// Takes a step on the whole job. A leader that is not the root takes it itself and below it also where the root, or a node
    /// between them, is lost; it may be asked for it as well, and taking a step twice is taking it.
    async fn take_step_everywhere(&self, epoch: Epoch, step: RefreshStep, paths: Vec<ViewPath>) -> Taken {
        let root = self.node.forest.first().root();
        let here = self.take_step(epoch, step, paths.clone(), STEP_DEADLINE);
        if root == self.node.rank() {
            return here.await;
        }
        let request = JobMessage::Refresh { epoch, step, paths };
        let known = self.core.lock().epoch();
        let all = gather::ask_from::<Taken>(Arc::clone(&self.node), known, root, request, STEP_DEADLINE);
        let (mut taken, others) = tokio::join!(here, all);
        others.answers.into_iter().for_each(|other| taken.add(other));
        taken
    }

    /// Takes a step here and below.
    async fn take_step(&self, epoch: Epoch, step: RefreshStep, paths: Vec<ViewPath>, left: Duration) -> Taken {
        let request = JobMessage::Refresh { epoch, step, paths: paths.clone() };
        let known = self.core.lock().epoch();
        let (below, here) = tokio::join!(
            gather::ask_children::<Taken>(&self.node, known, self.node.rank(), &request, left),
            self.step_here(epoch, step, paths)
        );
        let mut taken = match here {
            true => Taken { reached: BTreeSet::from([self.node.rank().0]), met: Epoch::START },
            false => Taken { reached: BTreeSet::new(), met: self.core.lock().met_epoch() },
        };
        below.answers.into_iter().for_each(|other| taken.add(other));
        taken
    }

    async fn step_here(&self, epoch: Epoch, step: RefreshStep, paths: Vec<ViewPath>) -> bool {
        self.backing.forget_descriptors();
        match step {
            RefreshStep::Quiet => {
                self.cache.distrust(&paths);
                let took = self.make_quiet(epoch, paths).await;
                if !took {
                    self.core.lock().handle_quiet_failed(epoch);
                }
                took
            }
            RefreshStep::Hold => self.core.decide(|core, now| core.handle_hold(now, epoch, paths)),
            RefreshStep::Release => {
                let release = |core: &mut ReadPath<_>, now| (core.handle_release(now, epoch), core.is_refreshing(now));
                let (took, another) = self.core.decide(release);
                if took && !another {
                    self.core.be_quiet(None);
                }
                took
            }
        }
    }

    /// From now on the kernel remembers nothing; what it remembers of `paths` it forgets, once it has been told all that it
    /// may remember. Twice: a program may still be taking in what the kernel has been told.
    async fn make_quiet(&self, epoch: Epoch, paths: Vec<ViewPath>) -> bool {
        if !self.core.decide(|core, now| core.handle_quiet(now, epoch, paths.clone())) {
            return false;
        }
        self.core.be_quiet(Some(QUIET_MAX));
        if tokio::time::timeout(TOLD_MAX, self.core.all_told()).await.is_err() {
            tracing::warn!("answers do not reach the kernel; the refresh passes this node over");
            return false;
        }
        let Some(notifier) = self.view.notifier() else {
            return true;
        };
        let core = Arc::clone(&self.core);
        let told = self.node.block(move || {
            (0..2).all(|_| {
                let stale = core.lock().stale_within(&paths);
                invalidate(&notifier, &stale)
            })
        });
        told.await == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use forebay_fuse::{Negotiated, Session, SessionOptions};
    use forebay_overlay::Forest;
    use rustix::io::Errno as OsErrno;
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

    use super::*;
    use crate::machine::Machine;
    use crate::options::DaemonOptions;
    use crate::read::parts::ReadParts;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// The only node of a job.
    fn read_parts(export: &Path) -> Arc<ReadParts> {
        let options = DaemonOptions {
            job: "test".to_owned(),
            rank: NodeRank(0),
            nodes: vec![forebay_launch::NodeAddress { host: "localhost".to_owned(), port: 1 }],
            ports: forebay_launch::Ports::default(),
            peer_subnets: vec![],
            level: forebay_wire::Level::Off,
            key: None,
            view: "/nowhere/view".into(),
            exports: vec![export.to_owned()],
            allow_other: false,
            roots: 1,
            fan_out: 2,
            stripe_fan_out: 2,
            has_homes: false,
            budget_bytes: 64 << 20,
            direct_above_bytes: None,
            backing_read_bytes: None,
            prefetch: false,
            profile: None,
            listing_entries_full: 4096,
            revalidate: None,
            deadline: PATIENCE,
            readers: 1,
            cores: Vec::new(),
            backing_concurrency: 4,
            job_directory: "/nowhere/job".into(),
            metrics_file: None,
            metrics_interval: PATIENCE,
            metrics_listen: None,
            labels: crate::options::JobLabels::default(),
            read_ahead_bytes: 0,
            links: None,
            report: None,
            burst: None,
            data: None,
            cache_store: None,
            kept: Default::default(),
        };
        ReadParts::new(&Node::new(options, Forest::single(1, 2).unwrap(), Machine::here().unwrap())).unwrap()
    }

    /// The kernel's side of a connection, and the daemon's.
    struct Kernel {
        ours: OwnedFd,
        daemons: Arc<OwnedFd>,
    }

    impl Kernel {
        fn new() -> Self {
            let flags = SocketFlags::CLOEXEC;
            let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
            Self { ours: pair.0, daemons: Arc::new(pair.1) }
        }

        /// Takes nothing more from the daemon.
        fn stop_taking(&self) {
            while rustix::net::send(&self.daemons, &[0; 16], SendFlags::DONTWAIT) != Err(OsErrno::AGAIN) {}
        }

        /// Looks a name in the view's root up (`struct fuse_in_header`, then the name).
        fn look_up(&self, unique: u64, name: &[u8]) {
            let mut request = ((40 + name.len() + 1) as u32).to_ne_bytes().to_vec();
            request.extend(1u32.to_ne_bytes());
            request.extend([unique, 1].map(u64::to_ne_bytes).concat());
            request.extend([0; 16]);
            request.extend(name);
            request.push(0);
            rustix::net::send(&self.ours, &request, SendFlags::empty()).unwrap();
        }

        /// For how many seconds the name may be believed that was looked up (`struct fuse_entry_out`).
        fn believes_for(&self, unique: u64) -> u64 {
            let word = |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            loop {
                let mut reply = [0; 4096];
                let (len, _) = rustix::net::recv(&self.ours, &mut reply[..], RecvFlags::empty()).unwrap();
                if word(&reply, 8) == unique {
                    assert!(len > 16, "it failed: {:?}", &reply[..len]);
                    return word(&reply, 16 + 16);
                }
            }
        }
    }

    #[test]
    fn the_kernel_counts_as_quiet_only_when_all_that_holds_for_ever_has_reached_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let export = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let (read, kernel) = (read_parts(export.path()), Kernel::new());
            let negotiated =
                Negotiated { minor: 31, flags: 0, offered: 0, max_background: 8, request_bytes_max: 1 << 20 };
            let options = SessionOptions { readers: 1, ..SessionOptions::default() };
            let session =
                Session::resume(Arc::clone(&kernel.daemons), negotiated, &options, None, read.handler()).unwrap();
            read.set_session(Arc::new(session));
            let first = export.path().components().nth(1).unwrap().as_os_str().as_encoded_bytes().to_owned();

            kernel.stop_taking();
            kernel.look_up(2, &first);
            let began = Instant::now();
            while read.core.lock().inode_count() < 2 {
                assert!(began.elapsed() < PATIENCE, "the name is not found");
                tokio::task::yield_now().await;
            }
            let mut quiet =
                Box::pin(read.refresh.make_quiet(Epoch(1), vec![ViewPath::new(b"elsewhere/unknown").unwrap()]));
            let early = tokio::time::timeout(Duration::from_millis(200), &mut quiet).await;
            assert!(early.is_err(), "an answer that holds for ever is on its way, and the step counts as taken");
            assert!(kernel.believes_for(2) > 1 << 32);
            assert!(quiet.await);
            kernel.look_up(4, &first);
            assert_eq!(kernel.believes_for(4), 0);
            drop(kernel.ours);
        });
    }
}
