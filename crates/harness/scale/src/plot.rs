//! Plots as SVG text: seconds over nodes, both on axes of powers, one curve a way, published points as rings.

use std::fmt::Write;

use super::table::{Curve, Outcome};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 56.0;

/// Colours that are told apart in print and by most eyes (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

/// An axis of powers of ten.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// One that holds all values, and begins and ends at round ones.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let (low, mut high) = (round_down(low), round_up(high));
        if low >= high {
            high = low * 10.0;
        }
        Self { low, high, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.max(self.low) / self.low).log10() / (self.high / self.low).log10();
        self.from + part * (self.to - self.from)
    }

    /// Values to be marked: 1, 2 and 5 of each power.
    fn marks(&self) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
        let inside = |mark: &f64| *mark >= self.low * 0.999 && *mark <= self.high * 1.001;
        let marks: Vec<f64> = all.filter(inside).collect();
        match marks.len() {
            0..=12 => marks,
            _ => marks.into_iter().filter(|mark| (mark.log10() - mark.log10().round()).abs() < 1e-6).collect(),
        }
    }
}

fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power).find(|round| *round <= value * 1.001).unwrap_or(power)
}

fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|round| *round >= value * 0.999).unwrap_or(power)
}

/// The plot of an outcome.
#[must_use]
pub fn svg(outcome: &Outcome) -> String {
    let points = || outcome.curves.iter().flat_map(|curve| curve.points.iter());
    let across = Axis::over(points().map(|(nodes, _)| *nodes), LEFT, WIDTH - RIGHT);
    let up = Axis::over(points().map(|(_, seconds)| *seconds), HEIGHT - BOTTOM, TOP);
    let mut text = String::new();
    frame(&mut text, &outcome.title, &across, &up);
    for (number, curve) in outcome.curves.iter().enumerate() {
        draw(&mut text, curve, COLOURS[number % COLOURS.len()], &across, &up);
        legend(&mut text, curve, COLOURS[number % COLOURS.len()], number);
    }
    text.push_str("</svg>\n");
    text
}

/// Appends a line of SVG. Writing into a string cannot fail.
macro_rules! element {
    ($text:expr, $($argument:tt)*) => {
        let _ = writeln!($text, $($argument)*);
    };
}

fn frame(text: &mut String, title: &str, across: &Axis, up: &Axis) {
    element!(
        text,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
    );
    element!(text, r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#);
    element!(text, r#"<text x="{LEFT}" y="24" font-size="15">{}</text>"#, escaped(title));
    for mark in across.marks() {
        let x = across.place(mark);
        element!(text, r##"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{:.1}" stroke="#ddd"/>"##, up.from);
        element!(text, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{mark}</text>"#, up.from + 17.0);
    }
    for mark in up.marks() {
        let y = up.place(mark);
        element!(text, r##"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#ddd"/>"##, across.to);
        element!(text, r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{mark}</text>"#, LEFT - 6.0, y + 4.0);
    }
    let (middle, below) = ((across.from + across.to) / 2.0, HEIGHT - 18.0);
    element!(text, r#"<text x="{middle:.1}" y="{below:.1}" text-anchor="middle">nodes</text>"#);
    element!(
        text,
        r#"<text x="16" y="{:.1}" text-anchor="middle" transform="rotate(-90 16 {:.1})">seconds</text>"#,
        (up.from + up.to) / 2.0,
        (up.from + up.to) / 2.0
    );
}

fn draw(text: &mut String, curve: &Curve, colour: &str, across: &Axis, up: &Axis) {
    let places = curve.points.iter().map(|(nodes, seconds)| (across.place(*nodes), up.place(*seconds)));
    let places: Vec<(f64, f64)> = places.collect();
    let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if curve.is_published { r#" stroke-dasharray="2 4""# } else { "" };
    element!(text, r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>"#, line.join(" "));
    let fill = if curve.is_published { "white" } else { colour };
    for (x, y) in places {
        element!(
            text,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>"#
        );
    }
}

fn legend(text: &mut String, curve: &Curve, colour: &str, number: usize) {
    let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 8.0 + 34.0 * number as f64);
    let dashes = if curve.is_published { r#" stroke-dasharray="2 4""# } else { "" };
    let fill = if curve.is_published { "white" } else { colour };
    element!(
        text,
        r#"<line x1="{x}" y1="{y}" x2="{}" y2="{y}" stroke="{colour}" stroke-width="2"{dashes}/>"#,
        x + 26.0
    );
    element!(
        text,
        r#"<circle cx="{}" cy="{y}" r="3.5" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>"#,
        x + 13.0
    );
    element!(text, r#"<text x="{}" y="{}">{}</text>"#, x + 32.0, y + 1.0, escaped(&curve.label));
    let kind = if curve.is_published { "published" } else { "model" };
    element!(text, r##"<text x="{}" y="{}" fill="#666" font-size="10">{kind}</text>"##, x + 32.0, y + 14.0);
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_begin_and_end_at_round_values_and_marks_are_between() {
        let axis = Axis::over([32.0, 100_000.0].into_iter(), 0.0, 100.0);
        assert_eq!((axis.low, axis.high), (20.0, 100_000.0));
        assert_eq!((axis.place(20.0), axis.place(100_000.0)), (0.0, 100.0));
        assert!(axis.marks().contains(&100.0));
        let flat = Axis::over([3.0, 3.0].into_iter(), 0.0, 1.0);
        assert!(flat.low < flat.high);
    }

    #[test]
    fn a_plot_names_its_curves_and_tells_models_from_measurements() {
        let curves =
            vec![Curve::modelled("a < b", vec![(32.0, 1.0), (64.0, 2.0)]), Curve::published("c", &[(32.0, 1.5)])];
        let outcome = Outcome {
            title: "t & u".to_owned(),
            source: "s",
            parameters: vec![],
            rows: vec![],
            curves,
            bars: vec![],
            notes: vec![],
        };
        let text = svg(&outcome);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        for part in ["a &lt; b", "t &amp; u", ">published<", ">model<", "stroke-dasharray"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
