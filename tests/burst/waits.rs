//! A program that waits for another node keeps no other program waiting.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;
use forebay_tests::require;

use crate::bed::Bed;

/// Longer than a node waits until it asks for the room of its store, several times.
const ROUNDS: Duration = Duration::from_millis(2500);

/// Fewer writes than a node commits at once: the owner has to hear of so many.
const PACE: Duration = Duration::from_millis(10);

/// The owner stands still while a file is closed that it has not heard of. Writes to another file go on until after that.
#[test]
fn a_close_that_waits_for_the_owner_stops_no_write() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let made = |name: &str| {
        let file = File::create(bed.mount_of(1).join(name)).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        file
    };
    let (closed, open) = (made("closed"), made("open"));
    open.sync_all().unwrap();
    let has_closed = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        bed.while_it_stands_still(0, || {
            scope.spawn(|| {
                drop(closed);
                has_closed.store(true, Ordering::SeqCst);
            });
            let began = Instant::now();
            let mut written = 0;
            while began.elapsed() < ROUNDS {
                open.write_all_at(&[7; 4096], written * 4096).unwrap();
                written += 1;
                std::thread::sleep(PACE);
            }
            assert!(!has_closed.load(Ordering::SeqCst), "the close waited, and the {written} writes with it");
            written
        })
    });
    assert!(has_closed.load(Ordering::SeqCst));
    drop(open);
    assert_eq!(std::fs::metadata(bed.mount().join("open")).unwrap().len(), written * 4096);
    assert_eq!(std::fs::read(bed.mount().join("closed")).unwrap(), b"first");
    bed.job.down();
}

/// One node of seven stands still that was told of many files. Changes of these wait for it; what others ask the owner of the tree meanwhile does not
/// wait with them.
#[test]
fn changes_that_wait_for_a_silent_node_stop_nothing_else() {
    require!(Fuse, Root);
    const SILENT: usize = 6;
    const CHANGES: usize = 32;
    const ASKED: usize = 20;
    let bed = Bed::of(SILENT as u32 + 1);
    let script = format!("mkdir told other; for i in $(seq {CHANGES}); do touch told/$i; done; touch other/file");
    let _ = bed.shell(&script).good();
    let _ = bed.shell_on(SILENT as u32, "ls -l told | wc -l").good();
    let (begun, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        bed.while_it_stands_still(SILENT, || {
            for change in 0..CHANGES {
                // As many as a mount takes at once, on each of four nodes.
                let file = bed.mount_of(change as u32 / 8 + 1).join(format!("told/{}", change + 1));
                let (begun, over) = (&begun, &over);
                scope.spawn(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    fs::set_permissions(file, Permissions::from_mode(0o640)).unwrap();
                    over.fetch_add(1, Ordering::SeqCst);
                });
            }
            wait_until("all changes have begun", ROUNDS * 10, || begun.load(Ordering::SeqCst) == CHANGES);
            for asked in 0..ASKED {
                let name = bed.mount_of(5).join(format!("other/missing-{asked}"));
                assert!(fs::metadata(name).is_err());
            }
            assert_eq!(over.load(Ordering::SeqCst), 0, "what others asked waited as long as the changes");
        });
    });
    assert_eq!(over.load(Ordering::SeqCst), CHANGES);
    bed.job.down();
}

/// A node stands still that was told of directories. Lookups of another node make the owner look into these, which waits for the silent one; what a
/// third node asks the owner meanwhile does not wait with them.
#[test]
fn lookups_that_wait_for_a_silent_node_stop_nothing_else() {
    require!(Fuse, Root);
    /// More than the owner has threads.
    const LOOKUPS: usize = 40;
    const SILENT: u32 = 3;
    let bed = Bed::of(SILENT + 1);
    for directory in 0..LOOKUPS {
        let directory = bed.backing().join(format!("told/{directory}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), "there").unwrap();
    }
    fs::create_dir(bed.mount().join("other")).unwrap();
    let _ = bed.shell_on(SILENT, "ls -l told | wc -l").good();
    let over = AtomicUsize::new(0);
    let (looking, lookers) = mpsc::channel();
    std::thread::scope(|scope| {
        bed.while_it_stands_still(SILENT as usize, || {
            for directory in 0..LOOKUPS {
                let file = bed.mount_of(1).join(format!("told/{directory}/file"));
                let (looking, over) = (looking.clone(), &over);
                scope.spawn(move || {
                    looking.send(rustix::thread::gettid()).unwrap();
                    assert_eq!(fs::metadata(file).unwrap().len(), 5);
                    over.fetch_add(1, Ordering::SeqCst);
                });
            }
            for looker in lookers.iter().take(LOOKUPS) {
                wait_until("a lookup waits", CALLS_WAIT, || sleeps(looker));
            }
            let (began, mut asked) = (Instant::now(), 0);
            while began.elapsed() < ROUNDS {
                assert!(fs::metadata(bed.mount_of(2).join(format!("other/missing-{asked}"))).is_err());
                asked += 1;
                std::thread::sleep(PACE);
            }
            assert_eq!(
                over.load(Ordering::SeqCst),
                0,
                "{asked} of other nodes' requests waited as long as the lookups"
            );
        });
    });
    assert_eq!(over.load(Ordering::SeqCst), LOOKUPS);
    bed.job.down();
}

/// Writes to an open file, and looks at it, while others wait.
const CALLS: u64 = 50;

/// How long they may take. The owner is not given up before.
const CALLS_WAIT: Duration = Duration::from_secs(8);

/// Whether a thread of this process sleeps.
fn sleeps(thread: rustix::thread::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero())).unwrap();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['S', 'D']))
}

/// The owner stands still while programs of another node open files: fewer than the mount's session has readers, and far more.
#[test]
fn opens_that_wait_for_the_owner_stop_no_write() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let path = |name: String| bed.mount_of(1).join(name);
    let open = File::create(path("open".to_owned())).unwrap();
    (0..100).for_each(|number| drop(File::create(path(format!("other-{number}"))).unwrap()));
    for waiting in [8, 20, 100] {
        open.write_all_at(b"first", 0).unwrap();
        open.sync_all().unwrap();
        open.metadata().unwrap();
        let opened = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (opening, openers) = mpsc::channel();
            let (over, is_over) = mpsc::channel();
            let in_time = bed.while_it_stands_still(0, || {
                for number in 0..waiting {
                    let (opening, opened, path) = (opening.clone(), &opened, path(format!("other-{number}")));
                    scope.spawn(move || {
                        opening.send(rustix::thread::gettid()).unwrap();
                        File::open(path).unwrap();
                        opened.fetch_add(1, Ordering::SeqCst);
                    });
                }
                for opener in openers.iter().take(waiting) {
                    wait_until("an open waits", CALLS_WAIT, || sleeps(opener));
                }
                let open = &open;
                scope.spawn(move || {
                    for call in 0..CALLS {
                        open.write_all_at(&[7; 4096], call * 4096).unwrap();
                        assert!(open.metadata().unwrap().len() >= (call + 1) * 4096);
                    }
                    over.send(()).unwrap();
                });
                let in_time = is_over.recv_timeout(CALLS_WAIT);
                in_time.map(|()| opened.load(Ordering::SeqCst))
            });
            assert_eq!(in_time, Ok(0), "writes end while all of {waiting} opens wait");
        });
        assert_eq!(opened.into_inner(), waiting);
    }
    drop(open);
    bed.job.down();
}
