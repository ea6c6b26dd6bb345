//! `forebay-sql worker`: a node's part in one statement. Its daemon starts it, tells it on standard input of streams that lead to it, and
//! ends it; it ends itself when standard input does, or with the thread of the daemon that started it.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use clap::Parser;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectMeta;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerPlanRewriteHandler,
    WorkerQueryContext,
};
use forebay_offload::{AskedFile, AskedJoin, request};
use futures::StreamExt;
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tonic::transport::Server;

use crate::channels::{Channels, WINDOW_BYTES};
use crate::daemon;
use crate::records::Records;
use crate::residency::scan_of;
use crate::session;
use crate::store::Placed;

/// Streams that wait to be taken.
const WAITING_MAX: usize = 64;

/// The options that its daemon gives it.
#[derive(Parser, Debug)]
#[command(name = "forebay-sql worker")]
pub struct WorkerArguments {
    /// The control socket of its daemon
    #[arg(long)]
    daemon: PathBuf,
    /// The number of its statement
    #[arg(long)]
    statement: u64,
    /// The memory for sorts, joins and groups, bytes
    #[arg(long)]
    memory_bytes: usize,
    /// The directory that it spills to
    #[arg(long)]
    spill: Option<PathBuf>,
}

/// Serves one statement.
///
/// # Errors
/// It cannot begin.
pub async fn run(arguments: WorkerArguments) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("its daemon's end cannot be followed")?;
    let WorkerArguments { daemon, statement, memory_bytes, spill } = arguments;
    let runtime = session::runtime(memory_bytes, spill)?;
    let placed = Arc::new(Placed::default());
    runtime.register_object_store(ObjectStoreUrl::local_filesystem().as_ref(), Arc::clone(&placed) as _);
    let channels = Channels::new(daemon.clone(), statement, false);
    let files = Files { socket: daemon.clone(), placed, records: Arc::default() };
    let worker = Worker::from_session_builder(move |context: WorkerQueryContext| {
        let (channels, files) = (channels.clone(), files.clone());
        async move {
            let builder = context.builder.with_distributed_channel_resolver(channels);
            session::for_tasks(builder.with_distributed_worker_plan_rewrite_handler(files), memory_bytes)
        }
    });
    let worker = worker.with_runtime_env(runtime).with_version(env!("CARGO_PKG_VERSION"));
    let (streams, mut joined) = mpsc::channel(WAITING_MAX);
    let ended = ends(daemon, statement, streams);
    let joined = futures::stream::poll_fn(move |context| joined.poll_recv(context)).map(Ok::<_, io::Error>);
    let served = Server::builder()
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .add_service(worker.into_worker_server())
        .serve_with_incoming(joined);
    tokio::select! {
        served = served => served.context("serving a statement"),
        () = ended => Ok(()),
    }
}

/// Joins each stream that the daemon tells of, until it tells no more.
async fn ends(socket: PathBuf, statement: u64, streams: mpsc::Sender<UnixStream>) {
    let (lines, mut told) = mpsc::unbounded_channel();
    // Standard input has no other way to be read without a thread that waits for it.
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(io::Result::ok) {
            let Ok(stream) = line.trim().parse() else { return };
            if lines.send(stream).is_err() {
                return;
            }
        }
    });
    while let Some(stream) = told.recv().await {
        let (socket, streams) = (socket.clone(), streams.clone());
        tokio::spawn(async move {
            match joined(&socket, statement, stream).await {
                // Where it is not served any more, it ends.
                Ok(connection) => drop(streams.send(connection).await),
                Err(error) => eprintln!("a stream of a statement: {error:#}"),
            }
        });
    }
}

async fn joined(socket: &Path, statement: u64, stream: u64) -> anyhow::Result<UnixStream> {
    let asked = request("queryjoin", &AskedJoin { statement, stream })?;
    Ok(daemon::stream(socket, &asked).await?.0)
}

/// Looks where the files of a plan lie on this node before the plan is carried out.
#[derive(Clone)]
struct Files {
    socket: PathBuf,
    placed: Arc<Placed>,
    records: Arc<Records>,
}

impl WorkerPlanRewriteHandler for Files {
    fn rewrite_worker_plan(&self, event: WorkerPlanRewriteEvent) -> Result<WorkerPlanRewriteEventResponse> {
        let mut files = vec![];
        event.plan.apply(|plan| {
            files.extend(read_by(plan)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.placed.checks().note(&event.plan)?;
        files.retain(|(meta, asked)| !self.placed.has(&meta.location, asked));
        let asked: Vec<AskedFile> = files.iter().map(|(_, asked)| asked.clone()).collect();
        let failed = |error: anyhow::Error| DataFusionError::Execution(format!("{error:#}"));
        let places = tokio::task::block_in_place(|| daemon::places(&self.socket, &asked)).map_err(failed)?;
        for ((meta, asked), place) in files.into_iter().zip(places) {
            self.placed.add(meta, asked, place).map_err(DataFusionError::Execution)?;
        }
        let moved = || self.records.moved(event.plan, |name| self.placed.reading(name));
        Ok(WorkerPlanRewriteEventResponse::new(tokio::task::block_in_place(moved)?))
    }
}

/// The files that an operator reads by itself. A worker reads only files, and writes none.
fn read_by(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<(ObjectMeta, AskedFile)>> {
    if plan.is::<DataSinkExec>() {
        return plan_err!("a worker writes nothing");
    }
    let Some(scan) = scan_of(plan.as_ref()) else {
        let is_source = plan.is::<DataSourceExec>();
        // Rows that the plan itself has.
        let is_memory = plan
            .downcast_ref::<DataSourceExec>()
            .is_some_and(|source| source.data_source().is::<datafusion::datasource::memory::MemorySourceConfig>());
        return if is_source && !is_memory { plan_err!("a worker reads files only") } else { Ok(vec![]) };
    };
    if scan.object_store_url != ObjectStoreUrl::local_filesystem() {
        return plan_err!("a worker reads files of its node only");
    }
    let file = |meta: &ObjectMeta| {
        let modified = (meta.last_modified.timestamp(), meta.last_modified.timestamp_subsec_nanos());
        let path = format!("/{}", meta.location);
        (meta.clone(), AskedFile { path, size_bytes: meta.size, modified })
    };
    Ok(scan.file_groups.iter().flat_map(|group| group.files()).map(|part| file(&part.object_meta)).collect())
}
