//! A query's answer as a picture: a figure an operator, one below the other.
//!
//! `columns` has the ranges, means and deviations of `stats`, `correlations` those of `gramian` and
//! `correlation`, `histograms` a figure a column, `digits` and `entropy` their bars.

mod bars;
mod columns;
mod correlations;
mod digits;
mod entropy;
mod figure;
mod histograms;

use std::path::Path;

use forebay_query::Operator;

use crate::commands::picture::canvas::Canvas;
use crate::commands::picture::{Drawing, encoded};
use crate::commands::query::answer::Answer;
use columns::Columns;
use correlations::Correlations;
use digits::Digits;
use entropy::Entropy;
use figure::{Figure, HEAD, MARGIN, WIDTH};
use histograms::histograms;

/// Operators that have a figure.
pub const PLOTTED: [Operator; 7] = [
    Operator::Stats,
    Operator::Gramian,
    Operator::Covariance,
    Operator::Correlation,
    Operator::Histogram,
    Operator::Digits,
    Operator::Entropy,
];

/// Between figures.
const GAP: f64 = 36.0;

/// The picture.
struct Picture<'a>(Vec<Box<dyn Figure + 'a>>);

/// The picture of an answer, as the name of its file says.
pub fn plot(answer: &Answer, path: &Path) -> Vec<u8> {
    let rows = answer.state.rows.as_ref();
    let mut figures: Vec<Box<dyn Figure + '_>> = vec![];
    if let Some(rows) = rows.filter(|_| answer.has(Operator::Stats)) {
        figures.push(Box::new(Columns::new(answer, rows)));
    }
    let covariance = rows.and_then(|rows| rows.covariance.as_ref());
    if let Some(covariance) = covariance {
        figures.push(Box::new(Correlations::new(answer, covariance.rows(), &covariance.correlations())));
    }
    if let Some(gramian) = rows.and_then(|rows| rows.gramian.as_ref()).filter(|_| covariance.is_none()) {
        figures.push(Box::new(Correlations::new(answer, gramian.rows(), &gramian.correlations())));
    }
    if answer.has(Operator::Histogram) {
        let numbers: Vec<_> = answer.described_numbers().collect();
        figures.extend(histograms(answer, &numbers).into_iter().map(|figure| Box::new(figure) as Box<dyn Figure>));
    }
    if let Some(counts) = &answer.state.byte_counts {
        if answer.has(Operator::Digits) {
            figures.push(Box::new(Digits { answer, counts }));
        }
        if answer.has(Operator::Entropy) {
            figures.push(Box::new(Entropy { answer, counts }));
        }
    }
    encoded(&Picture(figures), path)
}

impl Drawing for Picture<'_> {
    fn size(&self) -> (f64, f64) {
        let figures: f64 = self.0.iter().map(|figure| HEAD + figure.height()).sum();
        (WIDTH, 2.0 * MARGIN + figures + self.0.len().saturating_sub(1) as f64 * GAP)
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let mut top = MARGIN;
        for figure in &self.0 {
            figure.draw(canvas, top);
            top += HEAD + figure.height() + GAP;
        }
    }
}
