//! How often each of the 256 bytes occurs, as bars, coloured by what texts have them for.

use forebay_query::ByteCounts;

use crate::columns::count;
use crate::commands::picture::canvas::{Canvas, Label, Place, text_width};
use crate::commands::picture::colours::{BLUE, Colour, GREEN, ORANGE, PINK, SOFT};
use crate::commands::query::answer::Answer;
use crate::commands::query::plots::bars::Bars;
use crate::commands::query::plots::figure::{Figure, HEAD, MARGIN, WIDTH, heading};

/// The figure.
pub struct Entropy<'a> {
    pub answer: &'a Answer,
    pub counts: &'a ByteCounts,
}

const BYTES: [(&str, Colour); 5] =
    [("control", SOFT), ("blank, punctuation", ORANGE), ("digit", BLUE), ("letter", GREEN), ("beyond ASCII", PINK)];

/// The place of a byte's kind in `BYTES`.
fn kind(byte: u8) -> usize {
    match byte {
        _ if byte.is_ascii_control() => 0,
        b'0'..=b'9' => 2,
        _ if byte.is_ascii_alphabetic() => 3,
        _ if byte.is_ascii() => 1,
        _ => 4,
    }
}

/// A byte as a reader knows it.
fn letter(byte: u8) -> String {
    match byte {
        b'\n' => "newline".to_owned(),
        b' ' => "blank".to_owned(),
        _ if byte.is_ascii_graphic() => char::from(byte).to_string(),
        _ => format!("0x{byte:02x}"),
    }
}

impl Figure for Entropy<'_> {
    fn height(&self) -> f64 {
        Bars::height()
    }

    fn draw(&self, canvas: &mut dyn Canvas, top: f64) {
        let (counts, all) = (self.counts.counts(), self.answer.state.bytes);
        let entropy = self.counts.entropy();
        let about = format!("{}: {} bytes, entropy {entropy:.3} bits a byte", self.answer.named, count(all));
        heading(canvas, top, "Bytes by value", &about);
        let part = |count: u64| 100.0 * count as f64 / all.max(1) as f64;
        let most = counts.iter().copied().max().unwrap_or(0);
        let bars =
            Bars::new(canvas, top, part(most), "share of all bytes", |axis, mark| format!("{} %", axis.text(mark)));
        let width = bars.width / 256.0;
        for (value, number) in (0..=255u8).zip(counts).filter(|(_, number)| **number > 0) {
            let place = bars.place(f64::from(value) * width, width, part(*number));
            let title = format!("{value} ({}): {} ({:.2} %)", letter(value), count(*number), part(*number));
            canvas.rectangle(place, BYTES[kind(value)].1, &title);
        }
        for value in (0..=256).step_by(32) {
            bars.mark(canvas, f64::from(value) * width, &value.to_string());
        }
        bars.line(canvas, "value of the byte");
        legend(canvas, top + HEAD - 2.0);
        if all == 0 {
            canvas.text((bars.left + bars.width / 2.0, top + HEAD + 120.0), Label::MIDDLE, "no bytes");
        }
    }
}

/// The colours, from the right.
fn legend(canvas: &mut dyn Canvas, y: f64) {
    let mut right = WIDTH - MARGIN;
    for (name, colour) in BYTES.iter().rev() {
        right -= text_width(name, Label::START.size);
        canvas.text((right, y + 10.0), Label::START, name);
        right -= 16.0;
        canvas.rectangle(Place { x: right, y, width: 12.0, height: 12.0 }, *colour, "");
        right -= 14.0;
    }
}
