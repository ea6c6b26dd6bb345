//! How often each digit occurs, as bars.

use forebay_query::ByteCounts;

use crate::columns::count;
use crate::commands::picture::canvas::{Canvas, Label};
use crate::commands::picture::colours::BLUE;
use crate::commands::query::answer::Answer;
use crate::commands::query::plots::bars::Bars;
use crate::commands::query::plots::figure::{Figure, heading};

/// The figure.
pub struct Digits<'a> {
    pub answer: &'a Answer,
    pub counts: &'a ByteCounts,
}

/// The part of its room that a bar takes.
const WIDE: f64 = 0.7;

impl Figure for Digits<'_> {
    fn height(&self) -> f64 {
        Bars::height()
    }

    fn draw(&self, canvas: &mut dyn Canvas, top: f64) {
        let digits = self.counts.digits();
        let all: u64 = digits.iter().sum();
        let about =
            format!("{}: {} digits among {} bytes", self.answer.named, count(all), count(self.answer.state.bytes));
        heading(canvas, top, "Digits", &about);
        let most = digits.iter().copied().max().unwrap_or(0);
        // A count is whole: below four, an axis would have marks between.
        let bars = Bars::new(canvas, top, most.max(4) as f64, "count", |axis, mark| axis.text(mark));
        let room = bars.width / 10.0;
        for (digit, number) in digits.into_iter().enumerate() {
            let x = digit as f64 * room;
            let place = bars.place(x + room * (1.0 - WIDE) / 2.0, room * WIDE, number as f64);
            let part = 100.0 * number as f64 / all.max(1) as f64;
            canvas.rectangle(place, BLUE, &format!("{digit}: {} ({part:.2} %)", count(number)));
            if all > 0 {
                canvas.text((place.x + place.width / 2.0, place.y - 4.0), Label::MIDDLE, &format!("{part:.1} %"));
            }
            bars.mark(canvas, x + room / 2.0, &digit.to_string());
        }
        bars.line(canvas, if all > 0 { "digit" } else { "digit: there are none" });
    }
}
