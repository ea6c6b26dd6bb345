//! What the write path says of itself: how much is where, and how far a file is on its way.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use forebay_types::{FileId, Kind, Name};
use forebay_wire::write::{BURST_ROOT, Caller, Place};
use forebay_write::{Refusal, Way};
use serde::{Deserialize, Serialize};

use super::parts::WriteParts;

/// The burst tier of a node in `status --json`.
#[derive(Serialize, Deserialize)]
pub struct BurstStatus {
    mount: String,
    capacity_bytes: u64,
    /// Written, and not committed.
    dirty_bytes: u64,
    /// Committed, and not on the backing file system.
    committed_bytes: u64,
    /// Changes that the backing file system has not followed.
    steps_to_land: usize,
    /// What keeps them, if anything.
    why: Option<String>,
}

/// A file in `landed --json`.
#[derive(Serialize, Deserialize, Debug)]
pub struct Landed {
    path: String,
    state: &'static str,
    bytes: u64,
    landed_bytes: u64,
    missing: Vec<(u64, u64)>,
    why: Option<String>,
}

impl WriteParts {
    /// How much is where.
    pub fn status(&self) -> BurstStatus {
        let space = self.owner.log.space();
        let dirty_bytes: u64 = self.files.all().iter().map(|open| open.pending_bytes()).sum();
        let progress = self.progress();
        BurstStatus {
            mount: self.mount.to_string_lossy().into_owned(),
            capacity_bytes: space.capacity_bytes,
            dirty_bytes,
            committed_bytes: space.live_bytes.saturating_sub(dirty_bytes),
            steps_to_land: progress.steps,
            why: progress.why,
        }
    }

    /// How far the file at `path` is: below the directory that programs see, or below the mount.
    ///
    /// # Errors
    /// Why nothing can be said of it.
    pub fn landed(&self, path: &Path) -> Result<Landed, String> {
        let below = [&self.mount, &self.dir].into_iter().find_map(|base| path.strip_prefix(base).ok());
        let outside = || format!("{} is not in the burst tier, which is at {}", path.display(), self.dir.display());
        let file = self.find(below.ok_or_else(outside)?).map_err(|why| format!("{}: {why}", path.display()))?;
        let tree = self.owner.tree();
        let gone = |errno| format!("{}: {errno}", path.display());
        let (state, written) = (tree.state(file).map_err(gone)?, tree.written_ranges(file));
        let way = tree.way(file).map_err(gone)?;
        drop(tree);
        let pending = self.files.find(file).filter(|open| open.is_dirty());
        let bytes = pending.as_ref().map_or(state.attributes, |open| open.with_pending(&state.attributes)).size_bytes;
        let mut missing = written;
        missing.extend(pending.iter().flat_map(|open| open.pending_ranges()));
        let missing_bytes: u64 = missing.iter().map(|(_, len)| len).sum();
        let state = match way {
            _ if pending.is_some() => "dirty",
            Way::Open => "dirty",
            Way::Queued => "committed",
            Way::Landed => "landed",
        };
        let why = if state == "landed" { None } else { self.progress().why };
        let path = path.to_string_lossy().into_owned();
        Ok(Landed { path, state, bytes, landed_bytes: bytes.saturating_sub(missing_bytes), missing, why })
    }

    fn find(&self, path: &Path) -> Result<FileId, String> {
        let caller = Caller::default();
        let mut file = BURST_ROOT;
        for name in path.components() {
            let name = Name::new(name.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
            let place = Place { directory: file, name };
            file = loop {
                let found = self.owner.tree().lookup(&caller, &place);
                match found {
                    Ok(state) => break state.file,
                    Err(Refusal::Errno(errno)) => return Err(errno.to_string()),
                    Err(Refusal::Unlisted(directory)) => {
                        self.owner.adopt(directory).map_err(|errno| errno.to_string())?
                    }
                }
            };
        }
        match self.owner.tree().state(file).map(|state| state.attributes.kind()) {
            Ok(Kind::File) => Ok(file),
            _ => Err("not a file".to_owned()),
        }
    }
}
