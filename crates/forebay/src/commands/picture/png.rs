//! A picture as PNG: pixels, twice as many in each direction as the picture has units, so that it can be printed.

use crate::commands::picture::canvas::{Anchor, Canvas, Label, Place, Point};
use crate::commands::picture::colours::Colour;
use crate::commands::picture::deflate::{PIXEL, compressed};
use crate::commands::picture::letters::{ADVANCE, HEIGHT, has_all, strokes};

/// Pixels of a unit.
const SCALE: f64 = 2.0;

/// The widest and highest picture, pixels: others would take more memory than they are worth, and few programs show them.
const SIDE_MAX: f64 = 16_384.0;

/// Places within a pixel, in each direction, that are looked at to tell how much of it is covered.
const SAMPLES: usize = 3;

/// A dot of a letter, of the size of its text.
const DOT: f64 = 0.092;

/// The width of a letter's strokes, dots.
const STROKE: f64 = 1.15;

/// The drawing so far: rows of pixels, each behind the byte that says that it is not filtered.
pub struct Png {
    scale: f64,
    width: usize,
    rows: Vec<Vec<u8>>,
}

impl Png {
    /// A white one of this size, in units.
    pub fn new(width: f64, height: f64) -> Self {
        let scale = SCALE.min(SIDE_MAX / width).min(SIDE_MAX / height);
        let [width, height] = [width, height].map(|side| (side * scale).ceil() as usize);
        let row = [&[0][..], &vec![255; width * PIXEL]].concat();
        Self { scale, width, rows: vec![row; height] }
    }

    /// Mixes a colour into a pixel.
    fn mix(&mut self, (x, y): (usize, usize), colour: Colour, part: f64) {
        let Some(row) = self.rows.get_mut(y).filter(|_| x < self.width) else { return };
        for (there, new) in row[1 + x * PIXEL..][..PIXEL].iter_mut().zip(colour) {
            *there = (f64::from(*there) * (1.0 - part) + f64::from(new) * part).round() as u8;
        }
    }

    /// Fills a polygon, in pixels, whose corners turn one way.
    fn fill(&mut self, corners: &[Point], colour: Colour) {
        let edges: Vec<(Point, Point)> = corners.iter().copied().zip(corners.iter().copied().cycle().skip(1)).collect();
        let is_within = |(x, y): Point| {
            let side = |&(from, to): &(Point, Point)| (to.0 - from.0) * (y - from.1) - (to.1 - from.1) * (x - from.0);
            edges.iter().all(|edge| side(edge) >= 0.0) || edges.iter().all(|edge| side(edge) <= 0.0)
        };
        let offsets: [f64; SAMPLES] = std::array::from_fn(|index| (index as f64 + 0.5) / SAMPLES as f64);
        for y in pixels(corners.iter().map(|corner| corner.1), self.rows.len()) {
            let within_row = edges.iter().filter_map(|edge| part_between(*edge, y as f64, y as f64 + 1.0)).flatten();
            for x in pixels(within_row, self.width) {
                let at = |dx: &f64, dy: &f64| is_within((x as f64 + dx, y as f64 + dy));
                let covered: usize = offsets.iter().map(|dy| offsets.iter().filter(|dx| at(dx, dy)).count()).sum();
                if covered > 0 {
                    self.mix((x, y), colour, covered as f64 / (SAMPLES * SAMPLES) as f64);
                }
            }
        }
    }

    /// All of it (RFC 2083).
    pub fn encoded(&self) -> Vec<u8> {
        let size = |pixels: usize| (pixels as u32).to_be_bytes();
        // Eight bits for each of three colours.
        let head = [&size(self.width)[..], &size(self.rows.len()), &[8, 2, 0, 0, 0]].concat();
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        let raw = self.rows.concat();
        for (kind, contents) in
            [(b"IHDR", head), (b"IDAT", compressed(&raw, 1 + self.width * PIXEL)), (b"IEND", vec![])]
        {
            bytes.extend((contents.len() as u32).to_be_bytes());
            let checked = [&kind[..], &contents].concat();
            bytes.extend(&checked);
            bytes.extend(crc32(&checked).to_be_bytes());
        }
        bytes
    }
}

impl Canvas for Png {
    fn rectangle(&mut self, place: Place, colour: Colour, _: &str) {
        // Pixels whose middle lies within it, one at least.
        let range = |from: f64, len: f64, most: usize| {
            let first = (from * self.scale - 0.5).ceil();
            let end = ((from + len) * self.scale - 0.5).ceil();
            let end = if len > 0.0 { end.max(first + 1.0) } else { end };
            (first.max(0.0) as usize)..(end.clamp(0.0, most as f64) as usize)
        };
        let columns = range(place.x, place.width, self.width);
        for y in range(place.y, place.height, self.rows.len()) {
            columns.clone().for_each(|x| self.mix((x, y), colour, 1.0));
        }
    }

    fn polygon(&mut self, corners: &[Point], colour: Colour, _: &str) {
        let corners: Vec<Point> = corners.iter().map(|(x, y)| (x * self.scale, y * self.scale)).collect();
        self.fill(&corners, colour);
    }

    fn text(&mut self, (x, y): Point, label: Label, text: &str) {
        let dot = label.size * DOT * self.scale;
        let letters: Vec<char> = text.chars().collect();
        let wide = letters.len() as f64 * ADVANCE * dot;
        let begin = match label.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -wide / 2.0,
            Anchor::End => -wide,
        };
        let half = STROKE * dot / 2.0;
        for (index, letter) in letters.into_iter().enumerate() {
            for ends in strokes(letter) {
                let [from, to] = ends.map(|(column, row)| {
                    let along = begin + (index as f64 * ADVANCE + column + 0.5) * dot;
                    let up = (HEIGHT - row - 0.5) * dot;
                    match label.is_upright {
                        false => (x * self.scale + along, y * self.scale - up),
                        true => (x * self.scale - up, y * self.scale - along),
                    }
                });
                self.fill(&stroke(from, to, half), label.colour);
            }
        }
    }

    fn has_letters(&self, text: &str) -> bool {
        has_all(text)
    }
}

/// The pixels from the least to the greatest of some places.
fn pixels(places: impl Iterator<Item = f64>, most: usize) -> std::ops::Range<usize> {
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    let (least, greatest) = places.fold(none, |(least, most), place| (least.min(place), most.max(place)));
    (least.floor().max(0.0) as usize)..(greatest.ceil().clamp(0.0, most as f64) as usize)
}

/// Where the part of an edge between two heights begins and ends, from the left.
fn part_between((from, to): (Point, Point), top: f64, bottom: f64) -> Option<[f64; 2]> {
    let (from, to) = if from.1 <= to.1 { (from, to) } else { (to, from) };
    if to.1 < top || from.1 > bottom {
        return None;
    }
    let at = |y: f64| match to.1 - from.1 {
        0.0 => None,
        height => Some(from.0 + (to.0 - from.0) * ((y - from.1) / height).clamp(0.0, 1.0)),
    };
    Some([at(top).unwrap_or(from.0), at(bottom).unwrap_or(to.0)])
}

/// The corners of a stroke that reaches half its width beyond its ends.
fn stroke(from: Point, to: Point, half: f64) -> [Point; 4] {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let len = dx.hypot(dy);
    let (dx, dy) = if len > 0.0 { (dx / len * half, dy / len * half) } else { (half, 0.0) };
    [
        (from.0 - dx - dy, from.1 - dy + dx),
        (to.0 + dx - dy, to.1 + dy + dx),
        (to.0 + dx + dy, to.1 + dy - dx),
        (from.0 - dx + dy, from.1 - dy - dx),
    ]
}

fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    fn those(png: &Png, is: impl Fn(&[u8]) -> bool) -> Vec<(usize, usize)> {
        let all = (0..png.rows.len()).flat_map(|y| (0..png.width).map(move |x| (x, y)));
        all.filter(|(x, y)| is(&png.rows[*y][1 + x * PIXEL..][..PIXEL])).collect()
    }

    #[test]
    fn rectangles_and_polygons_are_where_they_belong() {
        let mut png = Png::new(20.0, 10.0);
        let (red, place) = ([255, 0, 0], Place { x: 1.0, y: 2.0, width: 1.0, height: 0.1 });
        png.rectangle(place, red, "");
        png.rectangle(Place { x: -5.0, y: -5.0, ..place }, red, "");
        assert_eq!(those(&png, |pixel| pixel == red), [(2, 4), (3, 4)], "a thin one is there all the same");
        png.polygon(&[(5.0, 5.0), (7.0, 5.0), (7.0, 6.0), (5.0, 6.0)], [0; 3], "");
        assert_eq!(those(&png, |pixel| pixel == [0; 3]).len(), 8);
        png.line(((0.0, 9.0), (20.0, 0.0)), 1.0, [0, 0, 255], "");
        let blue = those(&png, |pixel| pixel[0] < 128 && pixel[2] == 255);
        assert!((40..=120).contains(&blue.len()) && (0..40).all(|x| blue.iter().any(|at| at.0 == x)), "{blue:?}");
    }

    #[test]
    fn letters_stand_on_their_line() {
        let dark = |is_upright: bool| {
            let mut png = Png::new(40.0, 40.0);
            let label = Label { anchor: Anchor::Start, size: 12.0, colour: [0; 3], is_upright };
            png.text((20.0, 20.0), label, "l");
            those(&png, |pixel| pixel[0] < 128)
        };
        let (level, upright) = (dark(false), dark(true));
        assert!(!level.is_empty() && level.iter().all(|(x, y)| *x >= 40 && (20..=40).contains(y)), "{level:?}");
        assert!(!upright.is_empty() && upright.iter().all(|(x, y)| *y <= 40 && (20..=40).contains(x)), "{upright:?}");
    }
}
