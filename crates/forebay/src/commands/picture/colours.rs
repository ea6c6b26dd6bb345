//! Colours that most eyes tell apart, on paper too (Okabe and Ito, "Color Universal Design", 2008), and scales of them.

/// Red, green, blue.
pub type Colour = [u8; 3];

pub const INK: Colour = [0x33; 3];
pub const SOFT: Colour = [0x77; 3];
pub const GRID: Colour = [0xdd; 3];
pub const PALE: Colour = [0xf2; 3];
pub const WHITE: Colour = [0xff; 3];
pub const BLUE: Colour = [0x00, 0x72, 0xb2];
pub const SKY: Colour = [0x56, 0xb4, 0xe9];
pub const ORANGE: Colour = [0xe6, 0x9f, 0x00];
pub const RED: Colour = [0xd5, 0x5e, 0x00];
pub const GREEN: Colour = [0x00, 0x9e, 0x73];
pub const PINK: Colour = [0xcc, 0x79, 0xa7];

/// From little to much: one hue that gets darker, so that it stays a scale without colours.
const AMOUNTS: [Colour; 5] =
    [[0xd6, 0xe6, 0xf4], [0x9a, 0xc8, 0xe1], [0x4d, 0x99, 0xca], [0x17, 0x63, 0xab], [0x08, 0x30, 0x6b]];

/// From -1 over 0 to 1: red, white, blue.
const SIGNED: [Colour; 3] = [[0xb2, 0x18, 0x2b], WHITE, [0x21, 0x66, 0xac]];

/// An amount between 0 and 1.
pub fn amount(part: f64) -> Colour {
    on(&AMOUNTS, part)
}

/// A number between -1 and 1.
pub fn signed(number: f64) -> Colour {
    on(&SIGNED, (number + 1.0) / 2.0)
}

/// Whether a text on it should be white.
pub fn is_dark([red, green, blue]: Colour) -> bool {
    0.3 * f64::from(red) + 0.6 * f64::from(green) + 0.1 * f64::from(blue) < 130.0
}

fn on(colours: &[Colour], part: f64) -> Colour {
    let place = part.clamp(0.0, 1.0) * (colours.len() - 1) as f64;
    let first = (place.floor() as usize).min(colours.len() - 2);
    let rest = place - first as f64;
    let mixed = |index: usize| {
        let [from, to] = [colours[first][index], colours[first + 1][index]].map(f64::from);
        (from + (to - from) * rest).round() as u8
    };
    [mixed(0), mixed(1), mixed(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_begin_and_end_with_their_colours() {
        assert_eq!([-1.0, 0.0, 1.0].map(signed), SIGNED);
        assert_eq!([-0.5, 0.0, 0.25, 1.0, 7.0].map(amount), [0, 0, 1, 4, 4].map(|index| AMOUNTS[index]));
        assert!(is_dark(amount(1.0)) && !is_dark(amount(0.0)));
    }
}
