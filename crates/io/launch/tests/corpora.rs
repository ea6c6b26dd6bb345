//! The corpora of the fuzz targets `host_lists` and `local_messages`, as far as they are of this crate, read as those do: what
//! fuzzing once found is checked by every test run.
#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::fs;

use forebay_launch::exercise::{read_hosts, read_record};

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(format!("../../../fuzz/corpus/{name}")).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

#[test]
fn lists_and_networks_are_what_their_names_say() {
    let mut counts = [0; 3];
    for (name, bytes) in corpus("host_lists") {
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let read = read_hosts(&text);
        let kinds = [("list-", read.is_list), ("hostfile-", read.is_hostfile), ("network-", read.is_network)];
        for ((kind, is_one), count) in kinds.into_iter().zip(&mut counts) {
            assert!(is_one || !name.starts_with(kind), "{name}");
            *count += usize::from(name.starts_with(kind));
        }
        let is_something = read.is_list || read.is_hostfile || text.contains('=') && read.is_network;
        assert!(!name.starts_with("lying-") || !is_something, "{name}");
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn records_and_lines_are_what_their_names_say() {
    let mut found = 0;
    for (name, bytes) in corpus("local_messages") {
        let count = read_record(&bytes);
        if name.starts_with("record-") {
            assert_eq!(count, usize::from(!name.contains("lying")), "{name}");
            found += count;
        }
    }
    assert!(found > 4, "{found} records");
}

/// Cut short or with a bit changed at any place, nothing panics.
#[test]
fn seeds_cut_and_changed() {
    for (_, seed) in corpus("host_lists").into_iter().chain(corpus("local_messages")) {
        for at in 0..seed.len() {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 7);
            for bytes in [&seed[..at], &changed[..]] {
                let _ = read_record(bytes);
                let _ = str::from_utf8(bytes).map(read_hosts);
            }
        }
    }
}
