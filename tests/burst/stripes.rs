//! Large files land by stripes: nodes that have written a file write it to the backing file system, each a part.

use std::fs;
use std::time::Duration;

use forebay_tests::job::send;
use forebay_tests::program::{Finished, wait_until};
use forebay_tests::require;
use rustix::process::Signal;

use crate::bed::Bed;

const PATIENCE: Duration = Duration::from_secs(120);

/// Blocks that four nodes write in turns, and how long they are: 24 stripes of 4 MiB.
const BLOCKS: u64 = 384;
const BLOCK_BYTES: usize = 256 << 10;
const STRIPES: u64 = 24;

/// Stripes of a node that are under way at once.
const UNDER_WAY: u64 = 2;

/// Has four nodes write one file in turns.
fn write(bed: &Bed) {
    let script = |node: u32| {
        format!(
            "import os\n\
             file = os.open('shared', os.O_RDWR | os.O_CREAT, 0o644)\n\
             for block in range({node}, {BLOCKS}, 4):\n    \
             os.pwrite(file, block.to_bytes(4, 'little') * ({BLOCK_BYTES} // 4), block * {BLOCK_BYTES})\n\
             os.close(file)"
        )
    };
    for node in 0..4 {
        let _ = bed.shell_on(node, &format!("python3 -c \"{}\"", script(node))).good();
    }
}

#[track_caller]
fn check(bed: &Bed) {
    let landed = fs::read(bed.backing().join("shared")).unwrap();
    assert_eq!(landed.len(), BLOCKS as usize * BLOCK_BYTES);
    for (block, bytes) in landed.chunks(BLOCK_BYTES).enumerate() {
        assert!(bytes.chunks(4).all(|word| word == (block as u32).to_le_bytes()), "block {block}");
    }
    let names: Vec<_> = fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["shared"], "no draft is left");
}

/// Stripes that each node has written; `None` of one without a daemon.
fn written(bed: &Bed) -> Vec<Option<u64>> {
    let status = bed.job.status();
    (0..4).map(|node| status["nodes"][node]["burst"]["stripes_written"].as_u64()).collect()
}

/// Begins to land the file, slowly, and returns when some of it has.
fn begin(bed: &Bed) -> Finished {
    let begun = bed.command(&["drain"]);
    wait_until("some stripes are written", PATIENCE, || written(bed).into_iter().flatten().sum::<u64>() >= 4);
    begun
}

fn slow() -> Bed {
    Bed::with(4, &["--drain", "end", "--drain-rate", "12MiB/s"])
}

fn die(bed: &Bed, node: usize) {
    let killed = bed.job.kill_daemon(node);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(node).is_some_and(|pid| pid != killed));
}

#[test]
fn each_node_writes_its_share() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::with(4, &["--drain", "end"]);
    write(&bed);
    bed.drain();
    check(&bed);
    assert_eq!(written(&bed), [Some(STRIPES / 4); 4]);
    assert_eq!(bed.landed("shared")["state"], "landed");
    // Later changes of the file are made in place.
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(bed.backing().join("shared")).unwrap());
    let before = inode();
    let _ = bed.shell_on(2, "printf x | dd of=shared bs=1 seek=1000 conv=notrunc status=none").good();
    bed.drain();
    assert_eq!((fs::read(bed.backing().join("shared")).unwrap()[1000], inode()), (b'x', before));
    bed.job.down();
}

#[test]
fn a_node_that_dies_keeps_no_file_from_landing() {
    require!(Fuse, Root, Command("python3"));
    let bed = slow();
    write(&bed);
    let _ = begin(&bed);
    assert_eq!(bed.landed("shared")["state"], "draining");
    die(&bed, 2);
    bed.drain();
    check(&bed);
    bed.job.down();
}

/// The leader's next daemon does not send verified stripes again.
#[test]
fn a_leader_that_dies_is_followed_by_one_that_goes_on() {
    require!(Fuse, Root, Command("python3"));
    let bed = slow();
    write(&bed);
    let _ = begin(&bed);
    die(&bed, 0);
    bed.drain();
    check(&bed);
    let others: u64 = written(&bed).into_iter().skip(1).map(|count| count.unwrap()).sum();
    let share = STRIPES / 4 * 3;
    assert!((share..=share + 3 * UNDER_WAY).contains(&others), "{others} stripes for {share}");
    bed.job.down();
}

/// It may do so when the file has its name: so the draft that it writes to is given up.
#[test]
fn a_file_that_a_node_may_still_write_does_not_appear() {
    require!(Fuse, Root, Command("python3"));
    let bed = slow();
    write(&bed);
    let _ = begin(&bed);
    let draft = || {
        let names = fs::read_dir(bed.backing()).unwrap().flatten();
        let mut drafts = names.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".forebay-draft-"));
        drafts.next().and_then(|entry| entry.metadata().ok()?.created().ok())
    };
    let first = draft().unwrap();
    // Its keeper would start another daemon, which says that it has written nothing.
    let pids = [parent(bed.job.daemon(2).unwrap()), bed.job.daemon(2).unwrap()];
    pids.iter().for_each(|pid| send(*pid, Signal::STOP));
    wait_until("the file has another draft", PATIENCE, || draft().is_some_and(|made| made != first));
    pids.iter().for_each(|pid| send(*pid, Signal::CONT));
    bed.drain();
    check(&bed);
    assert_ne!(fs::metadata(bed.backing().join("shared")).unwrap().created().unwrap(), first);
    bed.job.down();
}

fn parent(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}
