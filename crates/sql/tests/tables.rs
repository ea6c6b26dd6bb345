//! How files become tables on one host: dialects, types, directories that are columns, JSON, compression.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod bed;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use bed::Bed;
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter};
use datafusion::parquet::file::statistics::Statistics;
use flate2::Compression;
use flate2::write::GzEncoder;

const CSV: [&str; 2] = ["--format", "csv"];

/// The rows of a statement as CSV.
#[track_caller]
fn rows(bed: &Bed, statement: &str, more: &[&str]) -> String {
    bed.good(statement, &[&CSV[..], more].concat())
}

fn write(bed: &Bed, name: &str, text: impl AsRef<[u8]>) {
    let path = bed.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn words_for_missing_values_are_null_in_columns_of_any_type() {
    let bed = Bed::new();
    write(
        &bed,
        "log.csv",
        "id,day,flow,note\n1,2024-01-05,2.5,x\n2,NA,-,NA\n3,2024-02-01,,\"-\"\n4,2024-02-02,1.5,-NA\n",
    );
    let of = "SELECT arrow_typeof(min(day)) AS t, count(day) AS d, sum(flow) AS f, count(flow) AS c, count(note) AS n FROM 'log.csv'";
    assert_eq!(rows(&bed, of, &["--missing", "NA,-"]), "t,d,f,c,n\nDate32,3,4.0,2,2\n");
    // A sign that a regular expression has a meaning for, and one word alone.
    write(&bed, "dots.csv", "a\n1\n.\n23\n");
    assert_eq!(rows(&bed, "SELECT sum(a) AS s, count(*) AS c FROM 'dots.csv'", &["--missing", "."]), "s,c\n24,3\n");
    let said = bed.bad("SELECT sum(flow) FROM 'log.csv'", &["--missing", "NA"]);
    assert!(said.contains("flow") || said.contains("sum"), "{said}");
    // Other columns of the file, conditions and joins.
    let of = "SELECT x.id FROM 'log.csv' x JOIN 'log.csv' y ON x.id = y.id WHERE x.flow IS NULL AND y.day IS NOT NULL";
    assert_eq!(rows(&bed, of, &["--missing", "NA,-"]), "id\n3\n");
    // Beyond the sample a word is one, too, and what is no number is an error that names it.
    write(&bed, "late.csv", format!("n\n{}NA\n", "1\n".repeat(2000)));
    assert_eq!(rows(&bed, "SELECT count(n) AS c FROM 'late.csv'", &["--missing", "NA"]), "c\n2000\n");
    write(&bed, "wrong.csv", format!("n\n{}NA\nx7\n", "1\n".repeat(2000)));
    assert!(bed.bad("SELECT count(n), sum(n) FROM 'wrong.csv'", &["--missing", "NA"]).contains("x7"));
}

#[test]
fn types_are_those_of_options_or_of_a_sample() {
    let bed = Bed::new();
    write(&bed, "late.csv", format!("n,day\n{}2.5,2024-01-05\n", "1,2024-01-05\n".repeat(1500)));
    let sum = "SELECT sum(n) AS s FROM 'late.csv'";
    bed.bad(sum, &[]);
    assert_eq!(rows(&bed, sum, &["--types", "n=double"]), "s\n1502.5\n");
    assert_eq!(rows(&bed, sum, &["--sample", "2000"]), "s\n1502.5\n");
    assert_eq!(rows(&bed, sum, &["--types", "n=decimal(9,2), day=text"]), "s\n1502.50\n");
    let of = "SELECT arrow_typeof(max(day)) AS t FROM 'late.csv'";
    assert_eq!(rows(&bed, of, &["--types", "day=timestamp,n=double"]).lines().last().unwrap(), "Timestamp(ns)");
    // With words for missing values, too.
    assert_eq!(rows(&bed, sum, &["--types", "n=decimal(9,2)", "--missing", "NA"]), "s\n1502.50\n");
    for (types, says) in [
        ("m=int", "has a column m"),
        ("n=number(", "is no type of SQL"),
        ("n=interval", "a column of a file cannot be interval"),
    ] {
        let said = bed.bad(sum, &["--types", types]);
        assert!(said.contains(says), "{said}");
    }
    let wrong = bed.run(sum, &["--types", "n"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("NAME=TYPE"));
}

#[test]
fn columns_without_values_in_the_sample_lose_none_further_on() {
    let bed = Bed::new();
    write(&bed, "late.csv", format!("a,n\n{}1,7\n", "1,\n".repeat(1500)));
    assert_eq!(rows(&bed, "SELECT count(n) AS c, max(n) AS m FROM 'late.csv'", &[]), "c,m\n1,7\n");
    // Numbers of one file that are whole, and of another that are not.
    write(&bed, "d/0.csv", "n\n1\n");
    write(&bed, "d/1.csv", "n\n2.5\n");
    assert_eq!(rows(&bed, "SELECT sum(n) AS s FROM 'd'", &[]), "s\n3.5\n");
    write(&bed, "d/2.csv", "m\n2\n");
    let said = bed.bad("SELECT sum(n) AS s FROM 'd'", &[]);
    assert!(said.contains("2.csv") && said.contains("not those of the table's first file"), "{said}");
}

#[test]
fn comments_quotes_and_escapes_are_those_of_options() {
    let bed = Bed::new();
    write(&bed, "odd.csv", "# made by a program's \"log\na;note\n1;'x;\ny'\n# more\n2;'it\\'s'\n");
    let more = ["--comment", "#", "--quote", "'", "--escape", "\\", "--delimiter", ";"];
    let of = "SELECT a, length(note) AS l FROM 'odd.csv' ORDER BY a";
    assert_eq!(rows(&bed, of, &more), "a,l\n1,4\n2,4\n");
    for wrong in [["--quote", "ab"], ["--comment", "x"], ["--escape", "\n"], ["--sample", "0"]] {
        assert_eq!(bed.run(of, &wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Twelve months of two years, and the rows that each has.
fn partitioned(bed: &Bed, directory: &str, name: &str, text: impl Fn(u32, u32) -> Vec<u8>) {
    for year in [2023, 2024] {
        for month in 1..=12 {
            write(bed, &format!("{directory}/year={year}/month={month:02}/{name}"), text(year, month));
        }
    }
}

#[test]
fn directories_are_columns_and_conditions_on_them_leave_files_unread() {
    let bed = Bed::new();
    partitioned(&bed, "t", "x.csv", |year, month| format!("n\n{year}\n{month}\n").into_bytes());
    let of = |from: &str, more: &str| {
        let statement = format!(
            "SELECT year, month, sum(n) AS s FROM '{from}' t WHERE {more} GROUP BY year, month ORDER BY year, month"
        );
        let done = bed.run(&statement, &["--format", "csv", "--explain"]);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        (String::from_utf8(done.stdout).unwrap(), said.matches("x.csv").count())
    };
    let one = ("year,month,s\n2024,3,2027\n".to_owned(), 1);
    assert_eq!(of("t", "year = 2024 AND month = 3"), one);
    assert_eq!(of("t/year=*/month=*/*.csv", "year = 2024 AND month = 3"), one);
    assert_eq!(of("t/year=*/month=03/*.csv", "year = 2024"), one);
    assert_eq!(of("*/year=2024/month=*/x.csv", "month = 3"), one);
    assert_eq!(
        of("t", "year > 2023 AND month BETWEEN 2 AND 3"),
        ("year,month,s\n2024,2,2026\n2024,3,2027\n".to_owned(), 2)
    );
    // As texts, with words for missing values, and where the path is below.
    let texts =
        rows(&bed, "SELECT max(month) AS m, count(n) AS c FROM 't'", &["--types", "month=text", "--missing", "2023"]);
    assert_eq!(texts, "m,c\n12,36\n");
    assert_eq!(
        rows(&bed, "SELECT month, n FROM 't/year=2024' WHERE month = 12 ORDER BY n", &[]),
        "month,n\n12,12\n12,2024\n"
    );
    assert!(bed.bad("SELECT year FROM 't/year=2024'", &[]).contains("No field named year"));
    assert!(bed.bad("SELECT n FROM 't/year=20*/*/x.csv'", &[]).contains("WHERE year"));
    write(&bed, "t/x.csv", "n\n1\n");
    assert!(bed.bad("SELECT n FROM 't'", &[]).contains("its directories have the columns"));
}

#[test]
fn directories_of_parquet_are_columns_too() {
    let bed = Bed::new();
    for day in ["2024-01-01", "2024-01-02"] {
        fs::create_dir_all(bed.path().join(format!("a b/day={day}"))).unwrap();
        let to = format!("a b/day={day}/x.parquet");
        bed.good("SELECT 1 AS n UNION ALL SELECT 2", &["--format", "parquet", "--output", &to]);
    }
    let of = "SELECT day, arrow_typeof(day) AS t, n FROM 'a b' WHERE day = DATE '2024-01-02' AND n = 2";
    assert_eq!(rows(&bed, of, &[]), "day,t,n\n2024-01-02,Date32,2\n");
    assert_eq!(rows(&bed, "SELECT count(*) AS c FROM 'a b/day=2024-01-02/*.parquet'", &[]), "c\n2\n");
}

#[test]
fn lines_of_json_are_rows_whatever_objects_name() {
    let bed = Bed::new();
    let text =
        "{\"a\":1,\"day\":\"2024-01-05\",\"p\":{\"x\":1.5}}\n\n{\"a\":2,\"b\":\"y\\nz\"}\n{\"a\":null,\"b\":null}\n";
    for name in ["log.ndjson", "log.jsonl", "log.json"] {
        write(&bed, name, text);
        let of = format!("SELECT a, b, p['x'] AS x FROM '{name}' WHERE a IS NOT NULL ORDER BY a");
        assert_eq!(rows(&bed, &of, &[]), "a,b,x\n1,,1.5\n2,\"y\nz\",\n");
    }
    let of = "SELECT arrow_typeof(max(day)) AS t, arrow_typeof(max(a)) AS u FROM 'log.ndjson'";
    assert_eq!(rows(&bed, of, &["--types", "day=date,a=double"]), "t,u\nDate32,Float64\n");
    write(&bed, "array.json", " [{\"a\":1}]\n");
    assert!(bed.bad("SELECT a FROM 'array.json'", &[]).contains("an object a line"));
    write(&bed, "wrong.json", "{\"a\":1}\n{\"a\":\n");
    assert!(bed.bad("SELECT a FROM 'wrong.json'", &[]).contains("wrong.json"));
}

#[test]
fn compressed_files_have_the_rows_of_what_they_hold() {
    let bed = Bed::new();
    let csv = (0..50_000).fold("a,note\n".to_owned(), |text, row| text + &format!("{row},\"x\n{}\"\n", row % 7));
    let json =
        (0..50_000).fold(String::new(), |text, row| text + &format!("{{\"a\":{row},\"note\":\"{}\"}}\n", row % 7));
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    write(&bed, "one.csv.gz", gzipped(&csv));
    // Several members, as `cat` and parallel compressors leave them.
    write(&bed, "two.csv.gz", [gzipped("a,note\n1,x\n"), gzipped("2,y\n")].concat());
    write(&bed, "one.csv.zst", zstd(&csv));
    write(&bed, "one.ndjson.gz", gzipped(&json));
    write(&bed, "one.jsonl.zst", zstd(&json));
    for name in ["one.csv.gz", "one.csv.zst", "one.ndjson.gz", "one.jsonl.zst"] {
        let of = format!("SELECT count(*) AS c, sum(a) AS s, count(DISTINCT note) AS n FROM '{name}'");
        for more in [&[][..], &["--no-newlines"], &["--missing", "NA"]] {
            // Without newlines in fields, lines would be cut: a file that is compressed is not.
            if !(more == ["--no-newlines"] && name.contains(".csv")) {
                assert_eq!(rows(&bed, &of, more), "c,s,n\n50000,1249975000,7\n", "{name} {more:?}");
            }
        }
    }
    assert_eq!(rows(&bed, "SELECT sum(a) AS s FROM 'two.csv.gz'", &["--no-newlines"]), "s\n3\n");
    // A directory's files end as its first one.
    for part in 0..3 {
        write(&bed, &format!("d/{part}.csv.gz"), gzipped(&format!("a\n{part}\n")));
    }
    write(&bed, "d/0.csv.sha256", "x");
    assert_eq!(rows(&bed, "SELECT sum(a) AS s FROM 'd'", &[]), "s\n3\n");
    write(&bed, "cut.csv.gz", &gzipped(&csv)[..1000]);
    bed.bad("SELECT sum(a) FROM 'cut.csv.gz'", &[]);
    write(&bed, "x.parquet.gz", gzipped("x"));
    assert!(bed.bad("SELECT 1 FROM 'x.parquet.gz'", &[]).contains("all but .parquet may have .gz"));
}

#[test]
fn a_pipe_is_refused_before_it_is_opened() {
    let bed = Bed::new();
    let pipe = bed.path().join("pipe.csv");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let said = bed.bad("SELECT * FROM 'pipe.csv'", &[]);
    assert!(said.contains("pipe.csv' is a pipe") && said.contains("write it to a file first"), "{said}");
}

#[test]
fn patterns_match_as_those_of_shells_and_leave_nothing_out_in_silence() {
    let bed = Bed::new();
    for (at, name) in ["g/a.csv", "g/b.csv", "g/.h.csv", "g/sub/c.csv", "g/sub/deep/d.csv"].iter().enumerate() {
        write(&bed, name, format!("v\n{}\n", 10u32.pow(at as u32)));
    }
    let sum = |path: &str| rows(&bed, &format!("SELECT sum(v) AS v FROM '{path}'"), &[]);
    assert_eq!(sum("g/*.csv"), "v\n11\n");
    assert_eq!(sum("g/*/*.csv"), "v\n1000\n");
    assert_eq!(sum("g/**/*.csv"), "v\n11011\n");
    assert_eq!(sum("g"), "v\n11011\n");
    // By its own name a file is read whatever signs that has.
    assert_eq!(sum("g/.h.csv"), "v\n100\n");
    write(&bed, "g/br[1].csv", "v\n7\n");
    assert_eq!(sum("g/br[1].csv"), "v\n7\n");
    write(&bed, "mixed/x.csv.gz", gzipped("v\n1\n"));
    write(&bed, "mixed/y.csv", "v\n2\n");
    let said = bed.bad("SELECT sum(v) FROM 'mixed/*'", &[]);
    assert!(
        said.contains("mixed/x.csv.gz ends in '.csv.gz', and") && said.contains("make a table of each kind"),
        "{said}"
    );
    // A file that is not there is not one less.
    symlink("gone.csv", bed.path().join("g/sub/link.csv")).unwrap();
    for path in ["g", "g/sub/*.csv", "g/**/*.csv"] {
        let said = bed.bad(&format!("SELECT sum(v) FROM '{path}'"), &[]);
        assert!(said.contains("g/sub/link.csv is a link to nothing: remove it"), "{path}: {said}");
    }
    assert_eq!(sum("g/*.csv"), "v\n18\n");
    assert_eq!(sum("g/sub/c*.csv"), "v\n1000\n");
    fs::write(bed.path().join("g/sub/gone.csv"), "v\n5\n").unwrap();
    assert_eq!(sum("g/sub/*.csv"), "v\n1010\n");
}

#[test]
fn names_with_equals_signs_are_matched_and_paths_may_go_up() {
    let bed = Bed::new();
    for (at, name) in ["e/a.csv", "e/run=2.csv", "e/base/m.csv", "e/lr=1/m.csv"].iter().enumerate() {
        write(&bed, name, format!("v\n{}\n", 10u32.pow(at as u32)));
    }
    let sum = |path: &str| rows(&bed, &format!("SELECT sum(v) AS v FROM '{path}'"), &[]);
    assert_eq!([sum("e/*a.csv"), sum("e/run=*.csv"), sum("e/*=*.csv")], ["v\n1\n", "v\n10\n", "v\n10\n"]);
    assert_eq!([sum("e/base/../a.csv"), sum("e/../e/run=*.csv")], ["v\n1\n", "v\n10\n"]);
    // A directory that is a column beside one that is none.
    let said = bed.bad("SELECT sum(v) FROM 'e/*/m.csv'", &[]);
    assert!(said.contains("its directories have the columns"), "{said}");
    assert_eq!(rows(&bed, "SELECT lr, v FROM 'e/*=1/m.csv'", &[]), "lr,v\n1,1000\n");
}

#[test]
fn signs_have_one_meaning_each() {
    let bed = Bed::new();
    for more in [["--comment", "\""], ["--quote", ","], ["--comment", ","]] {
        let said = bed.bad("SELECT * FROM 'log.csv'", &more);
        assert!(said.contains("are one character"), "{more:?}: {said}");
    }
    write(&bed, "c.csv", "a,b\n1,2\n#c,\"\n3,4\n");
    assert_eq!(rows(&bed, "SELECT sum(a) AS a FROM 'c.csv'", &["--comment", "#"]), "a\n4\n");
}

#[test]
fn a_note_about_files_that_are_left_out_comes_once() {
    let bed = Bed::new();
    write(&bed, "t/a.csv", "v\n1\n");
    write(&bed, "t/readme.md", "v");
    let done = bed.run("SELECT x.v FROM 't' x JOIN 't' y ON x.v = y.v", &CSV);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!((done.stdout, said.matches("1 of its files, ").count()), (b"v\n1\n".to_vec(), 1), "{said}");
}

/// Of two lines of a record, one looks like a record.
#[test]
fn files_with_newlines_in_quotes_are_cut_at_records() {
    let bed = Bed::new();
    let record = |row: u64| format!("{row},\"said \"\"no\"\"\n{row},2,x\n\",{}\n", row % 7);
    let rows_of_file = 500_000;
    write(&bed, "log.csv", (0..rows_of_file).fold("n,note,w\n".to_owned(), |text, row| text + &record(row)));
    let of = "SELECT count(*) AS c, sum(n) AS n, sum(w) AS w, count(DISTINCT note) AS d FROM 'log.csv'";
    let done = bed.run(of, &["--format", "csv", "--explain"]);
    let said = String::from_utf8(done.stderr).unwrap();
    let sums: [u64; 2] = [(0..rows_of_file).sum(), (0..rows_of_file).map(|row| row % 7).sum()];
    let expected = format!("c,n,w,d\n{rows_of_file},{},{},{rows_of_file}\n", sums[0], sums[1]);
    assert_eq!(String::from_utf8(done.stdout).unwrap(), expected, "{said}");
    let is_cut = said.contains("file_groups={1 group:");
    assert_ne!(is_cut, std::thread::available_parallelism().unwrap().get() > 1, "{said}");
    let said = bed.bad(of, &["--no-newlines"]);
    assert!(said.contains("is not closed in its line"), "{said}");
}

#[test]
fn directories_of_no_value_are_null() {
    let bed = Bed::new();
    write(&bed, "t/year=2024/x.csv", "v\n1\n");
    write(&bed, "t/year=__HIVE_DEFAULT_PARTITION__/x.csv", "v\n10\n");
    for path in ["t", "t/year=*/*.csv"] {
        let sum =
            |condition: &str| rows(&bed, &format!("SELECT sum(v) AS v FROM '{path}' WHERE year {condition}"), &[]);
        assert_eq!([sum("IS NULL"), sum("= 2024"), sum("> 2000")], ["v\n10\n", "v\n1\n", "v\n1\n"]);
    }
    let none = "SELECT sum(v) AS v FROM 't/year=__HIVE_DEFAULT_PARTITION__/*.csv'";
    assert_eq!(rows(&bed, none, &[]), "v\n10\n");
}

#[test]
fn decimals_by_option_are_rounded_as_conversions_are() {
    let bed = Bed::new();
    write(&bed, "p.csv", "p,q\n1.29,a\n9.99,\n-0.06,c\n,d\n");
    let of = "SELECT p, count(q) OVER () AS n FROM 'p.csv' ORDER BY p";
    let expected = "p,n\n-0.1,3\n1.3,3\n10.0,3\n,3\n";
    assert_eq!(rows(&bed, of, &["--types", "p=decimal(12,1)"]), expected);
}

#[test]
fn values_that_the_engine_would_cut_are_errors() {
    let bed = Bed::new();
    let late = |value: &str| format!("{}{{\"a\": {value}, \"b\": 1.5}}\n", "{\"a\": 20, \"b\": 2}\n".repeat(2000));
    write(&bed, "cut.ndjson", late("20.25"));
    let said = bed.bad("SELECT sum(a) FROM 'cut.ndjson'", &[]);
    assert!(said.contains("cut.ndjson: column a has 20.25, and its type is one of integers"), "{said}");
    assert_eq!(rows(&bed, "SELECT sum(a) AS a FROM 'cut.ndjson'", &["--types", "a=double"]), "a\n40020.25\n");
    assert_eq!(rows(&bed, "SELECT sum(a) AS a FROM 'cut.ndjson'", &["--sample", "3000"]), "a\n40020.25\n");
    // A column that is not read takes no part, and a fraction of nothing is none.
    assert_eq!(rows(&bed, "SELECT sum(b) AS b FROM 'cut.ndjson'", &["--types", "b=double"]), "b\n4001.5\n");
    write(&bed, "whole.ndjson", late("2e1"));
    assert_eq!(rows(&bed, "SELECT sum(a) AS a FROM 'whole.ndjson'", &["--types", "b=double"]), "a\n40020\n");
    write(&bed, "cut.ndjson.gz", gzipped(&late("20.25")));
    assert!(bed.bad("SELECT sum(a) FROM 'cut.ndjson.gz'", &[]).contains("column a has 20.25"));
    let said = bed.bad("SELECT max(b) FROM 'cut.ndjson'", &["--types", "b=decimal(9,0)"]);
    assert!(said.contains("column b has 1.5, which has more digits than its type"), "{said}");
    let said = bed.bad("SELECT max(a) FROM 'cut.ndjson'", &["--types", "a=timestamp"]);
    assert!(said.contains("a number, and its type is one of dates or times"), "{said}");
}

#[test]
fn a_quote_that_is_never_closed_is_an_error() {
    let bed = Bed::new();
    write(&bed, "open.csv", format!("a,b\n1,x\n2,\"y\n{}", "3,z\n".repeat(2000)));
    let said = bed.bad("SELECT count(*) FROM 'open.csv'", &[]);
    assert!(said.contains("open.csv: the quote at byte 10 is never closed"), "{said}");
    write(&bed, "open.csv.gz", gzipped("a,b\n1,\"x\n"));
    assert!(bed.bad("SELECT count(*) FROM 'open.csv.gz'", &[]).contains("is never closed"));
    assert_eq!(rows(&bed, "SELECT count(*) AS n FROM 'open.csv'", &["--quote", "|"]), "n\n2002\n");
    write(&bed, "inches.csv", "a,b\n1,5\" pipe\n2,\"6\"\"\n or so\"\n");
    assert_eq!(rows(&bed, "SELECT count(*) AS n FROM 'inches.csv'", &[]), "n\n2\n");
}

/// The least and greatest value of a column pass over NaN: where both are alike, or all are below the one that is looked for, it has others.
#[test]
fn nan_is_found_whatever_the_statistics_of_a_file_say() {
    let bed = Bed::new();
    let values = "(VALUES (CAST('NaN' AS DOUBLE), 1), (1.0, 2), (1.0, 3)) AS t(x, n)";
    for (name, own) in [("f64.parquet", "DOUBLE"), ("f32.parquet", "FLOAT")] {
        let made = format!("SELECT CAST(x AS {own}) AS x, n FROM {values}");
        bed.good(&made, &["--format", "parquet", "--output", name]);
        let one = |what: &str| rows(&bed, &format!("SELECT {what} AS v FROM '{name}'"), &[]);
        assert_eq!(one("sum(CASE WHEN isnan(x) THEN 1 ELSE 0 END)"), "v\n1\n");
        assert_eq!(one("sum(x)"), "v\nNaN\n");
        assert_eq!(one("max(x)"), "v\nNaN\n");
        for condition in ["isnan(x)", "x > 5", "x <> 1.0", "NOT x <= 1.0"] {
            let counted = rows(&bed, &format!("SELECT count(*) AS v FROM '{name}' WHERE {condition}"), &[]);
            assert_eq!(counted, "v\n1\n", "{condition}");
        }
        let greatest = rows(&bed, &format!("SELECT x AS v FROM '{name}' ORDER BY x DESC LIMIT 1"), &[]);
        assert_eq!(greatest, "v\nNaN\n");
    }
}

/// Old writers have the least and greatest value of a column, and do not say how many are missing.
#[test]
fn nulls_are_counted_where_a_file_does_not_count_them() {
    let bed = Bed::new();
    let values = "(VALUES (1, 1), (NULL, 2), (1, 3), (NULL, 4)) AS t(x, n)";
    bed.good(&format!("SELECT * FROM {values}"), &["--format", "parquet", "--output", "t.parquet"]);
    without_null_counts(&bed.path().join("t.parquet"), &bed.path().join("old.parquet"));
    for name in ["t.parquet", "old.parquet"] {
        let one = |what: &str| rows(&bed, &format!("SELECT {what} AS v FROM '{name}'"), &[]);
        assert_eq!(one("count(x)"), "v\n2\n", "{name}");
        assert_eq!(one("sum(x)"), "v\n2\n", "{name}");
        assert_eq!(
            rows(&bed, &format!("SELECT n FROM '{name}' WHERE x IS NULL ORDER BY n"), &[]),
            "n\n2\n4\n",
            "{name}"
        );
    }
}

/// A copy of a Parquet file whose statistics say nothing of nulls.
fn without_null_counts(from: &Path, to: &Path) {
    let mut bytes = fs::read(from).unwrap();
    let footer = ParquetMetaDataReader::new().parse_and_finish(&fs::File::open(from).unwrap()).unwrap();
    let end = bytes.len() - 8;
    let footer_bytes = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
    bytes.truncate(end - footer_bytes);
    let groups = footer.row_groups().iter().map(|group| {
        let columns = group.columns().iter().map(|column| {
            let Some(Statistics::Int64(known)) = column.statistics() else { panic!("{column:?}") };
            let (least, greatest) = (known.min_opt().copied(), known.max_opt().copied());
            let uncounted = Statistics::int64(least, greatest, None, None, false);
            let column = column.clone().into_builder().set_statistics(uncounted);
            column.set_column_index_offset(None).set_column_index_length(None).build().unwrap()
        });
        group.clone().into_builder().set_column_metadata(columns.collect()).build().unwrap()
    });
    let footer = ParquetMetaData::new(footer.file_metadata().clone(), groups.collect());
    ParquetMetaDataWriter::new(&mut bytes, &footer).finish().unwrap();
    fs::write(to, bytes).unwrap();
}
