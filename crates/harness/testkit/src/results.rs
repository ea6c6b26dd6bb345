//! Results: medians, bars and whether they are met, and the JSON that keeps them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use forebay_trial::machine::Machine;

/// The middle of the values; of an even number the mean of the middle two.
///
/// # Panics
/// Without values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median needs a value");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// Values of one kind over several runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Summary")]
pub struct Samples {
    runs: Vec<f64>,
}

/// The written form of samples.
#[derive(Serialize)]
struct Summary {
    median: f64,
    min: f64,
    max: f64,
    runs: Vec<f64>,
}

impl From<Samples> for Summary {
    fn from(samples: Samples) -> Self {
        let fold = |start, choose: fn(f64, f64) -> f64| samples.runs.iter().copied().fold(start, choose);
        Self {
            median: samples.median(),
            min: fold(f64::INFINITY, f64::min),
            max: fold(f64::NEG_INFINITY, f64::max),
            runs: samples.runs,
        }
    }
}

impl Samples {
    /// Adds a run's value.
    pub fn add(&mut self, value: f64) {
        self.runs.push(value);
    }

    /// The median; 0 without runs.
    #[must_use]
    pub fn median(&self) -> f64 {
        if self.runs.is_empty() { 0.0 } else { median(&self.runs) }
    }

    /// Run by run, this over `other`. Runs that were made next to each other share what the machine did meanwhile, so the
    /// median of these says more than the ratio of the medians where its speed drifts.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self { runs: self.runs.iter().zip(&other.runs).map(|(this, other)| this / other).collect() }
    }

    /// The value of the run that is worst where values must be on this side of a bar; 0 without runs.
    #[must_use]
    pub fn worst(&self, side: Side) -> f64 {
        let worse = match side {
            Side::AtMost | Side::Below => f64::max,
            Side::AtLeast => f64::min,
        };
        self.runs.iter().copied().reduce(worse).unwrap_or(0.0)
    }

    /// The value of the last run.
    #[must_use]
    pub fn last(&self) -> Option<f64> {
        self.runs.last().copied()
    }

    /// How many runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// On which side of a bar a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// At most the bar.
    AtMost,
    /// Below it.
    Below,
    /// At least the bar.
    AtLeast,
}

/// A figure and the bar it must pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// The measured quantity, in words.
    pub what: String,
    /// The figure.
    pub figure: f64,
    /// Which side of the bar is wanted.
    pub side: Side,
    /// The bar.
    pub bar: f64,
    /// The unit of both.
    pub unit: String,
    /// Whether it passes.
    pub met: bool,
}

impl Bar {
    /// Judges a figure.
    #[must_use]
    pub fn new(what: impl Into<String>, figure: f64, side: Side, bar: f64, unit: &str) -> Self {
        let met = match side {
            Side::AtMost => figure <= bar,
            Side::Below => figure < bar,
            Side::AtLeast => figure >= bar,
        };
        Self { what: what.into(), figure, side, bar, unit: unit.to_owned(), met }
    }

    /// The bar in words: `at most 3 s`.
    #[must_use]
    pub fn bar_text(&self) -> String {
        let side = match self.side {
            Side::AtMost => "at most",
            Side::Below => "below",
            Side::AtLeast => "at least",
        };
        format!("{side} {}", quantity(self.bar, &self.unit))
    }

    /// The figure in words.
    #[must_use]
    pub fn figure_text(&self) -> String {
        quantity(self.figure, &self.unit)
    }
}

/// A number with three significant digits or a few more (a ratio of 1.034 must not look like its bar of 1.03), whole
/// from 100 on, and its unit.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        v if v == v.trunc() => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 3,
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

/// One measurement: its conditions, its figures, its bars.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// The procedure, in sentences.
    pub conditions: String,
    /// Figures by name, their unit last in the name.
    pub figures: BTreeMap<String, serde_json::Value>,
    /// The bars that they must pass.
    pub bars: Vec<Bar>,
}

impl Measurement {
    /// A measurement under these conditions.
    #[must_use]
    pub fn under(conditions: impl Into<String>) -> Self {
        Self { conditions: conditions.into(), ..Self::default() }
    }

    /// Adds a figure, or several in one structure.
    pub fn figure(&mut self, name: &str, value: impl Serialize) -> &mut Self {
        // A figure that cannot be written as JSON (a NaN) becomes null there.
        self.figures.insert(name.to_owned(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// Adds a bar.
    pub fn bar(&mut self, bar: Bar) -> &mut Self {
        self.bars.push(bar);
        self
    }
}

/// Everything of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Where and of what.
    pub machine: Machine,
    /// The command line.
    pub command: String,
    /// When it began, seconds since 1970.
    pub started_unix: u64,
    /// By name.
    pub measurements: BTreeMap<String, Measurement>,
}

impl Results {
    /// Results without measurements.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        let words: Vec<_> = std::env::args().collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            machine,
            command: words.join(" "),
            started_unix: now.map_or(0, |since| since.as_secs()),
            measurements: BTreeMap::new(),
        }
    }

    /// Writes the JSON, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        write_json(path, self)
    }

    /// Reads what [`Results::write`] wrote.
    ///
    /// # Errors
    /// When it is not there or not such a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} does not hold results", path.display()))
    }
}

/// Writes `value` as JSON to `path`, through a temporary name, so that nobody reads half of it.
///
/// # Errors
/// When it cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    let partial = path.with_extension("partial");
    fs::write(&partial, serde_json::to_string_pretty(value)? + "\n").with_context(context)?;
    fs::rename(&partial, path).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_run_by_run() {
        let (mut slow, mut fast) = (Samples::default(), Samples::default());
        for (of_slow, of_fast) in [(2.0, 1.0), (9.0, 3.0), (40.0, 10.0)] {
            slow.add(of_slow);
            fast.add(of_fast);
        }
        assert!((slow.over(&fast).median() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_median_ignores_one_outlier() {
        assert!((median(&[1.0, 100.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[1.0, 2.0, 3.0, 100.0]) - 2.5).abs() < f64::EPSILON);
    }

    #[test]
    fn a_bar_knows_its_side() {
        assert!(Bar::new("a", 1.0, Side::AtMost, 1.0, "s").met);
        assert!(!Bar::new("a", 1.0, Side::Below, 1.0, "s").met);
        assert!(Bar::new("a", 2.0, Side::AtLeast, 1.0, "s").met);
        assert_eq!(Bar::new("a", 2.0, Side::AtMost, 1.03, "x").bar_text(), "at most 1.030 x");
    }

    #[test]
    fn numbers_keep_the_digits_that_mean_something() {
        let texts = [0.0451, 1.0, 1.234, 12.34, 5067.0].map(|value| quantity(value, "s"));
        assert_eq!(texts, ["0.045 s", "1 s", "1.234 s", "12.3 s", "5067 s"]);
    }
}
