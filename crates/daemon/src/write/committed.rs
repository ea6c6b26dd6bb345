//! A file of the burst tier at one commit: where its bytes lie, and they themselves, for a query near the data.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use forebay_types::{Errno, FileId, Generation, Kind, Name, NodeRank, Timestamp, ViewPath};
use forebay_wire::write::{BURST_ROOT, Caller, FileState, Place, Source};
use tokio::time::Instant;

use super::contents::Reader;
use super::parts::WriteParts;
use super::tree::paths::{MOVING_LOOK, MOVING_MAX};

/// Bytes of a file whose places are asked for at once: written 4 KiB at a time, they are 16,384 pieces.
const ASKED_BYTES: u64 = 64 << 20;

/// Blocks of a file whose homes are told: a file of 1 TiB has as many, at 4 MiB each.
const HOMES_MAX: u64 = 1 << 18;

/// A file at one commit, read by this node.
pub struct CommittedFile {
    reader: Arc<Reader>,
    file: FileId,
    version: u64,
}

/// Which node's log has most of a block's bytes; none where no log has any.
pub type Home = Option<u32>;

/// A version as queries know it: the number of the last change of the contents stands where other files have a time, so
/// that no change is too quick to be seen.
fn generation(state: &FileState) -> Generation {
    let ctime = Timestamp { seconds: state.version.cast_signed(), nanos: 0 };
    Generation { ctime, ..state.attributes.generation() }
}

impl WriteParts {
    /// The path by which all nodes know a file of the burst tier: below the directory that programs see. It may be given below that,
    /// this node's mount, or the directory of the backing file system.
    pub fn path_of(&self, path: &ViewPath) -> Option<ViewPath> {
        let below = [&self.dir, &self.mount, &self.backing].into_iter().find_map(|base| below(base, path))?;
        let joined = [self.dir.as_os_str().as_bytes(), below.as_bytes()].join(&b'/');
        ViewPath::from_absolute(&joined).ok()
    }

    /// Whether a path is one by which all nodes know a file of the burst tier.
    pub fn holds_path(&self, path: &ViewPath) -> bool {
        below(&self.dir, path).is_some()
    }

    async fn find(&self, path: &ViewPath) -> Result<FileState, Errno> {
        let below = below(&self.dir, path).ok_or(Errno::ENOENT)?;
        let mut found = self.reader.tree.state(BURST_ROOT).await?;
        for name in below.components() {
            let place = Place { directory: found.file, name: Name::new(name).map_err(|_| Errno::EINVAL)? };
            found = self.reader.tree.lookup(&Caller::default(), place).await?;
        }
        (found.attributes.kind() == Kind::File).then_some(found).ok_or(Errno::EINVAL)
    }

    /// The version of the file at `path`, and for each of its blocks of so many bytes the node whose log has most of it.
    ///
    /// # Errors
    /// It is no file, or the leader cannot be asked; ESTALE where it changes meanwhile.
    pub async fn homes(&self, path: &ViewPath, block_bytes: u64) -> Result<(Generation, Vec<Home>), Errno> {
        let file = self.find(path).await?.file;
        let state = self.reader.tree.contents(file, 0..0).await?.state;
        let size = state.attributes.size_bytes;
        if size.div_ceil(block_bytes) > HOMES_MAX {
            return Err(Errno::EFBIG);
        }
        let mut bytes = vec![BTreeMap::<NodeRank, u64>::new(); size.div_ceil(block_bytes) as usize];
        for start in (0..size).step_by(ASKED_BYTES as usize) {
            let contents = self.reader.tree.contents(file, start..size.min(start + ASKED_BYTES)).await?;
            if contents.state.version != state.version {
                return Err(Errno::ESTALE);
            }
            for piece in contents.pieces {
                let Source::Log(extent) = piece.source else { continue };
                let (mut at, end) = (piece.offset, (piece.offset + piece.len).min(size));
                while at < end {
                    let block = at / block_bytes;
                    let len = end.min((block + 1) * block_bytes) - at;
                    *bytes[block as usize].entry(extent.node).or_default() += len;
                    at += len;
                }
            }
        }
        let most = |of: BTreeMap<NodeRank, u64>| of.into_iter().max_by_key(|(_, len)| *len).map(|(node, _)| node.0);
        Ok((generation(&state), bytes.into_iter().map(most).collect()))
    }

    /// The file at `path` in a version that `homes` told.
    ///
    /// # Errors
    /// ESTALE where it is another by now, else as `homes`.
    pub async fn committed(&self, path: &ViewPath, wanted: Generation) -> Result<CommittedFile, Errno> {
        let file = self.find(path).await?.file;
        let state = self.reader.tree.contents(file, 0..0).await?.state;
        let version = state.version;
        let found = generation(&state);
        (found == wanted)
            .then(|| CommittedFile { reader: Arc::clone(&self.reader), file, version })
            .ok_or(Errno::ESTALE)
    }
}

/// The part of a path below a directory.
fn below(base: &Path, path: &ViewPath) -> Option<ViewPath> {
    let base = ViewPath::from_absolute(base.as_os_str().as_bytes()).ok().filter(|base| path.is_within(base))?;
    ViewPath::from_absolute(&path.as_bytes()[base.as_bytes().len()..]).ok()
}

impl CommittedFile {
    /// Some of its bytes, which lie within its size.
    ///
    /// # Errors
    /// ESTALE where it is another version by now, else EIO.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let deadline = Instant::now() + MOVING_MAX;
        loop {
            // From each is asked what it has at this moment; what has landed since has another place.
            match self.reader.read_at_version(self.file, self.version, offset, len).await {
                Ok(Some(bytes)) => return Ok(bytes),
                Ok(None) => return Err(Errno::ESTALE),
                Err(Errno::ESTALE) if Instant::now() < deadline => self.reader.nodes.pause(MOVING_LOOK).await,
                Err(Errno::ESTALE) => return Err(Errno::EIO),
                Err(errno) => return Err(errno),
            }
        }
    }
}
