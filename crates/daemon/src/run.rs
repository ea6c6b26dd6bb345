//! The life of a daemon: it prepares, takes over what its keeper holds, serves, and ends.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use forebay_fuse::{KeptRequests, Mount, Negotiated, Session};
use forebay_keeper::{ExitReason, HandedMount, Handoff, Link, burst_session_options, hear_endings, session_options};
use forebay_transport::{Address, Endpoint, EndpointOptions};
use forebay_types::CHUNK_BYTES;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::driver::Driver;
use crate::job::requests::Job;
use crate::job::{control, last_status, metrics, metrics_server, sampling};
use crate::machine::Machine;
use crate::options::DaemonOptions;
use crate::read::ReadParts;
use crate::shared::node::Node;
use crate::shared::readiness::Starting;
use crate::write::WriteParts;

/// How long a daemon that is replaced may go on answering what it has taken. The next daemon answers the rest.
const HAND_OVER_DRAIN: Duration = Duration::from_secs(1);

/// How long the ends of connections and of the mount may take at shutdown before the process ends anyway.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// Runs the daemon until it is told to end, by its keeper or otherwise.
///
/// # Errors
/// The fault that kept it from serving: its exports, or the descriptors of its keeper.
pub fn run(options: DaemonOptions, link: &Link) -> anyhow::Result<ExitReason> {
    bind_to_cores(&options.cores)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the network runtime")?;
    let machine = {
        let _in = runtime.enter();
        // A write beyond the limit of a file's size (`ulimit -f`) fails then, and ends no daemon.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).context("catching SIGXFSZ")?);
        Machine::here().context("starting threads for calls that may block")?
    };
    let outcome = runtime.block_on(run_in_runtime(options, link, &machine));
    let within = outcome.as_ref().map_or(Some(SHUTDOWN_DEADLINE), |(_, within)| *within);
    if !within.is_some_and(|within| machine.end(within)) {
        // The process ends. Threads that wait would find the timers gone, and panic.
        std::mem::forget(runtime);
    }
    outcome.map(|(reason, _)| reason)
}

/// Why the daemon ends, and how long work that blocks may go on then: `None` where nothing is ended before the process is.
async fn run_in_runtime(
    options: DaemonOptions,
    link: &Link,
    machine: &Arc<Machine>,
) -> anyhow::Result<(ExitReason, Option<Duration>)> {
    let driver = Driver::new(options, Arc::clone(machine) as _)?;
    let (node, read) = (Arc::clone(&driver.node), Arc::clone(&driver.read));
    // A signal from now on ends the daemon in order, and never leaves the view behind.
    let mut signals = Signals::catch().context("catching signals")?;
    let Some(handoff) = link.stand_by()? else {
        return Ok((ExitReason::End, Some(SHUTDOWN_DEADLINE)));
    };
    let Handoff { view, burst, peers, control, inodes, kernel_leases } = handoff;
    let HandedMount { mount, how, negotiated, requests, .. } = view;
    let _ = node.view_made_by.set(how);
    read.keep_inodes(inodes)?;
    let control = control::adopt(control)?;
    let starting = Starting::new(&node, link, Arc::clone(&read.core) as _);
    let unserved = open_store(&driver, burst.as_ref(), kernel_leases)?;
    let job = driver.job(starting.clone());
    let service = Driver::service(&job);
    let endpoint =
        Endpoint::start(endpoint_options(&node)?, peers, service).context("starting the overlay endpoint")?;
    driver.set_endpoint(endpoint.clone());
    let session = resume_session(&driver, &mount, negotiated, requests)?;
    driver.set_session(Arc::clone(&session));
    let burst = BurstSession::begin(&driver, burst)?;

    let mut tasks = driver.start();
    tasks.extend(look_regularly(&job));
    tasks.extend([
        tokio::spawn(say_alive(link.clone(), Arc::clone(&read))),
        tokio::spawn(control::serve(control, Arc::clone(&job))),
        tokio::spawn(metrics_server::start(&node, &job).await?),
    ]);
    until_joined(&node, burst.as_ref()).await?;
    tracing::info!(rank = node.rank().0, view = %node.options.view.display(), how = node.view_made_by.get(), "ready");
    unserved.serves();
    link.ready();
    node.note_serving();
    tasks.extend(starting.map(|starting| tokio::spawn(starting.take_part())));

    let (reason, by_down) = tokio::select! {
        () = node.until_told_to_end() => (ExitReason::End, true),
        () = node.until_told_to_hand_over() => (ExitReason::HandOver, false),
        () = signals.come() => (ExitReason::End, false),
        told = link.until_told()? => (told.unwrap_or(ExitReason::Orphaned), false),
    };
    tracing::info!(?reason, "ending");
    tasks.iter().for_each(JoinHandle::abort);
    read.prefill.end(reason == ExitReason::End).await;
    drop(driver);
    let ended = (reason != ExitReason::HandOver).then_some(job);
    let within = end_all(reason, &node, burst, (mount, session), &endpoint).await;
    if let Some(job) = ended {
        last_status::keep_at_end(job, by_down).await;
        link.leaves();
    }
    Ok((reason, within))
}

/// Writes metrics, samples the history and keeps the last status.
fn look_regularly(job: &Arc<Job>) -> [JoinHandle<()>; 3] {
    let parts = || (Arc::clone(&job.node), Arc::clone(&job.read), job.write.clone());
    let ((node, read, write), sampler) = (parts(), Arc::clone(&job.sampler));
    let sampled = tokio::spawn(sampling::sample_regularly(sampler, node, read, write));
    let (node, read, write) = parts();
    let kept = tokio::spawn(last_status::keep_regularly(Arc::clone(job)));
    [tokio::spawn(metrics::write_regularly(node, read, write)), sampled, kept]
}

/// Ends the mounts and the connections. How long work that blocks may go on then, as `run_in_runtime` has it.
async fn end_all(
    reason: ExitReason,
    node: &Node,
    burst: Option<BurstSession>,
    (mount, session): (Mount, Arc<Session>),
    endpoint: &Endpoint,
) -> Option<Duration> {
    if let Some(burst) = burst {
        if reason == ExitReason::HandOver && burst.write.is_leaving() {
            burst.leave(&session);
            return None;
        }
        burst.end(reason, node).await;
    }
    match reason {
        ExitReason::HandOver => {
            hand_over(session, node, endpoint).await;
            // Work for the kernel that a hung file system holds up must not keep the next daemon from starting.
            Some(HAND_OVER_DRAIN)
        }
        ExitReason::End | ExitReason::Orphaned => {
            end(mount, session, node, endpoint).await;
            Some(SHUTDOWN_DEADLINE)
        }
    }
}

/// Opens the store of a node that has a burst mount. Not before the mount is handed over: the daemon before had the store.
fn open_store(driver: &Driver, burst: Option<&HandedMount>, kernel_leases: OwnedFd) -> anyhow::Result<Unserved> {
    if let Some(burst) = burst {
        driver.open_burst(burst.mount.dir(), burst.made_at_ms, Some(kernel_leases))?;
    }
    Ok(Unserved(driver.burst().filter(|_| driver.node.options.kept.is_first()).cloned()))
}

/// The burst tier of a node's first daemon until that serves. A start that fails before leaves no empty store, which the next job would be refused for.
struct Unserved(Option<Arc<WriteParts>>);

impl Unserved {
    fn serves(mut self) {
        self.0 = None;
    }
}

impl Drop for Unserved {
    fn drop(&mut self) {
        self.0.iter().for_each(|write| write.never_served());
    }
}

/// The first daemon of a node is ready when what an earlier job left in the node's store is everybody's.
async fn until_joined(node: &Node, burst: Option<&BurstSession>) -> anyhow::Result<()> {
    let Some(burst) = burst.filter(|_| node.options.kept.is_first()) else { return Ok(()) };
    burst.write.until_joined().await.map_err(|why| anyhow::anyhow!(why)).context("the burst tier")
}

/// The burst mount while it is served.
struct BurstSession {
    mount: Mount,
    session: Session,
    write: Arc<WriteParts>,
}

impl BurstSession {
    /// Of a node that has one.
    fn begin(driver: &Driver, handed: Option<HandedMount>) -> anyhow::Result<Option<Self>> {
        let (Some(handed), Some(write)) = (handed, driver.write.get()) else { return Ok(None) };
        let HandedMount { mount, negotiated, requests, .. } = handed;
        let failed = || format!("serving {}", mount.dir().display());
        let options = burst_session_options(driver.node.options.readers);
        let session = Session::resume(mount.descriptor(), negotiated, &options, requests, write.handler());
        let session = session.with_context(failed)?;
        invalidate_by_process(&session, &driver.node.options)?;
        write.set_session(&session);
        write.start();
        Ok(Some(Self { mount, session, write: Arc::clone(write) }))
    }

    /// Leaves everything to the next daemon as if this one had died, the view too: programs wait for what only that one is. So none of the
    /// daemon's other threads is waited for, and its requests of other nodes and theirs are asked again.
    fn leave(self, view: &Session) {
        [&self.session, view].into_iter().for_each(Session::leave);
    }

    /// Ends it, so that another daemon can go on or nothing is left.
    async fn end(self, reason: ExitReason, node: &Node) {
        let Self { mount, session, write } = self;
        let is_last = reason != ExitReason::HandOver;
        let ended = async {
            if is_last {
                write.retire();
                let _ = write.flush().await;
            }
            let of_mount = Arc::clone(&write);
            let left = node.block(move || match is_last {
                true => end_session(mount, &session, || of_mount.end_lock_waits()),
                false => session.hand_over(HAND_OVER_DRAIN),
            });
            left.await;
            node.on_pool(async move { write.end(is_last).await }).await;
        };
        if tokio::time::timeout(SHUTDOWN_DEADLINE, ended).await.is_err() {
            tracing::warn!("the burst mount did not end in time");
        }
    }
}

/// Tells the keeper regularly that the network thread runs and the core can be had: a daemon that hangs is killed.
async fn say_alive(link: Link, read: Arc<ReadParts>) {
    let mut ticks = tokio::time::interval(forebay_keeper::limits::DAEMON_WORD_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        drop(read.core.lock());
        link.alive();
    }
}

/// Takes no more requests and answers what is in flight; what is not answered in time is left to the next daemon.
async fn hand_over(session: Arc<Session>, node: &Node, endpoint: &Endpoint) {
    let drained = node.block(move || session.hand_over(HAND_OVER_DRAIN));
    if tokio::time::timeout(SHUTDOWN_DEADLINE, drained).await.is_err() {
        tracing::warn!("the readers of the kernel's requests did not end");
    }
    if tokio::time::timeout(SHUTDOWN_DEADLINE, endpoint.shutdown()).await.is_err() {
        tracing::warn!("the overlay's connections did not end in time");
    }
}

/// Takes the view away first, so that no program can ask any more, then the connections.
async fn end(mount: Mount, session: Arc<Session>, node: &Node, endpoint: &Endpoint) {
    let unmounted = node.block(move || end_session(mount, &session, || ()));
    if tokio::time::timeout(SHUTDOWN_DEADLINE, unmounted).await.is_err() {
        tracing::warn!("the readers of the kernel's requests did not end in time");
    }
    if tokio::time::timeout(SHUTDOWN_DEADLINE, endpoint.shutdown()).await.is_err() {
        tracing::warn!("the overlay's connections did not end in time");
    }
}

/// Takes a mount away and ends its session. Afterwards no program waits for an answer: what was not answered has failed.
fn end_session(mount: Mount, session: &Session, end_waits: impl FnOnce()) {
    let (dir, connection) = (mount.dir().to_owned(), mount.connection());
    if let Err(error) = mount.unmount() {
        tracing::warn!(dir = %dir.display(), %error, "unmounting");
    }
    end_waits();
    session.stop();
    connection.abort();
    session.disconnect();
}

/// The signals that end a daemon; those that come before anybody waits are kept.
struct Signals([Signal; 3]);

impl Signals {
    fn catch() -> std::io::Result<Self> {
        let [terminate, interrupt, hangup] = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let signals = Self([signal(terminate)?, signal(interrupt)?, signal(hangup)?]);
        hear_endings()?;
        Ok(signals)
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

fn endpoint_options(node: &Node) -> anyhow::Result<EndpointOptions> {
    let options = &node.options;
    let address = |node: &forebay_launch::NodeAddress| Address::Tcp {
        host: node.host.clone(),
        ports: options.ports.of(node).to_vec(),
    };
    let addresses = options.nodes.iter().map(address).collect();
    let (job, pool) = (options.job.clone(), node.pool.clone());
    let made = EndpointOptions::new(job, options.rank, addresses, pool, options.security()?);
    Ok(EndpointOptions { bodies_bytes: child_bytes(options), subnets: options.peer_subnets.clone(), ..made })
}

/// Bytes that may be under way to one child: all children together have half of the budget, and each has room for a
/// chunk.
fn child_bytes(options: &DaemonOptions) -> usize {
    let of_home = if options.has_homes { options.nodes.len() as u64 } else { 0 };
    let children = u64::from(options.fan_out) + u64::from(options.stripe_fan_out) + of_home;
    let share_bytes = options.budget_bytes / 2 / children.max(1);
    share_bytes.clamp(CHUNK_BYTES, forebay_transport::limits::PEER_BODIES_BYTES_MAX as u64) as usize
}

fn resume_session(
    driver: &Driver,
    mount: &Mount,
    negotiated: Negotiated,
    requests: Option<KeptRequests>,
) -> anyhow::Result<Arc<Session>> {
    let DaemonOptions { readers, read_ahead_bytes, view, .. } = &driver.node.options;
    let options = session_options(*readers, *read_ahead_bytes);
    let session = Session::resume(mount.descriptor(), negotiated, &options, requests, driver.handler());
    let session = session.with_context(|| format!("serving {}", view.display()))?;
    invalidate_by_process(&session, &driver.node.options)?;
    Ok(Arc::new(session))
}

/// The kernel may let a notification wait for a request in flight. Another process waits there, so that this one can end.
fn invalidate_by_process(session: &Session, options: &DaemonOptions) -> anyhow::Result<()> {
    let name = format!("{}/{}", options.job, options.rank);
    let program = move || {
        let mut command = Command::new("/proc/self/exe");
        command.args(["node", "--invalidates", &name]);
        command
    };
    session.invalidate_by(program).context("cannot start a thread that notifies the kernel")
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
