//! Chunks of large files on the nodes' own disks: the next job has them, and no bytes but right ones.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, SystemTime};

use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};
use serde_json::Value;

const FILES: usize = 12;

const FILE_BYTES: usize = 4 << 20;

const CHUNKS: u64 = (FILES * FILE_BYTES) as u64 >> 20;

/// With more, a chunk of a home that is late on a busy machine is read by another one, too.
const NODES: usize = 2;

/// How long something may take that takes a second at most.
const PATIENCE: Duration = Duration::from_secs(60);

fn name(file: usize) -> String {
    format!("weights/shard-{file:03}.bin")
}

/// No two files are alike, nor two parts or versions of one.
fn contents(file: usize, version: usize) -> Vec<u8> {
    let (block, at) = (tree::contents(FILE_BYTES), file * 977 + version * 31);
    [&block[at..], &block[..at]].concat()
}

/// Files that were changed so long ago that the stores take them.
fn build(source: &Path) {
    std::fs::create_dir(source.join("weights")).unwrap();
    (0..FILES).for_each(|file| tree::write(&source.join(name(file)), &contents(file, 0)));
    settle();
}

/// Waits until what has been written is not of the present any more.
fn settle() {
    let written = SystemTime::now();
    wait_until("the files are settled", PATIENCE, || written.elapsed().is_ok_and(|age| age > Duration::from_secs(4)));
}

struct Place {
    job: Job,
    store: PathBuf,
}

impl Place {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        build(&sandbox.source());
        let store = sandbox.base().join("cache-store");
        let source = sandbox.source();
        let job = Job::up_local(sandbox, NODES as u32, &source, &Self::options(&store));
        Self { job, store }
    }

    fn options(store: &Path) -> [&str; 6] {
        ["--cache-store", store.to_str().unwrap(), "--cache-capacity", "64MiB", "--cache-after", "2s"]
    }

    /// The next job.
    fn again(&mut self) {
        let _ = self.job.command("down", &[]).good();
        let (source, view) = (self.job.sandbox.source(), self.job.sandbox.view());
        let count = NODES.to_string();
        let fixed = ["--local", &count, "--export", source.to_str().unwrap(), "--view", view.to_str().unwrap()];
        let all: Vec<_> = fixed.into_iter().chain(Self::options(&self.store)).map(AsRef::as_ref).collect();
        self.job.up_again(&all);
    }

    /// Each node reads a part of all files, which are right; `changed` has its next version.
    fn read(&self, changed: Option<usize>) {
        for file in 0..FILES {
            let path = self.job.path(file % NODES, &self.job.sandbox.source().join(name(file)));
            let read = std::fs::read(path).unwrap();
            assert!(read == contents(file, usize::from(changed == Some(file))), "file {file}");
        }
    }

    fn sum(&self, pointer: &str) -> u64 {
        let status = self.job.status();
        status["nodes"].as_array().unwrap().iter().map(|node| node.pointer(pointer).unwrap().as_u64().unwrap()).sum()
    }

    fn await_chunks(&self) {
        wait_until("all chunks are in the stores", PATIENCE, || self.sum("/cache_store/chunks") == CHUNKS);
    }

    fn cache(&self, words: &[&str]) -> Value {
        let mut command = self.job.sandbox.command();
        command.arg("cache").args(words).args(["--json", "--cache-store"]).arg(&self.store);
        serde_json::from_str(&run(&mut command).good().text()).unwrap()
    }
}

#[test]
fn the_next_job_starts_warm_and_reads_anew_what_changed_or_was_damaged() {
    require!(Fuse, Root);
    let mut place = Place::new();
    place.read(None);
    assert_eq!(place.sum("/backing/bytes"), CHUNKS << 20);
    place.await_chunks();
    place.again();
    place.read(None);
    assert_eq!((place.sum("/backing/bytes"), place.sum("/cache_store/hits")), (0, CHUNKS));
    assert_eq!(place.sum("/cache_store/hit_bytes"), CHUNKS << 20);
    let shown = place.job.command("status", &[]).text();
    assert!(shown.contains("cache store") && shown.contains("100 % hits"), "{shown}");

    tree::write(&place.job.sandbox.source().join(name(5)), &contents(5, 1));
    settle();
    place.again();
    place.read(Some(5));
    assert_eq!(place.sum("/backing/bytes"), FILE_BYTES as u64, "the file that changed, and no other");
    assert_eq!(place.sum("/cache_store/damaged"), 0);
    wait_until("the new version is in the place of the old", PATIENCE, || {
        place.sum("/cache_store/used_bytes") < (CHUNKS + 4) << 20 && place.sum("/cache_store/chunks") == CHUNKS
    });

    let _ = place.job.command("down", &[]).good();
    for rank in 0..NODES {
        let chunks = place.store.join(format!("{rank}/forebay-cache-chunks"));
        let file = File::options().read(true).write(true).open(chunks).unwrap();
        // A byte of each chunk that has bytes there.
        for at in (0..file.metadata().unwrap().len()).step_by((1 << 20) + 4096) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at + 500_000).unwrap();
            if byte != [0] {
                file.write_all_at(&[!byte[0]], at + 500_000).unwrap();
            }
        }
    }
    place.again();
    place.read(Some(5));
    let damaged = place.sum("/cache_store/damaged");
    assert!(damaged > CHUNKS / 2, "{damaged}");
    assert_eq!(place.sum("/backing/bytes"), damaged << 20);
    place.job.down();
}

#[test]
fn a_store_is_listed_and_dropped_under_a_job_and_the_job_goes_on() {
    require!(Fuse, Root);
    let place = Place::new();
    place.read(None);
    place.await_chunks();
    std::fs::write(place.store.join("0/mine"), "mine").unwrap();
    let listed = place.cache(&["list"]);
    let stores = listed["stores"].as_array().unwrap();
    assert_eq!(stores.len(), NODES);
    assert!(stores.iter().all(|store| store["capacity_bytes"] == 64 << 20 && store["version"] == 1), "{listed:#}");
    assert_eq!(stores.iter().map(|store| store["chunks"].as_u64().unwrap()).sum::<u64>(), CHUNKS);
    assert_eq!(place.cache(&["drop"])["dropped"].as_array().unwrap().len(), NODES);
    assert_eq!(place.cache(&["list"])["stores"].as_array().unwrap().len(), 0);
    assert_eq!(std::fs::read_dir(place.store.join("0")).unwrap().count(), 1, "only what is no store's");
    wait_until("the daemons know", PATIENCE, || place.sum("/cache_store/chunks") == 0);
    place.read(None);
    place.job.down();
}

/// A program that maps a file and changes it: its times stay as they are until the kernel writes its pages.
const MAPPING: &str = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file, mmap.mmap(file.fileno(), 0) as mapped:
    for letter in b'ab':
        mapped[4096:8192] = bytes([letter]) * 4096
        print(flush=True)
        sys.stdin.readline()
";

#[test]
fn a_refresh_believes_no_store_where_a_file_has_changed_and_its_times_have_not() {
    require!(Fuse, Root, Command("python3"));
    let mut place = Place::new();
    let file = place.job.sandbox.source().join(name(0));
    let mut program = Program::new("python3");
    program.args(["-c", MAPPING]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let (mut input, mut output) = (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()));
    output.read_line(&mut String::new()).unwrap();
    settle();
    let read = |place: &Place| std::fs::read(place.job.path(0, &file)).unwrap()[4096];
    assert_eq!(read(&place), b'a');
    wait_until("it is in a store", PATIENCE, || place.sum("/cache_store/chunks") > 0);
    writeln!(input).unwrap();
    output.read_line(&mut String::new()).unwrap();
    let _ = place.job.command("refresh", &[file.as_os_str()]).good();
    assert_eq!(read(&place), b'b', "after a refresh");
    wait_until("the stores have it", PATIENCE, || place.sum("/cache_store/chunks") > 0);
    place.again();
    assert_eq!(read(&place), b'b', "in the next job");
    drop(input);
    program.wait().unwrap();
    place.job.down();
}

/// A disk of a test's own, in no sandbox: a job's mounts are looked for there.
struct LoopDisk(tempfile::TempDir);

impl LoopDisk {
    fn new(bytes: u64) -> Self {
        let place = tempfile::Builder::new().prefix("forebay-disk-").tempdir().unwrap();
        let (image, disk) = (place.path().join("image"), Self(place));
        File::create_new(&image).unwrap().set_len(bytes).unwrap();
        std::fs::create_dir(disk.mount()).unwrap();
        let _ = run(Program::new("mkfs.ext4").arg("-q").arg(&image)).good();
        let _ = run(Program::new("mount").args(["-o", "loop"]).arg(&image).arg(disk.mount())).good();
        disk
    }

    fn mount(&self) -> PathBuf {
        self.0.path().join("disk")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // The loop device goes with the last user of the mount.
        let _ = run(Program::new("umount").arg("--lazy").arg(self.mount()));
    }
}

/// A disk stands still while this lives.
struct Frozen(PathBuf);

impl Frozen {
    fn new(mount: PathBuf) -> Self {
        let _ = run(Program::new("fsfreeze").arg("--freeze").arg(&mount)).good();
        Self(mount)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = run(Program::new("fsfreeze").arg("--unfreeze").arg(&self.0));
    }
}

#[test]
fn a_disk_that_stands_still_keeps_no_reader_waiting() {
    require!(Fuse, Root, Command("fsfreeze"), Command("mkfs.ext4"));
    let sandbox = Sandbox::new();
    build(&sandbox.source());
    let disk = LoopDisk::new(512 << 20);
    let (store, source) = (disk.mount().join("store"), sandbox.source());
    let job = Job::up_local(sandbox, NODES as u32, &source, &Place::options(&store));
    let mut place = Place { job, store };
    place.read(None);
    place.await_chunks();
    place.again();
    let frozen = Frozen::new(disk.mount());
    place.read(None);
    drop(frozen);
    let log = place.job.command("logs", &[]).text();
    assert!(log.contains("the disk of the cache store does not answer"), "{log}");
    place.job.down();
}

#[test]
fn a_store_that_cannot_be_is_refused_by_up() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let file = sandbox.base().join("file");
    std::fs::write(&file, "").unwrap();
    let up = |options: &[&str]| {
        let (source, view) = (sandbox.source(), sandbox.view());
        let fixed = ["--export", source.to_str().unwrap(), "--view", view.to_str().unwrap()];
        let all: Vec<_> = fixed.iter().chain(options).map(AsRef::as_ref).collect();
        sandbox.up(&all)
    };
    let refused = up(&["--cache-store", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("is not a directory"), "{}", refused.stderr);
    let refused = up(&["--cache-capacity", "1GiB"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("--cache-capacity needs --cache-store DIR"), "{}", refused.stderr);
    let refused = up(&["--cache-store", sandbox.view().join("store").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("lies in the view"), "{}", refused.stderr);
    // Known after the view's directory was made.
    let refused = up(&["--cache-store", "/proc/forebay/store"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("cannot make /proc/forebay"), "{}", refused.stderr);
    assert!(!sandbox.view().exists(), "the directory of the view stays");
    assert_eq!(sandbox.left(), [""; 0]);
}
