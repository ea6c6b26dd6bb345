//! A job in virtual time: its nodes, its programs, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_cache::ObjectKind;
use forebay_daemon::{ReadCore, Refreshed};
use forebay_types::{NodeRank, Time};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::NodeIndex;
use crate::check::Check;
use crate::faults::Fault;
use crate::model::Model;
use crate::profile::write_profile;
use crate::program::Program;
use crate::reached::{Reach, Reached};
use crate::setup::Setup;
use crate::shared::Shared;
use crate::walk::Walk;
use crate::world::Asked;

/// How long programs may run: some times what those of any test take, with all their requests at their time limits.
const LONGEST: Duration = Duration::from_secs(3600);

/// A job. It stands still but for `run` and `settle`.
pub struct Job {
    shared: Arc<Shared>,
    runtime: Runtime,
    programs: usize,
    /// Where the profile lies.
    _home: Option<tempfile::TempDir>,
}

impl Job {
    /// A job that has just started.
    #[must_use]
    pub fn new(model: &Model, setup: Setup, seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let home = setup.prefill.then(|| tempfile::tempdir().unwrap());
        let profile = home.as_ref().map(|home| write_profile(model, home.path()));
        let shared = runtime.block_on(async { Shared::start(model, setup, profile, seed) });
        Self { shared, runtime, programs: 0, _home: home }
    }

    /// Lets the caller of every so many-th program lose patience.
    pub fn interrupt_every(&mut self, count: usize) {
        self.shared.interrupt_every.store(count, Ordering::Relaxed);
    }

    /// Lets these programs first get a signal that ends none, and so many milliseconds later the one that does.
    pub fn kill_after_ms(&mut self, ms: u64) {
        self.shared.killed_after_ms.store(ms, Ordering::Relaxed);
    }

    /// Lets no daemon see any program from now on.
    pub fn hide_programs(&mut self) {
        let nodes = self.shared.nodes();
        nodes.iter().filter_map(|node| node.host.as_ref()).for_each(|host| host.kernel.hide_programs());
    }

    /// How long the state of the whole job takes, asked of the daemon of a node.
    pub fn status_takes(&mut self, node: NodeIndex) -> Duration {
        let driver = self.shared.nodes()[node].running.as_ref().map(|running| Arc::clone(&running.driver)).unwrap();
        let began = self.now();
        self.runtime.block_on(async { drop(driver.job(None).status().await) });
        self.now().since(began)
    }

    /// Lets so many operations in a hundred at the backing file system fail from now on.
    pub fn let_backing_fail(&mut self, percent: u64) {
        self.shared.world.state().backing_fails = (percent, Time(u64::MAX));
    }

    /// Lets a fault happen at a time.
    pub fn plan(&mut self, at: Time, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            tokio::time::sleep_until(shared.world.instant(at)).await;
            shared.go_wrong(fault);
        });
    }

    /// Runs programs beside those that run already, until all have ended.
    pub fn run(&mut self, programs: Vec<Program>) {
        let shared = Arc::clone(&self.shared);
        let numbers = self.programs..self.programs + programs.len();
        self.programs = numbers.end;
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for (number, program) in numbers.zip(programs) {
                running.spawn(run_program(Arc::clone(&shared), number, program));
            }
            let all = async { while running.join_next().await.is_some() {} };
            if tokio::time::timeout(LONGEST, all).await.is_err() {
                shared.world.note_wrong(Check::Stall, "programs wait for ever");
            }
        });
    }

    /// Lets time pass after the programs have ended, and names the nodes that still ask for something.
    pub fn settle(&mut self, time: Duration) -> Vec<String> {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
        let nodes = self.shared.nodes();
        let running = nodes.iter().enumerate().filter(|(_, node)| node.paused_since.is_none());
        let under_way =
            running.filter_map(|(index, node)| Some((index, node.running.as_ref()?.driver.core().under_way())));
        let asking = under_way.filter(|(_, count)| *count > 0);
        asking.map(|(node, count)| format!("node {node} asks for ever: {count}")).collect()
    }

    /// Violations that checks have found.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        self.shared.world.state().wrong.clone()
    }

    /// Requests that ended with an error that was put in.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.shared.counts().failed
    }

    /// Requests that were told that a file is another version now.
    #[must_use]
    pub fn stale(&self) -> usize {
        self.shared.counts().stale
    }

    /// The longest time that a request took.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.shared.counts().longest
    }

    /// The most bytes that a node kept while a program made a request there.
    #[must_use]
    pub fn kept_bytes_max(&self) -> u64 {
        self.shared.counts().kept_bytes_max
    }

    /// Requests of the read path between nodes.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.shared.world.state().messages
    }

    /// Bundles among them.
    #[must_use]
    pub fn bundles(&self) -> usize {
        self.shared.world.state().bundles
    }

    /// Chunks that a node keeps.
    #[must_use]
    pub fn kept_chunks(&self, node: NodeIndex) -> u64 {
        self.shared.with_core(node, |core| core.kept(ObjectKind::Chunks).entries).unwrap_or(0)
    }

    /// Parcels that the profile is cut into.
    #[must_use]
    pub fn parcels_count(&self) -> u64 {
        let nodes = self.shared.nodes();
        let counts = nodes.iter().filter_map(|node| node.running.as_ref()?.driver.parcel_count());
        counts.max().unwrap_or(0) as u64
    }

    /// Refreshes that took all their steps, wherever they could be reached.
    #[must_use]
    pub fn refreshes_completed(&self) -> usize {
        self.shared.refreshes.count()
    }

    /// The outcomes of refreshes.
    #[must_use]
    pub fn refreshed(&self) -> Vec<Refreshed> {
        self.shared.refreshes.all()
    }

    /// Operations at the backing file system that began for a program.
    #[must_use]
    pub fn demand_turns(&self) -> u64 {
        self.shared.world.state().demand_count
    }

    /// Operations for which a program waited, and which began as what nobody waits for.
    #[must_use]
    pub fn unheard(&self) -> Vec<String> {
        self.shared.world.state().unheard.clone()
    }

    /// Objects that the backing file system answered more than once, though no kernel asked for them twice.
    #[must_use]
    pub fn asked_more_than_once(&self) -> Vec<String> {
        let state = self.shared.world.state();
        let often = state.asked.iter().filter(|(_, asked)| asked.readers.values().sum::<u32>() > 1);
        let often = often.filter(|(what, _)| !state.asked_by_kernels_twice.contains(*what));
        often.map(|(what, _)| what.clone()).collect()
    }

    /// The nodes that read the backing file system.
    #[must_use]
    pub fn readers(&self) -> BTreeSet<NodeIndex> {
        let state = self.shared.world.state();
        state.asked.values().flat_map(|asked| asked.readers.keys().map(|(node, _)| *node)).collect()
    }

    pub(crate) fn asked(&self) -> BTreeMap<String, Asked> {
        self.shared.world.state().asked.clone()
    }

    pub(crate) fn node_count(&self) -> usize {
        self.shared.setup.nodes
    }

    /// Whether any node bypasses this one.
    #[must_use]
    pub fn is_suspected(&self, node: NodeIndex) -> bool {
        let suspects = |at| self.shared.with_core(at, |core| core.suspects().contains(&NodeRank(node as u32)));
        (0..self.node_count()).any(|at| suspects(at) == Some(true))
    }

    /// The time in the job.
    #[must_use]
    pub fn now(&self) -> Time {
        let _runtime = self.runtime.enter();
        self.shared.world.now()
    }

    /// A sum over the nodes that run.
    pub fn sum(&self, count: impl Fn(&ReadCore) -> u64) -> u64 {
        (0..self.node_count()).filter_map(|node| self.shared.with_core(node, &count)).sum()
    }

    /// Events that the history reached, counted where nodes run.
    #[must_use]
    pub fn reached(&self) -> Reached {
        let mut reached = self.shared.world.state().reached.clone();
        for kind in [ObjectKind::Attributes, ObjectKind::Listings, ObjectKind::Chunks] {
            reached.add(Reach::Evicted, self.sum(|core| core.kept(kind).evicted));
        }
        reached.add(Reach::Refreshed, self.refreshes_completed() as u64);
        reached.add(Reach::MadeUp, self.sum(|core| core.counters().refreshes_missed));
        reached.add(Reach::FailedOver, self.sum(|core| core.counters().dispatch.failovers));
        reached.add(Reach::Hedged, self.sum(|core| core.counters().dispatch.hedged));
        reached.add(Reach::Parcel, self.sum(|core| core.counters().parcels));
        reached
    }

    /// The log, line by line, if it was written down.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.shared.world.state().log.clone()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The nodes hold what holds them.
        let nodes = std::mem::take(&mut *self.shared.nodes());
        let _runtime = self.runtime.enter();
        drop(nodes);
    }
}

async fn run_program(job: Arc<Shared>, number: usize, program: Program) {
    tokio::time::sleep_until(job.world.instant(program.starts)).await;
    let place = {
        let nodes = job.nodes();
        nodes[program.node].host.as_ref().map(|host| (host.life.clone(), Arc::clone(&host.kernel)))
    };
    // No program runs where no host is.
    let Some((life, kernel)) = place else { return };
    let walk = Walk { job: Arc::clone(&job), kernel, program, number };
    // It dies with its host.
    let _ = life.gate(walk.run()).await;
    job.waits.end(number);
}
