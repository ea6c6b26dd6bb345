//! The job's daemon on this host. It says which nodes hold a file and where this node has it, and makes connections to workers.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail};
use forebay_offload::{
    AskedFile, AskedPlaces, FileHolders, HOLDERS_TIMEOUT, Holder, PLACES_FILES_MAX, holders_request, request,
};
use forebay_types::Generation;
use forebay_wire::QueryWants;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// How long the daemon may look for files.
const PLACES_TIMEOUT: Duration = Duration::from_secs(20);

/// How long it may take to connect to a worker: longer than the daemons wait for one that starts.
const STREAM_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest answer before a stream, bytes.
const ANSWER_BYTES_MAX: usize = 4096;

/// The job as this host has it.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// Its control socket.
    pub socket: PathBuf,
    /// The views.
    pub views: Vec<PathBuf>,
}

impl Daemon {
    /// The path by which nodes know a file of this host.
    pub fn place(&self, file: &Path) -> PathBuf {
        let own = self.views.iter().find_map(|view| file.strip_prefix(view).ok());
        let place = own.map_or_else(|| file.to_owned(), |rest| Path::new("/").join(rest));
        place.canonicalize().unwrap_or(place)
    }

    /// The nodes that hold this version of the file at a place.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn holders(&self, place: &str, bytes: u64, modified: SystemTime) -> anyhow::Result<Vec<Holder>> {
        let wants = QueryWants { counts_bytes: false, rows: true, gramian: false, described: false };
        let answer = forebay_control::ask(&self.socket, &holders_request(place, wants), HOLDERS_TIMEOUT)?;
        let FileHolders { mut holders, .. } = serde_json::from_value(answer).context("the answer cannot be decoded")?;
        holders.retain(|holder| is_version(&holder.generation, bytes, modified));
        Ok(Holder::best(holders))
    }

    /// The rank of this host's own node.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn rank(&self) -> anyhow::Result<u32> {
        let answer = forebay_control::ask(&self.socket, &serde_json::json!({"command": "ping"}), HOLDERS_TIMEOUT)?;
        answer.as_u64().and_then(|rank| rank.try_into().ok()).context("the answer cannot be decoded")
    }
}

/// Where this node has files of these versions, in their order.
///
/// # Errors
/// It does not hold one of them, or in another version.
pub fn places(socket: &Path, files: &[AskedFile]) -> anyhow::Result<Vec<PathBuf>> {
    let mut places = vec![];
    for files in files.chunks(PLACES_FILES_MAX) {
        let asked = request("queryplaces", &AskedPlaces { files: files.to_vec() })?;
        let answer = forebay_control::ask(socket, &asked, PLACES_TIMEOUT)?;
        places.extend(serde_json::from_value::<Vec<PathBuf>>(answer).context("the answer cannot be decoded")?);
    }
    Ok(places)
}

/// A connection that the daemon carries to another process, after a request for it; with its answer.
///
/// # Errors
/// The daemon does not answer in time, or says why there is no connection.
pub async fn stream(socket: &Path, request: &Value) -> anyhow::Result<(UnixStream, Value)> {
    let opened = async {
        let mut stream = UnixStream::connect(socket).await.context("no daemon listens any more")?;
        stream.write_all(format!("{request}\n").as_bytes()).await?;
        let mut answer = vec![];
        // Bytes of the stream may follow, and stay in it.
        while answer.last() != Some(&b'\n') {
            if answer.len() >= ANSWER_BYTES_MAX {
                bail!("the answer is too long");
            }
            answer.push(stream.read_u8().await.context("the daemon gives no answer")?);
        }
        let mut answer: Value = serde_json::from_slice(&answer).context("the answer cannot be decoded")?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(anyhow!("{error}")),
            None => Ok((stream, answer["ok"].take())),
        }
    };
    tokio::time::timeout(STREAM_TIMEOUT, opened).await.context("the daemon does not answer in time")?
}

/// Whether it is the version that this host has: inode numbers differ between them.
fn is_version(generation: &Generation, bytes: u64, modified: SystemTime) -> bool {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let Generation { size_bytes, mtime, .. } = generation;
    (*size_bytes, mtime.seconds, mtime.nanos) == (bytes, since.as_secs() as i64, since.subsec_nanos())
}
