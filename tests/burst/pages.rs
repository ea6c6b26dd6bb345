//! Repeated reads of nodes come from their kernels' page caches, and no program finds an outdated page.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, UNIX_EPOCH};

use forebay_tests::program::{file_of_tests, run};
use forebay_tests::require;

use crate::bed::Bed;

const BYTES: usize = 1 << 20;

/// For what takes some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages of a file that are in the page cache when it has been opened.
fn resident(file: &Path) -> usize {
    let said = run(Command::new("python3").arg(file_of_tests("burst/resident.py")).arg(file)).good().text();
    said.trim().parse().unwrap()
}

#[test]
fn no_node_finds_a_page_that_another_one_has_replaced() {
    require!(Fuse, Root);
    let bed = Bed::of(3);
    for seed in ["one", "two"] {
        let mut command = Command::new("python3");
        command.arg(file_of_tests("burst/pages.py")).args([seed, "60"]);
        command.args((0..3).map(|node| bed.mount_of(node)));
        assert_eq!(run(&mut command).good().text(), "good\n");
    }
    bed.job.down();
}

/// Each node writes its own part of a file, which stays open, and looks at the others' parts. The attributes that the kernel gets
/// include pending writes, so another node's change looks like nothing.
#[test]
fn no_node_finds_an_old_page_while_its_own_programs_are_writing() {
    require!(Fuse, Root);
    let bed = Bed::of(3);
    for (reader, writer) in [(0, 1), (1, 0), (1, 2)] {
        let name = format!("parts-{reader}-{writer}");
        let [at_reader, at_writer] = [reader, writer].map(|node| bed.mount_of(node).join(&name));
        fs::write(&at_writer, vec![0; BYTES]).unwrap();
        let own = File::options().write(true).open(&at_reader).unwrap();
        own.write_all_at(b"own", BYTES as u64 / 2).unwrap();
        let read = File::open(&at_reader).unwrap();
        for round in 1..20 {
            let other = File::options().write(true).open(&at_writer).unwrap();
            other.write_all_at(&[round; 8], 0).unwrap();
            drop(other);
            let mut found = [0; 8];
            read.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(found, [round; 8], "read on node {reader}, written on node {writer}");
        }
    }
    bed.job.down();
}

#[test]
fn pages_stay_from_one_open_to_the_next_until_the_file_changes() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    for (reader, writer) in [(0, 1), (1, 0), (1, 1)] {
        let path = bed.mount_of(reader).join("file");
        fs::write(bed.mount_of(writer).join("file"), vec![1; BYTES]).unwrap();
        // The kernel may take some pages back whenever it wants memory, or DAMON reclaims what it finds cold.
        let are_all_there = || {
            assert_eq!(fs::read(&path).unwrap(), vec![1; BYTES]);
            let pages = resident(&path);
            assert!(
                pages > BYTES / rustix::param::page_size() / 2,
                "{pages}: read on node {reader}, written on node {writer}"
            );
            pages == BYTES / rustix::param::page_size()
        };
        assert!((0..20).any(|_| are_all_there()), "read on node {reader}, written on node {writer}");
        fs::write(bed.mount_of(writer).join("file"), vec![2; BYTES]).unwrap();
        assert_eq!(resident(&path), 0, "read on node {reader}, written on node {writer}");
        assert_eq!(fs::read(&path).unwrap(), vec![2; BYTES]);
    }
    bed.job.down();
}

#[test]
fn a_node_that_cannot_be_told_believes_its_pages_no_longer_than_its_lease() {
    require!(Fuse, Root);
    let bed = Bed::of(3);
    for (reader, daemon) in [(1, 1), (2, 2)] {
        let writer = 3 - reader;
        fs::write(bed.mount_of(writer).join("file"), vec![1; BYTES]).unwrap();
        let open = File::open(bed.mount_of(reader).join("file")).unwrap();
        let read = move || {
            let mut bytes = vec![0; BYTES];
            open.read_exact_at(&mut bytes, 0).unwrap();
            (bytes, open)
        };
        let (bytes, open) = read();
        assert_eq!(bytes, vec![1; BYTES]);
        let mut again = vec![0; BYTES];
        open.read_exact_at(&mut again, 0).unwrap();
        let (sender, found) = mpsc::channel();
        bed.while_it_stands_still(daemon, || {
            let out = File::options().write(true).open(bed.mount_of(writer).join("file")).unwrap();
            out.write_all_at(&vec![2; BYTES], 0).unwrap();
            out.sync_all().unwrap();
            // It must wait for its daemon.
            std::thread::spawn(move || {
                let mut bytes = vec![0; BYTES];
                open.read_exact_at(&mut bytes, 0).unwrap();
                sender.send(bytes).unwrap();
            });
            assert!(found.recv_timeout(Duration::from_millis(300)).is_err(), "an answer without a lease");
        });
        assert_eq!(found.recv_timeout(PATIENCE).unwrap(), vec![2; BYTES]);
    }
    bed.job.down();
}

/// A change waits no longer for a node that stands still than its lease. The kernel drops pages from the first to the last, and ignores
/// meanwhile how large the file is.
#[test]
fn a_node_that_has_stood_still_finds_what_was_written_meanwhile() {
    require!(Fuse, Root);
    const LARGE: u64 = 128 << 20;
    let bed = Bed::of(2);
    fs::write(bed.mount_of(0).join("file"), vec![0; LARGE as usize]).unwrap();
    for round in 1..=4 {
        let open = File::open(bed.mount_of(1).join("file")).unwrap();
        let mut all = vec![0; LARGE as usize];
        open.read_exact_at(&mut all, 0).unwrap();
        let last = if round % 2 == 0 { LARGE - 8 } else { LARGE + 8 * round };
        let read = move || {
            let mut found = [0; 8];
            open.read_exact_at(&mut found, last).map(|()| found)
        };
        let mut reading = None;
        bed.while_it_stands_still(1, || {
            let out = File::options().write(true).open(bed.mount_of(0).join("file")).unwrap();
            out.write_all_at(&round.to_le_bytes(), last).unwrap();
            out.sync_all().unwrap();
            reading = Some(std::thread::spawn(read));
            std::thread::sleep(Duration::from_millis(200));
        });
        assert_eq!(reading.unwrap().join().unwrap().unwrap(), round.to_le_bytes(), "round {round}");
    }
    bed.job.down();
}

#[test]
fn a_file_that_grows_is_read_to_its_end() {
    require!(Fuse, Root);
    growing_file_is_read_to_its_end(|_| ());
}

/// The kernel takes a file's size by its time of change, and would see none.
#[test]
fn a_file_that_grows_is_read_to_its_end_where_its_time_of_change_stays() {
    require!(Fuse, Root);
    growing_file_is_read_to_its_end(|out| out.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap());
}

/// The file stays open where it is read, so that the kernel asks for its size before each reading.
#[track_caller]
fn growing_file_is_read_to_its_end(and_then: impl Fn(&File)) {
    let bed = Bed::of(3);
    for (writer, reader) in [(0, 1), (1, 0), (1, 2)] {
        let path = bed.mount_of(writer).join("growing");
        fs::write(&path, "").unwrap();
        let read = File::open(bed.mount_of(reader).join("growing")).unwrap();
        for round in 0..100 {
            let at = round * 100;
            let out = File::options().write(true).open(&path).unwrap();
            out.write_all_at(&[round as u8; 100], at).unwrap();
            and_then(&out);
            drop(out);
            let mut found = vec![0; BYTES];
            let len = read.read_at(&mut found, if round % 2 == 0 { 0 } else { at }).unwrap();
            let all = if round % 2 == 0 { at + 100 } else { 100 };
            assert_eq!(len as u64, all, "round {round}, read on node {reader}, written on node {writer}");
            assert!(found[len - 100..len] == [round as u8; 100], "round {round}");
            // Programs see the time that the file has.
            let times = [&read, &File::open(&path).unwrap()].map(|file| file.metadata().unwrap().modified().unwrap());
            assert_eq!(times[0], times[1], "round {round}");
        }
    }
    bed.job.down();
}

/// It is not taken for shorter.
#[test]
fn an_end_that_is_lost_is_an_error_for_who_has_stood_still() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    fs::write(bed.mount_of(1).join("file"), vec![1; 1000]).unwrap();
    let open = File::open(bed.mount_of(2).join("file")).unwrap();
    open.read_exact_at(&mut [0; 1000], 0).unwrap();
    let read = move || open.read_at(&mut [0; 500], 1000).map_err(|error| error.raw_os_error());
    let stopped = bed.job.stop_node(2);
    let mut out = File::options().append(true).open(bed.mount_of(1).join("file")).unwrap();
    out.write_all(&[2; 1000]).unwrap();
    drop(out);
    bed.job.kill_node(1);
    let reading = std::thread::spawn(read);
    drop(stopped);
    assert_eq!(reading.join().unwrap(), Err(Some(rustix::io::Errno::IO.raw_os_error())));
    bed.job.kill_all();
}

/// The kernel ignores an answer about a file if it has taken another one, or a write, since it asked, and goes on with the pages that it has.
#[test]
fn no_reader_finds_an_old_page_beside_other_programs_of_its_node() {
    require!(Fuse, Root);
    let bed = Bed::of(3);
    for beside in ["append", "chmod", "look", "read"] {
        let mut command = Command::new("python3");
        command.arg(file_of_tests("burst/pages_beside.py")).args([beside, "150"]);
        command.args([1, 2].map(|node| bed.mount_of(node)));
        assert_eq!(run(&mut command).good().text(), "good\n", "{beside}");
    }
    bed.job.down();
}

#[test]
fn the_next_daemon_does_not_believe_the_pages_of_the_one_before() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    for (reader, writer) in [(1, 0), (0, 1)] {
        fs::write(bed.mount_of(writer).join("file"), vec![1; BYTES]).unwrap();
        let open = File::open(bed.mount_of(reader).join("file")).unwrap();
        let mut bytes = vec![0; BYTES];
        open.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, vec![1; BYTES]);
        bed.job.kill_daemon(reader as usize);
        fs::write(bed.mount_of(writer).join("file"), vec![2; BYTES]).unwrap();
        open.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, vec![2; BYTES]);
        assert_eq!(fs::read(bed.mount_of(reader).join("file")).unwrap(), vec![2; BYTES]);
    }
    bed.job.down();
}
