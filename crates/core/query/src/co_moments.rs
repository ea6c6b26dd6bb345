//! Covariances of columns, over the rows in which nothing is missing: sums of products about the means.
//!
//! Products are summed about the means of a batch and moved when batches merge, as `column` does with squares: no
//! cancellation, however far the values are from zero.

use serde::{Deserialize, Serialize};

use crate::double_double::DoubleDouble;
use crate::gramian::whole_rows;
use crate::lanes::{dot, sum};

/// A mergeable matrix of products about the means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoMoments {
    rows: u64,
    /// Of each column.
    sums: Vec<DoubleDouble>,
    /// The upper triangle, row by row.
    products: Vec<DoubleDouble>,
}

/// The pairs of the upper triangle, in order.
fn pairs(columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..columns).flat_map(move |row| (row..columns).map(move |column| (row, column)))
}

impl CoMoments {
    /// Of no rows.
    pub fn new(columns: usize) -> Self {
        let none = |count| vec![DoubleDouble::default(); count];
        Self { rows: 0, sums: none(columns), products: none(columns * (columns + 1) / 2) }
    }

    /// Adds a batch: as many fields of each column, NaN where one is missing.
    pub fn add(&mut self, columns: &[&[f64]], may_miss: bool) {
        whole_rows(columns, may_miss, |columns, rows| {
            if rows > 0 {
                self.merge(&Self::of(columns, rows));
            }
        });
    }

    fn of(columns: &[&[f64]], rows: usize) -> Self {
        let count = rows as f64;
        let centred = |values: &&[f64]| {
            let centre = sum(values, |value| value) / count;
            (centre, values.iter().map(|value| value - centre).collect::<Vec<f64>>())
        };
        let centred: Vec<(f64, Vec<f64>)> = columns.iter().map(centred).collect();
        let rests: Vec<f64> = centred.iter().map(|(_, values)| sum(values, |value| value)).collect();
        let product = |(row, column): (usize, usize)| {
            let about_centres = dot(&centred[row].1, &centred[column].1);
            DoubleDouble::from(about_centres).subtract(DoubleDouble::product(rests[row], rests[column]).over(count))
        };
        let sums =
            centred.iter().zip(&rests).map(|((centre, _), rest)| DoubleDouble::product(*centre, count).plus(*rest));
        Self { rows: rows as u64, sums: sums.collect(), products: pairs(columns.len()).map(product).collect() }
    }

    /// This and what comes after it; of as many columns.
    pub fn merge(&mut self, after: &Self) {
        if self.rows == 0 || after.rows == 0 {
            if self.rows == 0 {
                self.clone_from(after);
            }
            return;
        }
        let (left, right) = (self.rows as f64, after.rows as f64);
        let apart = |(here, there): (&DoubleDouble, &DoubleDouble)| there.over(right).subtract(here.over(left)).value();
        let apart: Vec<f64> = self.sums.iter().zip(&after.sums).map(apart).collect();
        let weight = left * (right / (left + right));
        for (((row, column), product), more) in pairs(apart.len()).zip(&mut self.products).zip(&after.products) {
            *product = product.add(*more).add(DoubleDouble::product(apart[row], apart[column]).times(weight));
        }
        for (sum, more) in self.sums.iter_mut().zip(&after.sums) {
            *sum = sum.add(*more);
        }
        self.rows += after.rows;
    }

    /// Rows without a missing field.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether it is one of so many columns; what travelled may not.
    pub fn has_columns(&self, columns: usize) -> bool {
        self.sums.len() == columns && self.products.len() == columns * (columns + 1) / 2
    }

    /// The covariances as those of a sample, divided by the rows - 1; NaN of fewer than two rows.
    pub fn covariances(&self) -> Vec<Vec<f64>> {
        let divisor = if self.rows < 2 { f64::NAN } else { (self.rows - 1) as f64 };
        self.matrix(|_, _, product| product / divisor)
    }

    /// The correlations (Pearson's); NaN where a column does not vary.
    pub fn correlations(&self) -> Vec<Vec<f64>> {
        let squares = self.matrix(|_, _, product| product);
        self.matrix(|row, column, product| {
            let (left, right) = (squares[row][row].sqrt(), squares[column][column].sqrt());
            if row == column && left > 0.0 { 1.0 } else { (product / left / right).clamp(-1.0, 1.0) }
        })
    }

    fn matrix(&self, of: impl Fn(usize, usize, f64) -> f64) -> Vec<Vec<f64>> {
        let columns = self.sums.len();
        let mut matrix = vec![vec![0.0; columns]; columns];
        for ((row, column), product) in pairs(columns).zip(&self.products) {
            let value = of(row, column, product.value());
            (matrix[row][column], matrix[column][row]) = (value, value);
        }
        matrix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(columns: &[Vec<f64>]) -> CoMoments {
        let mut moments = CoMoments::new(columns.len());
        let rows = columns[0].len();
        for from in (0..rows).step_by(5) {
            let batch: Vec<&[f64]> = columns.iter().map(|column| &column[from..rows.min(from + 5)]).collect();
            moments.add(&batch, true);
        }
        moments
    }

    /// Expected numbers are those of pandas 3.1 (`cov`, `corr`) for the same values.
    #[test]
    fn covariances_are_those_of_other_programs_far_from_zero_too() {
        let x: Vec<f64> = (1..=20).map(f64::from).collect();
        let y: Vec<f64> = x.iter().map(|x| x * x).collect();
        for far in [0.0, 1e9] {
            let moments = of(&[x.iter().map(|x| x + far).collect(), y.iter().map(|y| y - far).collect()]);
            let (covariance, correlation) = (moments.covariances()[0][1], moments.correlations()[0][1]);
            assert!((covariance - 735.0).abs() < 1e-9, "{covariance}");
            assert!((correlation - 0.971_348_202_196_380_8).abs() < 1e-12, "{correlation}");
        }
    }

    #[test]
    fn rows_with_a_missing_field_do_not_count_and_constants_have_no_correlation() {
        let moments = of(&[vec![1.0, f64::NAN, 3.0, 5.0], vec![7.0, 8.0, 7.0, 7.0]]);
        assert_eq!((moments.rows(), moments.covariances()[0][0]), (3, 4.0));
        assert!(moments.correlations()[0][1].is_nan() && moments.correlations()[1][1].is_nan());
        assert!(CoMoments::new(1).covariances()[0][0].is_nan());
        assert!(moments.has_columns(2) && !moments.has_columns(3));
    }
}
