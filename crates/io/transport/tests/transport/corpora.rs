//! The corpus of the fuzz target `handshake`, exercised as that does: what fuzzing once found is checked by every test
//! run.

use std::fs;

use forebay_transport::exercise::handshake;

const CORPUS: &str = "../../../fuzz/corpus/handshake";

#[test]
fn each_input_is_refused_or_read_to_its_end() {
    let mut greeted = 0;
    for file in fs::read_dir(CORPUS).unwrap() {
        greeted += usize::from(handshake(&fs::read(file.unwrap().path()).unwrap()).is_some());
    }
    assert!(
        greeted >= 3,
        "{greeted} handshakes succeed: the byte after `forebay\\x01` in a seed is the protocol's version"
    );
}

#[test]
fn the_seeds_are_what_their_names_say() {
    let read = |name: &str| handshake(&fs::read(format!("{CORPUS}/{name}")).unwrap());
    assert_eq!(read("answering-off"), Some(3));
    assert_eq!(read("asking-off"), Some(2));
    for name in ["other-version", "old-hello", "other-job", "other-rank", "hello-first", "length-oversized", "http"] {
        assert_eq!(read(name), None, "{name}");
    }
    assert_eq!(read("body-lying"), Some(0));
}

/// Cut short or with a bit changed at any place, nothing panics and nobody without the key is let in.
#[test]
fn seeds_cut_and_changed() {
    for file in fs::read_dir(CORPUS).unwrap() {
        let seed = fs::read(file.unwrap().path()).unwrap();
        for at in 0..seed.len() {
            let _ = handshake(&seed[..at]);
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = handshake(&changed);
        }
    }
}
