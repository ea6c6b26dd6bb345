//! The nodes of a job: daemons that live, stop, go on and die, each with a kernel of its own.

use std::sync::Arc;
use std::time::Duration;

use forebay_daemon::{DaemonOptions, Driver, ProfileOptions};
use forebay_keeper::Kept;
use forebay_transport::life::Life;
use forebay_transport::memory::Network;
use forebay_transport::{Endpoint, EndpointOptions, IncomingCall, Security, Service};
use forebay_types::{NodeRank, Time};
use forebay_wire::{Level, Message, ReadMessage};

use crate::NodeIndex;
use crate::kernel::Kernel;
use crate::machine::VirtualMachine;
use crate::setup::{DEADLINE, Setup};
use crate::threads::Begins;
use crate::world::World;

/// A node.
#[derive(Default)]
pub(crate) struct Node {
    /// Its daemon, while it runs.
    pub running: Option<Running>,
    /// How many daemons it has had before.
    pub lives: u32,
    /// Since when it is stopped.
    pub paused_since: Option<Time>,
    /// How long it was stopped in all.
    pub paused: Duration,
}

/// A daemon with its kernel.
pub(crate) struct Running {
    pub driver: Arc<Driver>,
    pub kernel: Arc<Kernel>,
    pub life: Life,
    _endpoint: Endpoint,
}

/// What a daemon is started with.
pub(crate) struct Start<'a> {
    pub world: &'a Arc<World>,
    pub network: &'a Network,
    pub setup: &'a Setup,
    pub profile: Option<ProfileOptions>,
    pub rank: NodeIndex,
    pub lives: u32,
    pub begins: Box<dyn Fn() -> Begins + Send + Sync>,
}

impl Running {
    /// Starts a daemon as `forebay_daemon::run` does.
    pub fn start(start: Start<'_>) -> Self {
        let Start { world, network, setup, profile, rank, lives, begins } = start;
        let (life, (kernel, session)) = (Life::new(), Kernel::new(world).unwrap());
        let (place, options) = ((rank, lives), options(setup, profile, rank, lives));
        let machine =
            VirtualMachine { world: Arc::clone(world), place, life: life.clone(), kernel: Arc::clone(&kernel), begins };
        let driver = Driver::new(options, Arc::new(machine)).unwrap();
        let service = Arc::new(Watched { world: Arc::clone(world), rank, service: Driver::service(&driver.job(None)) });
        let rank = NodeRank(rank as u32);
        let pool = driver.node.pool.clone();
        let options = EndpointOptions::new("sim", rank, Vec::new(), pool, Security::Off);
        let endpoint =
            Endpoint::start_memory(EndpointOptions { life: Some(life.clone()), ..options }, network, service);
        driver.set_endpoint(endpoint.clone());
        kernel.mount(&session, driver.handler());
        driver.set_session(session);
        driver.start();
        Self { driver: Arc::new(driver), kernel, life, _endpoint: endpoint }
    }
}

impl Drop for Running {
    /// It dies, and its kernel hears nothing more.
    fn drop(&mut self) {
        self.life.kill();
        self.kernel.unmount();
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
    let Setup { nodes, roots, fan_out, stripe_fan_out, budget_bytes, turns, .. } = *setup;
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
        budget_bytes,
        direct_above_bytes: None,
        prefetch: true,
        profile,
        listing_entries_full: 0,
        revalidate: None,
        deadline: DEADLINE,
        readers: 1,
        cores: Vec::new(),
        backing_concurrency: turns,
        job_directory: "/job".into(),
        metrics_file: None,
        metrics_interval: Duration::MAX,
        read_ahead_bytes: 0,
        links: None,
        report: None,
        burst: None,
        data: None,
        kept: Kept { restarts: lives, job_is_up: true, ..Kept::default() },
    }
}
