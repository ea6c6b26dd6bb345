//! The memory of operators, so divided that a sort of several threads ends, however little it is beside the rows.
//!
//! A sort spills, merges what it spilled, and hands its rows to a merge of all threads. Of these steps only the first can spill; the engine's
//! pool lets whichever comes first have all memory. Here the sorts of all threads, and their merges, have equal shares, and some is left over.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};

/// The part of the memory that is left over, as a divisor.
const ROOM_SHARE: usize = 8;

/// The name of the engine's merge of what a thread's sort spilled begins so.
const MERGE: &str = "ExternalSorterMerge";

/// So much memory.
#[derive(Debug)]
pub struct Memory {
    bytes: usize,
    /// Bytes of operators, by their numbers.
    taken: Mutex<BTreeMap<usize, (Kind, usize)>>,
}

/// The ways in which operators take memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It spills when it gets no more.
    Spills,
    /// It merges fewer runs at once when it gets no more.
    Merges,
    /// It fails when it gets no more.
    Needs,
}

impl Kind {
    fn of(consumer: &MemoryConsumer) -> Self {
        match consumer.name() {
            _ if consumer.can_spill() => Self::Spills,
            name if name.starts_with(MERGE) => Self::Merges,
            _ => Self::Needs,
        }
    }
}

/// All operators of a kind.
#[derive(Clone, Copy, Default)]
struct All {
    count: usize,
    bytes: usize,
}

impl Memory {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, taken: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, (Kind, usize)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that an operator which has some may take beside those.
    fn available(&self, taken: &BTreeMap<usize, (Kind, usize)>, kind: Kind, own: usize) -> usize {
        let all = |kind: Kind| {
            let those = taken.values().filter(|(own, _)| *own == kind);
            those.fold(All::default(), |all, (_, bytes)| All { count: all.count + 1, bytes: all.bytes + bytes })
        };
        let (spill, merge, need) = (all(Kind::Spills), all(Kind::Merges), all(Kind::Needs));
        let left = self.bytes.saturating_sub(need.bytes);
        let shared = left - (self.bytes / ROOM_SHARE).min(left / 2);
        match kind {
            Kind::Spills => {
                // A sort merges what it has in memory, too, before it can let go of that.
                let sorts = shared - shared / ROOM_SHARE;
                (sorts.saturating_sub(merge.bytes) / spill.count.max(1)).saturating_sub(own)
            }
            Kind::Merges => {
                let share = (shared / merge.count.max(1)).saturating_sub(own);
                share.min(shared.saturating_sub(merge.bytes + spill.bytes))
            }
            Kind::Needs => left.saturating_sub(merge.bytes + spill.bytes),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of memory", human_readable_size(self.bytes))
    }
}

impl MemoryPool for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.lock().insert(consumer.id(), (Kind::of(consumer), 0));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.lock().remove(&consumer.id());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if let Some((_, bytes)) = self.lock().get_mut(&reservation.consumer().id()) {
            *bytes += additional;
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, less: usize) {
        if let Some((_, bytes)) = self.lock().get_mut(&reservation.consumer().id()) {
            *bytes = bytes.saturating_sub(less);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut taken = self.lock();
        let consumer = reservation.consumer();
        let (kind, own) = taken.get(&consumer.id()).copied().unwrap_or((Kind::of(consumer), 0));
        let available = self.available(&taken, kind, own);
        if additional > available {
            let (name, wanted) = (consumer.name(), human_readable_size(additional));
            let available = human_readable_size(available);
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{name} needs {wanted} more, and {available} are left of {self}"
            )));
        }
        taken.insert(consumer.id(), (kind, own + additional));
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.lock().values().map(|(_, bytes)| bytes).sum()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn sorts_leave_room_for_what_cannot_spill() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Memory::new(800));
        let spills = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (one, other) = (spills("one"), spills("other"));
        one.try_grow(306).unwrap();
        let said = one.try_grow(1).unwrap_err().to_string();
        assert!(said.contains("one needs 1.0 B more, and 0.0 B are left of 800.0 B of memory"), "{said}");
        other.try_grow(306).unwrap();
        let last = MemoryConsumer::new("last").register(&pool);
        last.try_grow(188).unwrap();
        last.try_grow(1).unwrap_err();
        assert_eq!(pool.reserved(), 800);
        drop((one, last));
        // All that is left but for the room is another's.
        other.try_grow(307).unwrap();
        other.try_grow(1).unwrap_err();
        drop(other);
        let join = MemoryConsumer::new("join").register(&pool);
        join.try_grow(780).unwrap();
        let sort = spills("sort");
        sort.try_grow(9).unwrap();
        sort.try_grow(1).unwrap_err();
        drop((join, sort));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_merge_has_the_share_of_its_thread_however_many_parts_it_takes_it_in() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Memory::new(800));
        let merge = |thread: usize| MemoryConsumer::new(format!("{MERGE}[{thread}]")).register(&pool);
        let (one, other) = (merge(0), merge(1));
        let part = one.new_empty();
        one.try_grow(300).unwrap();
        part.try_grow(50).unwrap();
        part.try_grow(1).unwrap_err();
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        sort.try_grow(263).unwrap();
        // Some is left beside a sort that is as large as it may be; it spills, and ends.
        other.try_grow(87).unwrap();
        other.try_grow(1).unwrap_err();
        drop(sort);
        other.try_grow(263).unwrap();
        let last = MemoryConsumer::new("last").register(&pool);
        last.try_grow(100).unwrap();
    }
}
