//! The contents of columns, as tables and as JSON: `describe`, `quantiles`, `histogram` and `top`.

use forebay_query::{Counted, Distinct, NumberColumn, Operator, TextColumn, shown_name};
use serde_json::{Map, Value, json};

use crate::commands::query::answer::{Answer, DescribedAs};
use crate::commands::query::shown::number::{in_json as number, short};
use crate::commands::query::shown::sheet::{Cell, Part, Sheet};

/// The quantiles of `describe`.
const QUARTILES: [f64; 3] = [0.25, 0.5, 0.75];

/// One column, and what it holds.
#[derive(Clone, Copy)]
enum Held<'a> {
    Number(&'a NumberColumn),
    Text(&'a TextColumn),
}

fn columns(answer: &Answer) -> impl Iterator<Item = (&str, Held<'_>)> {
    let described = answer.state.rows.as_ref().map(|rows| &rows.described);
    answer.described.iter().zip(described.into_iter().cycle()).map(|((name, held), described)| {
        let held = match held {
            DescribedAs::Number(place) => Held::Number(&described.numbers[*place]),
            DescribedAs::Text(place) => Held::Text(&described.texts[*place]),
        };
        (name.as_str(), held)
    })
}

/// The tables of an answer.
pub fn parts(answer: &Answer) -> Vec<Part> {
    let mut parts = vec![];
    let mut sheet = |head: &[&str], rows: Vec<Vec<Cell>>| parts.push(Part::Result(Sheet::new(head, rows)));
    if answer.has(Operator::Describe) {
        let head = ["column", "kind", "count", "missing", "distinct", "mean", "deviation", "min", "25%", "50%", "75%"];
        let head = [&head[..], &["max", "skewness", "kurtosis", "top", "top_count"]].concat();
        sheet(&head, columns(answer).map(|(name, held)| described(name, held)).collect());
    }
    if answer.has(Operator::Quantiles) {
        let shares: Vec<String> = answer.details.quantiles.iter().map(|share| percent(*share)).collect();
        let head: Vec<&str> = std::iter::once("column").chain(shares.iter().map(String::as_str)).collect();
        sheet(
            &head,
            numbers(answer).map(|(name, column)| quantiles(name, column, &answer.details.quantiles)).collect(),
        );
    }
    if answer.has(Operator::Histogram) {
        let rows = numbers(answer).flat_map(|(name, column)| histogram(name, column, answer.details.bins));
        sheet(&["column", "from", "to", "count", "share"], rows.collect());
    }
    if answer.has(Operator::Top) {
        let rows = columns(answer).flat_map(|(name, held)| top(name, held, answer.details.top));
        sheet(&["column", "value", "count", "share"], rows.collect());
    }
    parts.extend(remarks(answer).into_iter().map(Part::Line));
    parts
}

fn numbers(answer: &Answer) -> impl Iterator<Item = (&str, &NumberColumn)> {
    answer.described_numbers().map(|(_, name, column)| (name, column))
}

/// A share as people write it: 0.25 is 25%.
fn percent(share: f64) -> String {
    // The nearest double times 100 has digits that nobody wrote.
    format!("{}%", short((share * 1e10).round() / 1e8))
}

fn none() -> Cell {
    Cell::Number(f64::NAN)
}

fn different(distinct: Distinct) -> Cell {
    match distinct {
        Distinct::Exactly(count) => Cell::Count(count),
        Distinct::About(count) => Cell::About(count),
    }
}

fn described(name: &str, held: Held<'_>) -> Vec<Cell> {
    let text = |text: &str| Cell::Text(text.to_owned());
    let mut cells = vec![text(name), text(kind(held))];
    let (most, too_small) = (most(held, 1), too_small(held));
    match held {
        Held::Number(column) => {
            let summary = column.column.summary();
            let [low, middle, high] = QUARTILES.map(|share| column.quantile(share));
            cells.extend([
                Cell::Count(summary.count),
                Cell::Count(summary.missing),
                different(column.values.distinct()),
            ]);
            let of = [summary.mean, column.column.sample_deviation(), summary.min, low, middle, high, summary.max];
            cells.extend(of.into_iter().chain([column.skewness(), column.kurtosis()]).map(Cell::Number));
        }
        Held::Text(column) => {
            let extremes = column.extremes();
            let [min, max] = [extremes.as_ref().map(|of| &of.0), extremes.as_ref().map(|of| &of.1)]
                .map(|extreme| extreme.map_or_else(none, |extreme| text(extreme)));
            cells.extend([Cell::Count(column.count()), Cell::Count(column.missing()), different(column.distinct())]);
            cells.extend([none(), none(), min, none(), none(), none(), max, none(), none()]);
        }
    }
    match most.into_iter().next() {
        Some((value, count)) => cells.extend([value, counted(count, too_small)]),
        None => cells.extend([none(), none()]),
    }
    cells
}

fn kind(held: Held<'_>) -> &'static str {
    match held {
        Held::Text(column) if column.are_dates() => "date",
        Held::Text(column) if column.count() == 0 => "none",
        Held::Text(_) => "text",
        Held::Number(column) if column.values.count() > 0 => "number",
        Held::Number(column) if column.texts.texts > 0 => "text",
        Held::Number(_) => "none",
    }
}

/// A count that may be too small.
fn counted(count: u64, too_small: u64) -> Cell {
    if too_small == 0 { Cell::Count(count) } else { Cell::AtLeast(count) }
}

fn too_small(held: Held<'_>) -> u64 {
    match held {
        Held::Number(_) => 0,
        Held::Text(column) => column.taken_off(),
    }
}

/// The most frequent values, where they are known.
fn most(held: Held<'_>, count: usize) -> Vec<(Cell, u64)> {
    match held {
        Held::Number(column) => {
            let most = column.values.most_frequent(count).unwrap_or_default();
            most.into_iter().map(|(value, count)| (Cell::Number(value), count)).collect()
        }
        Held::Text(column) => {
            // Those that were seen less often than their counts may be off are as rare as any.
            let is_frequent = |counted: &Counted| counted.count > column.taken_off();
            let cell = |Counted { text, count }| (Cell::Text(text), count);
            column.most_frequent(count).into_iter().filter(is_frequent).map(cell).collect()
        }
    }
}

fn all(held: Held<'_>) -> u64 {
    match held {
        Held::Number(column) => column.values.count(),
        Held::Text(column) => column.count(),
    }
}

fn quantiles(name: &str, column: &NumberColumn, shares: &[f64]) -> Vec<Cell> {
    let cells = shares.iter().map(|share| Cell::Number(column.quantile(*share)));
    std::iter::once(Cell::Text(name.to_owned())).chain(cells).collect()
}

fn histogram(name: &str, column: &NumberColumn, bins: usize) -> Vec<Vec<Cell>> {
    let all = column.column.finite() as f64;
    let row = |bin: forebay_query::Bin| {
        let numbers = [bin.from, bin.to].map(Cell::Number);
        let [from, to] = numbers;
        vec![Cell::Text(name.to_owned()), from, to, Cell::Count(bin.count), Cell::Number(bin.count as f64 / all)]
    };
    column.bins.at_most(bins).into_iter().map(row).collect()
}

fn top(name: &str, held: Held<'_>, count: usize) -> Vec<Vec<Cell>> {
    let (all, too_small) = (all(held) as f64, too_small(held));
    let row = |(value, count): (Cell, u64)| {
        vec![Cell::Text(name.to_owned()), value, counted(count, too_small), Cell::Number(count as f64 / all)]
    };
    most(held, count).into_iter().map(row).collect()
}

/// How far numbers are from exact ones, and what is not told.
fn remarks(answer: &Answer) -> Vec<String> {
    let mut remarks = vec![];
    let has = |operators: &[Operator]| operators.iter().any(|operator| answer.has(*operator));
    let error = numbers(answer).map(|(_, column)| column.values.error()).fold(0.0, f64::max);
    if has(&[Operator::Describe, Operator::Quantiles]) && error > 0.0 {
        // Rounded up: it is a bound.
        let error = (error * 1000.0).ceil() / 10.0;
        remarks.push(format!(
            "quantiles of columns with thousands of different values are within {error}% of the exact ones"
        ));
    }
    if answer.has(Operator::Histogram) {
        let infinite = numbers(answer)
            .filter(|(_, column)| column.infinite() > 0)
            .map(|(name, column)| format!("{} of {}", crate::columns::count(column.infinite()), shown_name(name)));
        let infinite = infinite.collect::<Vec<_>>().join(", ");
        if !infinite.is_empty() {
            remarks.push(format!("infinite values are in no range: {infinite}"));
        }
    }
    if has(&[Operator::Describe, Operator::Top]) {
        let names = numbers(answer).filter(|(_, column)| column.may_be_rounded()).map(|(name, _)| shown_name(name));
        let names = names.collect::<Vec<_>>().join(", ");
        if !names.is_empty() {
            remarks.push(format!(
                "numbers beyond 9,007,199,254,740,992 are rounded, and different ones may count as one: {names}"
            ));
        }
    }
    let is_about = |held| match held {
        Held::Number(column) => matches!(column.values.distinct(), Distinct::About(_)),
        Held::Text(column) => matches!(column.distinct(), Distinct::About(_)),
    };
    if answer.has(Operator::Describe) && columns(answer).any(|(_, held)| is_about(held)) {
        let error = percent(forebay_query::DISTINCT_ERROR);
        remarks.push(format!("~: an estimate of how many values differ, whose standard error is {error}"));
    }
    let texts = || columns(answer).filter(|(_, held)| too_small(*held) > 0 && !most(*held, 1).is_empty());
    if has(&[Operator::Describe, Operator::Top]) {
        let most = texts().map(|(_, held)| too_small(held)).max();
        remarks.extend(
            most.map(|most| format!(">=: a count that may be up to {} too small", crate::columns::count(most))),
        );
    }
    if answer.has(Operator::Top) {
        let unknown: Vec<String> = numbers(answer)
            .filter(|(_, column)| column.values.error() > 0.0)
            .map(|(name, _)| shown_name(name))
            .collect();
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            remarks.push(format!("no most frequent values of {names}: there are thousands of different numbers"));
        }
    }
    if answer.has(Operator::Describe) {
        remarks
            .push("deviation, skewness and kurtosis are those of a sample, as pandas and DuckDB have them".to_owned());
    }
    remarks
}

/// The columns as JSON, each with what was asked for.
pub fn in_json(answer: &Answer) -> Value {
    columns(answer).map(|(name, held)| column_in_json(answer, name, held)).collect()
}

fn column_in_json(answer: &Answer, name: &str, held: Held<'_>) -> Value {
    let mut said = Map::new();
    let mut say = |key: &str, value: Value| drop(said.insert(key.to_owned(), value));
    let (has, details) = (|operator| answer.has(operator), &answer.details);
    say("name", json!(name));
    say("kind", json!(kind(held)));
    say("count", json!(all(held)));
    let (missing, distinct) = match held {
        Held::Number(column) => (column.column.missing(), column.values.distinct()),
        Held::Text(column) => (column.missing(), column.distinct()),
    };
    say("missing", json!(missing));
    if has(Operator::Describe) {
        let (count, is_exact) = match distinct {
            Distinct::Exactly(count) => (count, true),
            Distinct::About(count) => (count, false),
        };
        say("distinct", json!(count));
        say("distinct_is_exact", json!(is_exact));
    }
    match held {
        Held::Number(column) => numbers_in_json(answer, column, &mut say),
        Held::Text(column) => {
            let extremes = column.extremes().filter(|_| has(Operator::Describe));
            if let Some((min, max)) = extremes {
                say("min", json!(min));
                say("max", json!(max));
            }
        }
    }
    if has(Operator::Describe) || has(Operator::Top) {
        let value = |(value, count): (Cell, u64)| {
            let value = match value {
                Cell::Number(value) => number(value),
                Cell::Text(text) => json!(text),
                _ => Value::Null,
            };
            json!({"value": value, "count": count})
        };
        let count = if has(Operator::Top) { details.top } else { 1 };
        say("top", most(held, count).into_iter().map(value).collect());
        say("top_counts_too_small_by", json!(too_small(held)));
    }
    Value::Object(said)
}

fn numbers_in_json(answer: &Answer, column: &NumberColumn, say: &mut impl FnMut(&str, Value)) {
    let (has, details) = (|operator| answer.has(operator), &answer.details);
    say("texts", json!(column.texts.texts));
    let summary = column.column.summary();
    if has(Operator::Describe) {
        for (key, value) in [
            ("mean", summary.mean),
            ("sample_deviation", column.column.sample_deviation()),
            ("min", summary.min),
            ("max", summary.max),
            ("skewness", column.skewness()),
            ("kurtosis", column.kurtosis()),
        ] {
            say(key, number(value));
        }
    }
    if has(Operator::Describe) || has(Operator::Quantiles) {
        let shares = if has(Operator::Quantiles) { &details.quantiles[..] } else { &QUARTILES };
        let quantile = |share: &f64| json!({"share": share, "value": number(column.quantile(*share))});
        say("quantiles", shares.iter().map(quantile).collect());
        say("quantile_error", json!(column.values.error()));
    }
    if has(Operator::Histogram) {
        say("infinite", json!(column.infinite()));
        let bin = |bin: forebay_query::Bin| json!({"from": bin.from, "to": bin.to, "count": bin.count});
        say("histogram", column.bins.at_most(details.bins).into_iter().map(bin).collect());
    }
}
