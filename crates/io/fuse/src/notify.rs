//! The daemon's notifications to the kernel: that something cached is no longer true, or bytes to cache.
//!
//! Call these from a thread that answers no request at that moment: the kernel takes the inode's locks, which a
//! process may hold that waits for the very request. Each returns whether the kernel had anything to do: `Ok(false)`
//! means that it did not know the node or name, and is no fault. Notifications that take back pages or names are written by a process of
//! their own where the session has one (`Session::invalidate_by`).

use std::io;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use forebay_types::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, OutHeader, notify_code};
use crate::device::Device;
use crate::invalidator::{Answered, Died, Invalidator, NOTIFICATIONS_BYTES_MAX};
use crate::waiting_threads::WaitingThreads;

/// The minor version that brought `INC_EPOCH`.
const MINOR_EPOCH: u32 = 44;

/// Sends notifications on one session. Holds the descriptor only while sending, so a clone left over keeps no mount
/// alive; after the session's end every call fails with ENODEV.
#[derive(Clone)]
pub struct Notifier {
    device: Weak<Device>,
    minor: u32,
    /// Shared with all clones.
    invalidator: Arc<OnceLock<Invalidator>>,
    threads: Arc<OnceLock<WaitingThreads>>,
}

impl Notifier {
    pub(crate) fn new(device: &Arc<Device>, minor: u32) -> Self {
        Self { device: Arc::downgrade(device), minor, invalidator: Arc::default(), threads: Arc::default() }
    }

    pub(crate) fn set_invalidator(&self, invalidator: Invalidator, threads: WaitingThreads) {
        let _ = (self.invalidator.set(invalidator), self.threads.set(threads));
    }

    pub(crate) fn end_invalidator(&self) {
        if let Some(invalidator) = self.invalidator.get() {
            invalidator.end();
        }
    }

    /// The node's attributes are no longer true, nor its cached pages of `len` bytes from `offset`. A `len` of 0 or
    /// less means to the end; a negative `offset` means the attributes only.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn inval_inode(&self, node: u64, offset: i64, len: i64) -> io::Result<bool> {
        let out = abi::NotifyInvalInodeOut { ino: node, off: offset, len };
        self.invalidate(notify_code::INVAL_INODE, &[out.as_bytes()])
    }

    /// The node's attributes are no longer true, nor are its cached pages. Its size is raised to that of `last`, the file's size and last byte: the
    /// kernel ignores the size in an answer to a question that it asked before.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn renew_pages(&self, node: u64, last: Option<(u64, u8)>) -> io::Result<()> {
        let mut batch = Batch { notifier: self, bytes: Vec::new(), outcome: Ok(()) };
        renewal(node, last, |code, fixed| batch.add(code, fixed))?;
        batch.send();
        batch.outcome
    }

    /// The same, and waits for nothing: where the process does not run that notifies the kernel, a thread waits. `renewed` may not wait.
    pub fn renew_pages_then(
        &self,
        node: u64,
        last: Option<(u64, u8)>,
        renewed: impl FnOnce(io::Result<()>) + Send + 'static,
    ) {
        let mut notifications = Ok(vec![]);
        let add = |code, fixed: &[&[u8]]| match (notification(code, fixed), &mut notifications) {
            (Ok(more), Ok(all)) => all.extend(more),
            (Err(error), all) => *all = Err(error),
            (Ok(_), Err(_)) => {}
        };
        let notifications = match renewal(node, last, add).and(notifications) {
            Ok(notifications) => notifications,
            Err(error) => return renewed(Err(error)),
        };
        let notifier = self.clone();
        let answered: Answered = Box::new(move |answer| match answer {
            Ok(0 | libc::ENOENT) => renewed(Ok(())),
            Ok(errno) => renewed(Err(io::Error::from_raw_os_error(errno))),
            Err(Died) => {
                let threads = Arc::clone(&notifier.threads);
                let wait = move || renewed(notifier.renew_pages(node, last));
                match threads.get() {
                    Some(threads) => threads.run(wait),
                    None => wait(),
                }
            }
        });
        let unsent = match self.invalidator.get() {
            Some(invalidator) => invalidator.send_then(&notifications, answered),
            None => Err(answered),
        };
        if let Err(answered) = unsent {
            // As if it had died: a thread waits while the next one is started.
            answered(Err(Died));
        }
    }

    /// The kernel's entry for `name` in the directory, positive or negative, is no longer true.
    ///
    /// # Errors
    /// The kernel's error; ENAMETOOLONG for a name that cannot be.
    pub fn inval_entry(&self, parent: u64, name: &[u8]) -> io::Result<bool> {
        let out = abi::NotifyInvalEntryOut { parent, namelen: name_len(name)?, flags: 0 };
        self.invalidate(notify_code::INVAL_ENTRY, &[out.as_bytes(), name, &[0]])
    }

    /// `name`, which led to node `child`, was deleted: watchers (inotify) see it too. `Ok(false)` when the name leads
    /// elsewhere by now; it is then looked up again.
    ///
    /// # Errors
    /// The kernel's error; EBUSY or ENOTEMPTY for a directory in use.
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) -> io::Result<bool> {
        let out = abi::NotifyDeleteOut { parent, child, namelen: name_len(name)?, padding: 0 };
        self.invalidate(notify_code::DELETE, &[out.as_bytes(), name, &[0]])
    }

    /// Nodes' attributes and pages are no longer true, nor are the entries by which they are known: each a directory and a name. For many
    /// this costs less than one call after the other. All are sent, whatever becomes of one.
    ///
    /// # Errors
    /// That of one that was not sent, or not taken by the kernel.
    pub fn inval_all<'a>(&self, nodes: impl Iterator<Item = (u64, Option<(u64, &'a [u8])>)>) -> io::Result<()> {
        let mut batch = Batch { notifier: self, bytes: Vec::new(), outcome: Ok(()) };
        for (node, entry) in nodes {
            let out = abi::NotifyInvalInodeOut { ino: node, off: 0, len: -1 };
            batch.add(notify_code::INVAL_INODE, &[out.as_bytes()]);
            let Some((parent, name)) = entry else { continue };
            match name_len(name) {
                Ok(namelen) => {
                    let out = abi::NotifyInvalEntryOut { parent, namelen, flags: 0 };
                    batch.add(notify_code::INVAL_ENTRY, &[out.as_bytes(), name, &[0]]);
                }
                Err(error) => batch.outcome = Err(error),
            }
        }
        batch.send();
        batch.outcome
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

    /// The kernel may let this wait for requests in flight.
    fn invalidate(&self, code: i32, fixed: &[&[u8]]) -> io::Result<bool> {
        match self.invalidator.get() {
            Some(invalidator) => self.send_by(invalidator, &notification(code, fixed)?),
            None => self.send(code, fixed, &[]),
        }
    }

    fn send_by(&self, invalidator: &Invalidator, notifications: &[u8]) -> io::Result<bool> {
        let device = self.device()?;
        let descriptor = device.descriptor().ok_or(io::Error::from(Errno::ENODEV))?;
        let answer = invalidator.send(descriptor, notifications)?;
        is_known(if answer == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(answer)) })
    }

    fn send(&self, code: i32, fixed: &[&[u8]], parts: &[Bytes]) -> io::Result<bool> {
        is_known(self.device()?.send(code, 0, fixed, parts))
    }

    fn device(&self) -> io::Result<Arc<Device>> {
        self.device.upgrade().ok_or(Errno::ENODEV.into())
    }
}

/// Notifications that are sent together, where a process writes them.
struct Batch<'a> {
    notifier: &'a Notifier,
    bytes: Vec<u8>,
    outcome: io::Result<()>,
}

impl Batch<'_> {
    fn add(&mut self, code: i32, fixed: &[&[u8]]) {
        if self.notifier.invalidator.get().is_none() {
            return self.note(self.notifier.send(code, fixed, &[]));
        }
        match notification(code, fixed) {
            Ok(notification) => {
                if self.bytes.len() + notification.len() > NOTIFICATIONS_BYTES_MAX {
                    self.send();
                }
                self.bytes.extend(notification);
            }
            Err(error) => self.note(Err(error)),
        }
    }

    fn send(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(invalidator) = self.notifier.invalidator.get().filter(|_| !bytes.is_empty()) {
            self.note(self.notifier.send_by(invalidator, &bytes));
        }
    }

    fn note(&mut self, sent: io::Result<bool>) {
        if let Err(error) = sent {
            self.outcome = Err(error);
        }
    }
}

/// The notifications by which the kernel drops a node's pages and knows its size.
fn renewal(node: u64, last: Option<(u64, u8)>, mut add: impl FnMut(i32, &[&[u8]])) -> io::Result<()> {
    let out = abi::NotifyInvalInodeOut { ino: node, off: 0, len: 0 };
    add(notify_code::INVAL_INODE, &[out.as_bytes()]);
    if let Some((offset, byte)) = last.and_then(|(size, byte)| Some((size.checked_sub(1)?, byte))) {
        let off = i64::try_from(offset).map_err(|_| io::Error::from(Errno::EFBIG))?;
        let out = abi::NotifyStoreOut { nodeid: node, offset, size: 1, padding: 0 };
        add(notify_code::STORE, &[out.as_bytes(), &[byte]]);
        // Where the byte begins a page, the kernel takes the page for whole.
        let out = abi::NotifyInvalInodeOut { ino: node, off, len: 1 };
        add(notify_code::INVAL_INODE, &[out.as_bytes()]);
    }
    Ok(())
}

fn is_known(answer: io::Result<()>) -> io::Result<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if Errno::of(&error) == Errno::ENOENT => Ok(false),
        Err(error) => Err(error),
    }
}

/// As `/dev/fuse` takes it.
fn notification(code: i32, fixed: &[&[u8]]) -> io::Result<Vec<u8>> {
    let bytes = size_of::<OutHeader>() + fixed.iter().map(|part| part.len()).sum::<usize>();
    let len = u32::try_from(bytes).map_err(|_| io::Error::from(Errno::ENAMETOOLONG))?;
    let head = OutHeader { len, error: code, unique: 0 };
    Ok([&[head.as_bytes()], fixed].concat().concat())
}

fn name_len(name: &[u8]) -> io::Result<u32> {
    u32::try_from(name.len()).map_err(|_| Errno::ENAMETOOLONG.into())
}
