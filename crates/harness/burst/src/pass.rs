//! System calls that pass to the kernel, where others are answered by this process (`calls`).

use std::arch::global_asm;
use std::ffi::c_long;
use std::sync::atomic::AtomicU32;

pub const FUTEX_PRIVATE: u32 = 128;

/// One call.
pub struct Call {
    pub number: c_long,
    pub arguments: [u64; 6],
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl forebay_pass_call",
    "forebay_pass_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "xor r9d, r9d",
    "syscall",
    ".globl forebay_passed_call",
    "forebay_passed_call:",
    "ret",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl forebay_pass_call",
    "forebay_pass_call:",
    "mov x8, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "mov x3, x4",
    "mov x4, x5",
    "mov x5, #0",
    "svc #0",
    ".globl forebay_passed_call",
    "forebay_passed_call:",
    "ret",
);

// SAFETY: they are the code above: the call takes so many numbers and gives one, by the C convention; the other is its end.
unsafe extern "C" {
    fn forebay_pass_call(number: c_long, a: u64, b: u64, c: u64, d: u64, e: u64) -> i64;
    fn forebay_passed_call();
}

/// Where the kernel goes on after calls that pass: no other call is made there. A call's arguments would not tell it from others.
/// A function of the C library gives the kernel more than its caller gave, left in registers by earlier calls.
pub fn place() -> u64 {
    forebay_passed_call as *const () as u64
}

/// Makes a call that passes. Returns the kernel's result: below 0 an error's number.
pub fn pass(number: c_long, arguments: [u64; 5]) -> i64 {
    let [a, b, c, d, e] = arguments;
    // SAFETY: it is a call of the code above, which vouches for its arguments, or a call on values alone.
    unsafe { forebay_pass_call(number, a, b, c, d, e) }
}

/// Waits until `word` is not 0, or for less.
pub fn park(word: &AtomicU32) {
    let wait = libc::FUTEX_WAIT as u64 | u64::from(FUTEX_PRIVATE);
    pass(libc::SYS_futex, [word.as_ptr() as u64, wait, 0, 0, 0]);
}

/// Wakes the thread that waits at `word`.
pub fn unpark(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE as u64 | u64::from(FUTEX_PRIVATE);
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
