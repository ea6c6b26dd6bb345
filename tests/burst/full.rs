//! A backing file system without room: it is said, nothing is lost, and it lands when there is room.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_tests::program::{run, wait_until};
use forebay_tests::{Sandbox, require};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use crate::bed::Bed;
use crate::calls::Calls;

#[test]
fn files_that_do_not_fit_are_named_kept_and_land_with_the_next_job() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    mount("tmpfs", &backing, "tmpfs", MountFlags::empty(), Some(c"size=4m")).unwrap();
    let bed = Bed::up(sandbox, 1);
    let _ = bed.shell("dd if=/dev/urandom of=large bs=1M count=8 2>/dev/null; sha256sum large > sum").good();
    let drained = bed.command(&["drain", "--wait", "--timeout", "2s"]);
    assert_eq!(drained.status.code(), Some(3), "{}", drained.stderr);
    assert!(drained.text().contains("backing/large: No space left on device"), "{}", drained.text());
    assert_eq!(bed.landed("large")["state"], "committed");
    assert_eq!(bed.landed("large")["missing"][0][0], 0);
    assert_eq!(fs::read_dir(&backing).unwrap().count(), 0, "nothing of it is seen there");
    // The job ends, and says what it leaves.
    let down = bed.command(&["down", "--no-drain"]);
    assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
    let store = bed.job.sandbox.base().join("store/0");
    assert!(fs::read_dir(&store).unwrap().count() > 0, "the store keeps it");
    mount_remount(&backing, MountFlags::empty(), c"size=64m").unwrap();
    let Bed { job } = bed;
    let again =
        job.sandbox.up(&crate::bed::arguments(&job.sandbox, 1).iter().map(std::ffi::OsStr::new).collect::<Vec<_>>());
    assert!(again.status.success(), "{}", again.stderr);
    let bed = Bed { job };
    bed.drain();
    let check = run(Command::new("sha256sum").args(["-c", "sum"]).current_dir(&backing));
    assert!(check.status.success(), "{}", check.stderr);
    unmount(&backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

/// A large file lands by stripes, to a draft that stays between attempts: not one that can never be whole.
#[test]
fn a_large_file_that_does_not_fit_leaves_the_room_to_others() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    mount("tmpfs", &backing, "tmpfs", MountFlags::empty(), Some(c"size=40m")).unwrap();
    let bed = Bed::up(sandbox, 1);
    let _ = bed.shell("dd if=/dev/urandom of=large bs=1M count=64 2>/dev/null").good();
    let drained = bed.command(&["drain", "--wait", "--timeout", "5s"]);
    assert!(drained.text().contains("backing/large: No space left on device"), "{}", drained.text());
    let used = || rustix::fs::statvfs(&backing).map(|sizes| (sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize).unwrap();
    wait_until("the draft is given up", Duration::from_secs(60), || used() < 1 << 20);
    mount_remount(&backing, MountFlags::empty(), c"size=128m").unwrap();
    bed.drain();
    let [here, there] = [bed.mount(), backing.clone()].map(|directory| fs::read(directory.join("large")).unwrap());
    assert!(here == there, "what lands is what was written");
    unmount(&backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

/// A file that is sent again and again, and never fits, does not keep `drain --wait` for ever.
#[test]
fn a_drain_without_a_time_ends_where_nothing_can_land() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    mount("tmpfs", &backing, "tmpfs", MountFlags::empty(), Some(c"size=40m")).unwrap();
    let bed = Bed::up(sandbox, 1);
    let _ = bed.shell("dd if=/dev/urandom of=large bs=1M count=64 2>/dev/null").good();
    let drained = bed.command(&["drain", "--wait"]);
    assert_eq!(drained.status.code(), Some(3), "{}", drained.stderr);
    assert!(drained.text().contains("backing/large: No space left on device"), "{}", drained.text());
    let _ = bed.shell("rm large").good();
    bed.drain();
    unmount(&backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

/// Programs remove old checkpoints to make room: that must not wait behind the file which needs the room.
#[test]
fn files_that_programs_remove_make_room_for_what_lands() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    mount("tmpfs", &backing, "tmpfs", MountFlags::empty(), Some(c"size=40m")).unwrap();
    let bed = Bed::up(sandbox, 1);
    let write =
        |name: &str, mib: u32| bed.shell(&format!("dd if=/dev/urandom of={name} bs=1M count={mib} 2>/dev/null"));
    for name in ["old", "older", "kept"] {
        let _ = write(name, 10).good();
    }
    bed.drain();
    let kept = fs::read(backing.join("kept")).unwrap();
    let _ = write("new", 24).good();
    let drained = bed.command(&["drain", "--wait", "--timeout", "3s"]);
    assert!(drained.text().contains("backing/new: No space left on device"), "{}", drained.text());
    let written = fs::read(bed.mount().join("new")).unwrap();
    let _ = bed.shell("rm old older").good();
    bed.drain();
    let mut names: Vec<_> = fs::read_dir(&backing).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["kept", "new"]);
    assert!(fs::read(backing.join("new")).unwrap() == written && fs::read(backing.join("kept")).unwrap() == kept);
    unmount(&backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

/// Ten times what the store holds is written, on the node that leads the tree and on another; then a daemon dies, which has only what
/// is left to read.
#[test]
fn a_store_is_used_again_and_again() {
    require!(Fuse, Root);
    let bed = small_store("512MiB", 2);
    for node in [0, 1] {
        let script = "i=0; while [ $i -lt 40 ]; do dd if=/dev/zero of=file bs=1M count=50 conv=fsync 2>/dev/null; \
                      echo $i > small$i; echo $i >> log; i=$((i + 1)); done; stat -c %s file; wc -l < log; rm log";
        assert_eq!(bed.shell_on(node, script).good().text(), "52428800\n40\n");
    }
    bed.drain();
    for node in [0, 1] {
        let store = bed.job.sandbox.base().join(format!("store/{node}"));
        let names = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name());
        let segments = names.filter(|name| name.as_encoded_bytes().starts_with(b"segment-")).count();
        assert!(segments <= 8, "store {node} has {segments} segments of 64 MiB");
        let _ = bed.shell_on(node, &format!("echo kept > open{node}; exec 7>> open{node}; echo more >&7")).good();
        bed.job.kill_daemon(node as usize);
        let patience = Duration::from_secs(30);
        wait_until("a daemon serves again", patience, || bed.job.daemon(node as usize).is_some());
        assert_eq!(bed.shell(&format!("cat open{node} small7")).good().text(), "kept\nmore\n7\n");
    }
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount_of(1)), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// Files that are closed make room for the next ones.
#[test]
fn writers_wait_for_what_lands() {
    require!(Fuse, Root);
    let bed = small_store("512MiB", 1);
    // Faster than they land.
    let _ = bed.shell("for i in 1 2 3 4 5 6; do dd if=/dev/zero of=f$i bs=1M count=200 2>/dev/null; done").good();
    bed.drain();
    assert_eq!(bed.shell("cat f? | wc -c").good().text(), "1258291200\n");
    bed.job.down();
}

/// One open file, larger than the store, on the node that leads the tree and on another; its name and its directory change meanwhile,
/// a daemon dies, and nothing of it is seen where it lands before it is closed.
#[test]
fn an_open_file_may_be_larger_than_the_store() {
    require!(Fuse, Root);
    let bed = small_store("256MiB", 2);
    let pattern = bed.job.sandbox.base().join("pattern");
    let pattern = pattern.to_str().unwrap();
    let _ = bed.shell(&format!("seq 100000000 199999999 | head -c 600M > {pattern}")).good();
    let has_draft = |directory: &Path| {
        fs::read_dir(directory).is_ok_and(|mut entries| {
            entries.any(|entry| entry.unwrap().file_name().as_encoded_bytes().starts_with(b".forebay-draft-"))
        })
    };
    let patience = Duration::from_secs(120);
    for (node, other) in [(0, 1), (1, 0)] {
        let renamed = format!("to/renamed{node}");
        let _ = bed.shell_on(node, "rm -f written; mkdir -p from to").good();
        let script = format!("exec 7> from/large; dd if={pattern} bs=1M status=none >&7; : > written; read go || true");
        let mut writer = Command::new("sh")
            .args(["-euc", &script])
            .current_dir(bed.mount_of(node))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("a part is sent ahead", patience, || has_draft(&bed.backing().join("from")));
        let _ = bed.shell_on(other, &format!("mv from/large {renamed}; rmdir from")).good();
        wait_until("the directory is gone", patience, || !bed.backing().join("from").exists());
        assert!(has_draft(&bed.backing()), "the draft is kept");
        bed.job.kill_daemon(node as usize);
        wait_until("it is written", patience, || bed.mount_of(node).join("written").exists());
        assert!(!bed.backing().join(&renamed).exists(), "it is open");
        let _ = bed.shell_on(other, &format!("cmp {pattern} {renamed}")).good();
        drop(writer.stdin.take());
        assert!(writer.wait().unwrap().success());
        bed.drain();
        assert!(!has_draft(&bed.backing()), "the draft is gone");
        // In place, and what is removed meanwhile.
        let script = format!(
            "exec 7<> {renamed}; dd if={pattern} bs=1M count=300 skip=100 status=none >&7; \
             exec 8<> gone; rm gone; dd if={pattern} bs=1M count=300 status=none >&8; \
             cmp -n 314572800 {pattern} /proc/self/fd/8; cmp -n 314572800 -i 104857600:0 {pattern} /proc/self/fd/7; \
             cmp -i 314572800 {pattern} {renamed}"
        );
        let _ = bed.shell_on(node, &script).good();
        wait_until("the draft of what is gone goes too", patience, || !has_draft(&bed.backing()));
        bed.drain();
        assert_eq!(Bed::listing(&bed.mount_of(other)), Bed::listing(&bed.backing()));
    }
    bed.job.down();
}

/// Files that the policy keeps in the store stay there until a drain is asked for, and writes to a full store fail immediately.
#[test]
fn a_policy_keeps_what_is_written_until_somebody_drains() {
    require!(Fuse, Root);
    for policy in ["end", "manual"] {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.base().join("backing")).unwrap();
        let mut words = crate::bed::arguments(&sandbox, 1);
        let at = words.iter().position(|word| word == "--burst-capacity").unwrap();
        words[at + 1] = "256MiB".to_owned();
        words.extend(["--drain", policy].map(str::to_owned));
        let bed = Bed::up_with(sandbox, &words);
        let refused = bed.shell("echo first > first; dd if=/dev/zero of=large bs=1M count=300");
        assert!(refused.stderr.contains("No space left on device"), "{}", refused.stderr);
        assert_eq!(bed.landed("first")["state"], "committed");
        let _ = bed.shell("rm large").good();
        assert_eq!(fs::read_dir(bed.backing()).unwrap().count(), 0);
        bed.drain();
        assert_eq!(fs::read(bed.backing().join("first")).unwrap(), b"first\n");
        let _ = bed.shell("echo second > second").good();
        let down = bed.command(&["down"]);
        let kept = policy == "manual";
        assert_eq!(down.status.code(), Some(if kept { 3 } else { 0 }), "{}", down.stderr);
        assert_eq!(down.stderr.contains("because the job has --drain manual"), kept, "{}", down.stderr);
        assert_eq!(bed.backing().join("second").exists(), !kept);
        bed.job.forget();
    }
}

/// A job of so many nodes whose stores have `capacity`.
fn small_store(capacity: &str, nodes: u32) -> Bed {
    small_store_with(capacity, nodes, &[])
}

/// The same with more arguments.
pub fn small_store_with(capacity: &str, nodes: u32, more: &[&str]) -> Bed {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let mut words = crate::bed::arguments(&sandbox, nodes);
    let at = words.iter().position(|word| word == "--burst-capacity").unwrap();
    words[at + 1] = capacity.to_owned();
    words.extend(["--deadline", "120s"].iter().chain(more).map(|word| (*word).to_owned()));
    Bed::up_with(sandbox, &words)
}

/// Parts of open files that programs leave unchanged are sent before the close, into drafts; with `--drain close` they are not.
#[test]
fn old_bytes_are_sent_before_their_file_is_closed() {
    require!(Fuse, Root);
    let drafts = |bed: &Bed| -> Vec<u64> {
        let entries = fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap());
        let mut drafts: Vec<u64> = entries
            .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".forebay-draft-"))
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .collect();
        drafts.sort_unstable();
        drafts
    };
    let writer = |bed: &Bed, node: u32, script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(bed.mount_of(node)).stdin(Stdio::piped()).spawn().unwrap()
    };
    let (bed, close) = (Bed::of(2), Bed::with(1, &["--drain", "close"]));
    fs::write(bed.backing().join("there"), "there").unwrap();
    // Committed by fsync, by nobody, and of a file that others see.
    let scripts = [
        (0, "head -c 1000000 /dev/urandom > copy0; exec 7> f0; cat copy0 >&7; sync f0; read go || true; echo more >&7"),
        (1, "head -c 2000000 /dev/urandom > copy1; exec 7> f1; cat copy1 >&7; read go || true; echo more >&7"),
        (1, "exec 7>> there; echo changed >&7; sync there; read go || true"),
    ];
    let mut writers: Vec<_> = scripts.iter().map(|(node, script)| writer(&bed, *node, script)).collect();
    let mut other = writer(&close, 0, "exec 7> f; echo written >&7; sync f; read go || true");
    let are_there = || ["f0", "f1"].iter().all(|name| bed.mount().join(name).exists());
    wait_until("both are there", Duration::from_secs(60), are_there);
    let sent = |name: &str| bed.landed(name)["landed_bytes"].as_u64();
    wait_until("both are sent", Duration::from_secs(180), || {
        sent("f0") == Some(1_000_000) && sent("f1") == Some(2_000_000)
    });
    assert_eq!(drafts(&bed), [1_000_000, 2_000_000]);
    assert!(!bed.backing().join("f0").exists() && !bed.backing().join("f1").exists(), "they are open");
    assert_eq!(bed.landed("f1")["state"], "dirty");
    assert_eq!(fs::read(bed.backing().join("there")).unwrap(), b"there", "others see it");
    assert!(drafts(&close).is_empty(), "--drain close");
    // Files that are only there are read there.
    let _ = bed.shell_on(0, "cmp f0 copy0; cmp f1 copy1; cp f1 copied").good();
    for writer in &mut writers {
        drop(writer.stdin.take());
        assert!(writer.wait().unwrap().success());
    }
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    bed.drain();
    assert!(drafts(&bed).is_empty());
    assert_eq!(Bed::listing(&bed.mount_of(1)), Bed::listing(&bed.backing()));
    assert_eq!(fs::metadata(bed.backing().join("f1")).unwrap().len(), 2_000_005);
    bed.job.down();
    close.job.down();
}

/// A file that has landed, is open and has no name any more: what is sent ahead of it is what is read, and others' files stay as they are.
#[test]
fn an_open_file_without_a_name_may_be_larger_than_the_store() {
    require!(Fuse, Root, Command("python3"));
    let bed = small_store_with("256MiB", 2, &[]);
    let theirs = bed.backing().join("changed");
    // On the node that leads the tree.
    let mut program = Calls::new(&bed.mount_of(0));
    for name in ["plain", "changed"] {
        assert_eq!(program.says(&format!("open('{name}', 'wb').write(b'old' * 1000000)")), "3000000");
    }
    bed.drain();
    assert_eq!(program.says("len(files := [os.open(name, os.O_RDWR) for name in ('plain', 'changed')])"), "2");
    fs::write(&theirs, "theirs").unwrap();
    assert_eq!(program.says("[os.unlink(name) for name in ('plain', 'changed')]"), "[None, None]");
    bed.drain();
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    assert_eq!(program.says("os.pwrite(files[1], b'new', 4 << 20)"), "3");
    let write = "sum(os.pwrite(files[0], bytes([at % 251]) * (1 << 20), at << 20) for at in range(400))";
    assert_eq!(program.says(write), (400 << 20).to_string());
    let read = "all(os.pread(files[0], 1 << 20, at << 20) == bytes([at % 251]) * (1 << 20) for at in range(400))";
    assert_eq!(program.says(read), "True");
    assert_eq!(program.says("os.pread(files[1], 9, 4 << 20)"), "b'new'");
    assert_eq!(program.says("[os.close(f) for f in files]"), "[None, None]");
    program.end();
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), "", "nothing has a name");
    let left: Vec<_> = fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((left, fs::read_to_string(&theirs).unwrap()), (vec!["changed".into()], "theirs".to_owned()));
    bed.job.down();
}
