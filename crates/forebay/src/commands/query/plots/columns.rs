//! The columns of `stats`, a row each: a line from the least to the greatest value, a box as wide as the deviation on both sides of the
//! mean, and the mean.
//!
//! Columns that one scale can show share it. If the range of one would be a dot beside that of another, each has a scale of its own.

use forebay_query::{Column, ColumnSummary, Rows};

use crate::commands::picture::canvas::{Canvas, Label, Place, fitting};
use crate::commands::picture::colours::{BLUE, GRID, INK, PALE, RED, SKY, SOFT};
use crate::commands::picture::scale::Axis;
use crate::commands::query::answer::Answer;
use crate::commands::query::plots::figure::{Figure, HEAD, MARGIN, WIDTH, column_name, heading, names_width};
use crate::commands::query::shown::{counted, short};

/// The figure.
pub struct Columns<'a> {
    answer: &'a Answer,
    summaries: Vec<ColumnSummary>,
    /// Of all columns; None if each has its own.
    axis: Option<Axis>,
}

/// Rows at most: a picture of more is higher than programs show.
const ROWS_MAX: usize = 200;

const ROW: f64 = 24.0;
const NAMES_MAX: f64 = 180.0;

/// Room for the mean and the deviation as text, and for the least and the greatest value beside a line with its own scale.
const NUMBERS: f64 = 170.0;
const ENDS: f64 = 80.0;

/// Room for the part that is missing, if that is so of any column.
const MISSING: f64 = 64.0;

/// Above the rows, for the legend, and below them, for the axis.
const LEGEND: f64 = 26.0;
const AXIS: f64 = 24.0;

/// The widest range over the narrowest on one scale.
const RATIO_MAX: f64 = 40.0;

impl<'a> Columns<'a> {
    /// Those of an answer.
    pub fn new(answer: &'a Answer, rows: &Rows) -> Self {
        let summaries: Vec<ColumnSummary> = rows.columns.iter().map(Column::summary).take(ROWS_MAX).collect();
        let axis = shared_axis(&summaries);
        Self { answer, summaries, axis }
    }
}

/// The scale that shows all columns.
fn shared_axis(summaries: &[ColumnSummary]) -> Option<Axis> {
    let finite = || summaries.iter().filter(|summary| is_finite(summary));
    let least = finite().map(|summary| summary.min).fold(f64::INFINITY, f64::min);
    let greatest = finite().map(|summary| summary.max).fold(f64::NEG_INFINITY, f64::max);
    let ranges = finite().map(|summary| summary.max / 2.0 - summary.min / 2.0).filter(|range| *range > 0.0);
    let narrowest = ranges.fold(f64::INFINITY, f64::min);
    let is_shown = least.is_finite() && (greatest / 2.0 - least / 2.0) / narrowest <= RATIO_MAX;
    is_shown.then(|| Axis::within(least, greatest, 6))
}

fn is_finite(summary: &ColumnSummary) -> bool {
    summary.count > 0 && summary.min.is_finite() && summary.max.is_finite()
}

impl Figure for Columns<'_> {
    fn height(&self) -> f64 {
        LEGEND + self.summaries.len() as f64 * ROW + AXIS
    }

    fn draw(&self, canvas: &mut dyn Canvas, top: f64) {
        let names = names_width(&self.answer.names, NAMES_MAX) + 10.0;
        let ends = if self.axis.is_some() { 10.0 } else { ENDS };
        let left = MARGIN + names + ends;
        let is_missing = self.summaries.iter().any(|summary| summary.missing > 0);
        let numbers_width = NUMBERS + if is_missing { MISSING } else { 0.0 };
        let line = Place { x: left, y: 0.0, width: WIDTH - MARGIN - numbers_width - ends - left, height: ROW };
        heading(canvas, top, "Columns", &self.about());
        legend(canvas, top + HEAD);
        let first = top + HEAD + LEGEND;
        if let Some(axis) = &self.axis {
            self.marks(canvas, axis, Place { y: first, ..line });
        }
        let soft = Label { colour: SOFT, ..Label::END };
        canvas.text((WIDTH - MARGIN, first - 6.0), soft, "mean \u{b1} deviation");
        if is_missing {
            canvas.text((WIDTH - MARGIN - NUMBERS, first - 6.0), soft, "missing");
        }
        for (index, summary) in self.summaries.iter().enumerate() {
            let y = first + index as f64 * ROW;
            if index % 2 == 1 && self.axis.is_none() {
                canvas.rectangle(Place { x: MARGIN, y, width: WIDTH - 2.0 * MARGIN, height: ROW }, PALE, "");
            }
            let name = &self.answer.names[index];
            let shown = column_name(canvas, (index, name), names - 10.0);
            canvas.text((MARGIN, y + ROW / 2.0 + 4.0), Label::START, &shown);
            self.row(canvas, Place { y, ..line }, (name, summary));
            let text = fitting(&numbers(summary), Label::END.size, NUMBERS);
            canvas.text((WIDTH - MARGIN, y + ROW / 2.0 + 4.0), Label::END, &text);
            if summary.missing > 0 {
                let part = 100.0 * summary.missing as f64 / (summary.count + summary.missing) as f64;
                let text = if part < 1.0 { "< 1 %".to_owned() } else { format!("{part:.0} %") };
                canvas.text((WIDTH - MARGIN - NUMBERS, y + ROW / 2.0 + 4.0), Label::END, &text);
            }
        }
    }
}

impl Columns<'_> {
    fn about(&self) -> String {
        let (all, shown) = (self.answer.names.len(), self.summaries.len());
        let rows = self.answer.state.rows.as_ref().map_or(0, |rows| rows.good);
        let left_out = match all - shown {
            0 => String::new(),
            _ => format!(" (the first {shown} are shown; --columns chooses others)"),
        };
        let scale = match self.axis {
            Some(_) => "",
            None => "; each column has a scale of its own",
        };
        let (rows, columns) = (counted(rows, "row"), counted(all as u64, "column"));
        format!("{}: {rows}, {columns}{left_out}{scale}", self.answer.named)
    }

    fn marks(&self, canvas: &mut dyn Canvas, axis: &Axis, line: Place) {
        let height = self.summaries.len() as f64 * ROW;
        for mark in axis.marks() {
            let x = line.x + axis.place(mark) * line.width;
            canvas.rectangle(Place { x: x - 0.5, y: line.y, width: 1.0, height }, GRID, "");
            canvas.text((x, line.y + height + 16.0), Label::MIDDLE, &axis.text(mark));
        }
    }

    fn row(&self, canvas: &mut dyn Canvas, line: Place, (name, summary): (&str, &ColumnSummary)) {
        let y = line.y + line.height / 2.0;
        let ColumnSummary { min, max, mean, deviation, count, missing, .. } = *summary;
        if !is_finite(summary) {
            let why = if count == 0 { "no value" } else { "infinite values" };
            canvas.text((line.x + line.width / 2.0, y + 4.0), Label { colour: SOFT, ..Label::MIDDLE }, why);
            return;
        }
        let place = |value: f64| {
            let part = match &self.axis {
                Some(axis) => axis.place(value),
                // All values are one.
                None if min == max => 0.5,
                None => ((value / 2.0 - min / 2.0) / (max / 2.0 - min / 2.0)).clamp(0.0, 1.0),
            };
            line.x + part * line.width
        };
        let [low, high] = [min, max].map(place);
        let title = format!(
            "{name}: min {}, mean {}, max {}, deviation {}, {count} values, {missing} missing",
            short(min),
            short(mean),
            short(max),
            short(deviation)
        );
        canvas.rectangle(Place { x: low, y: y - 0.75, width: (high - low).max(1.0), height: 1.5 }, INK, &title);
        for end in [low, high] {
            canvas.rectangle(Place { x: end - 0.75, y: y - 5.0, width: 1.5, height: 10.0 }, INK, "");
        }
        if deviation.is_finite() && deviation > 0.0 {
            let [from, to] = [(mean - deviation).max(min), (mean + deviation).min(max)].map(place);
            let within = Place { x: from, y: y - 6.0, width: (to - from).max(1.0), height: 12.0 };
            canvas.rectangle(within, SKY, &title);
            canvas.frame(within, 1.0, BLUE);
        }
        if mean.is_finite() {
            canvas.rectangle(Place { x: place(mean) - 1.5, y: y - 8.0, width: 3.0, height: 16.0 }, RED, &title);
        }
        if self.axis.is_none() && min < max {
            let room = ENDS - 10.0;
            let [least, greatest] = [min, max].map(|end| fitting(&brief(end, max - min), Label::END.size, room));
            canvas.text((line.x - 8.0, y + 4.0), Label::END, &least);
            canvas.text((line.x + line.width + 8.0, y + 4.0), Label::START, &greatest);
        }
    }
}

/// The mean and the deviation in words.
fn numbers(summary: &ColumnSummary) -> String {
    let ColumnSummary { count: values, min, max, mean, deviation, .. } = *summary;
    match () {
        () if values == 0 || mean.is_nan() => String::new(),
        () if min == max => format!("all {}", brief(min, 0.0)),
        () if !deviation.is_finite() => brief(mean, 0.0),
        () => format!("{} \u{b1} {}", brief(mean, deviation), brief(deviation, 0.0)),
    }
}

/// A number with four digits that count, and more where numbers so far from each other would be the same.
fn brief(value: f64, apart: f64) -> String {
    if value == 0.0 || !value.is_finite() || (value == value.trunc() && value.abs() < 1e6) {
        return short(value);
    }
    let more = if apart > 0.0 && apart.is_finite() { (value.abs() / apart).log10().floor() } else { 0.0 };
    let digits = (3.0 + more).clamp(3.0, 6.0) as usize;
    short(format!("{value:.digits$e}").parse().unwrap_or(value))
}

fn legend(canvas: &mut dyn Canvas, y: f64) {
    let middle = y + 6.0;
    canvas.rectangle(Place { x: MARGIN, y: middle - 0.75, width: 22.0, height: 1.5 }, INK, "");
    for x in [MARGIN, MARGIN + 20.5] {
        canvas.rectangle(Place { x, y: middle - 5.0, width: 1.5, height: 10.0 }, INK, "");
    }
    canvas.text((MARGIN + 28.0, y + 10.0), Label::START, "least to greatest");
    let within = Place { x: MARGIN + 170.0, y, width: 22.0, height: 12.0 };
    canvas.rectangle(within, SKY, "");
    canvas.frame(within, 1.0, BLUE);
    canvas.text((MARGIN + 198.0, y + 10.0), Label::START, "mean \u{b1} deviation, within the range");
    canvas.rectangle(Place { x: MARGIN + 456.0, y: y - 2.0, width: 3.0, height: 16.0 }, RED, "");
    canvas.text((MARGIN + 466.0, y + 10.0), Label::START, "mean");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(min: f64, max: f64) -> ColumnSummary {
        let (mean, deviation) = (min / 2.0 + max / 2.0, max / 4.0 - min / 4.0);
        ColumnSummary { count: 3, missing: 1, sum: 3.0 * mean, mean, min, max, variance: 1.0, deviation }
    }

    #[test]
    fn columns_share_a_scale_that_shows_them_all() {
        assert!(shared_axis(&[summary(0.0, 10.0), summary(-5.0, 3.0)]).is_some());
        assert!(shared_axis(&[summary(0.0, 10.0), summary(0.0, 0.1)]).is_none(), "a hundredth would be a dot");
        assert!(shared_axis(&[summary(0.0, 10.0), summary(1e6, 1e6 + 1.0)]).is_none(), "far apart");
        assert!(shared_axis(&[summary(f64::MIN, f64::MAX)]).is_some());
        let none = ColumnSummary { count: 0, min: f64::NAN, max: f64::NAN, ..summary(0.0, 0.0) };
        assert!(shared_axis(&[none]).is_none() && shared_axis(&[summary(5.0, 5.0)]).is_some());
    }

    #[test]
    fn numbers_in_words_have_four_digits() {
        assert_eq!(
            [0.1, 123_456.789, 12.0, 1.23456e-9, 1e300].map(|value| brief(value, 0.0)),
            ["0.1", "123500", "12", "1.235e-9", "1e300"]
        );
        assert_eq!([18.00123, 18.00456].map(|value| brief(value, 0.003)), ["18.00123", "18.00456"]);
        assert_eq!(numbers(&summary(0.0, 10.0)), "5 \u{b1} 2.5");
    }
}
