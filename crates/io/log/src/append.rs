//! Appends: many threads at once, each from its own buffer.

use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use forebay_types::{Errno, LogPosition};
use forebay_wire::log_record::{RecordData, RecordKind, Sequence};
use rustix::io::pwritev;

use crate::log::{Log, Shared, State};
use crate::tail::{Place, Seal};
use crate::{LogError, limits};

/// A record that was written. It survives the end of this process; it survives the loss of power when `Log::commit` of what
/// is behind it has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Where it lies.
    pub position: LogPosition,
    /// Its number: `commit(sequence.next())` makes it durable.
    pub sequence: Sequence,
}

/// A record's place, and what must be written beside it: the end of a segment and the beginning of the next.
struct Reserved {
    place: Place,
    rolled: Vec<(Seal, Place)>,
}

impl Log {
    /// Appends bytes of a file. They are live until they are released; no bytes are never live.
    ///
    /// # Errors
    /// `Full` and `TooLong` before anything is written; `Failed` when the device failed.
    pub fn append_data(&self, data: RecordData, contents: &[u8]) -> Result<Appended, LogError> {
        self.shared.append(RecordKind::Data(data), contents)
    }

    /// Appends a note: bytes of the write core's own. Segments are kept back for notes, so that what is said about data
    /// fits when the data do. Notes are live until a checkpoint stands for them.
    ///
    /// # Errors
    /// As `append_data`.
    pub fn append_note(&self, contents: &[u8]) -> Result<Appended, LogError> {
        self.shared.append(RecordKind::Note, contents)
    }
}

impl Shared {
    fn append(&self, kind: RecordKind, contents: &[u8]) -> Result<Appended, LogError> {
        let max_bytes = limits::contents_bytes_max(self.segment_bytes);
        let length = u32::try_from(contents.len()).ok().filter(|length| *length <= max_bytes);
        let length = length.ok_or(LogError::TooLong { bytes: contents.len(), max_bytes })?;
        let began = Instant::now();
        let checksum = crc32c::crc32c(contents);
        let Reserved { place, rolled } = self.reserve(kind, length, checksum)?;
        let written = write_rolled(&rolled).and_then(|()| write_record(&place, contents));
        written.map_err(|error| self.fail(Errno::of(&error)))?;
        let rolled = rolled.iter().flat_map(|(seal, begin)| [seal.sequence, begin.sequence]);
        self.complete(rolled.chain([place.sequence]));
        self.latencies.note("append", began.elapsed());
        Ok(Appended { position: place.position, sequence: place.sequence })
    }

    fn reserve(&self, kind: RecordKind, length: u32, checksum: u32) -> Result<Reserved, LogError> {
        let kept_back = if kind == RecordKind::Note { 0 } else { limits::NOTE_SEGMENTS };
        let mut rolled = Vec::new();
        let mut asked = None;
        let mut state = self.lock();
        loop {
            state.check()?;
            let durable = state.durable;
            // Notes that have come to what was kept back for them keep it to themselves.
            let may_go_on = state.ready.len() >= kept_back;
            let place = may_go_on.then(|| state.tail.reserve(kind, length, checksum, durable)).flatten();
            if let Some(place) = place {
                state.account(kind, &place, length);
                if state.wants_early_commit() {
                    self.commit_wanted.notify_one();
                }
                return Ok(Reserved { place, rolled });
            }
            if state.ready.len() > kept_back {
                rolled.push(state.roll());
                self.commit_wanted.notify_one();
                self.segment_wanted.notify_one();
                continue;
            }
            let mine = *asked.get_or_insert_with(|| state.ask());
            if state.refused >= mine {
                return Err(LogError::Full);
            }
            state = self.await_segment(state);
        }
    }

    fn await_segment<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.segment_wanted.notify_one();
        self.wait(&self.progress, state)
    }

    fn complete(&self, sequences: impl Iterator<Item = Sequence>) {
        let mut state = self.lock();
        sequences.for_each(|sequence| state.completion.complete(sequence));
        self.wake_committer(&state);
    }
}

impl State {
    fn account(&mut self, kind: RecordKind, place: &Place, length: u32) {
        match kind {
            RecordKind::Data(_) => {
                self.usage.add_live(place.position.segment, length.into());
            }
            _ => self.usage.add_note(place.position.segment, place.sequence),
        }
        self.uncommitted_bytes += u64::from(length);
    }

    /// Whether so much was written that the log commits automatically; no caller waits for that.
    fn wants_early_commit(&mut self) -> bool {
        let wants = self.uncommitted_bytes >= limits::EARLY_COMMIT_BYTES;
        if wants {
            self.uncommitted_bytes = 0;
            self.commit_up_to = self.commit_up_to.max(self.tail.next());
        }
        wants
    }

    /// Goes on in the next empty segment, of which there is one.
    fn roll(&mut self) -> (Seal, Place) {
        let segment = self.ready.pop_front().expect("whoever calls has seen one, under the same lock");
        self.usage.begin(segment.number, self.tail.segment_bytes.into());
        let (seal, begin) = self.tail.roll(segment, self.durable);
        let end = seal.sequence.next();
        self.unsynced.push((Arc::clone(&seal.segment), end));
        self.usage.seal(seal.segment.number, end, self.durable);
        self.commit_up_to = self.commit_up_to.max(end);
        (seal, begin)
    }

    /// Asks for an empty segment.
    fn ask(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }
}

fn write_rolled(rolled: &[(Seal, Place)]) -> io::Result<()> {
    for (seal, begin) in rolled {
        for (offset, bytes) in seal.writes() {
            write_all(&seal.segment.file, offset.into(), &bytes, &[])?;
        }
        write_record(begin, &[])?;
    }
    Ok(())
}

/// Writes a record at its place.
pub(crate) fn write_record(place: &Place, contents: &[u8]) -> io::Result<()> {
    write_all(&place.segment.file, place.position.offset.into(), &place.head, contents)
}

/// Writes both at an offset, without copying either.
pub(crate) fn write_all(file: &File, mut offset: u64, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
    while !(first.is_empty() && second.is_empty()) {
        let written = match pwritev(file, &[IoSlice::new(first), IoSlice::new(second)], offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        offset += written as u64;
        let of_first = written.min(first.len());
        first = &first[of_first..];
        second = &second[written - of_first..];
    }
    Ok(())
}
