//! A reader on every node: it goes over the tree again and again in an order of its own and checks every byte.
//!
//! A reader is a thread that has entered its node's mount namespace, so it reads the node's own view like any program
//! there, and the test sees what it does while it does it. It drops the pages of each file it has read, and after each
//! pass whatever its node keeps, so that its reads are cold all the time. It pauses between files: the machine has to
//! have processor time left, or a stall would say more about the machine than about the fault.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::{Advice, fadvise};

use super::contents;

/// Operations that take longer are remembered one by one.
const SLOW: Duration = Duration::from_millis(100);

/// One read(2) of a reader, bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// The pause between two files.
const PAUSE: Duration = Duration::from_millis(6);

/// The pause after an error: a view that is gone fails at once, and would keep a processor busy.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// After one of so many files a name is looked for that is absent.
const ONE_ABSENT_IN: u64 = 8;

/// How long readers may take to end: longer than any request.
const END: Duration = Duration::from_secs(60);

/// `FOREBAY_IOC_CLEAR` of `include/forebay.h` on the view's root.
const CLEAR: &str = "import fcntl, os, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), ord('F') << 8 | 2)";

/// An operation that took long.
#[derive(Clone, Debug)]
pub struct Slow {
    pub began: Instant,
    pub took: Duration,
    pub what: String,
}

/// The findings of a reader so far.
#[derive(Clone, Default, Debug)]
pub struct Found {
    pub slow: Vec<Slow>,
    /// Errors by number, and the time and place of each.
    pub errors: Vec<(Instant, i32, String)>,
    /// Bytes, sizes and names that are not what they should be.
    pub wrong: Vec<String>,
}

/// One reader, as others see it.
#[derive(Default)]
pub struct Reader {
    files: AtomicU64,
    /// The operation that is under way.
    current: Mutex<Option<Instant>>,
    found: Mutex<Found>,
}

impl Reader {
    /// Files that were read to the end and found right.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// How long the operation takes that is under way.
    pub fn waits(&self) -> Duration {
        lock(&self.current).map_or(Duration::ZERO, |began| began.elapsed())
    }

    pub fn found(&self) -> Found {
        lock(&self.found).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where readers read.
#[derive(Clone)]
pub struct Place {
    /// A file that stands for the node's mount namespace.
    pub namespace: PathBuf,
    /// The view.
    pub view: PathBuf,
    /// The tree in the view.
    pub tree: PathBuf,
    /// How many files there are.
    pub files: usize,
}

/// The readers of all nodes.
pub struct Readers {
    readers: Vec<Arc<Reader>>,
    threads: Vec<JoinHandle<()>>,
    end: Arc<AtomicBool>,
}

impl Readers {
    /// Starts one at each place.
    pub fn start(places: Vec<Place>) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let readers: Vec<Arc<Reader>> = places.iter().map(|_| Arc::default()).collect();
        let threads = places.into_iter().zip(&readers).enumerate().map(|(node, (place, reader))| {
            let (reader, end) = (Arc::clone(reader), Arc::clone(&end));
            std::thread::spawn(move || Walk { place, reader, end, node: node as u64 }.run())
        });
        Self { threads: threads.collect(), readers, end }
    }

    /// The reader of a node.
    pub fn of(&self, node: usize) -> &Reader {
        &self.readers[node]
    }

    /// Ends all of them; what each has found.
    pub fn finish(mut self) -> Vec<Found> {
        self.end.store(true, Ordering::Relaxed);
        let hangs = || self.threads.iter().position(|thread| !thread.is_finished());
        let began = Instant::now();
        while let Some(node) = hangs() {
            assert!(began.elapsed() < END, "the reader of node {node} hangs");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.readers.iter().map(|reader| reader.found()).collect()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// A thing to be read.
#[derive(Clone, Copy)]
enum Item {
    File(usize),
    Directory(usize),
}

/// One reader at work.
struct Walk {
    place: Place,
    reader: Arc<Reader>,
    end: Arc<AtomicBool>,
    node: u64,
}

impl Walk {
    fn run(self) {
        // A namespace of mounts is entered with a root and a working directory of one's own.
        unshare(CloneFlags::CLONE_FS).unwrap();
        setns(File::open(&self.place.namespace).unwrap(), CloneFlags::CLONE_NEWNS).unwrap();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut pass = 0;
        while !self.ends() {
            for item in self.order(pass) {
                if self.ends() {
                    return;
                }
                let read = match item {
                    Item::File(index) => self.file(index, &mut buffer),
                    Item::Directory(first) => self.directory(first),
                };
                std::thread::sleep(if read.is_ok() { PAUSE } else { PAUSE_AFTER_ERROR });
            }
            pass += 1;
            self.clear();
        }
    }

    fn ends(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// Files and directories in an order that differs from node to node and from pass to pass.
    fn order(&self, pass: u64) -> Vec<Item> {
        let directories = contents::directories(self.place.files).map(|(_, indexes)| Item::Directory(indexes[0]));
        let mut items: Vec<Item> = (0..self.place.files).map(Item::File).chain(directories).collect();
        let seed = contents::mixed(self.node << 32 | pass);
        for at in (1..items.len()).rev() {
            items.swap(at, (contents::mixed(seed ^ at as u64) % (at as u64 + 1)) as usize);
        }
        items
    }

    /// Does something that may stall, and remembers how it went.
    fn timed<T>(&self, what: &str, path: &Path, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let began = Instant::now();
        *lock(&self.reader.current) = Some(began);
        let outcome = operation();
        *lock(&self.reader.current) = None;
        let took = began.elapsed();
        let described = || format!("{what} {}", path.strip_prefix(&self.place.tree).unwrap_or(path).display());
        let mut found = lock(&self.reader.found);
        if took >= SLOW {
            found.slow.push(Slow { began, took, what: described() });
        }
        if let Err(error) = &outcome {
            found.errors.push((began, error.raw_os_error().unwrap_or(0), described()));
        }
        outcome
    }

    fn wrong(&self, what: String) {
        lock(&self.reader.found).wrong.push(what);
    }

    fn file(&self, index: usize, buffer: &mut [u8]) -> io::Result<()> {
        let path = self.place.tree.join(contents::directory(index)).join(contents::name(index));
        let mut file = self.timed("open", &path, || File::open(&path))?;
        let size = self.timed("stat", &path, || file.metadata())?.len() as usize;
        if size != contents::size_bytes(index) {
            self.wrong(format!("{}: {size} bytes, not {}", path.display(), contents::size_bytes(index)));
        }
        let mut expected = vec![0; buffer.len()];
        let mut offset = 0;
        loop {
            let count = self.timed("read", &path, || file.read(buffer))?;
            contents::fill(index, offset, &mut expected[..count]);
            if buffer[..count] != expected[..count] {
                self.wrong(format!("{}: the {count} bytes from {offset} on", path.display()));
            }
            offset += count;
            if count == 0 {
                break;
            }
        }
        if offset != contents::size_bytes(index) {
            self.wrong(format!("{}: ends after {offset} bytes", path.display()));
        }
        fadvise(&file, 0, None, Advice::DontNeed)?;
        if self.reader.files.fetch_add(1, Ordering::Relaxed).is_multiple_of(ONE_ABSENT_IN) {
            self.absent(&path.with_extension("absent"))?;
        }
        Ok(())
    }

    /// A name that is not there is absent, and nothing else: neither there nor an error.
    fn absent(&self, path: &Path) -> io::Result<()> {
        if self.timed("look for", path, || path.try_exists())? {
            self.wrong(format!("{}: is there", path.display()));
        }
        Ok(())
    }

    fn directory(&self, first: usize) -> io::Result<()> {
        let path = self.place.tree.join(contents::directory(first));
        let list = || std::fs::read_dir(&path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
        let mut names = self.timed("list", &path, list)?;
        names.sort();
        let expected = contents::directories(self.place.files).find(|(_, indexes)| indexes[0] == first);
        let expected: Vec<std::ffi::OsString> =
            expected.into_iter().flat_map(|(_, indexes)| indexes).map(|index| contents::name(index).into()).collect();
        if names != expected {
            self.wrong(format!("{}: {} names, not {}", path.display(), names.len(), expected.len()));
        }
        Ok(())
    }

    /// Lets the node forget everything. Where its daemon is gone, that is said by the next file.
    fn clear(&self) {
        let mut python = std::process::Command::new("python3");
        python.args(["-I", "-c", CLEAR]).arg(&self.place.view).stderr(std::process::Stdio::null());
        let _ = python.status();
    }
}
