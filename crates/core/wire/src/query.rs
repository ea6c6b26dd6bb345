//! A query's requests to a node that holds bytes: the pass over a part of a file.
//!
//! A part is complete in itself and changes no file, so it may be requested of several nodes, and repeatedly. Its answer is
//! encoded by the core of queries; here it is bytes. A column is normalised by parts, too; a device may write them to a file that is
//! hidden until it is whole. SQL travels in streams of bytes between the processes of a statement, which each end pulls from the
//! other: only the program with the engine understands them.

use forebay_types::{Generation, ViewPath};
use serde::{Deserialize, Serialize};

/// Fields of a record (`forebay_query::limits::FIELDS_MAX`): all of them fit a message.
pub const QUERY_FIELDS_MAX: usize = 4096;

/// Words that stand for missing values (`forebay_query::limits::WORDS_MAX`), and bytes of one.
pub const QUERY_WORDS_MAX: usize = 64;

/// Bytes of one of them (`forebay_query::limits::WORD_BYTES_MAX`).
pub const QUERY_WORD_BYTES_MAX: usize = 32;

/// Columns of a Gramian (`forebay_query::limits::GRAMIAN_COLUMNS_MAX`): a node holds 8 MiB of partials for it then, where the
/// most columns that fit a message would be 128 MiB.
pub const QUERY_GRAMIAN_COLUMNS_MAX: usize = 1024;

/// Columns that are described (`forebay_query::limits::DESCRIBED_COLUMNS_MAX`).
pub const QUERY_DESCRIBED_MAX: usize = 512;

/// Bytes of a condition on rows (`forebay_query::limits::FILTER_BYTES_MAX`).
pub const QUERY_FILTER_BYTES_MAX: usize = 8192;

/// Bytes of the names of data sets: those of a file with some hundreds of them.
pub const QUERY_NAMES_BYTES_MAX: usize = 64 << 10;

/// Blocks of a part: as many as a slow node reads within a deadline.
pub const QUERY_PART_BLOCKS_MAX: u32 = 64;

/// Files of a request for who holds them.
pub const QUERY_FILES_MAX: usize = 16;

/// Bytes of one answer to `PullStream`: 4 ms of a link of 1 Gbit/s, so that a round trip between two pulls costs little.
pub const QUERY_PULL_BYTES_MAX: usize = 512 << 10;

/// Bytes of what stands above a column that a device writes: the name of any column that a person gave.
pub const QUERY_HEAD_BYTES_MAX: usize = 4096;

/// A query's request to a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum QueryMessage {
    /// The pass over a part of a file. Answer: `Body`; body: the part's partials. `ESTALE` where the node has another
    /// version of the file, `EBUSY` where it has as much to do as it may.
    Part(QueryPart),
    /// A stream to the node's worker of a statement of SQL. Answer: `Body`; body: how many workers run on the node, as 8 bytes.
    /// `ENOSYS` where the node has no engine, `EBUSY` where it has as many workers or streams as it may, `ENOENT` where no worker runs
    /// for the statement, and this stream starts none.
    OpenStream(QueryStream),
    /// The values of a column, normalised. Answer: `Body`; body: a little-endian double for each good row of the blocks; where they
    /// go to a draft, how many rows it has now, as 8 bytes. `ESTALE` where the node has another version of the file, or not the draft,
    /// `EXDEV` where the draft would not lie in its own directory, `EBUSY` where it has as much to do as it may.
    Column(QueryColumn),
    /// A draft is whole, or not wanted any more. Answer as of `Column`.
    EndDraft {
        /// Which.
        number: u64,
        /// Whether it takes its place, durably; else it goes.
        publishes: bool,
    },
    /// The next bytes of a stream, asked for by either end. Answer: `Body`; body: at most `QUERY_PULL_BYTES_MAX` bytes from the offset
    /// on, none at its end. `EAGAIN` where none came in time, `ENOENT` where the stream has ended, `ESTALE` where it is elsewhere.
    PullStream {
        /// Which.
        stream: u64,
        /// Bytes that have arrived.
        offset_bytes: u64,
    },
}

/// The values that a query collects: the time of its pass follows from them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryWants {
    /// How often each byte occurs.
    pub counts_bytes: bool,
    /// Rows, and sums of columns.
    pub rows: bool,
    /// Products of columns, as they are or about their means.
    pub gramian: bool,
    /// Columns are described.
    pub described: bool,
}

/// A part of a file, and what is wanted of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryPart {
    /// The file.
    pub file: ViewPath,
    /// The version, as the asked node has it.
    pub generation: Generation,
    /// How often each byte occurs is wanted.
    pub counts_bytes: bool,
    /// Rows are wanted.
    pub table: Option<QueryTable>,
    /// The first block.
    pub first: u64,
    /// Blocks, `QUERY_PART_BLOCKS_MAX` at most.
    pub blocks: u32,
    /// Whether the part begins within quotes, if that is known.
    pub begins_quoted: Option<bool>,
}

/// The rows of a file, and what is wanted of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryTable {
    /// How they are written.
    pub dialect: QueryDialect,
    /// The data sets that are the table, by name, `QUERY_NAMES_BYTES_MAX` together; none: rows are text.
    pub data_sets: Vec<String>,
    /// Fields of a row, `QUERY_FIELDS_MAX` at most.
    pub fields: u16,
    /// Where the first row begins, bytes.
    pub rows_from: u64,
    /// The columns to keep, by index; one may be there twice. `QUERY_FIELDS_MAX` at most.
    pub columns: Vec<u16>,
    /// Products of columns are wanted, of `QUERY_GRAMIAN_COLUMNS_MAX` at most.
    pub gramian: bool,
    /// Products of them about their means are wanted, likewise.
    pub covariance: bool,
    /// The columns of numbers that are described, by index; with those of text `QUERY_DESCRIBED_MAX` at most.
    pub described_numbers: Vec<u16>,
    /// Those of text.
    pub described_texts: Vec<u16>,
    /// The condition on rows, as the core of queries encodes it, `QUERY_FILTER_BYTES_MAX` at most; empty: all count.
    pub filter: Vec<u8>,
    /// The column whose values make groups of rows.
    pub by: Option<u16>,
    /// A field with text in one of the columns of numbers counts as missing, and is noted; else it makes the row bad.
    pub text_is_missing: bool,
}

/// How rows are written.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryDialect {
    /// The byte between fields; None where any number of blanks is.
    pub separator: Option<u8>,
    /// The byte before fractions.
    pub point: u8,
    /// The byte that a line begins with that is no row.
    pub comment: Option<u8>,
    /// Words that stand for a missing value; `QUERY_WORDS_MAX` at most.
    pub missing: Vec<String>,
}

/// Some blocks of a column, and what it is normalised by.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryColumn {
    /// The file.
    pub file: ViewPath,
    /// The version, as the asked node has it.
    pub generation: Generation,
    /// Its rows, with all columns that decide which rows are good. The values of the first are wanted.
    pub table: QueryTable,
    /// The first block.
    pub first: u64,
    /// Blocks, `QUERY_PART_BLOCKS_MAX` at most.
    pub blocks: u32,
    /// Whether the first begins within quotes.
    pub begins_quoted: bool,
    /// The bits of the mean.
    pub mean_bits: u64,
    /// Those of the deviation.
    pub deviation_bits: u64,
    /// Where the values go, if they do not travel.
    pub draft: Option<QueryDraft>,
}

/// A file of a device that nobody sees before it is whole. It gets the blocks of a column in their order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryDraft {
    /// Its path when it is whole.
    pub output: ViewPath,
    /// Tells it from others.
    pub number: u64,
    /// The bytes above the column, `QUERY_HEAD_BYTES_MAX` at most.
    pub head: Vec<u8>,
}

/// A stream to a worker of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryStream {
    /// A random number that tells the statement from others.
    pub statement: u64,
    /// A random number that tells the stream from others.
    pub stream: u64,
    /// Whether the worker is started, and ends with this stream; else it must run already.
    pub starts: bool,
}

impl QueryMessage {
    /// A short word for logs and counters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Part(_) => "query-part",
            Self::OpenStream(_) => "query-open-stream",
            Self::PullStream { .. } => "query-pull-stream",
            Self::Column(_) => "query-column",
            Self::EndDraft { .. } => "query-end-draft",
        }
    }

    /// Whether no count is larger than it may be: what a node decodes is, and what it is asked by its own host must be.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        let are_blocks =
            |first: u64, blocks: u32| (1..=QUERY_PART_BLOCKS_MAX).contains(&blocks) && first <= u64::from(u32::MAX);
        match self {
            Self::Part(part) => {
                are_blocks(part.first, part.blocks) && part.table.as_ref().is_none_or(QueryTable::is_within_limits)
            }
            Self::Column(column) => {
                let is_head_within = |draft: &QueryDraft| draft.head.len() <= QUERY_HEAD_BYTES_MAX;
                are_blocks(column.first, column.blocks)
                    && column.table.is_within_limits()
                    && !column.table.columns.is_empty()
                    && column.draft.as_ref().is_none_or(is_head_within)
            }
            Self::EndDraft { .. } | Self::OpenStream(_) | Self::PullStream { .. } => true,
        }
    }
}

impl QueryTable {
    fn is_within_limits(&self) -> bool {
        let (fields, columns) = (usize::from(self.fields), self.columns.len());
        let words = &self.dialect.missing;
        let are_words = words.len() <= QUERY_WORDS_MAX && words.iter().all(|word| word.len() <= QUERY_WORD_BYTES_MAX);
        let is_of_pairs = self.gramian || self.covariance;
        let columns_max = if is_of_pairs { QUERY_GRAMIAN_COLUMNS_MAX } else { QUERY_FIELDS_MAX };
        let is_column = |column: &u16| usize::from(*column) < fields;
        let described = || self.described_numbers.iter().chain(&self.described_texts);
        let are_columns =
            self.columns.iter().all(is_column) && described().all(is_column) && self.by.iter().all(is_column);
        let are_few = self.filter.len() <= QUERY_FILTER_BYTES_MAX
            && columns <= columns_max
            && described().count() <= QUERY_DESCRIBED_MAX;
        let names: usize = self.data_sets.iter().map(|name| name.len() + 1).sum();
        let are_names = self.data_sets.len() <= fields && names <= QUERY_NAMES_BYTES_MAX;
        are_words && are_names && fields <= QUERY_FIELDS_MAX && are_few && are_columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Envelope;
    use crate::message::{decode, encode};
    use crate::request::Request;
    use forebay_types::limits;

    fn part() -> QueryPart {
        let table = QueryTable {
            dialect: QueryDialect {
                separator: Some(b','),
                point: b'.',
                comment: Some(b'#'),
                missing: vec!["x".repeat(QUERY_WORD_BYTES_MAX); QUERY_WORDS_MAX],
            },
            data_sets: vec!["x".repeat(QUERY_NAMES_BYTES_MAX / QUERY_FIELDS_MAX - 1); QUERY_FIELDS_MAX],
            fields: QUERY_FIELDS_MAX as u16,
            rows_from: u64::MAX,
            columns: (0..QUERY_FIELDS_MAX as u16).collect(),
            gramian: false,
            described_numbers: vec![QUERY_FIELDS_MAX as u16 - 1; QUERY_DESCRIBED_MAX],
            described_texts: vec![],
            filter: vec![1; QUERY_FILTER_BYTES_MAX],
            by: Some(QUERY_FIELDS_MAX as u16 - 1),
            covariance: false,
            text_is_missing: true,
        };
        QueryPart {
            file: ViewPath::new(["a"; 2048].join("/").as_bytes()).unwrap(),
            generation: Generation { ino: u64::MAX, size_bytes: u64::MAX, ..Generation::default() },
            counts_bytes: true,
            table: Some(table),
            first: u64::from(u32::MAX),
            blocks: QUERY_PART_BLOCKS_MAX,
            begins_quoted: Some(true),
        }
    }

    fn sent(part: QueryPart) -> Option<Envelope> {
        asked(QueryMessage::Part(part))
    }

    fn asked(message: QueryMessage) -> Option<Envelope> {
        let envelope = Envelope { remaining_ms: u32::MAX, request: Request::new(message.into()) };
        let bytes = encode(&envelope);
        assert!(bytes.len() <= limits::HEAD_BYTES_MAX, "{}", bytes.len());
        decode::<Envelope>(&bytes).ok().inspect(|there| assert_eq!(*there, envelope))
    }

    #[test]
    fn the_largest_part_fits_a_frame_and_comes_back() {
        assert!(sent(part()).is_some());
    }

    #[test]
    fn streams_come_back() {
        let stream = QueryStream { statement: u64::MAX, stream: 7, starts: true };
        assert!(asked(QueryMessage::OpenStream(stream)).is_some());
        assert!(asked(QueryMessage::PullStream { stream: u64::MAX, offset_bytes: u64::MAX }).is_some());
    }

    #[test]
    fn a_column_has_a_first_one_and_its_head_has_a_limit() {
        let of = |columns, head| {
            let QueryPart { file, generation, table, first, blocks, .. } = part();
            let table = QueryTable { columns, ..table.unwrap() };
            let draft = Some(QueryDraft { output: file.clone(), number: u64::MAX, head: vec![0xff; head] });
            let (mean_bits, deviation_bits, begins_quoted) = (u64::MAX, u64::MAX, true);
            let column =
                QueryColumn { file, generation, table, first, blocks, begins_quoted, mean_bits, deviation_bits, draft };
            asked(QueryMessage::Column(column))
        };
        assert!(of(vec![4095], QUERY_HEAD_BYTES_MAX).is_some());
        assert!(of(vec![4095], QUERY_HEAD_BYTES_MAX + 1).is_none());
        assert!(of(vec![], 0).is_none());
        assert!(of(vec![2, 1], 0).is_some(), "another column may make a row bad");
    }

    #[test]
    fn messages_beyond_their_limits_are_refused() {
        let table = || part().table.unwrap();
        assert!(sent(QueryPart { blocks: 0, ..part() }).is_none());
        assert!(sent(QueryPart { blocks: QUERY_PART_BLOCKS_MAX + 1, ..part() }).is_none());
        assert!(sent(QueryPart { first: 1 << 33, ..part() }).is_none());
        let no_such_column = QueryTable { columns: vec![4096], ..table() };
        assert!(sent(QueryPart { table: Some(no_such_column), ..part() }).is_none());
        let twice = |columns: usize, gramian: bool| {
            let (described_numbers, by, data_sets) = (vec![], None, vec![]);
            let columns = vec![0; columns];
            let table = QueryTable { columns, data_sets, fields: 1, gramian, described_numbers, by, ..table() };
            sent(QueryPart { table: Some(table), ..part() })
        };
        assert!(twice(2, true).is_some(), "a column may be requested twice");
        assert!(twice(QUERY_FIELDS_MAX + 1, false).is_none());
        assert!(twice(QUERY_GRAMIAN_COLUMNS_MAX, true).is_some());
        assert!(twice(QUERY_GRAMIAN_COLUMNS_MAX + 1, true).is_none());
        let gramian = QueryTable { gramian: true, ..table() };
        assert!(sent(QueryPart { table: Some(gramian), ..part() }).is_none(), "a Gramian of all fields of a record");
        let beyond = [
            QueryTable { described_texts: vec![0], ..table() },
            QueryTable { described_numbers: vec![], described_texts: vec![QUERY_FIELDS_MAX as u16], ..table() },
            QueryTable { by: Some(QUERY_FIELDS_MAX as u16), ..table() },
            QueryTable { filter: vec![0; QUERY_FILTER_BYTES_MAX + 1], ..table() },
            QueryTable { covariance: true, ..table() },
            QueryTable { data_sets: vec!["x".repeat(QUERY_NAMES_BYTES_MAX)], ..table() },
            QueryTable { data_sets: vec![String::new(); QUERY_FIELDS_MAX + 1], ..table() },
        ];
        beyond.into_iter().for_each(|table| assert!(sent(QueryPart { table: Some(table), ..part() }).is_none()));
        let too_many = QueryTable { fields: QUERY_FIELDS_MAX as u16 + 1, ..table() };
        let wordy = QueryDialect { missing: vec![String::new(); QUERY_WORDS_MAX + 1], ..table().dialect };
        assert!(sent(QueryPart { table: Some(QueryTable { dialect: wordy, ..table() }), ..part() }).is_none());
        assert!(sent(QueryPart { table: Some(too_many), ..part() }).is_none());
    }
}
