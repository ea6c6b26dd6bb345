//! The thread that has empty segments ready before anybody needs them, and removes those that are freed.

use std::io;
use std::sync::Arc;

use forebay_types::Errno;
use rustix::io::Errno as Os;

use crate::limits;
use crate::log::{Shared, State};
use crate::tail::Segment;
use crate::usage::Freed;

enum Work {
    Remove(Vec<Freed>),
    /// Make the segment of this number, for those who asked so far.
    Make(u64, u64),
}

/// The thread that prepares segments, until the log ends or fails.
pub(crate) fn keep_ready(shared: &Shared) {
    while let Some(work) = await_work(shared) {
        let done = match work {
            Work::Remove(freed) => remove(shared, &freed),
            Work::Make(number, asked) => make(shared, number, asked),
        };
        if let Err(error) = done {
            shared.fail(Errno::of(&error));
            return;
        }
        shared.progress.notify_all();
    }
}

fn await_work(shared: &Shared) -> Option<Work> {
    let mut state = shared.lock();
    loop {
        if state.is_ending || state.failed.is_some() {
            return None;
        }
        if let Some(work) = state.next_work(shared.capacity_bytes, shared.segment_bytes.into()) {
            return Some(work);
        }
        if state.must_refuse() {
            state.refused = state.asked;
            shared.progress.notify_all();
        }
        state = shared.wait(&shared.segment_wanted, state);
    }
}

impl State {
    fn next_work(&mut self, capacity_bytes: u64, segment_bytes: u64) -> Option<Work> {
        let freed = self.usage.take_freed();
        if !freed.is_empty() {
            return Some(Work::Remove(freed));
        }
        // After a disk was full, only a new request makes it worth while to try again.
        let has_room = self.disk_bytes + segment_bytes <= capacity_bytes;
        let may = has_room && (!self.is_disk_full || self.refused < self.asked);
        if !(self.wants_segment() && may) {
            return None;
        }
        self.disk_bytes += segment_bytes;
        Some(Work::Make(self.next_segment, self.asked))
    }

    fn wants_segment(&self) -> bool {
        self.ready.len() < limits::NOTE_SEGMENTS + limits::READY_SEGMENTS
    }

    /// Whether those who ask can have no segment, now that none can be made, nor be freed by a commit that is wanted.
    fn must_refuse(&self) -> bool {
        self.refused < self.asked && self.wants_segment() && self.usage.awaited().is_none()
    }
}

fn remove(shared: &Shared, freed: &[Freed]) -> io::Result<()> {
    for Freed { segment, .. } in freed {
        shared.descriptors.forget(*segment);
        shared.directory.remove_segment(*segment)?;
    }
    let mut state = shared.lock();
    state.disk_bytes -= freed.iter().map(|one| one.bytes).sum::<u64>();
    state.is_disk_full = false;
    Ok(())
}

fn make(shared: &Shared, number: u64, asked: u64) -> io::Result<()> {
    let made = shared.directory.create_segment(number, shared.segment_bytes);
    let made = made.and_then(|file| shared.directory.sync().map(|()| file));
    let mut state = shared.lock();
    match made {
        Ok(file) => {
            state.ready.push_back(Arc::new(Segment { number, file }));
            // Not before: a number that is missing tells a recovery that its segment was freed.
            state.next_segment = number + 1;
            state.is_disk_full = false;
        }
        Err(error) => {
            state.disk_bytes -= u64::from(shared.segment_bytes);
            if !is_full(&error) {
                return Err(error);
            }
            state.is_disk_full = true;
            if state.usage.awaited().is_none() {
                state.refused = asked;
            }
        }
    }
    Ok(())
}

/// Whether the disk has no room, or the user none of it.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let codes = [Os::NOSPC, Os::DQUOT];
    codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}
