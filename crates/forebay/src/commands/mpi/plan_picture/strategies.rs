//! The times of all plans as bars, with the time that no plan is below.

use forebay_aggregate::{Case, Plan};

use crate::commands::mpi::plan_picture::figure::{MARGIN, WIDTH};
use crate::commands::picture::canvas::{Canvas, Label, Place};
use crate::commands::picture::colours::{BLUE, GRID, RED, SKY, SOFT};
use crate::commands::picture::scale::Axis;

/// The figure.
pub struct Strategies<'a> {
    pub case: &'a Case,
    /// The one that is drawn.
    pub plan: &'a Plan,
    pub plans: &'a [Plan],
}

const ROW: f64 = 22.0;
const HEAD: f64 = 44.0;
const AXIS: f64 = 38.0;
const NAMES: f64 = 80.0;
const NUMBERS: f64 = 250.0;

impl Strategies<'_> {
    /// Its height; none if there is nothing to compare.
    pub fn height(&self) -> f64 {
        if self.plans.len() < 2 { 0.0 } else { HEAD + self.plans.len() as f64 * ROW + AXIS }
    }

    /// Draws it, its left upper corner at the place.
    pub fn draw(&self, canvas: &mut dyn Canvas, (left, top): (f64, f64)) {
        if self.plans.len() < 2 {
            return;
        }
        canvas.text(
            (left, top + 12.0),
            Label { size: 14.0, colour: [0; 3], ..Label::START },
            "Predicted times of all strategies",
        );
        let floor_s = self.case.io_floor_s();
        let most = self.plans.iter().map(|plan| plan.predicted.total_s).fold(floor_s, f64::max);
        let axis = Axis::within(0.0, most, 5);
        let (first, x) = (top + HEAD, left + NAMES);
        let wide = WIDTH - 2.0 * MARGIN - NAMES - NUMBERS;
        let height = self.plans.len() as f64 * ROW;
        for mark in axis.marks() {
            let at = x + axis.place(mark) * wide;
            canvas.rectangle(Place { x: at - 0.5, y: first, width: 1.0, height }, GRID, "");
            canvas.text((at, first + height + 16.0), Label::MIDDLE, &axis.text(mark));
        }
        canvas.text((x + wide / 2.0, first + height + 33.0), Label { colour: SOFT, ..Label::MIDDLE }, "seconds");
        for (index, plan) in self.plans.iter().enumerate() {
            let y = first + index as f64 * ROW;
            let is_drawn = plan.strategy == self.plan.strategy;
            canvas.text((left, y + 15.0), Label::START, plan.strategy.name());
            let width = axis.place(plan.predicted.total_s) * wide;
            let colour = if is_drawn { BLUE } else { SKY };
            canvas.rectangle(Place { x, y: y + 4.0, width, height: ROW - 8.0 }, colour, plan.strategy.name());
            let (aggregators, rounds) = (counted(plan.aggregators.len(), "aggregator"), counted(plan.rounds, "round"));
            let text = format!("{} s, {aggregators}, {rounds}", seconds(plan.predicted.total_s));
            canvas.text((x + wide + 12.0, y + 15.0), Label::START, &text);
        }
        let at = x + axis.place(floor_s) * wide;
        canvas.rectangle(Place { x: at - 1.0, y: first - 4.0, width: 2.0, height: height + 4.0 }, RED, "");
        let text = format!("I/O floor {} s", seconds(floor_s));
        // To the left of the line where there is room on no other side.
        let label = if at > x + wide / 2.0 { Label::END } else { Label::START };
        canvas.text((at, first - 9.0), Label { colour: RED, ..label }, &text);
    }
}

/// Four digits that count, however short the time.
pub fn seconds(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3 - value.log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.digits$}")
}

/// A number of things.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
