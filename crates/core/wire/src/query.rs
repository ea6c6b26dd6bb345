//! What a query asks of a node that holds bytes: the pass over a part of a file.
//!
//! A part is complete in itself and changes nothing, so it may be asked of several nodes, and again. What comes back is
//! encoded by the core of queries; here it is bytes. A fragment of SQL is like a part, but its plan is bytes, too: only the program
//! that has the engine knows what they say.

use forebay_types::{Generation, ViewPath};
use serde::{Deserialize, Serialize};

/// Fields of a record (`forebay_query::limits::FIELDS_MAX`): all of them fit a message.
pub const QUERY_FIELDS_MAX: usize = 4096;

/// Blocks of a part: as many as a slow node reads within a deadline.
pub const QUERY_PART_BLOCKS_MAX: u32 = 64;

/// Bytes of a fragment's plan: with the longest paths a message is within `limits::HEAD_BYTES_MAX`.
pub const QUERY_PLAN_BYTES_MAX: usize = 56 << 10;

/// Files of a fragment.
pub const QUERY_FILES_MAX: usize = 16;

/// What a query asks a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum QueryMessage {
    /// The pass over a part of a file. Answer: `Body`; body: the part's partials. `ESTALE` where the node has another
    /// version of the file, `EBUSY` where it has as much to do as it may.
    Part(QueryPart),
    /// A fragment of a plan of SQL, over files that the node holds. Answer: `Body`; body: an Arrow IPC stream. `ESTALE` where the
    /// node has other versions of the files, `EBUSY` where it has as much to do as it may, `ENOSYS` where it has no engine.
    Fragment(QueryFragment),
}

/// What a query collects: how long its pass takes follows from that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryWants {
    /// How often each byte occurs.
    pub counts_bytes: bool,
    /// Rows, and sums of columns.
    pub rows: bool,
    /// Products of columns.
    pub gramian: bool,
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
    /// What stands between fields.
    pub delimiter: u8,
    /// Of each column whether it is numeric; `QUERY_FIELDS_MAX` at most.
    pub numeric: Vec<Option<bool>>,
    /// Where the first row begins, bytes.
    pub rows_from: u64,
    /// The columns to keep, by index.
    pub columns: Vec<u16>,
    /// Products of columns are wanted.
    pub gramian: bool,
}

/// A fragment of a plan of SQL.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct QueryFragment {
    /// All files that it reads, `QUERY_FILES_MAX` at most, in the versions that the asked node has.
    pub files: Vec<(ViewPath, Generation)>,
    /// What to do, for the engine; `QUERY_PLAN_BYTES_MAX` at most.
    pub plan: Vec<u8>,
}

impl QueryMessage {
    /// A short word for logs and counters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Part(_) => "query-part",
            Self::Fragment(_) => "query-fragment",
        }
    }

    pub(crate) fn is_within_limits(&self) -> bool {
        let part = match self {
            Self::Part(part) => part,
            Self::Fragment(QueryFragment { files, plan }) => {
                return (1..=QUERY_FILES_MAX).contains(&files.len()) && plan.len() <= QUERY_PLAN_BYTES_MAX;
            }
        };
        let is_table_within = part.table.as_ref().is_none_or(|table| {
            let fields = table.numeric.len();
            let is_column = |column: &u16| usize::from(*column) < fields;
            fields <= QUERY_FIELDS_MAX && table.columns.len() <= fields && table.columns.iter().all(is_column)
        });
        (1..=QUERY_PART_BLOCKS_MAX).contains(&part.blocks) && part.first <= u64::from(u32::MAX) && is_table_within
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
            delimiter: b',',
            numeric: vec![Some(true); QUERY_FIELDS_MAX],
            rows_from: u64::MAX,
            columns: (0..QUERY_FIELDS_MAX as u16).collect(),
            gramian: true,
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
    fn a_fragment_has_its_limits_too() {
        let file = || (part().file, part().generation);
        let of = |files, bytes| {
            let files = (0..files).map(|_| file()).collect();
            asked(QueryMessage::Fragment(QueryFragment { files, plan: vec![0xff; bytes] }))
        };
        assert!(of(QUERY_FILES_MAX, QUERY_PLAN_BYTES_MAX).is_some());
        assert!(of(QUERY_FILES_MAX, QUERY_PLAN_BYTES_MAX + 1).is_none());
        assert!(of(QUERY_FILES_MAX + 1, 0).is_none());
        assert!(of(0, 1).is_none(), "a fragment that reads nothing");
    }

    #[test]
    fn what_is_beyond_its_limits_is_refused() {
        let table = || part().table.unwrap();
        assert!(sent(QueryPart { blocks: 0, ..part() }).is_none());
        assert!(sent(QueryPart { blocks: QUERY_PART_BLOCKS_MAX + 1, ..part() }).is_none());
        assert!(sent(QueryPart { first: 1 << 33, ..part() }).is_none());
        let no_such_column = QueryTable { columns: vec![4096], ..table() };
        assert!(sent(QueryPart { table: Some(no_such_column), ..part() }).is_none());
        let twice = QueryTable { columns: vec![0; 2], numeric: vec![None], ..table() };
        assert!(sent(QueryPart { table: Some(twice), ..part() }).is_none());
        let too_many = QueryTable { numeric: vec![None; QUERY_FIELDS_MAX + 1], ..table() };
        assert!(sent(QueryPart { table: Some(too_many), ..part() }).is_none());
    }
}
