//! Files as a worker sees them: those that its daemon says this node holds, by their names in the job, wherever they lie here, and no
//! others. Each is read in the version that the plan means, before and after: a change in between is an error.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use forebay_offload::AskedFile;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::checked::Checks;
use crate::inflate::{self, uncompressed};
use crate::opening;
use crate::quotes::Extent;
use crate::records;

/// Words of the error of a file that is not the one that the plan means; a statement that meets it is planned again.
pub const CHANGED: &str = "has changed since the statement began";

/// Bytes that are read at once, between two looks at the file.
const READ_BYTES: u64 = 1 << 20;

/// The files of this node that its plans read.
#[derive(Debug, Default)]
pub struct Placed {
    places: RwLock<HashMap<Path, Arc<Place>>>,
    checks: Checks,
}

/// One of them.
#[derive(Debug)]
struct Place {
    meta: ObjectMeta,
    path: PathBuf,
    asked: AskedFile,
    /// Its inode and the time of its last change, when it was opened first.
    seen: OnceLock<(u64, i64, i64)>,
}

impl Placed {
    /// How they are looked at.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// A file from now on.
    ///
    /// # Errors
    /// It is known in another version.
    pub fn add(&self, meta: ObjectMeta, asked: AskedFile, path: PathBuf) -> Result<(), String> {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let name = meta.location.clone();
        match places.get(&name) {
            Some(known) if known.asked != asked => Err(format!("{} {CHANGED}", asked.path)),
            Some(_) => Ok(()),
            None => {
                places.insert(name, Arc::new(Place { meta, path, asked, seen: OnceLock::new() }));
                Ok(())
            }
        }
    }

    /// Whether it is known in this version.
    pub fn has(&self, name: &Path, asked: &AskedFile) -> bool {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.get(name).is_some_and(|known| known.asked == *asked)
    }

    /// Reads one.
    ///
    /// # Errors
    /// It cannot be opened, or is another version.
    pub fn reading(&self, name: &Path) -> io::Result<records::Read> {
        let place = self.place(name).map_err(io::Error::other)?;
        let file = place.open()?;
        Ok(Box::new(move |range| place.read(&file, &range)))
    }

    fn place(&self, name: &Path) -> Result<Arc<Place>> {
        let none = || Error::NotFound { path: name.to_string(), source: "it is not a file of this statement".into() };
        self.places.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned().ok_or_else(none)
    }
}

impl Place {
    fn open(&self) -> io::Result<File> {
        let file = opening::open(&self.path)?;
        self.check(&file.metadata()?)?;
        Ok(file)
    }

    fn check(&self, metadata: &Metadata) -> io::Result<()> {
        let now = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        let modified = (metadata.mtime(), metadata.mtime_nsec() as u32);
        let is_same = (metadata.len(), modified) == (self.asked.size_bytes, self.asked.modified);
        if is_same && *self.seen.get_or_init(|| now) == now {
            return Ok(());
        }
        Err(io::Error::other(format!("{} {CHANGED}", self.asked.path)))
    }

    /// Bytes of a range, as many as are read at once.
    fn read(&self, file: &File, range: &Range<u64>) -> io::Result<Bytes> {
        let mut bytes = vec![0; (range.end - range.start).min(READ_BYTES) as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        self.check(&file.metadata()?)?;
        Ok(bytes.into())
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Generic { store: "node", source: format!("{}: {error}", self.asked.path).into() }
    }
}

/// A file from its beginning, each of whose bytes is one of its version.
struct Reading {
    place: Arc<Place>,
    file: Option<File>,
    at: u64,
}

impl io::Read for Reading {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.place.open()?,
        };
        let end = self.place.meta.size.min(self.at + bytes.len() as u64);
        let read = self.place.read(self.file.insert(file), &(self.at..end))?;
        bytes[..read.len()].copy_from_slice(&read);
        self.at += read.len() as u64;
        Ok(read.len())
    }
}

async fn blocking<T: Send + 'static>(
    place: &Arc<Place>,
    read: impl FnOnce(&Place) -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let own = Arc::clone(place);
    #[expect(clippy::disallowed_methods, reason = "a worker may end where it has no thread")]
    let done = tokio::task::spawn_blocking(move || read(&own)).await;
    done.map_err(|error| place.failed(io::Error::other(error)))?.map_err(|error| place.failed(error))
}

fn range_of(wanted: Option<GetRange>, len: u64) -> Range<u64> {
    let Range { start, end } = match wanted {
        None => 0..len,
        Some(GetRange::Bounded(range)) => range,
        Some(GetRange::Offset(start)) => start..len,
        Some(GetRange::Suffix(bytes)) => len.saturating_sub(bytes)..len,
    };
    start.min(len)..end.clamp(start.min(len), len)
}

impl fmt::Display for Placed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the files of a statement")
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::NotImplemented { operation: "anything but reading".to_owned(), implementer: "a worker".to_owned() })
}

#[async_trait]
impl ObjectStore for Placed {
    async fn get_opts(&self, name: &Path, options: GetOptions) -> Result<GetResult> {
        let place = self.place(name)?;
        let meta = place.meta.clone();
        options.check_preconditions(&meta)?;
        let (_, kind) = uncompressed(name.as_ref());
        if kind != CompressionTypeVariant::UNCOMPRESSED && options.range.is_none() && !options.head {
            let range = 0..meta.size;
            let bytes = inflate::stream(name, Reading { place, file: None, at: 0 }, kind)?;
            let payload = GetResultPayload::Stream(self.checks.checked(name, Extent::WHOLE, bytes));
            return Ok(GetResult { payload, meta, range, attributes: Default::default() });
        }
        let range = range_of(options.range, meta.size);
        let wanted = if options.head { 0..0 } else { range.clone() };
        // The first bytes come with the opening: most reads are small.
        let is_looked_at = self.checks.has(name);
        let (file, first, begins_line) = blocking(&place, move |place| {
            let file = place.open()?;
            let first = place.read(&file, &wanted)?;
            let from = wanted.start;
            let begins_line = from == 0 || (is_looked_at && place.read(&file, &(from - 1..from))?[..] == *b"\n");
            Ok((Arc::new(file), first, begins_line))
        })
        .await?;
        let end = if options.head { range.start } else { range.end };
        let from = range.start + first.len() as u64;
        let rest = stream::try_unfold((place, file, from), move |(place, file, from)| async move {
            if from >= end {
                return Ok(None);
            }
            let own = Arc::clone(&file);
            let bytes = blocking(&place, move |place| place.read(&own, &(from..end))).await?;
            let next = from + bytes.len() as u64;
            Ok(Some((bytes, (place, file, next))))
        });
        let bytes = stream::once(async move { Ok(first) }).chain(rest).boxed();
        let extent = Extent { from: range.start, begins_line };
        let payload = GetResultPayload::Stream(self.checks.checked(name, extent, bytes));
        Ok(GetResult { payload, meta, range, attributes: Default::default() })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        refused()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        refused()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::once(async { refused() }).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { refused() }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        refused()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::object_store::ObjectStoreExt;
    use std::fs;

    fn placed(path: &std::path::Path, name: &str) -> (Placed, Path) {
        let placed = Placed::default();
        let name = Path::from(name);
        let metadata = fs::metadata(path).unwrap();
        let modified = (metadata.mtime(), metadata.mtime_nsec() as u32);
        let asked = AskedFile { path: name.to_string(), size_bytes: metadata.len(), modified };
        let last_modified = metadata.modified().unwrap().into();
        let meta =
            ObjectMeta { location: name.clone(), last_modified, size: metadata.len(), e_tag: None, version: None };
        placed.add(meta, asked, path.to_owned()).unwrap();
        (placed, name)
    }

    #[tokio::test]
    async fn a_file_is_read_where_it_lies_and_no_other() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("here");
        fs::write(&file, "0123456789").unwrap();
        let (placed, name) = placed(&file, "there");
        let all = placed.get(&name).await.unwrap().bytes().await.unwrap();
        assert_eq!(all, "0123456789");
        assert_eq!(placed.get_range(&name, 3..5).await.unwrap(), "34");
        assert_eq!(placed.get_ranges(&name, &[0..2, 8..10]).await.unwrap(), ["01", "89"]);
        let suffix = GetOptions { range: Some(GetRange::Suffix(3)), ..GetOptions::default() };
        assert_eq!(placed.get_opts(&name, suffix).await.unwrap().bytes().await.unwrap(), "789");
        assert_eq!(placed.head(&name).await.unwrap().size, 10);
        let other = Path::from_absolute_path(&file).unwrap();
        assert!(placed.get(&other).await.unwrap_err().to_string().contains("not a file of this statement"));
        placed.put(&name, PutPayload::from("x")).await.unwrap_err();
        placed.delete(&name).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_file_that_changes_is_an_error_even_while_it_is_read() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("here");
        let many = vec![b'x'; 2 * READ_BYTES as usize];
        fs::write(&file, &many).unwrap();
        let (placed, name) = placed(&file, "there");
        let mut reading = placed.get(&name).await.unwrap().into_stream();
        assert_eq!(reading.next().await.unwrap().unwrap().len() as u64, READ_BYTES);
        // The same size, and a moment later.
        fs::write(&file, &many).unwrap();
        assert!(reading.next().await.unwrap().unwrap_err().to_string().contains(CHANGED));
        assert!(placed.get(&name).await.unwrap_err().to_string().contains(CHANGED));
    }
}
