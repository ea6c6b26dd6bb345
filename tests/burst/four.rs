//! One tree for four nodes.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use forebay_tests::program::wait_until;
use forebay_tests::require;

use crate::bed::Bed;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn writes_of_one_node_are_read_by_others_after_close() {
    require!(Fuse, Root);
    let bed = Bed::of(4);
    let _ = bed.shell_on(1, "mkdir d; dd if=/dev/urandom of=d/big bs=1M count=9 2>/dev/null; ln -s d/big l").good();
    let wanted = fs::read(bed.mount_of(1).join("d/big")).unwrap();
    for node in [0, 2, 3] {
        assert!(fs::read(bed.mount_of(node).join("l")).unwrap() == wanted, "node {node} reads the same bytes");
    }
    let _ = bed.shell_on(3, "mv d e; echo more >> e/big; rm l").good();
    assert_eq!(bed.shell_on(2, "ls; stat -c %s e/big").good().text(), "e\n9437189\n");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount_of(2)), Bed::listing(&bed.backing()));
    assert_eq!(bed.landed("e/big")["state"], "landed");
    let _ = bed.command(&["down"]).good();
    let left = ["store", "mounts"].map(|name| bed.job.sandbox.base().join(name).exists());
    bed.job.forget();
    assert_eq!(left, [false, false], "nothing of it is left");
}

/// As MPI programs do it: rank i of n writes every n-th block.
#[test]
fn nodes_write_one_file_together() {
    require!(Fuse, Root);
    let bed = Bed::of(4);
    let open = |node| {
        let path = bed.mount_of(node).join("shared");
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    };
    let files: Vec<fs::File> = (0..4).map(open).collect();
    std::thread::scope(|scope| {
        for (node, file) in files.iter().enumerate() {
            scope.spawn(move || {
                for block in 0..32 {
                    file.write_all_at(&[node as u8 + 1; 5000], (block * 4 + node as u64) * 5000).unwrap();
                }
                file.sync_all().unwrap();
            });
        }
    });
    let wanted: Vec<u8> = (0..128).flat_map(|block| [block as u8 % 4 + 1; 5000]).collect();
    for mut file in &files {
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes == wanted, "all nodes see all of it through what they have open");
    }
    drop(files);
    bed.drain();
    assert!(fs::read(bed.backing().join("shared")).unwrap() == wanted);
    bed.job.down();
}

#[test]
fn appends_of_all_nodes_are_there_once_and_a_name_is_created_by_one() {
    require!(Fuse, Root);
    let bed = Bed::of(4);
    let script = |node: u32| {
        format!(
            "i=0; while [ $i -lt 50 ]; do echo {node}-$i >> log; \
             if sh -c 'set -C; : > claim'$i 2>/dev/null; then echo $i >> won{node}; fi; i=$((i + 1)); done"
        )
    };
    let mut programs: Vec<_> = (0..4)
        .map(|node| {
            let mut program = Command::new("sh");
            program.args(["-euc", &script(node)]).current_dir(bed.mount_of(node)).stdin(Stdio::null());
            program.spawn().unwrap()
        })
        .collect();
    for program in &mut programs {
        let mut status = None;
        wait_until("a program ends", PATIENCE, || {
            status = program.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
    }
    let mut lines: Vec<String> = bed.shell("cat log").good().text().lines().map(str::to_owned).collect();
    let mut wanted: Vec<String> = (0..4).flat_map(|node| (0..50).map(move |i| format!("{node}-{i}"))).collect();
    lines.sort();
    wanted.sort();
    assert_eq!(lines, wanted, "no line is lost or there twice");
    assert_eq!(bed.shell("cat won* | sort -n | uniq | wc -l; cat won* | wc -l").good().text(), "50\n50\n");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// The leader's daemon dies, and the writers' own.
#[test]
fn programs_of_all_nodes_see_nothing_of_daemons_deaths() {
    require!(Fuse, Root);
    let bed = Bed::of(4);
    let script = "exec 7> data$0; i=0; while [ $i -lt 1500 ]; do \
                  printf 'line %06d\\n' $i >&7; [ $((i % 100)) -ne 0 ] || { echo $0 $i >> log; : > new$0-$i; mv new$0-$i old$0-$i; }; \
                  i=$((i + 1)); done";
    let start = |node: u32| {
        let mut program = Command::new("sh");
        program.args(["-euc", script, &node.to_string()]).current_dir(bed.mount_of(node)).stdin(Stdio::null());
        program.spawn().unwrap()
    };
    let mut writers: Vec<_> = [1, 2].map(start).into_iter().collect();
    let mut deaths = 0;
    while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) && deaths < 6 {
        let node = [0, 1, 2][deaths % 3];
        bed.job.kill_daemon(node);
        deaths += 1;
        wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(node).is_some());
    }
    for writer in &mut writers {
        let mut status = None;
        wait_until("a writer ends", PATIENCE, || {
            status = writer.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success() && deaths > 0);
    }
    let wanted: String = (0..1500).map(|line| format!("line {line:06}\n")).collect();
    for node in [1, 2] {
        assert!(bed.shell_on(3, &format!("cat data{node}")).good().text() == wanted, "every line is there once");
        let log = bed.shell_on(3, &format!("grep '^{node} ' log")).good().text();
        let steps: Vec<u32> = log.lines().map(|line| line[2..].parse().unwrap()).collect();
        assert_eq!(steps, (0..1500).step_by(100).collect::<Vec<u32>>());
    }
    assert_eq!(bed.shell_on(3, "ls | grep -c old; ls | grep new | wc -l").good().text(), "30\n0\n");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount_of(3)), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// Files that programs had written and not closed when their job ended land with the next job of the same name.
#[test]
fn stores_that_are_left_are_taken_up_by_the_next_job() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let mut open = OpenOptions::new().create(true).append(true).open(bed.mount_of(1).join("half")).unwrap();
    open.write_all(b"appended ").unwrap();
    let other = fs::File::create(bed.mount_of(1).join("other")).unwrap();
    other.write_all_at(b"not closed", 5).unwrap();
    bed.job.kill_daemon(1);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(1).is_some());
    assert_eq!(bed.command(&["down", "--no-drain"]).status.code(), Some(3));
    drop((open, other));
    let Bed { job } = bed;
    let arguments = crate::bed::arguments(&job.sandbox, 2);
    let again = job.sandbox.up(&arguments.iter().map(std::ffi::OsStr::new).collect::<Vec<_>>());
    assert!(again.status.success(), "{}", again.stderr);
    let bed = Bed { job };
    bed.drain();
    assert_eq!(fs::read(bed.backing().join("half")).unwrap(), b"appended ");
    assert_eq!(fs::read(bed.backing().join("other")).unwrap(), b"\0\0\0\0\0not closed");
    bed.job.down();
}

/// Reads, adds one and writes under a lock, as data sieving does, without a commit in between.
const COUNTS: &str = "
import fcntl, os, sys
file = os.open('counter', os.O_RDWR | os.O_CREAT)
for _ in range(60):
    if sys.argv[1] == 'flock': fcntl.flock(file, fcntl.LOCK_EX)
    else: fcntl.lockf(file, fcntl.LOCK_EX, 8, 0)
    number = int(os.pread(file, 8, 0) or b'0')
    os.pwrite(file, b'%08d' % (number + 1), 0)
    if sys.argv[1] == 'flock': fcntl.flock(file, fcntl.LOCK_UN)
    else: fcntl.lockf(file, fcntl.LOCK_UN, 8, 0)
";

#[test]
fn locks_hold_programs_of_other_nodes_off_and_show_what_was_written_under_them() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(4);
    for kind in ["flock", "fcntl"] {
        let start = |node| {
            let mut program = Command::new("python3");
            program.args(["-c", COUNTS, kind]).current_dir(bed.mount_of(node)).stdin(Stdio::null());
            program.spawn().unwrap()
        };
        // Two of one node, too.
        let mut programs = [0, 1, 2, 3, 3].map(start);
        for program in &mut programs {
            let mut status = None;
            wait_until("a program ends", PATIENCE, || {
                status = program.try_wait().unwrap();
                status.is_some()
            });
            assert!(status.unwrap().success(), "{kind}");
        }
        assert_eq!(bed.shell("cat counter; rm counter").good().text(), "00000300", "{kind}");
    }
    bed.job.down();
}

#[test]
fn waiters_for_a_lock_can_be_killed_and_dead_holders_release_it() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(3);
    let program = |node, script: &str| {
        let mut program = Command::new("python3");
        program.args(["-c", script]).current_dir(bed.mount_of(node)).stdin(Stdio::null());
        program.spawn().unwrap()
    };
    let locks = "import fcntl, time; file = open('lock', 'a'); fcntl.lockf(file, fcntl.LOCK_EX); open('has' + NAME, 'w'); time.sleep(600)";
    let has = |name: &str| bed.mount().join(format!("has{name}")).exists();
    let named = |name: &str| locks.replace("NAME", &format!("'{name}'"));
    let mut first = program(1, &named("1"));
    wait_until("the first has it", PATIENCE, || has("1"));
    let mut second = program(2, &named("2"));
    let refused = "import fcntl, sys\ntry: fcntl.lockf(open('lock', 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept BlockingIOError: sys.exit(7)";
    assert_eq!(program(0, refused).wait().unwrap().code(), Some(7));
    second.kill().unwrap();
    let _ = second.wait().unwrap();
    let mut third = program(2, &named("3"));
    first.kill().unwrap();
    let _ = first.wait().unwrap();
    wait_until("the third has it", PATIENCE, || has("3"));
    assert!(!has("2"));
    // The leader's daemon dies: the lock stays where it is.
    bed.job.kill_daemon(0);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some());
    assert_eq!(program(0, refused).wait().unwrap().code(), Some(7));
    third.kill().unwrap();
    let _ = third.wait().unwrap();
    wait_until("it is free", PATIENCE, || program(0, refused).wait().unwrap().success());
    bed.job.down();
}

/// Requests of one kernel come to the owner in any order.
#[test]
fn programs_of_one_node_make_and_remove_names_at_once() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    for node in [0, 1] {
        let directory = bed.mount_of(node);
        std::thread::scope(|scope| {
            for program in 0..8 {
                let directory = &directory;
                scope.spawn(move || {
                    for number in 0..300 {
                        let path = directory.join(format!("{program}-{number}"));
                        fs::write(&path, "x").unwrap();
                        fs::rename(&path, path.with_extension("done")).unwrap();
                        fs::remove_file(path.with_extension("done")).unwrap();
                    }
                });
            }
        });
    }
    bed.drain();
    assert_eq!(Bed::listing(&bed.backing()), "");
    bed.job.down();
}
