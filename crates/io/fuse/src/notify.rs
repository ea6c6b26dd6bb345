//! The daemon's notifications to the kernel: that something cached is no longer true, or bytes to cache.
//!
//! Call these from a thread that answers no request at that moment: the kernel takes the inode's locks, which a
//! process may hold that waits for the very request. Each returns whether the kernel had anything to do: `Ok(false)`
//! means that it did not know the node or name, and is no fault.

use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use forebay_types::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, notify_code};
use crate::device::Device;

/// The minor version that brought `INC_EPOCH`.
const MINOR_EPOCH: u32 = 44;

/// Sends notifications on one session. Holds the descriptor only while sending, so a clone left over keeps no mount
/// alive; after the session's end every call fails with ENODEV.
#[derive(Clone)]
pub struct Notifier {
    device: Weak<Device>,
    minor: u32,
}

impl Notifier {
    pub(crate) fn new(device: &Arc<Device>, minor: u32) -> Self {
        Self { device: Arc::downgrade(device), minor }
    }

    /// The node's attributes are no longer true, nor its cached pages of `len` bytes from `offset`. A `len` of 0 or
    /// less means to the end; a negative `offset` means the attributes only.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn inval_inode(&self, node: u64, offset: i64, len: i64) -> io::Result<bool> {
        let out = abi::NotifyInvalInodeOut { ino: node, off: offset, len };
        self.send(notify_code::INVAL_INODE, &[out.as_bytes()], &[])
    }

    /// The kernel's entry for `name` in the directory, positive or negative, is no longer true.
    ///
    /// # Errors
    /// The kernel's error; ENAMETOOLONG for a name that cannot be.
    pub fn inval_entry(&self, parent: u64, name: &[u8]) -> io::Result<bool> {
        let out = abi::NotifyInvalEntryOut { parent, namelen: name_len(name)?, flags: 0 };
        self.send(notify_code::INVAL_ENTRY, &[out.as_bytes(), name, &[0]], &[])
    }

    /// `name`, which led to node `child`, was deleted: watchers (inotify) see it too. `Ok(false)` when the name leads
    /// elsewhere by now; it is then looked up again.
    ///
    /// # Errors
    /// The kernel's error; EBUSY or ENOTEMPTY for a directory in use.
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) -> io::Result<bool> {
        let out = abi::NotifyDeleteOut { parent, child, namelen: name_len(name)?, padding: 0 };
        self.send(notify_code::DELETE, &[out.as_bytes(), name, &[0]], &[])
    }

    /// Puts bytes into the kernel's page cache, as if they had been read: 1 MiB at a time is a good size. The kernel must
    /// know the node, and its size is raised to the end of the bytes if it was less. Only whole pages are kept, or a part
    /// of one that ends at the file's end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn store(&self, node: u64, offset: u64, parts: &[Bytes]) -> io::Result<bool> {
        let size: usize = parts.iter().map(Bytes::len).sum();
        let size = u32::try_from(size).map_err(|_| io::Error::from(Errno::EFBIG))?;
        let out = abi::NotifyStoreOut { nodeid: node, offset, size, padding: 0 };
        self.send(notify_code::STORE, &[out.as_bytes()], parts)
    }

    /// Every name that the kernel knows of this mount is to be looked up again before it is used next.
    ///
    /// # Errors
    /// EOPNOTSUPP where the kernel has no such notification (before Linux 6.16), else what it says.
    pub fn epoch(&self) -> io::Result<bool> {
        if self.minor < MINOR_EPOCH {
            return Err(Errno::EOPNOTSUPP.into());
        }
        self.send(notify_code::INC_EPOCH, &[], &[])
    }

    /// Lets the kernel send all requests again that were read from the connection and not answered, by whomever. Their
    /// numbers have the highest bit set then, in answers and interrupts too.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn resend(&self) -> io::Result<bool> {
        self.send(notify_code::RESEND, &[], &[])
    }

    fn send(&self, code: i32, fixed: &[&[u8]], parts: &[Bytes]) -> io::Result<bool> {
        let device = self.device.upgrade().ok_or(io::Error::from(Errno::ENODEV))?;
        match device.send(code, 0, fixed, parts) {
            Ok(()) => Ok(true),
            Err(error) if Errno::of(&error) == Errno::ENOENT => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn name_len(name: &[u8]) -> io::Result<u32> {
    u32::try_from(name.len()).map_err(|_| Errno::ENAMETOOLONG.into())
}
