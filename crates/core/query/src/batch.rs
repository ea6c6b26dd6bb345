//! Rows on their way to the sums, column by column.

use crate::limits::BATCH_ROWS;

/// Takes batches of rows.
pub trait BatchSink {
    /// As many fields of each column, NaN where one is missing; none is unless `may_miss`.
    fn take(&mut self, columns: &[&[f64]], may_miss: bool);
}

/// Up to `BATCH_ROWS` rows.
pub struct Batch {
    columns: Vec<[f64; BATCH_ROWS]>,
    rows: usize,
    may_miss: bool,
}

impl Batch {
    /// Of so many columns.
    pub fn new(columns: usize) -> Self {
        Self { columns: vec![[0.0; BATCH_ROWS]; columns], rows: 0, may_miss: false }
    }

    /// Sets a field of the row that is under way; a row that never ends is overwritten by the next.
    #[inline]
    pub fn put(&mut self, column: usize, number: f64, is_missing: bool) {
        self.columns[column][self.rows % BATCH_ROWS] = number;
        self.may_miss |= is_missing;
    }

    /// The row under way is whole. A full batch goes to the sink.
    #[inline]
    pub fn end_row(&mut self, sink: &mut impl BatchSink) {
        self.rows += 1;
        if self.rows == BATCH_ROWS {
            self.hand_over(sink);
        }
    }

    /// No more rows of this block.
    pub fn end_block(&mut self, sink: &mut impl BatchSink) {
        if self.rows > 0 {
            self.hand_over(sink);
        }
        self.may_miss = false;
    }

    fn hand_over(&mut self, sink: &mut impl BatchSink) {
        let columns: Vec<&[f64]> = self.columns.iter().map(|column| &column[..self.rows]).collect();
        sink.take(&columns, self.may_miss);
        (self.rows, self.may_miss) = (0, false);
    }
}
