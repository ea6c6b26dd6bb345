//! The limits of a store.

/// Bytes of a segment: large enough that its creation and its end cost nothing beside its contents, small enough that a
/// store of 256 MiB has some to write to while others drain.
pub const SEGMENT_BYTES: u32 = 64 << 20;

/// The smallest segment that a store may have (tests have small ones).
pub const SEGMENT_BYTES_MIN: u32 = 32 << 10;

/// The fewest segments that are a store: one that is written, one that drains, one for notes.
pub const SEGMENTS_MIN: u64 = 3;

/// Segments that only notes may take: what says where data went must fit when the data do. 64 MiB hold 350,000 notes of
/// 100 bytes.
pub const NOTE_SEGMENTS: usize = 1;

/// Segments that are ready before anybody needs them, beside those for notes: one takes 30 ms to fill, and less to make.
pub const READY_SEGMENTS: usize = 1;

/// Bytes after which the log commits automatically: the kernel writes early what it has to write anyway, and a recovery verifies
/// little.
pub const EARLY_COMMIT_BYTES: u64 = 8 << 20;

/// Descriptors of segments that are kept open for readers. A store of 1.6 TB has 25,000 segments.
pub const DESCRIPTORS_MAX: usize = 64;

/// The longest path of the directory that a store lands in.
pub const LANDING_BYTES_MAX: usize = 4096;

/// The longest checkpoint: an index of 16 million extents of 64 bytes.
pub const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;

/// The longest name of a job.
pub const JOB_BYTES_MAX: usize = 255;

/// The longest contents of a record in segments of so many bytes: a quarter of one, so that their ends waste little.
#[must_use]
pub fn contents_bytes_max(segment_bytes: u32) -> u32 {
    forebay_wire::log_record::RECORD_CONTENTS_BYTES_MAX.min(segment_bytes / 4)
}
