//! A daemon that does not die but hangs: its keeper hears nothing of it, kills it and starts another, within the time that a
//! request may take. And one that cannot end, because the backing file system does not answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_testkit::model::{ClientMount, Model, Parameters};
use forebay_tests::job::send;
use forebay_tests::program::wait_until;
use forebay_tests::{Job, Sandbox, require, tree};
use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::readers::{count, job};

/// Twice the time limit of a request on this job: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(34);

#[test]
fn a_daemon_that_hangs_is_followed_by_another_and_programs_are_answered() {
    require!(Fuse, Root);
    let (job, _files) = job(1, 10, &["--deadline", "17s"]);
    let source = job.sandbox.source().join("0/file-3");
    let hanging = job.daemon(0).unwrap();
    send(hanging, Signal::STOP);
    // No program has read it yet, so the kernel cannot answer for the daemon.
    assert_eq!(fs::read(job.path(0, &source)).unwrap(), fs::read(&source).unwrap());
    wait_until("the keeper tells of another daemon", PATIENCE, || job.daemon(0).is_some_and(|pid| pid != hanging));
    assert_eq!(count(&job, 0, "restarts"), 1);
    job.down();
}

/// Names are there at once; a listing of 4 KiB takes half a minute.
pub const SLOW_LISTINGS: Parameters =
    Parameters { metadata_us: 0, at_once: 64, link_bits_per_second: 1000, client_ttl_ms: 60_000 };

/// A file system that answers no request for a minute.
const SILENT: Parameters = Parameters { metadata_us: 60_000_000, ..SLOW_LISTINGS };

/// `down` gives such a daemon a second to be gone and one to die; the rest is for a machine that is busy.
const SOON: Duration = Duration::from_secs(8);

/// A file system that is slow or does not answer, mounted until dropped; then what is asked of it fails.
pub struct Hanging {
    /// Its next answers, and the requests that it got.
    pub model: Arc<Model>,
    mount: Option<ClientMount>,
    /// The directory that a job may export of it.
    pub export: PathBuf,
    _place: TempDir,
}

impl Hanging {
    /// With what `build` puts into a directory.
    pub fn with(parameters: Parameters, build: impl FnOnce(&Path)) -> Self {
        let place = tempfile::tempdir().unwrap();
        let [source, export] = ["source", "export"].map(|name| place.path().join(name));
        for dir in [&source, &export] {
            fs::create_dir(dir).unwrap();
        }
        build(&source);
        let model = Model::new(&source, parameters).unwrap();
        Self { mount: Some(model.mount(&export).unwrap()), model, export, _place: place }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // A plain unmount leaves those waiting who wait.
        rustix::mount::unmount(&self.export, UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
        drop(self.mount.take());
    }
}

/// Whether a thread of a process waits and cannot be killed.
fn is_held(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).unwrap_or_default();
    threads.map(status).any(|status| status.contains("State:\tD"))
}

/// A request that the kernel has handed on to the file system cannot be taken back, and who waits for it cannot be killed.
#[test]
fn down_names_what_a_file_system_that_hangs_holds_and_does_not_wait_for_it() {
    require!(Fuse, Root);
    let hanging = Hanging::with(SLOW_LISTINGS, |source| {
        let large = source.join("large");
        fs::create_dir(&large).unwrap();
        (0..300).for_each(|number| tree::write(&large.join(format!("file-{number}")), b"x"));
    });
    let large = hanging.export.join("large");
    let job = Job::up_local(Sandbox::new(), 2, &hanging.export, &[]);
    let mut reader = Command::new("ls");
    reader.arg(job.path(1, &large)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = reader.spawn().unwrap();
    let root = job.daemon(0).unwrap();
    wait_until("the large directory is asked for", PATIENCE, || hanging.model.traffic().sent_bytes > 2000);

    let began = Instant::now();
    let down = job.command("down", &[]);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
    let says = |[one, other]: [&str; 2]| down.stderr.lines().any(|line| line.contains(one) && line.contains(other));
    assert!(says(["waiting for node 0", "to end, 12s at most"]), "{}", down.stderr);
    assert!(says([&root.to_string(), "held by a file system that does not answer"]), "{}", down.stderr);
    let left = job.sandbox.left();
    assert!(left.is_empty(), "{left:#?}");
    job.forget();

    wait_until("a program on the view is not held", PATIENCE, || reader.try_wait().unwrap().is_some());
    assert!(is_held(root), "what was said is true");
    drop(hanging);
    wait_until("nothing holds the daemon", PATIENCE, || !is_held(root));
}

/// A slow file system looks like one that hangs; programs that wait for it are told which file system it is.
#[test]
fn a_start_over_a_file_system_that_hangs_names_it() {
    require!(Fuse, Root);
    let hanging = Hanging::with(SILENT, |source| fs::create_dir(source.join("deep")).unwrap());
    let (sandbox, deep) = (Sandbox::new(), hanging.export.join("deep"));
    let arguments = ["--local", "2", "--wait-timeout", "2s", "--export", deep.to_str().unwrap()];
    let up = sandbox.up(&arguments.map(AsRef::as_ref));
    drop(hanging);
    assert_eq!(up.status.code(), Some(1), "{}", up.stderr);
    let named = format!("note: node 0-1: {} has not answered for a second", deep.display());
    assert!(up.stderr.contains(&named) && up.stderr.contains("held by a file system"), "{}", up.stderr);
    wait_until("nothing is left", PATIENCE, || sandbox.left().is_empty());
}

/// Commands look at the paths that they are given, and who asks does so because something hangs.
#[test]
fn a_command_that_waits_for_a_file_system_says_so() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let local = sandbox.source();
    let job = Job::up_local(sandbox, 1, &local, &[]);
    let hanging = Hanging::with(Parameters { metadata_us: 2_000_000, ..SILENT }, |_| {});
    let deep = hanging.export.join("deep/file");
    let explained = job.command("explain", &[deep.as_ref()]).good();
    let says = format!("looking at {}; its file system has not answered yet", deep.display());
    assert!(explained.stderr.contains(&says), "{}", explained.stderr);
    job.down();
}

/// A link on which a pack takes some seconds.
const LINK: Parameters =
    Parameters { metadata_us: 0, at_once: 64, link_bits_per_second: 100_000_000, client_ttl_ms: 60_000 };

/// How long a program waits for a pack that does not come: a second for its parcel, two for the pack itself, and its file on
/// a machine that is busy.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// As many as may read the exports at once, and some more.
const READERS: usize = 72;

/// Reads of the exports need no file of a pack's home, with and without prefetching.
#[test]
fn a_home_directory_that_hangs_does_not_touch_the_exports() {
    require!(Fuse, Root);
    for options in [&[][..], &["--revalidate", "60s"]] {
        let exported = tempfile::tempdir().unwrap();
        let export = exported.path().canonicalize().unwrap();
        let file = |number: usize| export.join(format!("file-{number}"));
        (0..READERS).for_each(|number| tree::write(&file(number), &noise(number as u64, 1 << 20)));
        let hanging = Hanging::with(LINK, |home| {
            let profile = home.join("start.profile");
            let job = Job::up_local(Sandbox::new(), 1, &export, &["--profile", profile.to_str().unwrap()]);
            (0..READERS).for_each(|number| assert_eq!(fs::read(job.path(0, &file(number))).unwrap().len(), 1 << 20));
            wait_until("there is a pack", PATIENCE, || home.join("start.pack").exists());
            job.down();
        });
        // Not recorded, so not in the pack.
        tree::write(&export.join("other"), b"other");
        let profile = hanging.export.join("start.profile");
        let arguments = [&["--profile", profile.to_str().unwrap()], options].concat();
        let job = Job::up_local(Sandbox::new(), 1, &export, &arguments);
        wait_until("the profile is used", PATIENCE, || job.status()["nodes"][0]["prefill"]["path"].is_string());
        hanging.model.hang();
        let longest = std::thread::scope(|scope| {
            let timed = |number: usize| {
                let (path, expected) = match number {
                    0 => (export.join("other"), b"other".to_vec()),
                    _ => (file(number), noise(number as u64, 1 << 20)),
                };
                let began = Instant::now();
                let read = fs::read(job.path(0, &path));
                assert!(read.is_ok_and(|read| read == expected), "{} after {:?}", path.display(), began.elapsed());
                began.elapsed()
            };
            let readers: Vec<_> = (0..READERS).map(|number| scope.spawn(move || timed(number))).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).max().unwrap()
        });
        assert!(longest < WAIT_MAX, "a program waited {longest:?}");
        hanging.model.go_on();
        job.down();
    }
}

/// Bytes that do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}
