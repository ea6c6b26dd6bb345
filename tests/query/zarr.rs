//! Zarr stores, written by numcodecs: as numpy has them, whole, damaged, and while something writes to them.

use std::fs;
use std::path::Path;

use forebay_tests::require;
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::oracle::Oracle;

fn stores() -> Oracle {
    Oracle::new("query/zarr.py")
}

/// Replaces a part of a document.
fn edit(stores: &Oracle, document: &str, from: &str, to: &str) {
    let text = fs::read_to_string(stores.path(document)).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    fs::write(stores.path(document), text.replacen(from, to, 1)).unwrap();
}

#[test]
fn arrays_have_the_statistics_that_numpy_finds() {
    require!(PythonModule("numcodecs"));
    stores().agrees(12);
}

/// Two arrays of the same values have the same rows in the same order, however each is stored.
#[test]
fn rows_of_arrays_in_different_chunks_fit_each_other() {
    require!(PythonModule("numcodecs"));
    let stores = stores();
    for store in ["same.zarr", "same3.zarr"] {
        let said = stores.ask("gramian", store, &[]);
        let squares = &said["gramian"][0][0];
        assert_eq!(said["gramian"], json!([[squares, squares], [squares, squares]]), "{store}: {said}");
        assert_eq!(said["gramian_rows"], 60_000);
    }
    let by = stores.ask("stats", "v2.zarr", &["--by", "g/counts"]);
    assert_eq!(by["groups"].as_array().unwrap().len(), 108);
    let described = stores.ask("describe,histogram,top", "v2.zarr", &[]);
    assert_eq!((&described["described"][0]["count"], &described["rows"]), (&json!(60_000), &json!(60_000)));
    // Two stores are a table of twice the rows.
    let second = stores.path("v2.zarr");
    assert_eq!(stores.ask("stats", "v2.zarr", &[second.to_str().unwrap()])["rows"], 120_000);
}

#[test]
fn arrays_that_are_left_out_are_named_with_the_reason() {
    require!(PythonModule("numcodecs"));
    let stores = stores();
    let notes = stores.ask("stats", "v2.zarr", &[])["notes"].to_string();
    for part in ["of shape 30 x 40 x 50", "line (100)", "name (text", "old (its codec bz2 is not known)"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let notes = stores.ask("stats", "v3.zarr", &[])["notes"].to_string();
    assert!(notes.contains("other (its codec zfpy is not known)"), "{notes}");
    // Groups below groups end somewhere.
    let deep = stores.path(format!("v2.zarr{}", "/d".repeat(40)));
    fs::create_dir_all(&deep).unwrap();
    let groups = deep.ancestors().take(40);
    groups.for_each(|group| fs::write(group.join(".zgroup"), "{\"zarr_format\": 2}").unwrap());
    let notes = stores.ask("stats", "v2.zarr", &[])["notes"].to_string();
    assert!(notes.contains("d/... (groups within 32 others)"), "{notes}");
    let notes = stores.ask("stats", "packed.zarr", &[])["notes"].to_string();
    assert!(notes.contains("_FillValue were applied to t\""), "{notes}");
    for (operators, name, more, status, part) in [
        ("stats", "v2.zarr/old", &[][..], 1, "its codec bz2 is not known"),
        ("stats", "v2.zarr", &["--columns", "old"], 1, "old (its codec bz2 is not known)"),
        ("stats", "huge.zarr", &[], 1, "no elements"),
        ("stats", "", &[], 1, "is a directory, not a regular file"),
        ("entropy", "v2.zarr", &[], 2, "entropy counts the bytes of a file"),
        ("normalise", "v2.zarr", &[], 2, "columns of text alone"),
    ] {
        let said = stores.fails(status, operators, name, more);
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A chunk that is not there is the fill value. One that is there and cannot be read is an error, and so is a damaged document.
#[test]
fn damaged_stores_are_errors_that_name_the_file() {
    require!(PythonModule("numcodecs"));
    let stores = stores();
    let damage = |chunk: &str, damaged: &dyn Fn(&[u8]) -> Vec<u8>| {
        let path = stores.path(chunk);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, damaged(&whole)).unwrap();
        let said = stores.fails(1, "stats", chunk.split_once('/').unwrap().0, &["--columns", column_of(chunk)]);
        assert!(said.contains(chunk), "{chunk}: {said}");
        fs::write(&path, whole).unwrap();
    };
    let chunks = [
        "v2.zarr/g/cube/1.0.2",
        "v2.zarr/g/counts/0/3/0",
        "v2.zarr/line/2",
        "table.zarr/3.1",
        "none.zarr/0.0",
        "v3.zarr/g/cube/c/1/0/2",
        "v3.zarr/g/start/c/0/0/0",
        "v3.zarr/g/end/c/1/1/1",
        "v3.zarr/g/gzip/0.7.0",
    ];
    for chunk in chunks {
        damage(chunk, &|whole| whole[..whole.len() / 2].to_vec());
        damage(chunk, &|_| vec![]);
        damage(chunk, &|_| vec![0xff; 3000]);
        damage(chunk, &|whole| whole[..whole.len() - 1].to_vec());
    }
    fs::remove_file(stores.path("table.zarr/3.1")).unwrap();
    fs::create_dir(stores.path("table.zarr/3.1")).unwrap();
    assert!(stores.fails(1, "stats", "table.zarr", &[]).contains("3.1 is not a regular file"));
    for (document, from, to, part) in [
        ("v2.zarr/g/cube/.zarray", "{", "", "g/cube/.zarray is no JSON"),
        ("v2.zarr/g/counts/.zarray", "\"chunks\": [11", "\"chunks\": [0", "array g/counts is damaged"),
        ("v3.zarr/g/cube/zarr.json", "\"shape\": [30", "\"shape\": [\"30\"", "array g/cube is damaged"),
        ("v3.zarr/zarr.json", "group", "heap", "node_type is \"heap\""),
        ("table.zarr/.zarray", "[5000, 6]", "[18446744073709551615, 6]", "is no file's"),
        ("none.zarr/.zarray", "[3, 300]", "[4294967295, 4294967295]", "chunks of more than 1024 MiB"),
        ("missing.zarr/.zarray", "\"fill_value\": NaN", "\"fill_value\": [1]", "fill_value is [1]"),
        ("v3.zarr/g/cube/zarr.json", "\"attributes\": {", "\"attributes\": 1, \"x\": {", "attributes are no object"),
        ("one3.zarr/zarr.json", "\"shape\": []", "\"shape\": [1, 1]", "do not fit its shape"),
    ] {
        let text = fs::read(stores.path(document)).unwrap();
        edit(&stores, document, from, to);
        let said = stores.fails(1, "stats", document.split_once('/').unwrap().0, &[]);
        assert!(said.contains(part), "{part}: {said}");
        fs::write(stores.path(document), text).unwrap();
    }
}

/// The array of a chunk: the directories up to the one with its document.
fn column_of(chunk: &str) -> &str {
    let (_, within) = chunk.split_once('/').unwrap();
    let names = ["g/cube", "g/counts", "line", "g/start", "g/end", "g/gzip"];
    names.into_iter().find(|name| Path::new(within).starts_with(name)).unwrap_or("array")
}

#[test]
fn nodes_are_not_asked_for_stores() {
    require!(Fuse);
    let bed = Bed::of_devices();
    let store = bed.file(2, "x.zarr");
    fs::create_dir(&store).unwrap();
    let document = json!({"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<f8", "compressor": null,
        "fill_value": null, "order": "C", "filters": null});
    fs::write(store.join(".zarray"), document.to_string()).unwrap();
    let values: Vec<u8> = [1.0_f64, 2.0, 6.0].into_iter().flat_map(f64::to_le_bytes).collect();
    fs::write(store.join("0"), values).unwrap();
    for place in ["data", "split"] {
        let refused = bed.query("stats", &store, &["--where", place]);
        assert!(!refused.status.success());
        assert!(refused.stderr.contains("which this host reads alone"), "{}", refused.stderr);
    }
    let said: Value = serde_json::from_slice(&bed.query("stats", &store, &["--json"]).good().stdout).unwrap();
    assert_eq!((&said["columns"][0]["mean"], &said["where"]), (&json!(3.0), &json!("host")));
    bed.job.down();
}
