//! A caller's choices: how a view is mounted, and how its session runs.

use forebay_types::threads;

use crate::limits;

/// Requests the kernel may have waiting in the background, read-ahead mostly.
const KERNEL_BACKGROUND: u16 = 64;

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The source in `/proc/mounts`.
    pub source: String,
    /// `forebay` gives the type `fuse.forebay`.
    pub subtype: String,
    /// Whether the kernel answers EROFS to every change without asking.
    pub read_only: bool,
    /// Whether other users than the one who mounts may enter; needs root or `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Whether the kernel checks permission bits.
    pub default_permissions: bool,
    /// How far the kernel may read ahead, bytes, where raising that is permitted (else it stays at 128 KiB).
    pub read_ahead_bytes: u32,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            source: "forebay".into(),
            subtype: "forebay".into(),
            read_only: true,
            allow_other: false,
            default_permissions: true,
            read_ahead_bytes: limits::KERNEL_READ_AHEAD_BYTES,
        }
    }
}

/// How a session runs.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Reader threads.
    pub readers: usize,
    /// Requests that the kernel may have waiting in the background (read-ahead, mostly).
    pub max_background: u16,
    /// How far the kernel may read ahead, bytes; the lesser of this and the mount's own window counts.
    pub read_ahead_bytes: u32,
    /// The access that programs have.
    pub access: Access,
    /// Whether opening files and directories sends no message. The session then answers OPEN and OPENDIR itself; on a
    /// kernel that cannot do without them it keeps cached pages and listings.
    pub no_open: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            readers: threads::KERNEL_READERS,
            max_background: KERNEL_BACKGROUND,
            read_ahead_bytes: limits::KERNEL_READ_AHEAD_BYTES,
            access: Access::ReadOnly,
            no_open: true,
        }
    }
}

/// The access that programs have to a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read.
    ReadOnly,
    /// Read and write, up to `limits::WRITE_BYTES_MAX` at once.
    ReadWrite,
}

impl Access {
    /// Bytes of the largest request.
    pub(crate) fn request_bytes_max(self) -> usize {
        match self {
            Self::ReadOnly => limits::KERNEL_BUFFER_BYTES,
            Self::ReadWrite => limits::WRITE_BUFFER_BYTES,
        }
    }

    /// Bytes of the largest WRITE. On a read-only mount there are none: it is the least that the kernel allows.
    pub(crate) fn write_bytes_max(self) -> u32 {
        match self {
            Self::ReadOnly => 4096,
            Self::ReadWrite => limits::WRITE_BYTES_MAX,
        }
    }
}
