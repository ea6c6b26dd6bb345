//! Errors of the backing file system: passed on as they are, and never kept as if they were the truth.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

use forebay_tests::job::as_nobody;
use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;

const ENOENT: Option<i32> = Some(2);
const EACCES: Option<i32> = Some(13);
const ESTALE: Option<i32> = Some(116);

/// A job over a source with `file` and `other` in it; every node has listed the directory.
fn job(nodes: u32) -> Job {
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    for name in ["file", "other"] {
        tree::write(&source.join(name), &tree::contents(3 * tree::CHUNK_BYTES));
    }
    let job = Job::up_local(sandbox, nodes, &source, &["--fanout", "2"]);
    for rank in 0..job.nodes() {
        assert_eq!(fs::read_dir(job.path(rank, &source)).unwrap().count(), 2);
        assert_eq!(fs::metadata(job.path(rank, &source.join("file"))).unwrap().len(), 3 << 20);
    }
    job
}

#[test]
fn a_file_that_is_gone_when_it_is_read() {
    require!(Fuse, Root);
    for nodes in [1, 7] {
        let job = job(nodes);
        let (rank, file) = (job.nodes() - 1, job.sandbox.source().join("file"));
        fs::remove_file(&file).unwrap();
        let error = fs::read(job.path(rank, &file)).unwrap_err();
        assert!([ENOENT, ESTALE].contains(&error.raw_os_error()), "{error}");
        let other = job.sandbox.source().join("other");
        assert!(fs::read(job.path(rank, &other)).unwrap() == tree::contents(3 << 20), "its neighbour is not disturbed");
        job.down();
    }
}

/// An open file never yields bytes of two generations: what was not read before the change cannot be read after it.
#[test]
fn a_file_that_changes_while_it_is_read() {
    require!(Fuse, Root);
    for nodes in [1, 7] {
        let job = job(nodes);
        let (rank, file) = (job.nodes() - 1, job.sandbox.source().join("file"));
        let mut view = File::open(job.path(rank, &file)).unwrap();
        let mut bytes = vec![0; 1 << 20];
        view.read_exact(&mut bytes).unwrap();
        let old = tree::contents(3 << 20);
        assert!(bytes == old[..1 << 20]);
        File::options().write(true).open(&file).unwrap().write_all_at(&vec![7; 3 << 20], 0).unwrap();
        for offset in [1 << 20, 2 << 20] {
            match view.read_exact_at(&mut bytes, offset as u64) {
                Ok(()) => assert!(bytes == old[offset..offset + (1 << 20)], "bytes of the new generation at {offset}"),
                Err(error) => assert!([ESTALE, Some(5)].contains(&error.raw_os_error()), "{error}"),
            }
        }
        job.down();
    }
}

/// Root passes every check, so the job is one of `nobody`.
#[test]
fn a_refusal_is_passed_on() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    let source = sandbox.source();
    for (name, mode) in [("closed", 0o700), ("open", 0o755)] {
        fs::create_dir(source.join(name)).unwrap();
        tree::write(&source.join(name).join("file"), b"contents");
        fs::set_permissions(source.join(name), Permissions::from_mode(mode)).unwrap();
    }
    let job = Job::up_local(sandbox, 3, &source, &["--fanout", "2"]);
    let read = |name: &str| run(as_nobody("cat".as_ref()).arg(job.path(2, &source.join(name))));
    assert_eq!(read("open/file").good().text(), "contents");
    for _ in 0..2 {
        let refused = read("closed/file");
        assert!(!refused.status.success() && refused.stderr.contains("ermission denied"), "{}", refused.stderr);
    }
    let root = fs::read(job.path(2, &source.join("open/file"))).unwrap_err();
    assert_eq!(root.raw_os_error(), EACCES, "not even root may enter another user's view");
    job.down();
}

/// Without `--allow-other` a view is its user's own: a daemon of root would show everybody what only root may see.
#[test]
fn another_user_may_not_enter() {
    require!(Fuse, Root, Command("setpriv"));
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    tree::write(&source.join("file"), b"contents");
    for directory in [sandbox.base(), source.clone()] {
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    }
    let job = Job::up_local(sandbox, 1, &source, &[]);
    let refused = run(as_nobody("cat".as_ref()).arg(job.path(0, &source.join("file"))));
    assert!(!refused.status.success() && refused.stderr.contains("ermission denied"), "{}", refused.stderr);
    job.down();
}

/// The export vanishes and comes back, as with a file system that is mounted again: what failed is asked anew.
#[test]
fn an_error_is_not_kept() {
    require!(Fuse, Root);
    for nodes in [1, 7] {
        let job = job(nodes);
        let (rank, source) = (job.nodes() - 1, job.sandbox.source());
        let aside = job.sandbox.base().join("aside");
        fs::rename(source.join("file"), &aside).unwrap();
        let error = fs::read(job.path(rank, &source.join("file"))).unwrap_err();
        assert!([ENOENT, ESTALE].contains(&error.raw_os_error()), "{error}");
        fs::rename(&aside, source.join("file")).unwrap();
        // A rename changes ctime, so it is another generation, which whoever opens the file again finds: the kernel is told a
        // moment after the program was. It must not be "no such file" any more.
        let mut read = None;
        wait_until("the file is found again", Duration::from_secs(20), || {
            read = match fs::read(job.path(rank, &source.join("file"))) {
                Err(error) => {
                    assert_eq!(error.raw_os_error(), ESTALE, "the error was kept");
                    None
                }
                Ok(bytes) => Some(bytes),
            };
            read.is_some()
        });
        assert!(read.is_some_and(|bytes| bytes == tree::contents(3 << 20)));
        job.down();
    }
}

/// A daemon that follows one that died serves whatever its exports do at that moment, and finds them when they are back.
#[test]
fn an_export_that_was_away_when_a_daemon_came_back() {
    require!(Fuse, Root);
    let job = job(1);
    let (source, aside) = (job.sandbox.source(), job.sandbox.base().join("aside"));
    let file = job.path(0, &source.join("file"));
    fs::rename(&source, &aside).unwrap();
    let killed = job.kill_daemon(0);
    wait_until("another daemon is there", Duration::from_secs(20), || {
        job.daemon(0).is_some_and(|daemon| daemon != killed)
    });
    assert!(fs::read(&file).is_err(), "nothing is known of its contents");
    fs::rename(&aside, &source).unwrap();
    assert!(fs::read(&file).unwrap() == tree::contents(3 << 20));
    job.down();
}

/// Its name is known, and nothing in it.
#[test]
fn a_directory_that_is_gone_when_it_is_listed() {
    require!(Fuse, Root);
    for nodes in [1, 7] {
        let sandbox = Sandbox::new();
        let source = sandbox.source();
        let directory = source.join("gone");
        fs::create_dir(&directory).unwrap();
        // A prefetch could have listed the directory before.
        let job = Job::up_local(sandbox, nodes, &source, &["--fanout", "2", "--prefetch", "false"]);
        let view = job.path(job.nodes() - 1, &directory);
        assert!(fs::metadata(&view).unwrap().is_dir());
        fs::remove_dir(&directory).unwrap();
        let opened = rustix::fs::open(&view, OFlags::DIRECTORY, Mode::empty()).unwrap();
        // As the kernel says it: the C library takes ENOENT for the end of the directory.
        let mut space = [MaybeUninit::uninit(); 1024];
        let mut entries = RawDir::new(&opened, &mut space);
        let first = entries.next().map(|entry| entry.map(|entry| entry.file_name().to_owned()));
        assert!(matches!(first, Some(Err(Errno::NOENT | Errno::STALE))), "{first:?}");
        job.down();
    }
}
