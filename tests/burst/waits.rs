//! A program that waits for another node keeps no other program waiting.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::Scope;
use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::Bed;
use crate::full::small_store_with;

/// Longer than a node waits until it asks for the room of its store, several times.
const ROUNDS: Duration = Duration::from_millis(2500);

/// Fewer writes than a node commits at once: the leader has to hear of so many.
const PACE: Duration = Duration::from_millis(10);

/// The leader stands still while a file is closed that it has not heard of. Writes to another file go on until after that.
#[test]
fn a_close_that_waits_for_the_leader_stops_no_write() {
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
                // Not before the leader stands still: a process that another test starts closes its copy of the descriptor, and so commits it.
                closed.write_all_at(b"first", 0).unwrap();
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

/// The leader stands still while the daemon of another node is followed by the next one. Writes to a file that is open there need nobody else; an append
/// needs the leader, who knows where the end is.
#[test]
fn writes_to_an_open_file_go_on_with_a_new_daemon_before_that_has_heard_of_the_leader() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let open = open_file(&bed, 1);
    let path = bed.mount_of(1).join("appended");
    let appended = File::options().append(true).create(true).open(path).unwrap();
    write(&appended, b"first");
    appended.sync_all().unwrap();
    let is_appended = AtomicBool::new(false);
    let leader = [bed.job.keeper(0), bed.job.daemon(0).unwrap()].map(|pid| Pid::from_raw(pid as i32).unwrap());
    std::thread::scope(|scope| {
        leader.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
        bed.job.kill_daemon(1);
        scope.spawn(|| {
            write(&appended, b" second");
            is_appended.store(true, Ordering::SeqCst);
        });
        let in_time = calls_end_in_time(scope, &open, |open, number| {
            open.write_all_at(&number.to_le_bytes(), number * 4096).unwrap();
        });
        let was_appended = is_appended.load(Ordering::SeqCst);
        leader.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
        assert!(in_time, "the writes waited for the leader");
        assert!(!was_appended, "nobody knows where the end is");
    });
    drop((open, appended));
    let read = fs::read(bed.mount().join("open")).unwrap();
    assert!((0..CALLS).all(|number| read[number as usize * 4096..][..8] == number.to_le_bytes()), "{}", read.len());
    assert_eq!(fs::read(bed.mount().join("appended")).unwrap(), b"first second");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// More extents than a commit has, of a file whose node cannot reach the leader: their commit begins, and the program writes on.
#[test]
fn writes_go_on_while_the_commit_of_earlier_ones_waits_for_the_leader() {
    require!(Fuse, Root);
    const WRITES: u64 = 5000;
    let bed = Bed::of(2);
    let open = File::create(bed.mount_of(1).join("open")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        bed.while_it_stands_still(0, || {
            let (open, is_over) = (&open, &is_over);
            scope.spawn(move || {
                (0..WRITES).for_each(|count| open.write_all_at(&count.to_le_bytes(), count * 16).unwrap());
                is_over.store(true, Ordering::SeqCst);
            });
            wait_until("all is written", ROUNDS * 10, || is_over.load(Ordering::SeqCst));
        });
    });
    drop(open);
    let read = fs::read(bed.mount().join("open")).unwrap();
    let expected = |count: u64| count.to_le_bytes();
    assert!((0..WRITES).all(|count| read[count as usize * 16..][..8] == expected(count)), "{} bytes", read.len());
    bed.job.down();
}

/// One node of seven stands still that was told of many files. Changes of these wait for it; what others ask the leader meanwhile does not
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

/// A node stands still that was told of directories. Lookups of another node make the leader look into these, which waits for the silent one; what a
/// third node asks the leader meanwhile does not wait with them.
#[test]
fn lookups_that_wait_for_a_silent_node_stop_nothing_else() {
    require!(Fuse, Root);
    /// More than the leader has threads.
    const LOOKUPS: usize = 60;
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

/// The threads of each daemon are few when nothing has been asked for some seconds, also after many requests have waited.
#[test]
fn a_daemon_at_rest_has_few_threads() {
    require!(Fuse, Root);
    const NODES: u32 = 4;
    const THREADS_MAX: u64 = 20;
    let bed = Bed::of(NODES);
    for node in 0..NODES {
        let _ = bed.shell_on(node, "for i in $(seq 20); do (echo x > $$-$i; cat $$-$i; rm $$-$i) & done; wait").good();
    }
    let threads = || -> Vec<u64> {
        let status: serde_json::Value = serde_json::from_slice(&bed.command(&["status", "--json"]).stdout).unwrap();
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["threads"].as_u64().unwrap()).collect()
    };
    wait_until("daemons rest", ROUNDS * 10, || threads().iter().all(|threads| *threads <= THREADS_MAX));
    assert_eq!(threads().len(), NODES as usize);
    assert!(threads().iter().all(|threads| *threads > 10), "all are counted");
    bed.job.down();
}

/// The leader stands still while a thousand programs of another node open files. Each waits; the daemon has eight threads for all of them at most.
#[test]
fn a_thousand_opens_that_wait_take_few_threads() {
    require!(Fuse, Root);
    const OPENS: [usize; 2] = [100, 1000];
    const TASK_THREADS_MAX: usize = 8;
    /// Those of its own that come and go.
    const OTHERS_MAX: usize = 2;
    let bed = Bed::of(2);
    let path = |number: usize| bed.mount_of(1).join(format!("file-{number}"));
    // The kernel has one creation in a directory at a time, and any number of opens.
    (0..OPENS[1]).for_each(|number| drop(File::create(path(number)).unwrap()));
    let threads = || {
        let tasks = format!("/proc/{}/task", bed.job.daemon(1).unwrap());
        let named = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let names: Vec<String> = fs::read_dir(tasks).unwrap().flatten().map(named).collect();
        (names.len(), names.iter().filter(|name| name.trim() == "fuse-task").count())
    };
    let at_rest = threads().0;
    let while_they_wait = |opens: usize| {
        let (over, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let waiting = std::thread::scope(|scope| {
            bed.while_it_stands_still(0, || {
                for number in 0..opens {
                    let (over, begun, path) = (&over, &begun, path(number));
                    let open = move || {
                        begun.fetch_add(1, Ordering::SeqCst);
                        drop(File::open(path).unwrap());
                        over.fetch_add(1, Ordering::SeqCst);
                    };
                    std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, open).unwrap();
                }
                wait_until("all have begun", ROUNDS * 10, || begun.load(Ordering::SeqCst) == opens);
                assert_eq!(over.load(Ordering::SeqCst), 0, "all wait");
                threads()
            })
        });
        assert_eq!(over.into_inner(), opens);
        waiting
    };
    let waiting = OPENS.map(while_they_wait);
    eprintln!("threads: {at_rest} at rest; while {OPENS:?} opens wait, all and for these: {waiting:?}");
    let is_few = |(all, tasks): &(usize, usize)| {
        (1..=TASK_THREADS_MAX).contains(tasks) && *all <= at_rest + TASK_THREADS_MAX + OTHERS_MAX
    };
    assert!(waiting.iter().all(is_few), "{waiting:?}");
    bed.job.down();
}

/// Writes to an open file, and looks at it, while others wait.
const CALLS: u64 = 50;

/// How long they may take. The leader is not given up before.
const CALLS_WAIT: Duration = Duration::from_secs(8);

/// Whether a thread of this process sleeps.
fn sleeps(thread: rustix::thread::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero())).unwrap();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['S', 'D']))
}

/// Whether calls on an open file end while others wait.
fn calls_end_in_time<'scope>(
    scope: &'scope Scope<'scope, '_>,
    open: &'scope File,
    call: impl Fn(&File, u64) + Send + 'scope,
) -> bool {
    let (over, is_over) = mpsc::channel();
    scope.spawn(move || {
        (0..CALLS).for_each(|number| call(open, number));
        // The test may have failed.
        let _ = over.send(());
    });
    is_over.recv_timeout(CALLS_WAIT).is_ok()
}

/// One call, at the end of a file that is opened so.
fn write(mut file: &File, bytes: &[u8]) {
    assert_eq!(file.write(bytes).unwrap(), bytes.len());
}

fn write_block(open: &File, number: u64) {
    open.write_all_at(&[7; 4096], number * 4096).unwrap();
}

fn read_and_look(open: &File, _: u64) {
    open.read_exact_at(&mut [0; 4096], 0).unwrap();
    assert!(open.metadata().unwrap().len() >= 4096);
}

/// A file of a node, with a block that is committed.
fn open_file(bed: &Bed, node: u32) -> File {
    let path = bed.mount_of(node).join("open");
    let open = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    open.write_all_at(&[7; 4096], 0).unwrap();
    open.sync_all().unwrap();
    open.read_exact_at(&mut [0; 4096], 0).unwrap();
    open
}

/// A node stands still that has written files which programs of another node read: more reads than the mount's session has readers.
#[test]
fn reads_of_a_silent_nodes_bytes_stop_nothing_else() {
    require!(Fuse, Root);
    const READS: usize = 20;
    const SILENT: u32 = 2;
    let bed = Bed::with(SILENT + 1, &["--drain", "manual"]);
    let name = |node: u32, number: usize| bed.mount_of(node).join(format!("there-{number}"));
    (0..READS).for_each(|number| fs::write(name(SILENT, number), [7; 100_000]).unwrap());
    let open = open_file(&bed, 1);
    let there: Vec<File> = (0..READS).map(|number| File::open(name(1, number)).unwrap()).collect();
    let over = AtomicUsize::new(0);
    let (reading, readers) = mpsc::channel();
    std::thread::scope(|scope| {
        let in_time = bed.while_it_stands_still(SILENT as usize, || {
            for there in &there {
                let (reading, over) = (reading.clone(), &over);
                scope.spawn(move || {
                    reading.send(rustix::thread::gettid()).unwrap();
                    let mut bytes = vec![0; 100_000];
                    there.read_exact_at(&mut bytes, 0).unwrap();
                    assert!(bytes.iter().all(|byte| *byte == 7));
                    over.fetch_add(1, Ordering::SeqCst);
                });
            }
            for reader in readers.iter().take(READS) {
                wait_until("a read waits", CALLS_WAIT, || sleeps(reader));
            }
            let write_and_read = |open: &File, number| {
                write_block(open, number);
                read_and_look(open, number);
            };
            (calls_end_in_time(scope, &open, write_and_read), over.load(Ordering::SeqCst))
        });
        assert_eq!(in_time, (true, 0), "calls end while all of {READS} reads wait");
    });
    assert_eq!(over.into_inner(), READS);
    drop(open);
    bed.drain();
    bed.job.down();
}

/// The leader stands still while programs of another node write so much to files of theirs that it has to be told.
#[test]
fn writes_that_wait_for_their_commit_stop_no_other_write() {
    require!(Fuse, Root);
    /// More than a mount has readers.
    const FILES: usize = 9;
    /// A file has so many pending when its writers wait for a commit.
    const WRITES: u64 = 4 * 2048;
    let bed = Bed::of(2);
    let made = |number| File::create(bed.mount_of(1).join(format!("file-{number}"))).unwrap();
    let (open, files): (_, Vec<File>) = (open_file(&bed, 1), (0..FILES).map(made).collect());
    let (written, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let in_time = bed.while_it_stands_still(0, || {
            for file in &files {
                let (written, over) = (&written, &over);
                scope.spawn(move || {
                    for write in 0..WRITES {
                        file.write_all_at(b"x", write * 2).unwrap();
                        written.fetch_add(1, Ordering::SeqCst);
                    }
                    over.fetch_add(1, Ordering::SeqCst);
                });
            }
            let all = FILES * (WRITES as usize - 1);
            wait_until("all but the last are written", ROUNDS * 40, || written.load(Ordering::SeqCst) >= all);
            (calls_end_in_time(scope, &open, write_block), over.load(Ordering::SeqCst))
        });
        assert_eq!(in_time, (true, 0), "calls end while {FILES} writes wait");
    });
    assert_eq!(over.into_inner(), FILES);
    drop((open, files));
    bed.job.down();
}

/// Programs fill a store that gives no room back before one of its files is closed.
#[test]
fn writes_that_wait_for_room_stop_no_read() {
    require!(Fuse, Root);
    const WRITERS: usize = 20;
    /// Of each writer: together more than the large file leaves room for, and less than there is room for without it.
    const BLOCKS: u64 = 6;
    let bed = small_store_with("256MiB", 1, &["--drain", "close"]);
    let made = |number| File::create(bed.mount().join(format!("file-{number}"))).unwrap();
    // It has two of the store's segments to itself.
    let large = File::create(bed.mount().join("large")).unwrap();
    (0..130).for_each(|block| large.write_all_at(&[5; 1 << 20], block << 20).unwrap());
    let (open, files): (_, Vec<File>) = (open_file(&bed, 0), (0..WRITERS).map(made).collect());
    let over = AtomicUsize::new(0);
    let (writing, writers) = mpsc::channel();
    std::thread::scope(|scope| {
        for file in &files {
            let (writing, over) = (writing.clone(), &over);
            scope.spawn(move || {
                for block in 0..BLOCKS {
                    writing.send(rustix::thread::gettid()).unwrap();
                    file.write_all_at(&[5; 1 << 20], block << 20).unwrap();
                }
                over.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut last = BTreeSet::new();
        // Until nobody begins a write any more.
        while let Ok(writer) = writers.recv_timeout(PACE * 50) {
            last.insert(writer.as_raw_nonzero());
        }
        let in_time = calls_end_in_time(scope, &open, read_and_look);
        let waiting = last.len() - over.load(Ordering::SeqCst);
        assert!(in_time && waiting > 8, "reads end while {waiting} writes wait");
        drop(large);
    });
    assert_eq!(over.into_inner(), WRITERS);
    drop((open, files));
    bed.job.down();
}

/// The leader stands still while programs of another node open files: fewer than the mount's session has readers, and far more.
#[test]
fn opens_that_wait_for_the_leader_stop_no_write() {
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
