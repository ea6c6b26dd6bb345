//! Values of files that no seed decides: inode numbers, and times of change and birth.
//!
//! Histories do not depend on the values, but records have them, and are shorter the fewer bits they have. If disks tear writes,
//! other bytes would be torn. So all are as long, and as different from each other as they were.

use crate::pass::{Call, pass};

/// Longer than all others are.
const INODE_OFFSET: u64 = 1 << 32;

/// Times before it are the world's own, which programs have set.
const OURS_S: i64 = 1_750_000_000;

/// Nanoseconds from there on are as long as any.
const NANOS_MIN: i64 = 1 << 28;

/// Passes a call, and changes what it said.
pub fn answer(call: &Call) -> i64 {
    let [a, b, c, d, e, _] = call.arguments;
    let said = pass(call.number, [a, b, c, d, e]);
    if said < 0 {
        return said;
    }
    match call.number {
        libc::SYS_statx => {
            // SAFETY: the calling code gives a place for that, and the kernel has written it.
            let found = unsafe { &mut *(e as *mut libc::statx) };
            found.stx_ino += INODE_OFFSET;
            for time in [&mut found.stx_mtime, &mut found.stx_ctime, &mut found.stx_btime] {
                time.tv_nsec = nanos(time.tv_sec, time.tv_nsec.into()) as u32;
            }
        }
        number => {
            let at = if number == libc::SYS_fstat { b } else { c };
            // SAFETY: as above.
            let found = unsafe { &mut *(at as *mut libc::stat) };
            found.st_ino += INODE_OFFSET;
            found.st_mtime_nsec = nanos(found.st_mtime, found.st_mtime_nsec);
            found.st_ctime_nsec = nanos(found.st_ctime, found.st_ctime_nsec);
        }
    }
    said
}

fn nanos(seconds: i64, nanos: i64) -> i64 {
    if seconds < OURS_S { nanos } else { NANOS_MIN + nanos / 10 * 7 }
}
