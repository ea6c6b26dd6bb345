//! Charts of the report as SVG in the page: one or two amounts over time, and the phases of the start.
//!
//! The page's style colours them, so that they follow light, dark and paper. Lines differ in dashes as well as in colour, and a text says the
//! same to a reader of the screen.

use std::fmt::Write;
use std::time::Duration;

use super::markup::escaped;
use crate::health::amounts::time;

/// A drawing, its margins, and the height of a row of phases.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 26.0;
const ROW: f64 = 26.0;

/// Steps between the marks of time, seconds: from a minute on, each is a whole number of the unit that its label has.
const TIME_STEPS: [f64; 19] = [
    0.25,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1200.0,
    3600.0,
    7200.0,
    14_400.0,
    28_800.0,
    DAY,
    2.0 * DAY,
];
const DAY: f64 = 86_400.0;

/// Marks of an axis at most.
const TIME_MARKS_MAX: u32 = 8;
const MARKS_MAX: f64 = 4.0;

/// One or two amounts over time.
pub struct Chart<'a> {
    /// Of the page: letters and dashes.
    pub id: &'a str,
    pub title: &'a str,
    /// Names, and one amount for each slot.
    pub lines: &'a [(&'a str, Vec<f64>)],
    pub slot: Duration,
    /// Slots of which no node knows anything.
    pub is_gap: &'a [bool],
    /// The amount in words, and the base of its units.
    pub label: fn(u64) -> String,
    pub base: f64,
}

impl Chart<'_> {
    /// The drawing; empty without any amount.
    pub fn svg(&self) -> String {
        let most = self.lines.iter().flat_map(|(_, amounts)| amounts).fold(0.0_f64, |most, amount| most.max(*amount));
        if most <= 0.0 {
            return String::new();
        }
        let step = step(most, self.base);
        let top = (most / step).ceil() * step;
        let mut svg = open(self.id, HEIGHT, self.title, &self.described());
        self.gaps(&mut svg);
        let mut mark = 0.0;
        while mark <= top {
            let y = y_of(mark / top);
            let label = escaped(&(self.label)(mark as u64));
            let (right, end) = (WIDTH - RIGHT, LEFT - 8.0);
            put(&mut svg, format_args!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>"));
            put(&mut svg, format_args!("<text class=\"end\" x=\"{end}\" y=\"{:.1}\">{label}</text>", y + 4.0));
            mark += step;
        }
        self.times(&mut svg);
        for (index, (name, amounts)) in self.lines.iter().enumerate() {
            let path = self.path(amounts, top);
            let x = LEFT + 230.0 * index as f64;
            put(&mut svg, format_args!("<path class=\"line{index}\" d=\"{path}\"/>"));
            put(&mut svg, format_args!("<path class=\"line{index}\" d=\"M{x} 12H{}\"/>", x + 26.0));
            put(&mut svg, format_args!("<text class=\"begin\" x=\"{}\" y=\"16\">{}</text>", x + 32.0, escaped(name)));
        }
        svg + "</svg>\n"
    }

    /// The chart in words.
    fn described(&self) -> String {
        let mut words = format!("Over {}. ", span(self.slot * self.is_gap.len() as u32));
        for (name, amounts) in self.lines {
            let most = amounts.iter().copied().fold(0.0_f64, f64::max);
            let at = amounts.iter().position(|amount| *amount == most).unwrap_or(0);
            let (most, at) = ((self.label)(most as u64), span(self.slot * at as u32));
            write!(words, "{name}: at most {most}, first after {at}. ").ok();
        }
        if self.is_gap.contains(&true) {
            words.push_str("Grey: times of which no daemon that answered has figures.");
        }
        words
    }

    fn x_of(&self, slot: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * slot as f64 / self.is_gap.len().max(1) as f64
    }

    fn gaps(&self, svg: &mut String) {
        for slot in (0..self.is_gap.len()).filter(|slot| self.is_gap[*slot]) {
            let (x, width) = (self.x_of(slot), self.x_of(slot + 1) - self.x_of(slot));
            let height = HEIGHT - TOP - BOTTOM;
            let rect =
                format_args!("<rect class=\"gap\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"/>");
            put(svg, rect);
        }
    }

    fn times(&self, svg: &mut String) {
        let length_s = self.slot.as_secs_f64() * self.is_gap.len() as f64;
        let step_s = time_step(length_s);
        for mark in 0..=TIME_MARKS_MAX {
            let at_s = f64::from(mark) * step_s;
            let x = LEFT + (WIDTH - LEFT - RIGHT) * at_s / length_s;
            if x > WIDTH - RIGHT + 0.5 {
                break;
            }
            let (y, base) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM + 17.0);
            put(svg, format_args!("<path class=\"grid\" d=\"M{x:.1} {y}v4\"/>"));
            put(svg, format_args!("<text x=\"{x:.1}\" y=\"{base}\">{}</text>", time_label(at_s, step_s)));
        }
    }

    /// A level for each slot, broken where there are gaps.
    fn path(&self, amounts: &[f64], top: f64) -> String {
        let (mut path, mut is_open) = (String::new(), false);
        for (slot, amount) in amounts.iter().enumerate().take(self.is_gap.len()) {
            if self.is_gap[slot] {
                is_open = false;
                continue;
            }
            let (x, y) = (self.x_of(slot), y_of(amount / top));
            write!(path, "{}{x:.1} {y:.1}H{:.1}", if is_open { "L" } else { "M" }, self.x_of(slot + 1)).ok();
            is_open = true;
        }
        path
    }
}

/// Phases that follow each other, each in a row of its own.
pub fn phases(id: &str, title: &str, phases: &[(&str, Duration)]) -> String {
    let whole: f64 = phases.iter().map(|(_, took)| took.as_secs_f64()).sum();
    if whole <= 0.0 {
        return String::new();
    }
    let words: Vec<String> = phases.iter().map(|(name, took)| format!("{name}: {}", time(*took))).collect();
    let mut svg = open(id, ROW * phases.len() as f64 + 8.0, title, &words.join("; "));
    // Room for names on the left, and for times on the right.
    let (left, width) = (190.0, WIDTH - 190.0 - 90.0);
    let mut before = 0.0;
    for (index, (name, took)) in phases.iter().enumerate() {
        let (x, y) = (left + width * before / whole, ROW * index as f64 + 6.0);
        let bar = (width * took.as_secs_f64() / whole).max(1.0);
        put(
            &mut svg,
            format_args!("<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>", left - 10.0, y + 13.0, escaped(name)),
        );
        put(&mut svg, format_args!("<rect class=\"bar\" x=\"{x:.1}\" y=\"{y}\" width=\"{bar:.1}\" height=\"16\"/>"));
        let after = x + bar + 6.0;
        put(&mut svg, format_args!("<text class=\"begin\" x=\"{after:.1}\" y=\"{}\">{}</text>", y + 13.0, time(*took)));
        before += took.as_secs_f64();
    }
    svg + "</svg>\n"
}

fn open(id: &str, height: f64, title: &str, described: &str) -> String {
    format!(
        "<svg class=\"chart\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" viewBox=\"0 0 {WIDTH} {height}\">\
         <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>\n",
        escaped(title),
        escaped(described)
    )
}

/// Writing into a string cannot fail.
fn put(svg: &mut String, element: std::fmt::Arguments<'_>) {
    svg.write_fmt(element).ok();
    svg.push('\n');
}

fn y_of(share: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
}

/// The step between the marks of an axis: 1, 2 or 5 times a power of ten of a unit, and 1 at least.
fn step(most: f64, base: f64) -> f64 {
    let mut unit = 1.0;
    while most / unit >= base {
        unit *= base;
    }
    let least = most / unit / MARKS_MAX;
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= least * 0.999);
    (step.unwrap_or(least) * unit).max(1.0)
}

fn time_step(length_s: f64) -> f64 {
    let marks_max = f64::from(TIME_MARKS_MAX);
    let days = (length_s / DAY / marks_max).ceil() * DAY;
    TIME_STEPS.into_iter().find(|step_s| length_s / step_s <= marks_max).unwrap_or(days)
}

/// `0.5 s`, `5 min`, `2 h`, `3 days`, by the step.
fn time_label(at_s: f64, step_s: f64) -> String {
    match () {
        () if step_s < 60.0 => format!("{at_s} s"),
        () if step_s < 3600.0 => format!("{} min", at_s / 60.0),
        () if step_s < DAY => format!("{} h", at_s / 3600.0),
        () => format!("{} days", at_s / DAY),
    }
}

/// `0.25 s`, `1 min 4 s`.
pub fn span(time: Duration) -> String {
    if time < Duration::from_secs(60) {
        format!("{} s", time.as_secs_f64())
    } else {
        crate::health::amounts::span(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::amounts::{rate, size};

    fn chart(amounts: Vec<f64>, is_gap: &[bool], slot_ms: u64) -> String {
        let lines = [("<read>", amounts)];
        let slot = Duration::from_millis(slot_ms);
        Chart { id: "c", title: "T", lines: &lines, slot, is_gap, label: rate, base: 1000.0 }.svg()
    }

    #[test]
    fn axes_have_units_and_round_steps() {
        assert_eq!([3.0, 9.0, 100.0, 999.0].map(|most| step(most, 1000.0)), [1.0, 5.0, 50.0, 500.0]);
        assert_eq!(step(1_500_000.0, 1000.0), 500_000.0);
        assert_eq!(step(3.0 * 1024.0 * 1024.0, 1024.0), 1024.0 * 1024.0);
        assert_eq!(size(step(600.0 * 1024.0, 1024.0) as u64), "200 KiB");
        assert_eq!(
            [0.5, 8.0, 90.0, 3600.0, DAY, 18.0 * DAY].map(time_step),
            [0.25, 1.0, 20.0, 600.0, 14_400.0, 3.0 * DAY]
        );
        assert_eq!(time_label(0.25, 0.25) + " " + &time_label(7200.0, 3600.0), "0.25 s 2 h");
        let svg = chart(vec![1e6, 4e6], &[false; 2], 60_000);
        assert!(
            ["0 B/s", "1.0 MB/s", "4.0 MB/s", "0 s", "20 s"].iter().all(|label| svg.contains(&format!(">{label}<"))),
            "{svg}"
        );
    }

    #[test]
    fn a_gap_breaks_the_line_and_is_told() {
        let svg = chart(vec![1.0, 0.0, 2.0], &[false, true, false], 1000);
        let line = svg.lines().find(|line| line.contains("line0")).unwrap();
        assert_eq!((line.matches('M').count(), svg.matches("class=\"gap\"").count()), (2, 1), "{svg}");
        assert!(
            svg.contains("no daemon that answered has figures")
                && svg.contains("&lt;read&gt;: at most 2 B/s, first after 2 s")
        );
        assert!(!chart(vec![1.0], &[false], 1000).contains("Grey"));
    }

    #[test]
    fn no_amount_and_no_time_is_no_chart() {
        assert_eq!(chart(vec![0.0; 3], &[false; 3], 1000), "");
        assert_eq!(chart(vec![], &[], 1000), "");
        assert_eq!(phases("p", "P", &[("one", Duration::ZERO)]), "");
    }

    #[test]
    fn phases_follow_each_other() {
        let svg = phases("p", "P", &[("one", Duration::from_secs(1)), ("two", Duration::from_secs(3))]);
        let bars: Vec<&str> = svg.lines().filter(|line| line.contains("class=\"bar\"")).collect();
        assert!(bars[0].contains("x=\"190.0\"") && bars[0].contains("width=\"110.0\""), "{svg}");
        assert!(bars[1].contains("x=\"300.0\"") && svg.contains("one: 1.0 s; two: 3.0 s"), "{svg}");
    }
}
