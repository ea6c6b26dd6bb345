//! A query's answer as SVG: a histogram of the bytes, a map of the correlations between columns.
//!
//! Bars stand for the bytes that text is made of and the rest of the 256 alike; their height is their part of all bytes.
//! In the map blue is a correlation of 1, red one of -1, white none, grey what is not known.

use std::fmt::Write;

use crate::commands::query_answer::Answer;

const WIDTH: f64 = 768.0;
const HISTOGRAM_HEIGHT: f64 = 200.0;
const HEAD: f64 = 30.0;
const GAP: f64 = 20.0;

/// Room for names beside the map.
const NAMES: f64 = 110.0;

/// The largest square of the map.
const SIDE_MAX: f64 = 48.0;

/// Appends a line of SVG. Writing into a string cannot fail.
macro_rules! element {
    ($text:expr, $($argument:tt)*) => {
        let _ = writeln!($text, $($argument)*);
    };
}

/// The plot of an answer.
pub fn svg(answer: &Answer) -> String {
    let mut inner = String::new();
    let mut y = GAP;
    if let Some(counts) = &answer.state.byte_counts {
        element!(inner, r#"<g transform="translate({GAP} {y:.1})">"#);
        histogram(&mut inner, counts.counts());
        element!(inner, "</g>");
        y += HEAD + HISTOGRAM_HEIGHT + 2.0 * GAP;
    }
    if let Some(gramian) = answer.state.rows.as_ref().and_then(|rows| rows.gramian.as_ref()) {
        element!(inner, r#"<g transform="translate({GAP} {y:.1})">"#);
        y += correlations(&mut inner, &answer.names, &gramian.correlations()) + GAP;
        element!(inner, "</g>");
    }
    let width = WIDTH + 2.0 * GAP;
    let mut text = String::new();
    element!(
        text,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {y:.0}" font-family="sans-serif" font-size="12">"#
    );
    element!(text, r#"<rect width="{width:.0}" height="{y:.0}" fill="white"/>"#);
    text.push_str(&inner);
    text.push_str("</svg>\n");
    text
}

fn histogram(text: &mut String, counts: &[u64]) {
    let all: u64 = counts.iter().sum();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    element!(text, r#"<text y="12" font-size="14">Bytes by value</text>"#);
    let (base, wide) = (HEAD + HISTOGRAM_HEIGHT, WIDTH / 256.0);
    for (value, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = HISTOGRAM_HEIGHT * *count as f64 / most as f64;
        let (x, top) = (value as f64 * wide, base - height);
        let part = 100.0 * *count as f64 / all as f64;
        element!(
            text,
            r##"<rect x="{x:.1}" y="{top:.1}" width="{wide:.1}" height="{height:.1}" fill="#3b75af"><title>{value}: {count} ({part:.2} %)</title></rect>"##
        );
    }
    element!(text, r##"<line x1="0" y1="{base:.1}" x2="{WIDTH:.1}" y2="{base:.1}" stroke="#555"/>"##);
    for value in [0, 32, 48, 65, 97, 128, 192, 255] {
        let (x, y) = (f64::from(value) * wide, base + 14.0);
        element!(text, r##"<text x="{x:.1}" y="{y:.1}" fill="#555" text-anchor="middle">{value}</text>"##);
    }
}

/// Draws the map; how high it is.
fn correlations(text: &mut String, names: &[String], matrix: &[Vec<f64>]) -> f64 {
    let side = ((WIDTH - NAMES) / names.len().max(1) as f64).min(SIDE_MAX);
    element!(text, r#"<text y="12" font-size="14">Correlations</text>"#);
    for (row, (name, values)) in names.iter().zip(matrix).enumerate() {
        let y = HEAD + row as f64 * side;
        let middle = y + side / 2.0 + 4.0;
        element!(text, r#"<text x="{:.1}" y="{middle:.1}" text-anchor="end">{}</text>"#, NAMES - 6.0, escaped(name));
        for (column, value) in values.iter().enumerate() {
            let x = NAMES + column as f64 * side;
            element!(
                text,
                r#"<rect x="{x:.1}" y="{y:.1}" width="{side:.1}" height="{side:.1}" fill="{}"><title>{}, {}: {value:.4}</title></rect>"#,
                colour(*value),
                escaped(name),
                escaped(&names[column])
            );
        }
    }
    HEAD + names.len() as f64 * side
}

fn colour(correlation: f64) -> String {
    if correlation.is_nan() {
        return "#bbbbbb".to_owned();
    }
    let fade = |full: f64| (255.0 - correlation.abs() * (255.0 - full)).round() as u8;
    let full = if correlation > 0.0 { [33.0, 102.0, 172.0] } else { [178.0, 24.0, 43.0] };
    let [red, green, blue] = full.map(fade);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A name as SVG has it, shortened to what there is room for.
fn escaped(name: &str) -> String {
    /// Letters in the room beside the map.
    const LETTERS_MAX: usize = 16;
    let short: String = name.chars().filter(|c| !c.is_control()).take(LETTERS_MAX).collect();
    short.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_names() {
        assert_eq!([0.0, 1.0, -1.0, f64::NAN].map(colour), ["#ffffff", "#2166ac", "#b2182b", "#bbbbbb"]);
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
