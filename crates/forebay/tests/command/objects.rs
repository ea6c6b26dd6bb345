//! `query` over NDJSON: one object a line.

use std::fs;

use serde_json::{Value, json};

use crate::place::Place;
use crate::queries::{ask, text};

/// The answer without what differs between the ways in which a table is written.
fn bare(mut said: Value) -> Value {
    for key in ["seconds", "notes", "bytes", "bad_bytes", "bad_lines"] {
        said.as_object_mut().unwrap().remove(key);
    }
    said
}

#[test]
fn objects_have_the_answers_of_the_same_table_in_csv() {
    let place = Place::new();
    let (ndjson, csv) = (place.path("t.ndjson"), place.path("t.csv"));
    let row = |index: u32| {
        let (x, y) = (f64::from(index) / 7.0, if index.is_multiple_of(5) { None } else { Some(index % 100) });
        let object = match y {
            Some(y) => format!("{{\"x\":{x:?},\"site\":\"s \\\"{}\\\"\",\"y\":\"{y}\"}}\n", index % 3),
            None => format!("{{\"site\":\"s \\\"{}\\\"\", \"x\":{x:?}, \"y\":null}}\n", index % 3),
        };
        let y = y.map(|y| format!("\"{y}\"")).unwrap_or_default();
        (object, format!("{x:?},\"s \"\"{}\"\"\",{y}\n", index % 3))
    };
    // Of one block each, which are cut at the same rows: sums have the same bits then.
    let (objects, rows): (Vec<String>, Vec<String>) = (0..40_000).map(row).unzip();
    fs::write(&ndjson, objects.concat()).unwrap();
    fs::write(&csv, format!("x,site,y\n{}", rows.concat())).unwrap();
    for query in [
        &["describe", "--columns", "site,y"][..],
        &["stats", "--columns", "y", "--where-row", "site = 's \"1\"' and y is not missing"],
        &["stats", "--columns", "y", "--by", "site"],
        &["gramian", "--columns", "y"],
    ] {
        let of = |file| bare(ask(&place, &[query, &[file]].concat()));
        assert_eq!(of(text(&ndjson)), of(text(&csv)), "{query:?}");
    }
    let said = ask(&place, &["stats", text(&ndjson)]);
    assert_eq!(said["notes"], json!(["each line is a JSON object, whose keys name the columns"]));
    assert_eq!(said["left_out"], json!([{"name": "site", "first_value": "s \"0\""}]));
    assert_eq!(said["columns"][1]["missing"], 8_000);
    assert_eq!(said["rows"], 40_000);
}

#[test]
fn bad_lines_and_other_json_are_named() {
    let place = Place::new();
    let file = place.path("t.jsonl");
    fs::write(&file, "{\"a\":1}\n{\"a\":2,\n{\"a\":3}\n").unwrap();
    let bad = place.fails(1, &["query", "stats", text(&file)]);
    assert!(bad.contains("t.jsonl line 2: no JSON object, or not one alone and whole"), "{bad}");
    let said = ask(&place, &["stats", "--on-error", "skip", text(&file)]);
    assert_eq!((&said["rows"], &said["bad_rows"], &said["columns"][0]["sum"]), (&json!(2), &json!(1), &json!(4.0)));
    fs::write(&file, "[{\"a\":1},\n{\"a\":2}]\n").unwrap();
    let array = place.fails(1, &["query", "stats", text(&file)]);
    assert!(array.contains("an array of JSON; write one object a line first: jq -c '.[]' FILE > OUT"), "{array}");
    let output = place.path("column");
    fs::write(&file, "{\"a\":1,\"b\":true}\n{\"a\":3}\n").unwrap();
    ask(&place, &["normalise", "--output", text(&output), text(&file)]);
    assert_eq!(fs::read_to_string(&output).unwrap(), "a\n-1.0\n1.0\n");
}

#[test]
fn files_of_objects_are_one_table_though_each_lacks_keys() {
    let place = Place::new();
    let (one, two) = (place.path("one.ndjson"), place.path("two.ndjson"));
    fs::write(&one, "{\"a\":1}\n{\"a\":2}\n").unwrap();
    fs::write(&two, "{\"b\":5}\n{\"a\":4,\"b\":6}\n").unwrap();
    let said = ask(&place, &["stats", text(&one), text(&two)]);
    let column = |index: usize| {
        let column = &said["columns"][index];
        (column["name"].clone(), column["sum"].clone(), column["missing"].clone())
    };
    assert_eq!([column(0), column(1)], [(json!("a"), json!(7.0), json!(1)), (json!("b"), json!(11.0), json!(2))]);
}
