//! The corpus of the fuzz target `tree_operations`, carried out as that does: what fuzzing once found is checked by every test
//! run.
#![allow(clippy::disallowed_methods, reason = "the crate touches no files; its corpus is some")]

use std::fs;

use forebay_write::exercise::apply;

const CORPUS: &str = "../../../fuzz/corpus/tree_operations";

#[test]
fn trees_stay_trees() {
    let mut most = 0;
    for file in fs::read_dir(CORPUS).unwrap() {
        most = most.max(apply(&fs::read(file.unwrap().path()).unwrap()));
    }
    assert!(most >= 20, "the longest script carries out {most} changes");
}

/// Cut short or with a bit changed at any place, they stay so.
#[test]
fn seeds_cut_and_changed() {
    for file in fs::read_dir(CORPUS).unwrap() {
        let seed = fs::read(file.unwrap().path()).unwrap();
        for at in 0..seed.len() {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = (apply(&seed[..at]), apply(&changed));
        }
    }
}
