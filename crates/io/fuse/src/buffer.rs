//! Where readers put what they read: memory of this daemon, or memory that outlives it (`kept_requests`).
//!
//! A request that is large and waits stays where it was read, and its reader goes on with other memory. So memory is shared: by its reader,
//! by the task that has the request, and, where it outlives the daemon, by the reply, which empties it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::Device;
use crate::kept_requests::{Intake, KeptRequests, Slot};
use crate::limits;

/// Memory for one request of the largest size.
pub(crate) struct Space {
    memory: Memory,
    /// Whether the request in it is answered, which others may still look at.
    is_answered: AtomicBool,
    /// Where it goes when it is free.
    free: Arc<Free>,
}

enum Memory {
    Own(Vec<u8>),
    Kept(Intake),
}

/// Memory of this daemon that nobody uses.
#[derive(Default)]
pub(crate) struct Free(Mutex<Vec<Vec<u8>>>);

/// The memory that one reader reads into.
pub(crate) struct Buffer {
    space: Arc<Space>,
    /// A slot for the next request, where it has to be kept.
    reserved: Option<Slot>,
    /// The request that was moved there.
    moved: Vec<u8>,
}

/// A request that was read.
pub(crate) struct Read<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where it is kept.
    pub(crate) slot: Option<Slot>,
    /// Where it is, if a task is to have it there.
    pub(crate) space: Option<&'a Arc<Space>>,
}

impl Space {
    /// Fresh memory, or some that was used before.
    pub(crate) fn new(device: &Device, free: &Arc<Free>) -> io::Result<Arc<Self>> {
        let memory = match &device.kept {
            Some(kept) => Memory::Kept(kept.intake()?),
            // Written to, so that its pages are there: a reader that is killed while the kernel copies a request into
            // pages that it would have to make first fails that request with EIO, and the program sees it.
            None => Memory::Own(free.lock().pop().unwrap_or_else(|| vec![1; device.request_bytes_max])),
        };
        Ok(Arc::new(Self { memory, is_answered: AtomicBool::new(false), free: Arc::clone(free) }))
    }

    /// A request that was found when the daemon began.
    pub(crate) fn found(intake: Intake) -> Arc<Self> {
        Arc::new(Self { memory: Memory::Kept(intake), is_answered: AtomicBool::new(false), free: Arc::default() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Own(bytes) => bytes,
            Memory::Kept(intake) => intake.bytes(),
        }
    }

    /// Its request has been answered: the memory is emptied when nobody has it any more.
    pub(crate) fn note_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    /// How much of the memory a request of `len` bytes takes that stays there.
    pub(crate) fn taken_by(&self, len: usize) -> usize {
        self.bytes().len().max(len)
    }

    fn clear(&mut self) {
        *self.is_answered.get_mut() = false;
        if let Memory::Kept(intake) = &mut self.memory {
            intake.clear();
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Own(bytes) => bytes,
            Memory::Kept(intake) => intake.buffer(),
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if *self.is_answered.get_mut() {
            self.clear();
        }
        if let Memory::Own(bytes) = &mut self.memory {
            let mut free = self.free.lock();
            if free.len() < limits::FREE_SPACES_MAX {
                free.push(std::mem::take(bytes));
            }
        }
    }
}

impl Free {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    pub(crate) fn new(device: &Device, free: &Arc<Free>) -> io::Result<Self> {
        Ok(Self { space: Space::new(device, free)?, reserved: None, moved: Vec::new() })
    }

    /// Memory to read into, of this reader alone.
    pub(crate) fn bytes(&mut self, device: &Device) -> io::Result<&mut [u8]> {
        if Arc::get_mut(&mut self.space).is_none() {
            self.space = Space::new(device, &self.space.free)?;
        }
        // A task may have ended just now.
        self.clear();
        // It is not shared: `else` is never reached.
        Arc::get_mut(&mut self.space).map(Space::bytes_mut).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Makes room for what is read next; false when the session ends first.
    pub(crate) fn reserve(&mut self, kept: Option<&KeptRequests>) -> bool {
        if let (Some(kept), None) = (kept, self.reserved) {
            self.reserved = kept.reserve();
        }
        kept.is_none() || self.reserved.is_some()
    }

    /// The request of `len` bytes that was read.
    pub(crate) fn keep(&mut self, kept: Option<&KeptRequests>, len: usize) -> Read<'_> {
        if let Some(kept) = kept.filter(|_| KeptRequests::fits(&self.space.bytes()[..len]))
            && let Some(slot) = self.reserved.take()
        {
            self.moved.clear();
            self.moved.extend_from_slice(&self.space.bytes()[..len]);
            kept.store(slot, &self.moved);
            self.clear();
            return Read { bytes: &self.moved, slot: Some(slot), space: None };
        }
        let request = &self.space.bytes()[..len];
        // A copy of a small one costs less than other memory for the reader, but is lost with this daemon.
        let is_left_there = kept.is_some() || len > limits::COPIED_REQUEST_BYTES_MAX;
        Read { bytes: request, slot: None, space: is_left_there.then_some(&self.space) }
    }

    /// The request has been handled. If it is not answered yet, it stays.
    pub(crate) fn clear(&mut self) {
        if let Some(space) = Arc::get_mut(&mut self.space) {
            space.clear();
        }
    }
}
