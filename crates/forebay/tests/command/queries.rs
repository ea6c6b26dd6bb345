//! `query` on one host: what it says, and what it writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::place::Place;

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn ask(place: &Place, arguments: &[&str]) -> Value {
    let said = place.succeeds(&[&["query"], arguments, &["--json"]].concat());
    serde_json::from_str(&said).unwrap()
}

/// The value without what differs between runs.
fn timeless(mut said: Value) -> Value {
    assert!(said["seconds"].as_f64().unwrap() >= 0.0);
    said.as_object_mut().unwrap().remove("seconds");
    said
}

#[test]
fn all_operators_are_one_answer() {
    let place = Place::new();
    let (one, two) = (place.path("one.csv"), place.path("two.csv"));
    fs::write(&one, "a,note,b\n1,\"x,\ny\",2\n3,,\n").unwrap();
    fs::write(&two, "a,note,b\r\n5,z,6\r\noops,z,1\r\n").unwrap();
    let operators = "count-lines,stats,gramian,digits,entropy";
    let said = timeless(ask(&place, &[operators, text(&one), text(&two), "--on-error", "skip"]));
    let entropy = said["entropy_bits_per_byte"].as_f64().unwrap();
    assert!(entropy > 3.0 && entropy < 4.5, "{entropy}");
    let third = 8.0f64 / 3.0;
    let expected = json!({
        "files": 2, "bytes": 51, "lines": 7, "rows": 3, "bad_rows": 1, "bad_lines": 1, "bad_bytes": 10, "where": "host",
        "first_record": "header", "left_out": [{"name": "note", "first_value": "x,\ny"}], "notes": [],
        "columns": [
            {"name": "a", "count": 3, "missing": 0, "sum": 9.0, "mean": 3.0, "min": 1.0, "max": 5.0,
             "variance": third, "deviation": third.sqrt(), "sample_variance": 4.0, "sample_deviation": 2.0},
            {"name": "b", "count": 2, "missing": 1, "sum": 8.0, "mean": 4.0, "min": 2.0, "max": 6.0, "variance": 4.0,
             "deviation": 2.0, "sample_variance": 8.0, "sample_deviation": 8.0f64.sqrt()},
        ],
        "gramian": [[26.0, 32.0], [32.0, 40.0]], "gramian_columns": ["a", "b"], "gramian_rows": 2,
        "digits": [0, 2, 1, 1, 0, 1, 1, 0, 0, 0], "entropy_bits_per_byte": entropy,
    });
    assert_eq!(said, expected);
    // Only what was asked for.
    let lines = timeless(ask(&place, &["count-lines", text(&one)]));
    assert_eq!(lines, json!({"files": 1, "bytes": 24, "lines": 4, "where": "host"}));
    let shown = place.succeeds(&["query", "stats,gramian,digits,entropy", text(&one)]);
    for part in [
        "24 bytes, 2 rows",
        "A^T A",
        "divide by the count",
        "digit  count\n0          0\n1          1\n",
        "entropy: 3.",
        "deviation",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// The formats besides JSON.
#[test]
fn formats_have_the_same_numbers() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "a|b,\"x, y\",z\n1,0.1,u\n2,0.2,v\n7,,w\n").unwrap();
    let shown = place.succeeds(&["query", "stats", text(&file)]);
    let row = shown.lines().find(|line| line.starts_with("a|b")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["a|b", "3", "0", "10", "3.333333", "1", "7", "6.888889", "2.624669"], "{shown}");
    let done = place.command(&["query", "stats", "--format", "csv", text(&file)]).output().unwrap();
    let csv = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let lines: Vec<&str> = csv[0].lines().collect();
    assert_eq!(lines[0], "column,count,missing,sum,mean,min,max,variance,deviation", "{csv:?}");
    assert!(lines[1].starts_with("a|b,3,0,10,3.3333333333333335,1,7,6.888888888888889,2.62"), "{csv:?}");
    assert!(lines[2].starts_with("\"x, y\",2,1,0.30000000000000004,0.15"), "{csv:?}");
    assert!(lines.len() == 3 && csv[1].contains("2 of 3 columns; z: first text is \"u\""), "{csv:?}");
    let markdown = place.succeeds(&["query", "stats,digits,entropy", "--format", "markdown", text(&file)]);
    for part in ["| column | count |", "| --- | ---: |", "| a\\|b | 3 | 0 | 10 | 3.333333 |", "| 9 | 0 |", "entropy: "]
    {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    assert_eq!(ask(&place, &["stats", text(&file)])["columns"][0]["sum"], 10.0);
    for (operator, expected) in [("count-lines", "files,bytes,lines\n1,34,4\n"), ("digits", "digit,count\n0,2\n1,2\n")]
    {
        let csv = place.succeeds(&["query", operator, "--format", "csv", text(&file)]);
        assert!(csv.starts_with(expected), "{csv}");
    }
    let several = place.fails(2, &["query", "stats,digits", "--format", "csv", text(&file)]);
    assert!(several.contains("stats, digits are several") && several.contains("one operator at a time"), "{several}");
}

#[test]
fn infinities_and_nothing_in_json() {
    let place = Place::new();
    let file = place.path("t.tsv");
    fs::write(&file, "1\t-inf\n2\tinf\n").unwrap();
    let said = ask(&place, &["stats", "--delimiter", "tab", text(&file)]);
    assert_eq!(said["columns"][1]["min"], "-inf");
    assert_eq!(said["columns"][1]["sum"], Value::Null);
    assert_eq!(said["columns"][0]["name"], "1");
}

#[test]
fn the_threads_do_not_show() {
    // Rows of some megabytes over several blocks, quotes that cross them.
    let place = Place::new();
    let file = place.path("t.csv");
    let row = |index: u32| {
        format!("{}.{index:03},\"{}\n\",{}\n", index % 97, ",".repeat(index as usize % 300), f64::from(index).sqrt())
    };
    fs::write(&file, (0..90_000).map(row).collect::<String>()).unwrap();
    assert!(fs::metadata(&file).unwrap().len() > 3 * (4 << 20));
    let said = timeless(ask(&place, &["stats,gramian,entropy", text(&file)]));
    assert_eq!((&said["rows"], &said["bad_rows"]), (&json!(90_000), &json!(0)));
    for _ in 0..5 {
        assert_eq!(timeless(ask(&place, &["stats,gramian,entropy", text(&file)])), said);
    }
}

#[test]
fn a_normalised_column_is_written_whole() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "x,y\n1,1\n3,\n5,2\n7,9,9\n").unwrap();
    let output = place.path("t.normalised.csv");
    let said = ask(&place, &["normalise", "--columns", "y,x", "--on-error", "skip", text(&file)]);
    let expected = json!({
        "column": "y", "output": text(&output), "mean": 1.5, "deviation": 0.5, "normalised_mean": 0.0,
        "normalised_deviation": 1.0,
    });
    assert_eq!(said["normalise"], expected);
    assert_eq!(fs::read_to_string(&output).unwrap(), "y\n-1.0\nNaN\n1.0\n");
    // Many blocks, in order; another place.
    let large = place.path("large.csv");
    fs::write(&large, (0..1_500_000u32).map(|index| format!("{index}\n")).collect::<String>()).unwrap();
    let output = place.path("out.csv");
    ask(&place, &["normalise", text(&large), "--output", text(&output)]);
    let said = ask(&place, &["stats", text(&output)]);
    assert!(said["columns"][0]["mean"].as_f64().unwrap().abs() < 1e-12);
    assert!((said["columns"][0]["deviation"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    let written = fs::read_to_string(&output).unwrap();
    let values: Vec<f64> = written.lines().map(|line| line.parse().unwrap()).collect();
    assert!(values.len() == 1_500_000 && values.is_sorted());
    let names = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let parts = fs::read_dir(place.path("")).unwrap().map(|entry| names(entry.unwrap()));
    assert_eq!(parts.filter(|name| name.ends_with(".part")).count(), 0);
}

#[test]
fn a_column_requested_twice_has_its_numbers_twice() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "x,y\n1,10\n3,20\n").unwrap();
    let said = ask(&place, &["stats,gramian", "--columns", "y,x,2", text(&file)]);
    let sums = || said["columns"].as_array().unwrap().iter().map(|column| column["sum"].as_f64().unwrap());
    assert_eq!(sums().collect::<Vec<_>>(), [30.0, 4.0, 30.0], "{said}");
    assert_eq!(said["gramian"], json!([[500.0, 70.0, 500.0], [70.0, 10.0, 70.0], [500.0, 70.0, 500.0]]));
}

#[test]
fn a_column_that_is_not_requested_makes_no_row_bad() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "x,y,z\n1,2,3\n3,low,4\n5,6,7\n").unwrap();
    let said = ask(&place, &["stats", "--columns", "x,z", text(&file)]);
    assert_eq!((&said["rows"], &said["bad_rows"]), (&json!(3), &json!(0)), "{said}");
    assert_eq!(said["columns"][0]["sum"], 9.0);
    // `normalise` alone is about its column; with `stats`, the rows of both passes are those that all columns let count.
    let output = place.path("t.normalised.csv");
    ask(&place, &["normalise", text(&file)]);
    assert_eq!(fs::read_to_string(&output).unwrap().lines().count(), 4);
    let said = ask(&place, &["stats,normalise", "--on-error", "skip", text(&file)]);
    assert_eq!((&said["rows"], &said["bad_rows"]), (&json!(2), &json!(1)), "{said}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "x\n-1.0\n1.0\n");
}

#[test]
fn two_lone_quotes_swallow_no_rows_in_silence() {
    let place = Place::new();
    let file = place.path("pipes.csv");
    let row = |index: u32| match index {
        100 | 900 => format!("{index},5\" pipe\n"),
        index => format!("{index},pipe\n"),
    };
    fs::write(&file, format!("x,note\n{}", (0..1000).map(row).collect::<String>())).unwrap();
    let said = place.fails(1, &["query", "stats", text(&file)]);
    let words =
        ["1 row is bad", "pipes.csv line 102: a quote inside an unquoted field", "\"note\"", "covers 801 lines"];
    words.iter().for_each(|word| assert!(said.contains(word), "{said}"));
    let skip = ["stats", "--on-error", "skip", text(&file)];
    let said = ask(&place, &skip);
    let bytes = (100..=900).map(row).map(|row| row.len()).sum::<usize>();
    assert_eq!((&said["rows"], &said["bad_rows"]), (&json!(199), &json!(1)), "{said}");
    assert_eq!((&said["bad_lines"], &said["bad_bytes"]), (&json!(801), &json!(bytes)), "{said}");
    let shown = place.succeeds(&[&["query"], &skip[..]].concat());
    assert!(shown.contains("199 rows, 1 bad row left out (801 lines, 7,215 bytes)"), "{shown}");
}

#[test]
fn a_first_record_in_doubt_is_said_to_be_data_or_names() {
    let place = Place::new();
    let file = place.path("t.csv");
    let about = |contents: &str, more: &[&str]| {
        fs::write(&file, contents).unwrap();
        let arguments = [&["stats", text(&file)], more].concat();
        (ask(&place, &arguments), place.succeeds(&[&["query"], &arguments[..]].concat()))
    };
    let (said, shown) = about("state,2021\nx,5\ny,6\n", &[]);
    assert_eq!((&said["first_record"], &said["rows"]), (&json!("data"), &json!(3)), "{said}");
    assert!(shown.contains("first record: data") && shown.contains("--header yes"), "{shown}");
    let (said, shown) = about("state,2021\nx,5\ny,6\n", &["--header", "yes"]);
    assert_eq!((&said["first_record"], &said["columns"][0]["sum"]), (&json!("header"), &json!(11.0)), "{said}");
    assert!(!shown.contains("first record"), "{shown}");
    let (said, shown) = about("a,inf\n1,2\n", &[]);
    assert_eq!((&said["first_record"], &said["columns"][1]["name"]), (&json!("header"), &json!("inf")), "{said}");
    assert!(shown.contains("first record: names") && shown.contains("--header no"), "{shown}");
    let other = place.path("u.csv");
    fs::write(&other, "3,4\n").unwrap();
    let (said, shown) = about("a,inf\n1,2\n", &[text(&other)]);
    assert_eq!(said["first_record"], json!(["header", "data"]));
    assert!(shown.contains("(1 of 2 files)"), "{shown}");
}

#[test]
fn columns_that_are_left_out_are_named() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "a,b,c\nlow,1,\n2,3,\n").unwrap();
    let shown = place.succeeds(&["query", "stats", text(&file)]);
    assert!(shown.contains("\n1 of 3 columns; a: first text is \"low\"; c: no value\n"), "{shown}");
    let left_out = json!([{"name": "a", "first_value": "low"}, {"name": "c", "first_value": null}]);
    assert_eq!(ask(&place, &["stats", text(&file)])["left_out"], left_out);
    assert_eq!(ask(&place, &["stats", text(&file), "--columns", "b"])["left_out"], Value::Null, "nothing is");
    // Of several files, the first that has a value decides.
    let other = place.path("u.csv");
    fs::write(&other, "a,b,c\n4,5,x\n").unwrap();
    let said = ask(&place, &["stats", text(&file), text(&other)]);
    assert_eq!(said["left_out"], json!([{"name": "a", "first_value": "low"}, {"name": "c", "first_value": "x"}]));
    let many = place.path("many.csv");
    fs::write(&many, format!("{}1\n", "x,".repeat(40))).unwrap();
    let shown = place.succeeds(&["query", "stats", text(&many)]);
    assert!(shown.contains("1 of 41 columns; 1: first") && shown.contains("; and 32 more\n"), "{shown}");
}

#[test]
fn text_further_on_leaves_its_column_out_and_is_named() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "a,b,c\n1,2,NA\n3,<=5,7\n5,6,-\n").unwrap();
    let said = ask(&place, &["stats,gramian", text(&file)]);
    assert_eq!(said["left_out"], json!([{"name": "b", "first_value": "<=5"}]));
    assert_eq!((&said["gramian_columns"], &said["gramian_rows"]), (&json!(["a", "c"]), &json!(1)), "rows with both");
    assert_eq!((&said["rows"], &said["columns"][1]["missing"]), (&json!(3), &json!(2)));
    let shown = place.succeeds(&["query", "stats", text(&file)]);
    for part in [
        "note: column c: 2 fields are \"NA\" or \"-\" and count as missing\n",
        "note: column b is left out: 1 field is text, first \"<=5\" in ",
        "t.csv line 3 (--missing",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // A column that is named is wanted: its text makes rows bad, unless it stands for a missing value.
    let said = place.fails(1, &["query", "stats", "--columns", "b", text(&file)]);
    assert!(said.contains("t.csv line 3: \"<=5\" in the numeric column \"b\""), "{said}");
    let said = ask(&place, &["stats", "--missing", "<=5", "--columns", "b", text(&file)]);
    assert_eq!((&said["columns"][0]["count"], &said["columns"][0]["missing"]), (&json!(2), &json!(1)));
    // A number may stand for a missing value, too.
    let said = ask(&place, &["stats", "--missing", "-999,3.0,5", "--columns", "a", text(&file)]);
    assert_eq!((&said["columns"][0]["count"], &said["columns"][0]["missing"]), (&json!(1), &json!(2)));
    let said = ask(&place, &["stats", "--on-error", "skip", text(&file)]);
    assert_eq!((&said["bad_rows"], &said["columns"][1]["sum"]), (&json!(1), &json!(8.0)));
    // A file in which no column is left.
    fs::write(&file, "a\n1\nx\n").unwrap();
    let said = place.fails(1, &["query", "stats", text(&file)]);
    assert!(said.contains("column a is left out: 1 field is text, first \"x\""), "{said}");
}

#[test]
fn a_column_whose_first_value_is_far_behind_is_decided_by_the_pass() {
    let place = Place::new();
    let file = place.path("t.csv");
    let late = |end: &str| fs::write(&file, format!("a,b,c\n{}{end}", "1,,\n".repeat(1_500_000))).unwrap();
    late("2,3,x\n");
    let said = ask(&place, &["stats,gramian", text(&file)]);
    assert_eq!(said["gramian_columns"], json!(["a", "b"]), "{said}");
    assert_eq!((&said["columns"][1]["count"], &said["gramian_rows"]), (&json!(1), &json!(1)));
    assert_eq!(said["left_out"], json!([{"name": "c", "first_value": "x"}]));
    late("");
    let said = ask(&place, &["stats,gramian", text(&file)]);
    assert_eq!((&said["gramian_columns"], &said["gramian_rows"]), (&json!(["a"]), &json!(1_500_000)));
}

#[test]
fn files_are_taken_as_people_write_them() {
    let place = Place::new();
    let file = place.path("t.csv");
    let about = |contents: &str, options: &[&str]| {
        fs::write(&file, contents).unwrap();
        let said = ask(&place, &[&["stats", text(&file)], options].concat());
        let columns = said["columns"].as_array().unwrap();
        let sums: Vec<String> =
            columns.iter().map(|column| format!("{}={}", column["name"].as_str().unwrap(), column["sum"])).collect();
        (
            sums.join(" "),
            said["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        )
    };
    let none: &[&str] = &[];
    for (contents, options, sums, notes) in [
        (
            "a;b\n1,5;2\n2,5;3\n",
            none,
            "a=4.0 b=5.0",
            &["the delimiter is semicolon", "a comma stands before fractions"][..],
        ),
        ("a\tb\n1\t2\n", none, "a=1.0 b=2.0", &["the delimiter is tab"]),
        (
            "# t  flow\n 1.0  2.0e0\n 2.0 -1.5D+00\n",
            none,
            "t=3.0 flow=0.5",
            &[
                "the delimiter is blanks",
                "1 line before the table: comments",
                "the last comment before the table has the names",
            ],
        ),
        (
            "Report of 2020\nby me\na,b,c\n1,2,3\n4,5,6\n",
            none,
            "a=5.0 b=7.0 c=9.0",
            &["2 lines before the table, with fewer fields: left out"],
        ),
        ("a,b\nm/s,K\n1,2\n3,4\n", none, "a=4.0 b=6.0", &["the row below the header has units (m/s, K): left out"]),
        ("My title\n\na,b\n1,2\n3,4\n", none, "a=4.0 b=6.0", &["1 line before the table, with fewer fields: left out"]),
        ("x\nr1,1\nr2,3\n", none, "x=4.0", &["rows have a field more than the header: their names"]),
        ("n,qty\n1,\"1,200\"\n3,300\n4,400\n", none, "n=8.0", &[]),
        ("price,qty\n1 000,2\n2 000,3\n", none, "qty=5.0", &[]),
        ("x,y\nr1,1,2\nr2,3,4\n", none, "x=4.0 y=6.0", &["rows have a field more than the header: their names"]),
        ("x,y\n1,2,\n3,4,\n", none, "x=4.0 y=6.0", &["rows end with a delimiter, the header does not"]),
        ("sep=|\na|b\n1|2\n", none, "a=1.0 b=2.0", &["the delimiter is pipe"]),
        ("a,b\n%1,2\n3,4\n", &["--comment", "%"], "a=3.0 b=4.0", &[]),
        ("x\ny\na,b\n1,2\n", &["--skip", "2"], "a=1.0 b=2.0", &[]),
        ("a b\n1 2\n", &["--delimiter", "blanks"], "a=1.0 b=2.0", &[]),
        ("a:b\n1:2,5\n", &["--delimiter", ":", "--decimal", ","], "a=1.0 b=2.5", &[]),
        ("# it is 5\" wide\na,b\n1,2\n3,4\n", none, "a=4.0 b=6.0", &["1 line before the table: comments"]),
    ] {
        assert_eq!(
            about(contents, options),
            (sums.to_owned(), notes.iter().map(ToString::to_string).collect()),
            "{contents:?}"
        );
    }
}

#[test]
fn other_formats_and_dialects_that_cannot_be_told_apart_are_refused() {
    let place = Place::new();
    let file = place.path("t.csv");
    for (contents, part) in [
        (&b"BZh91AY&SY\0"[..], "compressed by bzip2; decompress it first: bzip2 -dc FILE > OUT"),
        (b"\xff\xfea\0,\0b\0", "text in UTF-16; convert it first: iconv"),
        (b"PAR1\0\0", "Parquet"),
    ] {
        fs::write(&file, contents).unwrap();
        let said = place.fails(1, &["query", "stats", text(&file)]);
        assert!(said.contains("t.csv") && said.contains(part), "{part}: {said}");
    }
    for (options, part) in [
        (&["--delimiter", "xy"][..], "a delimiter is auto, tab, blanks, or one character"),
        (&["--delimiter", ",", "--decimal", ","], "are to be different characters"),
        (&["--comment", "5"], "a comment begins with one character"),
        (&["--missing", ""], "cannot stand for a missing value"),
        (&["--decimal", "x"], "a decimal point is . or ,"),
    ] {
        let said = place.fails(2, &[&["query", "stats", text(&file)], options].concat());
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn carriage_returns_alone_are_refused() {
    let place = Place::new();
    let file = place.path("mac.csv");
    fs::write(&file, "a,b\r1,2\r3,4\r").unwrap();
    let said = place.fails(1, &["query", "stats", text(&file)]);
    assert!(said.contains("mac.csv") && said.contains("carriage returns alone") && said.contains("tr '\\r'"), "{said}");
}

/// Their size is 0, whatever they have.
#[test]
fn files_of_proc_are_read_to_their_end() {
    let place = Place::new();
    let contents = fs::read("/proc/version").unwrap();
    assert_eq!((fs::metadata("/proc/version").unwrap().len(), contents.last()), (0, Some(&b'\n')));
    let said = ask(&place, &["count-lines,entropy", "/proc/version"]);
    assert_eq!((&said["bytes"], &said["lines"]), (&json!(contents.len()), &json!(1)), "{said}");
    let said = ask(&place, &["stats", "--delimiter", " ", "/proc/uptime"]);
    assert!(said["rows"] == 1 && said["columns"][0]["sum"].as_f64() > Some(0.0), "{said}");
    let empty = place.path("empty");
    fs::write(&empty, "").unwrap();
    assert_eq!(ask(&place, &["count-lines", text(&empty)])["bytes"], 0);
}

#[test]
fn names_are_shown_short_and_without_control_characters() {
    let place = Place::new();
    let file = place.path("red\x1b[31m.csv");
    let long = "n".repeat(70_000);
    fs::write(&file, format!("\x1b]0;x\x07,{long}\n-1,2\n3,5\n")).unwrap();
    let shown = place.succeeds(&["query", "stats,gramian,normalise", text(&file)]);
    assert!(!shown.contains('\x1b') && !shown.contains('\x07'), "{shown}");
    assert!(shown.contains("\\u{1b}]0;x\\u{7}") && shown.contains("nnn...") && shown.len() < 4000, "{shown}");
    let said = ask(&place, &["stats", text(&file)]);
    assert_eq!((&said["columns"][0]["name"], &said["columns"][1]["name"]), (&json!("\x1b]0;x\x07"), &json!(long)));
    fs::write(&file, "a,\x1b[2J\n1,2\n1,x\n").unwrap();
    for arguments in [&["stats", "--columns", "2"][..], &["stats", "--columns", "c"]] {
        let said = place.fails(1, &[&["query"], arguments, &[text(&file)]].concat());
        assert!(!said.contains('\x1b') && said.contains("red\\u{1b}[31m.csv"), "{said}");
    }
}

#[test]
fn a_column_has_the_mode_of_its_file() {
    let place = Place::new();
    let (file, output) = (place.path("t.csv"), place.path("t.normalised.csv"));
    fs::write(&file, "x\n1\n2\n").unwrap();
    for (mode, wanted) in [(0o600, 0o600), (0o640, 0o640), (0o755, 0o644), (0o400, 0o600), (0o666, 0o666)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        ask(&place, &["normalise", text(&file)]);
        assert_eq!(fs::metadata(&output).unwrap().permissions().mode() & 0o777, wanted, "of {mode:o}");
    }
}

/// More files than a process may open, named by a pattern, with the numbers of one file.
#[test]
fn thousands_of_files_are_one_table() {
    const FILES: u32 = 1_500;
    let place = Place::new();
    let directory = place.path("run");
    fs::create_dir(&directory).unwrap();
    let row = |rank: u32| format!("{rank},{}.5\n", rank % 7);
    for rank in 0..FILES {
        fs::write(directory.join(format!("rank{rank:05}.csv")), format!("rank,x\n{}", row(rank))).unwrap();
    }
    let whole = place.path("whole.csv");
    fs::write(&whole, format!("rank,x\n{}", (0..FILES).map(row).collect::<String>())).unwrap();
    let limited = |operator: &str, pattern: &str| {
        let pattern = place.path(pattern);
        let mut shell = place.shell(&place.path(""));
        let script = format!("ulimit -n 100; exec \"$0\" query {operator} --json \"$1\"");
        let done = shell.args(["-c", &script, env!("CARGO_BIN_EXE_forebay"), text(&pattern)]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    let (many, one) = (limited("stats,gramian", "run/*.csv"), ask(&place, &["stats,gramian", text(&whole)]));
    assert_eq!((&many["files"], &many["rows"]), (&json!(FILES), &json!(FILES)));
    for field in ["count", "missing", "sum", "mean", "min", "max"] {
        assert_eq!(many["columns"][1][field], one["columns"][1][field], "{field}");
    }
    assert_eq!(many["gramian"], one["gramian"]);
    let variance = |said: &Value| said["columns"][1]["variance"].as_f64().unwrap();
    assert!((variance(&many) - variance(&one)).abs() < 1e-12 * variance(&one), "files are merged, blocks too");
    // Each is written through to the disk.
    let written = limited("normalise", "run/rank0000*.csv");
    assert_eq!(written["normalise"]["output"].as_array().map(Vec::len), Some(10));
    fs::write(directory.join("rank00700.csv"), "rank,x\n1,word\n").unwrap();
    let pattern = place.path("run/rank*[0-9].csv");
    let shown = place.succeeds(&["query", "stats", text(&pattern)]);
    assert!(shown.contains("column x is left out") && shown.contains("rank00700.csv line 2"), "{shown}");
    let said = place.fails(1, &["query", "stats", "--columns", "x", text(&pattern)]);
    assert!(said.contains("1 row is bad") && said.contains("rank00700.csv line 2: \"word\""), "{said}");
    fs::write(directory.join("rank00900.csv"), "other\n1\n").unwrap();
    let said = place.fails(1, &["query", "stats", text(&pattern)]);
    assert!(said.contains("rank00900.csv") && said.contains("its columns are other"), "{said}");
}

#[test]
fn a_file_whose_name_is_a_pattern_is_that_file() {
    let place = Place::new();
    let (file, other) = (place.path("[a].csv"), place.path("a.csv"));
    fs::write(&file, "x\n1\n").unwrap();
    fs::write(&other, "x\n5\n").unwrap();
    assert_eq!(ask(&place, &["stats", text(&file)])["columns"][0]["sum"], 1.0);
    fs::remove_file(&file).unwrap();
    assert_eq!(ask(&place, &["stats", text(&file)])["columns"][0]["sum"], 5.0);
}
