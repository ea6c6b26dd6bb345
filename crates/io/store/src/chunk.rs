//! Reading one chunk of one version of a file.
//!
//! A piece leaves only after the file was seen, once more and after the piece had been read, to be the version that was
//! asked for; so no reader gets bytes of two versions, not even in the pieces that leave before the chunk is whole. The
//! check asks for nothing but what the generation is made of, which this machine's kernel knows after a read.

use std::os::fd::AsFd;
use std::sync::Arc;

use forebay_body::Body;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Generation, Kind, PIECE_BYTES, ViewPath, chunk_bytes};

use crate::backing::Backing;
use crate::descriptors::Shared;
use crate::inode_numbers::Salt;
use crate::mounts::Table;
use crate::namespace::Export;

/// A file open for reading that is the version asked for.
pub(crate) struct Source {
    descriptor: Shared,
    salt: Salt,
    generation: Generation,
}

impl Source {
    /// Finds `file` in the version `generation`. A descriptor kept from before may be of an older version, or its
    /// directory no longer at that path; then the path is walked anew, once.
    pub(crate) fn find(
        backing: &Backing,
        export: &Export,
        file: &ViewPath,
        generation: &Generation,
        table: &Table,
    ) -> Result<Self, Errno> {
        let Some((dir, name)) = file.split().filter(|_| *file != export.path) else {
            return Err(Errno::EISDIR);
        };
        for _ in 0..2 {
            let descriptor = open(backing, export, &dir, name, file, generation)?;
            let stat = backing.calls.stat_generation(descriptor.as_fd())?;
            if backing.hides_device(stat.device, table)? {
                return Err(Errno::ENOENT);
            }
            check_kind(stat.attributes.kind())?;
            let salt = backing.numbers.salt(stat.device, file, table);
            if salt.attributes(&stat).generation() == *generation {
                return Ok(Self { descriptor, salt, generation: *generation });
            }
            backing.files.forget_one(file);
            backing.directories.forget_line(&dir);
        }
        Err(Errno::ESTALE)
    }

    /// Fills a body with chunk `index`.
    pub(crate) fn read(
        &self,
        backing: &Backing,
        index: ChunkIndex,
        started: impl FnOnce(Arc<Body>),
    ) -> Result<Arc<Body>, Errno> {
        let body = Body::filling(chunk_bytes(self.generation.size_bytes, index));
        started(Arc::clone(&body));
        match self.fill(backing, index, &body) {
            Ok(()) => Ok(body),
            Err(errno) => {
                body.fail(errno);
                Err(errno)
            }
        }
    }

    /// Fills a buffer with the bytes from an offset on, all of which the file has.
    pub(crate) fn read_at(&self, backing: &Backing, buffer: &mut [u8], offset_bytes: u64) -> Result<(), Errno> {
        if buffer.len() > PIECE_BYTES {
            backing.calls.will_read(self.descriptor.as_fd(), offset_bytes, buffer.len());
        }
        let count = backing.calls.read(self.descriptor.as_fd(), buffer, offset_bytes)?;
        if count < buffer.len() || !self.is_current(backing)? {
            return Err(Errno::ESTALE);
        }
        Ok(())
    }

    fn fill(&self, backing: &Backing, index: ChunkIndex, body: &Body) -> Result<(), Errno> {
        let (len, mut at) = (body.expected_bytes(), 0);
        if len > PIECE_BYTES {
            backing.calls.will_read(self.descriptor.as_fd(), index.start_bytes(), len);
        }
        while at < len {
            let want = (len - at).min(PIECE_BYTES);
            let mut buffer = backing.pool.take(want);
            let count = backing.calls.read(self.descriptor.as_fd(), &mut buffer, index.start_bytes() + at as u64)?;
            if count < want || !self.is_current(backing)? {
                return Err(Errno::ESTALE);
            }
            body.push(buffer.freeze(want));
            at += want;
        }
        Ok(())
    }

    fn is_current(&self, backing: &Backing) -> Result<bool, Errno> {
        let stat = backing.calls.stat_generation(self.descriptor.as_fd())?;
        Ok(self.salt.attributes(&stat).generation() == self.generation)
    }
}

/// Opens the file, or takes the descriptor that is kept: a file of one chunk is read once and not kept open.
fn open(
    backing: &Backing,
    export: &Export,
    dir: &ViewPath,
    name: &[u8],
    file: &ViewPath,
    generation: &Generation,
) -> Result<Shared, Errno> {
    let open = || {
        backing.in_directory(export, dir, |base| {
            // Opening a device or FIFO would have effects of its own.
            check_kind(backing.calls.stat_kind(base, name)?.attributes.kind())?;
            backing.calls.file(base, name)
        })
    };
    if generation.size_bytes > CHUNK_BYTES {
        Ok(backing.files.get_or_open(file, open)?.0)
    } else {
        open().map(Arc::new)
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
