//! The outcome of a scenario: a table, curves for a plot, bars that are met or not, and its parameters.

use super::stated::Stated;

/// A scenario's outcome.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// Where what it is compared with was published.
    pub source: &'static str,
    /// The numbers it was given.
    pub parameters: Vec<Stated>,
    /// The first row is the head.
    pub rows: Vec<Vec<String>>,
    /// Curves over the number of nodes.
    pub curves: Vec<Curve>,
    /// Bars over these results.
    pub bars: Vec<Bar>,
    /// Remarks that a reader needs.
    pub notes: Vec<String>,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// Whether it was published, and not modelled.
    pub is_published: bool,
    /// Nodes and seconds.
    pub points: Vec<(f64, f64)>,
}

/// A bar: a figure and what it must not exceed.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name.
    pub what: String,
    /// The figure; none if what it is made of did not come about.
    pub figure: Option<f64>,
    /// The most it may be.
    pub at_most: f64,
    /// Of both.
    pub unit: &'static str,
}

impl Bar {
    /// Whether it is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.figure.is_some_and(|figure| figure <= self.at_most)
    }

    /// One line that says so.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { what, figure, at_most, unit } = self;
        let verdict = if self.is_met() { "met" } else { "NOT MET" };
        let figure = figure.map_or("no figure".to_owned(), |figure| format!("{figure:.2} {unit}"));
        format!("{verdict}: {what}: {figure}, at most {at_most} {unit} (a model's figure)")
    }
}

impl Curve {
    /// A curve of the model.
    #[must_use]
    pub fn modelled(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), is_published: false, points }
    }

    /// Points that were published.
    #[must_use]
    pub fn published(label: impl Into<String>, points: &[(f64, f64)]) -> Self {
        Self { label: label.into(), is_published: true, points: points.to_vec() }
    }

    /// Its value at so many nodes, if there is one.
    #[must_use]
    pub fn at(&self, nodes: usize) -> Option<f64> {
        self.points.iter().find(|(at, _)| *at == nodes as f64).map(|(_, value)| *value)
    }
}

/// A table of curves: a row for each number of nodes, a column for each curve.
#[must_use]
pub fn of_curves(curves: &[Curve]) -> Vec<Vec<String>> {
    let mut nodes: Vec<usize> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|(at, _)| *at as usize)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let label = |curve: &Curve| match curve.is_published {
        true => format!("{} (published), s", curve.label),
        false => format!("{} (model), s", curve.label),
    };
    let head = std::iter::once("nodes".to_owned()).chain(curves.iter().map(label)).collect();
    let cell = |curve: &Curve, nodes: usize| curve.at(nodes).map_or("-".to_owned(), in_seconds);
    let row = |nodes: usize| {
        std::iter::once(nodes.to_string()).chain(curves.iter().map(|curve| cell(curve, nodes))).collect()
    };
    std::iter::once(head).chain(nodes.into_iter().map(row)).collect()
}

/// Three digits, as far as a model deserves any.
#[must_use]
pub fn in_seconds(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_number_of_nodes_of_any_curve() {
        let curves = [Curve::modelled("a", vec![(1.0, 2.0), (4.0, 123.4)]), Curve::published("b", &[(2.0, 0.5)])];
        let rows = of_curves(&curves);
        assert_eq!(rows[0], ["nodes", "a (model), s", "b (published), s"]);
        assert_eq!(rows[1], ["1", "2.00", "-"]);
        assert_eq!(rows[2], ["2", "-", "0.50"]);
        assert_eq!(rows[3], ["4", "123", "-"]);
    }

    #[test]
    fn a_bar_says_whether_it_is_met() {
        let bar = |figure| Bar { what: "x".to_owned(), figure, at_most: 1.3, unit: "x" };
        assert!(bar(Some(1.3)).is_met() && !bar(Some(1.31)).is_met() && !bar(Some(f64::NAN)).is_met());
        assert!(bar(Some(1.31)).line().starts_with("NOT MET: x: 1.31 x, at most"));
        assert!(bar(None).line().starts_with("NOT MET: x: no figure, at most"), "what did not come about is not met");
    }
}
