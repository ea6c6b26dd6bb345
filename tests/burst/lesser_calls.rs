//! Calls that do less than on a local file system, as docs/corner-cases.md lists them.

use forebay_tests::require;

use crate::bed::Bed;

/// Prints what each comes to: an error's name, or what it gives.
const CALLS: &str = r#"
import ctypes, errno, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
f = os.open("f", os.O_CREAT | os.O_RDWR)
os.write(f, b"x" * 16384)
def outcome(call, *words):
    ctypes.set_errno(0)
    try:
        call(*words)
    except OSError as error:
        return os.strerror(error.errno)
    return os.strerror(ctypes.get_errno())
AT_FDCWD, RENAME_WHITEOUT, FIEMAP, COLLAPSE, INSERT = -100, 4, 0xC020660B, 0x08, 0x20
FICLONE, GETFLAGS = 0x40049409, 0x80086601
print(outcome(libc.renameat2, AT_FDCWD, b"f", AT_FDCWD, b"g", RENAME_WHITEOUT))
print(outcome(fcntl.ioctl, f, FIEMAP, bytes(32)))
other = os.open("other", os.O_CREAT | os.O_RDWR)
print(outcome(fcntl.ioctl, other, FICLONE, f))
print(outcome(fcntl.ioctl, f, GETFLAGS, bytes(8)))
os.unlink("other")
size = ctypes.c_long
print(outcome(libc.fallocate, f, COLLAPSE, size(0), size(4096)))
print(outcome(libc.fallocate, f, INSERT, size(0), size(4096)))
print(os.popen("stat -c %W f").read().strip())
flags = os.statvfs(".").f_flag
print(bool(flags & os.ST_NODEV), bool(flags & os.ST_NOSUID))
fcntl.flock(f, fcntl.LOCK_EX)
fcntl.lockf(f, fcntl.LOCK_EX)
print([line for line in open("/proc/locks") if f":{os.fstat(f).st_ino} " in line and f" {os.getpid()} " in line])
print(os.path.getsize("f"), os.listdir("."))
"#;

#[test]
fn calls_that_do_less_say_so() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::new();
    let said = bed.shell(&format!("python3 -c '{CALLS}'")).good().text();
    let unsupported = "Operation not supported";
    let unflagged = "Inappropriate ioctl for device";
    let expected = [
        "Invalid argument",
        unsupported,
        unsupported,
        unflagged,
        unsupported,
        unsupported,
        "0",
        "True True",
        "[]",
        "16384 ['f']",
    ]
    .map(|line| format!("{line}\n"));
    assert_eq!(said, expected.concat());
    bed.job.down();
}
