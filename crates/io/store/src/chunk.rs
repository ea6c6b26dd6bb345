//! Reading one chunk of one version of a file.
//!
//! Bytes leave only after the file was seen, after they had been read, to be the version that was asked for; so no reader
//! gets bytes of two versions, not even in the pieces that leave before the chunk is whole. The check asks for nothing but
//! what the generation is made of, which this machine's kernel knows after a read. It follows each read and precedes none:
//! a file opened a moment ago, and one kept open from before, are told apart from other versions by the first bytes' check.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use forebay_body::Body;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Generation, Kind, PIECE_BYTES, ViewPath, chunk_bytes};

use crate::backing::Backing;
use crate::descriptors::Shared;
use crate::mounts::Table;
use crate::namespace::Export;
use crate::stat::Stat;

/// A version of a file of an export, to be read.
pub(crate) struct Source<'a> {
    backing: &'a Backing,
    export: &'a Export,
    file: &'a ViewPath,
    generation: &'a Generation,
    table: &'a Table,
}

/// A file open for reading, and whether the path was walked anew for it.
struct Open {
    descriptor: Shared,
    is_anew: bool,
}

impl<'a> Source<'a> {
    /// That of these; nothing is asked yet.
    pub(crate) fn new(
        backing: &'a Backing,
        export: &'a Export,
        file: &'a ViewPath,
        generation: &'a Generation,
        table: &'a Table,
    ) -> Self {
        Self { backing, export, file, generation, table }
    }

    /// Fills a body with chunk `index`. `started` gets it once the file is open, whichever version that is.
    pub(crate) fn read(&self, index: ChunkIndex, started: impl FnOnce(Arc<Body>)) -> Result<Arc<Body>, Errno> {
        let open = self.open()?;
        let body = Body::filling(chunk_bytes(self.generation.size_bytes, index));
        started(Arc::clone(&body));
        match self.fill(open, index, &body) {
            Ok(()) => Ok(body),
            Err(errno) => {
                body.fail(errno);
                Err(errno)
            }
        }
    }

    /// Fills a buffer with the bytes from an offset on, all of which the file has.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), Errno> {
        let (mut open, calls) = (self.open()?, &self.backing.calls);
        if buffer.len() > PIECE_BYTES {
            calls.will_read(open.descriptor.as_fd(), offset_bytes, buffer.len());
        }
        let len = buffer.len();
        self.checked(&mut open, |file| Ok(calls.read(file, buffer, offset_bytes)? == len)).map(drop)
    }

    fn fill(&self, mut open: Open, index: ChunkIndex, body: &Body) -> Result<(), Errno> {
        let Backing { calls, pool, .. } = self.backing;
        let (len, mut at) = (body.expected_bytes(), 0);
        let read_bytes = self.backing.read_sizes.read_bytes();
        if len > PIECE_BYTES {
            calls.will_read(open.descriptor.as_fd(), index.start_bytes(), len);
        }
        // A chunk of no bytes is checked, too.
        let block_bytes = loop {
            let want = (len - at).min(read_bytes);
            let mut pieces: Vec<_> =
                (0..want).step_by(PIECE_BYTES).map(|from| pool.take((want - from).min(PIECE_BYTES))).collect();
            let start = index.start_bytes() + at as u64;
            let block_bytes =
                self.checked(&mut open, |file| Ok(calls.read_pieces(file, &mut pieces, start)? == want))?;
            pieces.into_iter().for_each(|piece| {
                let len = piece.len();
                body.push(piece.freeze(len));
            });
            at += want;
            if at >= len {
                break block_bytes;
            }
        };
        let ahead = self.backing.read_sizes.rest_of_block(index, self.generation.size_bytes, block_bytes);
        if !ahead.is_empty() {
            calls.will_read(open.descriptor.as_fd(), ahead.start, (ahead.end - ahead.start) as usize);
        }
        Ok(())
    }

    /// Reads by `read`, which says whether the file had as many bytes, and sees then that it is the version asked for. A descriptor
    /// kept from before may be of an older version, or its directory no longer at that path; then the path is
    /// walked anew, once. Returns the size in which the file system wants to be read, bytes.
    fn checked(
        &self,
        open: &mut Open,
        mut read: impl FnMut(BorrowedFd<'_>) -> Result<bool, Errno>,
    ) -> Result<u64, Errno> {
        loop {
            let has_bytes = read(open.descriptor.as_fd())?;
            let stat = self.backing.calls.stat_generation(open.descriptor.as_fd())?;
            if has_bytes && self.is_current(&stat) {
                return Ok(u64::from(stat.attributes.blksize));
            }
            if open.is_anew {
                return Err(Errno::ESTALE);
            }
            self.forget();
            *open = Open { is_anew: true, ..self.open()? };
        }
    }

    fn is_current(&self, stat: &Stat) -> bool {
        let salt = self.backing.numbers.salt(stat.device, self.file, self.table);
        salt.attributes(stat).generation() == *self.generation
    }

    fn forget(&self) {
        self.backing.files.forget_one(self.file);
        self.file.split().inspect(|(dir, _)| self.backing.directories.forget_line(dir));
    }

    /// Opens the file, or takes the descriptor that is kept: a file of one chunk is read once and not kept open.
    fn open(&self) -> Result<Open, Errno> {
        let Self { backing, export, file, .. } = *self;
        let Some((dir, name)) = file.split().filter(|_| *file != export.path) else {
            return Err(Errno::EISDIR);
        };
        let open = || {
            backing.in_directory(export, &dir, |base| {
                // Opening a device or FIFO would have effects of its own, and what is hidden would be waited for.
                let stat = backing.calls.stat_kind(base, name)?;
                if backing.hides_device(stat.device, self.table)? {
                    return Err(Errno::ENOENT);
                }
                check_kind(stat.attributes.kind())?;
                backing.calls.file(base, name)
            })
        };
        let descriptor = if self.generation.size_bytes > CHUNK_BYTES {
            backing.files.get_or_open(file, open)?.0
        } else {
            Arc::new(open()?)
        };
        Ok(Open { descriptor, is_anew: false })
    }
}

fn check_kind(kind: Kind) -> Result<(), Errno> {
    match kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Errno::EISDIR),
        // A link has taken the file's place.
        Kind::Symlink => Err(Errno::ESTALE),
        _ => Err(Errno::EINVAL),
    }
}
