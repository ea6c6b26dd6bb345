//! The socket by which the command speaks with a daemon: one JSON line in, one out.
//!
//! It lies in the job's directory, which only its user may enter; the daemon still checks who connects.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use forebay_offload::{
    AskedColumn, AskedFile, AskedJoin, AskedPart, AskedPlaces, AskedStream, FilesHolders, HOLDERS_FILES_MAX,
    PLACES_FILES_MAX, text_of,
};
use forebay_types::{ViewPath, limits};
use forebay_wire::QueryWants;
use forebay_wire::job::PROBE_BYTES_MAX;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::requests::Job;
use crate::query::collected;
use crate::read::warm::Mode;
use crate::shared::node::Node;

/// Longest command line, bytes: the paths of some files, most of them shorter than they may be.
const LINE_BYTES_MAX: u64 = 192 << 10;

/// How long a client may take to say what it wants.
const CLIENT_DEADLINE: Duration = Duration::from_secs(5);

/// How long one question about a drain may wait; who wants to wait longer asks again.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(5);

/// Why nothing can land.
const NO_BURST: &str = "the job has no burst tier; forebay up --burst DIR=BACKING --burst-store DIR gives it one";

/// Why there is no answer.
const ENDS: &str = "the daemon ends";

/// How often a client is told how far its warm-up is.
const WARM_UP_TOLD_EVERY: Duration = Duration::from_millis(500);

/// Round trips that one probe may make.
const PROBES_MAX: u32 = 10_000;

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    /// Whether the daemon is there; answered at once, whatever else is under way.
    Ping,
    Status,
    Down,
    /// This node's status, with the labels of its metrics.
    Metrics,
    Explain {
        path: String,
    },
    Probe {
        payload_bytes: u32,
        count: u32,
    },
    Refresh {
        paths: Vec<String>,
    },
    /// Writes down what the start-up has used so far.
    Record,
    /// Inputs are staged through the view as long as the client stays connected: that is no program's start-up.
    Staging,
    /// Lets all land that was written until now, and waits so long for it. At the job's end programs change nothing from then on.
    Drain {
        wait_ms: u64,
        #[serde(default)]
        is_last: bool,
    },
    /// Which nodes hold a file that a query is about.
    Holders {
        path: String,
        wants: QueryWants,
    },
    /// Which nodes hold each of some files.
    QueryHolders {
        paths: Vec<String>,
        wants: QueryWants,
    },
    /// This host took so much longer for a query than it should have.
    QuerySaw {
        wants: QueryWants,
        factor: f64,
        waited_for_bytes: bool,
    },
    /// A part of a query's file, made by a node.
    QueryPart(AskedPart),
    /// Some blocks of a column, normalised by a node.
    QueryColumn(AskedColumn),
    /// The end of a file that a device writes.
    QueryEndDraft {
        rank: u32,
        number: u64,
        publishes: bool,
        timeout_ms: u64,
    },
    /// A stream to a node's worker of a statement of SQL: the connection carries its bytes from then on.
    QueryStream(AskedStream),
    /// A worker joins a stream that it was told of.
    QueryJoin(AskedJoin),
    /// Where a worker finds files on this node.
    QueryPlaces(AskedPlaces),
    /// Brings files to their homes, or to every node: lines tell how far it is, until it is done or the client hangs up.
    Warmup {
        paths: Vec<String>,
        #[serde(default)]
        each: bool,
    },
    /// Files that a program of this node reads next, in this order.
    Announce {
        paths: Vec<String>,
    },
    /// How far a file is on its way to the backing file system.
    Landed {
        path: String,
    },
}

/// Whether a line is a command.
#[must_use]
pub fn is_command(line: &str) -> bool {
    command(line).is_ok()
}

fn command(line: &str) -> serde_json::Result<Command> {
    serde_json::from_str(line)
}

/// The socket that the keeper made, with the clients that wait in its queue.
pub fn adopt(listener: std::os::unix::net::UnixListener) -> anyhow::Result<UnixListener> {
    listener
        .set_nonblocking(true)
        .and_then(|()| UnixListener::from_std(listener))
        .context("taking over the control socket")
}

/// Serves clients for as long as the daemon runs.
pub async fn serve(listener: UnixListener, job: Arc<Job>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_own_user(&stream) => {
                tokio::spawn(serve_client(stream, Arc::clone(&job)));
            }
            Ok(_) => tracing::warn!("another user's connection to the control socket was refused"),
            Err(error) => {
                tracing::warn!(%error, "accepting on the control socket");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

pub fn is_own_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn serve_client(stream: UnixStream, job: Arc<Job>) {
    let (read, write) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(LINE_BYTES_MAX));
    let answer = match tokio::time::timeout(CLIENT_DEADLINE, reader.read_line(&mut line)).await {
        Ok(Ok(_)) => match command(&line) {
            Ok(command @ (Command::QueryPart(_) | Command::QueryColumn(_))) => {
                let mut nothing = [0];
                tokio::select! {
                    answer = carry_out(command, &job) => answer,
                    // The client is gone, so its answer is not needed.
                    _ = reader.read(&mut nothing) => return,
                }
            }
            Ok(Command::Staging) => return while_staging(&job, reader, write).await,
            Ok(Command::Warmup { paths, each }) => return warm_up(&paths, each, &job, reader, write).await,
            Ok(Command::QueryStream(asked)) => return carry_stream(asked, &job, unread(reader), write).await,
            Ok(Command::QueryJoin(asked)) => return join_stream(asked, &job, unread(reader), write).await,
            Ok(command) => carry_out(command, &job).await,
            Err(error) => Err(format!("not a command: {error}")),
        },
        Ok(Err(error)) => Err(format!("reading the command: {error}")),
        Err(_) => Err("no command arrived in time".to_owned()),
    };
    tell(write, answer).await;
}

/// The reading half of a client that has said nothing beyond its command.
fn unread(reader: BufReader<Take<OwnedReadHalf>>) -> OwnedReadHalf {
    reader.into_inner().into_inner()
}

async fn tell(mut write: OwnedWriteHalf, answer: Result<Value, String>) {
    let answer = match answer {
        Ok(value) => json!({"ok": value}),
        Err(message) => json!({"error": message}),
    };
    let _ = write.write_all(format!("{answer}\n").as_bytes()).await;
    let _ = write.shutdown().await;
}

/// Makes the connection of a command an end of a stream. A client sends nothing more before it has its answer.
async fn carry_stream(asked: AskedStream, job: &Job, read: OwnedReadHalf, write: OwnedWriteHalf) {
    let statements = &job.queries.statements;
    match statements.open(asked).await {
        Ok((workers, far)) => {
            if let Some(connection) = taken_over(json!(workers), read, write).await {
                statements.carry(far, connection).await;
            }
        }
        Err(message) => tell(write, Err(message)).await,
    }
}

/// Makes it a worker's end of a stream.
async fn join_stream(asked: AskedJoin, job: &Job, read: OwnedReadHalf, write: OwnedWriteHalf) {
    let AskedJoin { statement, stream } = asked;
    let workers = &job.queries.statements.workers;
    if !workers.expects(statement, stream) {
        tell(write, Err("the stream is not expected any more".to_owned())).await;
    } else if let Some(connection) = taken_over(Value::Null, read, write).await {
        workers.join(statement, stream, connection);
    }
}

/// The connection, after the answer.
async fn taken_over(answer: Value, read: OwnedReadHalf, mut write: OwnedWriteHalf) -> Option<UnixStream> {
    write.write_all(format!("{}\n", json!({"ok": answer})).as_bytes()).await.ok()?;
    read.reunite(write).ok()
}

/// Records nothing until the client hangs up, however it ends.
async fn while_staging(job: &Job, mut reader: impl AsyncRead + Unpin, write: OwnedWriteHalf) {
    let _hold = job.read.prefill.hold_recording();
    tell(write, Ok(Value::Null)).await;
    let mut nothing = [0];
    let _ = reader.read(&mut nothing).await;
}

/// Warms up until all is done or the client hangs up.
async fn warm_up(
    paths: &[String],
    each: bool,
    job: &Job,
    mut reader: impl AsyncRead + Unpin,
    mut write: OwnedWriteHalf,
) {
    let paths: Result<Vec<_>, _> = paths.iter().map(|path| path_in_view(path, &job.node)).collect();
    let paths = match paths {
        Ok(paths) => paths,
        Err(message) => return tell(write, Err(message)).await,
    };
    let _hold = job.read.prefill.hold_recording();
    let mode = if each { Mode::Each } else { Mode::Spread };
    let (told, warm_up) = job.read.warm.begin(paths, mode);
    let mut nothing = [0];
    let mut warm_up = std::pin::pin!(warm_up);
    let mut ticks = tokio::time::interval(WARM_UP_TOLD_EVERY);
    loop {
        tokio::select! {
            () = &mut warm_up => return tell(write, Ok(json!(told.now()))).await,
            // The client is gone: what has not begun is left.
            _ = reader.read(&mut nothing) => return,
            _ = ticks.tick() => {
                let line = format!("{}\n", json!({"ok": told.now()}));
                if write.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn carry_out(command: Command, job: &Job) -> Result<Value, String> {
    match command {
        Command::Ping => Ok(json!(job.node.rank().0)),
        Command::Status => Ok(json!(job.status().await)),
        Command::Down => Ok(job.shutdown().await),
        Command::Metrics => Ok(json!({"labels": job.node.options.labels, "node": job.own_status()})),
        Command::Explain { path } => {
            let path = path_in_view(&path, &job.node)?;
            Ok(json!(job.explain_path(path).await))
        }
        Command::Holders { path, wants } => Ok(json!(holders(&[path], wants, job).await?.into_one())),
        Command::QueryHolders { paths, wants } => Ok(json!(holders(&paths, wants, job).await?)),
        Command::QuerySaw { wants, factor, waited_for_bytes } => {
            job.queries.parts.speeds.saw_host(collected(wants), factor, waited_for_bytes);
            Ok(Value::Null)
        }
        Command::QueryPart(asked) => {
            let file = file_of(&asked.path, job)?;
            job.queries.part(asked, file).await.map(|bytes| json!(text_of(&bytes)))
        }
        Command::QueryColumn(asked) => column(asked, job).await,
        Command::QueryEndDraft { rank, number, publishes, timeout_ms } => {
            let timeout = Duration::from_millis(timeout_ms);
            job.queries.end_draft(rank, number, publishes, timeout).await.map(|bytes| json!(text_of(&bytes)))
        }
        Command::QueryPlaces(AskedPlaces { files }) => places(files, job).await,
        Command::Refresh { paths } => {
            if paths.is_empty() || paths.len() > limits::REFRESH_PATHS_MAX {
                return Err(format!("a refresh takes 1 to {} paths", limits::REFRESH_PATHS_MAX));
            }
            let paths = paths.iter().map(|path| path_in_view(path, &job.node)).collect::<Result<_, _>>()?;
            job.read.refresh.refresh(paths).await.map(|refreshed| json!(refreshed))
        }
        Command::Drain { wait_ms, is_last } => {
            let write = job.write.clone().ok_or(NO_BURST)?;
            let wait = Duration::from_millis(wait_ms).min(DRAIN_WAIT_MAX);
            let drain = async move { if is_last { write.drain_last(wait).await } else { write.drain_job(wait).await } };
            job.node.on_pool(drain).await.unwrap_or_else(|| Err(ENDS.to_owned())).map(|progress| json!(progress))
        }
        Command::Landed { path } => {
            let write = job.write.clone().ok_or(NO_BURST)?;
            let landed = job.node.on_pool(async move { write.landed_in_job(Path::new(&path)).await }).await;
            landed.unwrap_or_else(|| Err(ENDS.to_owned())).map(|landed| json!(landed))
        }
        // They take the connection over.
        Command::Staging | Command::Warmup { .. } | Command::QueryStream(_) | Command::QueryJoin(_) => Ok(Value::Null),
        Command::Announce { paths } => {
            let files = paths.iter().map(|path| path_in_view(path, &job.node)).collect::<Result<Vec<_>, _>>()?;
            Ok(json!({"taken": job.read.warm.announce(files)}))
        }
        Command::Record => job.read.prefill.record_now().await,
        Command::Probe { payload_bytes, count } if payload_bytes <= PROBE_BYTES_MAX && count <= PROBES_MAX => {
            job.probe(payload_bytes, count).await
        }
        Command::Probe { .. } => {
            Err(format!("a probe has {PROBE_BYTES_MAX} bytes and {PROBES_MAX} round trips at most"))
        }
    }
}

/// The nodes that hold each of some files, and what is known of this host's speed.
async fn holders(paths: &[String], wants: QueryWants, job: &Job) -> Result<FilesHolders, String> {
    if paths.is_empty() || paths.len() > HOLDERS_FILES_MAX {
        return Err(format!("1 to {HOLDERS_FILES_MAX} files are asked about at once"));
    }
    let files = paths.iter().map(|path| file_of(path, job)).collect::<Result<_, _>>()?;
    let found = job.holders(files, wants).await;
    let (host_factor, host_read_factor) = job.queries.parts.speeds.host_factors(collected(wants));
    Ok(FilesHolders { host_factor, host_read_factor, ..found })
}

/// Where this node has files.
async fn places(files: Vec<AskedFile>, job: &Job) -> Result<Value, String> {
    if files.len() > PLACES_FILES_MAX {
        return Err(format!("places are told of {PLACES_FILES_MAX} files at most"));
    }
    let path = |file: &AskedFile| path_in_view(&file.path, &job.node);
    let files = files.into_iter().map(|file| Ok((path(&file)?, file))).collect::<Result<_, String>>()?;
    job.queries.parts.places(files).await.map(|places| json!(places))
}

/// Some blocks of a column, as text.
async fn column(asked: AskedColumn, job: &Job) -> Result<Value, String> {
    let file = file_of(&asked.path, job)?;
    let output = asked.draft.as_ref().map(|draft| path_in_view(&draft.output, &job.node)).transpose()?;
    job.queries.column(asked, file, output).await.map(|bytes| json!(text_of(&bytes)))
}

/// A file that a query is about, as all nodes know it.
fn file_of(path: &str, job: &Job) -> Result<ViewPath, String> {
    Ok(job.queries.known_path(path_in_view(path, &job.node)?))
}

/// The path that is meant by a path in the view or by one of the backing file system.
fn path_in_view(path: &str, node: &Node) -> Result<ViewPath, String> {
    let view = node.options.view.to_string_lossy();
    let rest = path.strip_prefix(&*view).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(path);
    ViewPath::from_absolute(rest.as_bytes()).map_err(|error| format!("{path}: {error}"))
}
