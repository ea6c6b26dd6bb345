//! Who answers when nobody says who should.

use std::fs;

use serde_json::{Value, json};

use crate::bed::{ALL, Bed, plain_table};

fn said(bed: &Bed, file: &std::path::Path, more: &[&str]) -> Value {
    let done = bed.query(ALL, file, &[&["--json"], more].concat()).good();
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn each_choice_has_a_prediction_and_the_answer_says_what_it_took() {
    let bed = Bed::of_devices();
    let file = bed.file(1, "log.csv");
    fs::write(&file, plain_table(2_000_000)).unwrap();
    for place in ["host", "data", "split", "auto"] {
        let answer = said(&bed, &file, &["--where", place, "--explain"]);
        let seconds = |key: &str| answer["predicted"][key].as_f64().unwrap();
        for key in ["host", "data", "split", "took"] {
            assert!(seconds(key) > 0.0 && seconds(key) < 60.0, "{answer}");
        }
        assert!(seconds("split") < seconds("host") + 0.01 && seconds("split") < seconds("data") + 0.01, "{answer}");
        assert!(answer["where"] == place || place == "auto", "{answer}");
    }
    let shown = bed.query("stats", &file, &["--explain", "--where", "data"]).good().text();
    for part in ["read by", "predicted", "made by", "node 1"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Small files are read at once.
    let small = bed.file(1, "small.csv");
    fs::write(&small, "a\n1\n2\n").unwrap();
    let answer = said(&bed, &small, &[]);
    assert_eq!((&answer["where"], &answer["predicted"]), (&json!("host"), &Value::Null));
    bed.job.down();
}

#[test]
fn what_was_seen_corrects_what_is_predicted() {
    let bed = Bed::of_devices();
    let file = bed.file(1, "log.csv");
    fs::write(&file, plain_table(2_000_000)).unwrap();
    let predicted =
        |key: &str| said(&bed, &file, &["--where", "data", "--explain"])["predicted"][key].as_f64().unwrap();
    let _ = predicted("data");
    let (before, after) = (predicted("data"), predicted("data"));
    assert!(before > 0.0 && after != before, "each run is seen: {before}, then {after}");
    bed.job.down();
}
