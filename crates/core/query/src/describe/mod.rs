//! `describe`: what a column holds, whatever it is. All of it merges, with the same bits however a file was cut.
//!
//! A column of numbers has its sums (`column`), the shape of its distribution (`shape`), the counts of its values
//! (`values`, for quantiles and different ones) and a histogram (`bins`). A column of text has its extremes, its most
//! frequent texts (`frequent`) and whether they are `dates`. `registers` say of either how many different ones there are,
//! where they are not counted one by one.

mod bins;
mod dates;
mod frequent;
mod registers;
mod shape;
mod texts;
mod values;

use serde::{Deserialize, Serialize};

use crate::column::Column;
use crate::limits::{RANGES_ALL_MAX, RANGES_MAX, RANGES_MIN};
use crate::text_fields::TextFields;

pub use bins::{Bin, Bins};
pub use frequent::Counted;
pub use registers::DISTINCT_ERROR;
pub use shape::Shape;
pub use texts::TextColumn;
pub(crate) use texts::{TextColumnCounter, text_of};
pub use values::{Distinct, Values};

use values::ValueCounter;

/// The columns that are described, by index: each as what its fields are at the beginning of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedColumns {
    /// Numbers.
    pub numbers: Vec<usize>,
    /// Text.
    pub texts: Vec<usize>,
}

/// Their contents, in that order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// Those of numbers.
    pub numbers: Vec<NumberColumn>,
    /// Those of text.
    pub texts: Vec<TextColumn>,
}

/// A column of numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberColumn {
    /// Count, sums, extremes.
    pub column: Column,
    /// Its fields that are no numbers.
    pub texts: TextFields,
    /// Skewness and kurtosis.
    pub shape: Shape,
    /// Quantiles.
    pub values: Values,
    /// A histogram.
    pub bins: Bins,
}

impl NumberColumn {
    /// The value below which such a share of the values lies (`Values::quantile`); the extremes are exact.
    pub fn quantile(&self, share: f64) -> f64 {
        let summary = self.column.summary();
        match share {
            share if share <= 0.0 => summary.min,
            share if share >= 1.0 => summary.max,
            // Not `clamp`, which takes no NaN: there may be no value.
            share => self.values.quantile(share).max(summary.min).min(summary.max),
        }
    }
}

impl NumberColumn {
    /// Its infinite values.
    pub fn infinite(&self) -> u64 {
        self.values.count() - self.column.finite()
    }

    /// Whether it has integers that not every double can be, such as numbers that stand for names.
    pub fn may_be_rounded(&self) -> bool {
        // Numbers beyond those of 64 bits are no names of things.
        let largest = self.column.summary().max.max(-self.column.summary().min);
        largest > 2_f64.powi(53) && largest <= 2_f64.powi(64)
    }

    /// The skewness (`Shape::skewness`); NaN where a value is infinite.
    pub fn skewness(&self) -> f64 {
        if self.infinite() > 0 { f64::NAN } else { self.shape.skewness() }
    }

    /// The kurtosis (`Shape::kurtosis`), likewise.
    pub fn kurtosis(&self) -> f64 {
        if self.infinite() > 0 { f64::NAN } else { self.shape.kurtosis() }
    }
}

/// Ranges of each of so many columns of numbers.
fn ranges_max(columns: usize) -> u32 {
    (RANGES_ALL_MAX / columns.max(1)).clamp(RANGES_MIN, RANGES_MAX) as u32
}

impl DescribedColumns {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.numbers.is_empty() && self.texts.is_empty()
    }
}

impl Described {
    /// Of no rows.
    pub fn of(numbers: usize, texts: usize) -> Self {
        let number = NumberColumn {
            column: Column::default(),
            texts: TextFields::default(),
            shape: Shape::default(),
            values: Values::new(ranges_max(numbers)),
            bins: Bins::default(),
        };
        Self { numbers: vec![number; numbers], texts: vec![TextColumn::default(); texts] }
    }

    /// This and what comes behind so many newlines.
    pub(crate) fn merge(&mut self, after: &Self, lines: u64) {
        for (column, more) in self.numbers.iter_mut().zip(&after.numbers) {
            column.column.merge(&more.column);
            column.texts.merge(&more.texts, lines);
            column.shape.merge(&more.shape);
            column.values.merge(&more.values);
            column.bins.merge(&more.bins);
        }
        for (column, more) in self.texts.iter_mut().zip(&after.texts) {
            column.merge(more, lines);
        }
    }

    /// Whether it can be of so many rows and newlines; what travelled may not.
    pub(crate) fn is_of(&self, rows: u64, lines: u64) -> bool {
        let limit = ranges_max(self.numbers.len());
        let number = |of: &NumberColumn| {
            let (values, finite) = (rows.checked_sub(of.column.missing()), of.column.finite());
            of.column.is_of(rows)
                && of.texts.is_of(of.column.missing(), lines)
                && values.is_some_and(|values| of.values.are_of(values, limit))
                && of.shape.is_of(finite)
                && of.bins.are_of(finite)
        };
        self.numbers.iter().all(number) && self.texts.iter().all(|column| column.is_of(rows, lines))
    }
}

/// Counts the numbers of one block.
pub(crate) struct NumberCounters {
    counters: Vec<ValueCounter>,
    columns: Vec<NumberColumn>,
}

impl NumberCounters {
    /// Of so many columns.
    pub fn new(columns: usize) -> Self {
        let counters = (0..columns).map(|_| ValueCounter::new(ranges_max(columns))).collect();
        Self { counters, columns: Described::of(columns, 0).numbers }
    }

    /// Adds a batch: as many fields of each column, NaN where one is missing.
    pub fn add(&mut self, columns: &[&[f64]], may_miss: bool) {
        for ((column, counter), fields) in self.columns.iter_mut().zip(&mut self.counters).zip(columns) {
            column.column.add(fields, may_miss);
            column.shape.add(fields);
            counter.add(fields);
            column.bins.add(fields);
        }
    }

    /// The columns since this was asked last, without their fields that are no numbers.
    pub fn take(&mut self) -> Vec<NumberColumn> {
        let none = Described::of(self.columns.len(), 0).numbers;
        let columns = std::mem::replace(&mut self.columns, none);
        let with =
            |(column, counter): (NumberColumn, &mut ValueCounter)| NumberColumn { values: counter.take(), ..column };
        columns.into_iter().zip(&mut self.counters).map(with).collect()
    }
}
