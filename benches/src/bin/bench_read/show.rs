//! How results are shown: bars as they come, all of them at the end, and as Markdown for docs/performance.md and docs/measurements.md.

use std::fmt::Write;

use forebay_bench::table::Table;
use forebay_testkit::results::{Bar, Measurement, Results, quantity};
use serde_json::Value;

/// One measurement, when it is done.
pub fn measured(measurement: &Measurement) {
    for bar in &measurement.bars {
        println!("  {}: {} ({}, {})", bar.what, bar.figure_text(), bar.bar_text(), verdict(bar));
    }
}

/// Every bar of a run.
pub fn all_bars(results: &Results) {
    let mut table = Table::new();
    table.row(["", "figure", "bar", ""]);
    for measurement in results.measurements.values() {
        for bar in &measurement.bars {
            table.row([bar.what.clone(), bar.figure_text(), bar.bar_text(), verdict(bar).to_owned()]);
        }
    }
    println!("\n{table}");
}

fn verdict(bar: &Bar) -> &'static str {
    if bar.met { "met" } else { "NOT MET" }
}

/// The tables for docs/performance.md and docs/measurements.md.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let mut text = format!("Measured on {} by `{}`.\n\n", results.machine.described(), results.command);
    text += "| what | figure | bar | |\n|---|---|---|---|\n";
    for bar in results.measurements.values().flat_map(|measurement| &measurement.bars) {
        let _ = writeln!(text, "| {} | {} | {} | {} |", bar.what, bar.figure_text(), bar.bar_text(), verdict(bar));
    }
    for (name, measurement) in &results.measurements {
        let _ = write!(text, "\n### {name}\n\n{}.\n", measurement.conditions.trim_end_matches('.'));
        if let Some(ways) = measurement.figures.get("by_way") {
            text += &ways_table(ways);
        }
        if let Some(payloads) = measurement.figures.get("round_trip_by_payload_bytes") {
            text += &payloads_table(payloads);
        }
        let plain = measurement.figures.iter().filter_map(|(name, value)| Some((name, summary(value)?)));
        let lines: Vec<String> = plain.map(|(name, value)| format!("| {name} | {value} |\n")).collect();
        if !lines.is_empty() {
            let _ = write!(text, "\n| figure | value |\n|---|---|\n{}", lines.concat());
        }
    }
    text
}

/// A figure in one cell: a number, a text, or the median of samples with their spread.
fn summary(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => number.as_f64().map(|number| quantity(number, "")),
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) if fields.contains_key("median") => {
            let of = |name: &str| fields.get(name).and_then(Value::as_f64).unwrap_or(0.0);
            let [median, min, max] = ["median", "min", "max"].map(|name| quantity(of(name), ""));
            Some(format!("{median} ({min} to {max})"))
        }
        Value::Array(values) => {
            let cells: Vec<String> = values.iter().filter_map(Value::as_f64).map(|value| quantity(value, "")).collect();
            (!cells.is_empty()).then(|| cells.join(", "))
        }
        _ => None,
    }
}

fn ways_table(ways: &Value) -> String {
    let mut text = "\n| way | cold, s | warm, s | requests | sent, MB |\n|---|---|---|---|---|\n".to_owned();
    for (way, figures) in ways.as_object().into_iter().flatten() {
        let median = |name: &str| figures[name]["median"].as_f64().unwrap_or(0.0);
        let _ = writeln!(
            text,
            "| {way} | {} | {} | {} | {} |",
            quantity(median("cold_seconds"), ""),
            quantity(median("warm_seconds"), ""),
            quantity(median("requests"), ""),
            quantity(median("sent_bytes") / 1e6, "")
        );
    }
    text
}

fn payloads_table(payloads: &Value) -> String {
    let mut rows: Vec<(u64, &Value)> = Vec::new();
    for (payload, times) in payloads.as_object().into_iter().flatten() {
        rows.push((payload.parse().unwrap_or(0), times));
    }
    rows.sort_by_key(|(payload, _)| *payload);
    let mut text = "\n| payload, bytes | p50, us | p99, us |\n|---|---|---|\n".to_owned();
    for (payload, times) in rows {
        let [p50, p99] = ["p50_us", "p99_us"].map(|name| quantity(times[name].as_f64().unwrap_or(0.0), ""));
        let _ = writeln!(text, "| {payload} | {p50} | {p99} |");
    }
    text
}
