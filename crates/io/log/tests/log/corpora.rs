//! The corpora of the fuzz targets `store_files` and `store_recovery`, read as those do: what fuzzing once found is checked by
//! every test run.

use std::fs;

use forebay_log::exercise::{read_checkpoint, read_head, recover};

use crate::fixture::directory;

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(format!("../../../fuzz/corpus/{name}")).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

#[test]
fn heads_and_checkpoints_are_what_their_names_say() {
    let mut counts = [0, 0];
    for (name, bytes) in corpus("store_files") {
        let is_one = [read_head(&bytes), read_checkpoint(&bytes)];
        for (place, kind) in ["head-", "checkpoint-"].into_iter().enumerate() {
            if name.starts_with(kind) {
                assert_eq!(is_one[place], !name.contains("lying"), "{name}");
                counts[place] += 1;
            }
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = (
                read_head(&changed),
                read_checkpoint(&changed),
                read_head(&bytes[..at]),
                read_checkpoint(&bytes[..at]),
            );
        }
    }
    assert!(counts.iter().all(|count| *count > 1), "{counts:?}");
}

#[test]
fn a_recovery_ends_and_the_next_one_finds_the_same() {
    let directory = directory();
    let found = |bytes: &[u8]| recover(directory.path(), bytes).unwrap();
    let mut most = 0;
    for (name, bytes) in corpus("store_recovery") {
        let count = found(&bytes);
        assert!(count.is_some() || !name.starts_with("good-"), "{name}");
        most = most.max(count.unwrap_or(0));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = found(&changed);
        }
    }
    assert!(most >= 7, "the longest store has {most} records");
}
