//! The job's daemon on this host. It says which nodes hold a file, and has them carry out fragments of plans.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use forebay_offload::{
    AskedFragment, Dealing, FileHolders, HOLDERS_TIMEOUT, Holder, Pieces, bytes_of, holders_request, request, text_of,
};
use forebay_types::Generation;
use forebay_wire::QueryWants;

/// The time for an answer beyond that which the daemon itself keeps to.
const DAEMON_MARGIN: Duration = Duration::from_secs(1);

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
        let wants = QueryWants { counts_bytes: false, rows: true, gramian: false };
        let answer = forebay_control::ask(&self.socket, &holders_request(place, wants), HOLDERS_TIMEOUT)?;
        let FileHolders { mut holders, .. } = serde_json::from_value(answer).context("the answer cannot be decoded")?;
        holders.retain(|holder| is_version(&holder.generation, bytes, modified));
        Ok(Holder::best(holders))
    }

    /// The answer of a node to a fragment over files at these places; given up when `dealing` is over.
    ///
    /// # Errors
    /// The node is lost, or cannot carry it out.
    pub fn fragment<P: Pieces + Send>(
        &self,
        dealing: &Dealing<'_, P>,
        rank: u32,
        files: Vec<(String, Generation)>,
        plan: &[u8],
        timeout: Duration,
    ) -> anyhow::Result<Vec<u8>> {
        let asked = AskedFragment { rank, files, plan: text_of(plan), timeout_ms: timeout.as_millis() as u64 };
        let request = request("queryfragment", &asked)?;
        let answer = dealing.ask_over(&self.socket, &request, timeout + DAEMON_MARGIN)?;
        answer.as_str().and_then(bytes_of).context("the answer cannot be decoded")
    }
}

/// Whether it is the version that this host has: inode numbers differ between them.
fn is_version(generation: &Generation, bytes: u64, modified: SystemTime) -> bool {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let Generation { size_bytes, mtime, .. } = generation;
    (*size_bytes, mtime.seconds, mtime.nanos) == (bytes, since.as_secs() as i64, since.subsec_nanos())
}
