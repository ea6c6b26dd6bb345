//! Letters of a raster for pictures that have no fonts. Lit dots are joined by strokes, so that letters are smooth at any size.

/// Dots from the beginning of a letter to that of the next, and from its foot to its top.
pub const ADVANCE: f64 = 6.0;
pub const HEIGHT: f64 = 7.0;

/// Letters beyond ASCII that captions have: plus or minus, times, and the box that stands for letters that are not there.
const PLUS_MINUS: u64 = 0x44_445f_4444;
const TIMES: u64 = 0x22_1408_1422;
const BOX: u64 = 0x7f_4141_417f;

/// Letters that are shown without what stands above or below them.
const ACCENTED: [(&str, char); 20] = [
    ("\u{e0}\u{e1}\u{e2}\u{e3}\u{e4}\u{e5}\u{101}\u{103}\u{105}", 'a'),
    ("\u{c0}\u{c1}\u{c2}\u{c3}\u{c4}\u{c5}\u{100}\u{102}\u{104}", 'A'),
    ("\u{e8}\u{e9}\u{ea}\u{eb}\u{113}\u{117}\u{119}\u{11b}", 'e'),
    ("\u{c8}\u{c9}\u{ca}\u{cb}\u{112}\u{116}\u{118}\u{11a}", 'E'),
    ("\u{ec}\u{ed}\u{ee}\u{ef}\u{131}", 'i'),
    ("\u{cc}\u{cd}\u{ce}\u{cf}\u{130}", 'I'),
    ("\u{f2}\u{f3}\u{f4}\u{f5}\u{f6}\u{f8}\u{151}", 'o'),
    ("\u{d2}\u{d3}\u{d4}\u{d5}\u{d6}\u{d8}\u{150}", 'O'),
    ("\u{f9}\u{fa}\u{fb}\u{fc}\u{16f}\u{171}\u{b5}\u{3bc}", 'u'),
    ("\u{d9}\u{da}\u{db}\u{dc}\u{16e}\u{170}", 'U'),
    ("\u{e7}\u{107}\u{10d}", 'c'),
    ("\u{c7}\u{106}\u{10c}", 'C'),
    ("\u{f1}\u{144}\u{148}", 'n'),
    ("\u{d1}\u{143}\u{147}", 'N'),
    ("\u{15b}\u{161}\u{15f}\u{df}", 's'),
    ("\u{15a}\u{160}\u{15e}", 'S'),
    ("\u{17a}\u{17c}\u{17e}", 'z'),
    ("\u{fd}\u{ff}", 'y'),
    ("\u{142}", 'l'),
    ("\u{2013}\u{2014}\u{2212}", '-'),
];

/// The strokes of a letter between dots: columns from the left, rows from the top. A dot by itself is a stroke to itself.
pub fn strokes(letter: char) -> Vec<[(f64, f64); 2]> {
    let dots = raster(letter).unwrap_or(BOX);
    // Columns from the left, the highest byte first; in each the lowest bit is on top.
    let is_lit = |(x, y): (i32, i32)| (0..5).contains(&x) && (0..8).contains(&y) && dots >> (8 * (4 - x) + y) & 1 == 1;
    let mut strokes = vec![];
    for (x, y) in (0..5).flat_map(|x| (0..8).map(move |y| (x, y))).filter(|dot| is_lit(*dot)) {
        let from = (f64::from(x), f64::from(y));
        let mut is_joined = false;
        for (dx, dy) in (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (dx, dy))).filter(|step| *step != (0, 0)) {
            let is_diagonal = dx != 0 && dy != 0;
            // Around a corner there is a way already.
            let has_way = is_diagonal && (is_lit((x + dx, y)) || is_lit((x, y + dy)));
            if is_lit((x + dx, y + dy)) && !has_way {
                is_joined = true;
                if (dx, dy) > (0, 0) {
                    strokes.push([from, (f64::from(x + dx), f64::from(y + dy))]);
                }
            }
        }
        if !is_joined {
            strokes.push([from, from]);
        }
    }
    strokes
}

/// Whether every letter of a text is there.
pub fn has_all(text: &str) -> bool {
    text.chars().all(|letter| raster(letter).is_some())
}

fn raster(letter: char) -> Option<u64> {
    let plain = ACCENTED.iter().find(|(letters, _)| letters.contains(letter)).map_or(letter, |(_, plain)| *plain);
    match plain {
        '\u{b1}' => Some(PLUS_MINUS),
        '\u{d7}' => Some(TIMES),
        plain => (plain as usize).checked_sub(' ' as usize).and_then(|index| LETTERS.get(index).copied()),
    }
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
    fn strokes_join_the_dots_of_a_letter() {
        // The stem of the l, its feet.
        assert!(strokes('l').contains(&[(2.0, 3.0), (2.0, 4.0)]), "{:?}", strokes('l'));
        assert!(strokes(' ').is_empty());
        assert_eq!(strokes('\u{e4}'), strokes('a'));
        assert_eq!(strokes('\u{6e29}'), strokes('\u{5ea6}'), "a box each");
        assert!(has_all("na\u{ef}ve \u{b1}1") && !has_all("\u{6e29}"));
    }
}
