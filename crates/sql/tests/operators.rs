//! Operators of `forebay query` over Parquet, which this program reads for them.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod bed;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bed::Bed;

/// The command, with this program as its engine; none where no test has it.
fn forebay(bed: &Bed, words: &[&str]) -> Option<Output> {
    let Some(forebay) = std::env::var_os("FOREBAY_BIN") else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "FOREBAY_BIN names no command");
        eprintln!("skipped: FOREBAY_BIN names no command");
        return None;
    };
    let mut command = Command::new(forebay);
    command.current_dir(bed.path()).env("FOREBAY_SQL", env!("CARGO_BIN_EXE_forebay-sql")).env_remove("FOREBAY_JOB");
    Some(command.arg("query").args(words).output().unwrap())
}

#[track_caller]
fn good(bed: &Bed, words: &[&str]) -> Option<(String, String)> {
    let done = forebay(bed, words)?;
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{words:?}: {said}");
    Some((String::from_utf8(done.stdout).unwrap(), said))
}

#[track_caller]
fn bad(bed: &Bed, words: &[&str], part: &str) {
    let Some(done) = forebay(bed, words) else { return };
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains(part), "{words:?}: {said}");
}

/// NaN is missing in a column that has one other value, as it is beside several.
#[test]
fn nan_is_no_other_value_of_its_column() {
    let bed = Bed::new();
    let made = "SELECT * FROM (VALUES (CAST('NaN' AS DOUBLE)), (1.0), (1.0), (CAST('NaN' AS DOUBLE))) AS t(x)";
    bed.good(made, &["--format", "parquet", "--output", "t.parquet"]);
    let Some((found, _)) = good(&bed, &["stats", "t.parquet", "--format", "csv"]) else { return };
    assert!(found.contains("\nx,2,2,"), "{found}");
}

/// The same rows as CSV and as Parquet: numbers of many digits, integers, dates, text with quotes, NULL.
fn written(bed: &Bed, rows: u64) {
    let row = |row: u64| {
        let x = row as f64 / 7.0 * 10f64.powi((row % 40) as i32 - 20);
        let y = if row.is_multiple_of(9) { String::new() } else { (row as i64 * 77_777 - 5).to_string() };
        format!("{x:?},{y},2024-01-{:02},\"say \"\"{}\"\", twice\"\n", 1 + row % 28, row % 5)
    };
    fs::write(bed.path().join("t.csv"), (0..rows).fold("x,y,day,note\n".to_owned(), |text, at| text + &row(at)))
        .unwrap();
    bed.good("SELECT * FROM 't.csv' ORDER BY x, y, day", &["--format", "parquet", "--output", "t.parquet"]);
    bed.good("SELECT * FROM 't.csv' ORDER BY x, y, day", &["--format", "csv", "--output", "t.csv"]);
}

#[test]
fn parquet_has_the_bits_of_the_same_rows_as_text() {
    let bed = Bed::new();
    written(&bed, 120_000);
    for words in [
        &["stats,covariance,correlation,gramian,histogram", "--columns", "x,y"][..],
        &["describe"],
        &["stats", "--by", "day"],
        &["stats", "--columns", "x", "--where-row", "y > 1000 and note = 'say \"3\", twice'"],
    ] {
        let asked = |name: &str| good(&bed, &[&words[..1], &[name], &words[1..], &["--json"]].concat());
        let Some(((text, _), (parquet, _))) = asked("t.csv").zip(asked("t.parquet")) else { return };
        let numbers = |json: &str| {
            let mut found: serde_json::Value = serde_json::from_str(json).unwrap();
            for file_of in ["bytes", "files", "notes", "lines", "seconds", "read"] {
                found.as_object_mut().unwrap().remove(file_of);
            }
            found
        };
        assert_eq!(numbers(&parquet), numbers(&text), "{words:?}");
    }
    // A number of 32 bits is the double that it is.
    let single = "SELECT arrow_cast(0.1, 'Float32') AS s, arrow_cast('inf', 'Float64') AS i, CAST(NULL AS INT) AS n";
    bed.good(single, &["--format", "parquet", "--output", "single.parquet"]);
    let (found, _) = good(&bed, &["stats", "single.parquet", "--json"]).unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["columns"][0]["sum"], f64::from(0.1_f32), "{found}");
    assert_eq!((&found["columns"][1]["count"], found["columns"].as_array().unwrap().len()), (&1.into(), 2), "{found}");
    // Names and rows that a look at other people's text would take for something else.
    bed.good(
        "SELECT 'm/s' AS \"#id\", 'K' AS v UNION ALL SELECT 'a', 'b'",
        &["--format", "parquet", "--output", "h.parquet"],
    );
    let (found, _) = good(&bed, &["describe", "./h.parquet", "--json"]).unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["rows"], &found["described"][0]["name"]), (&2.into(), &"#id".into()), "{found}");
    // A file of any name, and beside text.
    fs::rename(bed.path().join("t.parquet"), bed.path().join("data[1] *")).unwrap();
    let (found, _) = good(&bed, &["stats", "data[1] *", "t.csv", "--columns", "y", "--json"]).unwrap();
    assert!(found.contains("\"rows\": 240000") || found.contains("\"rows\":240000"), "{found}");
}

#[test]
fn columns_without_a_place_are_named_and_damage_is_an_error() {
    let bed = Bed::new();
    written(&bed, 30_000);
    let lists = "SELECT x AS a, [y, 1] AS list, arrow_cast(note, 'Binary') AS raw FROM 't.csv'";
    bed.good(lists, &["--format", "parquet", "--output", "lists.parquet"]);
    let Some((found, _)) = good(&bed, &["stats", "lists.parquet", "--json"]) else { return };
    assert!(found.contains("left out: list (List") && found.contains("raw (Binary"), "{found}");
    bed.good("SELECT [x] AS list FROM 't.csv'", &["--format", "parquet", "--output", "none.parquet"]);
    bad(&bed, &["stats", "none.parquet"], "none.parquet: none of its columns has numbers or text");
    let whole = fs::read(bed.path().join("t.parquet")).unwrap();
    for cut in [whole.len() / 2, whole.len() - 1, 8] {
        fs::write(bed.path().join("cut.parquet"), &whole[..cut]).unwrap();
        bad(&bed, &["stats", "cut.parquet"], "cut.parquet: ");
    }
    let mut footer = whole.clone();
    let at = footer.len() - 8;
    footer[at..at + 4].copy_from_slice(b"kjnu");
    fs::write(bed.path().join("footer.parquet"), footer).unwrap();
    bad(&bed, &["stats", "footer.parquet"], "footer.parquet: it is damaged: its footer would have");
    let mut damaged = whole.clone();
    damaged[200..2000].fill(0x5a);
    fs::write(bed.path().join("damaged.parquet"), damaged).unwrap();
    bad(&bed, &["stats", "damaged.parquet"], "damaged.parquet: ");
    bad(&bed, &["stats,entropy", "t.parquet"], "t.parquet is Parquet: entropy counts the bytes of a file");
    bad(&bed, &["normalise", "t.parquet", "--output", "n.csv"], "t.parquet is Parquet, and normalise");
    bad(&bed, &["stats", "t.parquet", "--delimiter", ";"], "t.parquet is no text, which --delimiter is about");
    let (bytes, _) = good(&bed, &["count-lines", "t.parquet", "--json"]).unwrap();
    assert!(bytes.contains(&whole.len().to_string()), "{bytes}");
    assert!(bed.bad("rows", &["/dev/null/none"]).contains("Not a directory"));
    no_program_is_left(bed.path());
}

/// No process reads a file of the test.
fn no_program_is_left(path: &Path) {
    let own = path.to_str().unwrap();
    let is_own = |entry: &fs::DirEntry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(own)
    };
    assert_eq!(fs::read_dir("/proc").unwrap().flatten().filter(is_own).count(), 0);
}
