//! The disks of the nodes and the backing file system: directories of this machine, whose calls take time here, fail and hang when
//! they are to, and on nodes' disks are lost at a cut of the power as far as they were not synced.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_long};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, NameChange};
use crate::log::note;
use crate::pass::{Call, pass};
use crate::reached::{Reach, reached};
use crate::{oracle, turns};

const MS: u64 = 1_000_000;

/// The longest that a call on the backing file system takes, and one that a node's disk makes durable.
const CALL_NS_MAX: u64 = 4 * MS;

/// One write in so many is done in two parts, with time between them.
const PARTS_ONE_OF: u64 = 16;

/// How the backing file system fails.
#[derive(Clone, Copy, Debug)]
pub struct Fails {
    /// The error that calls give; none where writes spoil a byte, and say nothing.
    pub errno: Option<i32>,
    pub percent: u64,
    pub until_ns: u64,
}

struct Files {
    root: PathBuf,
    hosts: BTreeMap<turns::Life, usize>,
    disks: BTreeMap<usize, Disk>,
    /// Locks on stores, by who holds them.
    locks: Vec<(turns::Life, i32)>,
    hangs_until_ns: u64,
    fails: Option<Fails>,
    /// The lives that changed names on the backing file system, in order.
    landers: Vec<turns::Life>,
}

static FILES: Mutex<Option<Files>> = Mutex::new(None);

/// Where a file lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Backing,
    Disk(usize),
    Elsewhere,
}

fn files<T>(look: impl FnOnce(&mut Files) -> T) -> Option<T> {
    let mut files: MutexGuard<'_, Option<Files>> = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files.as_mut().map(look)
}

/// All lies below `root`.
pub fn begin(root: &Path) {
    let new = Files {
        root: root.to_owned(),
        hosts: BTreeMap::new(),
        disks: BTreeMap::new(),
        locks: vec![],
        hangs_until_ns: 0,
        fails: None,
        landers: vec![],
    };
    *FILES.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
}

/// A life is one of a host's.
pub fn belongs(life: turns::Life, host: usize) {
    files(|files| files.hosts.insert(life, host));
}

/// The backing file system answers nothing for a time.
pub fn hang(time_ns: u64) {
    let until = turns::now_ns() + time_ns;
    files(|files| files.hangs_until_ns = until);
}

/// It fails.
pub fn fail(fails: Option<Fails>) {
    files(|files| files.fails = fails);
}

/// Frees the locks of a life that has ended.
pub fn unlock(life: turns::Life) {
    let locks = files(|files| std::mem::take(&mut files.locks)).unwrap_or_default();
    let (its, others): (Vec<_>, Vec<_>) = locks.into_iter().partition(|(of, _)| *of == life);
    files(|files| files.locks = others);
    for (_, lock) in its.into_iter().filter(|(_, lock)| path_of(*lock).ends_with("lock")) {
        pass(libc::SYS_flock, [lock as u64, libc::LOCK_UN as u64, 0, 0, 0]);
    }
}

/// The power of a host goes: what was not synced is lost, or torn, or not.
pub fn cut(host: usize) {
    if let Some(disk) = files(|files| files.disks.remove(&host)).flatten() {
        disk.cut();
    }
}

/// Two nodes never change names on the backing file system by turns: a daemon that went on after another node's had begun would
/// take itself for the leader.
pub fn has_two_leaders() -> bool {
    let landers = files(|files| files.landers.clone()).unwrap_or_default();
    (0..landers.len()).any(|index| landers[..index].iter().any(|before| *before == landers[index]))
}

/// Does what a call asks for, or does not.
pub fn answer(call: &Call) -> i64 {
    let about = About::of(call);
    match about.place {
        Place::Elsewhere => elsewhere(call, &about),
        Place::Disk(host) => on_disk(call, &about, host),
        Place::Backing => on_backing(call, &about),
    }
}

fn passed(call: &Call) -> i64 {
    let [a, b, c, d, e, _] = call.arguments;
    pass(call.number, [a, b, c, d, e])
}

/// The object of a call.
struct About {
    place: Place,
    path: PathBuf,
    /// Where it is to be then, of a rename.
    to: PathBuf,
    is_name: bool,
}

impl About {
    fn of(call: &Call) -> Self {
        let [a, b, c, d, ..] = call.arguments;
        let (path, to, is_name) = match call.number {
            libc::SYS_openat | libc::SYS_unlinkat | libc::SYS_mkdirat => (at(a, b), PathBuf::new(), true),
            libc::SYS_symlinkat => (at(b, c), PathBuf::new(), true),
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => (at(a, b), at(c, d), true),
            _ => (path_of(a as i32), PathBuf::new(), false),
        };
        Self { place: place_of(&path), path, to, is_name }
    }
}

fn at(directory: u64, name: u64) -> PathBuf {
    // SAFETY: the calling code gives a name that ends with 0.
    let name = unsafe { CStr::from_ptr(name as *const libc::c_char) };
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    if name.is_absolute() || directory as i32 == libc::AT_FDCWD {
        name.to_owned()
    } else {
        path_of(directory as i32).join(name)
    }
}

/// Where what a descriptor is of lies now.
fn path_of(descriptor: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_default()
}

fn place_of(path: &Path) -> Place {
    let place = files(|files| {
        let below = path.strip_prefix(&files.root).ok()?;
        let first = below.iter().next()?.to_str()?;
        match first.strip_prefix("store-") {
            Some(host) => Some(Place::Disk(host.parse().ok()?)),
            None => (first == "backing").then_some(Place::Backing),
        }
    });
    place.flatten().unwrap_or(Place::Elsewhere)
}

fn elsewhere(call: &Call, about: &About) -> i64 {
    if call.number == libc::SYS_openat && about.path == Path::new("/proc/sys/kernel/random/boot_id") {
        let life = turns::life();
        let its = files(|files| Some(files.root.join(format!("boot-{}", files.hosts.get(&life)?)))).flatten();
        if let Some(name) = its.and_then(|its| CString::new(its.as_os_str().as_bytes()).ok()) {
            return pass(call.number, [libc::AT_FDCWD as u64, name.as_ptr() as u64, libc::O_RDONLY as u64, 0, 0]);
        }
    }
    passed(call)
}

fn on_disk(call: &Call, about: &About, host: usize) -> i64 {
    turns::may_give_way(4);
    let disk = |look: &mut dyn FnMut(&mut Disk)| _ = files(|files| look(files.disks.entry(host).or_default()));
    let [a, b, c, d, ..] = call.arguments;
    match call.number {
        libc::SYS_openat => {
            let is_new = c & libc::O_CREAT as u64 != 0 && !about.path.exists();
            let said = passed(call);
            if said >= 0 && is_new {
                disk(&mut |disk| disk.names(NameChange::Made(about.path.clone())));
            }
            if said >= 0 && about.path.ends_with("lock") {
                files(|files| files.locks.push((turns::life(), said as i32)));
            }
            said
        }
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_pwritev => write(call, Some(host)),
        // Room is not what is modelled: a file that is to take some is as long, and full of holes.
        libc::SYS_fallocate if b == 0 => {
            let end = c + d;
            let len = std::fs::metadata(&about.path).map_or(0, |found| found.len());
            if end > len { pass(libc::SYS_ftruncate, [a, end, 0, 0, 0]) } else { 0 }
        }
        libc::SYS_fsync | libc::SYS_fdatasync => {
            turns::sleep_ns(turns::below(CALL_NS_MAX / 4));
            let said = passed(call);
            disk(&mut |disk| disk.sync(a as i32));
            said
        }
        libc::SYS_renameat | libc::SYS_renameat2 => {
            let kept = keep(&about.to);
            let said = passed(call);
            if said >= 0 {
                let change =
                    || NameChange::Relocated { from: about.path.clone(), to: about.to.clone(), kept: kept.clone() };
                disk(&mut |disk| disk.names(change()));
            }
            said
        }
        libc::SYS_unlinkat => {
            let kept = keep(&about.path);
            let said = passed(call);
            if let (true, Some(kept)) = (said >= 0, kept) {
                disk(&mut |disk| disk.names(NameChange::Removed { path: about.path.clone(), kept: kept.clone() }));
            }
            said
        }
        _ => passed(call),
    }
}

/// Another name for a file that is about to lose its own.
fn keep(path: &Path) -> Option<PathBuf> {
    let root = files(|files| files.root.clone())?;
    let kept = root.join("kept").join(format!("{}-{}", turns::now_ns(), turns::below(u64::MAX)));
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
    let (from, to) = (name(path)?, name(&kept)?);
    let here = libc::AT_FDCWD as u64;
    let said = pass(libc::SYS_linkat, [here, from.as_ptr() as u64, here, to.as_ptr() as u64, 0]);
    (said == 0).then_some(kept)
}

fn on_backing(call: &Call, about: &About) -> i64 {
    let changes = call.number != libc::SYS_openat || call.arguments[2] & libc::O_CREAT as u64 != 0;
    let is_its = turns::life() != 0;
    if !is_its {
        return passed(call);
    }
    // A change that has begun is not taken back, however long it takes.
    if about.is_name && call.number != libc::SYS_openat {
        let life = turns::life();
        note(|| format!("daemon {life} changes the name of {}", about.path.display()));
        files(|files| {
            if files.landers.last() != Some(&life) {
                files.landers.push(life);
            }
        });
    }
    if turns::below(2) == 0 {
        turns::sleep_ns(turns::below(CALL_NS_MAX));
    }
    while let Some(until) = files(|files| files.hangs_until_ns).filter(|until| *until > turns::now_ns()) {
        reached(Reach::BackingHung);
        turns::sleep_ns(until - turns::now_ns());
    }
    let fails = files(|files| files.fails).flatten();
    let fails = fails.filter(|fails| changes && turns::now_ns() < fails.until_ns && turns::below(100) < fails.percent);
    if let Some(errno) = fails.and_then(|fails| fails.errno) {
        reached(Reach::BackingFailed);
        return -i64::from(errno);
    }
    match call.number {
        libc::SYS_pwrite64 if fails.is_some() => spoiled(call),
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_pwritev => write(call, None),
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => {
            let was_there = about.to.exists();
            let said = passed(call);
            if said >= 0 {
                published(&about.to, was_there);
            }
            said
        }
        _ => passed(call),
    }
}

fn published(path: &Path, was_there: bool) {
    let is_draft = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".forebay-draft-"));
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    if is_file && !is_draft {
        reached(if was_there { Reach::PublishedOver } else { Reach::Published });
        let found = crate::contents::read(path);
        oracle::published(path, &found);
    }
}

/// A write of which one byte is another then.
fn spoiled(call: &Call) -> i64 {
    let said = write(call, None);
    if said > 0 {
        let [descriptor, at, _, offset, ..] = call.arguments;
        let index = turns::below(said as u64);
        // SAFETY: the calling code gives as many bytes there as were written.
        let byte = !unsafe { *((at + index) as *const u8) };
        pass(libc::SYS_pwrite64, [descriptor, &raw const byte as u64, 1, offset + index, 0]);
        reached(Reach::BackingSpoiled);
    }
    said
}

/// A write, all or in parts.
fn write(call: &Call, disk: Option<usize>) -> i64 {
    let [descriptor, at, len, offset, ..] = call.arguments;
    let bytes = match call.number {
        libc::SYS_pwritev => gathered(at, len),
        // SAFETY: the calling code gives `len` bytes there.
        _ => unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) }.to_vec(),
    };
    let offset = match call.number {
        libc::SYS_write => pass(libc::SYS_lseek, [descriptor, 0, libc::SEEK_CUR as u64, 0, 0]) as u64,
        _ => offset,
    };
    let note = |len: usize| {
        if let Some(host) = disk {
            files(|files| files.disks.entry(host).or_default().before_write(descriptor as i32, offset, len));
        }
    };
    let put = |from: usize, to: usize| {
        let part = &bytes[from..to];
        pass(libc::SYS_pwrite64, [descriptor, part.as_ptr() as u64, part.len() as u64, offset + from as u64, 0])
    };
    note(bytes.len());
    let first = if turns::below(PARTS_ONE_OF) == 0 { turns::below(bytes.len() as u64) as usize } else { 0 };
    if first > 0 {
        put(0, first);
        turns::sleep_ns(turns::below(CALL_NS_MAX));
        note(bytes.len());
    }
    let said = put(first, bytes.len());
    if said < 0 {
        return said;
    }
    let all = first as i64 + said;
    if call.number == libc::SYS_write {
        pass(libc::SYS_lseek, [descriptor, offset + all as u64, libc::SEEK_SET as u64, 0, 0]);
    }
    all
}

fn gathered(at: u64, count: u64) -> Vec<u8> {
    // SAFETY: the calling code gives so many pieces there.
    let pieces = unsafe { std::slice::from_raw_parts(at as *const libc::iovec, count as usize) };
    let mut bytes = vec![];
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        // SAFETY: as above, of each piece.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len) });
    }
    bytes
}

const _: () = assert!(size_of::<c_long>() == 8, "arguments are of 64 bits");
