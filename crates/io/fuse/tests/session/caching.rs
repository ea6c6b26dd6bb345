//! The kernel does the work: what it was told once it never asks again.

use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};

use forebay_fuse::{MountOptions, ROOT_NODE, SessionOptions};

use crate::fixture::{Mounted, eventually};
use crate::tree::Tree;

fn sample() -> Tree {
    let tree = Tree::new();
    let dir = tree.directory(ROOT_NODE, "dir");
    tree.file(dir, "file", 0o644, vec![7; 300_000]);
    tree.file(dir, "empty", 0o644, "");
    tree.symlink(ROOT_NODE, "link", "dir/file");
    for index in 0..500 {
        tree.file(dir, &format!("entry-with-a-long-name-{index:05}"), 0o644, "x");
    }
    tree
}

/// Everything that a program may do without changing anything.
fn visit(mounted: &Mounted) {
    assert_eq!(fs::read(mounted.path("dir/file")).unwrap(), vec![7; 300_000]);
    assert_eq!(fs::read(mounted.path("dir/empty")).unwrap(), b"");
    assert_eq!(fs::read_link(mounted.path("link")).unwrap().to_str(), Some("dir/file"));
    assert_eq!(fs::metadata(mounted.path("link")).unwrap().len(), 300_000);
    for absent in ["absent", "dir/absent"] {
        assert_eq!(fs::metadata(mounted.path(absent)).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
    let mut names: Vec<_> = fs::read_dir(mounted.path("dir")).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(names.len(), 502);
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        assert_eq!(entry.metadata().unwrap().ino(), entry.ino());
    }
}

#[test]
fn a_second_pass_sends_no_message() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = Mounted::new(sample()) else { return };
    visit(&mounted);
    let first = mounted.messages();
    assert!(mounted.count("lookup") >= 4, "{first:?}");
    assert!(mounted.count("readdirplus") >= 1, "{first:?}");
    assert_eq!(mounted.count("readlink"), 1, "{first:?}");
    assert!(mounted.count("open") <= 1 && mounted.count("opendir") <= 1, "{first:?}");
    assert_eq!(mounted.session.message_counts().bytes_read(), 300_000);
    visit(&mounted);
    assert_eq!(mounted.messages(), first);
}

#[test]
fn without_no_open_the_handler_answers_each_open_and_its_handle_comes_back() {
    let _alone = crate::fixture::alone();
    let tree = sample();
    tree.answer_opens();
    let options = SessionOptions { no_open: false, ..SessionOptions::default() };
    let Some(mounted) = Mounted::with(tree, &MountOptions::default(), &options) else { return };
    assert!(!mounted.session.negotiated().no_open());
    for _ in 0..2 {
        assert!(fs::read(mounted.path("dir/file")).unwrap() == vec![7; 300_000]);
    }
    assert_eq!(mounted.count("open"), 2);
    assert_eq!(mounted.session.message_counts().bytes_read(), 300_000, "the second open keeps the first one's pages");
    eventually("both files are released", || mounted.count("release") == 2);
}

#[test]
fn a_large_directory_is_listed_whole_by_readdir_and_seeks() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = Mounted::new(sample()) else { return };
    let listed = std::process::Command::new("ls").args(["-U", "-1"]).arg(mounted.path("dir")).output().unwrap();
    assert_eq!(listed.stdout.iter().filter(|byte| **byte == b'\n').count(), 502);
}

#[test]
fn read_ahead_is_raised_where_permitted() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = Mounted::new(sample()) else { return };
    let (major, minor) = mounted.mount.as_ref().unwrap().device().expect("/proc is there");
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if fs::OpenOptions::new().write(true).open(&path).is_err() {
        return crate::fixture::skip("raising the read-ahead window needs root");
    }
    assert_eq!(fs::read_to_string(path).unwrap().trim(), "1024");
}

/// A kernel may drop what it has read ahead, and read it again in smaller parts; that is not what is looked at here, so
/// one reading of several must be undisturbed. In windows of 128 KiB each takes 128 messages.
#[test]
fn a_sequential_read_takes_one_message_a_mebibyte() {
    let _alone = crate::fixture::alone();
    if !rustix::process::geteuid().is_root() {
        return crate::fixture::skip("reads of 1 MiB need root to raise the read-ahead window");
    }
    let mut seen = Vec::new();
    while seen.len() < 5 && seen.last().is_none_or(|reads| *reads > 24) {
        let tree = Tree::new();
        tree.file(ROOT_NODE, "large", 0o644, vec![1; 16 << 20]);
        let Some(mounted) = Mounted::new(tree) else { return };
        assert_eq!(fs::read(mounted.path("large")).unwrap(), vec![1; 16 << 20]);
        seen.push(mounted.count("read"));
    }
    assert!(seen.last().is_some_and(|reads| *reads <= 24), "{seen:?} reads for 16 MiB");
}
