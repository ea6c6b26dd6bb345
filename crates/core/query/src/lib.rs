//! Queries: statistics over files, made of partials wherever the bytes lie.
//!
//! Mergeable states answer all operators: how often each byte occurs (lines, digits, entropy), sums of columns and of their
//! products (count, sum, mean, extremes, variance, Gramian, covariance), and `describe`, the distribution of each column. Each
//! has some kilobytes, whatever the file has. Which rows count is said by a `filter`, and `groups` are summed apart. This crate
//! parses and merges; it opens no file and asks nobody.
//!
//! A file is blocks of `limits::BLOCK_BYTES`. A row belongs to the block in which it begins. The state of a block depends
//! on its rows alone, states merge along a fixed tree (`Partials`), and sums are double-doubles about the mean: so an
//! answer has the same bits however the file was cut, by however many nodes, in whatever order they answered.
//!
//! # Usage
//! `schema_of` with the beginning of a file, until that is enough for the `Schema`; `columns_of` for the columns. For each block, in
//! any order and by any number of `Pass`es: read it; whether it begins within quotes follows from `turns_quoting` of all
//! blocks before it; read on to `record_end`; `Pass::block`. `Partials::add` each state, `Partials::finish`, then the
//! state's parts say what was asked.
//!
//! A table of data sets has rows of doubles (`Separator::Doubles`) in place of text. Its blocks are cut likewise, and no quotes count.
//!
//! Over several nodes: `Parts` says which end makes which part of the file next. A part is some blocks, and an end that makes one and
//! does not know the bytes before it parses it for both cases (`PartState`). `Prediction` says which end should, and `Pace` when that
//! has turned out wrong. Results that are needed in the order of the blocks, such as a column that is written, are ordered by `InOrder`.

mod batch;
mod byte_counts;
mod co_moments;
mod column;
mod cost;
mod decimal;
mod describe;
mod dialect;
mod double_double;
mod error;
#[doc(hidden)]
pub mod exercise;
mod field_ends;
mod filter;
mod gramian;
mod groups;
mod in_order;
mod keys;
mod known_end;
mod lanes;
pub mod limits;
mod looked_at;
mod magic;
mod number;
mod objects;
mod operator;
mod pace;
mod part;
mod partials;
mod parts;
mod pass;
mod plain;
mod probe;
mod reading;
mod record;
mod row;
mod schema;
mod selection;
mod skip;
mod sniff;
mod state;
mod text_fields;
mod words;

pub use batch::BatchSink;
pub use byte_counts::ByteCounts;
pub use co_moments::CoMoments;
pub use column::{Column, ColumnSummary};
pub use cost::{Burst, Choice, End, Prediction, Share, calibrate, learned, share};
pub use describe::{
    Bin, Bins, Counted, DISTINCT_ERROR, Described, DescribedColumns, Distinct, NumberColumn, Shape, TextColumn, Values,
};
pub use dialect::{DOUBLE_BYTES, Dialect, Separator};
pub use error::{MergeError, QueryError};
pub use filter::{Filter, FilterError};
pub use gramian::Gramian;
pub use groups::{Group, Groups, Refused, groups_max};
pub use in_order::InOrder;
pub use keys::unite_keys;
pub use objects::{Keys, object as object_members};
pub use operator::{Collected, Operator, UnknownOperator};
pub use pace::Pace;
pub use part::{PartState, Quotes};
pub use partials::Partials;
pub use parts::{Part, Parts, Side};
pub use pass::{Block, Kept, Pass};
pub use probe::schema_of;
pub use reading::{Header, Reading};
pub use record::{RowEnds, end as record_end, turns_quoting};
pub use row::OnText;
pub use schema::{Finding, Schema, shown_name, shown_shape};
pub use selection::{column_of, columns_of, described_columns_of, same_columns};
pub use state::{BadRow, Fault, Rows, State};
pub use text_fields::{FirstText, TextFields};
pub use words::{Words, WordsError};
