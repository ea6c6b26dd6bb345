//! The cache store of this machine: one thread writes to it and looks after it, others read it.
//!
//! No disk is waited for long. A chunk that does not come within two seconds is read from the backing file system, and the disk is not
//! asked until it answers again. Where the writer is behind, the threads that read the backing file system wait for it a moment, so that a set that fits the
//! store is in it after one epoch.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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

/// Threads that read the store.
const READERS: usize = 4;

/// How long a chunk of the store is waited for. An NVMe needs less than a millisecond.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How long a thread that reads the backing file system waits for the writer: all that waits there is written by a disk of 320 MB/s meanwhile. A
/// slower one gets what it takes, and slows no epoch down.
const ROOM_WITHIN: Duration = Duration::from_millis(100);

/// How often a thread looks whether the writer is behind no more.
const ROOM_INTERVAL: Duration = Duration::from_millis(2);

/// File systems whose files get other times with each change. Those in images have the times that their builders gave them, so two images may
/// have other contents of one version; and an overlay may show an image.
const KEPT: [&str; 21] = [
    "bcachefs",
    "beegfs",
    "btrfs",
    "ceph",
    "cifs",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "tmpfs",
    "wekafs",
    "xfs",
    "zfs",
];

/// The device number of loop devices, which show images.
const LOOP_MAJOR: u32 = 7;

/// A store in use by this daemon.
pub struct CacheStore {
    store: Arc<ChunkStore>,
    waiting: SyncSender<(ChunkKey, Arc<Body>)>,
    questions: SyncSender<Question>,
    asked: Arc<Asked>,
    /// A file's last change must be so long ago.
    settled_after: Duration,
    /// Chunks that were not put, because the disk was behind.
    dropped: AtomicU64,
    /// The same, because their files were not settled.
    unsettled: AtomicU64,
    mounts: Mutex<(Option<Instant>, Arc<[MountedAt]>)>,
}

impl CacheStore {
    /// Opens the store of a daemon.
    ///
    /// # Errors
    /// When there can be none.
    pub fn open(options: &DaemonOptions, pool: &Pool) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(CacheStoreOptions { directory, capacity_bytes, settled_after }) = &options.cache_store else {
            return Ok(None);
        };
        let neighbour =
            |burst: &BurstOptions| Neighbour { directory: burst.store.clone(), capacity_bytes: burst.capacity_bytes };
        let disk = FileDisk::open(directory, options.burst.as_ref().map(neighbour))?;
        let store = Arc::new(ChunkStore::open(Box::new(disk), *capacity_bytes, pool.clone(), directory)?);
        let (waiting, chunks) = sync_channel(WAITING_MAX);
        let written = Arc::clone(&store);
        let thread = std::thread::Builder::new().name("cache-store".to_owned());
        let asked = Arc::<Asked>::default();
        let asked_by_writer = Arc::clone(&asked);
        let look_after = move || look_after(&written, &asked_by_writer, &chunks);
        thread.spawn(look_after).context("starting the thread of the cache store")?;
        let questions = start_readers(&store, &asked).context("starting the readers of the cache store")?;
        let ([dropped, unsettled], mounts) = ([0; 2].map(AtomicU64::new), Mutex::default());
        let settled_after = *settled_after;
        Ok(Some(Arc::new(Self { store, waiting, questions, asked, settled_after, dropped, unsettled, mounts })))
    }

    /// Has a reader do something; `None` where the disk does not answer.
    fn of_reader<T: Send + 'static>(&self, of_store: impl FnOnce(&ChunkStore) -> T + Send + 'static) -> Option<T> {
        if self.asked.is_stuck() {
            return None;
        }
        let (answer, answered) = sync_channel(1);
        // The asker may have gone on without.
        let question: Question = Box::new(move |store| drop(answer.send(of_store(store))));
        let taken = offer(&self.questions, question, ANSWERS_WITHIN).is_ok();
        let found = answered.recv_timeout(ANSWERS_WITHIN).ok().filter(|_| taken);
        if found.is_none() {
            self.asked.note_stuck();
        }
        found
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

/// Questions to the disk that are under way, and whether it answers.
#[derive(Default)]
struct Asked {
    under_way: AtomicUsize,
    is_stuck: AtomicBool,
}

impl Asked {
    /// Runs what asks the disk. Once all that was under way has its answer, the disk is there.
    fn ask<T>(&self, of_disk: impl FnOnce() -> T) -> T {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let answer = of_disk();
        if self.under_way.fetch_sub(1, Ordering::Relaxed) == 1 && self.is_stuck.swap(false, Ordering::Relaxed) {
            tracing::info!("the disk of the cache store answers again");
        }
        answer
    }

    /// The disk does not answer.
    fn note_stuck(&self) {
        if !self.is_stuck.swap(true, Ordering::Relaxed) {
            tracing::warn!("the disk of the cache store does not answer; the job goes on without it until it does");
        }
    }

    fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }
}

/// Work of a reader, which tells who waits for it.
type Question = Box<dyn FnOnce(&ChunkStore) + Send>;

/// Starts the threads that read; they end with the sender.
fn start_readers(store: &Arc<ChunkStore>, asked: &Arc<Asked>) -> std::io::Result<SyncSender<Question>> {
    let (questions, queue) = sync_channel::<Question>(READERS);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..READERS {
        let (store, asked, queue) = (Arc::clone(store), Arc::clone(asked), Arc::clone(&queue));
        let read = move || {
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(question) = next else { return };
                asked.ask(|| question(&store));
            }
        };
        std::thread::Builder::new().name("cache-reader".to_owned()).spawn(read)?;
    }
    Ok(questions)
}

/// The name of the file system that a path lies on; `None` of one that may be an image, and where that is not known.
fn file_system(mounts: &[MountedAt], file: &ViewPath) -> Option<String> {
    let covers = |mounted: &&MountedAt| {
        let dir = mounted.dir.as_os_str().as_bytes();
        let dir = dir.strip_prefix(b"/").unwrap_or(dir);
        let rest = file.as_bytes().strip_prefix(dir);
        rest.is_some_and(|rest| dir.is_empty() || rest.is_empty() || rest.starts_with(b"/"))
    };
    // Of several at one place the last is in view.
    let mounted = mounts.iter().filter(covers).max_by_key(|mounted| mounted.dir.as_os_str().len())?;
    let MountedAt { file_system, source, device, .. } = mounted;
    let is_image = device.0 == LOOP_MAJOR || source.starts_with("/dev/loop");
    (KEPT.contains(&file_system.as_str()) && !is_image).then(|| format!("{file_system} {source}"))
}

/// Whether the last change of a file is so long ago that every later one gives another version, and none of before is under way: a write may
/// take long, and the pages of a mapped file are written long after they are changed.
fn is_settled(generation: &Generation, after: Duration, now: SystemTime) -> bool {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = generation.ctime.seconds.max(generation.mtime.seconds);
    u64::try_from(changed).is_ok_and(|changed| Duration::from_secs(changed + 1) + after <= now)
}

/// Writes what waits, and looks after the store, until the daemon ends.
fn look_after(store: &ChunkStore, asked: &Asked, chunks: &Receiver<(ChunkKey, Arc<Body>)>) {
    let mut looked_at = Instant::now();
    loop {
        match chunks.recv_timeout(LOOK_INTERVAL.saturating_sub(looked_at.elapsed())) {
            Ok((key, body)) => asked.ask(|| store.put(&key, &body)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if looked_at.elapsed() >= LOOK_INTERVAL {
            asked.ask(|| store.tend());
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
        let key = *key;
        self.of_reader(move |store| store.get(&key, len_bytes)).flatten()
    }

    fn forget(&self, key: &ChunkKey) -> bool {
        let key = *key;
        self.of_reader(move |store| store.forget(&key)).unwrap_or(false)
    }

    fn put(&self, key: ChunkKey, generation: &Generation, body: Arc<Body>) {
        if !is_settled(generation, self.settled_after, SystemTime::now()) {
            self.unsettled.fetch_add(1, Ordering::Relaxed);
        } else if self.asked.is_stuck() || offer(&self.waiting, (key, body), ROOM_WITHIN).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counters(&self) -> Counters {
        let counters = self.store.recent_counters();
        Counters { refused: counters.refused + self.dropped.load(Ordering::Relaxed), ..counters }
    }

    fn unsettled(&self) -> u64 {
        self.unsettled.load(Ordering::Relaxed)
    }
}

/// Hands something to a thread that may be behind, as soon as it has room.
fn offer<T>(to: &SyncSender<T>, mut thing: T, within: Duration) -> Result<(), T> {
    let begun = Instant::now();
    loop {
        match to.try_send(thing) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(back)) if begun.elapsed() < within => thing = back,
            Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => return Err(back),
        }
        std::thread::sleep(ROOM_INTERVAL);
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
            mounted("/data/image", "squashfs", "/dev/sdb"),
            mounted("/data/loop", "ext4", "/dev/loop0"),
            mounted("/data/overlay", "overlay", "overlay"),
            mounted("/data/fuse", "fuse.foo", "x"),
        ];
        let of = |path: &str| file_system(&mounts, &ViewPath::new(path.as_bytes()).unwrap());
        assert_eq!(of("data/x/y").as_deref(), Some("nfs4 s:/d"));
        assert_eq!(of("database").as_deref(), Some("ext4 /dev/a"));
        for image in ["data/image/f", "data/loop/f", "data/overlay/f", "data/fuse/f"] {
            assert_eq!(of(image), None, "{image}");
        }
        assert_eq!(file_system(&[], &ViewPath::new(b"f").unwrap()), None);
    }

    #[test]
    fn a_file_that_may_change_within_its_clocks_grain_is_not_kept() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let changed = |seconds| Generation { ctime: Timestamp { seconds, nanos: 0 }, ..Generation::default() };
        let after = Duration::from_secs(600);
        assert!(is_settled(&changed(399), after, now));
        assert!(!is_settled(&changed(400), after, now));
        assert!(!is_settled(&changed(2000), after, now), "by a server whose clock is ahead");
    }
}
