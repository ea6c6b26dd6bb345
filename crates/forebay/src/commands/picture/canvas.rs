//! The surface that pictures are drawn on, and what is drawn of its shapes.

use crate::commands::picture::colours::{Colour, INK};

/// A place, from the left and from the top.
pub type Point = (f64, f64);

/// Where a text lies beside its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// How a text is written.
#[derive(Clone, Copy)]
pub struct Label {
    pub anchor: Anchor,
    pub size: f64,
    pub colour: Colour,
    /// It runs from the bottom to the top.
    pub is_upright: bool,
}

/// The sizes of text.
pub const TEXT: f64 = 12.0;
pub const HEADING: f64 = 16.0;

/// The room that a letter takes at most, of its size, but for wide ones.
const LETTER: f64 = 0.6;

impl Label {
    /// One that begins at its place.
    pub const START: Self = Self { anchor: Anchor::Start, size: TEXT, colour: INK, is_upright: false };

    /// One whose middle is at its place.
    pub const MIDDLE: Self = Self { anchor: Anchor::Middle, ..Self::START };

    /// One that ends at its place.
    pub const END: Self = Self { anchor: Anchor::End, ..Self::START };

    /// The heading of a figure.
    pub const HEADING: Self = Self { size: HEADING, colour: [0; 3], ..Self::START };
}

/// A rectangle: its left upper corner, width and height.
#[derive(Clone, Copy)]
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The surface of a picture, white at first. Places are in units of which a letter is about twelve high.
pub trait Canvas {
    /// Fills a rectangle; `title` says what it stands for where there is room for that.
    fn rectangle(&mut self, place: Place, colour: Colour, title: &str);

    /// Fills a polygon without dents.
    fn polygon(&mut self, corners: &[Point], colour: Colour, title: &str);

    /// Writes a line of text whose foot is at the place.
    fn text(&mut self, at: Point, label: Label, text: &str);

    /// Whether a text can be written with all its letters; others are boxes.
    fn has_letters(&self, text: &str) -> bool;

    /// A line of some width.
    fn line(&mut self, (from, to): (Point, Point), width: f64, colour: Colour, title: &str) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let len = dx.hypot(dy);
        if len == 0.0 {
            return;
        }
        let (x, y) = (-dy / len * width / 2.0, dx / len * width / 2.0);
        let corners = [(from.0 + x, from.1 + y), (to.0 + x, to.1 + y), (to.0 - x, to.1 - y), (from.0 - x, from.1 - y)];
        self.polygon(&corners, colour, title);
    }

    /// The edge of a rectangle, within it.
    fn frame(&mut self, place: Place, width: f64, colour: Colour) {
        let Place { x, y, width: wide, height: high } = place;
        for side in [
            Place { height: width, ..place },
            Place { y: y + high - width, height: width, ..place },
            Place { width, ..place },
            Place { x: x + wide - width, width, ..place },
        ] {
            self.rectangle(side, colour, "");
        }
    }

    /// A square on its corner.
    fn diamond(&mut self, (x, y): Point, radius: f64, colour: Colour, title: &str) {
        self.polygon(&[(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)], colour, title);
    }
}

/// The room that a text takes at most.
pub fn text_width(text: &str, size: f64) -> f64 {
    ratatui::text::Span::raw(text).width() as f64 * LETTER * size
}

/// A text with as many letters as there is room for; one that was cut has dots in its middle, since names often differ at their ends.
pub fn fitting(text: &str, size: f64, room: f64) -> String {
    let shown: String = text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    if text_width(&shown, size) <= room {
        return shown;
    }
    let letters: Vec<char> = shown.chars().collect();
    let cut = |kept: usize| {
        let (begin, end) = (kept.div_ceil(2), letters.len() - kept / 2);
        letters[..begin].iter().chain(&['.'; 3]).chain(&letters[end..]).collect::<String>()
    };
    let kept = (0..letters.len()).take_while(|kept| text_width(&cut(*kept), size) <= room).last();
    cut(kept.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_has_both_ends() {
        assert_eq!(fitting("temperature", TEXT, 100.0), "temperature");
        assert_eq!(fitting("temperature", TEXT, 60.0), "tem...re");
        assert_eq!(fitting("\u{6e29}\u{5ea6}\u{6e29}\u{5ea6}", TEXT, 52.0), "\u{6e29}...\u{5ea6}", "wide letters");
        assert_eq!(fitting("a\nb", TEXT, 60.0), "a\u{fffd}b");
    }
}
