//! A plot as PNG: pixels, letters of a raster, and a compression that knows runs and repeated rows, of which a plot consists.

use crate::commands::query::canvas::{Anchor, Canvas, Colour, Place};

/// Bytes of a pixel.
const PIXEL: usize = 3;

/// Lengths of repetitions, for each its code's number beyond 257 and the bits behind it, which are 0 for the shortest length of a code
/// (RFC 1951, 3.2.5).
const LENGTHS: [(usize, u32, u32); 14] = [
    (258, 28, 0),
    (131, 24, 5),
    (67, 20, 4),
    (35, 16, 3),
    (19, 12, 2),
    (11, 8, 1),
    (10, 7, 0),
    (9, 6, 0),
    (8, 5, 0),
    (7, 4, 0),
    (6, 3, 0),
    (5, 2, 0),
    (4, 1, 0),
    (3, 0, 0),
];

/// The drawing so far: rows of pixels, each behind the byte that says that it is not filtered.
pub struct Png {
    width: usize,
    rows: Vec<Vec<u8>>,
}

impl Png {
    /// A white one.
    pub fn new(width: usize, height: usize) -> Self {
        let row = [&[0][..], &vec![255; width * PIXEL]].concat();
        Self { width, rows: vec![row; height] }
    }

    fn fill(&mut self, x: i64, y: i64, colour: Colour) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if let Some(row) = self.rows.get_mut(y).filter(|_| x < self.width) {
            row[1 + x * PIXEL..][..PIXEL].copy_from_slice(&colour);
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
        // Pixels whose middle lies within it.
        let range = |from: f64, len: f64| (from - 0.5).ceil() as i64..(from + len - 0.5).ceil() as i64;
        for y in range(place.y, place.height) {
            range(place.x, place.width).for_each(|x| self.fill(x, y, colour));
        }
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, is_heading: bool, colour: Colour, text: &str) {
        let scale = if is_heading { 2 } else { 1 };
        let letters: Vec<u64> = text.chars().map(letter).collect();
        let wide = letters.len() as i64 * 6 * scale;
        let left = x.round() as i64
            - match anchor {
                Anchor::Start => 0,
                Anchor::Middle => wide / 2,
                Anchor::End => wide,
            };
        let top = y.round() as i64 - 7 * scale;
        for (index, letter) in letters.into_iter().enumerate() {
            // Columns from the left, the highest byte first; in each the lowest bit is on top.
            for (column, row) in (0..5 * scale).flat_map(|column| (0..8 * scale).map(move |row| (column, row))) {
                if letter >> (8 * (4 - column / scale) + row / scale) & 1 == 1 {
                    self.fill(left + (index as i64 * 6) * scale + column, top + row, colour);
                }
            }
        }
    }
}

fn letter(c: char) -> u64 {
    let index = |c: char| (c as usize).checked_sub(' ' as usize).and_then(|index| LETTERS.get(index).copied());
    index(c).or_else(|| index('?')).unwrap_or(0)
}

/// As zlib has it (RFC 1950), with the fixed codes of RFC 1951: what was there a pixel or a row before is not said again.
fn compressed(raw: &[u8], row: usize) -> Vec<u8> {
    let mut bits = Bits { bytes: vec![0x78, 0x01], held: 0, count: 0 };
    // The last block, of fixed codes.
    bits.put(0b011, 3);
    let mut at = 0;
    while at < raw.len() {
        let same = |distance: usize| match at.checked_sub(distance) {
            Some(before) => raw[at..].iter().zip(&raw[before..]).take_while(|(now, then)| now == then).count(),
            None => 0,
        };
        let (len, distance) =
            [PIXEL, row].map(|distance| (same(distance), distance)).into_iter().max().unwrap_or((0, 0));
        match LENGTHS.iter().find(|(length, ..)| *length <= len) {
            Some((length, code, further)) => {
                bits.symbol(257 + code);
                bits.put(0, *further);
                bits.distance(distance as u32);
                at += length;
            }
            None => {
                bits.symbol(u32::from(raw[at]));
                at += 1;
            }
        }
    }
    bits.symbol(256);
    let mut bytes = bits.finish();
    bytes.extend(adler32(raw).to_be_bytes());
    bytes
}

/// Bits, the lowest of a byte first.
struct Bits {
    bytes: Vec<u8>,
    held: u32,
    count: u32,
}

impl Bits {
    fn put(&mut self, bits: u32, count: u32) {
        self.held |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// A code's highest bit comes first.
    fn code(&mut self, code: u32, count: u32) {
        self.put(code.reverse_bits() >> (32 - count), count);
    }

    fn symbol(&mut self, symbol: u32) {
        match symbol {
            0..=143 => self.code(0x30 + symbol, 8),
            144..=255 => self.code(0x190 + symbol - 144, 9),
            256..=279 => self.code(symbol - 256, 7),
            _ => self.code(0xc0 + symbol - 280, 8),
        }
    }

    /// Of 3 at least.
    fn distance(&mut self, distance: u32) {
        let rest = distance - 1;
        let high = rest.ilog2();
        self.code(2 * high + (rest >> (high - 1) & 1), 5);
        self.put(rest & ((1 << (high - 1)) - 1), high - 1);
    }

    fn finish(mut self) -> Vec<u8> {
        self.put(0, 7);
        self.bytes
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    high << 16 | low
}

/// The letters from the blank on, five by seven, as displays of characters have them.
#[rustfmt::skip]
const LETTERS: [u64; 95] = [
    0x0000000000, 0x00005f0000, 0x0007000700, 0x147f147f14, 0x242a7f2a12, 0x2313086462, 0x3649562050, 0x0008070300,
    0x001c224100, 0x0041221c00, 0x2a1c7f1c2a, 0x08083e0808, 0x0080703000, 0x0808080808, 0x0000606000, 0x2010080402,
    0x3e5149453e, 0x00427f4000, 0x7249494946, 0x2141494d33, 0x1814127f10, 0x2745454539, 0x3c4a494931, 0x4121110907,
    0x3649494936, 0x464949291e, 0x0000140000, 0x0040340000, 0x0008142241, 0x1414141414, 0x0041221408, 0x0201590906,
    0x3e415d594e, 0x7c1211127c, 0x7f49494936, 0x3e41414122, 0x7f4141413e, 0x7f49494941, 0x7f09090901, 0x3e41415173,
    0x7f0808087f, 0x00417f4100, 0x2040413f01, 0x7f08142241, 0x7f40404040, 0x7f021c027f, 0x7f0408107f, 0x3e4141413e,
    0x7f09090906, 0x3e4151215e, 0x7f09192946, 0x2649494932, 0x03017f0103, 0x3f4040403f, 0x1f2040201f, 0x3f4038403f,
    0x6314081463, 0x0304780403, 0x6159494d43, 0x007f414141, 0x0204081020, 0x004141417f, 0x0402010204, 0x4040404040,
    0x0003070800, 0x2054547840, 0x7f28444438, 0x3844444428, 0x384444287f, 0x3854545418, 0x00087e0902, 0x18a4a49c78,
    0x7f08040478, 0x00447d4000, 0x2040403d00, 0x7f10284400, 0x00417f4000, 0x7c04780478, 0x7c08040478, 0x3844444438,
    0xfc18242418, 0x18242418fc, 0x7c08040408, 0x4854545424, 0x04043f4424, 0x3c4040207c, 0x1c2040201c, 0x3c4030403c,
    0x4428102844, 0x4c9090907c, 0x4464544c44, 0x0008364100, 0x0000770000, 0x0041360800, 0x0201020402,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        assert_eq!((crc32(b"123456789"), adler32(b"Wikipedia")), (0xcbf4_3926, 0x11e6_0398));
    }

    #[test]
    fn rectangles_and_letters_are_where_they_belong() {
        let mut png = Png::new(20, 10);
        let (red, place) = ([255, 0, 0], Place { x: 1.0, y: 2.0, width: 3.0, height: 1.0 });
        png.rectangle(place, red, "");
        png.rectangle(Place { x: -5.0, y: -5.0, ..place }, red, "");
        png.text((20.0, 8.0), Anchor::End, false, [0; 3], "l\u{e4}");
        let is = |colour: Colour| {
            let pixel = |(x, y): (usize, usize)| png.rows[y][1 + x * PIXEL..][..PIXEL] == colour;
            (0..10).flat_map(|y| (0..20).map(move |x| (x, y))).filter(|at| pixel(*at)).collect::<Vec<_>>()
        };
        assert_eq!(is(red), [(1, 2), (2, 2), (3, 2)]);
        // The stem of the l is its third column.
        assert!((1..8).all(|y| is([0; 3]).contains(&(10, y))), "{:?}", is([0; 3]));
    }
}
