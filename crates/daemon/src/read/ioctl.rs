//! Requests that programs may make of the view's root directory by ioctl(2); the C view of it is `include/forebay.h`.
//!
//! A process that may enter the view may read its counts. Changes of the node are for the job's user alone.

use std::sync::Arc;

use forebay_cache::ObjectKind;
use forebay_fuse::Reply;
use forebay_read::{InodeId, ROOT_INODE};
use forebay_types::{Errno, ViewPath};

use super::backing::Backing;
use super::core::Core;
use super::view::{View, invalidate};
use crate::shared::node::Node;

/// `FOREBAY_IOC_METRICS`: reads a `struct forebay_metrics`.
const METRICS: u32 = command(READ, METRICS_BYTES, 1);
/// `FOREBAY_IOC_CLEAR`: drops this node's caches and the kernel's for this view.
const CLEAR: u32 = command(0, 0, 2);
/// `FOREBAY_IOC_PIN`: keeps what is read at or below a path; the argument is a NUL-ended path of 4,096 bytes.
const PIN: u32 = command(WRITE, PIN_BYTES, 3);

const READ: u32 = 2;
const WRITE: u32 = 1;
const PIN_BYTES: u32 = 4096;

/// Version of `struct forebay_metrics`; fields are added at its end, never moved.
const METRICS_VERSION: u32 = 1;
const METRICS_WORDS: usize = 17;
const METRICS_BYTES: u32 = 8 + 8 * METRICS_WORDS as u32;

/// The encoding of `_IOC` (asm-generic/ioctl.h) with type 'F'.
const fn command(direction: u32, bytes: u32, number: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'F' as u32) << 8 | number
}

/// The parts that answer.
pub struct Ioctls {
    node: Arc<Node>,
    core: Arc<Core>,
    backing: Arc<Backing>,
    view: Arc<View>,
}

impl Ioctls {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>, backing: &Arc<Backing>, view: &Arc<View>) -> Self {
        Self { node: Arc::clone(node), core: Arc::clone(core), backing: Arc::clone(backing), view: Arc::clone(view) }
    }

    /// Answers an ioctl of user `uid` on a directory.
    pub fn answer(&self, (inode, uid): (InodeId, u32), command: u32, input: &[u8], output_bytes: u32, reply: Reply) {
        if inode != ROOT_INODE {
            return reply.error(Errno::ENOTTY);
        }
        match command {
            METRICS if output_bytes >= METRICS_BYTES => reply.ioctl(0, &self.metrics()),
            CLEAR | PIN if uid != rustix::process::geteuid().as_raw() => reply.error(Errno::EPERM),
            CLEAR => self.clear(reply),
            PIN => match self.pin(input) {
                Ok(()) => reply.ioctl(0, &[]),
                Err(errno) => reply.error(errno),
            },
            _ => reply.error(Errno::ENOTTY),
        }
    }

    fn metrics(&self) -> Vec<u8> {
        let core = self.core.lock();
        let kinds = [ObjectKind::Attributes, ObjectKind::Listings, ObjectKind::Chunks].map(|kind| core.kept(kind));
        let (counters, kept_bytes) = (core.counters(), core.kept_bytes());
        drop(core);
        let backing = self.backing.counters();
        let options = &self.node.options;
        let mut words = vec![kept_bytes, options.budget_bytes, counters.negative_hits, counters.dispatch.coalesced];
        words.extend(kinds.iter().flat_map(|kind| [kind.entries, kind.hits, kind.misses]));
        words.extend([backing.listings, backing.opens, backing.reads, backing.bytes]);
        debug_assert_eq!(words.len(), METRICS_WORDS);
        let mut bytes = Vec::with_capacity(METRICS_BYTES as usize);
        bytes.extend_from_slice(&METRICS_VERSION.to_ne_bytes());
        bytes.extend_from_slice(&options.rank.0.to_ne_bytes());
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
        bytes
    }

    fn pin(&self, input: &[u8]) -> Result<(), Errno> {
        let end = input.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
        let path = ViewPath::from_absolute(&input[..end]).map_err(|_| Errno::EINVAL)?;
        self.core.lock().pin(path)
    }

    /// Drops this node's caches at once, then the kernel's, on a thread of its own: the kernel may make a notification wait
    /// for a request that only this reader would take. The program is answered when both are done.
    fn clear(&self, reply: Reply) {
        let Some(notifier) = self.view.notifier() else {
            return reply.error(Errno::EBUSY);
        };
        let stale = self.core.decide(|core, _| core.clear());
        self.backing.forget_descriptors();
        drop(self.node.block(move || match invalidate(&notifier, &stale) {
            true => reply.ioctl(0, &[]),
            false => reply.error(Errno::EAGAIN),
        }));
    }
}
