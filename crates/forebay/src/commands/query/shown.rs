//! The answer of a query, for people and as JSON. It has only the parts that were asked for.

use std::collections::BTreeMap;

use forebay_offload::Makings;
use forebay_query::{Choice, ColumnSummary, Operator, Prediction, shown_name};
use serde_json::{Map, Value, json};

use crate::columns;
use crate::commands::query::answer::{Answer, FirstRecord};
use crate::output::{say, shown_path};

/// The answer as JSON. JSON has no infinities: they are strings, and what is no number is null.
pub fn in_json(answer: &Answer) -> Value {
    let mut said = Map::new();
    let mut say = |key: &str, value: Value| said.insert(key.to_owned(), value);
    let state = &answer.state;
    say("files", json!(answer.files));
    say("bytes", json!(state.bytes));
    if answer.has(Operator::CountLines) {
        say("lines", json!(state.lines));
    }
    if let Some(left_out) = &answer.left_out {
        let column = |(name, value): &(String, Option<String>)| json!({"name": name, "first_value": value});
        say("left_out", left_out.iter().map(column).collect());
    }
    if state.rows.is_some() {
        say("notes", json!(answer.notes));
    }
    if let Some(rows) = &state.rows {
        say("first_record", first_record(&answer.first_records));
        say("rows", json!(rows.good));
        say("bad_rows", json!(rows.bad));
        say("bad_lines", json!(answer.bad_extent.0));
        say("bad_bytes", json!(answer.bad_extent.1));
        let columns = || answer.names.iter().zip(rows.columns.iter().map(forebay_query::Column::summary));
        if answer.has(Operator::Stats) {
            say("columns", columns().map(|(name, summary)| column(name, &summary)).collect());
        }
        if let Some(gramian) = &rows.gramian {
            let row = |row: &Vec<f64>| row.iter().copied().map(number).collect::<Value>();
            say("gramian", gramian.matrix().iter().map(row).collect());
            say("gramian_columns", json!(answer.names));
            say("gramian_rows", json!(gramian.rows()));
        }
        if let (Some(column), true) = (rows.columns.first(), answer.has(Operator::Normalise)) {
            say("normalise", normalised(answer, column));
        }
    }
    if let Some(counts) = &state.byte_counts {
        if answer.has(Operator::Digits) {
            say("digits", json!(counts.digits()));
        }
        if answer.has(Operator::Entropy) {
            say("entropy_bits_per_byte", json!(counts.entropy()));
        }
    }
    say("where", json!(place(&answer.makings)));
    if let Some(predicted) = answer.makings.predicted {
        let Prediction { host, data, split } = predicted;
        say("predicted", json!({"host": host, "data": data, "split": split, "took": answer.makings.took_s}));
    }
    if !answer.makings.bytes.is_empty() {
        say("made_by", made_by(&answer.makings.bytes));
    }
    say("seconds", json!(answer.took.as_secs_f64()));
    Value::Object(said)
}

/// The column that was written.
fn normalised(answer: &Answer, column: &forebay_query::Column) -> Value {
    let ((mean, deviation), summary) = (column.normalised(), column.summary());
    let outputs = answer.normalised.iter().map(|(output, _)| json!(output.display().to_string())).collect();
    let mut said = json!({
        "column": answer.names[0],
        "output": one_or_all(outputs),
        "mean": number(summary.mean),
        "deviation": number(summary.deviation),
        "normalised_mean": number(mean),
        "normalised_deviation": number(deviation),
    });
    if !answer.makings.bytes.is_empty() {
        said["written_by"] = one_or_all(answer.normalised.iter().map(|(_, written)| json!(written.by)).collect());
        said["made_by"] = made_by(&answer.values_made_by());
    }
    said
}

/// The meaning given to the first record, in one word if it is the same of all files.
fn first_record(records: &[FirstRecord]) -> Value {
    let words = || records.iter().map(|record| json!(if record.has_names { "header" } else { "data" }));
    let is_one = records.iter().all(|record| Some(record.has_names) == records.first().map(|first| first.has_names));
    if is_one { words().next().unwrap_or_default() } else { words().collect() }
}

/// The only one, or all of them.
fn one_or_all(mut values: Vec<Value>) -> Value {
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}

fn made_by(bytes: &BTreeMap<Option<u32>, u64>) -> Value {
    bytes.iter().map(|(node, bytes)| json!({"node": node, "bytes": bytes})).collect()
}

/// The reader, in a word.
fn place(makings: &Makings) -> &'static str {
    match makings.place {
        Some(Choice::Data) => "data",
        Some(Choice::Split) => "split",
        Some(Choice::Host) | None => "host",
    }
}

fn number(value: f64) -> Value {
    match value {
        f64::INFINITY => json!("inf"),
        f64::NEG_INFINITY => json!("-inf"),
        value => json!(value),
    }
}

fn column(name: &str, summary: &ColumnSummary) -> Value {
    json!({
        "name": name,
        "count": summary.count,
        "missing": summary.missing,
        "sum": number(summary.sum),
        "mean": number(summary.mean),
        "min": number(summary.min),
        "max": number(summary.max),
        "variance": number(summary.variance),
        "deviation": number(summary.deviation),
    })
}

/// The answer as text.
pub fn print(answer: &Answer) {
    let state = &answer.state;
    let mut facts = vec![format!("{} bytes", columns::count(state.bytes))];
    if answer.has(Operator::CountLines) {
        facts.push(format!("{} lines", columns::count(state.lines)));
    }
    if let Some(rows) = &state.rows {
        facts.push(format!("{} rows", columns::count(rows.good)));
        if rows.bad > 0 {
            // The last line of a file may have no newline.
            let lines = answer.bad_extent.0.max(rows.bad);
            let (bad, bytes) = (counted(rows.bad, "bad row"), counted(answer.bad_extent.1, "byte"));
            facts.push(format!("{bad} left out ({}, {bytes})", counted(lines, "line")));
        }
    }
    say!("{}", facts.join(", "));
    doubts(answer).iter().for_each(|doubt| say!("{doubt}"));
    let names: Vec<String> = answer.names.iter().map(|name| shown_name(name)).collect();
    if let Some(rows) = &state.rows {
        if answer.has(Operator::Stats) {
            let head = ["column", "count", "missing", "sum", "mean", "min", "max", "variance", "deviation"];
            let row = |(name, column): (&String, &forebay_query::Column)| stats_row(name, &column.summary());
            table(head.map(str::to_owned).to_vec(), names.iter().zip(&rows.columns).map(row).collect());
            say!("variance and deviation divide by the count, not by the count - 1");
        }
        if let Some(gramian) = &rows.gramian {
            let head = std::iter::once("A^T A".to_owned()).chain(names.iter().cloned()).collect();
            let row = |(name, values): (&String, Vec<f64>)| {
                std::iter::once(name.clone()).chain(values.into_iter().map(short)).collect()
            };
            table(head, names.iter().zip(gramian.matrix()).map(row).collect());
        }
    }
    if let Some(counts) = &state.byte_counts {
        if answer.has(Operator::Digits) {
            let head = (0..10).map(|digit| format!("digit {digit}")).collect();
            table(head, vec![counts.digits().map(columns::count).to_vec()]);
        }
        if answer.has(Operator::Entropy) {
            say!("\nentropy: {:.6} bits a byte", counts.entropy());
        }
    }
    if answer.explains {
        explain(&answer.makings);
    }
    for (output, written) in &answer.normalised {
        let by = written.by.map_or_else(String::new, |node| format!(" (written by node {node})"));
        say!("\nnormalised column {}: {}{by}", names[0], shown_path(output));
    }
}

/// Lines about decisions that a reader might take otherwise: the first record, and columns that are left out.
fn doubts(answer: &Answer) -> Vec<String> {
    /// Columns that are named: as many as a person reads.
    const NAMED_MAX: usize = 8;
    let mut said = vec![];
    let in_doubt: Vec<_> = answer.first_records.iter().filter(|record| record.is_in_doubt).collect();
    for (has_names, taken) in [
        (
            false,
            "first record: data, though it has text and numbers; --header yes takes it for the names of the columns",
        ),
        (true, "first record: names of the columns, though inf and nan are numbers; --header no takes it for data"),
    ] {
        match in_doubt.iter().filter(|record| record.has_names == has_names).count() {
            0 => {}
            _ if answer.files == 1 => said.push(taken.to_owned()),
            files => said.push(format!("{taken} ({files} of {} files)", answer.files)),
        }
    }
    for note in &answer.notes {
        say!("note: {note}");
    }
    if let Some(left_out) = answer.left_out.as_ref().filter(|left_out| !left_out.is_empty()) {
        let reason = |(name, value): &(String, Option<String>)| match value {
            Some(value) => format!("{}: first value is {value:?}", shown_name(name)),
            None => format!("{}: no value", shown_name(name)),
        };
        let mut parts = vec![format!("{} of {} columns", answer.names.len(), answer.names.len() + left_out.len())];
        parts.extend(left_out.iter().take(NAMED_MAX).map(reason));
        if left_out.len() > NAMED_MAX {
            parts.push(format!("and {} more", left_out.len() - NAMED_MAX));
        }
        said.push(parts.join("; "));
    }
    said
}

fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", columns::count(number), if number == 1 { "" } else { "s" })
}

/// Prints the reader and the predicted times.
fn explain(makings: &Makings) {
    let chosen = place(makings);
    let Some(Prediction { host, data, split }) = makings.predicted else {
        say!("\nread by this host: no job has nodes that hold the bytes");
        return;
    };
    let row = |(name, seconds): (&str, f64)| {
        let took = if name == chosen { format!("{:.3} s", makings.took_s) } else { String::new() };
        vec![name.to_owned(), format!("{seconds:.3} s"), took]
    };
    let rows = [("host", host), ("data", data), ("split", split)].map(row).to_vec();
    table(["read by", "predicted", "took"].map(str::to_owned).to_vec(), rows);
    let maker = |(node, bytes): (&Option<u32>, &u64)| {
        let node = node.map_or_else(|| "this host".to_owned(), |node| format!("node {node}"));
        vec![node, columns::count(*bytes)]
    };
    if makings.is_in_logs {
        say!("\nfrom the logs of the burst tier, each block by the node that has most of it");
    }
    if !makings.bytes.is_empty() {
        table(["made by", "bytes"].map(str::to_owned).to_vec(), makings.bytes.iter().map(maker).collect());
    }
}

fn table(head: Vec<String>, rows: Vec<Vec<String>>) {
    say!("");
    columns::lines(&[vec![head], rows].concat()).iter().for_each(|line| say!("{line}"));
}

fn stats_row(name: &str, summary: &ColumnSummary) -> Vec<String> {
    let ColumnSummary { count, missing, sum, mean, min, max, variance, deviation } = *summary;
    let counts = [count, missing].map(columns::count);
    let numbers = [sum, mean, min, max, variance, deviation].map(short);
    std::iter::once(name.to_owned()).chain(counts).chain(numbers).collect()
}

/// Seven digits that count; all of them are in the JSON.
fn short(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let exponent = value.abs().log10().floor();
    if (-5.0..15.0).contains(&exponent) {
        let digits = (6.0 - exponent).clamp(0.0, 12.0) as usize;
        return format!("{value:.digits$}");
    }
    format!("{value:.6e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_digits_that_count() {
        let shown = [0.0, 1.5, -1234567.89, 1e300, 0.000_012_345_678_9, f64::INFINITY, f64::NAN].map(short);
        assert_eq!(shown, ["0", "1.500000", "-1234568", "1.000000e300", "0.00001234568", "inf", "-"]);
    }
}
