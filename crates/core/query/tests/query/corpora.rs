//! The corpus of the fuzz target `query_part`, answered as that does: what fuzzing once found is checked by every test run,
//! without the toolchain that fuzzing needs.
#![allow(clippy::disallowed_methods, reason = "the crate touches no files; its corpus is some")]

use std::fs;

use forebay_query::exercise::answer_part;

const CORPUS: &str = "../../../fuzz/corpus/query_part";

/// Each file and its name, in an order.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let paths = fs::read_dir(CORPUS).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        paths.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn an_answer_counts_if_it_can_be_one() {
    let answers = |kind: &'static str| corpus().into_iter().filter(move |(name, _)| name.starts_with(kind));
    for (name, bytes) in answers("answer-") {
        assert_eq!(answer_part(&bytes), 1, "{name} answers one query over one file");
    }
    for (name, bytes) in answers("lying-") {
        assert_eq!(answer_part(&bytes), 0, "{name}");
    }
    assert_eq!(answers("answer-").count() + answers("lying-").count(), corpus().len());
    assert!(answers("answer-").count() >= 6, "one for each query");
}

/// Cut short or with a bit changed at any place, nothing panics.
#[test]
fn seeds_cut_and_changed() {
    for (_, seed) in corpus() {
        for at in 0..seed.len() {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = (answer_part(&seed[..at]), answer_part(&changed));
        }
    }
}
