//! A picture as SVG: shapes that say what they stand for when they are pointed at.

use std::fmt::Write;

use crate::commands::picture::canvas::{Anchor, Canvas, Label, Place, Point};
use crate::commands::picture::colours::Colour;

/// Appends a line of SVG. Writing into a string cannot fail.
macro_rules! element {
    ($text:expr, $($argument:tt)*) => {
        let _ = writeln!($text, $($argument)*);
    };
}

/// The drawing so far.
#[derive(Default)]
pub struct Svg(String);

impl Svg {
    /// All of it, of this size.
    pub fn encoded(self, width: f64, height: f64) -> String {
        let mut text = String::new();
        element!(
            text,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="Helvetica, Arial, sans-serif">"#
        );
        element!(text, r#"<rect width="{width:.0}" height="{height:.0}" fill="white"/>"#);
        text.push_str(&self.0);
        text.push_str("</svg>\n");
        text
    }
}

impl Canvas for Svg {
    fn rectangle(&mut self, place: Place, colour: Colour, title: &str) {
        let Place { x, y, width, height } = place;
        let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
        element!(
            self.0,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{}">{title}</rect>"#,
            hexadecimal(colour)
        );
    }

    fn polygon(&mut self, corners: &[Point], colour: Colour, title: &str) {
        let corners: Vec<String> = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
        element!(self.0, r#"<polygon points="{}" fill="{}">{title}</polygon>"#, corners.join(" "), hexadecimal(colour));
    }

    fn text(&mut self, (x, y): Point, label: Label, text: &str) {
        let anchor = match label.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turned =
            if label.is_upright { format!(r#" transform="rotate(-90 {x:.1} {y:.1})""#) } else { String::new() };
        element!(
            self.0,
            r#"<text x="{x:.1}" y="{y:.1}" fill="{}" text-anchor="{anchor}" font-size="{:.0}"{turned}>{}</text>"#,
            hexadecimal(label.colour),
            label.size,
            escaped(text)
        );
    }

    fn has_letters(&self, _: &str) -> bool {
        true
    }
}

fn hexadecimal([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    // Control characters are none of XML.
    let text: String = text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_names() {
        assert_eq!(hexadecimal([0x21, 0x06, 0xac]), "#2106ac");
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
        assert_eq!(escaped("a\x1b"), "a\u{fffd}");
    }
}
