//! Rows on their way to the sums, column by column.

use crate::limits::BATCH_ROWS;

/// Takes batches of rows.
pub trait BatchSink {
    /// As many fields of each column, NaN where one is missing; none is unless `may_miss`.
    fn take(&mut self, columns: &[&[f64]], may_miss: bool);

    /// The next row of the batch that is under way has this text, by which it belongs to a group.
    fn key(&mut self, _text: &[u8]) {}
}

/// Up to `BATCH_ROWS` rows.
pub struct Batch {
    /// Each column once.
    columns: Vec<[f64; BATCH_ROWS]>,
    /// Which of them the sink takes, in its order; one may be there twice.
    order: Vec<usize>,
    rows: usize,
    may_miss: bool,
}

impl Batch {
    /// Of columns that a sink takes in this order, by their places in the batch.
    pub fn new(order: Vec<usize>) -> Self {
        let columns = order.iter().max().map_or(0, |last| last + 1);
        Self { columns: vec![[0.0; BATCH_ROWS]; columns], order, rows: 0, may_miss: false }
    }

    /// Sets a field of the row that is under way; a row that never ends is overwritten by the next.
    #[inline]
    pub fn put(&mut self, column: usize, number: f64, is_missing: bool) {
        self.put_ahead(0, column, number, is_missing);
    }

    /// The same of a row so many behind it, fewer than `room`.
    #[inline]
    pub fn put_ahead(&mut self, ahead: usize, column: usize, number: f64, is_missing: bool) {
        self.columns[column][(self.rows + ahead) % BATCH_ROWS] = number;
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

    /// How many more rows it takes before it goes to the sink.
    pub fn room(&self) -> usize {
        BATCH_ROWS - self.rows
    }

    /// The next so many fields of a column, at most `room`, to be set.
    pub fn fields(&mut self, column: usize, rows: usize) -> &mut [f64] {
        &mut self.columns[column][self.rows..self.rows + rows]
    }

    /// So many rows, at most `room`, are whole. A full batch goes to the sink.
    pub fn end_rows(&mut self, rows: usize, may_miss: bool, sink: &mut impl BatchSink) {
        self.rows += rows;
        self.may_miss |= may_miss;
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
        let columns: Vec<&[f64]> = self.order.iter().map(|place| &self.columns[*place][..self.rows]).collect();
        sink.take(&columns, self.may_miss);
        (self.rows, self.may_miss) = (0, false);
    }
}
