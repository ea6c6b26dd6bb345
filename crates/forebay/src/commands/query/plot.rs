//! A query's answer as a picture: a histogram of the bytes, a map of the correlations between columns. The name of the file decides
//! whether it is SVG (`svg`) or PNG (`png`).
//!
//! Bars stand for the bytes that text is made of and the rest of the 256 alike; their height is their part of all bytes.
//! In the map blue is a correlation of 1, red one of -1, white none, grey what is not known.

use std::path::Path;

use crate::commands::query::answer::Answer;
use crate::commands::query::canvas::{Anchor, Canvas, Colour, Place};
use crate::commands::query::png::Png;
use crate::commands::query::svg::Svg;

const WIDTH: f64 = 768.0;
const HISTOGRAM_HEIGHT: f64 = 200.0;
const HEAD: f64 = 30.0;
const GAP: f64 = 20.0;

/// Room for names beside the map.
const NAMES: f64 = 110.0;

/// The largest square of the map.
const SIDE_MAX: f64 = 48.0;

const BAR: Colour = [0x3b, 0x75, 0xaf];
const INK: Colour = [0x55; 3];
const UNKNOWN: Colour = [0xbb; 3];

/// The plot of an answer, as the name of its file says.
pub fn plot(answer: &Answer, path: &Path) -> Vec<u8> {
    let is_png = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    let (width, height) = (WIDTH + 2.0 * GAP, height(answer));
    if is_png {
        let mut png = Png::new(width.ceil() as usize, height.ceil() as usize);
        draw(answer, &mut png);
        png.encoded()
    } else {
        let mut svg = Svg::default();
        draw(answer, &mut svg);
        svg.encoded(width, height).into_bytes()
    }
}

fn height(answer: &Answer) -> f64 {
    let histogram = answer.state.byte_counts.as_ref().map_or(0.0, |_| HEAD + HISTOGRAM_HEIGHT + 2.0 * GAP);
    let gramian = answer.state.rows.as_ref().and_then(|rows| rows.gramian.as_ref());
    let map = gramian.map_or(0.0, |_| HEAD + answer.names.len() as f64 * side(&answer.names) + GAP);
    GAP + histogram + map
}

fn draw(answer: &Answer, canvas: &mut impl Canvas) {
    let mut y = GAP;
    if let Some(counts) = &answer.state.byte_counts {
        histogram(canvas, y, counts.counts());
        y += HEAD + HISTOGRAM_HEIGHT + 2.0 * GAP;
    }
    if let Some(gramian) = answer.state.rows.as_ref().and_then(|rows| rows.gramian.as_ref()) {
        correlations(canvas, y, &answer.names, &gramian.correlations());
    }
}

fn histogram(canvas: &mut impl Canvas, y: f64, counts: &[u64]) {
    let all: u64 = counts.iter().sum();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    canvas.text((GAP, y + 12.0), Anchor::Start, true, [0; 3], "Bytes by value");
    let (base, width) = (y + HEAD + HISTOGRAM_HEIGHT, WIDTH / 256.0);
    for (value, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = HISTOGRAM_HEIGHT * *count as f64 / most as f64;
        let part = 100.0 * *count as f64 / all as f64;
        let place = Place { x: GAP + value as f64 * width, y: base - height, width, height };
        canvas.rectangle(place, BAR, &format!("{value}: {count} ({part:.2} %)"));
    }
    canvas.rectangle(Place { x: GAP, y: base, width: WIDTH, height: 1.0 }, INK, "");
    for value in [0, 32, 48, 65, 97, 128, 192, 255] {
        let at = (GAP + f64::from(value) * width, base + 14.0);
        canvas.text(at, Anchor::Middle, false, INK, &value.to_string());
    }
}

fn side(names: &[String]) -> f64 {
    ((WIDTH - NAMES) / names.len().max(1) as f64).min(SIDE_MAX)
}

fn correlations(canvas: &mut impl Canvas, top: f64, names: &[String], matrix: &[Vec<f64>]) {
    let side = side(names);
    canvas.text((GAP, top + 12.0), Anchor::Start, true, [0; 3], "Correlations");
    let names: Vec<String> = names.iter().map(|name| shortened(name)).collect();
    for (row, (name, values)) in names.iter().zip(matrix).enumerate() {
        let y = top + HEAD + row as f64 * side;
        canvas.text((GAP + NAMES - 6.0, y + side / 2.0 + 4.0), Anchor::End, false, [0; 3], name);
        for (column, value) in values.iter().enumerate() {
            let place = Place { x: GAP + NAMES + column as f64 * side, y, width: side, height: side };
            canvas.rectangle(place, colour(*value), &format!("{name}, {}: {value:.4}", names[column]));
        }
    }
}

fn colour(correlation: f64) -> Colour {
    if correlation.is_nan() {
        return UNKNOWN;
    }
    let fade = |full: f64| (255.0 - correlation.abs() * (255.0 - full)).round() as u8;
    let full = if correlation > 0.0 { [33.0, 102.0, 172.0] } else { [178.0, 24.0, 43.0] };
    full.map(fade)
}

/// The part of a name that there is room for.
fn shortened(name: &str) -> String {
    /// Letters in the room beside the map.
    const LETTERS_MAX: usize = 16;
    name.chars().filter(|c| !c.is_control()).take(LETTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours() {
        let wanted = [[255; 3], [0x21, 0x66, 0xac], [0xb2, 0x18, 0x2b], [0xbb; 3]];
        assert_eq!([0.0, 1.0, -1.0, f64::NAN].map(colour), wanted);
    }
}
