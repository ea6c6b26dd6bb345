//! The terms agreed with the kernel when a connection begins.
//!
//! Only flags that the kernel offers and that this crate lives by are taken. A view takes no locks, so that `flock` and
//! `fcntl` locks stay the kernel's own and are real, within the node; a mount that is written to takes them. `AUTO_INVAL_DATA` is taken for a mount that is written to, where other nodes
//! change files: each read from the page cache looks at size and time first. The daemon of a view says itself when contents change.
//! The write-back cache is not taken: with it the kernel does not believe the daemon about size and times.

use crate::abi::{self, init_flag};
use crate::options::{Access, SessionOptions};

/// Flags that the session asks for where the kernel offers them.
const WANTED: u64 = init_flag::ASYNC_READ
    | init_flag::HAS_IOCTL_DIR
    | init_flag::DO_READDIRPLUS
    | init_flag::READDIRPLUS_AUTO
    | init_flag::PARALLEL_DIROPS
    | init_flag::MAX_PAGES
    | init_flag::CACHE_SYMLINKS
    | init_flag::INIT_EXT
    | init_flag::HAS_RESEND;

const WANTED_NO_OPEN: u64 = init_flag::NO_OPEN_SUPPORT | init_flag::NO_OPENDIR_SUPPORT;

/// Bytes of the largest request; with pages of 4 KiB the kernel's own limit for those without privileges.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Pages of the largest request of a kernel that cannot be told how many: its own constant.
const PAGES_FIXED: u16 = 32;

const WANTED_TO_WRITE: u64 = init_flag::BIG_WRITES
    | init_flag::EXPORT_SUPPORT
    | init_flag::HANDLE_KILLPRIV_V2
    | init_flag::DIRECT_IO_ALLOW_MMAP
    | init_flag::AUTO_INVAL_DATA
    | init_flag::POSIX_LOCKS
    | init_flag::FLOCK_LOCKS;

/// The agreed terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiated {
    /// Minor version both sides speak.
    pub minor: u32,
    /// `init_flag` bits in force.
    pub flags: u64,
    /// The flags that the kernel offered.
    pub offered: u64,
    /// Requests it may have waiting in the background.
    pub max_background: u16,
    /// Bytes of the largest read.
    pub request_bytes_max: u32,
}

impl Negotiated {
    /// Whether ENOSYS to OPEN ends those messages.
    #[must_use]
    pub fn no_open(&self) -> bool {
        self.flags & init_flag::NO_OPEN_SUPPORT != 0
    }

    /// Whether the kernel can be asked for the requests in flight again (Linux 6.9).
    #[must_use]
    pub fn can_resend(&self) -> bool {
        self.flags & init_flag::HAS_RESEND != 0
    }

    /// Whether ENOSYS to OPENDIR ends those messages.
    #[must_use]
    pub fn no_opendir(&self) -> bool {
        self.flags & init_flag::NO_OPENDIR_SUPPORT != 0
    }
}

/// Decides the answer to a kernel that speaks version 7.`minor` and offers `offered`.
pub(crate) fn negotiate(minor: u32, offered: u64, options: &SessionOptions) -> Negotiated {
    let opened = if options.no_open { WANTED_NO_OPEN } else { 0 };
    let by_access = if options.access == Access::ReadWrite { WANTED_TO_WRITE } else { init_flag::EXPLICIT_INVAL_DATA };
    let flags = (WANTED | opened | by_access) & offered;
    let page_bytes = rustix::param::page_size();
    let pages = if flags & init_flag::MAX_PAGES != 0 { pages_max(page_bytes) } else { PAGES_FIXED };
    Negotiated {
        minor: minor.min(abi::MINOR),
        flags,
        offered,
        max_background: options.max_background,
        request_bytes_max: u32::from(pages) * page_bytes as u32,
    }
}

/// Pages of the largest request where they have `page_bytes`.
fn pages_max(page_bytes: usize) -> u16 {
    (REQUEST_BYTES_MAX / page_bytes).max(1) as u16
}

/// The answer on the wire.
pub(crate) fn answer(negotiated: &Negotiated, options: &SessionOptions) -> abi::InitOut {
    abi::InitOut {
        major: abi::MAJOR,
        minor: negotiated.minor,
        // The kernel takes the lesser of this and the mount's own window.
        max_readahead: options.read_ahead_bytes,
        flags: negotiated.flags as u32,
        flags2: (negotiated.flags >> 32) as u32,
        max_background: options.max_background,
        // The kernel's own rule: from three quarters on the mount counts as congested and read-ahead holds back.
        congestion_threshold: (u32::from(options.max_background) * 3 / 4) as u16,
        max_write: options.access.write_bytes_max(),
        time_gran: 1,
        max_pages: pages_max(rustix::param::page_size()),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_takes_neither_locks_nor_automatic_invalidation() {
        let negotiated = negotiate(45, u64::MAX, &SessionOptions::default());
        let refused = init_flag::POSIX_LOCKS | init_flag::FLOCK_LOCKS | init_flag::AUTO_INVAL_DATA;
        assert_eq!(negotiated.flags & refused, 0);
        assert!(negotiated.no_open() && negotiated.no_opendir());
    }

    #[test]
    fn the_largest_request_is_as_large_whatever_the_size_of_a_page() {
        assert_eq!([4, 16, 64, 2048].map(|kib| pages_max(kib << 10)), [256, 64, 16, 1]);
    }

    #[test]
    fn no_feature_is_used_that_the_kernel_does_not_offer() {
        let negotiated = negotiate(31, init_flag::ASYNC_READ, &SessionOptions::default());
        assert_eq!((negotiated.minor, negotiated.flags), (31, init_flag::ASYNC_READ));
        assert_eq!(negotiated.request_bytes_max as usize, 32 * rustix::param::page_size());
        assert_eq!(negotiate(99, 0, &SessionOptions::default()).minor, abi::MINOR);
    }
}
