//! Locks are the kernel's own and real, although no message is sent for them.

use std::fs::{File, OpenOptions};

use forebay_fuse::{MountOptions, ROOT_NODE, SessionOptions};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

use crate::children;
use crate::fixture::Mounted;
use crate::tree::Tree;

fn mounted(read_only: bool) -> Option<Mounted> {
    let tree = Tree::new();
    tree.file(ROOT_NODE, "file", 0o666, "x");
    let options = MountOptions { read_only, ..MountOptions::default() };
    Mounted::with(tree, &options, &SessionOptions::default())
}

#[test]
fn a_second_flock_is_refused_until_the_first_is_gone() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = mounted(true) else { return };
    let (first, second) = (File::open(mounted.path("file")).unwrap(), File::open(mounted.path("file")).unwrap());
    flock(&first, FlockOperation::LockExclusive).unwrap();
    assert_eq!(flock(&second, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    assert_eq!(flock(&second, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
    flock(&first, FlockOperation::Unlock).unwrap();
    flock(&second, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn a_record_lock_of_another_process_is_refused() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = mounted(false) else { return };
    let open = || OpenOptions::new().read(true).write(true).open(mounted.path("file")).unwrap();
    let file = open();
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    let run = || children::command("lock-records").arg(mounted.path("file")).output().unwrap();
    let refused = run();
    assert_eq!(refused.status.code(), Some(children::LOCKED), "{refused:?}");
    fcntl_lock(&file, FlockOperation::Unlock).unwrap();
    let granted = run();
    assert_eq!(granted.status.code(), Some(children::DONE), "{granted:?}");
}

/// In the child process: takes a record lock, or says that it is taken.
pub fn lock_records(path: &std::path::Path) -> i32 {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => children::DONE,
        Err(Errno::ACCESS | Errno::AGAIN) => children::LOCKED,
        Err(error) => panic!("{error}"),
    }
}
