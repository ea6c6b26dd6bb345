//! The end of the kernel's beliefs, in memory that outlives the daemon.
//!
//! A daemon does not know the leases that the kernel has from daemons before it. Their common end is kept by the keeper, so that the next daemon
//! waits no longer than they last, for instance before it lets the new leader of the tree change anything.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_write::LEASE_TTL;

use crate::environment::since_boot;

/// The end is written down so much later, so that it need not be written for each lease.
const AHEAD: Duration = Duration::from_millis(500);

/// See the module.
pub struct KernelLeases {
    /// Milliseconds since the machine was started, as eight bytes. There is none where no daemon came before.
    memory: Option<File>,
    written_ms: AtomicU64,
}

impl KernelLeases {
    pub fn new(memory: Option<OwnedFd>) -> Self {
        let memory = memory.map(File::from);
        let written_ms = AtomicU64::new(memory.as_ref().map_or(0, read));
        Self { memory, written_ms }
    }

    /// How long the kernel may believe leases of daemons before this one.
    pub fn left(&self) -> Duration {
        match &self.memory {
            Some(_) => Duration::from_millis(self.written_ms.load(Ordering::Relaxed))
                .saturating_sub(since_boot())
                .min(LEASE_TTL),
            None => LEASE_TTL,
        }
    }

    /// The kernel is about to get a lease for so long. Whether the next daemon will know that.
    pub fn note(&self, lease: Duration) -> bool {
        let Some(memory) = &self.memory else { return true };
        let until_ms = (since_boot() + lease).as_millis() as u64;
        if until_ms <= self.written_ms.load(Ordering::Relaxed) {
            return true;
        }
        let until_ms = until_ms + AHEAD.as_millis() as u64;
        let is_written = memory.write_all_at(&until_ms.to_le_bytes(), 0).is_ok();
        if is_written {
            self.written_ms.store(until_ms, Ordering::Relaxed);
        }
        is_written
    }
}

/// The end that a daemon before this one has written; where it cannot be read, none that is near.
fn read(memory: &File) -> u64 {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, 0).map_or(u64::MAX, |()| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8).unwrap();
        file
    }

    fn kernel_leases(memory: &File) -> KernelLeases {
        KernelLeases::new(Some(memory.try_clone().unwrap().into()))
    }

    #[test]
    fn the_next_daemon_knows_the_last_lease_and_no_more() {
        let memory = memory();
        let first = kernel_leases(&memory);
        assert_eq!(first.left(), Duration::ZERO, "no lease was granted");
        assert!(first.note(Duration::from_secs(2)) && first.note(Duration::from_secs(1)));
        let left = kernel_leases(&memory).left();
        assert!(left > Duration::from_secs(1) && left <= Duration::from_secs(2) + AHEAD, "{left:?}");
    }

    #[test]
    fn without_readable_memory_the_longest_lease_is_assumed() {
        assert_eq!(KernelLeases::new(None).left(), LEASE_TTL);
        let memory = memory();
        memory.set_len(3).unwrap();
        assert_eq!(kernel_leases(&memory).left(), LEASE_TTL);
    }
}
