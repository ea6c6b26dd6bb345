//! How the values of a column are distributed, as bars: a figure a column.

use forebay_query::NumberColumn;

use crate::columns::count;
use crate::commands::picture::canvas::Canvas;
use crate::commands::picture::colours::BLUE;
use crate::commands::picture::scale::Axis;
use crate::commands::query::answer::Answer;
use crate::commands::query::plots::bars::Bars;
use crate::commands::query::plots::figure::{Figure, WIDTH, column_name, heading};
use crate::commands::query::shown::short;

/// Columns that are drawn: more make a picture of many screens.
const COLUMNS_MAX: usize = 24;

/// The part of its room that a bar takes.
const WIDE: f64 = 0.94;

/// The figure of a column.
pub struct Histogram<'a> {
    answer: &'a Answer,
    /// Its place among all that are described, and its name.
    name: (usize, &'a str),
    column: &'a NumberColumn,
    /// Columns that are not drawn, if this is the last one.
    left_out: usize,
}

/// The figures of an answer.
pub fn histograms<'a>(answer: &'a Answer, numbers: &[(usize, &'a str, &'a NumberColumn)]) -> Vec<Histogram<'a>> {
    let left_out = |place: usize| if place + 1 == COLUMNS_MAX { numbers.len() - COLUMNS_MAX } else { 0 };
    let drawn = numbers.iter().take(COLUMNS_MAX).enumerate();
    let figure = |(place, (index, name, column)): (usize, &(usize, &'a str, &'a NumberColumn))| Histogram {
        answer,
        name: (*index, name),
        column,
        left_out: left_out(place),
    };
    drawn.map(figure).collect()
}

impl Figure for Histogram<'_> {
    fn height(&self) -> f64 {
        Bars::height()
    }

    fn draw(&self, canvas: &mut dyn Canvas, top: f64) {
        let bins = self.column.bins.at_most(self.answer.details.bins);
        let (values, finite) = (self.column.values.count(), self.column.column.finite());
        let mut about = format!("{}: {} values", self.answer.named, count(values));
        if finite < values {
            about.push_str(&format!(", {} of them infinite", count(values - finite)));
        }
        if self.left_out > 0 {
            about.push_str(&format!("; {} more columns are not drawn", self.left_out));
        }
        let name = column_name(canvas, self.name, WIDTH / 2.0);
        heading(canvas, top, &format!("Histogram of {name}"), &about);
        let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        let bars = Bars::new(canvas, top, most.max(4) as f64, "count", |axis, mark| axis.text(mark));
        let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
            bars.line(canvas, "there is no finite value");
            return;
        };
        let room = bars.width / bins.len() as f64;
        for (index, bin) in bins.iter().enumerate() {
            let place = bars.place(index as f64 * room + room * (1.0 - WIDE) / 2.0, room * WIDE, bin.count as f64);
            let part = 100.0 * bin.count as f64 / finite as f64;
            let (from, to) = (short(bin.from), short(bin.to));
            canvas.rectangle(place, BLUE, &format!("{from} to {to}: {} ({part:.2} %)", count(bin.count)));
        }
        if first.from < last.to {
            let axis = Axis::within(first.from, last.to, 8);
            for mark in axis.marks() {
                bars.mark(canvas, axis.place(mark) * bars.width, &axis.text(mark));
            }
        } else {
            bars.mark(canvas, bars.width / 2.0, &short(first.from));
        }
        bars.line(canvas, "value");
    }
}
