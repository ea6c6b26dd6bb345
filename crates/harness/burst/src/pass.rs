//! System calls that pass to the kernel, where others are answered by this process (`calls`).

use std::ffi::c_long;
use std::sync::atomic::AtomicU32;

/// What calls carry that pass. Also the bits for which a thread waits that has no turn.
pub const MARK: u64 = 0x0f0b_e5a1;

pub const FUTEX_PRIVATE: u32 = 128;

/// One call.
pub struct Call {
    pub number: c_long,
    pub arguments: [u64; 6],
}

/// Makes a call that passes. What the kernel says: below 0 an error's number.
pub fn pass(number: c_long, arguments: [u64; 5]) -> i64 {
    let [a, b, c, d, e] = arguments;
    // SAFETY: it is a call of the code above, which vouches for its arguments, or a call on values alone.
    let said = unsafe { libc::syscall(number, a, b, c, d, e, MARK) };
    match said {
        // SAFETY: it is this thread's own.
        -1 => -i64::from(unsafe { *libc::__errno_location() }),
        said => said,
    }
}

/// Waits until `word` is not 0, or for less.
pub fn park(word: &AtomicU32) {
    let wait = libc::FUTEX_WAIT_BITSET as u64 | u64::from(FUTEX_PRIVATE);
    pass(libc::SYS_futex, [word.as_ptr() as u64, wait, 0, 0, 0]);
}

/// Who waits at `word` looks again.
pub fn unpark(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE_BITSET as u64 | u64::from(FUTEX_PRIVATE);
    pass(libc::SYS_futex, [word.as_ptr() as u64, wake, 1, 0, 0]);
}

/// The kernel's number of the calling thread.
pub fn own_number() -> i32 {
    pass(libc::SYS_gettid, [0; 5]) as i32
}

/// Waits until a thread of this process is gone.
pub fn await_death(thread: i32) {
    let process = u64::from(std::process::id());
    while pass(libc::SYS_tgkill, [process, thread as u64, 0, 0, 0]) == 0 {
        pass(libc::SYS_sched_yield, [0; 5]);
    }
}
