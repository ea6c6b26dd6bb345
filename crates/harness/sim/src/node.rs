//! The nodes of a job: daemons that live, stop, go on and die, each with a kernel of its own.

use std::sync::Arc;
use std::time::Duration;

use forebay_chunk_store::MemoryDisk;
use forebay_daemon::{DaemonOptions, Driver, ProfileOptions};
use forebay_keeper::Kept;
use forebay_transport::life::Life;
use forebay_transport::memory::Network;
use forebay_transport::{Endpoint, EndpointOptions, IncomingCall, Security, Service};
use forebay_types::{CHUNK_BYTES, NodeRank, Time};
use forebay_wire::{Level, Message, ReadMessage};

use crate::NodeIndex;
use crate::kept_inodes::KeptInodes;
use crate::kernel::Kernel;
use crate::machine::VirtualMachine;
use crate::setup::{DEADLINE, Setup};
use crate::threads::Begins;
use crate::world::World;

/// A node.
#[derive(Default)]
pub(crate) struct Node {
    /// The host, which outlives its daemons, while it is there.
    pub host: Option<Host>,
    /// Its daemon, while it runs.
    pub running: Option<Running>,
    /// How many daemons it has had before.
    pub lives: u32,
    /// The disk of its cache store while there is no host.
    pub disk: Option<MemoryDisk>,
    /// Since when nothing is answered there: it is stopped, or has no daemon.
    pub paused_since: Option<Time>,
    /// How long that was so in all.
    pub paused: Duration,
}

/// The parts of a node that outlive its daemons: the programs, the kernel, and the inodes that the kernel knows, which a keeper holds.
#[derive(Clone)]
pub(crate) struct Host {
    /// Of its programs.
    pub life: Life,
    pub kernel: Arc<Kernel>,
    pub inodes: KeptInodes,
    /// The disk of its cache store, if it has one.
    pub disk: Option<MemoryDisk>,
}

/// A daemon.
pub(crate) struct Running {
    pub driver: Arc<Driver>,
    pub life: Life,
    kernel: Arc<Kernel>,
    _endpoint: Endpoint,
}

/// The parameters that a daemon starts with.
pub(crate) struct Start<'a> {
    pub world: &'a Arc<World>,
    pub network: &'a Network,
    pub setup: &'a Setup,
    pub profile: Option<ProfileOptions>,
    pub rank: NodeIndex,
    pub lives: u32,
    pub host: &'a Host,
    pub begins: Box<dyn Fn() -> Begins + Send + Sync>,
}

impl Host {
    /// A host where nothing runs yet.
    pub fn new(world: &Arc<World>, disk: Option<MemoryDisk>) -> Self {
        Self { life: Life::new(), kernel: Kernel::new(world), inodes: KeptInodes::default(), disk }
    }
}

impl Running {
    /// Starts a daemon as `forebay_daemon::run` does.
    pub fn start(start: Start<'_>) -> Self {
        let Start { world, network, setup, profile, rank, lives, host, begins } = start;
        let (life, kernel) = (Life::new(), Arc::clone(&host.kernel));
        let session = kernel.session().unwrap();
        let (place, options) = ((rank, lives), options(setup, profile, rank, lives));
        let machine = VirtualMachine {
            world: Arc::clone(world),
            place,
            life: life.clone(),
            kernel: Arc::clone(&kernel),
            direct_above_bytes: setup.direct_above_bytes,
            disk: host.disk.clone(),
            begins,
        };
        let driver = Driver::new(options, Arc::new(machine)).unwrap();
        let (ledger, known) = host.inodes.hand_over();
        driver.core().keep_inodes(ledger, known);
        let service = Arc::new(Watched { world: Arc::clone(world), rank, service: Driver::service(&driver.job(None)) });
        let rank = NodeRank(rank as u32);
        let pool = driver.node.pool.clone();
        let options = EndpointOptions::new("sim", rank, Vec::new(), pool, Security::Off);
        let endpoint =
            Endpoint::start_memory(EndpointOptions { life: Some(life.clone()), ..options }, network, service);
        driver.set_endpoint(endpoint.clone());
        driver.set_session(Arc::clone(&session));
        kernel.attach(&session, driver.handler());
        driver.start();
        Self { driver: Arc::new(driver), life, kernel, _endpoint: endpoint }
    }
}

impl Drop for Running {
    /// It dies, and its kernel hears nothing more of it.
    fn drop(&mut self) {
        self.kernel.detach();
        self.life.kill();
        self.driver.end();
    }
}

/// A service that is listened to.
struct Watched {
    world: Arc<World>,
    rank: NodeIndex,
    service: Arc<dyn Service>,
}

impl Service for Watched {
    fn handle(&self, call: IncomingCall) {
        self.world.note(|| format!("node {} is asked by node {}: {:?}", self.rank, call.from, call.request.message));
        if let Message::Read(message) = &call.request.message {
            let mut state = self.world.state();
            state.messages += 1;
            state.bundles += usize::from(matches!(message, ReadMessage::Bundle { .. }));
        }
        self.service.handle(call);
    }
}

fn options(setup: &Setup, profile: Option<ProfileOptions>, rank: NodeIndex, lives: u32) -> DaemonOptions {
    let Setup { nodes, roots, fan_out, stripe_fan_out, has_homes, row_chunks, budget_bytes, turns, revalidate, .. } =
        *setup;
    let direct_above_bytes = setup.direct_above_bytes;
    let address = |rank: usize| forebay_launch::NodeAddress { host: format!("node{rank}"), port: 1 };
    DaemonOptions {
        job: "sim".to_owned(),
        rank: NodeRank(rank as u32),
        nodes: (0..nodes).map(address).collect(),
        ports: forebay_launch::Ports::default(),
        peer_subnets: vec![],
        level: Level::Off,
        key: None,
        view: "/view".into(),
        exports: vec!["/".into()],
        allow_other: false,
        roots,
        fan_out,
        stripe_fan_out,
        has_homes,
        budget_bytes,
        direct_above_bytes,
        backing_read_bytes: Some(row_chunks * CHUNK_BYTES),
        prefetch: true,
        profile,
        listing_entries_full: 0,
        revalidate,
        deadline: DEADLINE,
        readers: 1,
        cores: Vec::new(),
        backing_concurrency: turns,
        job_directory: "/job".into(),
        metrics_file: None,
        metrics_interval: Duration::MAX,
        metrics_listen: None,
        labels: forebay_daemon::JobLabels::default(),
        read_ahead_bytes: 0,
        links: None,
        report: None,
        burst: None,
        data: None,
        cache_store: None,
        kept: Kept { restarts: lives, job_is_up: true, ..Kept::default() },
    }
}
