//! The correlations between columns as a map: blue is a correlation of 1, red one of -1, white none, grey what is not known.

use crate::commands::picture::canvas::{Canvas, Label, Place};
use crate::commands::picture::colours::{Colour, INK, SOFT, WHITE, is_dark, signed};
use crate::commands::query::answer::Answer;
use crate::commands::query::plots::figure::{Figure, HEAD, MARGIN, WIDTH, column_name, heading, names_width};
use crate::commands::query::shown::counted;

/// The figure.
pub struct Correlations<'a> {
    answer: &'a Answer,
    rows: u64,
    /// Of cells: each of one pair of columns, or of the strongest pair of several.
    matrix: Vec<Vec<f64>>,
    /// Columns of a cell.
    each: usize,
}

/// Cells in a row at most: more could not be told apart, and would be a file of many megabytes.
const CELLS_MAX: usize = 128;

/// The largest cell, and the least that has its number in it.
const SIDE_MAX: f64 = 56.0;
const NUMBERED: f64 = 34.0;

/// Room for names at most, and for the scale at the right.
const NAMES_MAX: f64 = 160.0;
const SCALE: f64 = 90.0;

/// Room that a line of text needs.
const LINE: f64 = 14.0;

const UNKNOWN: Colour = [0xbb; 3];

impl<'a> Correlations<'a> {
    /// Those of an answer.
    pub fn new(answer: &'a Answer, rows: u64, all: &[Vec<f64>]) -> Self {
        let each = all.len().div_ceil(CELLS_MAX).max(1);
        let cells = all.len().div_ceil(each);
        let cell = |row: usize, column: usize| {
            let of = |index: usize| (index * each)..((index + 1) * each).min(all.len());
            // A column is correlated with itself; among several the strongest pair of two counts.
            let pairs = of(row).flat_map(|row| of(column).map(move |column| (row, column)));
            let pairs = pairs.filter(|(row, column)| each == 1 || row != column);
            pairs.map(|(row, column)| all[row][column]).fold(f64::NAN, stronger)
        };
        let matrix = (0..cells).map(|row| (0..cells).map(|column| cell(row, column)).collect()).collect();
        Self { answer, rows, matrix, each }
    }

    fn names(&self) -> f64 {
        names_width(&self.answer.names, NAMES_MAX) + 8.0
    }

    fn side(&self) -> f64 {
        let room = WIDTH - 2.0 * MARGIN - self.names() - SCALE;
        (room / self.matrix.len().max(1) as f64).min(SIDE_MAX)
    }

    fn name(&self, canvas: &dyn Canvas, cell: usize) -> String {
        let index = cell * self.each;
        column_name(canvas, (index, &self.answer.names[index]), NAMES_MAX)
    }
}

/// The number that is farther from 0; any rather than none.
fn stronger(left: f64, right: f64) -> f64 {
    if left.is_nan() || right.abs() > left.abs() { right } else { left }
}

impl Figure for Correlations<'_> {
    fn height(&self) -> f64 {
        self.names() + (self.matrix.len() as f64 * self.side()).max(150.0)
    }

    fn draw(&self, canvas: &mut dyn Canvas, top: f64) {
        let (side, names, each) = (self.side(), self.names(), self.each);
        let cells = match each {
            1 => String::new(),
            each => format!("; a cell has the strongest pair of {each} x {each} columns"),
        };
        let (columns, rows) = (counted(self.answer.names.len() as u64, "column"), counted(self.rows, "row"));
        let about = format!("{}: {columns}, {rows} in which none is missing{cells}", self.answer.named);
        heading(canvas, top, "Correlations", &about);
        let (left, first) = (MARGIN + names, top + HEAD + names);
        // As many names as there is room for.
        let every = (LINE / side).ceil().max(1.0) as usize;
        for (row, values) in self.matrix.iter().enumerate() {
            let y = first + row as f64 * side;
            if row % every == 0 {
                let name = self.name(canvas, row);
                canvas.text((left - 6.0, y + side / 2.0 + 4.0), Label::END, &name);
                let upright = Label { is_upright: true, ..Label::START };
                canvas.text((left + row as f64 * side + side / 2.0 + 4.0, first - 6.0), upright, &name);
            }
            for (column, value) in values.iter().enumerate() {
                self.cell(
                    canvas,
                    Place { x: left + column as f64 * side, y, width: side, height: side },
                    (row, column, *value),
                );
            }
        }
        scale(canvas, (left + self.matrix.len() as f64 * side + 24.0, first));
    }
}

impl Correlations<'_> {
    fn cell(&self, canvas: &mut dyn Canvas, place: Place, (row, column, value): (usize, usize, f64)) {
        let colour = if value.is_nan() { UNKNOWN } else { signed(value) };
        let [row, column] = [row, column].map(|cell| &self.answer.names[cell * self.each]);
        canvas.rectangle(place, colour, &format!("{row}, {column}: {value:.4}"));
        if place.width >= NUMBERED {
            let text = if value.is_nan() { "-".to_owned() } else { format!("{:.2}", value + 0.0) };
            let colour = if is_dark(colour) { WHITE } else { INK };
            let at = (place.x + place.width / 2.0, place.y + place.height / 2.0 + 4.0);
            canvas.text(at, Label { colour, size: 11.0, ..Label::MIDDLE }, &text);
        }
    }
}

/// The colours from 1 down to -1, and that of what is not known.
fn scale(canvas: &mut dyn Canvas, (x, y): (f64, f64)) {
    const STEPS: i32 = 40;
    const HEIGHT: f64 = 120.0;
    let step = HEIGHT / f64::from(STEPS);
    for index in 0..STEPS {
        let value = 1.0 - 2.0 * (f64::from(index) + 0.5) / f64::from(STEPS);
        canvas.rectangle(Place { x, y: y + f64::from(index) * step, width: 14.0, height: step }, signed(value), "");
    }
    canvas.frame(Place { x, y, width: 14.0, height: HEIGHT }, 0.6, SOFT);
    for (at, text) in [(0.0, "1"), (0.25, "0.5"), (0.5, "0"), (0.75, "-0.5"), (1.0, "-1")] {
        canvas.text((x + 20.0, y + at * HEIGHT + 4.0), Label::START, text);
    }
    canvas.rectangle(Place { x, y: y + HEIGHT + 14.0, width: 14.0, height: 12.0 }, UNKNOWN, "");
    canvas.text((x + 20.0, y + HEIGHT + 24.0), Label::START, "unknown");
}
