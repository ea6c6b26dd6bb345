//! The daemon of one node: the core, and the shells that carry out what it decides.
//!
//! `service` holds the core, `effects` hands its decisions on; `kernel` brings the kernel's requests in and its answers
//! out, `peers` other nodes'; `fetch` carries questions to a parent or to the backing file system; `job` is what
//! concerns the job as a whole (status, shutdown, explain, probe), `control` the socket by which the command asks for
//! it, `ioctl` the same for programs on the view. Hits are answered on the thread that reads the kernel's request;
//! everything else runs on one network thread and on a bounded number of threads that may block in the backing file
//! system.

mod control;
mod directory;
mod effects;
mod entry;
mod fetch;
mod ioctl;
mod job;
mod kernel;
mod metrics;
mod notify;
mod peers;
mod pressure;
mod refresh;
mod service;
mod waiting;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use forebay_fuse::{Mount, MountOptions, Session, SessionOptions, mount};
use forebay_overlay::Forest;
use forebay_transport::{Address, Endpoint, EndpointOptions};
use forebay_types::NodeRank;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::options::DaemonOptions;
use crate::output;
use kernel::KernelHandler;
use peers::PeerService;
use service::Service;

/// How long the ends of connections and of the mount may take at shutdown before the process ends anyway.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// Runs the daemon until it is told to end; prints one line on standard output when its view answers.
///
/// # Errors
/// What kept it from starting: its exports, its port, its mount point. Nothing is left behind then.
pub fn run(options: DaemonOptions) -> anyhow::Result<()> {
    bind_to_cores(&options.cores)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(options.backing_concurrency.max(1))
        .thread_keep_alive(Duration::from_secs(2))
        .build()
        .context("starting the network runtime")?;
    let outcome = runtime.block_on(run_in_runtime(options));
    runtime.shutdown_timeout(SHUTDOWN_DEADLINE);
    outcome
}

async fn run_in_runtime(mut options: DaemonOptions) -> anyhow::Result<()> {
    let forest = Forest::single(options.nodes.len() as u32, options.fan_out)?;
    let listener = match options.listener.take() {
        Some(inherited) => inherited,
        None => listen(&options)?,
    };
    let options = Arc::new(options);
    let service = Service::new(&options, forest, effects::carry_out)?;
    let control = control::listen(&options)?;
    let endpoint =
        Endpoint::start(endpoint_options(&options, &service), listener, Arc::new(PeerService(Arc::clone(&service))))
            .context("starting the overlay endpoint")?;
    service.set_endpoint(endpoint.clone());
    // Before the view is mounted: a signal from now on ends the daemon in order, and never leaves the view behind.
    let mut signals = Signals::catch().context("catching signals")?;
    let mount = mount(&options.view, &mount_options(&options))?;
    let session = start_session(&options, &service, &mount)?;
    service.set_session(Arc::clone(&session));

    let ticker = tokio::spawn(service::tell_the_time(Arc::clone(&service)));
    let pressure = tokio::spawn(pressure::look_regularly(Arc::clone(&service)));
    let metrics = tokio::spawn(metrics::write_regularly(
        Arc::clone(&service),
        options.metrics_file.clone(),
        options.metrics_interval,
    ));
    let serving = tokio::spawn(control::serve(control, Arc::clone(&service)));
    print_ready(&options, mount.how());

    tokio::select! {
        () = service.until_told_to_end() => {}
        () = signals.come() => {}
    }
    tracing::info!("ending");
    [ticker, pressure, metrics, serving].iter().for_each(tokio::task::JoinHandle::abort);
    end(mount, session, &endpoint).await;
    let _ = std::fs::remove_file(control::socket_path(&options));
    Ok(())
}

/// Takes the view away first, so that no program can ask any more, then the connections.
async fn end(mount: Mount, session: Arc<Session>, endpoint: &Endpoint) {
    let unmounted = tokio::task::spawn_blocking(move || {
        if let Err(error) = mount.unmount() {
            tracing::warn!(%error, "unmounting the view");
        }
        session.stop();
    });
    if tokio::time::timeout(SHUTDOWN_DEADLINE, unmounted).await.is_err() {
        tracing::warn!("the readers of the kernel's requests did not end in time");
    }
    if tokio::time::timeout(SHUTDOWN_DEADLINE, endpoint.shutdown()).await.is_err() {
        tracing::warn!("the overlay's connections did not end in time");
    }
}

/// The signals that end a daemon; those that come before anybody waits are kept.
struct Signals([Signal; 3]);

impl Signals {
    fn catch() -> std::io::Result<Self> {
        let [terminate, interrupt, hangup] = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        Ok(Self([signal(terminate)?, signal(interrupt)?, signal(hangup)?]))
    }

    async fn come(&mut self) {
        let Self([terminate, interrupt, hangup]) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

fn listen(options: &DaemonOptions) -> anyhow::Result<TcpListener> {
    let port = options.nodes[options.rank.0 as usize].port;
    TcpListener::bind((options.bind, port)).with_context(|| {
        format!("cannot listen on {}:{port}: another program may use the port; choose one with --port", options.bind)
    })
}

fn endpoint_options(options: &DaemonOptions, service: &Service) -> EndpointOptions {
    let address = |node: &forebay_launch::NodeAddress| Address::Tcp { host: node.host.clone(), port: node.port };
    let addresses = options.nodes.iter().map(address).collect();
    let security = options.security.clone();
    EndpointOptions::new(options.job.clone(), options.rank, addresses, service.pool().clone(), security)
}

fn mount_options(options: &DaemonOptions) -> MountOptions {
    MountOptions {
        source: format!("forebay:{}", options.job),
        subtype: "forebay".to_owned(),
        read_only: true,
        allow_other: options.allow_other,
        default_permissions: true,
        read_ahead_bytes: options.read_ahead_bytes,
    }
}

fn start_session(options: &DaemonOptions, service: &Arc<Service>, mount: &Mount) -> anyhow::Result<Arc<Session>> {
    let session_options = SessionOptions {
        readers: options.readers,
        read_ahead_bytes: options.read_ahead_bytes,
        ..SessionOptions::default()
    };
    let handler = Arc::new(KernelHandler::new(Arc::clone(service)));
    let session = Session::start(mount.descriptor(), &session_options, handler);
    Ok(Arc::new(session.with_context(|| format!("starting the FUSE session of {}", options.view.display()))?))
}

fn print_ready(options: &DaemonOptions, how: &str) {
    let node = &options.nodes[options.rank.0 as usize];
    let ready = serde_json::json!({"ready": {
        "rank": options.rank.0, "pid": std::process::id(), "view": options.view.to_string_lossy(),
        "host": node.host, "port": node.port,
    }});
    tracing::info!(rank = options.rank.0, view = %options.view.display(), how, "ready");
    output::tell(&ready);
}

/// Binds the whole process to the cores given; all its threads are started later and inherit it.
fn bind_to_cores(cores: &[usize]) -> anyhow::Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    for core in cores {
        anyhow::ensure!(*core < rustix::thread::CpuSet::MAX_CPU, "--cores: there is no core {core}");
        set.set(*core);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .with_context(|| format!("--cores: binding to {cores:?}; see the cores of this process in /proc/self/status"))
}

/// The rank of the node that reads the backing file system for `forest`'s first tree.
fn root_of(forest: &Forest) -> NodeRank {
    forest.first().root()
}
