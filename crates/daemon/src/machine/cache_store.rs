//! The cache store of this machine: one thread writes to it and looks after it, and no request waits for that thread. Where it is behind, the
//! threads that read the backing file system write, too: a set that fits the store is in it after one epoch.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use forebay_body::{Body, Pool};
use forebay_chunk_store::{ChunkKey, ChunkName, ChunkStore, Counters, FileDisk, Neighbour};
use forebay_fuse::MountedAt;
use forebay_types::{ChunkIndex, Generation, ViewPath};

use crate::environment::CachedChunks;
use crate::options::{BurstOptions, CacheStoreOptions, DaemonOptions};

/// Chunks that wait to be written: 32 MiB, which a disk takes in some tens of milliseconds.
const WAITING_MAX: usize = 32;

/// How often the store is looked after.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the table of mounts is believed.
const MOUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// A file must have been left alone for so long: within its clock's grain, of a second on some file systems, another change leaves the
/// same version.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// File systems in images. Builders give all their files the same times, so two images may have other contents of one version.
const IMAGES: [&str; 7] = ["cramfs", "erofs", "iso9660", "romfs", "squashfs", "fuse.squashfuse", "fuse.squashfuse_ll"];

/// A store in use by this daemon.
pub struct CacheStore {
    store: Arc<ChunkStore>,
    waiting: SyncSender<(ChunkKey, Arc<Body>)>,
    /// Chunks that were not put, because their files were not settled.
    dropped: AtomicU64,
    mounts: Mutex<(Option<Instant>, Arc<[MountedAt]>)>,
}

impl CacheStore {
    /// Opens the store of a daemon.
    ///
    /// # Errors
    /// When there can be none.
    pub fn open(options: &DaemonOptions, pool: &Pool) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(CacheStoreOptions { directory, capacity_bytes }) = &options.cache_store else { return Ok(None) };
        let neighbour =
            |burst: &BurstOptions| Neighbour { directory: burst.store.clone(), capacity_bytes: burst.capacity_bytes };
        let disk = FileDisk::open(directory, options.burst.as_ref().map(neighbour))?;
        let store = Arc::new(ChunkStore::open(Box::new(disk), *capacity_bytes, pool.clone(), directory)?);
        let (waiting, chunks) = sync_channel(WAITING_MAX);
        let written = Arc::clone(&store);
        let thread = std::thread::Builder::new().name("cache-store".to_owned());
        thread.spawn(move || look_after(&written, &chunks)).context("starting the thread of the cache store")?;
        Ok(Some(Arc::new(Self { store, waiting, dropped: AtomicU64::new(0), mounts: Mutex::default() })))
    }

    /// The mounts as of a second ago or later.
    fn mounts(&self) -> Arc<[MountedAt]> {
        let known = self.mounts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.0.is_some_and(|at| at.elapsed() < MOUNTS_INTERVAL) {
            return known.1;
        }
        let now = MountedAt::all().unwrap_or_default().into();
        *self.mounts.lock().unwrap_or_else(PoisonError::into_inner) = (Some(Instant::now()), Arc::clone(&now));
        now
    }
}

/// The name of the file system that a path lies on; `None` of an image, and where that is not known.
fn file_system(mounts: &[MountedAt], file: &ViewPath) -> Option<String> {
    let covers = |mounted: &&MountedAt| {
        let dir = mounted.dir.as_os_str().as_bytes();
        let dir = dir.strip_prefix(b"/").unwrap_or(dir);
        let rest = file.as_bytes().strip_prefix(dir);
        rest.is_some_and(|rest| dir.is_empty() || rest.is_empty() || rest.starts_with(b"/"))
    };
    // Of several at one place the last is in view.
    let mounted = mounts.iter().filter(covers).max_by_key(|mounted| mounted.dir.as_os_str().len())?;
    let MountedAt { file_system, source, .. } = mounted;
    (!IMAGES.contains(&file_system.as_str())).then(|| format!("{file_system} {source}"))
}

/// Whether the last change of a file is so long ago that every later one gives another version.
fn is_settled(generation: &Generation, now: SystemTime) -> bool {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = generation.ctime.seconds.max(generation.mtime.seconds);
    u64::try_from(changed).is_ok_and(|changed| Duration::from_secs(changed + 1) + SETTLED_AFTER <= now)
}

/// Writes what waits, and looks after the store, until the daemon ends.
fn look_after(store: &ChunkStore, chunks: &Receiver<(ChunkKey, Arc<Body>)>) {
    let mut looked_at = Instant::now();
    loop {
        match chunks.recv_timeout(LOOK_INTERVAL.saturating_sub(looked_at.elapsed())) {
            Ok((key, body)) => store.put(&key, &body),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if looked_at.elapsed() >= LOOK_INTERVAL {
            store.tend();
            looked_at = Instant::now();
        }
    }
}

impl CachedChunks for CacheStore {
    fn key(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> Option<ChunkKey> {
        let file_system = file_system(&self.mounts(), file)?;
        Some(ChunkKey::new(&ChunkName { file_system: &file_system, file, generation, index }))
    }

    fn get(&self, key: &ChunkKey, len_bytes: usize) -> Option<Arc<Body>> {
        self.store.get(key, len_bytes)
    }

    fn put(&self, key: ChunkKey, generation: &Generation, body: Arc<Body>) {
        if !is_settled(generation, SystemTime::now()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else if let Err(TrySendError::Full((key, body)) | TrySendError::Disconnected((key, body))) =
            self.waiting.try_send((key, body))
        {
            self.store.put(&key, &body);
        }
    }

    fn counters(&self) -> Counters {
        let counters = self.store.recent_counters();
        Counters { refused: counters.refused + self.dropped.load(Ordering::Relaxed), ..counters }
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::Timestamp;

    use super::*;

    fn mounted(dir: &str, file_system: &str, source: &str) -> MountedAt {
        let (file_system, source, dir) = (file_system.to_owned(), source.to_owned(), dir.into());
        let (id, parent, device) = (1, 0, (0, 1));
        MountedAt { id, parent, dir, is_whole: true, file_system, source, device, is_read_only: false, user: None }
    }

    #[test]
    fn the_innermost_mount_in_view_names_the_file_system_and_images_have_no_name() {
        let mounts = [
            mounted("/", "ext4", "/dev/a"),
            mounted("/data", "nfs4", "old:/d"),
            mounted("/data", "nfs4", "s:/d"),
            mounted("/data/image", "squashfs", "/dev/loop0"),
        ];
        let of = |path: &str| file_system(&mounts, &ViewPath::new(path.as_bytes()).unwrap());
        assert_eq!(of("data/x/y").as_deref(), Some("nfs4 s:/d"));
        assert_eq!(of("database").as_deref(), Some("ext4 /dev/a"));
        assert_eq!(of("data/image/f"), None);
        assert_eq!(file_system(&[], &ViewPath::new(b"f").unwrap()), None);
    }

    #[test]
    fn a_file_that_may_change_within_its_clocks_grain_is_not_kept() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let changed = |seconds| Generation { ctime: Timestamp { seconds, nanos: 0 }, ..Generation::default() };
        assert!(is_settled(&changed(997), now));
        assert!(!is_settled(&changed(998), now));
        assert!(!is_settled(&changed(2000), now), "by a server whose clock is ahead");
    }
}
