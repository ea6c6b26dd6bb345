//! Calls on files below `--private` beside writing and closing: maps, kills, full stores, other users.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_tests::program::{run, wait_until};
use forebay_tests::{Sandbox, require};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::bed::{Bed, DIR, arguments};
use crate::calls::Calls;
use crate::full::small_store_with;
use crate::private::{bed, prefix, replace_daemon};

const PATIENCE: Duration = Duration::from_secs(60);

/// A user that is nobody's.
const STRANGER: &str = "12345";

/// A map keeps the file on its node after its descriptor is closed, until it is gone.
#[test]
fn what_is_written_to_a_map_is_there_when_the_map_is_gone() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(2, &[]);
    let (mut one, mut two) = (Calls::new(&prefix(&bed, 0)), Calls::new(&prefix(&bed, 1)));
    let opened =
        "[f := os.open('a', os.O_CREAT | os.O_RDWR), os.truncate(f, 3 << 20), m := mmap.mmap(f, 3 << 20), os.close(f)]";
    assert!(one.says(opened).ends_with("None]"));
    assert_eq!(one.says("[m.write(b'first'), m.flush()]"), "[5, None]", "msync");
    assert_eq!(two.says("open('a', 'rb').read(5)"), "b'first'");
    assert_eq!(one.says("[m.seek(2 << 20), m.write(b'last')]"), "[None, 4]");
    assert_eq!(two.says("open('a', 'ab')"), "EBUSY");
    assert_eq!(one.says("m.close()"), "None");
    wait_until("the file is nobody's", PATIENCE, || two.says("os.close(os.open('a', os.O_RDWR))") == "None");
    assert_eq!(two.says("(b := open('a', 'rb').read())[2 << 20:][:5]"), "b'last\\x00'");
    assert_eq!(two.says("len(b)"), (3 << 20).to_string());
    // And the way back: what was changed elsewhere is not mapped as it was.
    assert_eq!(two.says("[f := os.open('a', os.O_RDWR), os.pwrite(f, b'FIRST', 0), os.close(f)][1:]"), "[5, None]");
    let mut mapped = String::new();
    wait_until("the file is nobody's, which its last close is not waited for", PATIENCE, || {
        mapped = one.says("(lambda file: mmap.mmap(file.fileno(), 5, prot=mmap.PROT_READ)[:])(open('a', 'rb'))");
        mapped != "ENODEV"
    });
    assert_eq!(mapped, "b'FIRST'");
    [one, two].into_iter().for_each(Calls::end);
    bed.drain();
    assert_eq!(Bed::listing(&prefix(&bed, 1)), Bed::listing(&bed.backing().join("p")));
    bed.job.down();
}

#[test]
fn what_a_killed_program_wrote_is_there() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(2, &[]);
    let mut two = Calls::new(&prefix(&bed, 1));
    for mapped in [false, true] {
        let mut one = Calls::new(&prefix(&bed, 0));
        let written = match mapped {
            true => {
                "[f := os.open('a', os.O_CREAT | os.O_RDWR), os.truncate(f, 5000000), m := mmap.mmap(f, 0), m.write(b'y' * 5000000)][3]"
            }
            false => "[f := os.open('a', os.O_CREAT | os.O_WRONLY), os.write(f, b'x' * 5000000)][1]",
        };
        assert_eq!(one.says(written), "5000000");
        one.kill();
        wait_until("the file is nobody's", PATIENCE, || two.says("os.close(os.open('a', os.O_RDWR))") == "None");
        let whole = format!("open('a', 'rb').read() == {} * 5000000", if mapped { "b'y'" } else { "b'x'" });
        assert_eq!(two.says(&whole), "True");
    }
    two.end();
    bed.drain();
    bed.job.down();
}

/// A program goes on while its node's daemon dies, again and again: each file that it has closed is whole.
#[test]
fn what_was_closed_is_whole_however_often_the_daemon_dies() {
    require!(Fuse, Root);
    for node in [0, 1] {
        let bed = bed(2, &[]);
        let script = "i=0; while [ ! -e stop ]; do seq $i $((i + 60000)) > f$i; i=$((i + 1)); done; echo $i > count";
        let mut writer = Command::new("sh")
            .args(["-euc", script])
            .current_dir(prefix(&bed, node))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        for death in 0..4 {
            let next = prefix(&bed, node).join(format!("f{}", death * 3 + 2));
            wait_until("it goes on", PATIENCE, || next.exists());
            replace_daemon(&bed, node);
        }
        fs::write(prefix(&bed, node).join("stop"), "").unwrap();
        let mut status = None;
        wait_until("the writer ends", PATIENCE, || {
            status = writer.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "it has seen nothing of it");
        bed.drain();
        let check =
            "i=0; while [ $i -lt $(cat count) ]; do seq $i $((i + 60000)) | cmp - f$i; i=$((i + 1)); done; echo $i";
        for directory in [prefix(&bed, 1 - node), bed.backing().join("p")] {
            let counted = said(&directory, check);
            assert!(counted.trim().parse::<u32>().unwrap() > 8, "{counted}");
        }
        bed.job.down();
    }
}

fn said(directory: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    run(command.args(["-euc", script]).current_dir(directory)).good().text()
}

/// The kernel waits for room for longer than a drain does.
#[test]
fn a_full_store_is_told_by_close_however_long_that_takes() {
    require!(Fuse, Root, Command("python3"));
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    mount("tmpfs", &backing, "tmpfs", MountFlags::empty(), Some(c"size=4m")).unwrap();
    let mut words = arguments(&sandbox, 1);
    words.iter_mut().filter(|word| *word == "1GiB").for_each(|capacity| "256MiB".clone_into(capacity));
    words.extend(["--private", &format!("{DIR}/p"), "--deadline", "6s"].map(str::to_owned));
    let bed = Bed::up_with(sandbox, &words);
    let mut program = Calls::new(&prefix(&bed, 0));
    assert_eq!(program.says("(f := os.open('x', os.O_CREAT | os.O_RDWR)) > 0"), "True");
    let filled = bed.shell("dd if=/dev/zero of=large bs=1M count=300");
    assert!(filled.stderr.contains("No space left on device"), "{}", filled.stderr);
    assert_eq!(program.says("os.write(f, bytes(1 << 20))"), "1048576");
    assert_eq!(bed.command(&["drain"]).status.code(), Some(3));
    wait_until("nobody flushes any more", PATIENCE, || !flushes(&prefix(&bed, 0)));
    assert_eq!(program.says("os.close(f)"), "ENOSPC");
    program.end();
    let _ = bed.shell("rm large").good();
    bed.drain();
    unmount(&backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

/// Whether a process has the kernel send what it has of a mount.
fn flushes(prefix: &Path) -> bool {
    let words = [b"walk\0", prefix.parent().unwrap().as_os_str().as_encoded_bytes()].concat();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands.into_iter().any(|command| command.windows(words.len()).any(|part| part == words))
}

/// With a policy that lands nothing by itself there is no room: `fsync` or `close` says so, and when there is room, all goes on.
#[test]
fn a_full_store_is_told_by_fsync_and_close() {
    require!(Fuse, Root, Command("python3"));
    let bed = small_store_with("256MiB", 1, &["--private", &format!("{DIR}/p"), "--drain", "manual"]);
    let mut program = Calls::new(&prefix(&bed, 0));
    assert_eq!(program.says("open('kept', 'w').write('kept')"), "4");
    assert_eq!(program.says("(f := os.open('large', os.O_CREAT | os.O_RDWR)) > 0"), "True");
    // As much as fits in the kernel is taken without complaint.
    let written = program.says("sum(os.write(f, bytes(1 << 20)) for _ in range(300))");
    assert!(written == "ENOSPC" || written == (300 << 20).to_string(), "{written}");
    assert_eq!(program.says("os.fsync(f)"), "ENOSPC");
    assert_eq!(program.says("[os.close(f), os.unlink('large')]"), "[None, None]");
    // The room of what was removed is there soon; until then it is `close` that fails, which Python ignores here.
    let next = "[open('next', 'w').write('next'), open('next').read()]";
    wait_until("there is room again", PATIENCE, || program.says(next) == "[4, 'next']");
    // A drain has the kernel send what it has, and is told instead of the program.
    assert_eq!(program.says("(f := os.open('large', os.O_CREAT | os.O_RDWR)) > 0"), "True");
    let written = program.says("sum(os.write(f, bytes(1 << 20)) for _ in range(300))");
    assert!(written == "ENOSPC" || written == (300 << 20).to_string(), "{written}");
    let drained = bed.command(&["drain"]);
    assert!(drained.stderr.is_empty(), "{}", drained.stderr);
    let drained = bed.command(&["drain"]);
    assert!(
        drained.text().contains("node 0 wrote last cannot be committed: No space left on device"),
        "{}",
        drained.text()
    );
    assert_eq!(program.says("os.system('true')"), "0", "which closes a descriptor of the same file");
    assert_eq!(program.says("os.close(f)"), "ENOSPC");
    // A program that begins anew does not get the error.
    assert_eq!(program.says("(f := os.open('large', os.O_RDWR)) > 0"), "True");
    let written = program.says("sum(os.write(f, bytes(1 << 20)) for _ in range(300))");
    assert!(written == "ENOSPC" || written == (300 << 20).to_string(), "{written}");
    assert_eq!(program.says("os.fsync(f)"), "ENOSPC");
    assert_eq!(program.says("[os.ftruncate(f, 0), os.pwrite(f, b'anew', 0)]"), "[None, 4]");
    let drained = bed.command(&["drain"]);
    assert!(!drained.text().contains("No space left on device"), "{}", drained.text());
    assert_eq!(program.says("os.close(f)"), "None");
    assert_eq!(program.says("os.unlink('large')"), "None");
    assert_eq!(program.says("open('again', 'w').write('again')"), "5");
    program.end();
    bed.drain();
    for name in ["kept", "next", "again"] {
        assert_eq!(fs::read_to_string(bed.backing().join("p").join(name)).unwrap(), name);
    }
    bed.job.down();
}

/// The kernels' writes of what programs have open land in time, although nothing was to land before the end.
#[test]
fn open_files_land_before_the_time_is_over() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(2, &["--drain", "end", "--time-limit", "40s"]);
    let mut programs = [0, 1].map(|node| Calls::new(&prefix(&bed, node)));
    for (node, program) in programs.iter_mut().enumerate() {
        assert_eq!(program.says(&format!("os.write(os.open('f{node}', os.O_CREAT | os.O_WRONLY), b'so far')")), "6");
    }
    wait_until("all has landed", PATIENCE, || {
        let there = |node| fs::read(bed.backing().join("p").join(format!("f{node}")));
        [0, 1].into_iter().all(|node| there(node).is_ok_and(|bytes| bytes == b"so far"))
    });
    programs.into_iter().for_each(Calls::end);
    bed.job.down();
}

/// A job of root's that others may enter, whose `DIR` and `BACKING` programs of `run` find, with `p` below as a prefix.
fn for_all(nodes: u32) -> (Bed, String) {
    let sandbox = Sandbox::new();
    let base = sandbox.base();
    for dir in [&base, &base.join("backing"), &base.join("ckpt")] {
        fs::create_dir_all(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut words = arguments(&sandbox, nodes);
    let dir = base.join("ckpt").display().to_string();
    let at = words.iter().position(|word| word == "--burst").unwrap();
    words[at + 1] = format!("{dir}={}", base.join("backing").display());
    words.extend(["--allow-other", "--private", &format!("{dir}/p")].map(str::to_owned));
    (Bed::up_with(sandbox, &words), dir)
}

fn run_on(bed: &Bed, rank: &str, program: &[&str], script: &str) -> String {
    let words = [&["run", "--rank", rank, "--"], program, &["sh", "-uc", script]].concat();
    bed.command(&words).good().text()
}

/// A program of another user: it may do what modes allow it, what it makes is its own, and lands so.
#[test]
fn other_users_have_their_own_files_there() {
    require!(Fuse, Root, Command("setpriv"));
    let (bed, dir) = for_all(2);
    let stranger = ["setpriv", "--reuid", STRANGER, "--regid", STRANGER, "--clear-groups"];
    let made = run_on(
        &bed,
        "0",
        &[],
        &format!(
            "cd {dir}/p; mkdir -m 777 open; echo secret > secret; chmod 600 secret; echo x > shown; cp shown open/lent; chmod 6777 open/lent; ls"
        ),
    );
    assert_eq!(made, "open\nsecret\nshown\n");
    let script = format!(
        "cd {dir}/p/open; umask 027; echo mine > mine; echo more >> mine; echo y >> lent; stat -c '%u %g %a %s' mine lent; \
         cat ../shown; for write in ../secret ../shown ../new; do echo z 2> /dev/null >> $write || echo refused; done; \
         cat ../secret 2> /dev/null || echo hidden"
    );
    let wanted = "12345 12345 640 10\n0 0 777 4\nx\nrefused\nrefused\nrefused\nhidden\n";
    assert_eq!(run_on(&bed, "0", &stranger, &script), wanted);
    let seen = run_on(
        &bed,
        "1",
        &stranger,
        &format!("cd {dir}/p/open; cat mine; echo again >> mine; stat -c '%u %a %s' mine"),
    );
    assert_eq!(seen, "mine\nmore\n12345 640 16\n");
    bed.drain();
    let there = fs::metadata(bed.backing().join("p/open/mine")).unwrap();
    assert_eq!((there.uid(), there.gid(), there.mode() & 0o7777, there.len()), (12345, 12345, 0o640, 16));
    assert_eq!(fs::metadata(bed.backing().join("p/open/lent")).unwrap().mode() & 0o7777, 0o777);
    bed.job.down();
}

/// Under `run` the directory is another mount than what is around it: programs that move files copy them.
#[test]
fn renames_and_links_in_and_out_are_told_to_copy() {
    require!(Fuse, Root, Command("python3"));
    let (bed, dir) = for_all(1);
    let script = format!(
        "cd {dir}; echo in > p/a; echo out > b; \
         for call in 'rename(\"p/a\", \"a\")' 'rename(\"b\", \"p/b\")' 'link(\"p/a\", \"a\")' 'link(\"b\", \"p/b\")'; do \
         python3 -c \"import os; os.$call\" 2>&1 | grep -o 'Errno [0-9]*'; done; mv p/a a; mv b p/b; cat a p/b; ls . p; ls -d p/a b 2> /dev/null"
    );
    // 18 is EXDEV.
    let moved = "Errno 18\nErrno 18\nErrno 18\nErrno 18\nin\nout\n.:\na\np\n\np:\nb\n";
    let words = ["run", "--", "sh", "-c", &script];
    let said = bed.command(&words);
    assert_eq!(said.text(), moved, "{}", said.stderr);
    bed.drain();
    let there = |name: &str| fs::read_to_string(bed.backing().join(name)).unwrap();
    assert_eq!((there("a"), there("p/b")), ("in\n".to_owned(), "out\n".to_owned()));
    assert!(["b", "p/a"].iter().all(|name| !bed.backing().join(OsStr::new(name)).exists()));
    bed.job.down();
}

/// Data in open files that kernels have gathered land with `down`.
#[test]
fn the_end_of_the_job_lands_what_the_kernels_have() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(2, &["--drain", "end"]);
    let mut programs = [0, 1].map(|node| Calls::new(&prefix(&bed, node)));
    for (node, program) in programs.iter_mut().enumerate() {
        assert_eq!(program.says(&format!("os.write(os.open('f{node}', os.O_CREAT | os.O_WRONLY), b'so far')")), "6");
    }
    let down = bed.command(&["down"]);
    assert!(down.status.success(), "{}", down.stderr);
    for node in [0, 1] {
        assert_eq!(fs::read(bed.backing().join(format!("p/f{node}"))).unwrap(), b"so far");
    }
    programs.into_iter().for_each(Calls::kill);
    bed.job.forget();
}

/// Locks are the job's; what is written under one is seen when it is synced.
#[test]
fn locks_are_kept_over_nodes_and_make_nothing_visible() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(2, &[]);
    let (mut one, mut two) = (Calls::new(&prefix(&bed, 0)), Calls::new(&prefix(&bed, 1)));
    assert_eq!(one.says("(f := os.open('a', os.O_CREAT | os.O_RDWR)) > 0"), "True");
    assert_eq!(two.says("(f := os.open('a', os.O_RDONLY)) > 0"), "True");
    let shared = "fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB)";
    assert_eq!(one.says("[fcntl.flock(f, fcntl.LOCK_EX), fcntl.lockf(f, fcntl.LOCK_EX)]"), "[None, None]");
    assert_eq!(two.says("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), "EAGAIN");
    assert_eq!(two.says(shared), "EAGAIN");
    let unlocked = "[os.write(f, b'under it'), fcntl.flock(f, fcntl.LOCK_UN), fcntl.lockf(f, fcntl.LOCK_UN)]";
    assert_eq!(one.says(unlocked), "[8, None, None]");
    assert_eq!(two.says("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), "None");
    assert_eq!(two.says(&format!("[{shared}, os.pread(f, 99, 0)]")), "[None, b'']");
    assert_eq!(one.says("os.fsync(f)"), "None");
    assert_eq!(two.says("os.pread(f, 99, 0)"), "b'under it'");
    [one, two].into_iter().for_each(Calls::end);
    bed.job.down();
}

/// A file without a name is the node's that makes it, until it is closed. A lock of an open ends with it.
#[test]
fn a_file_without_a_name_gets_one_and_is_locked_by_an_open() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(2, &[]);
    let (mut one, mut two) = (Calls::new(&prefix(&bed, 0)), Calls::new(&prefix(&bed, 1)));
    assert_eq!(one.says("(f := os.open('.', os.O_TMPFILE | os.O_RDWR)) > 0"), "True");
    assert_eq!(one.says("[os.write(f, b'gathered'), os.fstat(f).st_nlink, os.listdir('.')]"), "[8, 0, []]");
    let lock = "fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)) and 'locked'";
    assert_eq!(one.says(lock), "locked");
    assert_eq!(one.says("os.link(f'/proc/self/fd/{f}', 'a', src_dir_fd=0, follow_symlinks=True)"), "None");
    assert_eq!(two.says("open('a', 'ab')"), "EBUSY");
    assert_eq!(two.says("(f := os.open('a', os.O_RDONLY)) > 0"), "True");
    let shared = lock.replace("F_WRLCK", "F_RDLCK");
    assert_eq!(two.says(&shared), "EAGAIN");
    replace_daemon(&bed, 0);
    assert_eq!(one.says("os.close(f)"), "None");
    wait_until("it is free", PATIENCE, || two.says(&shared) == "locked");
    assert_eq!(two.says("open('a', 'rb').read()"), "b'gathered'");
    [one, two].into_iter().for_each(Calls::end);
    bed.drain();
    assert_eq!(Bed::listing(&prefix(&bed, 1)), Bed::listing(&bed.backing().join("p")));
    bed.job.down();
}

/// `stage in` writes on the burst mount.
#[test]
fn nothing_is_staged_there() {
    require!(Fuse, Root);
    let bed = bed(1, &[]);
    let input = bed.job.sandbox.source().join("input");
    fs::write(&input, "input").unwrap();
    let staged = run(bed
        .job
        .sandbox
        .command()
        .args(["stage", "in", "--job", &bed.job.sandbox.name])
        .arg(&input)
        .arg(format!("{DIR}/p/input")));
    assert_eq!(staged.status.code(), Some(3), "{} {}", staged.text(), staged.stderr);
    assert!((staged.text() + &staged.stderr).contains("Read-only file system"), "{} {}", staged.text(), staged.stderr);
    assert!(!prefix(&bed, 0).join("input").exists());
    bed.job.down();
}
