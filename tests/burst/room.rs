//! Room, as `stat` and `fallocate` tell of it.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use forebay_tests::require;

use crate::bed::Bed;

/// Holes take no blocks: written, cut, committed and landed, on each node.
#[test]
fn blocks_are_those_of_what_is_written() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "manual"]);
    let script = "head -c 4096 /dev/urandom > cut; truncate -s 100M cut; : > empty; truncate -s 1M empty
        head -c 8192 /dev/urandom > gone; truncate -s 0 gone
        dd if=/dev/urandom of=far bs=4096 count=1 seek=2560 status=none
        head -c 1000000 /dev/urandom > plain; dd if=/dev/urandom of=plain bs=4096 count=2 conv=notrunc status=none
        head -c 5000 /dev/urandom > tail; truncate -s 100 tail";
    let _ = bed.shell_on(1, script).good();
    let blocks = |node| {
        let of = |name: &str| std::fs::metadata(bed.mount_of(node).join(name)).unwrap().blocks();
        ["cut", "empty", "gone", "far", "plain", "tail"].map(of)
    };
    let expected = [8, 0, 0, 8, 1960, 8];
    assert_eq!((blocks(1), blocks(0)), (expected, expected));
    bed.drain();
    assert_eq!((blocks(1), blocks(0)), (expected, expected));
    let _ =
        bed.shell_on(0, "dd if=/dev/urandom of=far bs=4096 count=1 seek=2 conv=notrunc status=none; sync far").good();
    assert!(blocks(1)[3] > 0);
    bed.drain();
    bed.job.down();
}

/// Room is not reserved, but what does not fit where files land is refused.
#[test]
fn more_than_there_is_room_for_cannot_be_allocated() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "manual"]);
    for node in [0, 1] {
        let too_much = "fallocate -l $(($(stat -f -c '%a * %S' .) + (1 << 30))) much";
        let refused = bed.shell_on(node, too_much);
        assert!(refused.stderr.contains("No space left on device"), "{refused:?}");
        assert_eq!(bed.shell_on(node, "fallocate -l 1M some; stat -c %s some; rm some").good().text(), "1048576\n");
        let kept = bed.shell_on(node, ": > kept; fallocate --keep-size -l 1M kept; stat -c %s kept; rm kept");
        assert_eq!(kept.good().text(), "0\n");
    }
    bed.drain();
    bed.job.down();
}

/// A size that the file system of `BACKING` does not take is refused, as there: before, nothing landed any more behind such a file.
#[test]
fn a_file_too_large_for_its_place_is_refused() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let try_all = |directory: &Path| {
        let file = File::create(directory.join("huge")).unwrap();
        [1_u64 << 41, 17 << 40, 1 << 62].map(|bytes| {
            let errno = |outcome: std::io::Result<()>| outcome.err().and_then(|error| error.raw_os_error());
            (errno(file.set_len(bytes)), errno(file.write_all_at(b"x", bytes)))
        })
    };
    let there = bed.backing().join("probe");
    std::fs::create_dir(&there).unwrap();
    let expected = try_all(&there);
    for node in [0, 1] {
        assert_eq!(try_all(&bed.mount_of(node)), expected, "on node {node}");
    }
    let _ = bed.shell_on(1, "echo small > after").good();
    bed.drain();
    let bytes = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert_eq!(bytes(&bed.backing().join("huge")), bytes(&there.join("huge")));
    bed.job.down();
}
