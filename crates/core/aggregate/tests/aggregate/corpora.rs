//! The corpus of the fuzz target `case_description`, planned as that does: what fuzzing once found is checked by every test run.
#![allow(clippy::disallowed_methods, reason = "the crate touches no files; its corpus is some")]

use std::fs;

use forebay_aggregate::exercise::plan;

const CORPUS: &str = "../../../fuzz/corpus/case_description";

fn planned(text: &[u8]) -> bool {
    serde_json::from_slice(text).is_ok_and(plan)
}

#[test]
fn cases_make_sense_or_are_refused() {
    let mut count = 0;
    for file in fs::read_dir(CORPUS).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_planned = planned(&fs::read(&path).unwrap());
        if !name.contains("found") {
            assert_eq!(is_planned, !name.starts_with("lying-"), "{name}");
        }
        count += usize::from(is_planned);
    }
    assert!(count >= 6, "one of each topology");
}

/// With a digit or a letter changed at any place, nothing panics.
#[test]
fn seeds_changed() {
    for file in fs::read_dir(CORPUS).unwrap() {
        let seed = fs::read(file.unwrap().path()).unwrap();
        for at in 0..seed.len() {
            for letter in [b'0', b'9', b'-', b'.'] {
                let mut changed = seed.clone();
                changed[at] = letter;
                let _ = planned(&changed);
            }
        }
    }
}
