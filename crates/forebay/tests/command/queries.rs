//! `query` on one host: what it says, and what it writes.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::place::Place;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn ask(place: &Place, arguments: &[&str]) -> Value {
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
        "columns": [
            {"name": "a", "count": 3, "missing": 0, "sum": 9.0, "mean": 3.0, "min": 1.0, "max": 5.0,
             "variance": third, "deviation": third.sqrt()},
            {"name": "b", "count": 2, "missing": 1, "sum": 8.0, "mean": 4.0, "min": 2.0, "max": 6.0, "variance": 4.0,
             "deviation": 2.0},
        ],
        "gramian": [[26.0, 32.0], [32.0, 40.0]], "gramian_columns": ["a", "b"], "gramian_rows": 2,
        "digits": [0, 2, 1, 1, 0, 1, 1, 0, 0, 0], "entropy_bits_per_byte": entropy,
    });
    assert_eq!(said, expected);
    // Only what was asked for.
    let lines = timeless(ask(&place, &["count-lines", text(&one)]));
    assert_eq!(lines, json!({"files": 1, "bytes": 24, "lines": 4, "where": "host"}));
    let shown = place.succeeds(&["query", "stats,gramian,digits,entropy", text(&one)]);
    for part in ["24 bytes, 2 rows", "A^T A", "digit 9", "entropy: 3.", "deviation"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
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
    fs::write(&file, "x,y,z\n1,2,3\n3,N/A,4\n5,6,7\n").unwrap();
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
    let words = ["1 row is bad", "pipes.csv line 102: a quote inside an unquoted field", "\"note\"", "covers 801 lines"];
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
fn a_plot_has_what_was_asked() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "up,down,flat\n1,9,5\n2,8,5\n3,7,5\n").unwrap();
    let plot = place.path("p.svg");
    place.succeeds(&["query", "gramian,entropy", text(&file), "--plot", text(&plot)]);
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for part in ["Bytes by value", "up, up: 1.0000", "up, down: -1.0000", "flat, flat: NaN"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    place.succeeds(&["query", "digits", text(&file), "--plot", text(&plot)]);
    assert!(!fs::read_to_string(&plot).unwrap().contains("Correlations"));
}

/// The pixels as Python's zlib finds them.
#[test]
fn a_plot_is_png_where_its_name_says_so() {
    let place = Place::new();
    let (file, plot) = (place.path("t.csv"), place.path("p.PNG"));
    fs::write(&file, "up,down,flat\n1,9,5\n2,8,5\n3,7,5\n").unwrap();
    place.succeeds(&["query", "gramian,entropy", text(&file), "--plot", text(&plot)]);
    let script = "import struct, sys, zlib\n\
        b = open(sys.argv[1], 'rb').read()\n\
        assert b[:8] == b'\\x89PNG\\r\\n\\x1a\\n'\n\
        at, chunks = 8, {}\n\
        while at < len(b):\n\
        \x20   n, kind = struct.unpack('>I4s', b[at:at+8])\n\
        \x20   assert zlib.crc32(b[at+4:at+8+n]) == struct.unpack('>I', b[at+8+n:at+12+n])[0]\n\
        \x20   chunks[kind] = b[at+8:at+8+n]\n\
        \x20   at += 12 + n\n\
        w, h, depth, colours = struct.unpack('>IIBB', chunks[b'IHDR'][:10])\n\
        raw = zlib.decompress(chunks[b'IDAT'])\n\
        assert (depth, colours, len(raw)) == (8, 2, h * (1 + 3 * w))\n\
        row = lambda y: raw[y * (1 + 3 * w) + 1:(y + 1) * (1 + 3 * w)]\n\
        seen = {row(y)[3 * x:3 * x + 3].hex() for y in range(h) for x in range(w)}\n\
        print(w, h, len(b), *[c in seen for c in ('ffffff', '3b75af', '2166ac', 'b2182b', 'bbbbbb', '000000')])";
    let done = std::process::Command::new("python3").args(["-c", script]).arg(&plot).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.len() == 9 && words[3..].iter().all(|word| *word == "True"), "{said}{:?}", done.stderr);
    assert!(words[2].parse::<usize>().unwrap() < 20_000, "{said} bytes: runs and rows that repeat are not said again");
}
