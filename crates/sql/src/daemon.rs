//! The job's daemon on this host: one line of JSON there, one back. It says which nodes hold a file, and has them carry out
//! fragments of plans.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An answer, bytes: twice those of the largest fragment's, in hexadecimal.
const ANSWER_BYTES_MAX: u64 = 160 << 20;

/// How long it may take to hear who holds a file: a silent node costs a second on each level of the tree.
const HOLDERS_TIMEOUT: Duration = Duration::from_secs(10);

/// A version of a file, as a node has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Generation {
    ino: u64,
    size_bytes: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Timestamp {
    seconds: i64,
    nanos: u32,
}

impl Generation {
    /// Whether it is the version that this host has: inode numbers differ between them.
    fn is(&self, bytes: u64, modified: SystemTime) -> bool {
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (self.size_bytes, self.mtime.seconds, self.mtime.nanos) == (bytes, since.as_secs() as i64, since.subsec_nanos())
    }
}

/// A node that holds a file.
#[derive(Clone, Debug, Deserialize)]
pub struct Holder {
    /// Which node.
    pub rank: u32,
    /// On which host.
    pub host: String,
    /// By which right: the first of these words that any node says counts.
    holds: Holds,
    /// The version that it has.
    pub generation: Generation,
    /// Processors that it works with.
    pub threads: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Holds {
    Device,
    Cache,
    Root,
}

#[derive(Deserialize)]
struct Said {
    holders: Vec<Holder>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ok(Value),
    Error(String),
}

/// The daemon, and the views that this host has of its job.
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

    /// The nodes that hold this version of the file at a place; none if nobody does.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn holders(&self, place: &Path, bytes: u64, modified: SystemTime) -> anyhow::Result<Vec<Holder>> {
        let wants = json!({"counts_bytes": false, "rows": true, "gramian": false});
        let said = self.ask(&json!({"command": "holders", "path": place, "wants": wants}), HOLDERS_TIMEOUT)?;
        let Said { mut holders } = serde_json::from_value(said).context("the answer cannot be decoded")?;
        holders.retain(|holder| holder.generation.is(bytes, modified));
        let best = holders.iter().map(|holder| holder.holds).min();
        holders.retain(|holder| Some(holder.holds) == best);
        Ok(holders)
    }

    /// What a node answers to a fragment over files at these places.
    ///
    /// # Errors
    /// The node is lost, or cannot carry it out.
    pub fn fragment(
        &self,
        rank: u32,
        files: &[(PathBuf, Generation)],
        plan: &[u8],
        timeout: Duration,
    ) -> anyhow::Result<Vec<u8>> {
        let plan: String = plan.iter().map(|byte| format!("{byte:02x}")).collect();
        let timeout_ms = timeout.as_millis() as u64;
        let question =
            json!({"command": "queryfragment", "rank": rank, "files": files, "plan": plan, "timeout_ms": timeout_ms});
        let said = self.ask(&question, timeout)?;
        said.as_str().and_then(bytes_of).context("the answer cannot be decoded")
    }

    fn ask(&self, question: &Value, timeout: Duration) -> anyhow::Result<Value> {
        let there = || format!("the daemon behind {}", self.socket.display());
        let mut stream = UnixStream::connect(&self.socket).with_context(there)?;
        // The daemon itself keeps to the time.
        stream.set_read_timeout(Some(timeout + Duration::from_secs(1)))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.write_all(format!("{question}\n").as_bytes()).with_context(there)?;
        let mut line = vec![];
        BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(b'\n', &mut line).with_context(there)?;
        match serde_json::from_slice(&line).with_context(there)? {
            Answer::Ok(value) => Ok(value),
            Answer::Error(message) => Err(anyhow!(message)),
        }
    }
}

/// The bytes that a text in hexadecimal stands for.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |at: u8| char::from(at).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(byte).collect()
}
