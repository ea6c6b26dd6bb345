//! Functions of the C library that this program defines itself: clocks, which are read without a system call, and the beginning
//! and end of threads. Before threads take turns they are the C library's.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::pass::pass;
use crate::turns;

/// When the world begins, since 1970.
const EPOCH_S: u64 = 1_700_000_000;

const NS_PER_S: u64 = 1_000_000_000;

type Begin = extern "C" fn(*mut c_void) -> *mut c_void;

/// The arguments of a new thread.
struct Beginning {
    thread: turns::Thread,
    word: &'static AtomicU32,
    arrived: &'static AtomicU32,
    begin: Begin,
    argument: *mut c_void,
}

/// The threads that were begun, by the C library's name for each.
static BEGUN: Mutex<Vec<(libc::pthread_t, turns::Thread)>> = Mutex::new(Vec::new());

/// The C library calls what belongs to this key at the very end of a thread.
static ENDS: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Makes the key that ends threads. Call it before threads take turns.
pub fn begin() {
    let mut key = 0;
    // SAFETY: `key` may be written, and the function is one for a key's end.
    unsafe { assert_eq!(libc::pthread_key_create(&raw mut key, Some(ends)), 0) };
    ENDS.store(key as usize, Ordering::SeqCst);
}

extern "C" fn ends(_: *mut c_void) {
    turns::leave();
}

fn of_library(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with 0.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null());
    found
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    if !turns::is_on() || !turns::has_turn() {
        return pass(libc::SYS_clock_gettime, [clock as u64, time as u64, 0, 0, 0]) as c_int;
    }
    let now = turns::look_at_clock();
    turns::may_give_way(16);
    let since = if clock == libc::CLOCK_REALTIME { EPOCH_S } else { 0 };
    // SAFETY: the calling code gives a place for a time.
    unsafe { *time = libc::timespec { tv_sec: (since + now / NS_PER_S) as i64, tv_nsec: (now % NS_PER_S) as i64 } };
    0
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    name: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    begin: Begin,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the type says what the function is; it is called below.
    type Create = unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Begin, *mut c_void) -> c_int;
    // SAFETY: that is the function's type.
    let create: Create = unsafe { transmute(of_library(c"pthread_create")) };
    if !turns::is_on() {
        // SAFETY: the caller's arguments.
        return unsafe { create(name, attributes, begin, argument) };
    }
    let thread = turns::new_thread();
    let arrived: &AtomicU32 = Box::leak(Box::default());
    let beginning = Box::new(Beginning { thread, word: turns::word_of(thread), arrived, begin, argument });
    // SAFETY: the caller's arguments, and a beginning that the new thread takes.
    let outcome = unsafe { create(name, attributes, begin_with, Box::into_raw(beginning).cast()) };
    assert_eq!(outcome, 0, "no more threads");
    turns::await_arrival(arrived);
    // SAFETY: the C library has written it.
    let name = unsafe { *name };
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    begun.retain(|(other, _)| *other != name);
    begun.push((name, thread));
    drop(begun);
    turns::may_give_way(2);
    0
}

extern "C" fn begin_with(beginning: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` made it for this thread alone.
    let beginning = unsafe { Box::from_raw(beginning.cast::<Beginning>()) };
    let Beginning { thread, word, arrived, begin, argument } = *beginning;
    turns::enter(thread, word, arrived);
    // SAFETY: the key was made before any such thread began; what is not null is ended.
    unsafe { libc::pthread_setspecific(ENDS.load(Ordering::SeqCst) as libc::pthread_key_t, ptr::dangling()) };
    begin(argument)
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(name: libc::pthread_t, value: *mut *mut c_void) -> c_int {
    // SAFETY: the type says what the function is; it is called below.
    type Join = unsafe extern "C" fn(libc::pthread_t, *mut *mut c_void) -> c_int;
    // SAFETY: that is the function's type.
    let join: Join = unsafe { transmute(of_library(c"pthread_join")) };
    let begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = begun.iter().find(|(other, _)| *other == name).map(|(_, thread)| *thread);
    drop(begun);
    if let Some(thread) = thread.filter(|_| turns::is_on()) {
        turns::await_end(thread);
    }
    // SAFETY: the caller's arguments.
    unsafe { join(name, value) }
}
