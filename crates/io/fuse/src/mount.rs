//! Mounting and unmounting.
//!
//! `mount(2)` where it is permitted (root, or any user inside a user namespace of their own), else the setuid program
//! fusermount3 (or fusermount), which every FUSE installation has. Unmounting is lazy: the mount disappears at once, and programs that
//! still have files open are served until the session's descriptor closes. A mount is found by its device in the table of
//! mounts, not by its path: a directory on the way to it may have got another name.
//! A stale mount or a path that is no directory is not mounted over; whether the directory must be empty is the
//! caller's affair.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as OsErrno;
use rustix::mount::{MountFlags, UnmountFlags};
use thiserror::Error;

use crate::connection::{self, Connection};
use crate::fusermount;
use crate::mount_table::{self, MountedAt};
use crate::options::MountOptions;

/// Why a directory cannot be mounted on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MountPointFault {
    /// There is nothing by that name.
    #[error("it does not exist; create it")]
    Missing,
    /// It is something else.
    #[error("it is not a directory; name a directory")]
    NotDirectory,
    /// The way there is closed.
    #[error("it cannot be reached: permission denied; name a directory of your own")]
    Denied,
}

/// The reason why mounting failed. The mount is not there then, unless `Io` says that unmounting failed.
#[derive(Debug, Error)]
pub enum MountError {
    /// The kernel offers no FUSE.
    #[error(
        "cannot mount on {dir}: this machine has no /dev/fuse; load the kernel module (modprobe fuse) or, in a \
             container, pass the device in"
    )]
    NoDevice {
        /// The mount point.
        dir: PathBuf,
    },
    /// `/dev/fuse` is there but closed to this user.
    #[error(
        "cannot mount on {dir}: user {uid} may not open /dev/fuse ({source}), and without that neither fusermount3 nor a user \
             namespace can mount; ask the administrator for udev's default (chmod 666 /dev/fuse), or to be in its group"
    )]
    DevicePermission {
        /// The mount point.
        dir: PathBuf,
        /// The user that asked.
        uid: u32,
        /// The error of opening it.
        source: io::Error,
    },
    /// Neither `mount(2)` nor fusermount3 would do it.
    #[error("cannot mount on {dir}: user {uid} may not use mount(2), and {refusal}")]
    NotPermitted {
        /// The mount point.
        dir: PathBuf,
        /// The user that asked.
        uid: u32,
        /// Why the other way failed too, and what to do.
        refusal: String,
    },
    /// The directory cannot be mounted on.
    #[error("cannot mount on {dir}: {fault}")]
    MountPoint {
        /// The mount point.
        dir: PathBuf,
        /// The fault found.
        fault: MountPointFault,
    },
    /// A FUSE mount is there whose daemon died.
    #[error("cannot mount on {dir}: a mount is there whose daemon has died; unmount it (fusermount3 -u -z {dir})")]
    Stale {
        /// The mount point.
        dir: PathBuf,
    },
    /// Anything else.
    #[error("cannot {action} {dir}: {source}")]
    Io {
        /// The action that was tried.
        action: &'static str,
        /// On what.
        dir: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// A mount. Dropping it unmounts, unless another process made it.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    descriptor: Arc<OwnedFd>,
    how: How,
    device: Option<(u32, u32)>,
    mounted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    SystemCall,
    Fusermount(&'static str),
    Adopted,
}

/// Mounts on `dir` and returns at once: the kernel answers nothing below it until a session runs on the descriptor.
///
/// # Errors
/// `MountError` saying what to do.
pub fn mount(dir: &Path, options: &MountOptions) -> Result<Mount, MountError> {
    let dir = check_mount_point(dir)?;
    let uid = rustix::process::geteuid().as_raw();
    match open_device() {
        Ok(descriptor) => match mount_by_system_call(&dir, options, &descriptor) {
            Ok(()) => Ok(Mount::new(dir, descriptor, How::SystemCall, options)),
            Err(OsErrno::PERM) => {
                fusermount_or(dir, options, |dir, refusal| MountError::NotPermitted { dir, uid, refusal })
            }
            Err(error) => Err(mount_failed(dir, error)),
        },
        Err(OsErrno::NOENT | OsErrno::NXIO | OsErrno::NODEV) => Err(MountError::NoDevice { dir }),
        // fusermount3 would be refused too: it opens the device as the user who calls it.
        Err(error @ (OsErrno::ACCESS | OsErrno::PERM)) => {
            Err(MountError::DevicePermission { dir, uid, source: error.into() })
        }
        Err(error) => Err(MountError::Io { action: "open /dev/fuse to mount on", dir, source: error.into() }),
    }
}

/// Mounts by fusermount3 alone, as `mount` does where `mount(2)` is not permitted.
///
/// # Errors
/// As `mount`.
pub fn mount_by_fusermount(dir: &Path, options: &MountOptions) -> Result<Mount, MountError> {
    let uid = rustix::process::geteuid().as_raw();
    fusermount_or(check_mount_point(dir)?, options, |dir, refusal| MountError::NotPermitted { dir, uid, refusal })
}

fn fusermount_or(
    dir: PathBuf,
    options: &MountOptions,
    refused: impl FnOnce(PathBuf, String) -> MountError,
) -> Result<Mount, MountError> {
    match fusermount::mount(&dir, options) {
        Ok((descriptor, program)) => Ok(Mount::new(dir, descriptor, How::Fusermount(program), options)),
        Err(refusal) => Err(refused(dir, refusal)),
    }
}

fn check_mount_point(dir: &Path) -> Result<PathBuf, MountError> {
    let fault = |dir: &Path, fault| MountError::MountPoint { dir: dir.into(), fault };
    let failed = |dir: &Path, source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => fault(dir, MountPointFault::Missing),
        io::ErrorKind::NotADirectory => fault(dir, MountPointFault::NotDirectory),
        io::ErrorKind::PermissionDenied => fault(dir, MountPointFault::Denied),
        _ => MountError::Io { action: "look at the mount point", dir: dir.into(), source },
    };
    let resolved = mount_table::resolve(dir).map_err(|error| failed(dir, error))?;
    if is_stale(&resolved) {
        return Err(MountError::Stale { dir: resolved });
    }
    match fs::metadata(&resolved) {
        Ok(found) if found.is_dir() => Ok(resolved),
        Ok(_) => Err(fault(&resolved, MountPointFault::NotDirectory)),
        Err(error) => Err(failed(&resolved, error)),
    }
}

fn open_device() -> Result<Arc<OwnedFd>, OsErrno> {
    rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map(Arc::new)
}

fn mount_by_system_call(dir: &Path, options: &MountOptions, descriptor: &OwnedFd) -> Result<(), OsErrno> {
    // Both ids are those of the namespace we are in; the kernel refuses ids that do not map.
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut text = format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", descriptor.as_raw_fd());
    for (wanted, word) in [(options.allow_other, ",allow_other"), (options.default_permissions, ",default_permissions")]
    {
        text.push_str(if wanted { word } else { "" });
    }
    let text = CString::new(text).map_err(|_| OsErrno::INVAL)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, options.read_only);
    let file_system = format!("fuse.{}", options.subtype);
    rustix::mount::mount(options.source.as_str(), dir, file_system.as_str(), flags, text.as_c_str())
}

fn mount_failed(dir: PathBuf, error: OsErrno) -> MountError {
    match error {
        OsErrno::NOENT => MountError::MountPoint { dir, fault: MountPointFault::Missing },
        OsErrno::NOTDIR => MountError::MountPoint { dir, fault: MountPointFault::NotDirectory },
        OsErrno::ACCESS => MountError::MountPoint { dir, fault: MountPointFault::Denied },
        OsErrno::NODEV => MountError::NoDevice { dir },
        OsErrno::NOTCONN => MountError::Stale { dir },
        _ => MountError::Io { action: "mount on", dir, source: error.into() },
    }
}

impl Mount {
    fn new(dir: PathBuf, descriptor: Arc<OwnedFd>, how: How, options: &MountOptions) -> Self {
        let device = mount_table::device_of_own(&dir).ok().flatten();
        if let Some(device) = device {
            raise_read_ahead(device, options.read_ahead_bytes);
        }
        Self { dir, descriptor, how, device, mounted: true }
    }

    /// A mount that another process made, as the one that unmounts it: `dir` and `device` are what its `dir` and `device`
    /// said there.
    #[must_use]
    pub fn adopt(dir: PathBuf, device: Option<(u32, u32)>, descriptor: Arc<OwnedFd>) -> Self {
        Self { dir, descriptor, how: How::Adopted, device, mounted: true }
    }

    /// Where, as an absolute path without links.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The connection to the kernel. The mount dies when the last share of it is dropped.
    #[must_use]
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.descriptor)
    }

    /// Its connection, to be ended for all who share it.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection::new(self.descriptor(), self.device)
    }

    /// How it was made: `mount(2)`, or by `fusermount3` or `fusermount`.
    #[must_use]
    pub fn how(&self) -> &'static str {
        match self.how {
            How::SystemCall => "mount(2)",
            How::Fusermount(program) => program,
            How::Adopted => "its keeper",
        }
    }

    /// Major and minor device number of its files, where `/proc` tells.
    #[must_use]
    pub fn device(&self) -> Option<(u32, u32)> {
        self.device
    }

    /// Leaves the mount where it is, to whoever else has a share of the connection.
    pub fn leave(mut self) {
        self.mounted = false;
    }

    /// Unmounts. A mount that is gone already is no error.
    ///
    /// # Errors
    /// The error of `umount2(2)` or fusermount3; the mount is still there then.
    pub fn unmount(mut self) -> Result<(), MountError> {
        self.unmount_once()
    }

    fn unmount_once(&mut self) -> Result<(), MountError> {
        // Device numbers are used again: as long as the connection is alive it is ours.
        if !std::mem::take(&mut self.mounted) || self.connection().is_ended() {
            return Ok(());
        }
        let failed = |source| MountError::Io { action: "find the mount of", dir: self.dir.clone(), source };
        let is_this = |mounted: &MountedAt| mounted.is_whole && Some(mounted.device) == self.device;
        MountedAt::all().map_err(failed)?.iter().filter(|mounted| is_this(mounted)).try_for_each(detach_mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.how == How::Adopted {
            return;
        }
        if let Err(failed) = self.unmount_once() {
            tracing::warn!(%failed, "a mount was left behind");
        }
    }
}

/// Raises the mount's read-ahead window: reads of a sequential program then take 1 MiB, not 128 KiB. Only root may.
fn raise_read_ahead((major, minor): (u32, u32), read_ahead_bytes: u32) {
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(refused) = fs::write(&path, format!("{}\n", read_ahead_bytes / 1024)) {
        tracing::debug!(path, %refused, "the kernel's read-ahead window stays as it is");
    }
}

/// Whether a FUSE mount is at `dir` whose daemon died. Asks the mount, so it waits as long as a living daemon does.
#[must_use]
pub fn is_stale(dir: &Path) -> bool {
    let Ok(Some(mounted)) = MountedAt::find(dir) else {
        return false;
    };
    // statfs always asks the daemon; stat would be answered from the kernel's cache.
    mounted.is_fuse() && matches!(rustix::fs::statfs(&mounted.dir), Err(OsErrno::NOTCONN | OsErrno::CONNABORTED))
}

/// Unmounts exactly this line of the table of mounts, without waiting for the programs that use it. One that is not at its
/// place any more is no error.
///
/// # Errors
/// As `detach`.
pub fn detach_mount(mounted: &MountedAt) -> Result<(), MountError> {
    detach_after(mounted, || ())
}

/// The same of a mount that no daemon serves any more. Its connection ends for all who share it, and requests in flight fail.
///
/// # Errors
/// As `detach`.
pub fn end_mount(mounted: &MountedAt) -> Result<(), MountError> {
    detach_after(mounted, || {
        if let Err(error) = connection::abort(mounted.device) {
            tracing::debug!(%error, dir = %mounted.dir.display(), "the connection ends with the last process that has it");
        }
    })
}

fn detach_after(mounted: &MountedAt, prepare: impl FnOnce()) -> Result<(), MountError> {
    let dir = &mounted.dir;
    let failed = |source: io::Error| MountError::Io { action: "unmount", dir: dir.clone(), source };
    let place = match mount_table::open_place(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        place => place.map_err(failed)?,
    };
    // Others may move what is on the way: the descriptor says what it is, and is what is unmounted.
    if MountedAt::of(&place).map_err(failed)?.map(|found| found.id) != Some(mounted.id) {
        return Ok(());
    }
    prepare();
    match rustix::mount::unmount(format!("/proc/thread-self/fd/{}", place.as_raw_fd()), UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        // It looks itself whose mount it unmounts.
        Err(OsErrno::PERM) => fusermount::unmount(dir).map_err(|text| failed(io::Error::other(text))),
        Err(error) => Err(failed(error.into())),
    }
}

/// Unmounts what is at `dir`, whoever made it, without waiting for the programs that use it.
///
/// # Errors
/// `Io` with what `umount2(2)` says, or `NotPermitted` with what fusermount3 says where the system call is not permitted.
pub fn detach(dir: &Path) -> Result<(), MountError> {
    let failed = |source: io::Error| MountError::Io { action: "unmount", dir: dir.into(), source };
    let dir = mount_table::resolve(dir).map_err(failed)?;
    match rustix::mount::unmount(&dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(OsErrno::PERM) => fusermount::unmount(&dir).map_err(|text| failed(io::Error::other(text))),
        Err(error) => Err(failed(error.into())),
    }
}
