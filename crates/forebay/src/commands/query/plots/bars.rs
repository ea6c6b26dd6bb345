//! Bars over a line, with an axis of round values at their left.

use crate::commands::picture::canvas::{Canvas, Label, Place};
use crate::commands::picture::colours::{GRID, INK, SOFT};
use crate::commands::picture::scale::Axis;
use crate::commands::query::plots::figure::{HEAD, MARGIN, WIDTH};

/// Room for the marks of the axis, and for those below the bars.
const LEFT: f64 = 64.0;
pub const HEIGHT: f64 = 230.0;
pub const BELOW: f64 = 42.0;
const UNIT: f64 = 24.0;

/// The place of bars.
pub struct Bars {
    pub left: f64,
    pub width: f64,
    base: f64,
    axis: Axis,
}

impl Bars {
    /// Bars up to `most`, below `top`, with their axis drawn; `unit` says what it has.
    pub fn new(canvas: &mut dyn Canvas, top: f64, most: f64, unit: &str, text: impl Fn(&Axis, f64) -> String) -> Self {
        let axis = Axis::of(0.0, if most > 0.0 { most } else { 1.0 }, 4);
        let base = top + HEAD + UNIT + HEIGHT;
        let bars = Self { left: MARGIN + LEFT, width: WIDTH - 2.0 * MARGIN - LEFT, base, axis };
        canvas.text((MARGIN, top + HEAD + 8.0), Label { colour: SOFT, ..Label::START }, unit);
        for mark in axis.marks() {
            let y = base - axis.place(mark) * HEIGHT;
            canvas.rectangle(Place { x: bars.left, y, width: bars.width, height: 1.0 }, GRID, "");
            canvas.text((bars.left - 6.0, y + 4.0), Label::END, &text(&axis, mark));
        }
        bars
    }

    /// The place of a bar at `x`, from the beginning of the line.
    pub fn place(&self, x: f64, width: f64, value: f64) -> Place {
        let height = self.axis.place(value) * HEIGHT;
        Place { x: self.left + x, y: self.base - height, width, height }
    }

    /// Draws the line that bars stand on, and below it what they stand for.
    pub fn line(&self, canvas: &mut dyn Canvas, below: &str) {
        canvas.rectangle(Place { x: self.left, y: self.base, width: self.width, height: 1.0 }, INK, "");
        let at = (self.left + self.width / 2.0, self.base + 34.0);
        canvas.text(at, Label { colour: SOFT, ..Label::MIDDLE }, below);
    }

    /// Writes below the line, at `x` from its beginning.
    pub fn mark(&self, canvas: &mut dyn Canvas, x: f64, text: &str) {
        canvas.rectangle(Place { x: self.left + x - 0.5, y: self.base, width: 1.0, height: 4.0 }, INK, "");
        canvas.text((self.left + x, self.base + 17.0), Label::MIDDLE, text);
    }

    /// The whole height of bars, with what is above and below them.
    pub fn height() -> f64 {
        UNIT + HEIGHT + BELOW
    }
}
