//! The corpus of the fuzz target `stage_copy`, copied as that does: what fuzzing once found is checked by every test run.
#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::fs;

use forebay_stage::exercise::copy;

const CORPUS: &str = "../../../fuzz/corpus/stage_copy";

fn copied(bytes: &[u8]) -> Option<u64> {
    let directory = tempfile::tempdir().unwrap();
    copy(directory.path(), bytes).unwrap()
}

#[test]
fn a_copy_is_what_it_is_of_whatever_was_there() {
    for file in fs::read_dir(CORPUS).unwrap() {
        let path = file.unwrap().path();
        let seed = fs::read(&path).unwrap();
        let bytes = copied(&seed);
        match path.file_name().unwrap().to_str().unwrap() {
            "goes-on" => assert_eq!(bytes, Some(0), "all of it was there"),
            "new" | "journal-of-another" => assert!(bytes > Some(0)),
            _ => {}
        }
        for at in 0..seed.len() {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = copied(&changed);
        }
    }
}
