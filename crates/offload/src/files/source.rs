//! A file that is asked about, in the generation that it was opened in.
//!
//! A query of thousands of files has few of them open at once: one that is released is opened when it is read again, and must be of the
//! same generation then. One that is compressed is read in order (`in_order`), and so is a pipe, which has no generation and comes once.

use std::fs::{File, Metadata};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context, anyhow, bail};
use forebay_query::limits::{BLOCK_BYTES, RECORD_BYTES_MAX, SCHEMA_BYTES_MAX};
use forebay_query::{Finding, Header, Kept, QueryError, Reading, Schema, Separator, schema_of};

use crate::arrays::{ArrayFormat, ArraySource, ArrayTable, Columns, Store};
use crate::contents::Contents;
use crate::files::converted::{Converted, is_parquet};
use crate::files::in_order::{InOrder, Origin};
use crate::files::input::{STANDARD_INPUT, UNSIZED_BYTES_MAX, beginning, is_input, read_to_end};
use crate::packing::Packing;

/// Bytes that a look for the schema reads first: enough where every column has a value among them.
const WINDOW_BYTES: u64 = 256 << 10;

/// A file.
pub struct FileSource {
    path: PathBuf,
    /// None while it is released.
    file: Mutex<Option<Arc<File>>>,
    generation: Generation,
    mode: u32,
    /// All of a file that has bytes though its size is 0.
    held: Option<Vec<u8>>,
    /// How it is compressed.
    packing: Option<Packing>,
    /// The bytes of a pipe; None once they were read.
    pipe: Option<Mutex<Option<InOrder<'static>>>>,
    /// The directory of Zarr arrays that it is.
    store: Option<Arc<Store>>,
    /// Its data sets, if it has some, once its schema is known.
    data_sets: OnceLock<DataSets>,
    /// It is Parquet, which is known once its schema is.
    converted: OnceLock<()>,
}

/// The data sets that are a file's table.
struct DataSets {
    names: Vec<String>,
    /// Bytes of their rows.
    bytes: u64,
    /// They, open; None while the file is released.
    table: Mutex<Option<Arc<ArrayTable>>>,
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

impl DataSets {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<ArrayTable>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileSource {
    /// Opens a regular file, a directory of Zarr arrays, or standard input or a shell's pipe, whatever it is.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let context = || format!("{} cannot be read", path.display());
        // Opening a pipe would wait for who writes into it.
        let metadata = std::fs::metadata(path).with_context(context)?;
        if metadata.is_dir() {
            if let Some(store) = Store::at(path) {
                return Ok(Self::of_store(path, &metadata, store));
            }
            let path = path.display();
            bail!(
                "{path} is a directory, not a regular file; name its files by a pattern in quotes, such as '{path}/*.csv'"
            );
        }
        if is_input(path, &metadata) {
            return Self::of_pipe(path, metadata);
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
        let packing = Packing::of(&beginning(&file, &held).with_context(context)?);
        let held = (!held.is_empty()).then_some(held);
        let file = Mutex::new(Some(Arc::new(file)));
        Ok(Self {
            path: path.to_owned(),
            file,
            generation,
            mode: metadata.mode(),
            held,
            packing,
            pipe: None,
            store: None,
            data_sets: OnceLock::new(),
            converted: OnceLock::new(),
        })
    }

    /// Bytes that come in order from a place that has no size.
    fn of_pipe(path: &Path, metadata: Metadata) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let open = || match path == Path::new(STANDARD_INPUT) {
            true => std::io::stdin().as_fd().try_clone_to_owned().map(File::from),
            false => File::open(path),
        };
        let pipe = open().with_context(|| format!("{name} cannot be read"))?;
        if pipe.is_terminal() {
            bail!("{name} is a terminal; redirect a file or a command's output to it");
        }
        let bytes = InOrder::of_pipe(name, pipe)?;
        let packing = bytes.packing();
        let generation = Generation { bytes: 0, ..Generation::of(&metadata) };
        let (file, pipe) = (Mutex::new(None), Some(Mutex::new(Some(bytes))));
        let (path, mode) = (path.to_owned(), metadata.mode());
        let (data_sets, converted) = (OnceLock::new(), OnceLock::new());
        Ok(Self { path, file, generation, mode, held: None, packing, pipe, store: None, data_sets, converted })
    }

    /// A directory of Zarr arrays. It has no bytes of its own, and knows by itself whether it changes.
    fn of_store(path: &Path, metadata: &Metadata, store: Store) -> Self {
        let generation = Generation { bytes: 0, ..Generation::of(metadata) };
        Self {
            path: path.to_owned(),
            file: Mutex::new(None),
            generation,
            mode: metadata.mode(),
            held: None,
            packing: None,
            pipe: None,
            store: Some(Arc::new(store)),
            data_sets: OnceLock::new(),
            converted: OnceLock::new(),
        }
    }

    /// Whether it is a directory of Zarr arrays.
    pub fn is_store(&self) -> bool {
        self.store.is_some()
    }

    /// How it is compressed.
    pub fn packing(&self) -> Option<Packing> {
        self.packing
    }

    /// Whether its size is known only at its end, and it is read once.
    pub fn is_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    /// Whether its bytes come in order, from the first on.
    pub fn is_in_order(&self) -> bool {
        self.packing.is_some() || self.is_pipe() || self.is_converted()
    }

    /// Whether another program reads it, and writes its rows as text: it is Parquet.
    pub fn is_converted(&self) -> bool {
        self.converted.get().is_some()
    }

    /// Whether its table is none of text.
    pub fn is_no_text(&self) -> bool {
        self.has_data_sets() || self.is_converted()
    }

    /// Its bytes in order, from the first on; None if they can be read by place.
    ///
    /// # Errors
    /// They come once, and have come.
    pub(crate) fn in_order(&self) -> anyhow::Result<Option<InOrder<'_>>> {
        if self.is_converted() {
            return Ok(Some(self.rows_of_text()?));
        }
        let Some(pipe) = &self.pipe else {
            let bytes = |packing| InOrder::new(self.path.display().to_string(), Origin::File(self), Some(packing));
            return Ok(self.packing.map(bytes));
        };
        let bytes = pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
        bytes.map(Some).with_context(|| {
            let path = self.path.display();
            format!(
                "{path} comes once, and a second pass is needed, since columns turned out to have text, or no number; name columns \
                 with --columns, or write it to a file first"
            )
        })
    }

    /// The rows of a file that is converted.
    fn rows_of_text(&self) -> anyhow::Result<InOrder<'static>> {
        let rows = Converted::start(&self.path)?;
        Ok(InOrder::new(self.path.display().to_string(), Origin::Converted(rows), None))
    }

    /// The result of reading it, unless it changed meanwhile, which may be why that failed.
    pub(crate) fn unless_changed<T>(&self, read: anyhow::Result<T>) -> anyhow::Result<T> {
        self.check()?;
        read
    }

    /// Closes it until it is read again.
    pub fn release(&self) {
        self.lock().take();
        if let Some(data_sets) = self.data_sets.get() {
            data_sets.lock().take();
        }
        if let Some(store) = &self.store {
            store.forget_chunks();
        }
    }

    /// Bytes of its rows: its own, or those that its data sets have as rows of doubles.
    pub fn table_bytes(&self) -> u64 {
        self.data_sets.get().map_or_else(|| self.bytes(), |data_sets| data_sets.bytes)
    }

    /// Whether its table is made of data sets.
    pub fn has_data_sets(&self) -> bool {
        self.data_sets.get().is_some()
    }

    /// The names of the data sets that are its table; none for text.
    pub fn data_sets(&self) -> &[String] {
        self.data_sets.get().map_or(&[], |data_sets| &data_sets.names)
    }

    /// The columns that a pass looks at, of a table of data sets; None for text.
    ///
    /// # Errors
    /// It cannot be read again.
    pub fn columns(&self, kept: Option<&Kept<'_>>) -> anyhow::Result<Option<Columns>> {
        let Some((data_sets, kept)) = self.data_sets.get().zip(kept) else { return Ok(None) };
        let mut open = data_sets.lock();
        let table = match &*open {
            Some(table) => Arc::clone(table),
            None => {
                let name = || self.path.display().to_string();
                let table = ArrayTable::open_again(self.origin()?, &data_sets.names).with_context(name)?;
                Arc::clone(open.insert(Arc::new(table)))
            }
        };
        Ok(Some(table.only(kept, self.path.display().to_string())))
    }

    /// The place where its data sets are: the store that it is, or itself, opened once more.
    fn origin(&self) -> anyhow::Result<ArraySource> {
        match &self.store {
            Some(store) => Ok(ArraySource::Store(Arc::clone(store))),
            None => Ok(ArraySource::File(Arc::new(self.again()?))),
        }
    }

    /// The same file, opened once more.
    fn again(&self) -> anyhow::Result<Self> {
        let again = Self::open(&self.path)?;
        match again.generation == self.generation {
            true => Ok(again),
            false => Err(self.changed()),
        }
    }

    fn changed(&self) -> anyhow::Error {
        anyhow!("{} changed while it was read; repeat the query when nothing writes to the file", self.path.display())
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

    fn lock(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ensure_same(&self, file: &File) -> anyhow::Result<()> {
        let metadata =
            file.metadata().with_context(|| format!("cannot read the attributes of {}", self.path.display()))?;
        if Generation::of(&metadata) != self.generation {
            return Err(self.changed());
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
        if self.is_store() {
            return self.schema_of_data_sets(reading).with_context(|| self.path.display().to_string());
        }
        if let Some(pipe) = &self.pipe {
            let mut bytes = pipe.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes = bytes.as_mut().context("the pipe was read already")?;
            return self.schema_in_order(bytes, reading);
        }
        if let Some(mut bytes) = self.in_order()? {
            return self.unless_changed(self.schema_in_order(&mut bytes, reading));
        }
        let mut window = vec![];
        let mut wanted = WINDOW_BYTES;
        loop {
            let (from, len) = (window.len(), self.bytes().min(wanted) as usize);
            window.resize(len, 0);
            self.read(&mut window[from..], from as u64)?;
            if ArrayFormat::of(&window).is_some() {
                return self.schema_of_data_sets(reading).with_context(|| self.path.display().to_string());
            }
            if is_parquet(&window) {
                return self.unless_changed(self.schema_of_converted(reading));
            }
            let is_end = len as u64 == self.bytes();
            if let Some(schema) = self.schema_by(&window, is_end, reading)? {
                self.check()?;
                return Ok(schema);
            }
            wanted = self.wider(wanted)?;
        }
    }

    /// Its columns, if it is converted: text as `forebay-sql` writes it.
    fn schema_of_converted(&self, reading: &Reading) -> anyhow::Result<Schema> {
        let (missing, columns) = (reading.missing.clone(), reading.columns.clone());
        let separator = Some(Separator::Byte(b','));
        let reading = Reading {
            separator,
            point: Some(b'.'),
            header: Header::Yes,
            is_bare: true,
            missing,
            columns,
            ..Reading::default()
        };
        let mut rows = self.rows_of_text()?;
        let mut schema = self.schema_in_order(&mut rows, &reading)?;
        let left_out = rows.left_out();
        if !left_out.is_empty() {
            schema.findings.push(Finding::NotText(left_out));
        }
        let _ = self.converted.set(());
        Ok(schema)
    }

    fn schema_in_order(&self, bytes: &mut InOrder<'_>, reading: &Reading) -> anyhow::Result<Schema> {
        let mut wanted = WINDOW_BYTES;
        loop {
            let (window, is_end) = bytes.beginning(wanted as usize)?;
            if ArrayFormat::of(window).is_some() {
                let path = self.path.display();
                bail!("{path} has data sets, which do not come in order; write it to a file first, decompressed");
            }
            if let Some(schema) = self.schema_by(window, is_end, reading)? {
                return Ok(schema);
            }
            wanted = self.wider(wanted)?;
        }
    }

    fn schema_by(&self, window: &[u8], is_end: bool, reading: &Reading) -> anyhow::Result<Option<Schema>> {
        schema_of(window, is_end, reading).with_context(|| self.path.display().to_string())
    }

    /// The next window of a look for the schema, if so much was not enough.
    fn wider(&self, wanted: u64) -> anyhow::Result<u64> {
        if wanted > 2 * RECORD_BYTES_MAX {
            return Err(QueryError::FirstRecordTooLong).with_context(|| self.path.display().to_string());
        }
        Ok(if wanted < SCHEMA_BYTES_MAX { SCHEMA_BYTES_MAX } else { wanted * 2 })
    }

    /// Its columns, if it has data sets.
    fn schema_of_data_sets(&self, reading: &Reading) -> anyhow::Result<Schema> {
        let table = ArrayTable::open(self.origin()?, &reading.columns)?;
        self.check()?;
        let schema = table.schema(reading.missing.clone());
        let (names, bytes) = (table.data_sets(), table.bytes());
        let table = Mutex::new(Some(Arc::new(table)));
        let _ = self.data_sets.set(DataSets { names, bytes, table });
        Ok(schema)
    }

    /// Whether another node's file is this one: sizes and times of change are the same wherever it is seen. Files that make their
    /// contents up when they are read are not.
    pub fn is_version(&self, other: &forebay_types::Generation) -> bool {
        if self.held.is_some() || self.is_pipe() || self.is_store() {
            return false;
        }
        let modified = (other.mtime.seconds, i64::from(other.mtime.nanos));
        (other.size_bytes, modified) == (self.generation.bytes, self.generation.modified)
    }
}

impl Contents for FileSource {
    fn bytes(&self) -> u64 {
        self.held.as_ref().map_or(self.generation.bytes, |held| held.len() as u64)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> anyhow::Result<()> {
        anyhow::ensure!(!self.is_pipe(), "{} can only be read in order", self.path.display());
        anyhow::ensure!(!self.is_store(), "{} is a directory", self.path.display());
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
            // Those of a pipe come once.
            None if self.is_pipe() => Ok(()),
            None if let Some(store) = &self.store => store.check(),
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
