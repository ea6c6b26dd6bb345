//! The nodes of a job: each with a mount, a disk, and daemons that follow each other.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_daemon::{BurstOptions, Copied, DaemonOptions, DrainPolicy, Driver, Progress, WriteParts};
use forebay_fuse::{Negotiated, ProcessKernel, Session, SessionOptions};
use forebay_keeper::{Kept, burst_session_options};
use forebay_transport::life::Life;
use forebay_transport::memory::Network;
use forebay_transport::{Endpoint, EndpointOptions, Security};
use forebay_types::NodeRank;
use forebay_wire::Level;
use tokio::runtime::Handle;

use crate::log::note;
use crate::machine::Machine;
use crate::mount::Mount;
use crate::reached::{Reach, reached};
use crate::{files, turns};

/// How long a daemon's programs may wait, and what it asks of others.
const DEADLINE: Duration = Duration::from_secs(30);

/// How long what a daemon has taken may take when another follows it.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Of a segment of a log.
const SEGMENT_BYTES: u64 = 64 << 20;

/// How the nodes of a job are set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub nodes: usize,
    pub drain: DrainPolicy,
    pub is_copied: bool,
    /// Of each node's store. Every daemon begins one, so that it fills sooner or later.
    pub segments: u64,
}

/// A node.
pub struct Node {
    pub rank: usize,
    pub mount: Arc<Mount>,
    setup: Setup,
    root: PathBuf,
    network: Network,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    restarts: u32,
    replaced: u32,
    /// That have begun.
    daemons: u64,
    /// No daemon follows.
    is_lost: bool,
    /// When its mount was made.
    made_at_ms: u64,
}

/// Has the leader let everything land, within a time.
type Drain = Arc<dyn Fn(Duration) -> Option<Result<Progress, String>> + Send + Sync>;

struct Running {
    turns: turns::Life,
    life: Life,
    drain: Option<Drain>,
    is_ready: bool,
}

impl Node {
    pub fn new(rank: usize, setup: Setup, root: &Path, network: &Network) -> Arc<Self> {
        let node = Arc::new(Self {
            rank,
            mount: Arc::default(),
            setup,
            root: root.to_owned(),
            network: network.clone(),
            state: Mutex::default(),
        });
        node.boot();
        node.state().made_at_ms = 1 + turns::now_ns() / 1_000_000;
        node
    }

    /// The machine starts.
    fn boot(&self) {
        let identity = format!("{:08x}-0000-4000-8000-{:012x}\n", self.rank, turns::below(1 << 40));
        let _ = std::fs::write(self.root.join(format!("boot-{}", self.rank)), identity);
    }

    /// Its next daemon begins.
    pub fn start(self: &Arc<Self>) {
        let node = Arc::clone(self);
        std::thread::spawn(move || {
            let turns = turns::new_life();
            turns::join_life(turns);
            files::belongs(turns, node.rank);
            let ended = node.live(turns);
            // Its keeper begins the next one, which nobody ends before it has begun.
            turns::join_life(0);
            node.state().running = None;
            match ended {
                Ok(()) => {
                    note(|| format!("node {}: its daemon {turns} hands over", node.rank));
                    reached(Reach::DaemonHandedOver);
                    node.state().replaced += 1;
                }
                Err(error) => {
                    note(|| format!("node {}: its daemon does not begin: {error:#}", node.rank));
                    turns::sleep_ns(500_000_000);
                    node.state().restarts += 1;
                }
            }
            node.start();
        });
    }

    /// The life of a daemon, until another follows it.
    fn live(self: &Arc<Self>, turns: turns::Life) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let ended = runtime.block_on(self.serve(turns));
        runtime.shutdown_timeout(HAND_OVER);
        ended
    }

    async fn serve(self: &Arc<Self>, turns: turns::Life) -> anyhow::Result<()> {
        let life = Life::new();
        let (restarts, replaced, made_at_ms) = {
            let mut state = self.state();
            state.running = Some(Running { turns, life: life.clone(), drain: None, is_ready: false });
            state.daemons += 1;
            (state.restarts, state.replaced, state.made_at_ms)
        };
        note(|| format!("node {}: its daemon {turns} begins", self.rank));
        let kept = Kept { restarts, replaced, job_is_up: true, ..Kept::default() };
        let machine = Machine { life: life.clone(), runtime: Handle::current() };
        let driver = Driver::new(self.options(kept), Arc::new(machine))?;
        driver.open_burst(Path::new("/burst"), made_at_ms, None)?;
        let service = Driver::service(&driver.job(None));
        let pool = driver.node.pool.clone();
        let options = EndpointOptions::new("sim", NodeRank(self.rank as u32), vec![], pool, Security::Off);
        let options = EndpointOptions { life: Some(life), ..options };
        let endpoint = Endpoint::start_memory(options, &self.network, service);
        driver.set_endpoint(endpoint.clone());
        driver.set_session(Arc::new(view()?));
        let write = Arc::clone(driver.burst().ok_or_else(|| anyhow::anyhow!("there is no burst tier"))?);
        let options = burst_session_options(1);
        let (session, number) = self.mount.attach(&options)?;
        let session = Arc::new(session);
        write.set_session(&session);
        for _ in 0..options.readers {
            let (mount, session, handler) = (Arc::clone(&self.mount), Arc::clone(&session), write.handler());
            std::thread::spawn(move || {
                while let Some(request) = mount.next(number) {
                    session.take(&request, &handler);
                }
            });
        }
        write.start();
        let tasks = driver.start();
        if let Some(running) = &mut self.state().running {
            running.drain = Some(drain_of(&driver, &write));
        }
        if restarts + replaced == 0 {
            write.until_joined().await.map_err(|why| anyhow::anyhow!(why))?;
        }
        if let Some(running) = &mut self.state().running {
            running.is_ready = true;
        }
        driver.node.until_told_to_hand_over().await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let left = leave(driver, write, Arc::clone(&self.mount), session);
        let _ = tokio::time::timeout(5 * HAND_OVER, left).await;
        let _ = tokio::time::timeout(5 * HAND_OVER, endpoint.shutdown()).await;
        Ok(())
    }

    /// Its daemon dies. Whether there can be one.
    pub fn kill(self: &Arc<Self>) -> bool {
        if self.is_lost() {
            return false;
        }
        // One that is about to begin has begun first.
        let Running { turns, life, .. } = loop {
            let running = self.state().running.take();
            match running {
                Some(running) => break running,
                None => turns::sleep_ns(1_000_000),
            }
        };
        turns::stop(turns, true);
        note(|| format!("node {}: its daemon {turns} is dead", self.rank));
        self.mount.detach();
        files::unlock(turns);
        // Its connections are closed. Its locks stay held: no thread waits for the one that closes them.
        std::thread::spawn(move || life.kill());
        self.state().restarts += 1;
        true
    }

    /// Whether its daemon has said that it is ready.
    pub fn is_ready(&self) -> bool {
        self.state().running.as_ref().is_some_and(|running| running.is_ready)
    }

    /// Its daemon stands still, until what is returned is handed to `turns::go_on`.
    pub fn pause(&self) -> Option<turns::Life> {
        let turns = self.state().running.as_ref()?.turns;
        turns::stop(turns, false);
        Some(turns)
    }

    /// The machine loses power, with its daemon and its programs, and starts again.
    pub fn cut_power(self: &Arc<Self>) {
        self.kill();
        files::cut(self.rank);
        self.boot();
        self.next_mount();
    }

    /// Its job is over; the next one has a mount of its own.
    pub fn begin_anew(self: &Arc<Self>) {
        self.kill();
        self.next_mount();
    }

    fn next_mount(&self) {
        let mut state = self.state();
        (state.restarts, state.replaced) = (0, 0);
        state.made_at_ms = 1 + turns::now_ns() / 1_000_000;
    }

    /// Drops the requests of programs that have ended.
    pub fn forget_requests(&self) {
        self.mount.forget();
    }

    /// It is gone for ever, and its disk too.
    pub fn lose(self: &Arc<Self>) {
        self.kill();
        self.state().is_lost = true;
    }

    pub fn is_lost(&self) -> bool {
        self.state().is_lost
    }

    /// Whether daemons alone may have filled its store: each begins a segment, and has another one ready.
    pub fn may_be_full(&self) -> bool {
        2 * self.state().daemons >= self.setup.segments
    }

    /// Has the leader let everything land. How far it came; `None` where no daemon serves, or the leader does not answer.
    pub fn drain(&self, time: Duration) -> Option<Progress> {
        let drain = self.state().running.as_ref()?.drain.clone()?;
        drain(time)?.inspect_err(|why| note(|| format!("not drained: {why}"))).ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self, kept: Kept) -> DaemonOptions {
        let address = |rank: usize| forebay_launch::NodeAddress { host: format!("node{rank}"), port: 1 };
        DaemonOptions {
            job: "sim".to_owned(),
            rank: NodeRank(self.rank as u32),
            nodes: (0..self.setup.nodes).map(address).collect(),
            ports: forebay_launch::Ports::default(),
            peer_subnets: vec![],
            level: Level::Off,
            key: None,
            view: "/view".into(),
            exports: vec!["/".into()],
            allow_other: false,
            roots: 1,
            fan_out: 4,
            stripe_fan_out: 4,
            has_homes: false,
            budget_bytes: 64 << 20,
            direct_above_bytes: None,
            backing_read_bytes: None,
            prefetch: false,
            profile: None,
            listing_entries_full: 0,
            revalidate: None,
            deadline: DEADLINE,
            readers: 1,
            cores: vec![],
            backing_concurrency: 4,
            job_directory: "/job".into(),
            metrics_file: None,
            metrics_interval: Duration::MAX,
            metrics_listen: None,
            labels: forebay_daemon::JobLabels::default(),
            read_ahead_bytes: 0,
            links: None,
            report: None,
            burst: Some(BurstOptions {
                dir: "/burst".into(),
                backing: self.root.join("backing"),
                store: self.root.join(format!("store-{}", self.rank)),
                capacity_bytes: self.setup.segments * SEGMENT_BYTES,
                drain: self.setup.drain,
                drain_bytes_per_s: None,
                drain_operations_per_s: None,
                ends_at_ms: None,
                copied: if self.setup.is_copied { Copied::All } else { Copied::Nothing },
                switches: vec![],
            }),
            data: None,
            cache_store: None,
            kept,
        }
    }
}

fn drain_of(driver: &Driver, write: &Arc<WriteParts>) -> Drain {
    let (node, write) = (Arc::clone(&driver.node), Arc::clone(write));
    Arc::new(move |time| {
        let (pool, write, (done, drained)) = (Arc::clone(&node), Arc::clone(&write), channel());
        let drain = async move { write.drain_job(time).await };
        drop(node.spawn(async move { drop(done.send(pool.on_pool(drain).await)) }));
        // The daemon may end before.
        drained.recv().ok().flatten()
    })
}

/// A daemon leaves everything to the next one.
async fn leave(driver: Driver, write: Arc<WriteParts>, mount: Arc<Mount>, session: Arc<Session>) {
    let node = Arc::clone(&driver.node);
    drop(driver);
    #[expect(clippy::disallowed_methods, reason = "a simulated machine always has threads")]
    let left = tokio::task::spawn_blocking(move || {
        mount.detach();
        session.hand_over(HAND_OVER);
    });
    let _ = left.await;
    node.on_pool(async move { write.end(false).await }).await;
}

/// A session of the view, which nobody uses.
fn view() -> std::io::Result<Session> {
    struct Nobody;
    impl ProcessKernel for Nobody {
        fn take(&self, _: &[std::io::IoSlice<'_>]) -> std::io::Result<()> {
            Ok(())
        }
    }
    let negotiated = Negotiated { minor: 31, flags: 0, offered: 0, max_background: 64, request_bytes_max: 1 << 20 };
    Session::within(Arc::new(Nobody), negotiated, &SessionOptions::default())
}
