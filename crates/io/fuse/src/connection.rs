//! The connection of a mount to the kernel, and its end for all who share it.
//!
//! A connection ends when the last process has closed it. A process that the kernel holds until a request is answered closes nothing, so
//! where nobody is to answer any more, the connection is aborted: requests in flight fail. The kernel's file for that belongs to the user
//! who mounted. Where no file system shows it, as in containers, root mounts that file system for itself, at no place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno as OsErrno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Where the kernel shows connections: `fusectl`.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// One process's share of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    descriptor: Arc<OwnedFd>,
    device: Option<(u32, u32)>,
}

impl Connection {
    pub(crate) fn new(descriptor: Arc<OwnedFd>, device: Option<(u32, u32)>) -> Self {
        Self { descriptor, device }
    }

    /// Whether it has ended, because somebody unmounted or aborted it.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        let mut polled = [PollFd::new(&*self.descriptor, PollFlags::empty())];
        poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::ERR)
    }

    /// Ends it, whoever else has a share of it. Requests in flight fail with ECONNABORTED. Unmount first.
    pub fn abort(&self) {
        // Device numbers are used again: as long as the connection is alive it is ours.
        let Some(device) = self.device.filter(|_| !self.is_ended()) else { return };
        if let Err(error) = abort(device) {
            tracing::debug!(%error, "the connection ends with the last process that has it");
        }
    }
}

/// Aborts the connection of the mount with this device, which must be there.
pub(crate) fn abort((major, minor): (u32, u32)) -> io::Result<()> {
    // As the kernel numbers devices itself.
    let path = format!("{}/abort", u64::from(major) << 20 | u64::from(minor));
    let open_in =
        |directory: OwnedFd| openat(directory.as_fd(), &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let shown = open(CONNECTIONS, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).and_then(open_in);
    let file = match shown {
        Err(OsErrno::NOENT) => connections().and_then(open_in)?,
        shown => shown?,
    };
    rustix::io::write(&file, b"1")?;
    Ok(())
}

/// The file system that shows connections, for this process alone.
fn connections() -> Result<OwnedFd, OsErrno> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
