//! Reading a file: pieces from logs, from the backing file system, and zeros.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use forebay_types::{BackingId, Errno, FileId, NodeRank, Timestamp, ViewPath};
use forebay_wire::write::{FileState, Piece, Source, WrittenExtent};
use forebay_wire::write_message::{CONTENTS_BYTES_MAX, CONTENTS_PARTS_MAX, LogPart, WriteMessage};
use tokio::time::Instant;

use forebay_write::is_gone;

use super::files::Files;
use super::local::Local;
use super::peers::copy;
use super::remote::{Nodes, TIMEOUT};
use super::tree::leader::Leader;
use super::tree::paths::{MOVING_LOOK, MOVING_MAX, backing_paths};
use super::tree::tree_link::TreeLink;

/// Bytes of a piece of another node's log that are handed to the kernel as they came, at least.
const UNCOPIED_BYTES_MIN: u64 = 64 << 10;

/// Where a node finds bytes.
pub struct Reader {
    pub local: Arc<Local>,
    pub nodes: Arc<Nodes>,
    pub tree: TreeLink,
}

impl Reader {
    /// The bytes of a file as programs of this node see them, fewer than `len` only at its end, and the file without what is
    /// pending.
    ///
    /// # Errors
    /// EIO where bytes cannot be had, else what the tree says.
    pub async fn read(
        &self,
        files: &Files,
        file: FileId,
        offset: u64,
        len: usize,
    ) -> Result<(Vec<Bytes>, FileState), Errno> {
        let deadline = Instant::now() + MOVING_MAX;
        loop {
            match self.try_to_read(files, file, offset, len).await {
                // It has landed since its place was told, or is being renamed there.
                Err(Errno::ESTALE) if Instant::now() < deadline => {
                    self.tree.drop_places(file);
                    self.tree.state(file).await?;
                    self.nodes.pause(MOVING_LOOK).await;
                }
                Err(Errno::ESTALE) => {
                    tracing::error!(%file, "a landed file is missing or shorter on the backing file system: others \
                                            have changed it");
                    return Err(Errno::EIO);
                }
                read => return read,
            }
        }
    }

    async fn try_to_read(
        &self,
        files: &Files,
        file: FileId,
        offset: u64,
        len: usize,
    ) -> Result<(Vec<Bytes>, FileState), Errno> {
        let range = offset..offset.saturating_add(len as u64);
        let pending = files.pending(file, range.clone());
        let committed = self.tree.contents(file, range.clone()).await?;
        let end = pending.attributes(&committed.state.attributes).size_bytes.clamp(range.start, range.end);
        let pieces = pending.over(&committed.pieces, range.start..end);
        let (mut gathered, mut at) = (Gathered::default(), offset);
        for piece in pieces {
            // Behind what is committed, between what is pending, there is nothing.
            let _ = gathered.room(piece.offset - at);
            at = piece.offset + piece.len;
            match piece.source {
                Source::Log(extent) if extent.node != self.local.rank && piece.len >= UNCOPIED_BYTES_MIN => {
                    gathered.add(self.remote_parts(&extent).await?);
                }
                Source::Backing => {
                    let read = self.read_backing(file, committed.backing.as_ref(), (piece.offset, piece.len)).await?;
                    gathered.add(vec![read.into()]);
                }
                _ => self.fill(&piece, gathered.room(piece.len)).await?,
            }
        }
        let _ = gathered.room(end - at);
        Ok((gathered.end(), committed.state))
    }

    /// `len` bytes of a file as it was committed last, if that is this `version` before and after they were read.
    ///
    /// # Errors
    /// As `read`; ESTALE where they have another place by now.
    pub async fn read_at_version(
        &self,
        file: FileId,
        version: u64,
        offset: u64,
        len: usize,
    ) -> Result<Option<Vec<u8>>, Errno> {
        let range = offset..offset.saturating_add(len as u64);
        let committed = self.tree.contents(file, range).await?;
        if committed.state.version != version {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        for piece in &committed.pieces {
            let start = (piece.offset - offset) as usize;
            let into = &mut bytes[start..start + piece.len as usize];
            match piece.source {
                Source::Backing => {
                    let read = self.read_backing(file, committed.backing.as_ref(), (piece.offset, piece.len)).await?;
                    into.copy_from_slice(&read);
                }
                _ => self.fill(piece, into).await?,
            }
        }
        // A log's bytes stay what they are; those of the backing file system may have been replaced meanwhile.
        let has_backing = committed.pieces.iter().any(|piece| piece.source == Source::Backing);
        let is_same = !has_backing || self.tree.contents(file, 0..0).await?.state.version == version;
        Ok(is_same.then_some(bytes))
    }

    /// An extent's bytes in another node's log, as they came.
    async fn remote_parts(&self, extent: &WrittenExtent) -> Result<Vec<Bytes>, Errno> {
        let len = u32::try_from(extent.len).map_err(|_| Errno::EFBIG)?;
        let part = LogPart { position: extent.position, skip: extent.skip, len };
        self.log_parts(extent.node, vec![part]).await
    }

    /// Parts of another node's log, one after the other, as they came.
    async fn log_parts(&self, node: NodeRank, parts: Vec<LogPart>) -> Result<Vec<Bytes>, Errno> {
        if is_gone(node) {
            let is_elsewhere = self.nodes.has_partners() && self.tree.failover(node).await?;
            return Err(if is_elsewhere { Errno::ESTALE } else { Errno::EIO });
        }
        let len = parts.iter().map(|part| part.len as usize).sum();
        let asked = WriteMessage::Contents { parts };
        match self.nodes.read_parts(node, &asked, len).await {
            // They have another place now, which is to be asked for.
            Err(Errno::EIO) if self.nodes.has_partners() && self.tree.failover(node).await? => Err(Errno::ESTALE),
            // No other node has them: they are there when the node is.
            Err(Errno::EIO) if self.nodes.has_partners() => self.nodes.read_within(node, &asked, len, TIMEOUT).await,
            read => read,
        }
    }

    /// Reads one piece that is not on the backing file system. `into` is zero.
    ///
    /// # Errors
    /// EIO where the bytes cannot be had, ESTALE where they are gone.
    async fn fill(&self, piece: &Piece, into: &mut [u8]) -> Result<(), Errno> {
        match piece.source {
            Source::Hole | Source::Backing => Ok(()),
            Source::Log(extent) if extent.node == self.local.rank => {
                self.local.read(extent.position, extent.skip, into)
            }
            Source::Log(extent) => {
                let mut skip = extent.skip;
                for part in into.chunks_mut(CONTENTS_BYTES_MAX as usize) {
                    let len = part.len() as u32;
                    let of = LogPart { position: extent.position, skip, len };
                    copy(&self.log_parts(extent.node, vec![of]).await?, part);
                    skip += len;
                }
                Ok(())
            }
        }
    }

    /// Reads what other nodes' logs have of `extents`, `CONTENTS_BYTES_MAX` at most, one after the other: from each node at once. By a task.
    ///
    /// # Errors
    /// As `fill`.
    pub async fn gather(&self, extents: &[WrittenExtent], into: &mut [u8]) -> Result<(), Errno> {
        let mut elsewhere: BTreeMap<NodeRank, Vec<(usize, LogPart)>> = BTreeMap::new();
        let mut start = 0;
        for extent in extents {
            let len = extent.len as usize;
            if extent.node != self.local.rank {
                let part = LogPart { position: extent.position, skip: extent.skip, len: len as u32 };
                elsewhere.entry(extent.node).or_default().push((start, part));
            }
            start += len;
        }
        for (node, found) in elsewhere {
            for batch in found.chunks(CONTENTS_PARTS_MAX) {
                let parts: Vec<LogPart> = batch.iter().map(|(_, part)| *part).collect();
                let mut bytes = vec![0; parts.iter().map(|part| part.len as usize).sum()];
                copy(&self.log_parts(node, parts).await?, &mut bytes);
                let mut rest = &bytes[..];
                for (start, part) in batch {
                    let (of_part, after) = rest.split_at(part.len as usize);
                    into[*start..start + of_part.len()].copy_from_slice(of_part);
                    rest = after;
                }
            }
        }
        Ok(())
    }

    /// Bytes that the backing file system has.
    async fn read_backing(
        &self,
        file: FileId,
        backing: Option<&(ViewPath, BackingId)>,
        (offset, len): (u64, u64),
    ) -> Result<Vec<u8>, Errno> {
        let read = move |open: &File| {
            let mut bytes = vec![0; len as usize];
            read_exactly(open, offset, &mut bytes).map(|()| bytes)
        };
        if let Some(read) = self.look_at_backing(file, backing, read).await? {
            return read;
        }
        // It has no name there any more, or is between two.
        let mut bytes = vec![0; len as usize];
        self.nodes
            .read(self.nodes.leadership().leader, &WriteMessage::Unlinked { file, offset, len }, &mut bytes)
            .await?;
        Ok(bytes)
    }

    /// The result of `look` at the file of the backing file system that has a file's contents; `None` where this node cannot reach it.
    ///
    /// # Errors
    /// As `open_backing`, on the leader's node.
    pub async fn look_at_backing<T: Send + 'static>(
        &self,
        file: FileId,
        backing: Option<&(ViewPath, BackingId)>,
        look: impl FnOnce(&File) -> T + Send + 'static,
    ) -> Result<Option<T>, Errno> {
        let local = Arc::clone(&self.local);
        if let Some(leader) = self.tree.here().map(Arc::clone) {
            let look =
                move || open_backing_by(&leader, file, |path| local.place.open_to_read(path)).map(|open| look(&open));
            return self.local.calls.serve_in_pool(look).await?.map(Some);
        }
        let Some((path, backed)) = backing.cloned() else { return Ok(None) };
        let look = move || {
            let open = local.place.open_to_read(&path).ok()?;
            is_it(&open, &backed).then(|| look(&open))
        };
        self.local.calls.serve_in_pool(look).await
    }
}

/// Bytes in order.
#[derive(Default)]
struct Gathered {
    parts: Vec<Bytes>,
    last: Vec<u8>,
}

impl Gathered {
    fn add(&mut self, parts: Vec<Bytes>) {
        if !self.last.is_empty() {
            self.parts.push(std::mem::take(&mut self.last).into());
        }
        self.parts.extend(parts);
    }

    /// Zeros, to be filled.
    fn room(&mut self, len: u64) -> &mut [u8] {
        let start = self.last.len();
        self.last.resize(start + len as usize, 0);
        &mut self.last[start..]
    }

    fn end(mut self) -> Vec<Bytes> {
        self.add(vec![]);
        self.parts
    }
}

fn is_it(open: &File, backed: &BackingId) -> bool {
    let born = |found: &Metadata| found.created().ok()?.duration_since(UNIX_EPOCH).ok();
    open.metadata().is_ok_and(|found| {
        let born = born(&found).map_or_else(Timestamp::default, |born| Timestamp {
            seconds: born.as_secs().cast_signed(),
            nanos: born.subsec_nanos(),
        });
        backed.is_file(found.ino(), born)
    })
}

/// Fills `into` from a file of the backing file system.
///
/// # Errors
/// ESTALE when it is shorter than it was: somebody else changed it.
pub fn read_exactly(open: &File, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
    open.read_exact_at(into, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Errno::ESTALE,
        _ => Errno::of(&error),
    })
}

impl Leader {
    /// Bytes of a file that other nodes do not reach on the backing file system. By a task.
    ///
    /// # Errors
    /// The backing file system's error.
    pub async fn read_unlinked(&self, file: FileId, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        let read = move |leader: &Self| {
            let open = open_backing(leader, file)?;
            let mut bytes = vec![0; len as usize];
            leader.local.calls.serve(|| read_exactly(&open, offset, &mut bytes)).map(|()| bytes)
        };
        self.call_backing(read).await?
    }
}

/// The file of the backing file system that has a file's contents, for the leader.
///
/// # Errors
/// ESTALE when it is under way from one name to another: for a moment the tree knows a name that it has no more, and that
/// another file may have.
pub fn open_backing(leader: &Leader, file: FileId) -> Result<Arc<File>, Errno> {
    open_backing_by(leader, file, |path| leader.local.calls.serve(|| leader.local.place.open_to_read(path)))
}

/// The same, opened by `open`.
fn open_backing_by(
    leader: &Leader,
    file: FileId,
    open: impl Fn(&ViewPath) -> Result<File, Errno>,
) -> Result<Arc<File>, Errno> {
    let (paths, backed) = {
        let tree = leader.tree();
        (backing_paths(&tree, file), tree.backed(file))
    };
    // It may have got another draft since.
    let kept = leader.kept_open(file).filter(|open| backed.is_none_or(|backed| is_it(open, &backed)));
    if let Some(open) = kept {
        return Ok(open);
    }
    let backed = backed.ok_or(Errno::ESTALE)?;
    for path in paths {
        match open(&path) {
            Ok(open) if is_it(&open, &backed) => return Ok(Arc::new(open)),
            Ok(_) | Err(Errno::ENOENT | Errno::ESTALE | Errno::ENOTDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::ESTALE)
}
