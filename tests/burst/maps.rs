//! Stores of programs through maps, which the kernel gathers: others see them, they land, and errors are told.

use std::fs;
use std::path::Path;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::{Sandbox, require};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::bed::{Bed, arguments};
use crate::calls::Calls;
use crate::full::small_store_with;

const PATIENCE: Duration = Duration::from_secs(60);

/// An expression of Python that makes a file of so many bytes and maps it, as `f` and `m`.
fn mapped(name: &str, bytes: usize) -> String {
    format!(
        "[f := os.open('{name}', os.O_CREAT | os.O_RDWR), os.ftruncate(f, {bytes}), m := mmap.mmap(f, {bytes})] != []"
    )
}

#[test]
fn stores_are_seen_when_they_are_synced_or_the_map_is_gone_or_its_program_is_killed() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    let (mut one, mut two) = (Calls::new(&bed.mount_of(0)), Calls::new(&bed.mount_of(1)));
    assert_eq!(one.says(&mapped("a", 3 << 20)), "True");
    assert_eq!(one.says("[os.close(f), m.write(b'first'), m.flush()]"), "[None, 5, None]", "msync");
    assert_eq!(two.says("open('a', 'rb').read(5)"), "b'first'");
    assert_eq!(one.says("[m.seek(2 << 20), m.write(b'last'), m.close()]"), "[None, 4, None]");
    let last = "open('a', 'rb').read()[2 << 20:][:5]";
    wait_until("the map is gone", PATIENCE, || two.says(last) == "b'last\\x00'");
    assert_eq!(two.says("os.path.getsize('a')"), (3 << 20).to_string());

    let mut killed = Calls::new(&bed.mount_of(0));
    assert_eq!(killed.says(&mapped("b", 5_000_000)), "True");
    assert_eq!(killed.says("m.write(b'y' * 5000000)"), "5000000");
    killed.kill();
    wait_until("its stores are there", PATIENCE, || two.says("open('b', 'rb').read() == b'y' * 5000000") == "True");
    [one, two].into_iter().for_each(Calls::end);
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount_of(1)), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// Stores of both nodes that no program has synced land at a drain, and before the time is over.
#[test]
fn stores_land_at_a_drain_and_before_the_time_is_over() {
    require!(Fuse, Root, Command("python3"));
    for limit in [&["--drain", "manual"][..], &["--drain", "end", "--time-limit", "40s"]] {
        let bed = Bed::with(2, limit);
        let mut programs = [0, 1].map(|node| Calls::new(&bed.mount_of(node)));
        for (node, program) in programs.iter_mut().enumerate() {
            assert_eq!(program.says(&mapped(&format!("f{node}"), 6)), "True");
            assert_eq!(program.says("m.write(b'so far')"), "6");
        }
        if limit.len() == 2 {
            bed.drain();
        }
        wait_until("all has landed", PATIENCE, || {
            let there = |node| fs::read(bed.backing().join(format!("f{node}")));
            [0, 1].into_iter().all(|node| there(node).is_ok_and(|bytes| bytes == b"so far"))
        });
        programs.into_iter().for_each(Calls::end);
        bed.job.down();
    }
}

/// With a policy that lands nothing by itself there is no room: `msync` says so, or `close` if a drain has been told before.
#[test]
fn a_full_store_is_told_by_msync_and_close() {
    require!(Fuse, Root, Command("python3"));
    let bed = small_store_with("256MiB", 1, &["--drain", "manual"]);
    let mut program = Calls::new(&bed.mount());
    let (large, store) = (mapped("large", 300 << 20), "m.write(bytes(300 << 20)) and 'stored'");
    assert_eq!(program.says(&large), "True");
    assert_eq!(program.says(store), "stored");
    assert_eq!(program.says("m.flush()"), "ENOSPC");
    assert_eq!(program.says("[m.close(), os.close(f), os.unlink('large')]"), "[None, None, None]");
    let next = "[open('next', 'w').write('next'), open('next').read()]";
    wait_until("there is room again", PATIENCE, || program.says(next) == "[4, 'next']");
    assert_eq!(program.says(&large), "True");
    assert_eq!(program.says(store), "stored");
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
    assert_eq!(program.says("[m.close(), os.unlink('large')]"), "[None, None]");
    wait_until("there is room again", PATIENCE, || program.says(next) == "[4, 'next']");
    program.end();
    bed.drain();
    assert_eq!(fs::read_to_string(bed.backing().join("next")).unwrap(), "next");
    bed.job.down();
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
    words.extend(["--deadline", "6s"].map(str::to_owned));
    let bed = Bed::up_with(sandbox, &words);
    let mut program = Calls::new(&bed.mount());
    assert_eq!(program.says(&mapped("x", 1 << 20)), "True");
    let filled = bed.shell("dd if=/dev/zero of=large bs=1M count=300");
    assert!(filled.stderr.contains("No space left on device"), "{}", filled.stderr);
    assert_eq!(program.says("m.write(bytes(1 << 20))"), "1048576");
    assert_eq!(bed.command(&["drain"]).status.code(), Some(3));
    wait_until("nobody flushes any more", PATIENCE, || !flushes(&bed.mount()));
    assert_eq!(program.says("os.close(f)"), "ENOSPC");
    program.end();
    let _ = bed.shell("rm large").good();
    bed.drain();
    unmount(&backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

/// Whether a process has the kernel send what it has of a mount.
fn flushes(mount: &Path) -> bool {
    let words = [b"walk\0", mount.as_os_str().as_encoded_bytes()].concat();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands.into_iter().any(|command| command.windows(words.len()).any(|part| part == words))
}
