//! Modes and owners of files that others change in `BACKING`, or that others own, and what lands beside them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_tests::job::{NOBODY, as_nobody};
use forebay_tests::program::run;
use forebay_tests::{Sandbox, require};

use crate::bed::Bed;
use crate::calls::Calls;
use crate::conflicts::{drain, second, there};

const PATIENCE: Duration = Duration::from_secs(60);

/// Permission bits and owner.
fn rights(path: &Path) -> (u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.mode() & 0o7777, found.uid())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn rights_that_others_give_stay_theirs() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let file = bed.backing().join("file");
    fs::write(&file, "base\n").unwrap();
    fs::create_dir(bed.backing().join("d")).unwrap();
    let _ = bed.shell("echo own > own; echo ours >> file; touch d/in").good();
    set_mode(&file, 0o600);
    chown(&file, Some(12345), None).unwrap();
    set_mode(&bed.backing().join("d"), 0o711);
    bed.drain();
    assert_eq!((there(&bed, "file").as_deref(), rights(&file)), (Some("base\nours\n"), (0o600, 12345)));
    // Files that the job has made, or has set the mode of, are the job's until they have landed once.
    let own = bed.backing().join("own");
    assert_eq!(rights(&own), (0o644, 0));
    set_mode(&own, 0o640);
    let _ = bed.shell("echo more >> own; touch -d 2001-01-01 d; chmod 604 file").good();
    bed.drain();
    assert_eq!((rights(&own), rights(&file)), ((0o640, 0), (0o604, 0)));
    assert_eq!(rights(&bed.backing().join("d")), (0o711, 0));
    assert_eq!(fs::metadata(bed.backing().join("d")).unwrap().mtime(), 978_307_200);
    set_mode(&file, 0o444);
    let _ = bed.shell("echo last >> file").good();
    bed.drain();
    assert_eq!((there(&bed, "file").as_deref(), rights(&file)), (Some("base\nours\nlast\n"), (0o444, 0)));
    bed.job.down();
}

#[test]
fn a_copy_beside_gives_no_more_rights_than_theirs() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let (met, own) = (bed.backing().join("met"), bed.backing().join("own"));
    for file in [&met, &own] {
        fs::write(file, "base\n").unwrap();
    }
    let _ = bed.shell("echo ours >> met; chmod 666 own; echo ours >> own").good();
    for file in [&met, &own] {
        fs::write(file, "secret\n").unwrap();
        chown(file, Some(12345), Some(54321)).unwrap();
        set_mode(file, 0o4640);
    }
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    let copy = |name| bed.backing().join(second(&bed, name));
    assert_eq!((rights(&copy("met")), fs::metadata(copy("met")).unwrap().gid()), ((0o640, 12345), 54321));
    // It belongs to root's group, whose members are all others to theirs.
    assert_eq!(rights(&copy("own")), (0o600, 0));
    assert_eq!(rights(&met), (0o4640, 12345), "theirs stays as it is");
    let _ = bed.shell("rm met own").good();
    bed.job.down();
}

/// At no moment does a file that is run with its owner's rights have bytes that somebody else has written.
#[test]
fn a_file_lends_no_rights_before_other_bytes_come_into_it() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::with(1, &["--allow-other", "--drain", "end"]);
    set_mode(&bed.backing(), 0o755);
    let tool = bed.backing().join("tool");
    fs::write(&tool, "trusted\n").unwrap();
    set_mode(&tool, 0o4777);
    let mut stranger = Calls::new(&bed.mount());
    assert_eq!(stranger.says("os.setgroups([]) or os.setresgid(12345, 12345, 12345)"), "None");
    assert_eq!(stranger.says("os.setresuid(12345, 12345, 12345)"), "None");
    assert_eq!(stranger.says("globals().update(tool=os.open('tool', os.O_RDWR))"), "None");
    assert_eq!(stranger.says("os.pwrite(tool, b'f' * (64 << 20), 0)"), (64 << 20).to_string());
    assert_eq!(stranger.says("os.close(tool)"), "None");
    assert_eq!(bed.command(&["drain"]).status.code(), Some(3), "it is under way");
    let since = Instant::now();
    while bed.landed("tool")["state"] != "landed" {
        assert!(since.elapsed() < PATIENCE);
        for _ in 0..100 {
            let is_foreign = fs::metadata(&tool).unwrap().len() > 8;
            assert!(!is_foreign || rights(&tool).0 & 0o4000 == 0, "it lends root's rights");
        }
    }
    assert_eq!(rights(&tool), (0o777, 0));
    stranger.end();
    bed.job.down();
}

#[test]
fn attributes_of_the_directory_itself_land() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed.shell("echo a > a; echo b > b; chmod 2751 .; chown 12345:54321 .; touch -d 2001-01-01 .").good();
    bed.drain();
    let found = fs::metadata(bed.backing()).unwrap();
    assert_eq!((rights(&bed.backing()), found.gid(), found.mtime()), ((0o2751, 12345), 54321, 978_307_200));
    assert_eq!((there(&bed, "a").as_deref(), there(&bed, "b").as_deref()), (Some("a\n"), Some("b\n")));
    bed.job.down();
}

/// Without root, the times of another user's file can be set by nobody but that one.
#[test]
fn writes_to_a_file_of_another_user_land() {
    require!(Fuse, Root, Command("setpriv"));
    let sandbox = Sandbox::of_nobody();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    chown(&backing, Some(NOBODY), Some(NOBODY)).unwrap();
    let (theirs, read_only) = (backing.join("theirs"), backing.join("read-only"));
    for file in [&theirs, &read_only] {
        fs::write(file, "base\n").unwrap();
    }
    set_mode(&theirs, 0o666);
    chown(&read_only, Some(NOBODY), Some(NOBODY)).unwrap();
    let bed = Bed::up(sandbox, 1);
    let script =
        "cd \"$0\" && echo ours >> theirs && echo ours >> read-only && chmod 444 read-only && echo behind > behind";
    let _ = run(as_nobody("sh".as_ref()).args(["-c", script]).arg(bed.mount())).good();
    let said = drain(&bed);
    assert!(said.status.success(), "{} {}", said.text(), said.stderr);
    for (name, text, found) in [("theirs", "base\nours\n", (0o666, 0)), ("read-only", "base\nours\n", (0o444, NOBODY))]
    {
        assert_eq!((there(&bed, name).as_deref(), rights(&bed.backing().join(name))), (Some(text), found), "{name}");
    }
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"));
    bed.job.down();
}
