//! From a recovery to a log that takes appends: repairs, then everything that was yielded on stable storage, then a new
//! segment whose first record says so.

use std::io;
use std::sync::Arc;

use forebay_types::LogPosition;
use forebay_wire::log_record::Sequence;
use rustix::fs::OFlags;

use crate::append::write_record;
use crate::directory::allocate;
use crate::log::{Shared, State};
use crate::recovery::Recovery;
use crate::store::Store;
use crate::tail::{Place, Segment, Tail};
use crate::usage::Usage;
use crate::{Log, StoreError, commit, segments};

impl Recovery {
    /// Ends the recovery and opens the log. `live` names every data record that is needed, or part of it, with its bytes;
    /// what it leaves out is released. Records that were not taken by `next` are recovered, and not yielded.
    ///
    /// # Errors
    /// `Io` when the store cannot be written or has no room for one segment; `Broken` when `live` names a segment that is not
    /// there. A later recovery yields the same again.
    pub fn finish(mut self, live: impl IntoIterator<Item = (LogPosition, u64)>) -> Result<Log, StoreError> {
        while self.next()?.is_some() {}
        let (usage, is_new) = (self.usage(live)?, self.store.segments.is_empty());
        let segment = self.name_next()?;
        let settled = self.settle();
        settled.map_err(|error| StoreError::io("write to", self.store.directory.path(), error))?;
        let log = Log::new(self.begin(segment, usage)?);
        let employed = log
            .employ("log-commit", commit::commit_for_all)
            .and_then(|()| log.employ("log-segments", segments::keep_ready));
        if employed.is_err()
            && is_new
            && let Err(error) = log.wipe()
        {
            tracing::warn!(%error, "an empty store stays");
        }
        employed.map(|()| log)
    }

    fn usage(&self, live: impl IntoIterator<Item = (LogPosition, u64)>) -> Result<Usage, StoreError> {
        let mut usage = Usage::new(self.up_to());
        let kept = self.store.segments.iter().filter(|number| self.keeps(**number));
        for number in kept {
            let notes_end = self.notes_end.get(number).copied().unwrap_or_default();
            usage.adopt(*number, notes_end, self.next_sequence);
        }
        for (position, bytes) in live {
            if !usage.add_live(position.segment, bytes) {
                let path = self.store.directory.path().to_owned();
                let problem = "something of it is needed, and it is not there";
                return Err(StoreError::Broken { path, file: "a segment", problem });
            }
        }
        Ok(usage)
    }

    /// Below it the checkpoint stands for all.
    fn up_to(&self) -> Sequence {
        self.checkpoint().map_or(Sequence(0), |checkpoint| checkpoint.up_to)
    }

    /// The segment that the log goes on with, empty. Its name is durable before removed segments with higher numbers go, so that the
    /// next recovery gives no number again. Other nodes may still know places of records that are gone.
    pub(crate) fn name_next(&self) -> Result<Segment, StoreError> {
        let store = &self.store;
        // A new store has its head before any segment. An old one is not opened in this run of the machine before it is
        // settled what was lost in the last one.
        if store.segments.is_empty() {
            store.write_head()?;
        }
        let number = store.segments.last().map_or_else(|| store.head.identity.first_segment(), |last| last + 1);
        let named = store.directory.name_segment(number).and_then(|file| store.directory.sync().map(|()| file));
        let file = named.map_err(|error| StoreError::io("write to", store.directory.path(), error))?;
        Ok(Segment { number, file })
    }

    /// Makes what was yielded durable, and what was not no record any more.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let directory = &self.store.directory;
        self.repairs.carry_out(directory, self.store.head.identity)?;
        for number in self.unsynced.iter().filter(|number| !self.repairs.removed.contains(number)) {
            directory.open_segment(*number, OFlags::RDWR)?.sync_data()?;
        }
        directory.sync()
    }

    /// A new segment, whose first record says that all before it is on stable storage.
    fn begin(self, segment: Segment, mut usage: Usage) -> Result<Shared, StoreError> {
        let (next, up_to, store) = (self.next_sequence, self.up_to(), self.store);
        let number = segment.number;
        let (tail, begin) = begin_segment(&store, segment, next)
            .map_err(|error| StoreError::io("write to", store.directory.path(), error))?;
        if !store.is_same_boot {
            store.write_head()?;
        }
        let durable = begin.sequence.next();
        usage.begin(number, 0);
        usage
            .measure(|number| store.directory.segment_bytes(number))
            .map_err(|error| StoreError::io("look at", store.directory.path(), error))?;
        let disk_bytes = usage.disk_bytes();
        usage.consider_all(durable);
        Ok(Shared::new(store, State::new(tail, durable, usage, disk_bytes, number + 1), up_to))
    }
}

fn begin_segment(store: &Store, segment: Segment, next: Sequence) -> io::Result<(Tail, Place)> {
    allocate(&segment.file, store.head.segment_bytes)?;
    let (tail, begin) = Tail::begin(store.head.identity, store.head.segment_bytes, Arc::new(segment), next, next);
    write_record(&begin, &[])?;
    begin.segment.file.sync_all()?;
    Ok((tail, begin))
}
