//! The pass over one block: bytes counted, rows that begin in it parsed and summed, all while the block is in the cache.
//!
//! `row` takes rows apart. Here is decided which of them are good, and where they lie.

use memchr::memchr_iter;

use crate::batch::{Batch, BatchSink};
use crate::byte_counts::ByteCounter;
use crate::co_moments::CoMoments;
use crate::column::Column;
use crate::describe::{Described, DescribedColumns, NumberCounters, TextColumnCounter};
use crate::dialect::{DOUBLE_BYTES, Dialect, Separator};
use crate::filter::Filter;
use crate::gramian::Gramian;
use crate::groups::GroupCounter;
use crate::limits::{BAD_ROWS_NAMED_MAX, FIELDS_MAX, RECORD_BYTES_MAX};
use crate::looked_at::LookedAt;
use crate::operator::Collected;
use crate::record::RowEnds;
use crate::row::{FieldOf, OnText, RowParser};
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
    fn first_row(&self, rows_from: u64, ends: RowEnds) -> usize {
        if rows_from >= self.offset {
            return (rows_from - self.offset).min(self.len as u64) as usize;
        }
        if self.follows_newline && !self.is_quoted {
            return 0;
        }
        ends.end(&self.bytes[..self.len], self.is_quoted).unwrap_or(self.len)
    }
}

/// The columns of a table that a pass keeps.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    /// Those that are summed, in this order; one may be there twice.
    pub columns: &'a [usize],
    /// Those that are described.
    pub described: &'a DescribedColumns,
    /// The meaning of text in one of numbers.
    pub on_text: OnText,
    /// Which rows count; all without one.
    pub filter: Option<&'a Filter>,
    /// The column whose values make groups of rows.
    pub by: Option<usize>,
}

impl<'a> Kept<'a> {
    /// All columns that a pass looks at; some may be there twice.
    pub fn looked_at(&self) -> impl Iterator<Item = usize> {
        let described = self.described.numbers.iter().chain(&self.described.texts);
        let filtered = self.filter.map(Filter::columns).unwrap_or_default();
        self.columns.iter().chain(described).copied().chain(filtered).chain(self.by)
    }

    /// Columns that are summed over all rows, and none that is described.
    pub fn summed(columns: &'a [usize], on_text: OnText) -> Self {
        static NONE: DescribedColumns = DescribedColumns { numbers: vec![], texts: vec![] };
        Self { columns, described: &NONE, on_text, filter: None, by: None }
    }
}

/// Parses blocks of files that have one schema.
pub struct Pass {
    rows_from: u64,
    collected: Collected,
    /// Of each column that is summed, its place in the batch; one may be there twice.
    order: Vec<usize>,
    /// Of each column of numbers that is described.
    described: Vec<usize>,
    numbers: NumberCounters,
    filter: Option<Filter>,
    by: Option<usize>,
    looked_at: LookedAt,
    groups: Option<GroupCounter>,
    counter: ByteCounter,
    parser: RowParser,
    batch: Batch,
}

impl Pass {
    /// A pass that keeps these columns of a schema.
    pub fn new(schema: &Schema, kept: Kept<'_>, collected: Collected) -> Self {
        let Kept { columns, described, on_text, filter, by } = kept;
        let mut numbers: Vec<usize> = columns.iter().chain(&described.numbers).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let place = |column: usize| numbers.binary_search(&column).ok();
        // Every column is among those that are kept.
        let places = |columns: &[usize]| columns.iter().filter_map(|column| place(*column)).collect::<Vec<_>>();
        let (order, described_places) = (places(columns), places(&described.numbers));
        let text = |column: usize| described.texts.iter().position(|text| *text == column);
        let field = |column| place(column).map(FieldOf::Number).or_else(|| text(column).map(FieldOf::Text));
        let fields = (0..schema.numeric.len()).map(field).collect();
        let parser = RowParser::new(schema.dialect.clone(), on_text, fields);
        let batch = Batch::new(order.iter().chain(&described_places).copied().collect());
        let numbers = NumberCounters::new(described_places.len());
        let (rows_from, counter, described) = (schema.rows_from, ByteCounter::default(), described_places);
        let looked_at = filter.map(Filter::columns).unwrap_or_default().into_iter().chain(by).collect();
        let looked_at = LookedAt::of(looked_at, schema.numeric.len());
        let (filter, groups) = (filter.cloned(), by.map(|_| GroupCounter::new(order.len())));
        Self { rows_from, collected, order, described, numbers, filter, by, looked_at, groups, counter, parser, batch }
    }

    /// A pass that looks at no rows.
    pub fn of_bytes(collected: Collected) -> Self {
        let schema = Schema::of_rows(Dialect::default(), 0, 0);
        Self::new(&schema, Kept::summed(&[], OnText::Bad), Collected { columns: false, ..collected })
    }

    /// The state of a block.
    pub fn block(&mut self, block: Block<'_>) -> State {
        let own = &block.bytes[..block.len];
        let byte_counts = self.collected.bytes.then(|| self.counter.count(own));
        let (rows, rows_lines) = self.collected.columns.then(|| self.summed(block)).unzip();
        let lines = match &byte_counts {
            Some(counts) => counts.count(b'\n'),
            None if self.parser.dialect().separator == Separator::Doubles => 0,
            None => rows_lines.unwrap_or_else(|| newlines(own)),
        };
        State { bytes: block.len as u64, lines, byte_counts, rows }
    }

    /// The rows of a block with their sums, and the newlines among its own bytes.
    fn summed(&mut self, block: Block<'_>) -> (Rows, u64) {
        let columns = self.order.len();
        let gramian = self.collected.gramian.then(|| Gramian::new(columns));
        let covariance = self.collected.covariance.then(|| CoMoments::new(columns));
        let numbers = std::mem::replace(&mut self.numbers, NumberCounters::new(0));
        let groups = self.groups.take();
        let mut sums = Sums { columns: vec![Column::default(); columns], gramian, covariance, groups, numbers };
        let (mut rows, lines) = self.rows_and_lines(block, &mut sums);
        let groups = sums.groups.as_mut().map(GroupCounter::take);
        (self.numbers, self.groups) = (sums.numbers, sums.groups);
        let mut numbers = self.numbers.take();
        let texts = std::mem::take(&mut rows.texts);
        for (column, place) in numbers.iter_mut().zip(&self.described) {
            column.texts = texts[*place].clone();
        }
        rows.texts = self.order.iter().map(|place| texts[*place].clone()).collect();
        let texts = self.parser.described().iter_mut().map(TextColumnCounter::take).collect();
        let Sums { columns, gramian, covariance, .. } = sums;
        (Rows { columns, gramian, covariance, groups, described: Described { numbers, texts }, ..rows }, lines)
    }

    /// Hands the columns of numbers of a block's good rows to `sink`, batch by batch; says how many rows there were. Their texts are by
    /// place in the batch.
    pub fn rows(&mut self, block: Block<'_>, sink: &mut impl BatchSink) -> Rows {
        self.rows_and_lines(block, sink).0
    }

    /// The same, and the newlines among the block's own bytes: rows count them on their way, which saves a look at every byte. Rows
    /// of doubles have none.
    fn rows_and_lines(&mut self, block: Block<'_>, sink: &mut impl BatchSink) -> (Rows, u64) {
        if self.parser.dialect().separator == Separator::Doubles {
            return (self.rows_of_doubles(block, sink), 0);
        }
        self.parser.begin_block();
        let mut rows = Rows::default();
        let first = block.first_row(self.rows_from, self.parser.dialect().row_ends());
        let lines_before = newlines(&block.bytes[..first]);
        let (mut at, mut lines, mut bad_lines, mut bad_bytes) = (first, lines_before, 0, 0);
        while at < block.len {
            let is_looked_at = self.looks() && self.looked_at.find(block.bytes, at, self.parser.dialect());
            if is_looked_at && let Some(len) = self.filtered(block, at) {
                (at, lines) = (at + len, lines + newlines(&block.bytes[at..at + len]));
                rows.filtered += 1;
                continue;
            }
            if let Some((run, next)) = self.fast_rows(block, at, lines) {
                (at, lines) = (next, lines + run as u64);
                rows.good += run as u64;
                self.key(block, is_looked_at, sink);
                self.batch.end_rows(run, false, sink);
                continue;
            }
            let SlowRow { len, newlines: ends, outcome } = self.slow_row(block, at);
            match outcome {
                Ok(false) => {}
                Ok(true) => {
                    rows.good += 1;
                    self.parser.end_row(lines);
                    self.key(block, is_looked_at, sink);
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
        rows.texts = self.parser.take_texts();
        rows.kept_bytes = (at - first) as u64 - bad_bytes;
        rows.kept_lines = lines - lines_before - bad_lines;
        // The last row may end behind the block.
        let own_lines = lines - newlines(&block.bytes[block.len.min(at)..at]);
        debug_assert_eq!(own_lines, newlines(&block.bytes[..block.len]));
        (rows, own_lines)
    }

    /// Parses good rows from `at` on, behind so many newlines, one if rows are looked at: how many, and where the next one begins. None
    /// where the slow way is to take the row.
    #[inline(always)]
    fn fast_rows(&mut self, block: Block<'_>, at: usize, lines: u64) -> Option<(usize, usize)> {
        let rows_max = if self.looks() { 1 } else { self.batch.room() };
        let (run, next) = self.parser.run(block.bytes, at..block.len, rows_max, lines, &mut self.batch);
        if run > 0 {
            return Some((run, next));
        }
        let next = self.parser.fast(block.bytes, at, &mut self.batch)?;
        self.parser.end_row(lines);
        Some((1, next))
    }

    /// Whether rows are looked at before they are parsed.
    fn looks(&self) -> bool {
        self.filter.is_some() || self.by.is_some()
    }

    /// The same of rows of doubles, which begin one after the other from the beginning of the file on.
    fn rows_of_doubles(&mut self, block: Block<'_>, sink: &mut impl BatchSink) -> Rows {
        let mut rows = Rows::default();
        let width = self.parser.fields().max(1) * DOUBLE_BYTES;
        let first = (width as u64 - block.offset % width as u64) as usize % width;
        let bytes = block.bytes.get(first..).unwrap_or_default();
        // The reader appends the rest of the last row.
        let count = block.len.saturating_sub(first).div_ceil(width).min(bytes.len() / width);
        let bytes = &bytes[..count * width];
        if self.looks() {
            bytes.chunks_exact(width).for_each(|row| self.looked_at_doubles(block, row, &mut rows, sink));
        } else {
            rows.good = count as u64;
            let mut left = bytes;
            while !left.is_empty() {
                let (batch, behind) = left.split_at(left.len().min(self.batch.room() * width));
                let count = batch.len() / width;
                let may_miss = self.parser.columns_of_doubles(batch, count, &mut self.batch);
                self.batch.end_rows(count, may_miss, sink);
                left = behind;
            }
        }
        self.batch.end_block(sink);
        rows.texts = self.parser.take_texts();
        rows.kept_bytes = bytes.len() as u64;
        rows
    }

    /// One row of doubles of a pass that looks at rows before it takes them.
    fn looked_at_doubles(&mut self, block: Block<'_>, row: &[u8], rows: &mut Rows, sink: &mut impl BatchSink) {
        let is_looked_at = self.looked_at.find(row, 0, self.parser.dialect());
        let field = |column| self.looked_at.field(row, column);
        if self.filter.as_ref().is_some_and(|filter| !filter.admits(self.parser.dialect(), field)) {
            rows.filtered += 1;
            return;
        }
        self.parser.doubles(row, &mut self.batch);
        self.parser.end_row(0);
        rows.good += 1;
        self.key(Block { bytes: row, ..block }, is_looked_at, sink);
        self.batch.end_row(sink);
    }

    /// The length of the row at `at`, which was looked at, if the filter leaves it out.
    fn filtered(&self, block: Block<'_>, at: usize) -> Option<usize> {
        let filter = self.filter.as_ref()?;
        let is_kept = filter.admits(self.parser.dialect(), |column| self.looked_at.field(block.bytes, column));
        if is_kept {
            return None;
        }
        let rest = &block.bytes[at..];
        // One that never ends is bad, and takes the usual way.
        let ends = self.parser.dialect().row_ends();
        let is_last = block.is_end && !ends.turns_quoting(rest);
        ends.end(rest, false).or_else(|| is_last.then_some(rest.len()))
    }

    /// Tells `sink` the group of a good row, which was looked at.
    fn key(&self, block: Block<'_>, is_looked_at: bool, sink: &mut impl BatchSink) {
        if let Some(by) = self.by {
            let field = if is_looked_at { self.looked_at.field(block.bytes, by) } else { &[] };
            sink.key(&self.parser.dialect().text_of(field));
        }
    }

    /// The row at `at`, the slow way.
    fn slow_row(&mut self, block: Block<'_>, at: usize) -> SlowRow {
        let bytes = &block.bytes[at..];
        let ends = self.parser.dialect().row_ends();
        let record = self.parser.dialect().record(bytes, FIELDS_MAX);
        let newlines = if record.may_have_quotes { newlines(&bytes[..record.len]) } else { u64::from(record.is_ended) };
        let outcome = if record.len as u64 > RECORD_BYTES_MAX || (!record.is_ended && !block.is_end) {
            Err(Fault::TooLong)
        } else if !record.is_ended && ends.turns_quoting(bytes) {
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

/// The sums that stats and the Gramian keep, and behind their columns those that are described.
struct Sums {
    columns: Vec<Column>,
    gramian: Option<Gramian>,
    covariance: Option<CoMoments>,
    groups: Option<GroupCounter>,
    numbers: NumberCounters,
}

impl BatchSink for Sums {
    fn key(&mut self, text: &[u8]) {
        if let Some(groups) = &mut self.groups {
            groups.key(text);
        }
    }

    fn take(&mut self, columns: &[&[f64]], may_miss: bool) {
        let (columns, described) = columns.split_at(self.columns.len());
        for (column, fields) in self.columns.iter_mut().zip(columns) {
            column.add(fields, may_miss);
        }
        if let Some(covariance) = &mut self.covariance {
            covariance.add(columns, may_miss);
        }
        if let Some(groups) = &mut self.groups {
            groups.add(columns);
        }
        self.numbers.add(described, may_miss);
        if let Some(gramian) = &mut self.gramian {
            gramian.add(columns, may_miss);
        }
    }
}
