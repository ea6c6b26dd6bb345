//! Set-user-id files that several users write to (`--allow-other`): who runs such a file runs what its owner has let in, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::require;

use crate::bed::Bed;
use crate::calls::Calls;

const PATIENCE: Duration = Duration::from_secs(60);

/// A job of two nodes with a file of root's that everybody may write to, and which a stranger on the second node has open. Its mode lends
/// root's rights from then on.
fn bed_with_stranger() -> (Bed, Calls) {
    let bed = Bed::with(2, &["--allow-other"]);
    fs::set_permissions(bed.backing(), fs::Permissions::from_mode(0o755)).unwrap();
    let _ = bed.shell("echo trusted > tool; chmod 777 tool").good();
    let mut stranger = Calls::new(&bed.mount_of(1));
    assert_eq!(stranger.says("os.setgroups([]) or os.setresgid(12345, 12345, 12345)"), "None");
    assert_eq!(stranger.says("os.setresuid(12345, 12345, 12345)"), "None");
    assert_ne!(stranger.says("globals().update(tool=os.open('tool', os.O_RDWR))"), "EACCES");
    let _ = bed.shell("chmod 6777 tool").good();
    (bed, stranger)
}

fn mode(bed: &Bed) -> u32 {
    fs::metadata(bed.mount().join("tool")).unwrap().permissions().mode() & 0o7777
}

/// The mode with which it has landed, and that it has landed whole.
fn landed(bed: &Bed, contents: &str) -> u32 {
    bed.drain();
    let file = bed.backing().join("tool");
    assert_eq!(fs::read_to_string(&file).unwrap(), contents);
    fs::metadata(&file).unwrap().permissions().mode() & 0o7777
}

/// The daemon commits what nobody has closed, and is root.
#[test]
fn writes_of_a_stranger_end_lent_rights_whichever_node_commits_them() {
    require!(Fuse, Root, Command("python3"));
    let (bed, mut stranger) = bed_with_stranger();
    assert_eq!(stranger.says("os.pwrite(tool, b'foreign', 0)"), "7");
    assert_eq!((landed(&bed, "foreign\n"), mode(&bed)), (0o777, 0o777));
    stranger.end();
    bed.job.down();
}

/// Of several users who have written before one commit, one who may not keep the rights is enough.
#[test]
fn the_last_writer_gives_the_others_no_rights() {
    require!(Fuse, Root, Command("python3"));
    let (bed, mut stranger) = bed_with_stranger();
    assert_eq!(stranger.says("os.pwrite(tool, b'foreign', 0)"), "7");
    let _ = bed.shell_on(1, "printf T | dd of=tool conv=notrunc bs=1 status=none").good();
    assert_eq!((mode(&bed), landed(&bed, "Toreign\n")), (0o777, 0o777));
    stranger.end();
    bed.job.down();
}

/// Its log does not say who wrote.
#[test]
fn a_daemon_that_died_does_not_give_strangers_rights() {
    require!(Fuse, Root, Command("python3"));
    let (bed, mut stranger) = bed_with_stranger();
    assert_eq!(stranger.says("os.pwrite(tool, b'foreign', 0)"), "7");
    bed.job.kill_daemon(1);
    wait_until("there is another daemon", PATIENCE, || bed.job.daemon(1).is_some());
    assert_eq!((landed(&bed, "foreign\n"), mode(&bed)), (0o777, 0o777));
    stranger.end();
    bed.job.down();
}

/// As on a local file system.
#[test]
fn writes_of_root_end_no_lent_rights() {
    require!(Fuse, Root, Command("python3"));
    let (bed, stranger) = bed_with_stranger();
    let _ = bed.shell_on(1, "printf T | dd of=tool conv=notrunc bs=1 status=none").good();
    assert_eq!((mode(&bed), landed(&bed, "Trusted\n")), (0o6777, 0o6777));
    let _ = bed.shell_on(1, "echo more >> tool").good();
    assert_eq!((mode(&bed), landed(&bed, "Trusted\nmore\n")), (0o6777, 0o6777));
    stranger.end();
    bed.job.down();
}

/// It changes the file, though no byte of it.
#[test]
fn allocation_ends_lent_rights_and_changes_the_file() {
    require!(Fuse, Root, Command("python3"));
    let (bed, mut stranger) = bed_with_stranger();
    let _ = bed.shell("touch -d 2001-01-01 tool; sync tool").good();
    assert_eq!(stranger.says("os.posix_fallocate(tool, 0, 4)"), "None");
    assert_eq!(mode(&bed), 0o777);
    assert_eq!(bed.shell("find tool -newermt 2002-01-01").good().text(), "tool\n");
    assert_eq!(landed(&bed, "trusted\n"), 0o777);
    stranger.end();
    bed.job.down();
}
