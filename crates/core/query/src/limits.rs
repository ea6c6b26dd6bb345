//! Limits of a query, each with its reason.

/// Bytes of a block. Large enough that its state (a few kilobytes) and its tail cost nothing beside it, small enough that
/// a file of some hundred megabytes keeps several nodes busy. Part of the result: other blocks are other last bits.
pub const BLOCK_BYTES: u64 = 4 << 20;

/// Bytes of a record. It is held in memory whole; a longer one is a bad row.
pub const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Bytes at the beginning of a file that decide about its columns: those of one block. A column without a value there is
/// decided by the pass.
pub const SCHEMA_BYTES_MAX: u64 = BLOCK_BYTES;

/// Fields of a record: more than tables have, and few enough that a file without lines ends as an error.
pub const FIELDS_MAX: usize = 4096;

/// Words that stand for missing values: as many as the bits that say which of them occurred.
pub const WORDS_MAX: usize = 64;

/// Bytes of one of them: as a field that a person types.
pub const WORD_BYTES_MAX: usize = 32;

/// Columns of a Gramian: its partial has 8 MiB then.
pub const GRAMIAN_COLUMNS_MAX: usize = 1024;

/// Bad rows that a partial names; others are only counted. As many as a person reads.
pub const BAD_ROWS_NAMED_MAX: usize = 8;

/// Bytes of a field that is no number, as a bad row tells of it: as much as a message shows.
pub const FAULT_TEXT_BYTES_MAX: usize = 40;

/// Columns that are described: a partial has some megabytes then.
pub const DESCRIBED_COLUMNS_MAX: usize = 512;

/// Ranges of values that a partial counts, over all columns of numbers: 2 MiB.
pub const RANGES_ALL_MAX: usize = 1 << 17;

/// Of them, those of one column: values within one power of ten are told apart to a thousandth then.
pub const RANGES_MAX: usize = 4096;

/// However many columns there are.
pub const RANGES_MIN: usize = 256;

/// Bins of a histogram: as many as a picture shows apart.
pub const BINS_MAX: usize = 64;

/// Different texts of a column that are counted one by one.
pub const FREQUENT_MAX: usize = 256;

/// Groups of one query: more are a matter of SQL.
pub const GROUPS_MAX: usize = 4096;

/// However many columns they have.
pub const GROUPS_MIN: usize = 64;

/// Columns of all groups: a partial has some 8 MiB then.
pub const GROUP_COLUMNS_ALL_MAX: usize = 1 << 16;

/// Bytes of a value that makes a group.
pub const GROUP_BYTES_MAX: usize = 256;

/// Steps of a condition on rows: more than a person writes.
pub const FILTER_STEPS_MAX: usize = 128;

/// Bytes of one, as it travels.
pub const FILTER_BYTES_MAX: usize = 8192;

/// Bytes of a text that is told: as much as a table shows.
pub const TEXT_SHOWN_BYTES_MAX: usize = 64;

/// Rows that are summed in plain doubles before they are added to double-doubles: sixteen kilobytes for eight columns,
/// half a first-level cache, and an error of 32 roundings in each lane.
pub const BATCH_ROWS: usize = 256;
