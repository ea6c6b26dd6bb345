//! The same bits from any nodes.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::bed::{ALL, Bed, parted, plain_table, quoted_table, stray_table};

/// More files than are kept open, by their pattern.
#[test]
fn a_device_answers_for_each_of_many_files() {
    const FILES: u32 = 100;
    let bed = Bed::of_devices();
    let directory = bed.file(2, "run");
    fs::create_dir(&directory).unwrap();
    let name = |rank: u32| directory.join(format!("rank{rank:03}.csv"));
    (0..FILES).for_each(|rank| fs::write(name(rank), format!("a,note,b\n{rank},x,2\n")).unwrap());
    let pattern = directory.join("*.csv");
    let said = |place: &str| parted(&bed.query(ALL, &pattern, &["--json", "--where", place]).good().stdout);
    let (here, by) = said("host");
    assert!(by.is_null() && here["files"] == FILES && here["rows"] == FILES, "{here}");
    for place in ["data", "split"] {
        let (there, by) = said(place);
        assert_eq!(there, here, "{place}");
        // Where both ends make pieces, either may have made all of them before the other has one.
        assert!(by[0]["node"] == 2 || place == "split", "{by}");
    }
    assert_eq!(said("auto"), (here, Value::Null), "nobody is asked about files that are this small");
    bed.job.down();
}

#[test]
fn the_device_that_holds_a_file_answers() {
    let bed = Bed::of_devices();
    let file = bed.file(2, "log.csv");
    fs::write(&file, quoted_table(60_000)).unwrap();
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(bytes > 4 * (4 << 20), "some parts");
    let (here, by) = bed.answer(&file, "host", &[]);
    assert!(by.is_null() && here["rows"] == 60_000, "{here}");
    let (there, by) = bed.answer(&file, "data", &[]);
    assert_eq!(by, json!([{"node": 2, "bytes": bytes}]), "the holder made all of it");
    assert_eq!(there, here);
    // Both ends.
    let (both, by) = bed.answer(&file, "split", &[]);
    assert_eq!(both, here);
    assert_eq!(by.as_array().unwrap().iter().map(|by| by["bytes"].as_u64().unwrap()).sum::<u64>(), bytes);
    // Files that another device has are none of its own.
    let empty = bed.file(1, "empty");
    fs::write(&empty, "").unwrap();
    let said = bed.query("count-lines,entropy", &empty, &["--json", "--where", "data"]).good();
    assert_eq!(parted(&said.stdout).0, json!({"files": 1, "bytes": 0, "lines": 0, "entropy_bits_per_byte": 0.0}));
    // Files of several devices are one table.
    let other = bed.file(3, "more.csv");
    fs::write(&other, "a,note,b\n1,x,2\n").unwrap();
    let more = other.to_str().unwrap();
    let said = |place: &str| parted(&bed.query(ALL, &file, &["--json", "--where", place, more]).good().stdout);
    let ((here, _), (there, by)) = (said("host"), said("data"));
    assert_eq!(there, here);
    assert_eq!(by, json!([{"node": 2, "bytes": bytes}, {"node": 3, "bytes": 15}]));
    bed.job.down();
}

/// Queries of which one is answered by all nodes: on a busy machine some may be done before others have begun.
const TRIALS: usize = 20;

#[test]
fn any_number_of_nodes_give_the_same_bits() {
    let tables = [quoted_table(240_000), plain_table(3_600_000), stray_table(1_200_000)];
    let mut answers = tables.each_ref().map(|_| vec![]);
    for (nodes, roots) in [(1, 1), (2, 2), (4, 1)] {
        let bed = Bed::of_nodes(nodes, roots);
        let all: Vec<_> = (0..nodes).map(|rank| json!(rank)).collect();
        for (index, table) in tables.iter().enumerate() {
            let file = bed.job.sandbox.source().join(format!("{index}.csv"));
            fs::write(&file, table).unwrap();
            let answers = &mut answers[index];
            let skip = ["--on-error", "skip"];
            let (here, _) = bed.described(&file, "host", &skip);
            assert!(here["rows"].as_u64() > Some(1000) && (here["bad_rows"] != 0) == (index == 2), "{here}");
            answers.push(here);
            let by_all = (0..TRIALS).any(|_| {
                let (there, by) = bed.described(&file, "data", &skip);
                answers.push(there);
                let makers: Vec<_> = by.as_array().unwrap().iter().map(|by| by["node"].clone()).collect();
                assert!(makers.iter().all(|maker| all.contains(maker)), "{by}");
                makers == all
            });
            assert!(by_all, "{nodes} nodes share none of {TRIALS} queries");
        }
        bed.job.down();
    }
    for answers in &answers {
        answers.iter().for_each(|answer| assert_eq!(answer, &answers[0]));
    }
}

#[test]
fn nodes_that_keep_a_file_answer_from_what_they_keep() {
    let bed = Bed::of_nodes(2, 1);
    let file = bed.job.sandbox.source().join("kept.csv");
    fs::write(&file, plain_table(2_000_000)).unwrap();
    let reads = || bed.job.status()["totals"]["backing"]["bytes"].as_u64().unwrap();
    let view = bed.job.path(1, &file);
    let through = fs::read(&view).unwrap();
    let before = reads();
    assert!(before >= through.len() as u64);
    let here = bed.answer(&file, "host", &[]).0;
    // The leaf keeps nothing that only its kernel reads: it reads what it makes, and the end of each block once more.
    let has_helped = (0..TRIALS).any(|_| {
        let before = reads();
        // Named by its path in the view.
        let (there, by) = bed.answer(&view, "data", &[]);
        assert_eq!(there, here);
        let by: Vec<_> =
            by.as_array().unwrap().iter().map(|by| [&by["node"], &by["bytes"]].map(Value::as_u64)).collect();
        let made = |node: u64| by.iter().find(|by| by[0] == Some(node)).map_or(0, |by| by[1].unwrap());
        assert_eq!(made(0) + made(1), through.len() as u64, "{by:?}");
        let read = reads() - before;
        assert!(read <= 2 * made(1), "{read} bytes were read for {by:?}");
        made(0) > 0
    });
    assert!(has_helped, "the node that keeps it makes nothing");
    bed.job.down();
}

#[test]
fn bad_rows_have_their_true_lines() {
    let bed = Bed::of_devices();
    let file = bed.file(0, "log.csv");
    let good = quoted_table(60_000);
    let text = format!("{good}1,x\n2,\"\n\",oops\n{}", &good[9..]);
    fs::write(&file, &text).unwrap();
    let here = bed.query("stats", &file, &["--where", "host", "--columns", "a,b"]);
    let there = bed.query("stats", &file, &["--where", "data", "--columns", "a,b"]);
    let line = format!("line {}: 2 fields", good.lines().count() + 1);
    assert!(here.stderr.contains(&line) && here.stderr.contains("2 rows are bad"), "{}", here.stderr);
    // One that takes long says how far it is.
    let errors =
        |text: &str| text.lines().filter(|line| !line.contains(" MiB, ")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((errors(&there.stderr), there.status.code()), (errors(&here.stderr), Some(1)));
    let skip = ["--on-error", "skip"];
    assert_eq!(bed.answer(&file, "data", &skip).0, bed.answer(&file, "host", &skip).0);
    bed.job.down();
}

/// Groups and conditions mean the same at any end.
#[test]
fn groups_and_conditions_are_the_same_near_the_data() {
    let bed = Bed::of_devices();
    let mut text = "site,a,b\n".to_owned();
    for index in 0..700_000 {
        let b = if index % 7 == 0 { String::new() } else { (f64::from(index) / 3.0).to_string() };
        writeln!(text, "\"{}, \n{}\",{},{b}", index % 11, index % 2, index % 1000).unwrap();
    }
    let file = bed.file(1, "log.csv");
    fs::write(&file, &text).unwrap();
    for (operators, more) in [
        ("stats", &["--by", "site", "--where-row", "a > 3 and b is not missing"][..]),
        ("describe,covariance", &["--where-row", "not a in (1, 2, 3) or site < '2'"]),
    ] {
        let said = |place: &str| {
            let done = bed.query(operators, &file, &[&["--json", "--where", place], more].concat());
            parted(&done.good().stdout)
        };
        let ((here, _), (there, by)) = (said("host"), said("data"));
        assert_eq!(there, here, "{operators}");
        assert!(here["rows_left_out"].as_u64() > Some(0) && here["rows"].as_u64() > Some(0), "{here}");
        assert_eq!(by[0]["node"], 1, "{by}");
    }
    bed.job.down();
}

/// A comment before the table has one quote, numbers have a comma, words stand for missing values, and a column has text far behind.
#[test]
fn a_table_as_people_write_it_is_the_same_near_the_data() {
    let bed = Bed::of_devices();
    let mut text = "# a pipe of 5\" width\na;note;b;c\n".to_owned();
    for index in 0..500_000 {
        let b = if index % 7 == 0 { "NA".to_owned() } else { format!("{},5", index % 13) };
        let c = if index == 400_000 { "<=5".to_owned() } else { index.to_string() };
        writeln!(text, "{},{:03};\"x;{index}\";{b};{c}", index % 97, index % 1000).unwrap();
    }
    let file = bed.file(0, "log.csv");
    fs::write(&file, &text).unwrap();
    let (there, _) = bed.answer(&file, "data", &[]);
    let (here, _) = bed.answer(&file, "host", &[]);
    assert_eq!(there, here);
    let notes = here["notes"].to_string();
    for part in ["semicolon", "comma stands before fractions", "1 line before", "71,429 fields are", "line 400003"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert_eq!(here["left_out"].as_array().map(Vec::len), Some(2), "{here}");
    bed.job.down();
}

/// Keys travel; quotes hide no newlines, so a part with an odd number of escaped ones is like any other.
#[test]
fn objects_are_the_same_near_the_data() {
    let bed = Bed::of_devices();
    let mut text = String::new();
    for index in 0..400_000 {
        let note = if index % 3 == 0 { "5\\\" wide" } else { "\\u00e9" };
        let members = [format!("\"a\": {}.{:03}", index % 97, index % 1000), format!("\"note\": \"{note}\"")];
        let late = if index > 300_000 { ", \"b\": null" } else { ", \"b\": \"7\"" };
        writeln!(text, "{{{}, {}{late}}}", members[index % 2], members[1 - index % 2]).unwrap();
    }
    text.push_str("{\"a\": 1");
    let file = bed.file(0, "log.ndjson");
    fs::write(&file, &text).unwrap();
    for (operators, more) in [
        ("count-lines,stats,gramian,entropy,describe", &[][..]),
        ("stats", &["--by", "note", "--where-row", "note = '\u{e9}' or b is missing"]),
    ] {
        let said = |place: &str| {
            let options = [&["--json", "--on-error", "skip", "--where", place], more].concat();
            parted(&bed.query(operators, &file, &options).good().stdout)
        };
        let ((here, _), (there, by)) = (said("host"), said("data"));
        assert_eq!(there, here, "{operators}");
        assert_eq!((&here["bad_rows"], &by[0]["node"]), (&json!(1), &json!(0)), "{here}");
    }
    // A node cannot begin in the middle of one that is compressed.
    let packed = bed.file(0, "log.ndjson.gz");
    let compress = Command::new("gzip").arg("-c").arg(&file).output().unwrap();
    fs::write(&packed, compress.stdout).unwrap();
    let options = |place| ["--json", "--on-error", "skip", "--where", place];
    let [plain, auto] =
        [&file, &packed].map(|file| parted(&bed.query("stats", file, &options("auto")).good().stdout).0);
    assert_eq!(auto["columns"], plain["columns"]);
    let there = bed.query("stats", &packed, &options("data"));
    let is_said =
        ["log.ndjson.gz is compressed", "--where host reads it here"].iter().all(|part| there.stderr.contains(part));
    assert!(!there.status.success() && is_said, "{}", there.stderr);
    bed.job.down();
}
