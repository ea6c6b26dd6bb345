//! The pass over one block: bytes counted, rows that begin in it parsed and summed, all while the block is in the cache.
//!
//! `row` takes rows apart. Here is decided which of them are good, and where they lie.

use memchr::memchr_iter;

use crate::batch::{Batch, BatchSink};
use crate::byte_counts::ByteCounter;
use crate::column::Column;
use crate::dialect::Dialect;
use crate::gramian::Gramian;
use crate::limits::{BAD_ROWS_NAMED_MAX, FIELDS_MAX, RECORD_BYTES_MAX};
use crate::operator::Collected;
use crate::record;
use crate::row::{OnText, RowParser};
use crate::schema::Schema;
use crate::state::{BadRow, Fault, Rows, State};

/// A block as it was read.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// Its bytes, and those behind it up to the end of the row that the block ends in.
    pub bytes: &'a [u8],
    /// How many of them are its own.
    pub len: usize,
    /// Where it begins in the file.
    pub offset: u64,
    /// Whether it begins within quotes.
    pub is_quoted: bool,
    /// The byte before it is a newline, or there is none.
    pub follows_newline: bool,
    /// No bytes come behind `bytes`.
    pub is_end: bool,
}

impl Block<'_> {
    /// Where its first row begins; its length if none does.
    fn first_row(&self, rows_from: u64) -> usize {
        if rows_from >= self.offset {
            return (rows_from - self.offset).min(self.len as u64) as usize;
        }
        if self.follows_newline && !self.is_quoted {
            return 0;
        }
        record::end(&self.bytes[..self.len], self.is_quoted).unwrap_or(self.len)
    }
}

/// Parses blocks of files that have one schema.
pub struct Pass {
    rows_from: u64,
    collected: Collected,
    /// Of each column that is requested, its place in the batch; one may be requested twice.
    order: Vec<usize>,
    counter: ByteCounter,
    parser: RowParser,
    batch: Batch,
}

impl Pass {
    /// A pass that keeps these columns of a schema, in this order; a column may be requested twice.
    pub fn new(schema: &Schema, columns: &[usize], on_text: OnText, collected: Collected) -> Self {
        let mut kept: Vec<usize> = columns.to_vec();
        kept.sort_unstable();
        kept.dedup();
        let place = |column: usize| kept.binary_search(&column).ok();
        // Every requested column is among those that are kept.
        let order: Vec<usize> = columns.iter().filter_map(|column| place(*column)).collect();
        let fields = (0..schema.numeric.len()).map(place).collect();
        let parser = RowParser::new(schema.dialect.clone(), on_text, fields);
        let batch = Batch::new(order.clone());
        Self { rows_from: schema.rows_from, collected, order, counter: ByteCounter::default(), parser, batch }
    }

    /// A pass that looks at no rows.
    pub fn of_bytes(collected: Collected) -> Self {
        let schema = Schema::of_rows(Dialect::default(), 0, 0);
        Self::new(&schema, &[], OnText::Bad, Collected { columns: false, ..collected })
    }

    /// The state of a block.
    pub fn block(&mut self, block: Block<'_>) -> State {
        let own = &block.bytes[..block.len];
        let byte_counts = self.collected.bytes.then(|| self.counter.count(own));
        let lines = byte_counts.as_ref().map_or_else(|| newlines(own), |counts| counts.count(b'\n'));
        let rows = self.collected.columns.then(|| {
            let mut sums = Sums {
                columns: vec![Column::default(); self.order.len()],
                gramian: self.collected.gramian.then(|| Gramian::new(self.order.len())),
            };
            let rows = self.rows(block, &mut sums);
            Rows { columns: sums.columns, gramian: sums.gramian, ..rows }
        });
        State { bytes: block.len as u64, lines, byte_counts, rows }
    }

    /// Hands the kept columns of a block's good rows to `sink`, batch by batch; says how many rows there were.
    pub fn rows(&mut self, block: Block<'_>, sink: &mut impl BatchSink) -> Rows {
        let mut rows = Rows::default();
        let first = block.first_row(self.rows_from);
        let lines_before = newlines(&block.bytes[..first]);
        let (mut at, mut lines, mut bad_lines, mut bad_bytes) = (first, lines_before, 0, 0);
        while at < block.len {
            if let Some(next) = self.parser.fast(block.bytes, at, &mut self.batch) {
                self.parser.end_row(lines);
                at = next;
                lines += 1;
                rows.good += 1;
                self.batch.end_row(sink);
                continue;
            }
            let SlowRow { len, newlines: ends, outcome } = self.slow_row(block, at);
            match outcome {
                Ok(false) => {}
                Ok(true) => {
                    rows.good += 1;
                    self.parser.end_row(lines);
                    self.batch.end_row(sink);
                }
                Err(fault) => {
                    rows.bad += 1;
                    (bad_lines, bad_bytes) = (bad_lines + ends, bad_bytes + len as u64);
                    if rows.named.len() < BAD_ROWS_NAMED_MAX {
                        rows.named.push(bad_row(lines, &block.bytes[at..at + len], ends, fault));
                    }
                }
            }
            at += len;
            lines += ends;
        }
        self.batch.end_block(sink);
        let texts = self.parser.take_texts();
        rows.texts = self.order.iter().map(|place| texts[*place].clone()).collect();
        rows.kept_bytes = (at - first) as u64 - bad_bytes;
        rows.kept_lines = lines - lines_before - bad_lines;
        rows
    }

    /// The row at `at`, the slow way.
    fn slow_row(&mut self, block: Block<'_>, at: usize) -> SlowRow {
        let bytes = &block.bytes[at..];
        let record = self.parser.dialect().record(bytes, FIELDS_MAX);
        let newlines = if record.may_have_quotes { newlines(&bytes[..record.len]) } else { u64::from(record.is_ended) };
        let outcome = if record.len as u64 > RECORD_BYTES_MAX || (!record.is_ended && !block.is_end) {
            Err(Fault::TooLong)
        } else if !record.is_ended && record::turns_quoting(bytes) {
            Err(Fault::OpenQuote)
        } else {
            self.parser.slow(&record, &mut self.batch)
        };
        SlowRow { len: record.len, newlines, outcome }
    }
}

/// A row that was split.
struct SlowRow {
    len: usize,
    newlines: u64,
    /// Whether it is one.
    outcome: Result<bool, Fault>,
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// A row that has so many newlines, behind so many.
fn bad_row(lines_before: u64, row: &[u8], newlines: u64, fault: Fault) -> BadRow {
    if fault == Fault::TooLong {
        return BadRow { lines_before, lines: 0, bytes: 0, fault };
    }
    let lines = newlines + u64::from(!row.ends_with(b"\n"));
    BadRow { lines_before, lines, bytes: row.len() as u64, fault }
}

/// The sums that stats and the Gramian keep.
struct Sums {
    columns: Vec<Column>,
    gramian: Option<Gramian>,
}

impl BatchSink for Sums {
    fn take(&mut self, columns: &[&[f64]], may_miss: bool) {
        for (column, fields) in self.columns.iter_mut().zip(columns) {
            column.add(fields, may_miss);
        }
        if let Some(gramian) = &mut self.gramian {
            gramian.add(columns, may_miss);
        }
    }
}
