//! A file that is asked about, in the generation that it was opened in.
//!
//! A query of thousands of files has few of them open at once: one that is released is opened when it is read again, and must be of the
//! same generation then.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use forebay_query::limits::{BLOCK_BYTES, RECORD_BYTES_MAX, SCHEMA_BYTES_MAX};
use forebay_query::{QueryError, Reading, Schema, schema_of};

use crate::files::contents::Contents;

/// Bytes that a look for the schema reads first: enough where every column has a value among them.
const WINDOW_BYTES: u64 = 256 << 10;

/// Bytes of a file whose size is said to be 0, as those of `/proc` are: it is held in memory.
const UNSIZED_BYTES_MAX: u64 = 64 << 20;

/// A file.
pub struct FileSource {
    path: PathBuf,
    /// None while it is released.
    file: Mutex<Option<Arc<File>>>,
    generation: Generation,
    mode: u32,
    /// All of a file that has bytes though its size is 0.
    held: Option<Vec<u8>>,
}

/// The attributes that change when a file does.
#[derive(PartialEq, Eq)]
struct Generation {
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Generation {
    fn of(metadata: &Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// How many blocks a file of so many bytes has.
pub fn block_count(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}

impl FileSource {
    /// Opens a regular file.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let context = || format!("{} cannot be read", path.display());
        // Opening a pipe would wait for who writes into it.
        let metadata = std::fs::metadata(path).with_context(context)?;
        if metadata.is_dir() {
            let path = path.display();
            bail!(
                "{path} is a directory, not a regular file; name its files by a pattern in quotes, such as '{path}/*.csv'"
            );
        }
        if !metadata.is_file() {
            bail!("{} is not a regular file", path.display());
        }
        let file = File::open(path).with_context(context)?;
        let metadata = file.metadata().with_context(context)?;
        let generation = Generation::of(&metadata);
        let held = if generation.bytes == 0 { read_to_end(&file).with_context(context)? } else { vec![] };
        if held.len() as u64 > UNSIZED_BYTES_MAX {
            bail!(
                "{} has more than {} MiB, though its size is 0; copy it first, and query the copy",
                path.display(),
                UNSIZED_BYTES_MAX >> 20
            );
        }
        let held = (!held.is_empty()).then_some(held);
        let file = Mutex::new(Some(Arc::new(file)));
        Ok(Self { path: path.to_owned(), file, generation, mode: metadata.mode(), held })
    }

    /// Closes it until it is read again.
    pub fn release(&self) {
        self.lock().take();
    }

    /// It, open.
    fn file(&self) -> anyhow::Result<Arc<File>> {
        let mut open = self.lock();
        if let Some(file) = &*open {
            return Ok(Arc::clone(file));
        }
        let again = || format!("{} cannot be read again", self.path.display());
        let file = Arc::new(File::open(&self.path).with_context(again)?);
        self.ensure_same(&file)?;
        Ok(Arc::clone(open.insert(file)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<File>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ensure_same(&self, file: &File) -> anyhow::Result<()> {
        let metadata =
            file.metadata().with_context(|| format!("cannot read the attributes of {}", self.path.display()))?;
        if Generation::of(&metadata) != self.generation {
            bail!(
                "{} changed while it was read; repeat the query when nothing writes to the file",
                self.path.display()
            );
        }
        Ok(())
    }

    /// Its mode, as `stat` has it.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// As it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its columns, by its beginning: 4 MiB of it at most, unless one record has more.
    ///
    /// # Errors
    /// It cannot be read, changes, or is no table.
    pub fn schema(&self, reading: &Reading) -> anyhow::Result<Schema> {
        let name = || self.path.display().to_string();
        let mut window = vec![];
        let mut wanted = WINDOW_BYTES;
        loop {
            let (from, len) = (window.len(), self.bytes().min(wanted) as usize);
            window.resize(len, 0);
            self.read(&mut window[from..], from as u64)?;
            let is_end = len as u64 == self.bytes();
            if let Some(schema) = schema_of(&window, is_end, reading).with_context(name)? {
                self.check()?;
                return Ok(schema);
            }
            if wanted > 2 * RECORD_BYTES_MAX {
                return Err(QueryError::FirstRecordTooLong).with_context(name);
            }
            wanted = if wanted < SCHEMA_BYTES_MAX { SCHEMA_BYTES_MAX } else { wanted * 2 };
        }
    }

    /// Whether another node's file is this one: sizes and times of change are the same wherever it is seen. Files that make their
    /// contents up when they are read are not.
    pub fn is_version(&self, other: &forebay_types::Generation) -> bool {
        if self.held.is_some() {
            return false;
        }
        let modified = (other.mtime.seconds, i64::from(other.mtime.nanos));
        (other.size_bytes, modified) == (self.generation.bytes, self.generation.modified)
    }
}

/// The bytes of a file, up to one more than may be held.
fn read_to_end(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    file.take(UNSIZED_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Contents for FileSource {
    fn bytes(&self) -> u64 {
        self.held.as_ref().map_or(self.generation.bytes, |held| held.len() as u64)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> anyhow::Result<()> {
        if let Some(held) = &self.held {
            // All bytes within the file's size are held.
            buffer.copy_from_slice(&held[offset as usize..][..buffer.len()]);
            return Ok(());
        }
        let file = self.file()?;
        let mut at = 0;
        while at < buffer.len() {
            match file.read_at(&mut buffer[at..], offset + at as u64) {
                Ok(0) => bail!("{} became shorter while it was read", self.path.display()),
                Ok(len) => at += len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("{} cannot be read at {offset}", self.path.display()));
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        match self.held {
            // Its bytes are those of one moment.
            Some(_) => Ok(()),
            None => self.ensure_same(&*self.file()?),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_released_file_is_opened_again_and_must_be_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv");
        std::fs::write(&path, "x\n1\n").unwrap();
        let source = FileSource::open(&path).unwrap();
        let read = || {
            let mut bytes = [0; 4];
            source.read(&mut bytes, 0).map(|()| bytes)
        };
        source.release();
        assert_eq!(&read().unwrap(), b"x\n1\n");
        source.check().unwrap();
        source.release();
        std::fs::write(&path, "x\n12\n").unwrap();
        let changed = read().unwrap_err().to_string();
        assert!(changed.contains("t.csv changed while it was read"), "{changed}");
        std::fs::remove_file(&path).unwrap();
        let gone = source.check().unwrap_err().to_string();
        assert!(gone.contains("t.csv cannot be read again"), "{gone}");
    }
}
