//! A surface for tests: whether all text of a picture is within it, and none lies on other text.

use crate::commands::picture::Drawing;
use crate::commands::picture::canvas::{Anchor, Canvas, Label, Place, Point, text_width};
use crate::commands::picture::colours::Colour;

/// Texts, with the places that they take.
#[derive(Default)]
struct Texts(Vec<(Place, String)>);

/// The part of its room that a text takes at least.
const TAKEN: f64 = 0.85;

impl Canvas for Texts {
    fn rectangle(&mut self, place: Place, _: Colour, _: &str) {
        assert!([place.x, place.y, place.width, place.height].iter().all(|value| value.is_finite()));
    }

    fn polygon(&mut self, corners: &[Point], _: Colour, _: &str) {
        assert!(corners.iter().all(|(x, y)| x.is_finite() && y.is_finite()), "{corners:?}");
    }

    fn text(&mut self, (x, y): Point, label: Label, text: &str) {
        let (long, high) = (text_width(text, label.size) * TAKEN, label.size * 0.7);
        let before = match label.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => long / 2.0,
            Anchor::End => long,
        };
        let place = match label.is_upright {
            false => Place { x: x - before, y: y - high, width: long, height: high },
            true => Place { x: x - high, y: y + before - long, width: high, height: long },
        };
        self.0.push((place, text.to_owned()));
    }

    fn has_letters(&self, _: &str) -> bool {
        true
    }
}

/// The texts of a picture.
///
/// # Panics
/// One is cut off, or lies on another.
pub fn texts(drawing: &impl Drawing) -> Vec<String> {
    let (width, height) = drawing.size();
    let mut texts = Texts::default();
    drawing.draw(&mut texts);
    for (index, (place, text)) in texts.0.iter().enumerate() {
        let is_within =
            place.x >= 0.0 && place.y >= 0.0 && place.x + place.width <= width && place.y + place.height <= height;
        assert!(is_within, "{text:?} is cut off");
        for (other, with) in &texts.0[..index] {
            let apart =
                |from: f64, len: f64, other: f64, other_len: f64| from >= other + other_len || other >= from + len;
            let is_apart = apart(place.x, place.width, other.x, other.width)
                || apart(place.y, place.height, other.y, other.height);
            assert!(is_apart, "{text:?} lies on {with:?}");
        }
    }
    texts.0.into_iter().map(|(_, text)| text).collect()
}
