//! `query` over compressed files and standard input: the answers are those of the plain file.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::place::Place;
use crate::queries::{ask, text};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

/// The answer without what differs between runs, and without notes.
fn bare(mut said: Value) -> Value {
    ["seconds", "notes"].iter().for_each(|key| drop(said.as_object_mut().unwrap().remove(*key)));
    said
}

/// Runs it with these bytes coming through a pipe.
fn piped(place: &Place, arguments: &[&str], bytes: &[u8]) -> Output {
    let mut command = place.command(&[&["query"], arguments, &["--json"]].concat());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that refuses its input does not read it.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    child.wait_with_output().unwrap()
}

fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failure(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn table() -> Vec<u8> {
    let row = |index: u32| {
        format!("{},\"n{}\n\",{}\n", f64::from(index) / 7.0, index % 11, index.wrapping_mul(2_654_435_761))
    };
    std::iter::once("x,note,y\n".to_owned()).chain((0..300_000).map(row)).collect::<String>().into_bytes()
}

#[test]
fn compressed_files_and_pipes_have_the_answers_of_the_plain_file() {
    let place = Place::new();
    let text_of_table = table();
    let (plain, gz, zst) = (place.path("t.csv"), place.path("t.csv.gz"), place.path("named otherwise"));
    let halves = text_of_table.split_at(text_of_table.len() / 3);
    fs::write(&plain, &text_of_table).unwrap();
    fs::write(&gz, [gzip(halves.0), gzip(halves.1)].concat()).unwrap();
    fs::write(&zst, [zstd(halves.0), zstd(halves.1)].concat()).unwrap();
    assert!(text_of_table.len() > 2 * (4 << 20));
    for query in [
        &["count-lines,stats,gramian,correlation,digits,entropy"][..],
        &["describe", "--where-row", "note != 'n3' and y > 1000"],
        &["stats", "--by", "note"],
    ] {
        let of = |file: &str| bare(ask(&place, &[query, &[file]].concat()));
        let expected = of(text(&plain));
        assert_eq!(of(text(&gz)), expected, "{query:?}");
        assert_eq!(of(text(&zst)), expected, "{query:?}");
        let with_input = [query, &["-"]].concat();
        for bytes in [&text_of_table, &fs::read(&gz).unwrap(), &fs::read(&zst).unwrap()] {
            assert_eq!(bare(answer(&piped(&place, &with_input, bytes))), expected, "{query:?} of a pipe");
        }
        for file in [&plain, &gz] {
            let mut command = place.command(&[&["query"], &with_input[..], &["--json"]].concat());
            let output = command.stdin(File::open(file).unwrap()).output().unwrap();
            assert_eq!(bare(answer(&output)), expected, "{query:?} of {} as standard input", file.display());
        }
    }
    // Several at once, compressed or not, form one table.
    let several =
        |files: [&Path; 3]| bare(ask(&place, &["stats,entropy", text(files[0]), text(files[1]), text(files[2])]));
    assert_eq!(several([&gz, &zst, &plain]), several([&plain, &plain, &plain]));
    let noted = ask(&place, &["count-lines,entropy", text(&gz), text(&zst)])["notes"].clone();
    let note = noted[0].as_str().unwrap();
    assert!(
        note.contains("t.csv.gz is compressed by gzip, and so is another file") && note.contains("decompressed text"),
        "{note}"
    );
    assert_eq!(ask(&place, &["stats", text(&gz)])["notes"], json!([]), "a table is what it is");
}

#[test]
fn a_normalised_column_of_a_compressed_file() {
    let place = Place::new();
    let (plain, gz) = (place.path("t.csv"), place.path("t.csv.gz"));
    fs::write(&plain, table()).unwrap();
    fs::write(&gz, gzip(&table())).unwrap();
    let [one, two] = [("one", &plain), ("two", &gz)].map(|(name, file)| {
        let output = place.path(name);
        ask(&place, &["normalise", "--columns", "y", "--output", text(&output), text(file)]);
        fs::read(output).unwrap()
    });
    assert!(one == two && one.len() > 1_000_000);
}

#[test]
fn damaged_files_are_errors_that_say_where() {
    let place = Place::new();
    let file = place.path("t.csv.gz");
    let whole = gzip(&table());
    for (bytes, expected) in [
        (whole[..whole.len() / 2].to_vec(), "is cut short: its gzip data end within a piece, behind "),
        (whole[..3].to_vec(), "is cut short"),
        ([&whole[..], b"x,note,y\n"].concat(), "bytes behind the last member are no gzip; cut them off"),
        (zstd(&table())[..100_000].to_vec(), "is cut short: its zstd data end"),
    ] {
        fs::write(&file, &bytes).unwrap();
        for operator in ["stats", "entropy"] {
            let error = place.fails(1, &["query", operator, text(&file)]);
            assert!(error.contains("t.csv.gz") && error.contains(expected), "{operator}: {error}");
        }
    }
    let data = place.fails(1, &["query", "stats", "--where", "data", text(&file)]);
    assert!(!data.is_empty());
}

#[test]
fn standard_input_comes_once() {
    let place = Place::new();
    let late = format!("x,y,z\n{}", "1,2,\n".repeat(2_000_000));
    let twice = failure(&piped(&place, &["gramian", "-"], format!("{late}1,2,text\n").as_bytes()), 1);
    assert!(twice.contains("/dev/stdin comes once") && twice.contains("--columns"), "{twice}");
    assert_eq!(
        answer(&piped(&place, &["gramian", "--columns", "x,y", "-"], late.as_bytes()))["gramian_rows"],
        2_000_000
    );
    let normalise = failure(&piped(&place, &["normalise", "-"], b"x\n1\n2\n"), 1);
    assert!(normalise.contains("normalise reads its files twice"), "{normalise}");
    let [two, pattern] =
        [["-", "-"], ["-", "*.csv"]].map(|files| failure(&piped(&place, &["stats", files[0], files[1]], b"x\n1\n"), 2));
    assert!(two.contains("comes once") && pattern.contains("beside a pattern"), "{two} {pattern}");
    let empty = failure(&piped(&place, &["stats", "-"], b""), 1);
    assert!(empty.contains("/dev/stdin") && empty.contains("it is empty"), "{empty}");
    assert_eq!(answer(&piped(&place, &["count-lines", "-"], b""))["lines"], 0);
    let file = place.path("t.csv");
    fs::write(&file, "x\n1\n3\n").unwrap();
    let mut command = place.command(&["query", "normalise", "-"]);
    let unnamed = failure(&command.stdin(File::open(&file).unwrap()).output().unwrap(), 2);
    assert!(unnamed.contains("needs --output FILE"), "{unnamed}");
    // Bytes that were read before are not read again.
    fs::write(&file, "a line that is no row\nx\n1\n2\n").unwrap();
    let mut shell = place.shell(&place.path(""));
    let script = format!("(read line; {} query stats - --json) < t.csv", env!("CARGO_BIN_EXE_forebay"));
    let output = shell.args(["-c", &script]).output().unwrap();
    assert_eq!(answer(&output)["columns"][0]["sum"], 3.0);
}
