//! System calls of this process that are answered here. They wait, draw random numbers, change files, or return values
//! of files that no seed decides.
//!
//! A filter of the kernel (`seccomp(2)`) turns each of them into a signal to the calling thread. Its caller may be the
//! standard library, the C library or a bare instruction. `pass` makes its calls at one place of the program, by which the
//! filter knows them, and lets them pass.

use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;

use crate::pass::{Call, FUTEX_PRIVATE, pass, place};
use crate::{files, status, turns};

const FUTEX_COMMAND: u64 = 0x7f;

/// The calls that are answered here. A futex is answered where it is of one process: the others are the kernel's at a thread's end.
const ANSWERED: [c_long; 22] = [
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_getrandom,
    libc::SYS_openat,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fallocate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
];

/// From now on calls are answered here.
///
/// # Panics
/// When the kernel has no filters.
pub fn begin() {
    // The C library's allocator asks how many processors there are, by a file, before it makes another arena than its first; what
    // answers that allocates.
    // SAFETY: a call on values alone.
    unsafe { assert_eq!(libc::mallopt(libc::M_ARENA_MAX, 1), 1) };
    // SAFETY: zeros are a valid `sigaction`; the handler is one for `SA_SIGINFO`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_call as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut()), 0);
    }
    let filter = filter();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` and what it points to live until the call returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(set, 0, "the kernel has no filters of system calls");
    }
}

fn filter() -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const JUMP_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const NUMBER_AT: u32 = 0;
    const PLACE_AT: u32 = 8;
    let argument_at = |index: u32| 16 + 8 * index;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = vec![
        step(LOAD, 0, 0, PLACE_AT),
        step(JUMP_EQUAL, 0, 3, place() as u32),
        step(LOAD, 0, 0, PLACE_AT + 4),
        step(JUMP_EQUAL, 0, 1, (place() >> 32) as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(LOAD, 0, 0, NUMBER_AT),
        step(JUMP_EQUAL, 0, 4, libc::SYS_futex as u32),
        step(LOAD, 0, 0, argument_at(1)),
        step(JUMP_SET, 0, 1, FUTEX_PRIVATE),
        step(RETURN, 0, 0, libc::SECCOMP_RET_TRAP),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    for number in ANSWERED.into_iter().filter(|number| *number != libc::SYS_futex) {
        filter.push(step(JUMP_EQUAL, 0, 1, number as u32));
        filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_TRAP));
    }
    filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    filter
}

extern "C" fn on_call(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives the context of the call that the signal is about, which is this handler's until it returns.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // SAFETY: as above.
    let errno = unsafe { *libc::__errno_location() };
    let said = answer(&call_of(context));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    set_answer(context, said);
}

#[cfg(target_arch = "x86_64")]
fn call_of(context: &libc::ucontext_t) -> Call {
    use libc::{REG_R8, REG_R9, REG_R10, REG_RAX, REG_RDI, REG_RDX, REG_RSI};
    let of = |register: c_int| context.uc_mcontext.gregs[register as usize];
    let arguments = [REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9].map(|register| of(register).cast_unsigned());
    Call { number: of(REG_RAX), arguments }
}

#[cfg(target_arch = "x86_64")]
fn set_answer(context: &mut libc::ucontext_t, said: i64) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = said;
}

#[cfg(target_arch = "aarch64")]
fn call_of(context: &libc::ucontext_t) -> Call {
    let registers = &context.uc_mcontext.regs;
    let mut arguments = [0; 6];
    arguments.copy_from_slice(&registers[..6]);
    Call { number: registers[8] as c_long, arguments }
}

#[cfg(target_arch = "aarch64")]
fn set_answer(context: &mut libc::ucontext_t, said: i64) {
    context.uc_mcontext.regs[0] = said.cast_unsigned();
}

fn answer(call: &Call) -> i64 {
    let arguments = call.arguments;
    if !turns::has_turn() {
        let [a, b, c, d, e, _] = arguments;
        return pass(call.number, [a, b, c, d, e]);
    }
    match call.number {
        libc::SYS_futex => futex(arguments),
        libc::SYS_sched_yield => {
            turns::give_way();
            0
        }
        libc::SYS_nanosleep => sleep(arguments[0], false),
        libc::SYS_clock_nanosleep => sleep(arguments[2], arguments[1] & libc::TIMER_ABSTIME as u64 != 0),
        libc::SYS_getrandom => {
            let (at, len) = (arguments[0] as *mut u8, arguments[1] as usize);
            for index in 0..len {
                // SAFETY: the calling code gives `len` bytes at `at`.
                unsafe { at.add(index).write(turns::below(256) as u8) };
            }
            len as i64
        }
        libc::SYS_statx | libc::SYS_newfstatat | libc::SYS_fstat => status::answer(call),
        _ => files::answer(call),
    }
}

fn time_at(at: u64) -> u64 {
    // SAFETY: the calling code gives a time there.
    let time = unsafe { *(at as *const libc::timespec) };
    (time.tv_sec.cast_unsigned()).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.cast_unsigned())
}

fn sleep(at: u64, is_absolute: bool) -> i64 {
    let time = time_at(at);
    turns::sleep_ns(if is_absolute { time.saturating_sub(turns::now_ns()) } else { time });
    0
}

fn futex([at, operation, value, time, ..]: [u64; 6]) -> i64 {
    match (operation & FUTEX_COMMAND) as c_int {
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let woken = turns::wake(at as usize, value as u32 as usize);
            turns::may_give_way(4);
            woken as i64
        }
        wait @ (libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) => {
            // SAFETY: the calling code gives a word there.
            let found = unsafe { (*(at as *const AtomicU32)).load(std::sync::atomic::Ordering::SeqCst) };
            if found != value as u32 {
                return -i64::from(libc::EAGAIN);
            }
            let since = if wait == libc::FUTEX_WAIT { turns::now_ns() } else { 0 };
            let until = (time != 0).then(|| time_at(time).saturating_add(since));
            if turns::wait(at as usize, until) { -i64::from(libc::ETIMEDOUT) } else { 0 }
        }
        _ => -i64::from(libc::ENOSYS),
    }
}
