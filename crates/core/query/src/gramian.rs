//! The Gramian A^T A of the rows in which nothing is missing.
//!
//! Products are summed as they are, not about the means: a Gramian's error is measured by the sum of its products'
//! magnitudes, and what is moved from means back to zero would lose that (a column of 1e300 beside one of 1).

use serde::{Deserialize, Serialize};

use crate::double_double::DoubleDouble;
use crate::lanes::{dot, sum};

/// A mergeable Gramian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gramian {
    columns: usize,
    rows: u64,
    /// Of each column over the same rows.
    column_sums: Vec<DoubleDouble>,
    /// The upper triangle, row by row.
    sums: Vec<DoubleDouble>,
}

impl Gramian {
    /// Of no rows.
    pub fn new(columns: usize) -> Self {
        Self {
            columns,
            rows: 0,
            column_sums: vec![DoubleDouble::default(); columns],
            sums: vec![DoubleDouble::default(); columns * (columns + 1) / 2],
        }
    }

    /// Adds a batch: as many fields of each column, NaN where one is missing.
    pub fn add(&mut self, columns: &[&[f64]], may_miss: bool) {
        whole_rows(columns, may_miss, |columns, rows| self.add_whole(columns, rows));
    }

    fn add_whole(&mut self, columns: &[&[f64]], rows: usize) {
        self.rows += rows as u64;
        for (total, column) in self.column_sums.iter_mut().zip(columns) {
            *total = total.plus(sum(column, |value| value));
        }
        let pairs = columns
            .iter()
            .enumerate()
            .flat_map(|(index, left)| columns[index..].iter().map(move |right| (left, right)));
        for (sum, (left, right)) in self.sums.iter_mut().zip(pairs) {
            *sum = sum.plus(dot(left, right));
        }
    }

    /// This and what comes after it; of as many columns.
    pub fn merge(&mut self, after: &Self) {
        self.rows += after.rows;
        for (sum, more) in self.column_sums.iter_mut().zip(&after.column_sums) {
            *sum = sum.add(*more);
        }
        for (sum, more) in self.sums.iter_mut().zip(&after.sums) {
            *sum = sum.add(*more);
        }
    }

    /// Rows without a missing field.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether it is one of so many columns.
    pub fn has_columns(&self, columns: usize) -> bool {
        self.columns == columns && self.column_sums.len() == columns && self.sums.len() == columns * (columns + 1) / 2
    }

    /// The correlations between the columns, for a picture: NaN where a column does not vary, or so little beside its
    /// magnitude that products about zero do not tell.
    pub fn correlations(&self) -> Vec<Vec<f64>> {
        /// Of the mean square, what a variance must have: then four digits of it are right.
        const VARIES: f64 = 1e-10;
        let count = self.rows as f64;
        let means: Vec<f64> = self.column_sums.iter().map(|sum| sum.value() / count).collect();
        let mut matrix = self.matrix();
        let variance = |column: usize| matrix[column][column] / count - means[column] * means[column];
        let varies = |column: &usize| variance(*column) > VARIES * matrix[*column][*column] / count;
        let deviations: Vec<f64> =
            (0..self.columns).map(|column| if varies(&column) { variance(column).sqrt() } else { f64::NAN }).collect();
        for (row, values) in matrix.iter_mut().enumerate() {
            for (column, value) in values.iter_mut().enumerate() {
                let covariance = *value / count - means[row] * means[column];
                *value = (covariance / deviations[row] / deviations[column]).clamp(-1.0, 1.0);
            }
        }
        matrix
    }

    /// The whole matrix, row by row.
    pub fn matrix(&self) -> Vec<Vec<f64>> {
        let mut matrix = vec![vec![0.0; self.columns]; self.columns];
        let pairs = (0..self.columns).flat_map(|row| (row..self.columns).map(move |column| (row, column)));
        for ((row, column), sum) in pairs.zip(&self.sums) {
            matrix[row][column] = sum.value();
            matrix[column][row] = sum.value();
        }
        matrix
    }
}

/// Hands on the rows of a batch in which nothing is missing, and how many they are.
pub fn whole_rows(columns: &[&[f64]], may_miss: bool, mut take: impl FnMut(&[&[f64]], usize)) {
    let rows = columns.first().map_or(0, |column| column.len());
    let is_whole = |row: &usize| columns.iter().all(|column| !column[*row].is_nan());
    if !may_miss || (0..rows).all(|row| is_whole(&row)) {
        take(columns, rows);
        return;
    }
    let whole: Vec<usize> = (0..rows).filter(is_whole).collect();
    let kept: Vec<Vec<f64>> = columns.iter().map(|column| whole.iter().map(|row| column[*row]).collect()).collect();
    let kept: Vec<&[f64]> = kept.iter().map(Vec::as_slice).collect();
    take(&kept, whole.len());
}
