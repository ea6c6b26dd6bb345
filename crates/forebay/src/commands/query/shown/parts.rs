//! The sentences and tables of an answer, in their order, before they have a form.

use std::collections::BTreeMap;

use forebay_offload::Makings;
use forebay_query::{Column, ColumnSummary, Group, Groups, Operator, Prediction, Rows, shown_name};

use crate::columns::count;
use crate::commands::query::answer::Answer;
use crate::commands::query::shown::described;
use crate::commands::query::shown::json::place;
use crate::commands::query::shown::sheet::{Cell, Part, Sheet};
use crate::output::shown_path;

/// Those of an answer.
pub fn of(answer: &Answer) -> Vec<Part> {
    let mut parts = vec![Part::Line(facts(answer))];
    parts.extend(doubts(answer).into_iter().map(Part::Line));
    results(answer, &mut parts);
    if answer.explains {
        explain(&answer.makings, &mut parts);
    }
    parts.extend(normalised(answer).map(Part::Result));
    parts
}

fn facts(answer: &Answer) -> String {
    let state = &answer.state;
    let mut facts = vec![];
    if answer.files > 1 {
        facts.push(format!("{} files", count(answer.files as u64)));
    }
    facts.push(format!("{} bytes", count(state.bytes)));
    if answer.has(Operator::CountLines) {
        facts.push(format!("{} lines", count(state.lines)));
    }
    if let Some(rows) = &state.rows {
        facts.push(format!("{} rows", count(rows.good)));
        if rows.filtered > 0 {
            facts.push(format!("{} left out by --where-row", counted(rows.filtered, "row")));
        }
        if rows.bad > 0 {
            // The last line of a file may have no newline.
            let lines = answer.bad_extent.0.max(rows.bad);
            let (bad, bytes) = (counted(rows.bad, "bad row"), counted(answer.bad_extent.1, "byte"));
            facts.push(format!("{bad} left out ({}, {bytes})", counted(lines, "line")));
        }
    }
    facts.join(", ")
}

/// The tables of the operators that make no file.
fn results(answer: &Answer, parts: &mut Vec<Part>) {
    let state = &answer.state;
    let mut result = |sheet: Sheet| parts.push(Part::Result(sheet));
    if answer.has(Operator::CountLines) {
        let row = [answer.files as u64, state.bytes, state.lines].map(Cell::Count).to_vec();
        result(Sheet::new(&["files", "bytes", "lines"], vec![row]).said(String::new()));
    }
    if let Some(rows) = &state.rows {
        if let (Some(by), Some(groups)) = (&answer.by, &rows.groups) {
            result(grouped(answer, by, groups));
        } else if answer.has(Operator::Stats) {
            let head = ["column", "count", "missing", "sum", "mean", "min", "max", "variance", "deviation"];
            let row = |(name, column): (&String, &Column)| stats_row(name, &column.summary());
            result(Sheet::new(&head, answer.names.iter().zip(&rows.columns).map(row).collect()));
        }
        if answer.has(Operator::Stats) {
            parts.push(Part::Line("variance and deviation divide by the count, not by the count - 1".to_owned()));
        }
        parts.extend(matrices(answer, rows));
    }
    parts.extend(described::parts(answer));
    let Some(counts) = &state.byte_counts else { return };
    if answer.has(Operator::Digits) {
        let row = |(digit, count): (usize, u64)| vec![Cell::Text(digit.to_string()), Cell::Count(count)];
        let rows = counts.digits().into_iter().enumerate().map(row).collect();
        parts.push(Part::Result(Sheet::new(&["digit", "count"], rows)));
    }
    if answer.has(Operator::Entropy) {
        let entropy = counts.entropy();
        let sheet = Sheet::new(&["entropy_bits_per_byte"], vec![vec![Cell::Number(entropy)]]);
        parts.push(Part::Result(sheet.said(format!("entropy: {entropy:.6} bits a byte"))));
    }
}

/// The tables with a number for each pair of columns.
fn matrices(answer: &Answer, rows: &Rows) -> Vec<Part> {
    let matrix = |title: &str, matrix: Vec<Vec<f64>>| {
        let head: Vec<&str> = std::iter::once(title).chain(answer.names.iter().map(String::as_str)).collect();
        let row = |(name, values): (&String, Vec<f64>)| named(name, values.into_iter().map(Cell::Number));
        Part::Result(Sheet::new(&head, answer.names.iter().zip(matrix).map(row).collect()))
    };
    let mut parts = vec![];
    if let Some(covariance) = &rows.covariance {
        if answer.has(Operator::Covariance) {
            parts.push(matrix("covariance", covariance.covariances()));
            parts.push(Part::Line("covariances divide by the rows - 1, as those of a sample".to_owned()));
        }
        if answer.has(Operator::Correlation) {
            parts.push(matrix("correlation", covariance.correlations()));
        }
        if covariance.rows() < rows.good {
            let whole = counted(covariance.rows(), "row");
            parts.push(Part::Line(format!("of {whole}: those in which no column is missing")));
        }
    }
    parts.extend(rows.gramian.as_ref().map(|gramian| matrix("A^T A", gramian.matrix())));
    parts
}

/// The statistics of each group.
fn grouped(answer: &Answer, by: &str, groups: &Groups) -> Sheet {
    let head = [by, "column", "rows", "count", "missing", "sum", "mean", "min", "max", "deviation"];
    let row = |value: &Option<String>, group: &Group, (name, column): (&String, &Column)| {
        let ColumnSummary { count, missing, sum, mean, min, max, deviation, .. } = column.summary();
        let value = value.as_ref().map_or(Cell::Number(f64::NAN), |value| Cell::Text(value.clone()));
        let counts = [group.rows, count, missing].map(Cell::Count);
        let numbers = [sum, mean, min, max, deviation].map(Cell::Number);
        [value, Cell::Text(name.clone())].into_iter().chain(counts).chain(numbers).collect()
    };
    let of_group = |(value, group): (Option<String>, &Group)| {
        let columns = answer.names.iter().zip(&group.columns);
        columns.map(|column| row(&value, group, column)).collect::<Vec<_>>()
    };
    // Those that are refused are an error before.
    Sheet::new(&head, groups.groups().unwrap_or_default().into_iter().flat_map(of_group).collect())
}

fn named(name: &str, cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    std::iter::once(Cell::Text(name.to_owned())).chain(cells).collect()
}

fn stats_row(name: &str, summary: &ColumnSummary) -> Vec<Cell> {
    let ColumnSummary { count, missing, sum, mean, min, max, variance, deviation } = *summary;
    let counts = [count, missing].map(Cell::Count).into_iter();
    named(name, counts.chain([sum, mean, min, max, variance, deviation].map(Cell::Number)))
}

/// The columns that were written, a row a file.
fn normalised(answer: &Answer) -> Option<Sheet> {
    let column = answer.state.rows.as_ref().and_then(|rows| rows.columns.first())?;
    if answer.normalised.is_empty() {
        return None;
    }
    let (summary, (mean, deviation)) = (column.summary(), column.normalised());
    let head = ["column", "output", "mean", "deviation", "normalised_mean", "normalised_deviation", "written_by"];
    let name = &answer.names[0];
    let row = |(output, written): &(std::path::PathBuf, forebay_offload::Written)| {
        let numbers = [summary.mean, summary.deviation, mean, deviation].map(Cell::Number);
        let by = Cell::Text(written.by.map_or_else(String::new, |node| node.to_string()));
        named(name, std::iter::once(Cell::Text(shown_path(output))).chain(numbers).chain([by]))
    };
    let said = |(output, written): &(std::path::PathBuf, forebay_offload::Written)| {
        let by = written.by.map_or_else(String::new, |node| format!(" (written by node {node})"));
        format!("normalised column {}: {}{by}", shown_name(name), shown_path(output))
    };
    let lines: Vec<String> = answer.normalised.iter().map(said).collect();
    Some(Sheet::new(&head, answer.normalised.iter().map(row).collect()).said(lines.join("\n")))
}

/// Lines about decisions that a reader might take otherwise: the first record, and columns that are left out.
fn doubts(answer: &Answer) -> Vec<String> {
    /// Columns that are named: as many as a person reads.
    const NAMED_MAX: usize = 8;
    let mut said: Vec<String> = answer.notes.iter().map(|note| format!("note: {note}")).collect();
    let in_doubt: Vec<_> = answer.first_records.iter().filter(|record| record.is_in_doubt).collect();
    for (has_names, taken) in [
        (
            false,
            "first record: data, though it has text and numbers; --header yes takes it for the names of the columns",
        ),
        (true, "first record: names of the columns, though it may be data; --header no takes it for data"),
    ] {
        match in_doubt.iter().filter(|record| record.has_names == has_names).count() {
            0 => {}
            _ if answer.files == 1 => said.push(taken.to_owned()),
            files => said.push(format!("{taken} ({files} of {} files)", answer.files)),
        }
    }
    if let Some(left_out) = answer.left_out.as_ref().filter(|left_out| !left_out.is_empty()) {
        let reason = |(name, value): &(String, Option<String>)| match value {
            Some(value) => format!("{}: first text is {value:?}", shown_name(name)),
            None => format!("{}: no value", shown_name(name)),
        };
        let kept = answer.names.len().max(answer.described.len());
        let mut parts = vec![format!("{kept} of {} columns", kept + left_out.len())];
        parts.extend(left_out.iter().take(NAMED_MAX).map(reason));
        if left_out.len() > NAMED_MAX {
            parts.push(format!("and {} more", left_out.len() - NAMED_MAX));
        }
        said.push(parts.join("; "));
    }
    said
}

/// A number of things.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// The reader and the predicted times.
fn explain(makings: &Makings, parts: &mut Vec<Part>) {
    let chosen = place(makings);
    let Some(Prediction { host, data, split }) = makings.predicted else {
        parts.push(Part::Line("read by this host: no job has nodes that hold the bytes".to_owned()));
        return;
    };
    let row = |(name, seconds): (&str, f64)| {
        let took = if name == chosen { format!("{:.3} s", makings.took_s) } else { String::new() };
        [name.to_owned(), format!("{seconds:.3} s"), took].map(Cell::Text).to_vec()
    };
    let rows = [("host", host), ("data", data), ("split", split)].map(row).to_vec();
    parts.push(Part::About(Sheet::new(&["read by", "predicted", "took"], rows)));
    if makings.is_in_logs {
        let said = "from the logs of the burst tier, each block by the node that has most of it";
        parts.push(Part::Line(said.to_owned()));
    }
    if !makings.bytes.is_empty() {
        parts.push(Part::About(made_by(&makings.bytes)));
    }
}

fn made_by(bytes: &BTreeMap<Option<u32>, u64>) -> Sheet {
    let maker = |(node, bytes): (&Option<u32>, &u64)| {
        let node = node.map_or_else(|| "this host".to_owned(), |node| format!("node {node}"));
        vec![Cell::Text(node), Cell::Count(*bytes)]
    };
    Sheet::new(&["made by", "bytes"], bytes.iter().map(maker).collect())
}
