//! Locks are real: they are granted to one and refused to the other, on one node.

use std::fs::File;
use std::path::Path;

use forebay_tests::on_both;
use forebay_tests::program::python;
use rustix::fs::{FlockOperation as Lock, fcntl_lock, flock};
use rustix::io::Errno;

on_both!(an_exclusive_lock_excludes, |site| {
    let path = site.view("plain/4096");
    let (first, second) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    flock(&first, Lock::NonBlockingLockExclusive).unwrap();
    assert_eq!(flock(&second, Lock::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    assert_eq!(flock(&second, Lock::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
    flock(&first, Lock::Unlock).unwrap();
    flock(&second, Lock::NonBlockingLockExclusive).unwrap();
});

on_both!(shared_locks_share, |site| {
    let path = site.view("plain/4097");
    let (first, second) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    flock(&first, Lock::NonBlockingLockShared).unwrap();
    flock(&second, Lock::NonBlockingLockShared).unwrap();
    assert_eq!(flock(&second, Lock::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
});

on_both!(a_lock_goes_with_its_holder, |site| {
    let path = site.view("plain/4095");
    let first = File::open(&path).unwrap();
    flock(&first, Lock::NonBlockingLockExclusive).unwrap();
    drop(first);
    flock(File::open(&path).unwrap(), Lock::NonBlockingLockExclusive).unwrap();
});

/// The lock on the file as another process sees it.
fn seen_by_another(path: &Path) -> String {
    let code = "
import fcntl, struct, sys
with open(sys.argv[1], 'rb') as file:
    asked = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
    kind = struct.unpack('hhqqi4x', fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
    print({fcntl.F_RDLCK: 'read', fcntl.F_WRLCK: 'write', fcntl.F_UNLCK: 'none'}[kind])
";
    python(code, &[path]).good().text().trim_end().to_owned()
}

on_both!(record_locks_are_seen_by_others, [Command("python3")], |site| {
    let path = site.view("plain/131071");
    assert_eq!(seen_by_another(&path), "none");
    let file = File::open(&path).unwrap();
    fcntl_lock(&file, Lock::NonBlockingLockShared).unwrap();
    assert_eq!(seen_by_another(&path), "read");
    fcntl_lock(&file, Lock::Unlock).unwrap();
    assert_eq!(seen_by_another(&path), "none");
});

on_both!(record_locks_for_writing_need_a_writable_file, |site| {
    for path in [site.source("plain/131073"), site.view("plain/131073")] {
        let file = File::open(&path).unwrap();
        assert_eq!(fcntl_lock(&file, Lock::NonBlockingLockExclusive), Err(Errno::BADF), "{}", path.display());
    }
});
