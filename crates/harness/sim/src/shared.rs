//! State that all events of a job share: the nodes, their fates, and the notes about them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_daemon::environment::AttemptId;
use forebay_daemon::{Driver, ProfileOptions, ReadCore, Refreshed};
use forebay_overlay::{Forest, Shape};
use forebay_transport::memory::Network;
use forebay_types::{Kind, NodeRank, Priority, Time, ViewPath};

use crate::NodeIndex;
use crate::cache_store::empty_disk;
use crate::check::Check;
use crate::faults::{Alteration, Fault};
use crate::history::{History, Versions};
use crate::model::Model;
use crate::node::{Host, Node, Running, Start};
use crate::program::{BUSY, new_name};
use crate::reached::Reach;
use crate::refreshes::Refreshes;
use crate::setup::Setup;
use crate::shown::Shown;
use crate::threads::Begins;
use crate::waits::Waits;
use crate::world::{LATENCY_MAX, World};

/// The longest that a request takes while nothing is wrong.
const CALM: Duration = Duration::from_secs(2);

/// State that any event of a job may need.
pub(crate) struct Shared {
    pub world: Arc<World>,
    pub setup: Setup,
    network: Network,
    profile: Option<ProfileOptions>,
    nodes: Mutex<Vec<Node>>,
    counts: Mutex<Counts>,
    pub waits: Waits,
    pub refreshes: Refreshes,
    /// Versions that nodes have shown.
    pub shown: Shown,
    /// Of the programs, every so many-th loses patience; none for 0.
    pub interrupt_every: AtomicUsize,
    /// How long after its first signal such a program gets the one that ends it, milliseconds.
    pub killed_after_ms: AtomicU64,
}

/// Results of programs.
#[derive(Default)]
pub(crate) struct Counts {
    pub failed: usize,
    pub stale: usize,
    pub longest: Duration,
    pub kept_bytes_max: u64,
}

impl Shared {
    /// The nodes of a job, which start now.
    pub fn start(model: &Model, setup: Setup, profile: Option<ProfileOptions>, seed: u64) -> Arc<Self> {
        let Setup { nodes, roots, fan_out, stripe_fan_out, has_homes, row_chunks, log, .. } = setup;
        let node_count = nodes as u32;
        let forest = Forest::new(Shape { node_count, roots, fan_out, stripe_fan_out, has_homes, row_chunks }).unwrap();
        let world = Arc::new(World::new(model, forest, seed, log));
        let latency = Arc::clone(&world);
        let network = Network::new(nodes as u32).with_latency(move |_, _| latency.latency());
        let shared = Arc::new(Self {
            world,
            setup,
            network,
            profile,
            nodes: Mutex::default(),
            counts: Mutex::default(),
            waits: Waits::default(),
            refreshes: Refreshes::default(),
            shown: Shown::default(),
            interrupt_every: AtomicUsize::new(0),
            killed_after_ms: AtomicU64::new(0),
        });
        for node in 0..nodes {
            let disk = setup.has_cache_stores.then(empty_disk);
            let host = Host::new(&shared.world, disk);
            let running = Some(shared.start_node(node, 0, &host));
            shared.nodes().push(Node { host: Some(host), running, ..Node::default() });
        }
        shared
    }

    fn start_node(self: &Arc<Self>, rank: NodeIndex, lives: u32, host: &Host) -> Running {
        let job = Arc::downgrade(self);
        let begins = Box::new(move || {
            let job = job.clone();
            let begins = move |attempt, priority| job.upgrade().and_then(|job| job.note_begin(rank, attempt, priority));
            Box::new(begins) as Begins
        });
        let profile = self.profile.clone();
        Running::start(Start {
            world: &self.world,
            network: &self.network,
            setup: &self.setup,
            profile,
            rank,
            lives,
            host,
            begins,
        })
    }

    /// Something goes wrong, or is mended.
    pub fn go_wrong(self: &Arc<Self>, fault: Fault) {
        self.world.note(|| format!("FAULT {fault:?}"));
        let now = self.world.now();
        {
            let mut state = self.world.state();
            state.was_broken |= fault.breaks_the_overlay();
            state.troubles.add(&fault, now);
        }
        let rank = |node: NodeIndex| NodeRank(node as u32);
        match fault {
            Fault::Crash(node) => self.crash(node),
            Fault::Die(node, away) => self.die(node, away),
            Fault::Restart(node) => self.restart(node),
            Fault::Pause(node) => self.pause(node),
            Fault::Resume(node) => self.resume(node),
            Fault::Slow(node, by) => self.network.slow(rank(node), by),
            Fault::Cut(from, to) => self.network.cut(rank(from), rank(to)),
            Fault::Mend(from, to) => self.network.mend(rank(from), rank(to)),
            Fault::Partition(first) => {
                self.network.mend_all();
                self.network.partition(&(0..first).map(rank).collect::<Vec<_>>());
            }
            Fault::Join => self.network.mend_all(),
            Fault::Change(number) => {
                let history = &mut self.world.state().history;
                let file = history.now.file(number);
                file.into_iter().for_each(|file| history.rewrite(now, &file, None));
            }
            Fault::Alter(what, number) => alter(&mut self.world.state().history, now, what, number),
            Fault::Refresh(number) => {
                let paths = self.world.state().history.now.subtrees(number);
                self.begin_refresh(paths);
            }
            Fault::SetBack(node, by) => drop(self.world.state().set_back.insert(node, by)),
            Fault::BackingHangs(lasts) => self.world.state().troubles.add_hang(None, now, now.after(lasts)),
            Fault::PathHangs(number, lasts) => {
                let state = &mut *self.world.state();
                let kind = if number.is_multiple_of(2) { Kind::File } else { Kind::Directory };
                let path = state.history.now.one_of(kind, number / 2);
                path.into_iter().for_each(|path| state.troubles.add_hang(Some(path), now, now.after(lasts)));
            }
            Fault::BackingFails(percent, lasts) => self.world.state().backing_fails = (percent, now.after(lasts)),
        }
    }

    fn crash(&self, node: NodeIndex) {
        self.resume(node);
        let (host, dead) = {
            let place = &mut self.nodes()[node];
            (place.host.take(), place.running.take())
        };
        self.nodes()[node].lives += u32::from(dead.is_some());
        host.iter().for_each(|host| host.life.kill());
        drop(dead);
        if let Some(disk) = host.and_then(|host| host.disk) {
            disk.lose_power(&mut || self.world.state().random.below(2) == 0);
            self.nodes()[node].disk = Some(disk);
        }
    }

    /// It may have been stopped when it was dead already; the new daemon runs.
    fn restart(self: &Arc<Self>, node: NodeIndex) {
        if self.nodes()[node].host.is_some() {
            return;
        }
        self.resume(node);
        let (disk, lives) = {
            let place = &mut self.nodes()[node];
            (place.disk.take(), place.lives)
        };
        let host = Host::new(&self.world, disk);
        let running = self.start_node(node, lives, &host);
        let place = &mut self.nodes()[node];
        (place.host, place.running) = (Some(host), Some(running));
    }

    /// No request is answered there until the next daemon runs. One that is stopped dies as well.
    fn die(self: &Arc<Self>, node: NodeIndex, away: Duration) {
        self.resume(node);
        let (host, dead) = {
            let place = &mut self.nodes()[node];
            (place.host.clone(), place.running.take())
        };
        let (Some(host), Some(dead)) = (host, dead) else { return };
        drop(dead);
        let lives = {
            let place = &mut self.nodes()[node];
            place.paused_since = Some(self.world.now());
            place.lives += 1;
            place.lives
        };
        self.world.note_reached(Reach::DaemonDied);
        let (job, life) = (Arc::clone(self), host.life.clone());
        tokio::spawn(life.gate(async move {
            tokio::time::sleep(away).await;
            let running = job.start_node(node, lives, &host);
            job.resume(node);
            job.nodes()[node].running = Some(running);
        }));
    }

    fn pause(&self, node: NodeIndex) {
        let place = &mut self.nodes()[node];
        place.paused_since.get_or_insert(self.world.now());
        place.running.iter().for_each(|running| running.life.pause());
        place.host.iter().for_each(|host| host.life.pause());
    }

    fn resume(&self, node: NodeIndex) {
        let place = &mut self.nodes()[node];
        if let Some(since) = place.paused_since.take() {
            place.paused += self.world.now().since(since);
        }
        place.running.iter().for_each(|running| running.life.resume());
        place.host.iter().for_each(|host| host.life.resume());
    }

    /// The first node that runs is told to refresh; whoever leads is its affair.
    fn begin_refresh(self: &Arc<Self>, paths: Vec<ViewPath>) {
        let runs = |node: &&Node| node.paused_since.is_none();
        let driver = self.nodes().iter().filter(runs).find_map(|node| {
            let running = node.running.as_ref()?;
            Some((running.life.clone(), Arc::clone(&running.driver)))
        });
        let Some((life, driver)) = driver else { return };
        let (job, seen) = (Arc::clone(self), self.world.state().history.versions());
        let refresh = self.world.state().troubles.begin_refresh(self.world.now());
        tokio::spawn(life.gate(async move {
            let outcome = driver.refresh(paths.clone()).await;
            job.world.state().troubles.end_refresh(refresh, job.world.now());
            job.end_refresh(outcome, paths, seen);
        }));
    }

    fn end_refresh(&self, outcome: Result<Refreshed, String>, paths: Vec<ViewPath>, seen: Versions) {
        self.world.note(|| format!("refresh of {paths:?}: {outcome:?}"));
        let is_broken = self.world.state().was_broken;
        match outcome {
            Ok(done) => {
                if !is_broken && !done.unreached.is_empty() {
                    let (epoch, unreached) = (done.epoch, &done.unreached);
                    self.world.note_wrong(
                        Check::Refresh,
                        &format!("refresh {epoch} names {unreached:?}, and nothing is broken"),
                    );
                }
                self.refreshes.add(done, paths, seen);
            }
            Err(_) if is_broken => {}
            Err(why) => {
                self.world.note_wrong(Check::Refresh, &format!("a refresh fails, and nothing is broken: {why}"))
            }
        }
    }

    /// An operation begins at a node. As prefetch it may only where no program has waited for it for long.
    fn note_begin(&self, node: NodeIndex, attempt: AttemptId, priority: Priority) -> Option<ViewPath> {
        let key = self.with_core(node, |core| core.key_of(attempt).cloned()).flatten();
        if priority == Priority::Demand {
            self.world.state().demand_count += 1;
            return key.map(|key| key.path().clone());
        }
        let key = key?;
        let depth_max = self.world.forest.trees().map(|tree| tree.depth_max()).max().unwrap_or(0);
        let unheard = self.waits.heard(&key, self.world.now(), 2 * LATENCY_MAX * (depth_max + 1));
        self.world.state().unheard.extend(unheard);
        Some(key.path().clone())
    }

    /// A program at a node makes a request.
    pub fn note_kept(&self, node: NodeIndex) {
        let kept_bytes = self.with_core(node, |core| core.kept_bytes()).unwrap_or(0);
        let mut counts = self.counts();
        counts.kept_bytes_max = counts.kept_bytes_max.max(kept_bytes);
    }

    /// How long a node was stopped so far.
    pub fn paused(&self, node: NodeIndex) -> Duration {
        let nodes = self.nodes();
        let now = nodes[node].paused_since.map_or(Duration::ZERO, |since| self.world.now().since(since));
        nodes[node].paused + now
    }

    /// How long a request about a path may have waited, by all that went wrong meanwhile.
    pub fn longest_wait(&self, about: &ViewPath, began: Time, now: Time) -> Duration {
        let mut state = self.world.state();
        // Where few operations are carried out at a time, those that hang are in the way of all others.
        let hung = match self.setup.turns {
            usize::MAX => state.troubles.hung(Some(about), began, now),
            _ => state.troubles.hung(None, began, now),
        };
        let broken = state.troubles.noticed_after(began, now) + state.troubles.held(began, now);
        if !hung.is_zero() {
            state.reached.count(Reach::HungPath);
        }
        CALM + hung + broken
    }

    /// Whether the caller of a program's requests loses patience.
    pub fn is_interrupted(&self, number: usize) -> bool {
        let every = self.interrupt_every.load(Ordering::Relaxed);
        every > 0 && number.is_multiple_of(every)
    }

    /// How long after its first signal such a program gets the one that ends it.
    pub fn killed_after(&self) -> Duration {
        Duration::from_millis(self.killed_after_ms.load(Ordering::Relaxed))
    }

    /// A request took so long.
    pub fn note_longest(&self, took: Duration) {
        let mut counts = self.counts();
        counts.longest = counts.longest.max(took);
    }

    /// Asks a node's core, if it runs.
    pub fn with_core<T>(&self, node: NodeIndex, ask: impl FnOnce(&ReadCore) -> T) -> Option<T> {
        let driver: Arc<Driver> = Arc::clone(&self.nodes()[node].running.as_ref()?.driver);
        let core = driver.core();
        Some(ask(&core))
    }

    /// Results of programs so far.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No request is sent to a node while they are held.
    pub fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes the tree where a number says.
fn alter(history: &mut History, at: Time, what: Alteration, number: u64) {
    let (first, second) = ((number >> 8) % BUSY, (number >> 32) % BUSY);
    let new = history.now.one_of(Kind::Directory, second).and_then(|dir| dir.join(&new_name(number)).ok());
    let kind = [Kind::File, Kind::File, Kind::Directory, Kind::Symlink][(number % 4) as usize];
    let some = history.now.one_of(kind, first);
    let (Some(new), Some(some), Some(file)) = (new, some, history.now.file(first)) else { return };
    let size_bytes = if number.is_multiple_of(5) { number % (3 << 20) } else { number % 50_000 };
    match what {
        Alteration::Resize => history.rewrite(at, &file, Some(size_bytes)),
        Alteration::Create => history.create(at, &new, kind, size_bytes),
        Alteration::Remove => history.remove(at, &some),
        Alteration::Rename => history.rename(at, &some, &new),
        Alteration::Link => history.link(at, &file, &new),
    }
}
