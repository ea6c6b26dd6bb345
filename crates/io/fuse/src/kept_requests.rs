//! The requests that a daemon has taken from the kernel and not answered, in memory that outlives it.
//!
//! Linux 6.9 and later send such requests again when asked to (`FUSE_NOTIFY_RESEND`); before, they are the daemon's
//! alone, and a program whose request died with it would wait for ever. So each reader reads into a piece of shared
//! memory, an intake: there is no moment at which a request is nowhere. From there it is copied to a slot, which is free
//! again when it has been answered. One that is too large for a slot stays in its intake until it is answered; its reader goes on with another
//! intake, and where none is free the memory grows. The next daemon answers what it finds in slots and intakes. A request that was
//! answered just before the death is answered twice; the kernel refuses the second answer. Forgets are not repeated:
//! counted twice they would take an inode from a program that uses it, not counted they cost a few bytes.
//!
//! A reader reserves a slot before it reads, and empties its intake before it has a request handled that fits there. So such a request
//! lies in an intake only while a slot is reserved for it, and the next daemon has room for all that it finds: it never
//! waits for a slot that only an answer could free. While no slot is free, requests wait in the kernel.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use forebay_types::threads;

use crate::free_intakes::FreeIntakes;
use crate::limits;
use crate::options::Access;
use crate::request;
use crate::shared_memory::{SharedMemory, create_shared_memory, shared_memory_bytes};

/// The first word: which layout this is. Another number after every change, so that a daemon of another version refuses.
const LAYOUT: u64 = 0x4642_5245_5100_0003;

/// Where the second word lies: how many slots there are.
const COUNT_AT: usize = 8;

/// Where the third word lies: the bytes of an intake.
const INTAKE_BYTES_AT: usize = 16;

/// Room for the three words.
const HEAD_BYTES: usize = 4096;

/// A request that waits for its answer, bytes: a head, a name of 255 bytes and its directory's arguments fit. Larger ones
/// (an ioctl with much input, a WRITE) stay in an intake.
const SLOT_BYTES: usize = 512;

/// The most slots that memory may state: 16 times what `create` is asked for.
const SLOTS_MAX: usize = 1 << 16;

/// Intakes at first: one for each reader, and one for each of the daemon before that left a request there.
const INTAKES: usize = 2 * threads::KERNEL_READERS_MAX;

/// Number of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(usize);

/// The requests in flight of one session.
#[derive(Debug)]
pub struct KeptRequests {
    descriptor: Arc<OwnedFd>,
    intakes_at: usize,
    intake_bytes: usize,
    slots: Mutex<Slots>,
    freed: Condvar,
    free_intakes: Arc<FreeIntakes>,
    /// Those that held a large request at the start.
    large: Vec<usize>,
}

#[derive(Debug)]
struct Slots {
    memory: SharedMemory,
    free: Vec<Slot>,
    /// Found at the start, not yet answered.
    found: Vec<Slot>,
    /// No reader takes another request.
    is_ending: bool,
}

/// Where a request is read into, and stays if it is too large for a slot.
pub(crate) struct Intake {
    index: usize,
    memory: SharedMemory,
    free: Arc<FreeIntakes>,
}

impl KeptRequests {
    /// Fresh memory for that many requests, to be held by whoever outlives the daemons. More than there are readers:
    /// each reserves one.
    ///
    /// # Errors
    /// The error of `memfd_create(2)`.
    pub fn create(slots: usize, access: Access) -> io::Result<OwnedFd> {
        let slots = slots.min(SLOTS_MAX);
        let intake_bytes = access.request_bytes_max();
        let intakes_bytes = INTAKES * intake_bytes;
        let descriptor = create_shared_memory("forebay-requests", intakes_at(slots) + intakes_bytes)?;
        let head = SharedMemory::map(descriptor.try_clone()?, 0, HEAD_BYTES)?;
        head.set_word(COUNT_AT, slots as u64);
        head.set_word(INTAKE_BYTES_AT, intake_bytes as u64);
        head.set_word(0, LAYOUT);
        Ok(descriptor)
    }

    /// Takes the memory over with the requests that are in it.
    ///
    /// # Errors
    /// EINVAL when it is not such memory, `InvalidData` when it is that of another version, else what mapping it says.
    pub fn open(descriptor: OwnedFd) -> io::Result<Self> {
        let descriptor = Arc::new(descriptor);
        let head = SharedMemory::map(Arc::clone(&descriptor), 0, HEAD_BYTES)?;
        let count = usize::try_from(head.word(COUNT_AT)).unwrap_or(usize::MAX);
        let intake_bytes = usize::try_from(head.word(INTAKE_BYTES_AT)).unwrap_or(usize::MAX);
        let is_possible = (limits::KERNEL_BUFFER_BYTES..=limits::WRITE_BUFFER_BYTES).contains(&intake_bytes);
        if head.word(0) != LAYOUT || count > SLOTS_MAX || !is_possible {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kept requests are of another version"));
        }
        let intakes_at = intakes_at(count);
        let memory = SharedMemory::map(Arc::clone(&descriptor), 0, intakes_at)?;
        let mut slots = Slots { memory, free: Vec::new(), found: Vec::new(), is_ending: false };
        for slot in (0..count).rev().map(Slot) {
            if slots.memory.word(slot.at()) == 0 { slots.free.push(slot) } else { slots.found.push(slot) }
        }
        let (slots, freed, free_intakes) = (Mutex::new(slots), Condvar::new(), Arc::default());
        let mut kept = Self { descriptor, intakes_at, intake_bytes, slots, freed, free_intakes, large: vec![] };
        kept.large = kept.empty_intakes()?;
        Ok(kept)
    }

    /// Tries what a daemon does with such memory: all of it is made and mapped, then dropped.
    ///
    /// # Errors
    /// The error that would keep a daemon from starting.
    pub fn try_out() -> io::Result<()> {
        let kept = Self::open(Self::create(limits::KERNEL_REQUESTS_KEPT, Access::ReadOnly)?)?;
        (0..kept.intakes()?).try_for_each(|index| {
            kept.intake_at(index)?.buffer()[0] = 0;
            Ok(())
        })
    }

    /// How many intakes there are.
    fn intakes(&self) -> io::Result<usize> {
        Ok((shared_memory_bytes(self.descriptor.as_fd())? - self.intakes_at) / self.intake_bytes)
    }

    /// Moves requests that readers had just taken into slots. Returns the intakes of those that are too large for a slot.
    fn empty_intakes(&self) -> io::Result<Vec<usize>> {
        let mut large = vec![];
        // Those that were there first are used first: they have pages.
        for index in (0..self.intakes()?).rev() {
            let mut intake = self.intake_at(index)?;
            let request = intake.found();
            if request.len() > SLOT_BYTES && unique_of(request).is_some() {
                large.push(index);
                continue;
            }
            if let Some(unique) = unique_of(request)
                && !self.found().iter().any(|(_, kept)| unique_of(kept) == Some(unique))
            {
                // Its reader had reserved one.
                let mut slots = self.lock();
                let slot = slots
                    .free
                    .pop()
                    .ok_or_else(|| io::Error::other("more requests were kept than there is space for"))?;
                slots.store(slot, request);
                slots.found.push(slot);
            }
            intake.clear();
        }
        Ok(large)
    }

    /// The intakes whose request was found at the start and is too large for a slot. No reader gets them before it is answered.
    pub(crate) fn large(&self) -> io::Result<Vec<Intake>> {
        self.large.iter().map(|index| self.intake_at(*index)).collect()
    }

    /// A free intake. It belongs to the caller until it is dropped, and then until its request is answered.
    pub(crate) fn intake(&self) -> io::Result<Intake> {
        let index = {
            let mut free = self.free_intakes.lock();
            match free.pop() {
                Some(index) => index,
                None => {
                    let index = self.intakes()?;
                    rustix::fs::ftruncate(
                        &self.descriptor,
                        (self.intakes_at + (index + 1) * self.intake_bytes) as u64,
                    )?;
                    index
                }
            }
        };
        let mut intake = self.intake_at(index).inspect_err(|_| self.free_intakes.give_back(index))?;
        // See `Space::new`. The word that makes a request of it stays.
        intake.buffer()[8..].fill(0);
        Ok(intake)
    }

    fn intake_at(&self, index: usize) -> io::Result<Intake> {
        let at = self.intakes_at + index * self.intake_bytes;
        let memory = SharedMemory::map(Arc::clone(&self.descriptor), at, self.intake_bytes)?;
        Ok(Intake { index, memory, free: Arc::clone(&self.free_intakes) })
    }

    /// The requests that were found at the start and not answered yet.
    pub(crate) fn found(&self) -> Vec<(Slot, Vec<u8>)> {
        let mut slots = self.lock();
        let found = slots.found.clone();
        found.into_iter().map(|slot| (slot, slots.request(slot))).collect()
    }

    /// Reserves a slot for the next request that is read; waits while all are taken. `None` when the session ends.
    pub(crate) fn reserve(&self) -> Option<Slot> {
        let is_full = |slots: &mut Slots| slots.free.is_empty() && !slots.is_ending;
        self.freed.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner).free.pop()
    }

    /// Whether a request goes to a slot. One that needs no answer or is too large stays where it is.
    pub(crate) fn fits(request: &[u8]) -> bool {
        request.len() <= SLOT_BYTES && unique_of(request).is_some()
    }

    /// Keeps a request in a slot that was reserved for it.
    pub(crate) fn store(&self, slot: Slot, request: &[u8]) {
        self.lock().store(slot, request);
    }

    /// Waits until an intake may be had where none could, for `time` at most.
    pub(crate) fn await_intake(&self, time: Duration) {
        self.free_intakes.wait(time);
    }

    /// Lets no reader wait for a slot or an intake from now on.
    pub(crate) fn end_waits(&self) {
        self.lock().is_ending = true;
        self.freed.notify_all();
        self.free_intakes.end_waits();
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

/// Where the intakes begin.
fn intakes_at(slots: usize) -> usize {
    Slot(slots).at()
}

impl Slot {
    fn at(self) -> usize {
        HEAD_BYTES + self.0 * SLOT_BYTES
    }
}

impl Intake {
    /// Where the next request goes.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.bytes_at_rest()
    }

    /// Its request has been kept elsewhere or answered.
    pub(crate) fn clear(&mut self) {
        self.memory.set_word(0, 0);
    }

    /// The request in it; empty after `clear`.
    pub(crate) fn found(&self) -> &[u8] {
        let bytes = self.bytes();
        &bytes[..len_of(bytes).min(bytes.len())]
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // A request that is not answered is the next daemon's.
        if self.found().is_empty() {
            self.free.push(self.index);
        }
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

    /// Does the kernel's part for a reader; its daemon may die at any time after.
    fn read(kept: &KeptRequests, bytes: &[u8]) -> (Intake, Slot) {
        let mut intake = kept.intake().unwrap();
        let slot = kept.reserve().unwrap();
        intake.buffer()[..bytes.len()].copy_from_slice(bytes);
        (intake, slot)
    }

    fn keep(kept: &KeptRequests, unique: u64) -> Slot {
        let bytes = request(opcode::GETATTR, unique);
        let (mut intake, slot) = read(kept, &bytes);
        assert!(KeptRequests::fits(&bytes));
        kept.store(slot, &bytes);
        intake.clear();
        slot
    }

    /// An ioctl with much input.
    fn large_request(unique: u64) -> Vec<u8> {
        let mut bytes = request(opcode::IOCTL, unique);
        bytes.resize(SLOT_BYTES + 1000, 1);
        let len = u32::try_from(bytes.len()).unwrap();
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes[40..72].fill(0);
        bytes[64..68].copy_from_slice(&(len - 72).to_ne_bytes());
        bytes
    }

    /// Fails instead of waiting for ever.
    #[track_caller]
    fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(what()));
        result.recv_timeout(std::time::Duration::from_secs(20)).expect("it does not wait for ever")
    }

    #[test]
    fn unanswered_requests_are_found_until_answered() {
        let memory = KeptRequests::create(16, Access::ReadOnly).unwrap();
        let open = || KeptRequests::open(memory.try_clone().unwrap()).unwrap();
        let first = open();
        assert_eq!(first.found(), []);
        let answered = keep(&first, 2);
        keep(&first, 4);
        first.release(answered);
        // One that a reader had just taken, one that it had taken and kept, and one that needs no answer.
        let reads = [(opcode::GETATTR, 6), (opcode::GETATTR, 4), (opcode::FORGET, 8)];
        let readers: Vec<_> = reads.iter().map(|(code, unique)| read(&first, &request(*code, *unique))).collect();
        drop((readers, first));
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
    fn a_daemon_starts_when_every_slot_was_taken_at_the_death_before() {
        const SLOTS: usize = 8;
        let memory = KeptRequests::create(SLOTS, Access::ReadOnly).unwrap();
        let open = |memory: &OwnedFd| {
            let memory = memory.try_clone().unwrap();
            in_time(move || KeptRequests::open(memory)).unwrap()
        };
        let first = open(&memory);
        let mut expected: Vec<u64> = (1..SLOTS as u64).map(|number| 2 * number).collect();
        for unique in &expected {
            keep(&first, *unique);
        }
        // The last slot is reserved for a request that a reader has just taken.
        drop(read(&first, &request(opcode::GETATTR, 100)));
        drop(first);
        expected.push(100);
        for _ in 0..3 {
            assert_eq!(uniques(&open(&memory)), expected);
        }
        let last = open(&memory);
        last.found().iter().for_each(|(slot, _)| last.release(*slot));
        // All of them are free again: none of these waits.
        for number in 0..SLOTS as u64 {
            keep(&last, number);
        }
    }

    #[test]
    fn a_full_table_makes_readers_wait_until_an_answer_is_given_or_the_session_ends() {
        let kept = std::sync::Arc::new(KeptRequests::open(KeptRequests::create(8, Access::ReadOnly).unwrap()).unwrap());
        let slots: Vec<Slot> = (1..=8).map(|number| keep(&kept, 2 * number)).collect();
        let reserve = || {
            let kept = std::sync::Arc::clone(&kept);
            std::thread::spawn(move || kept.reserve())
        };
        let waiting = reserve();
        kept.release(slots[7]);
        assert_eq!(in_time(|| waiting.join()).unwrap(), Some(slots[7]));
        let waiting = reserve();
        kept.end_waits();
        assert_eq!(in_time(|| waiting.join()).unwrap(), None);
    }

    /// A batch of pins, say, or a WRITE.
    #[test]
    fn a_request_too_large_for_a_slot_is_found_where_its_reader_left_it() {
        let memory = KeptRequests::create(8, Access::ReadOnly).unwrap();
        let open = || KeptRequests::open(memory.try_clone().unwrap()).unwrap();
        let bytes = large_request(2);
        assert!(!KeptRequests::fits(&bytes));
        let first = open();
        drop(read(&first, &bytes));
        drop(first);
        for _ in 0..2 {
            let next = open();
            let [intake] = &next.large().unwrap()[..] else { panic!("one is found") };
            assert_eq!(intake.found(), bytes);
        }
        let last = open();
        last.large().unwrap().iter_mut().for_each(Intake::clear);
        assert!(open().large().unwrap().is_empty());
    }

    /// Each daemon dies with more that it has not answered than there were intakes.
    #[test]
    fn readers_find_intakes_however_many_large_requests_were_kept() {
        let memory = KeptRequests::create(8, Access::ReadOnly).unwrap();
        let mut kept = 0;
        for _ in 0..3 {
            let daemon = KeptRequests::open(memory.try_clone().unwrap()).unwrap();
            let large = daemon.large().unwrap();
            assert_eq!(large.len(), kept);
            let mut intakes: Vec<Intake> = (0..2 * INTAKES).map(|_| daemon.intake().unwrap()).collect();
            for intake in &mut intakes {
                assert!(intake.found().is_empty(), "an intake in use was given away");
                let bytes = large_request(2 * (kept as u64 + 1));
                intake.buffer()[..bytes.len()].copy_from_slice(&bytes);
                kept += 1;
            }
        }
        let last = KeptRequests::open(memory.try_clone().unwrap()).unwrap();
        let uniques: std::collections::BTreeSet<_> =
            last.large().unwrap().iter().filter_map(|intake| unique_of(intake.found())).collect();
        assert_eq!(uniques.len(), 3 * 2 * INTAKES);
    }

    #[test]
    fn an_intake_whose_request_was_answered_is_used_again() {
        let kept = KeptRequests::open(KeptRequests::create(8, Access::ReadOnly).unwrap()).unwrap();
        let before = kept.intakes().unwrap();
        for unique in 0..3 * INTAKES as u64 {
            let (mut intake, slot) = read(&kept, &large_request(2 + 2 * unique));
            intake.clear();
            kept.release(slot);
        }
        assert_eq!(kept.intakes().unwrap(), before);
    }

    #[test]
    fn memory_operations_of_a_daemon_work() {
        KeptRequests::try_out().unwrap();
    }

    #[test]
    fn memory_of_another_version_is_refused() {
        let memory = KeptRequests::create(8, Access::ReadOnly).unwrap();
        rustix::io::pwrite(&memory, &[9; 8], 0).unwrap();
        assert_eq!(KeptRequests::open(memory).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
