//! Types of stored elements, as NumPy writes them (`<f8`): their bytes as numbers.

use crate::arrays::data_set::Element;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// `b` for true and false, `i`, `u`, `f`.
    pub letter: u8,
    /// Bytes of it.
    pub bytes: usize,
    /// The most significant byte comes first.
    pub is_big: bool,
}

impl Kind {
    /// That which NumPy writes so; None if it is of no number.
    pub fn of(descr: &str) -> Option<Self> {
        let [order @ (b'<' | b'>' | b'|' | b'='), letter, bytes @ ..] = descr.as_bytes() else { return None };
        let bytes = std::str::from_utf8(bytes).ok()?.parse().ok()?;
        let is_known = matches!((letter, bytes), (b'f', 2 | 4 | 8) | (b'i' | b'u', 1 | 2 | 4 | 8) | (b'b', 1));
        is_known.then_some(Self { letter: *letter, bytes, is_big: *order == b'>' })
    }

    /// It, as attributes are about it.
    pub fn element(self) -> Element {
        match self.letter {
            b'f' => Element::Double(self.bytes as u8),
            letter => Element::Integer(self.bytes as u8, letter == b'i'),
        }
    }

    /// A number as an element can hold it.
    pub fn rounded(self, value: f64) -> f64 {
        match (self.letter, self.bytes) {
            (b'f', 2) => as_half(value),
            (b'f', 4) => f64::from(value as f32),
            _ => value,
        }
    }

    /// The bits of an element of these bytes.
    pub fn bits(self, stored: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.bytes].copy_from_slice(&stored[..self.bytes]);
        if self.is_big {
            bytes[..self.bytes].reverse();
        }
        u64::from_le_bytes(bytes)
    }

    /// The same with the sign of a number that has one, as far up as there are bits.
    pub fn widened(self, bits: u64) -> u64 {
        // The sign bit moves to the top and back.
        let shift = 64 - 8 * self.bytes as u32;
        match self.letter {
            b'i' => ((bits << shift) as i64 >> shift) as u64,
            _ => bits,
        }
    }

    /// Appends an element of such bits, without those that it has no room for.
    pub fn append(self, bits: u64, stored: &mut Vec<u8>) {
        let from = stored.len();
        stored.extend_from_slice(&bits.to_le_bytes()[..self.bytes]);
        if self.is_big {
            stored[from..].reverse();
        }
    }

    /// The number that bits stand for.
    pub fn value(self, bits: u64) -> f64 {
        match (self.letter, self.bytes) {
            (b'f', 2) => half(bits as u16),
            (b'f', 4) => f64::from(f32::from_bits(bits as u32)),
            (b'f', _) => f64::from_bits(bits),
            (b'i', _) => self.widened(bits) as i64 as f64,
            (b'b', _) => f64::from(u8::from(bits != 0)),
            _ => bits as f64,
        }
    }

    /// Takes the numbers of `count` elements, the first at `first` and each so many elements behind the one before.
    pub fn each(self, stored: &[u8], (first, step): (usize, usize), count: usize, take: impl FnMut(f64)) {
        let stored = &stored[first * self.bytes..];
        match (self.letter, self.bytes) {
            (b'f', 4) => each(stored, step, count, self.is_big, |bytes| f64::from(f32::from_le_bytes(bytes)), take),
            (b'f', 8) => each(stored, step, count, self.is_big, f64::from_le_bytes, take),
            (b'i', 2) => each(stored, step, count, self.is_big, |bytes| f64::from(i16::from_le_bytes(bytes)), take),
            (b'i', 4) => each(stored, step, count, self.is_big, |bytes| f64::from(i32::from_le_bytes(bytes)), take),
            (b'i', 8) => each(stored, step, count, self.is_big, |bytes| i64::from_le_bytes(bytes) as f64, take),
            (_, 1) => each(stored, step, count, false, |[byte]| self.value(u64::from(byte)), take),
            (_, 2) => {
                each(stored, step, count, self.is_big, |bytes| self.value(u16::from_le_bytes(bytes).into()), take)
            }
            (_, 4) => {
                each(stored, step, count, self.is_big, |bytes| self.value(u32::from_le_bytes(bytes).into()), take)
            }
            _ => each(stored, step, count, self.is_big, |bytes| self.value(u64::from_le_bytes(bytes)), take),
        }
    }
}

fn each<const BYTES: usize>(
    stored: &[u8],
    step: usize,
    count: usize,
    is_big: bool,
    value: impl Fn([u8; BYTES]) -> f64,
    mut take: impl FnMut(f64),
) {
    let value = |element: &[u8; BYTES]| {
        let mut element = *element;
        if is_big {
            element.reverse();
        }
        value(element)
    };
    let elements = stored.as_chunks::<BYTES>().0;
    match step {
        1 => elements[..count].iter().for_each(|element| take(value(element))),
        step => elements.iter().step_by(step.max(1)).take(count).for_each(|element| take(value(element))),
    }
}

/// A double of half precision.
pub fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let value = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -value } else { value }
}

/// The nearest double of half precision.
fn as_half(value: f64) -> f64 {
    /// From here on the nearest one is infinite.
    const INFINITE_FROM: f64 = 65_520.0;
    if !value.is_finite() || value.abs() >= INFINITE_FROM {
        return if value.is_nan() { value } else { f64::INFINITY.copysign(value) };
    }
    let exponent = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let unit = 2_f64.powi(exponent.max(-14) - 10);
    (value / unit).round_ties_even() * unit
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn half_doubles_are_exact() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 2_f64.powi(-14)),
            (0x0001, 2_f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn doubles_are_rounded_to_the_nearest_half() {
        for bits in 0..0x7c00_u16 {
            let (here, next) = (half(bits), half(bits + 1));
            assert_eq!(as_half(here), here);
            if next.is_finite() {
                let between = here + 0.25 * (next - here);
                assert_eq!((as_half(between), as_half(-between)), (here, -here), "{between}");
            }
        }
        assert_eq!((as_half(65_519.9), as_half(-65_520.0)), (65_504.0, f64::NEG_INFINITY));
    }

    #[test]
    fn elements_are_taken_by_step_and_in_either_order_of_bytes() {
        for (descr, values) in [("<i2", [1.0, -2.0, 300.0]), (">i2", [1.0, -2.0, 300.0]), (">u4", [1.0, 2.0, 4e9])] {
            let kind = Kind::of(descr).unwrap();
            let mut stored = vec![];
            values.iter().for_each(|value| kind.append(*value as i64 as u64, &mut stored));
            let mut taken = vec![];
            kind.each(&stored, (0, 1), 3, |value| taken.push(value));
            kind.each(&stored, (0, 2), 2, |value| taken.push(value));
            kind.each(&stored, (1, 1), 1, |value| taken.push(value));
            let [first, second, third] = values;
            assert_eq!(taken, [first, second, third, first, third, second], "{descr}");
            assert_eq!(kind.value(kind.bits(&stored[kind.bytes..])), second);
        }
        for descr in ["<f16", "<c8", "|S3", "f8", "<i3", "<M8[ns]", ""] {
            assert_eq!(Kind::of(descr), None, "{descr}");
        }
    }
}
