//! The answer of a query as JSON, which has only the fields that were asked for. Scripts rely on it: fields are added, never renamed.

use std::collections::BTreeMap;

use forebay_offload::Makings;
use forebay_query::{Choice, ColumnSummary, Group, Groups, Operator, Prediction, Rows};
use serde_json::{Map, Value, json};

use crate::commands::query::answer::{Answer, FirstRecord};
use crate::commands::query::shown::described;
use crate::commands::query::shown::number::in_json as number;

/// The answer as JSON. JSON has no infinities: they are strings, and what is no number is null.
pub fn in_json(answer: &Answer) -> Value {
    let mut said = Map::new();
    let mut say = |key: &str, value: Value| drop(said.insert(key.to_owned(), value));
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
    match &state.rows {
        Some(rows) => rows_in_json(answer, rows, &mut say),
        None if answer.notes.is_empty() => {}
        None => say("notes", json!(answer.notes)),
    }
    if !answer.described.is_empty() {
        say("described", described::in_json(answer));
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

/// Those of operators over rows.
fn rows_in_json(answer: &Answer, rows: &Rows, say: &mut impl FnMut(&str, Value)) {
    say("notes", json!(answer.notes));
    say("first_record", first_record(&answer.first_records));
    say("rows", json!(rows.good));
    if answer.is_filtered {
        say("rows_left_out", json!(rows.filtered));
    }
    say("bad_rows", json!(rows.bad));
    say("bad_lines", json!(answer.bad_extent.0));
    say("bad_bytes", json!(answer.bad_extent.1));
    if answer.has(Operator::Stats) {
        say("columns", answer.names.iter().zip(&rows.columns).map(|(name, of)| column(name, of)).collect());
    }
    if let Some(groups) = &rows.groups {
        say("by", json!(answer.by));
        say("groups", grouped(answer, groups));
    }
    let matrix = |matrix: Vec<Vec<f64>>| -> Value {
        matrix.into_iter().map(|row| row.into_iter().map(number).collect::<Value>()).collect()
    };
    if let Some(covariance) = &rows.covariance {
        if answer.has(Operator::Covariance) {
            say("covariance", matrix(covariance.covariances()));
        }
        if answer.has(Operator::Correlation) {
            say("correlation", matrix(covariance.correlations()));
        }
        say("covariance_columns", json!(answer.names));
        say("covariance_rows", json!(covariance.rows()));
    }
    if let Some(gramian) = &rows.gramian {
        say("gramian", matrix(gramian.matrix()));
        say("gramian_columns", json!(answer.names));
        say("gramian_rows", json!(gramian.rows()));
    }
    if let (Some(column), true) = (rows.columns.first(), answer.has(Operator::Normalise)) {
        say("normalise", normalised(answer, column));
    }
}

/// The statistics of each group.
fn grouped(answer: &Answer, groups: &Groups) -> Value {
    let group = |(value, group): (Option<String>, &Group)| {
        let columns: Value = answer.names.iter().zip(&group.columns).map(|(name, of)| column(name, of)).collect();
        json!({"value": value, "rows": group.rows, "columns": columns})
    };
    // Those that are refused are an error before.
    groups.groups().unwrap_or_default().into_iter().map(group).collect()
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
pub fn place(makings: &Makings) -> &'static str {
    match makings.place {
        Some(Choice::Data) => "data",
        Some(Choice::Split) => "split",
        Some(Choice::Host) | None => "host",
    }
}

fn column(name: &str, column: &forebay_query::Column) -> Value {
    let summary: ColumnSummary = column.summary();
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
        "sample_variance": number(column.sample_variance()),
        "sample_deviation": number(column.sample_deviation()),
    })
}
