//! The requests that a daemon has taken from the kernel and not answered, in memory that outlives it.
//!
//! Linux 6.9 and later send such requests again when asked to (`FUSE_NOTIFY_RESEND`); before, they are the daemon's
//! alone, and a program whose request died with it would wait for ever. So each reader reads into a piece of shared
//! memory, its intake: there is no moment at which a request is nowhere. From there it is copied to a slot, which is free
//! again when it has been answered. The next daemon answers what it finds in slots and intakes. A request that was
//! answered just before the death is answered twice; the kernel refuses the second answer. Forgets are not repeated:
//! counted twice they would take an inode from a program that uses it, not counted they cost a few bytes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, PoisonError};

use forebay_types::limits;

use crate::request;
use crate::shared_memory::{SharedMemory, create_shared_memory, shared_memory_bytes};

/// The first word: which layout this is. Another number after every change, so that a daemon of another version refuses.
const LAYOUT: u64 = 0x4642_5245_5100_0001;

/// Room for the layout's number.
const HEAD_BYTES: usize = 4096;

/// A request that waits for its answer, bytes: a head, a name of 255 bytes and its directory's arguments fit. Larger ones
/// (an ioctl with much input) are answered before the reader takes the next one.
const SLOT_BYTES: usize = 512;

const SLOTS_BYTES: usize = limits::KERNEL_REQUESTS_KEPT * SLOT_BYTES;

/// Where the intakes begin.
const INTAKES_AT: usize = HEAD_BYTES + SLOTS_BYTES;

/// Number of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(usize);

/// The requests in flight of one session.
#[derive(Debug)]
pub struct KeptRequests {
    descriptor: OwnedFd,
    slots: Mutex<Slots>,
    freed: Condvar,
}

#[derive(Debug)]
struct Slots {
    memory: SharedMemory,
    free: Vec<Slot>,
    /// Found at the start, not yet answered.
    found: Vec<Slot>,
}

/// Where one reader reads into.
pub(crate) struct Intake(SharedMemory);

impl KeptRequests {
    /// Fresh memory for requests, to be held by whoever outlives the daemons.
    ///
    /// # Errors
    /// What `memfd_create(2)` says.
    pub fn create() -> io::Result<OwnedFd> {
        let intakes_bytes = limits::KERNEL_READERS_MAX * limits::KERNEL_BUFFER_BYTES;
        create_shared_memory("forebay-requests", INTAKES_AT + intakes_bytes)
    }

    /// Takes the memory over with the requests that are in it.
    ///
    /// # Errors
    /// EINVAL when it is not such memory, `InvalidData` when it is that of another version, else what mapping it says.
    pub fn open(descriptor: OwnedFd) -> io::Result<Self> {
        let memory = SharedMemory::map(descriptor.try_clone()?, 0, INTAKES_AT)?;
        match memory.word(0) {
            0 => memory.set_word(0, LAYOUT),
            LAYOUT => {}
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "requests kept by another version")),
        }
        let mut slots = Slots { memory, free: Vec::new(), found: Vec::new() };
        for slot in (0..limits::KERNEL_REQUESTS_KEPT).rev().map(Slot) {
            if slots.memory.word(slot.at()) == 0 { slots.free.push(slot) } else { slots.found.push(slot) }
        }
        let kept = Self { descriptor, slots: Mutex::new(slots), freed: Condvar::new() };
        kept.empty_intakes()?;
        Ok(kept)
    }

    /// Moves what readers had just taken into slots.
    fn empty_intakes(&self) -> io::Result<()> {
        let intakes = (shared_memory_bytes(self.descriptor.as_fd())? - INTAKES_AT) / limits::KERNEL_BUFFER_BYTES;
        for index in 0..intakes {
            let mut intake = self.intake(index)?;
            let request = intake.found().to_vec();
            let known = |unique| self.found().iter().any(|(_, kept)| unique_of(kept) == Some(unique));
            if unique_of(&request).is_some_and(|unique| !known(unique))
                && let Some(slot) = self.keep(&request)
            {
                self.lock().found.push(slot);
            }
            intake.clear();
        }
        Ok(())
    }

    /// The intake of reader `index`.
    pub(crate) fn intake(&self, index: usize) -> io::Result<Intake> {
        let at = INTAKES_AT + index * limits::KERNEL_BUFFER_BYTES;
        Ok(Intake(SharedMemory::map(self.descriptor.try_clone()?, at, limits::KERNEL_BUFFER_BYTES)?))
    }

    /// The requests that were found at the start and not answered yet.
    pub(crate) fn found(&self) -> Vec<(Slot, Vec<u8>)> {
        let mut slots = self.lock();
        let found = slots.found.clone();
        found.into_iter().map(|slot| (slot, slots.request(slot))).collect()
    }

    /// Keeps a request; waits while all slots are taken. `None` for one that needs no answer or is too large.
    pub(crate) fn keep(&self, request: &[u8]) -> Option<Slot> {
        if request.len() > SLOT_BYTES || unique_of(request).is_none() {
            return None;
        }
        let mut slots = self.lock();
        loop {
            if let Some(slot) = slots.free.pop() {
                slots.store(slot, request);
                return Some(slot);
            }
            slots = self.freed.wait(slots).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The request has been answered.
    pub(crate) fn release(&self, slot: Slot) {
        let mut slots = self.lock();
        slots.memory.set_word(slot.at(), 0);
        slots.found.retain(|found| *found != slot);
        slots.free.push(slot);
        self.freed.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    /// Its first word, the length and the operation, is stored last: it makes the slot valid.
    fn store(&mut self, slot: Slot, request: &[u8]) {
        let (first, rest) = request.split_at(8);
        let at = slot.at();
        self.memory.bytes_mut()[at + 8..at + 8 + rest.len()].copy_from_slice(rest);
        let first = first.try_into().map_or(0, u64::from_ne_bytes);
        self.memory.set_word(at, first);
    }

    fn request(&mut self, slot: Slot) -> Vec<u8> {
        let bytes = &self.memory.bytes()[slot.at()..slot.at() + SLOT_BYTES];
        bytes[..len_of(bytes).min(SLOT_BYTES)].to_vec()
    }
}

impl Slot {
    fn at(self) -> usize {
        HEAD_BYTES + self.0 * SLOT_BYTES
    }
}

impl Intake {
    /// Where the next request goes.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    /// What is in it has been kept or answered.
    pub(crate) fn clear(&self) {
        self.0.set_word(0, 0);
    }

    fn found(&mut self) -> &[u8] {
        let bytes = self.0.bytes();
        let len = len_of(bytes).min(bytes.len());
        &bytes[..len]
    }
}

/// The length that a request's head states.
fn len_of(bytes: &[u8]) -> usize {
    bytes.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word) as usize)
}

/// The number of a request that waits for an answer.
fn unique_of(request: &[u8]) -> Option<u64> {
    request::decode(request).ok().filter(|request| request.operation.wants_reply()).map(|request| request.unique)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::opcode;

    /// A request for attributes (40 bytes of head, 16 of arguments), or to forget.
    fn request(code: u32, unique: u64) -> Vec<u8> {
        let mut bytes = vec![0; 56];
        bytes[..4].copy_from_slice(&56u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&code.to_ne_bytes());
        bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
        bytes[16] = 1;
        if code == opcode::FORGET {
            bytes.truncate(48);
            bytes[0] = 48;
        }
        bytes
    }

    fn uniques(kept: &KeptRequests) -> Vec<u64> {
        let mut uniques: Vec<u64> = kept.found().iter().filter_map(|(_, bytes)| unique_of(bytes)).collect();
        uniques.sort_unstable();
        uniques
    }

    #[test]
    fn what_was_not_answered_is_found_again_and_again_until_it_is() {
        let memory = KeptRequests::create().unwrap();
        let open = || KeptRequests::open(memory.try_clone().unwrap()).unwrap();
        let first = open();
        assert_eq!(first.found(), []);
        let answered = first.keep(&request(opcode::GETATTR, 2)).unwrap();
        first.keep(&request(opcode::GETATTR, 4)).unwrap();
        first.release(answered);
        // One that a reader had just taken, one that it had taken and kept, and one that needs no answer.
        for (index, code, unique) in [(0, opcode::GETATTR, 6), (1, opcode::GETATTR, 4), (2, opcode::FORGET, 8)] {
            let bytes = request(code, unique);
            first.intake(index).unwrap().buffer()[..bytes.len()].copy_from_slice(&bytes);
        }
        drop(first);
        assert_eq!(uniques(&open()), [4, 6]);
        let third = open();
        let (slot, bytes) = third.found().remove(0);
        let left = if unique_of(&bytes) == Some(4) { 6 } else { 4 };
        third.release(slot);
        assert_eq!(uniques(&third), [left]);
        drop(third);
        assert_eq!(uniques(&open()), [left]);
    }

    #[test]
    fn a_full_table_makes_readers_wait_until_an_answer_is_given() {
        let kept = KeptRequests::open(KeptRequests::create().unwrap()).unwrap();
        let slots: Vec<Slot> = (1..=limits::KERNEL_REQUESTS_KEPT as u64)
            .map(|number| kept.keep(&request(opcode::GETATTR, 2 * number)).unwrap())
            .collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| kept.keep(&request(opcode::GETATTR, 1)));
            kept.release(slots[7]);
            assert_eq!(waiting.join().unwrap(), Some(slots[7]));
        });
    }

    #[test]
    fn memory_of_another_version_is_refused() {
        let memory = KeptRequests::create().unwrap();
        rustix::io::pwrite(&memory, &[9; 8], 0).unwrap();
        assert_eq!(KeptRequests::open(memory).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
