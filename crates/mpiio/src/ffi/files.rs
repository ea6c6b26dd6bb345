//! Open files, as the shim uses them.
//!
//! Results are 0 for done, -1 for a call that MPI is to make, or an error number.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::mpi_group::{MpiGroup, RawCalls};
use super::raw::slice;
use crate::beside::Beside;
use crate::choice::{FileSystem, Rates};
use crate::error::Error;
use crate::file::{Answer, File};
use crate::flat::Flat;
use crate::memory::Buffer;
use crate::network::switches_of_address;
use crate::opening::Opening;
use crate::storage::Access;
use crate::view::View;

const DONE: c_int = 0;
/// A call that MPI is to make.
pub const PASS: c_int = -1;

/// How often it turned out wrong for files of this process to hold bytes (`following`).
static DOUBLINGS: AtomicU32 = AtomicU32::new(0);

/// The costs that this process has measured (`choice`).
static MEASURED: Mutex<Option<(FileSystem, Rates)>> = Mutex::new(None);

fn measured() -> MutexGuard<'static, Option<(FileSystem, Rates)>> {
    // It is only replaced.
    MEASURED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of the shim.
pub type MpiFile = File<MpiGroup>;

/// A result in numbers.
pub fn code(result: Result<(), Error>) -> c_int {
    result.map_or_else(|error| error.errno().raw_os_error(), |()| DONE)
}

/// How the shim opens a file.
#[repr(C)]
pub struct RawOpening {
    name: *const c_char,
    host: *const c_char,
    /// Names and values in turns, each ended by a NUL.
    hints: *const c_char,
    hints_len: usize,
    reads: c_int,
    writes: c_int,
    deletes: c_int,
    has_threads: c_int,
    rank: c_int,
    size: c_int,
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Opens a file that MPI has opened; `file` stays null if it is left to MPI.
///
/// # Safety
/// The strings of the opening are there; the calls work with the context until the file is closed.
pub unsafe extern "C" fn fb_open(
    calls: *const RawCalls,
    context: *mut c_void,
    opening: *const RawOpening,
    file: *mut *mut MpiFile,
) -> c_int {
    // SAFETY: as above.
    let (Some(calls), Some(raw)) = (unsafe { calls.as_ref() }, unsafe { opening.as_ref() }) else { return PASS };
    // SAFETY: as above: NUL-terminated strings.
    let (name, host) = unsafe { (CStr::from_ptr(raw.name), CStr::from_ptr(raw.host)) };
    // SAFETY: as above.
    let hints = unsafe { slice(raw.hints.cast::<u8>(), raw.hints_len) };
    let group = MpiGroup::new(*calls, context, raw.rank as usize, raw.size as usize);
    let records = crate::record::directory(&|name| std::env::var_os(name));
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (address, pattern) = (variable("SLURM_TOPOLOGY_ADDR"), variable("SLURM_TOPOLOGY_ADDR_PATTERN"));
    let opening = Opening {
        name: name.to_bytes(),
        access: Access { reads: raw.reads != 0, writes: raw.writes != 0 },
        deletes: raw.deletes != 0,
        has_threads: raw.has_threads != 0,
        doublings: DOUBLINGS.load(Ordering::Relaxed),
        layout_attribute: crate::layout::ATTRIBUTE,
        file_system: FileSystem::named(&variable("FOREBAY_MPIIO_TEST_FILE_SYSTEM")),
        measured: *measured(),
        hints: &pairs(hints),
        host: &host.to_string_lossy(),
        switches: &switches_of_address(&address, &pattern),
        records: records.as_deref(),
    };
    code(File::open(group, &opening).map(|opened| {
        let opened = opened.map_or(ptr::null_mut(), |opened| Box::into_raw(Box::new(opened)));
        // SAFETY: the shim gave a place for it.
        unsafe { file.write(opened) };
    }))
}

fn pairs(hints: &[u8]) -> Vec<(String, String)> {
    let words: Vec<String> =
        hints.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    words.as_chunks().0.iter().map(|[name, value]| (name.clone(), value.clone())).collect()
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// A file was deleted: so is the mark that it was incomplete.
///
/// # Safety
/// The name is ended by a NUL.
pub unsafe extern "C" fn fb_unmark(name: *const c_char) {
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name) };
    // Nearly always there is none.
    let _ = std::fs::remove_file(crate::mark::path_of(crate::opening::path_of(name.to_bytes())));
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Whether the library reads a hint of this name.
///
/// # Safety
/// The name is ended by a NUL.
pub unsafe extern "C" fn fb_reads_hint(name: *const c_char) -> c_int {
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name) };
    c_int::from(crate::hints::NAMES.iter().any(|known| known.as_bytes() == name.to_bytes()))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Hints that the program gives for an open file, as those of the opening. Collective.
///
/// # Safety
/// The file is open, the hints are there.
pub unsafe extern "C" fn fb_set_hints(file: *mut MpiFile, hints: *const c_char, len: usize) -> c_int {
    // SAFETY: as above.
    let (Some(file), hints) = (unsafe { file.as_mut() }, unsafe { slice(hints.cast::<u8>(), len) }) else {
        return PASS;
    };
    code(file.set_hints(pairs(hints)))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Tells the hints that hold, one after the other, with values of so many bytes at most.
///
/// # Safety
/// The file is open, and `tell` takes its context.
pub unsafe extern "C" fn fb_hints(
    file: *const MpiFile,
    value_max_bytes: usize,
    // SAFETY: as above.
    tell: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char),
    context: *mut c_void,
) {
    // SAFETY: as above.
    let Some(file) = (unsafe { file.as_ref() }) else { return };
    for (name, value) in file.hints(value_max_bytes) {
        if let (Ok(name), Ok(value)) = (std::ffi::CString::new(name), std::ffi::CString::new(value)) {
            // SAFETY: as above.
            unsafe { tell(context, name.as_ptr(), value.as_ptr()) };
        }
    }
}

/// An open file.
///
/// # Safety
/// It was opened by `fb_open`, is not closed yet, and nobody else uses it now.
pub unsafe fn opened<'a>(file: *mut MpiFile) -> &'a mut MpiFile {
    // SAFETY: as above.
    unsafe { &mut *file }
}

/// The memory of a call; `None` where its type could not be taken apart.
///
/// # Safety
/// `elements` of the type are at `base`, while the call lasts.
unsafe fn buffer(base: *mut u8, layout: *const Flat, elements: u64) -> Option<Buffer> {
    // SAFETY: as above.
    unsafe { Buffer::new(base, layout.as_ref()?.clone(), elements) }
}

fn answer(result: Result<Answer, Error>, bytes: &mut u64) -> c_int {
    match result {
        Ok(Answer::Done(done)) => {
            *bytes = done;
            DONE
        }
        Ok(Answer::Pass(_)) => PASS,
        Ok(Answer::PassFailed(_, errno)) => {
            *bytes = u64::from(errno.raw_os_error().unsigned_abs());
            PASS
        }
        Err(error) => code(Err(error)),
    }
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Sets the view. `tile` is freed; null for a view that cannot be taken apart.
///
/// # Safety
/// The file is open; the type lives.
pub unsafe extern "C" fn fb_set_view(file: *mut MpiFile, displacement: i64, etype_bytes: u64, tile: *mut Flat) {
    // SAFETY: as above; it came from `boxed`.
    let tile = (!tile.is_null()).then(|| *unsafe { Box::from_raw(tile) });
    // SAFETY: as above.
    unsafe { opened(file) }.set_view(tile.and_then(|tile| View::new(displacement, etype_bytes, tile)));
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// A collective write, which follows the one before with nothing between or does not. After -1 there is at `done` the error with which the call has failed, however MPI makes it, or 0.
///
/// # Safety
/// The file is open, `elements` of the type are at `base`, and a number can be put at `done`.
pub unsafe extern "C" fn fb_write_collective(
    file: *mut MpiFile,
    from: u64,
    base: *mut u8,
    layout: *const Flat,
    elements: u64,
    follows: c_int,
    done: *mut u64,
) -> c_int {
    // SAFETY: as above.
    let (file, buffer, done) = unsafe { (opened(file), buffer(base, layout, elements), &mut *done) };
    if follows == 0 {
        file.interrupted();
    }
    let answered = answer(file.write_collective(from, buffer.as_ref()), done);
    DOUBLINGS.fetch_max(file.doublings(), Ordering::Relaxed);
    answered
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// A collective read.
///
/// # Safety
/// As `fb_write_collective`; the elements may be written.
pub unsafe extern "C" fn fb_read_collective(
    file: *mut MpiFile,
    from: u64,
    base: *mut u8,
    layout: *const Flat,
    elements: u64,
    done: *mut u64,
) -> c_int {
    // SAFETY: as above.
    let (file, buffer, done) = unsafe { (opened(file), buffer(base, layout, elements), &mut *done) };
    answer(file.read_collective(from, buffer.as_ref()), done)
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// A write that waits for no other rank; -1 if MPI is to make it as a call of this rank alone.
///
/// # Safety
/// As `fb_write_collective`.
pub unsafe extern "C" fn fb_write_without_waiting(
    file: *mut MpiFile,
    from: u64,
    base: *mut u8,
    layout: *const Flat,
    elements: u64,
) -> c_int {
    // SAFETY: as above.
    let (file, buffer) = unsafe { (opened(file), buffer(base, layout, elements)) };
    match file.write_without_waiting(from, buffer.as_ref()) {
        Ok(true) => DONE,
        Ok(false) => PASS,
        Err(error) => code(Err(error)),
    }
}

/// Queries of an open file that a number answers.
#[repr(C)]
pub enum Ask {
    /// Bytes of the view's unit.
    EtypeBytes = 0,
    /// Where the end of what all ranks hold is in the view, units.
    UnitsToEnd = 1,
    /// Whether collective writes that wait for no other rank are held.
    HoldsWithoutWaiting = 2,
    /// For how many milliseconds this rank holds bytes that it must write before any other MPI call, and one more; 0 if it holds none.
    MustWriteOwn = 3,
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Answers without any other rank.
///
/// # Safety
/// The file is open.
pub unsafe extern "C" fn fb_ask(file: *mut MpiFile, what: c_int) -> u64 {
    // SAFETY: as above.
    let file = unsafe { opened(file) };
    match what {
        what if what == Ask::EtypeBytes as c_int => file.etype_bytes(),
        what if what == Ask::UnitsToEnd as c_int => file.units_to_end(),
        what if what == Ask::HoldsWithoutWaiting as c_int => u64::from(file.holds_without_waiting()),
        what if what == Ask::MustWriteOwn as c_int => {
            file.must_write_own().map_or(0, |held| held.as_millis() as u64 + 1)
        }
        _ => 0,
    }
}

/// Steps of an open file, by number; all are collective but `WriteOwn`, `Leave` and `Passed`.
#[repr(C)]
pub enum Step {
    /// Write what any rank holds.
    Flush = 0,
    /// Write what this rank holds.
    WriteOwn = 1,
    /// Bring what was written to stable storage.
    Sync = 2,
    /// Atomic mode begins.
    Atomic = 3,
    /// Atomic mode ends.
    NotAtomic = 4,
    /// Write what this rank holds, for the last time.
    Leave = 5,
    /// MPI has made the collective write that was left to it.
    Passed = 6,
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Does a step.
///
/// # Safety
/// The file is open.
pub unsafe extern "C" fn fb_do(file: *mut MpiFile, step: c_int) -> c_int {
    // SAFETY: as above.
    let file = unsafe { opened(file) };
    code(match step {
        step if step == Step::Flush as c_int => file.flush(),
        step if step == Step::WriteOwn as c_int => file.write_own(),
        step if step == Step::Sync as c_int => file.sync(),
        step if step == Step::Atomic as c_int => file.set_atomic(true),
        step if step == Step::NotAtomic as c_int => file.set_atomic(false),
        step if step == Step::Leave as c_int => {
            file.leave();
            Ok(())
        }
        step if step == Step::Passed as c_int => {
            file.passed();
            Ok(())
        }
        _ => Err(Error::Message),
    })
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// The size of the file was set.
///
/// # Safety
/// The file is open.
pub unsafe extern "C" fn fb_sized(file: *mut MpiFile, size: u64) {
    // SAFETY: as above.
    unsafe { opened(file) }.sized(size);
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// The part of a file that other threads can reach; to be freed by `fb_beside_free`.
///
/// # Safety
/// The file is open.
pub unsafe extern "C" fn fb_beside_of(file: *mut MpiFile) -> *const Beside {
    // SAFETY: as above.
    Arc::into_raw(unsafe { opened(file) }.beside())
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Writes what the rank holds, beside a call that has the file; -1 if that is to be waited for.
///
/// # Safety
/// It is one of `fb_beside_of` that was not freed.
pub unsafe extern "C" fn fb_beside_write(beside: *const Beside) -> c_int {
    // SAFETY: as above.
    match unsafe { &*beside }.write() {
        None => PASS,
        Some(written) => written.map_or_else(Errno::raw_os_error, |()| DONE),
    }
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Whether a write of so many bytes, from a unit of the view on, is apart from all that the rank holds.
///
/// # Safety
/// As `fb_beside_write`.
pub unsafe extern "C" fn fb_beside_is_apart(beside: *const Beside, unit: u64, len: u64) -> c_int {
    // SAFETY: as above.
    c_int::from(unsafe { &*beside }.is_apart(unit, len))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// The end of the file beyond what is in it.
///
/// # Safety
/// As `fb_beside_write`.
pub unsafe extern "C" fn fb_beside_end(beside: *const Beside) -> u64 {
    // SAFETY: as above.
    unsafe { &*beside }.end()
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Frees it.
///
/// # Safety
/// As `fb_beside_write`, and nobody uses it afterwards.
pub unsafe extern "C" fn fb_beside_free(beside: *const Beside) {
    // SAFETY: as above.
    drop(unsafe { Arc::from_raw(beside) });
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Writes what is held, and closes. Collective.
///
/// # Safety
/// The file is open, and nobody uses it afterwards.
pub unsafe extern "C" fn fb_close(file: *mut MpiFile) -> c_int {
    // SAFETY: as above; it came from `fb_open`.
    let file = unsafe { Box::from_raw(file) };
    *measured() = Some(file.measured());
    code(file.close())
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Forgets a file that nothing was done with, without any other rank.
///
/// # Safety
/// As `fb_close`.
pub unsafe extern "C" fn fb_abandon(file: *mut MpiFile) {
    // SAFETY: as above; it came from `fb_open`.
    drop(unsafe { Box::from_raw(file) });
}
