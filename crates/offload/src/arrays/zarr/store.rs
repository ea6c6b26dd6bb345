//! The files of a Zarr store, below one directory: opened when they are read, and closed behind that.
//!
//! The size, times and inode number of each are remembered. A file that is another when it is read again, or at the end (`check`), is an
//! error: the answer would be about no state that the store ever had. So is one that appears or disappears.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, anyhow, bail, ensure};
use rustix::fs::OFlags;
use serde_json::Value;

use crate::arrays::zarr::json;

/// Bytes of a document: consolidated ones of ten thousand arrays have fewer.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// Files that are remembered until the end: some 20 MiB. Of more, a change is noticed while a file is read, or read again.
const SEEN_MAX: usize = 1 << 18;

/// Files that are looked at again at the same time: each waits for the file system.
const AT_ONCE: usize = 16;

/// The documents by which a directory is known, the newest format first.
const DOCUMENTS: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

/// A file as it was: a hash of its attributes. None if it was not there.
type Seen = Option<u64>;

/// A store.
pub struct Store {
    path: PathBuf,
    seen: Mutex<BTreeMap<Box<str>, Seen>>,
}

/// The bytes of a file that are wanted.
#[derive(Clone, Copy)]
pub enum Extent {
    /// All of them, so many at most.
    All(u64),
    /// Those from a place on.
    From(u64, usize),
    /// The last ones.
    Last(usize),
}

impl Store {
    /// The store that a directory is; None if it is none.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let is_store = DOCUMENTS.iter().any(|document| path.join(document).is_file());
        is_store.then(|| Self { path: path.to_owned(), seen: Mutex::default() })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A document; None if there is no such file.
    ///
    /// # Errors
    /// It cannot be read, is too large, or no JSON.
    pub fn document(&self, key: &str) -> anyhow::Result<Option<Value>> {
        let Some(bytes) = self.read(key, Extent::All(DOCUMENT_BYTES_MAX))? else { return Ok(None) };
        json::parse(&bytes).map(Some).with_context(|| format!("its document {key} is no JSON"))
    }

    /// Bytes of a file; None if there is no such file.
    ///
    /// # Errors
    /// It cannot be read, changes, or does not have so many bytes, or has more.
    pub fn read(&self, key: &str, extent: Extent) -> anyhow::Result<Option<Vec<u8>>> {
        let context = || format!("{} cannot be read", self.path.join(key).display());
        let opened =
            OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(self.path.join(key));
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.remember(key, None)?;
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(context),
        };
        let before = file.metadata().with_context(context)?;
        if !before.is_file() {
            bail!("{} is not a regular file", self.path.join(key).display());
        }
        self.remember(key, Some(mark(&before)))?;
        let bytes = read_extent(&file, before.len(), extent).with_context(context)?;
        match mark(&file.metadata().with_context(context)?) == mark(&before) {
            true => Ok(Some(bytes)),
            false => Err(self.changed(key)),
        }
    }

    /// Whether there is a directory, and which; None if there is none.
    ///
    /// # Errors
    /// That cannot be told.
    pub fn directory(&self, key: &str) -> anyhow::Result<Option<(u64, u64)>> {
        let path = self.path.join(key);
        match std::fs::metadata(&path) {
            Ok(metadata) => Ok(metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))),
            // A link to nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }

    /// The names in a directory that members of a group may have, in order, `count_max` at most.
    ///
    /// # Errors
    /// It cannot be listed, has more, or one is no UTF-8.
    pub fn members(&self, key: &str, count_max: usize) -> anyhow::Result<Vec<String>> {
        let path = self.path.join(key);
        let context = || format!("{} cannot be listed", path.display());
        let mut names = vec![];
        for entry in std::fs::read_dir(&path).with_context(context)? {
            let entry = entry.with_context(context)?;
            if entry.file_type().with_context(context)?.is_file() {
                continue;
            }
            // Others are no names of Zarr.
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
            {
                ensure!(names.len() < count_max, "its group /{key} has more than {count_max} members");
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Fails if a file that was read is not as it was.
    ///
    /// # Errors
    /// It is not, or that cannot be told.
    pub fn check(&self) -> anyhow::Result<()> {
        let seen: Vec<(Box<str>, Seen)> = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.iter().map(|(key, mark)| (key.clone(), *mark)).collect()
        };
        let same = |part: &[(Box<str>, Seen)]| part.iter().try_for_each(|(key, was)| self.ensure_same(key, *was));
        if seen.len() <= AT_ONCE {
            return same(&seen);
        }
        thread::scope(|scope| {
            let parts = seen.chunks(seen.len().div_ceil(AT_ONCE));
            let checks: Vec<_> =
                parts.map(|part| (part, thread::Builder::new().spawn_scoped(scope, move || same(part)))).collect();
            checks.into_iter().try_for_each(|(part, check)| match check {
                Ok(check) => check.join().unwrap_or_else(|_| Err(anyhow!("a thread of the query panicked"))),
                // Where there are no more threads, this one looks.
                Err(_) => same(part),
            })
        })
    }

    /// Forgets how files were; those that are read again are compared with nothing before.
    pub fn forget_chunks(&self) {
        let is_document =
            |key: &str| key.rsplit('/').next().is_some_and(|name| name.starts_with('.') || name == "zarr.json");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| is_document(key));
    }

    fn ensure_same(&self, key: &str, was: Seen) -> anyhow::Result<()> {
        let now = match std::fs::metadata(self.path.join(key)) {
            Ok(metadata) => Some(mark(&metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read the attributes of {key}")),
        };
        if now == was { Ok(()) } else { Err(self.changed(key)) }
    }

    fn remember(&self, key: &str, mark: Seen) -> anyhow::Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = seen.len() >= SEEN_MAX;
        match seen.entry(key.into()) {
            Entry::Occupied(was) if *was.get() != mark => Err(self.changed(key)),
            Entry::Vacant(new) if !is_full => {
                new.insert(mark);
                Ok(())
            }
            Entry::Occupied(_) | Entry::Vacant(_) => Ok(()),
        }
    }

    fn changed(&self, key: &str) -> anyhow::Error {
        let path = self.path.join(key);
        anyhow!("{} changed while it was read; repeat the query when nothing writes to the store", path.display())
    }
}

fn mark(metadata: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
    (metadata.ino(), metadata.len(), times).hash(&mut hasher);
    hasher.finish()
}

fn read_extent(file: &File, bytes: u64, extent: Extent) -> io::Result<Vec<u8>> {
    let other = |message: String| io::Error::new(ErrorKind::InvalidData, message);
    let (at, len) = match extent {
        Extent::All(most) if bytes > most => {
            return Err(other(format!("it has {bytes} bytes, and {most} are the most")));
        }
        Extent::All(_) => (0, bytes as usize),
        Extent::From(at, len) => (at, len),
        Extent::Last(len) => (bytes.saturating_sub(len as u64), len),
    };
    if at.checked_add(len as u64).is_none_or(|end| end > bytes) {
        return Err(other(format!("it ends at {bytes} bytes, before {len} bytes at {at}")));
    }
    let mut read = vec![0; len];
    file.read_exact_at(&mut read, at)?;
    Ok(read)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_change_appear_or_disappear_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert!(Store::at(directory.path()).is_none());
        fs::write(path(".zarray"), "{}").unwrap();
        fs::write(path("0"), "1234").unwrap();
        let store = || Store::at(directory.path()).unwrap();
        let all = |store: &Store, name: &str| store.read(name, Extent::All(9)).unwrap();
        let said = |result: anyhow::Result<()>| result.unwrap_err().to_string();
        let first = store();
        assert_eq!((all(&first, "0").as_deref(), all(&first, "1")), (Some(&b"1234"[..]), None));
        first.check().unwrap();
        fs::write(path("1"), "").unwrap();
        assert!(said(first.check()).contains("1 changed while it was read"));
        let second = store();
        all(&second, "0");
        fs::write(path("2"), "4321").unwrap();
        fs::rename(path("2"), path("0")).unwrap();
        assert!(said(second.check()).contains("0 changed while"));
        assert!(said(second.read("0", Extent::All(9)).map(drop)).contains("0 changed while"));
        let many = store();
        for name in 10..99 {
            all(&many, &name.to_string());
        }
        many.check().unwrap();
        fs::write(path("77"), "").unwrap();
        assert!(said(many.check()).contains("77 changed while"));
        many.forget_chunks();
        many.check().unwrap();
    }

    #[test]
    fn extents_are_within_files() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("zarr.json"), "{").unwrap();
        fs::write(directory.path().join("c"), "123456").unwrap();
        fs::create_dir(directory.path().join("d")).unwrap();
        let store = Store::at(directory.path()).unwrap();
        let read = |extent| store.read("c", extent).map(Option::unwrap);
        assert_eq!(read(Extent::Last(2)).unwrap(), b"56");
        assert_eq!(read(Extent::From(1, 3)).unwrap(), b"234");
        for extent in [Extent::All(5), Extent::Last(7), Extent::From(4, 3), Extent::From(u64::MAX, 2)] {
            assert!(format!("{:#}", read(extent).unwrap_err()).contains("c cannot be read: it "));
        }
        assert!(store.read("d", Extent::All(9)).is_err());
        assert!(store.document("zarr.json").unwrap_err().to_string().contains("zarr.json is no JSON"));
    }
}
