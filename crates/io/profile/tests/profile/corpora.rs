//! The corpus of the fuzz target `profile`, read as that does: what fuzzing once found is checked by every test run,
//! without the toolchain that fuzzing needs. Enough of it must be well formed, or it is of an old format and fuzzing
//! starts from nothing.
use std::fs;

use forebay_profile::exercise::{read_block, read_index, read_profile};

const CORPUS: &str = "../../../fuzz/corpus/profile";

/// Reads bytes, checks what must hold then, and tells whether they were well formed.
type Exercise = fn(&[u8]) -> bool;

/// Each kind, as the names of its files begin.
const KINDS: [(&str, Exercise); 3] = [("profile", read_profile), ("index", read_index), ("block", read_block)];

#[test]
fn each_input_is_valid_or_refused() {
    let mut found = [0; KINDS.len()];
    for file in fs::read_dir(CORPUS).unwrap() {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for (count, (kind, exercise)) in found.iter_mut().zip(KINDS) {
            let is_one = exercise(&bytes);
            *count += usize::from(is_one);
            if name.starts_with(&format!("{kind}-")) {
                assert_eq!(is_one, !name.contains("lying"), "{name}");
            }
        }
    }
    assert!(found.iter().all(|count| *count > 0), "{found:?} files of each kind are well formed");
}

/// Cut short or with a bit changed at any place, nothing panics.
#[test]
fn seeds_cut_and_changed() {
    for file in fs::read_dir(CORPUS).unwrap() {
        let seed = fs::read(file.unwrap().path()).unwrap();
        for at in 0..seed.len() {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            for (_, exercise) in KINDS {
                let _ = (exercise(&seed[..at]), exercise(&changed));
            }
        }
    }
}
