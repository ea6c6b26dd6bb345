//! A part of a picture, and what all parts share: the width, the heading, the names of columns.

use crate::commands::picture::canvas::{Canvas, Label, fitting, text_width};
use crate::commands::picture::colours::SOFT;

/// The width of a picture, and its margin.
pub const WIDTH: f64 = 860.0;
pub const MARGIN: f64 = 24.0;

/// Below the heading of a figure.
pub const HEAD: f64 = 46.0;

/// A part of the picture.
pub trait Figure {
    fn height(&self) -> f64;

    /// Draws it below `top`.
    fn draw(&self, canvas: &mut dyn Canvas, top: f64);
}

/// The two lines above a figure.
pub fn heading(canvas: &mut dyn Canvas, top: f64, heading: &str, about: &str) {
    let room = WIDTH - 2.0 * MARGIN;
    canvas.text((MARGIN, top + 14.0), Label::HEADING, &fitting(heading, Label::HEADING.size, room));
    canvas.text((MARGIN, top + 33.0), Label { colour: SOFT, ..Label::START }, &fitting(about, Label::START.size, room));
}

/// The name of a column for a room. A name whose letters the picture lacks has its number before it, which `--columns` takes.
pub fn column_name(canvas: &dyn Canvas, (index, name): (usize, &str), room: f64) -> String {
    let size = Label::START.size;
    match canvas.has_letters(name) {
        true => fitting(name, size, room),
        false => fitting(&format!("#{} {name}", index + 1), size, room),
    }
}

/// The room that the widest name takes, up to a limit.
pub fn names_width(names: &[String], most: f64) -> f64 {
    let widths = names.iter().map(|name| text_width(name, Label::START.size));
    widths.fold(0.0, f64::max).min(most)
}
