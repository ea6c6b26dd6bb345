//! A disk that loses power: an ext4 file system on a loop device, whose image is a file of a FUSE file system that keeps what was
//! not flushed in memory only, and drops a part of it at the cut.
//!
//! So everything that ext4 does to contents, names and their order between two flushes is ext4's own, and so is what it makes
//! of the disk afterwards. `Power::begin` gives the calling thread a mount namespace of its own, in which the machine has another
//! boot identity after each cut.

mod volatile;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use forebay_fuse::{
    Access, Change, Entry, Mount, MountOptions, Operation, ROOT_NODE, Reply, Request, Session, SessionOptions, mount,
};
use forebay_types::{Attributes, Errno};
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use tempfile::TempDir;

use crate::program::run;
use volatile::Volatile;

/// Room for the smallest store and for ext4's own.
const SIZE_BYTES: u64 = 448 << 20;

const IMAGE: &[u8] = b"image";
const IMAGE_NODE: u64 = 2;

/// A disk, mounted until dropped.
pub struct PowerDisk {
    at: PathBuf,
    place: TempDir,
    served: Arc<Served>,
    fuse: Option<Mount>,
    session: Session,
}

/// The file system of the one file that the disk is.
struct Served(Mutex<State>);

struct State {
    disk: Volatile,
    /// So many writes and flushes are done before the power goes; `None`: it stays.
    left: Option<u64>,
    is_off: bool,
    /// Replies that are held from the cut on.
    held: Vec<Reply>,
    /// Whether requests after that fail.
    is_gone: bool,
    done: u64,
}

impl PowerDisk {
    /// A disk with an empty file system, mounted at `at`, a directory.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(at: &Path, seed: u64) -> Self {
        static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
        let empty = EMPTY.get_or_init(|| {
            let place = tempfile::tempdir().expect("a temporary directory");
            let image = place.path().join("image");
            fs::File::create_new(&image).and_then(|file| file.set_len(SIZE_BYTES)).expect("an image");
            let options = "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0";
            let _ = run(Command::new("mkfs.ext4").args(["-q", "-m", "0", "-J", "size=4", "-E", options]).arg(&image))
                .good();
            fs::read(&image).expect("an image")
        });
        Self::of(at, Volatile::new(empty, seed))
    }

    fn of(at: &Path, disk: Volatile) -> Self {
        let place = tempfile::Builder::new().prefix("forebay-power-").tempdir().expect("a temporary directory");
        let state = State { disk, left: None, is_off: false, held: Vec::new(), is_gone: false, done: 0 };
        let served = Arc::new(Served(Mutex::new(state)));
        let options = MountOptions {
            source: "power".into(),
            subtype: "power".into(),
            read_only: false,
            ..MountOptions::default()
        };
        let fuse = mount(place.path(), &options).expect("a mount");
        let options = SessionOptions { access: Access::ReadWrite, no_open: false, ..SessionOptions::default() };
        let handler = Arc::clone(&served);
        let handler = Arc::new(move |request: Request<'_>, reply: Reply| handler.handle(request, reply));
        let session = Session::start(fuse.descriptor(), &options, handler).expect("a session");
        // Only mounts of its own: tables are written when they are needed, not in the background.
        let mounted = run(Command::new("mount")
            .args(["-t", "ext4", "-o", "loop,noinit_itable,nodiscard"])
            .args([&place.path().join("image"), at]));
        let _ = mounted.good();
        Self { at: at.to_owned(), place, served, fuse: Some(fuse), session }
    }

    /// Writes and flushes so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.served.lock().done
    }

    /// The power goes when so many more writes and flushes are done.
    pub fn cut_after(&self, count: u64) {
        self.served.lock().left = Some(count);
    }

    /// Whether the power is gone.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.served.lock().is_off
    }

    /// The power goes now: nothing is answered any more. Those who wait can be killed after `fail`.
    pub fn off(&self) {
        self.served.lock().is_off = true;
    }

    /// Fails what waits for an answer, so that what was killed ends.
    pub fn fail(&self) {
        let held = {
            let mut state = self.served.lock();
            state.is_gone = true;
            std::mem::take(&mut state.held)
        };
        held.into_iter().for_each(|reply| reply.error(Errno::EIO));
    }

    /// The same disk when the power is back, mounted at the same place. Programs that used it have ended.
    ///
    /// # Panics
    /// If ext4 cannot go on with it.
    #[must_use]
    pub fn on_again(self) -> Self {
        self.off();
        self.fail();
        let mut disk = self.served.lock().disk.clone();
        let at = self.at.clone();
        drop(self);
        disk.cut();
        Self::of(&at, disk)
    }
}

impl Drop for PowerDisk {
    fn drop(&mut self) {
        self.fail();
        // The loop device goes with the last user of the mount, and the image's mount with the device.
        let _ = unmount(&self.at, UnmountFlags::DETACH);
        let _ = unmount(self.place.path(), UnmountFlags::DETACH);
        if let Some(fuse) = self.fuse.take() {
            fuse.leave();
        }
        self.session.stop();
    }
}

impl Served {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        match request.operation {
            Operation::Lookup { name } if request.node == ROOT_NODE && name == IMAGE => reply.entry(&Entry {
                node: IMAGE_NODE,
                generation: 0,
                attributes: attributes(IMAGE_NODE),
                entry_ttl: Duration::MAX,
                attribute_ttl: Duration::MAX,
            }),
            Operation::Lookup { .. } => reply.error(Errno::ENOENT),
            Operation::Getattr { .. } => reply.attributes(&attributes(request.node), Duration::MAX),
            Operation::Change(Change::SetAttributes(_)) => reply.attributes(&attributes(request.node), Duration::MAX),
            Operation::Open { .. } | Operation::Opendir { .. } => reply.open(1, 0),
            Operation::Release { .. } | Operation::Releasedir { .. } | Operation::Flush { .. } => reply.ok(),
            Operation::Forget { .. } | Operation::BatchForget(_) | Operation::Interrupt { .. } => reply.none(),
            operation => self.lock().take(&operation, reply),
        }
    }
}

impl State {
    fn take(&mut self, operation: &Operation<'_>, reply: Reply) {
        if self.is_gone {
            return reply.error(Errno::EIO);
        }
        let is_counted = matches!(operation, Operation::Change(Change::Write { .. }) | Operation::Fsync { .. });
        if is_counted {
            match &mut self.left {
                Some(0) => self.is_off = true,
                Some(left) => *left -= 1,
                None => {}
            }
        }
        if self.is_off {
            self.held.push(reply);
            return;
        }
        self.done += u64::from(is_counted);
        match operation {
            Operation::Read { offset, size, .. } => {
                let bytes = u64::from(*size).min(SIZE_BYTES.saturating_sub(*offset)) as usize;
                reply.bytes(&self.disk.read(*offset, bytes));
            }
            Operation::Change(Change::Write { offset, data, .. }) => {
                self.disk.write(*offset, data);
                reply.written(data.len() as u32);
            }
            Operation::Fsync { .. } => {
                self.disk.flush();
                reply.ok();
            }
            Operation::Change(Change::Fallocate { .. }) => reply.error(Errno::EOPNOTSUPP),
            other => reply.error(other.default_error()),
        }
    }
}

fn attributes(node: u64) -> Attributes {
    let (mode, size_bytes) = if node == IMAGE_NODE { (0o100_600, SIZE_BYTES) } else { (0o040_700, 0) };
    Attributes { ino: node, size_bytes, mode, nlink: 1, blksize: 4096, ..Attributes::default() }
}

/// A machine whose power may go: a mount namespace with a boot identity of its own, for the thread that begins it and what that
/// starts.
pub struct Power {
    place: TempDir,
    boots: std::cell::Cell<u32>,
}

impl Power {
    /// # Panics
    /// If there can be none: it needs root.
    #[must_use]
    pub fn begin() -> Self {
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("mounts of its own");
        let place = tempfile::tempdir().expect("a temporary directory");
        let power = Self { place, boots: std::cell::Cell::new(0) };
        power.boot();
        mount_bind(power.identity(), "/proc/sys/kernel/random/boot_id").expect("a boot identity");
        power
    }

    /// The machine starts again: the loss of power can have taken what was written before.
    ///
    /// # Panics
    /// If the identity cannot be written.
    pub fn boot(&self) {
        self.boots.set(self.boots.get() + 1);
        let text = format!("{:08x}-0000-4000-8000-000000000000\n", self.boots.get());
        fs::write(self.identity(), text).expect("a boot identity");
    }

    fn identity(&self) -> PathBuf {
        self.place.path().join("boot_id")
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        let _ = unmount("/proc/sys/kernel/random/boot_id", UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests;
