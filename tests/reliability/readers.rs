//! Readers that look at every byte of many files while somebody disturbs the daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;
use forebay_tests::{Job, Sandbox, tree};
use serde_json::Value;

/// Readers at once, so that several requests are in flight when a daemon dies.
const READERS: usize = 4;

/// How long all files may take to be read.
const PATIENCE: Duration = Duration::from_secs(90);

/// Files whose contents follow from their number.
pub struct Files {
    root: PathBuf,
    count: usize,
}

impl Files {
    /// Puts `count` files into directories of a hundred, every fiftieth larger than a chunk.
    pub fn build(root: &Path, count: usize) -> Self {
        for number in 0..count {
            let path = root.join(name_of(number));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            tree::write(&path, &contents_of(number));
        }
        Self { root: root.to_owned(), count }
    }

    /// Has all files read once through `view`, by several readers, and `disturb` called `times` times meanwhile, evenly
    /// over the files. The longest time that one file took.
    ///
    /// # Panics
    /// If a reader sees an error or a wrong byte.
    pub fn read_all(&self, job: &Job, rank: usize, times: usize, disturb: impl Fn(usize)) -> Duration {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let wrong: Mutex<Vec<String>> = Mutex::default();
        let longest: Mutex<Duration> = Mutex::default();
        let read = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.count {
                    return;
                }
                let began = Instant::now();
                if let Err(problem) = self.read(job, rank, number) {
                    wrong.lock().unwrap().push(problem);
                }
                let mut longest = longest.lock().unwrap();
                *longest = longest.max(began.elapsed());
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            (0..READERS).for_each(|_| drop(scope.spawn(read)));
            for time in 0..times {
                let reached = self.count * (time + 1) / (times + 2);
                wait_until("readers get on", PATIENCE, || done.load(Ordering::Relaxed) >= reached);
                disturb(time);
            }
            wait_until("all is read", PATIENCE, || done.load(Ordering::Relaxed) >= self.count);
        });
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{} of {} files: {wrong:#?}", wrong.len(), self.count);
        longest.into_inner().unwrap()
    }

    fn read(&self, job: &Job, rank: usize, number: usize) -> Result<(), String> {
        let path = job.path(rank, &self.root).join(name_of(number));
        let read = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if read == contents_of(number) { Ok(()) } else { Err(format!("{}: wrong bytes", path.display())) }
    }
}

fn name_of(number: usize) -> String {
    format!("{}/file-{number}", number / 100)
}

/// No two files have the same size, and contents are made from the size.
fn contents_of(number: usize) -> Vec<u8> {
    let large = if number.is_multiple_of(50) { tree::CHUNK_BYTES } else { 0 };
    tree::contents(large + 64 + number * 13)
}

/// A job of `nodes` over such files.
pub fn job(nodes: u32, count: usize, options: &[&str]) -> (Job, Files) {
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    let files = Files::build(&source, count);
    (Job::up_local(sandbox, nodes, &source, options), files)
}

/// A counter of a node's status, once others reach the node.
pub fn count(job: &Job, rank: usize, what: &str) -> u64 {
    let mut found = None;
    wait_until("the node is reached", PATIENCE, || {
        found = status(job)["nodes"][rank][what].as_u64();
        found.is_some()
    });
    found.unwrap()
}

/// The status, also of a job that answers only in part.
fn status(job: &Job) -> Value {
    let said = job.command("status", &["--json".as_ref()]);
    serde_json::from_slice(&said.stdout).unwrap_or_default()
}
