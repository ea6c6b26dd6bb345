//! Data and holes, as `SEEK_DATA` and `SEEK_HOLE` tell of them.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::fs::SeekFrom;

use crate::bed::Bed;
use crate::calls::Calls;

const PATIENCE: Duration = Duration::from_secs(60);

/// The unit of offsets at which data begin and end: every local file system has blocks that divide it.
const BLOCK: u64 = 64 << 10;

/// Where data begins and ends, in blocks. Bytes outside of data are zeros.
fn data_of(path: &Path) -> Vec<(u64, u64)> {
    let file = File::open(path).unwrap();
    let (mut at, mut runs) = (0, vec![]);
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap();
        assert!(start >= at && end > start, "{}: {start} to {end}, from {at} on", path.display());
        assert_zeros(&file, at, start);
        runs.push((start / BLOCK, end / BLOCK));
        at = end;
    }
    let end = file.metadata().unwrap().len();
    assert_zeros(&file, at, end);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(end)), Err(rustix::io::Errno::NXIO));
    runs
}

fn assert_zeros(file: &File, start: u64, end: u64) {
    let mut bytes = vec![0; (end - start) as usize];
    file.read_exact_at(&mut bytes, start).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0), "data in what is told to be a hole, {start} to {end}");
}

/// Writes blocks of a file, whose first byte is no zero.
fn write(path: &Path, blocks: &[u64]) {
    let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
    blocks.iter().for_each(|block| file.write_all_at(&[7; BLOCK as usize], block * BLOCK).unwrap());
}

fn grow(path: &Path, blocks: u64) {
    File::options().write(true).open(path).unwrap().set_len(blocks * BLOCK).unwrap();
}

/// On every node, in a log, in part in `BACKING`, and landed.
#[test]
fn holes_are_those_that_nobody_has_written_to() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "manual"]);
    let here = |node: u32, name: &str| bed.mount_of(node).join(name);
    let check = |name: &str, expected: &[(u64, u64)]| {
        for node in [1, 0] {
            assert_eq!(data_of(&here(node, name)), expected, "{name} on {node}");
        }
    };
    // One that was there before.
    let met = bed.backing().join("met");
    write(&met, &[2, 3, 9, 20]);
    grow(&met, 30);
    let found = [(2, 4), (9, 10), (20, 21)];
    assert_eq!(data_of(&met), found);
    check("met", &found);
    write(&here(1, "made"), &[1, 2, 5]);
    write(&here(0, "made"), &[3, 8]);
    grow(&here(0, "made"), 12);
    write(&here(1, "met"), &[4, 15, 20, 21]);
    write(&here(0, "empty"), &[]);
    write(&here(1, "full"), &[0, 1, 2]);
    let (made, changed) = ([(1, 4), (5, 6), (8, 9)], [(2, 5), (9, 10), (15, 16), (20, 22)]);
    for _ in 0..2 {
        check("made", &made);
        check("met", &changed);
        check("empty", &[]);
        check("full", &[(0, 3)]);
        bed.drain();
    }
    // Landed files are a base.
    write(&here(1, "made"), &[4, 11]);
    check("made", &[(1, 6), (8, 9), (11, 12)]);
    grow(&here(0, "made"), 2);
    grow(&here(0, "made"), 12);
    check("made", &[(1, 2)]);
    let copied =
        bed.shell_on(1, "cp --sparse=auto met copy && tar -Scf - met | tar -xOf - | cmp - copy && cmp met copy");
    let _ = copied.good();
    check("copy", &changed);
    bed.drain();
    // Where something landed before, it is zeros there.
    assert_eq!(data_of(&here(1, "made"))[0].0, 1);
    check("copy", &changed);
    bed.job.down();
}

/// Programs take a file without blocks for one hole: `tar -S` does not read it.
#[test]
fn writes_into_a_landed_hole_take_blocks() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let _ = bed.shell_on(1, "truncate -s 1M whole; truncate -s 1M part").good();
    bed.drain();
    let script = "head -c 65536 /dev/urandom > random
        dd if=random of=whole bs=64k seek=1 conv=notrunc status=none; printf x | dd of=part bs=1 seek=777777 conv=notrunc status=none
        for f in whole part; do tar -cSf t $f; tar -xSOf t | cmp - $f; done; stat -c %b whole part";
    for node in [1, 0] {
        let blocks: Vec<u64> =
            bed.shell_on(node, script).good().text().lines().map(|line| line.parse().unwrap()).collect();
        assert!(blocks[0] >= 128 && blocks[1] >= 1 && blocks.iter().all(|blocks| *blocks <= 2048), "{blocks:?}");
    }
    bed.drain();
    for name in ["whole", "part"] {
        let blocks = |path: std::path::PathBuf| fs::metadata(path).unwrap().blocks();
        assert_eq!(blocks(bed.mount().join(name)), blocks(bed.backing().join(name)), "{name}");
    }
    bed.job.down();
}

/// The kernel has not sent what is changed through a map.
#[test]
fn there_are_no_holes_while_a_file_may_be_mapped() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::new();
    let path = bed.mount().join("mapped");
    write(&path, &[]);
    grow(&path, 4);
    assert_eq!(data_of(&path), []);
    let mut mapping = Calls::new(&bed.mount());
    let opened = "globals().update(mmap=__import__('mmap'), f=open('mapped', 'r+b'))";
    assert_eq!(mapping.says(opened), "None");
    assert_eq!(mapping.says("globals().update(m=mmap.mmap(f.fileno(), 0)) or f.close()"), "None");
    assert_eq!(mapping.says("m.__setitem__(70000, 7)"), "None");
    assert_eq!(data_of(&path), [(0, 4)]);
    // The next daemon has not seen it opened.
    let killed = bed.job.kill_daemon(0);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| pid != killed));
    assert_eq!(data_of(&path), [(0, 4)]);
    let copied = bed.shell(
        "cp --sparse=auto mapped copy; cp mapped plain; cmp mapped copy; cmp mapped plain; tr -d '\\0' < copy | wc -c",
    );
    assert_eq!(copied.good().text(), "1\n");
    mapping.end();
    assert!(!data_of(&path).is_empty());
    bed.drain();
    assert_eq!(fs::read(bed.backing().join("mapped")).unwrap()[70_000], 7);
    bed.job.down();
}
