//! `query` about what columns hold: `describe` and its parts, conditions on rows, groups, covariances.

use std::fmt::Write;
use std::fs;

use serde_json::{Value, json};

use crate::place::Place;
use crate::queries::{ask, text};

const TABLE: &str = "site,flow,day,level,id\nnorth,1.5,2026-01-01,7,1\nsouth,20,2026-01-02,NA,2\n\"east, far\",-3.25,2026-01-03,9,3\n\
                     north,1e3,2026-01-04,x,4\n";

fn table(place: &Place) -> std::path::PathBuf {
    let file = place.path("t.csv");
    fs::write(&file, TABLE).unwrap();
    file
}

/// Expected numbers are those of pandas 3.1 (`describe`, `skew`, `kurt`) for the same table.
#[test]
fn every_column_is_described_by_what_it_holds() {
    let place = Place::new();
    let file = table(&place);
    let said = ask(&place, &["describe", text(&file)]);
    let column = |name: &str| -> &Value {
        said["described"].as_array().unwrap().iter().find(|column| column["name"] == name).unwrap()
    };
    let kinds: Vec<&Value> = said["described"].as_array().unwrap().iter().map(|column| &column["kind"]).collect();
    assert_eq!(kinds, ["text", "number", "date", "number", "number"]);
    let flow = column("flow");
    assert_eq!((&flow["count"], &flow["missing"], &flow["distinct"]), (&json!(4), &json!(0), &json!(4)));
    let quartiles: Vec<&Value> =
        flow["quantiles"].as_array().unwrap().iter().map(|quantile| &quantile["value"]).collect();
    assert_eq!((quartiles, &flow["quantile_error"]), (vec![&json!(0.3125), &json!(10.75), &json!(265.0)], &json!(0.0)));
    for (key, expected) in [
        ("mean", 254.5625),
        ("sample_deviation", 497.059_535_962_913_2),
        ("skewness", 1.997_567_085_471_275_3),
        ("kurtosis", 3.991_762_692_427_052_4),
    ] {
        let found = flow[key].as_f64().unwrap();
        assert!((found - expected).abs() <= 1e-9 * expected, "{key}: {found}");
    }
    let site = column("site");
    assert_eq!((&site["min"], &site["max"], &site["distinct"]), (&json!("east, far"), &json!("south"), &json!(3)));
    assert_eq!(site["top"], json!([{"value": "north", "count": 2}]));
    // A text among numbers is said, and leaves nothing out.
    let level = column("level");
    assert_eq!((&level["count"], &level["missing"], &level["texts"]), (&json!(2), &json!(2), &json!(1)));
    let notes = said["notes"].to_string();
    assert!(notes.contains("level: 1 field is text among numbers") && notes.contains("line 5"), "{notes}");
    let shown = place.succeeds(&["query", "describe", text(&file)]);
    for part in ["skewness", "2026-01-04", "those of a sample", "10.75"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// Its first value lies far behind the beginning that is looked at.
#[test]
fn a_column_without_a_value_at_its_beginning_is_described_as_the_text_that_comes() {
    let place = Place::new();
    let mut rows = String::from("a,late\n");
    (0..700_000).for_each(|row| writeln!(rows, "{row},").unwrap());
    (0..100).for_each(|row| writeln!(rows, "{row},word{}", row % 7).unwrap());
    let file = place.path("late.csv");
    fs::write(&file, rows).unwrap();
    let said = ask(&place, &["describe,stats", text(&file)]);
    let late = said["described"].as_array().unwrap().iter().find(|column| column["name"] == "late").unwrap();
    assert_eq!((&late["kind"], &late["count"], &late["distinct"]), (&json!("text"), &json!(100), &json!(7)), "{late}");
    assert_eq!((&late["missing"], &said["columns"].as_array().unwrap().len()), (&json!(700_000), &1), "{said}");
}

#[test]
fn a_description_says_how_far_it_is_from_exact() {
    let place = Place::new();
    let file = place.path("many.csv");
    let mut rows = "x,name,half\n".to_owned();
    for index in 0..20_000u32 {
        let x = f64::from(index.wrapping_mul(2_654_435_761) >> 8) / 1000.0;
        let half = if index % 2 == 0 { "often".to_owned() } else { format!("rare {index}") };
        writeln!(rows, "{x},name {index},{half}").unwrap();
    }
    fs::write(&file, rows).unwrap();
    let said = ask(&place, &["describe,top,histogram", "--top", "3", "--bins", "8", text(&file)]);
    let [x, name, half] = &said["described"].as_array().unwrap()[..] else { panic!("{said}") };
    let error = x["quantile_error"].as_f64().unwrap();
    assert!(error > 0.0 && error < 0.02 && x["distinct_is_exact"] == false && x["top"] == json!([]), "{x}");
    let median = x["quantiles"][1]["value"].as_f64().unwrap();
    assert!((median / 8388.608 - 1.0).abs() < 0.03, "{median}");
    let bins = x["histogram"].as_array().unwrap();
    assert!((2..=8).contains(&bins.len()), "{bins:?}");
    assert_eq!(bins.iter().map(|bin| bin["count"].as_u64().unwrap()).sum::<u64>(), 20_000);
    let about = |column: &Value| (column["distinct"].as_f64().unwrap() / 20_000.0 - 1.0).abs() < 0.08;
    assert!(about(x) && about(name) && name["top"] == json!([]), "{name}");
    let (often, off) = (&half["top"][0], half["top_counts_too_small_by"].as_u64().unwrap());
    let count = often["count"].as_u64().unwrap();
    assert!(often["value"] == "often" && count <= 10_000 && count + off >= 10_000, "{half}");
    let shown = place.succeeds(&["query", "describe,top", text(&file)]);
    for part in
        ["~", ">=", "% of the exact ones", "standard error is 1.625%", "too small", "no most frequent values of x"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn quantiles_and_histograms_are_of_numbers_and_name_what_they_leave_out() {
    let place = Place::new();
    let file = table(&place);
    let said = ask(&place, &["quantiles", "--quantiles", "0,0.5,1", text(&file)]);
    assert_eq!(said["described"].as_array().map(Vec::len), Some(3));
    assert_eq!(said["left_out"][0]["name"], "site");
    let csv = place.succeeds(&[
        "query",
        "quantiles",
        "--quantiles",
        "0,0.5,1",
        "--columns",
        "flow,id",
        "--format",
        "csv",
        text(&file),
    ]);
    assert_eq!(csv, "column,0%,50%,100%\nflow,-3.25,10.75,1000\nid,1,2.5,4\n");
    let csv = place.succeeds(&["query", "histogram", "--columns", "id", "--bins", "2", "--format", "csv", text(&file)]);
    assert_eq!(csv, "column,from,to,count,share\nid,0,4,3,0.75\nid,4,8,1,0.25\n");
    for (status, arguments, words) in [
        (2, &["quantiles", "--quantiles", "50"][..], "a share from 0 to 1"),
        (1, &["quantiles", "--columns", "site"], "not numeric"),
        (2, &["histogram", "--bins", "1"], "2..=64"),
        (1, &["describe", "--columns", "nowhere"], "no column"),
    ] {
        let said = place.fails(status, &[&["query"], arguments, &[text(&file)]].concat());
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_condition_leaves_out_rows_and_says_how_many() {
    let place = Place::new();
    let file = table(&place);
    let condition = "flow > 0 and (site = 'north' or day >= '2026-01-02')";
    let said = ask(&place, &["stats", "--columns", "flow", "--where-row", condition, text(&file)]);
    assert_eq!((&said["rows"], &said["rows_left_out"]), (&json!(3), &json!(1)));
    assert_eq!(said["columns"][0]["sum"], 1021.5);
    let shown = place.succeeds(&["query", "describe", "--where-row", "id in (1, 2)", text(&file)]);
    assert!(shown.contains("2 rows, 2 rows left out by --where-row"), "{shown}");
    // The last row may have no newline.
    let open = place.path("open.csv");
    for (end, rows) in [("5", 1), ("\"5\"", 1), ("2", 2)] {
        fs::write(&open, format!("a,b\n1,2\n3,{end}")).unwrap();
        let said = ask(&place, &["stats", "--where-row", "b < 3", text(&open)]);
        assert_eq!((&said["rows"], &said["rows_left_out"]), (&json!(rows), &json!(2 - rows)), "{end}");
    }
    // A bad row that the condition leaves out does no harm; one that has no such field is bad.
    let bad = place.path("bad.csv");
    fs::write(&bad, "a,b\n2,3\n1,x\n4,5,6\n7,8\n").unwrap();
    let said = place.fails(1, &["query", "stats", "--columns", "b", "--where-row", "a > 1", text(&bad)]);
    assert!(said.contains("line 4") && said.contains("1 row is bad"), "{said}");
    for (operators, condition, words) in [
        ("stats", "flw > 3", "no column \"flw\""),
        ("stats", "flow >", "a number, or a text in quotes"),
        ("entropy", "flow > 3", "whole files"),
        ("stats,digits", "flow > 3", "whole files"),
        ("normalise", "flow > 3", "whole files"),
    ] {
        let said = place.fails(2, &["query", operators, "--columns", "flow", "--where-row", condition, text(&file)]);
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn groups_have_their_own_statistics() {
    let place = Place::new();
    let file = table(&place);
    let said = ask(&place, &["stats", "--by", "site", "--columns", "flow", text(&file)]);
    let groups: Vec<_> =
        said["groups"].as_array().unwrap().iter().map(|group| (&group["value"], &group["rows"])).collect();
    assert_eq!(groups, [(&json!("east, far"), &json!(1)), (&json!("north"), &json!(2)), (&json!("south"), &json!(1))]);
    assert_eq!(said["groups"][1]["columns"][0]["mean"], 500.75);
    let csv = place.succeeds(&["query", "stats", "--by", "id", "--columns", "flow", "--format", "csv", text(&file)]);
    assert!(csv.starts_with("id,column,rows,count,missing,sum,mean,min,max,deviation\n1,flow,1,1,0,1.5,"), "{csv}");
    // A column alone is summed by its own groups.
    let alone = place.path("alone.csv");
    fs::write(&alone, "x,word\n1,a\n1,b\n2,c\n").unwrap();
    let csv = place.succeeds(&["query", "stats", "--by", "x", "--format", "csv", text(&alone)]);
    assert!(csv.contains("\n1,x,2,2,0,2,1,1,1,0\n2,x,1,"), "{csv}");
    let many = place.path("many.csv");
    let rows: String = (0..5000).map(|row| format!("key{row},1\n")).collect();
    fs::write(&many, format!("key,x\n{rows}")).unwrap();
    let said = place.fails(1, &["query", "stats", "--by", "key", text(&many)]);
    assert!(said.contains("more than 4096 different values") && said.contains("SQL"), "{said}");
    let said = place.fails(2, &["query", "describe", "--by", "site", text(&file)]);
    assert!(said.contains("ask for stats alone"), "{said}");
}

/// Expected numbers are those of pandas 3.1 (`cov`, `corr`).
#[test]
fn covariances_and_correlations_are_those_of_a_sample() {
    let place = Place::new();
    let file = place.path("xy.csv");
    let rows: String = (1..=20).map(|x| format!("{},{},c\n", x, 1_000_000_000 + x * x)).collect();
    fs::write(&file, format!("x,y,word\n{rows},5,c\n")).unwrap();
    let said = ask(&place, &["covariance,correlation", text(&file)]);
    assert_eq!((&said["covariance_rows"], &said["rows"]), (&json!(20), &json!(21)));
    assert_eq!(said["covariance"][0][1], 735.0);
    let correlation = said["correlation"][1][0].as_f64().unwrap();
    assert!((correlation - 0.971_348_202_196_380_8).abs() < 1e-12, "{correlation}");
    let shown = place.succeeds(&["query", "covariance", text(&file)]);
    assert!(shown.contains("of 20 rows: those in which no column is missing"), "{shown}");
}

#[test]
fn infinities_and_rounded_numbers_are_said() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "x,id\n1,9007199254740993\n2,9007199254740995\n3,5\n9,6\ninf,7\n").unwrap();
    let said = ask(&place, &["describe,histogram", text(&file)]);
    let column = &said["described"][0];
    assert_eq!((&column["skewness"], &column["infinite"], &column["mean"]), (&Value::Null, &json!(1), &json!("inf")));
    let shown = place.succeeds(&["query", "describe,histogram", text(&file)]);
    for part in ["infinite values are in no range: 1 of x", "are rounded, and different ones may count as one: id"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_condition_that_no_row_meets_leaves_an_empty_answer() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "a,b\n10,1\n9,2\n").unwrap();
    for operators in ["stats", "correlation", "describe,correlation"] {
        let said = ask(&place, &[operators, text(&file), "--where-row", "a > 100"]);
        assert_eq!((&said["rows"], &said["rows_left_out"]), (&json!(0), &json!(2)), "{operators}");
    }
    // A number in quotes is one beside numbers.
    let said = ask(&place, &["stats", text(&file), "--where-row", "a < '9.5'"]);
    assert_eq!(said["columns"][0]["max"], 9.0);
    let said = place.fails(2, &["query", "stats", text(&file), "--where-row", "a < 1e400"]);
    assert!(said.contains("a number, or a text"), "{said}");
}

#[test]
fn a_column_is_the_same_in_any_order_of_the_files() {
    let place = Place::new();
    let (numbers, texts) = (place.path("numbers.csv"), place.path("texts.csv"));
    fs::write(&numbers, "a,b\n1,2\n2,3\n").unwrap();
    fs::write(&texts, "a,b\nx,2\ny,3\n").unwrap();
    for files in [[&numbers, &texts], [&texts, &numbers]] {
        let said = ask(&place, &["describe", text(files[0]), text(files[1])]);
        let column = &said["described"][0];
        assert_eq!((&column["kind"], &column["count"], &column["texts"]), (&json!("number"), &json!(2), &json!(2)));
    }
}
