//! Burst tiers that cannot be.

use std::ffi::OsStr;
use std::fs;

use forebay_tests::{Sandbox, require};

use crate::bed::{DIR, arguments};

/// What `up` says with one of the arguments changed.
#[track_caller]
fn refused(sandbox: &Sandbox, change: impl Fn(&mut Vec<String>)) -> String {
    let mut words = arguments(sandbox, 1);
    change(&mut words);
    let ended = sandbox.up(&words.iter().map(OsStr::new).collect::<Vec<_>>());
    assert!(!ended.status.success(), "it was not refused");
    assert_eq!(sandbox.left(), Vec::<String>::new());
    assert!(!sandbox.base().join("mounts").exists(), "what was made for it is gone");
    ended.stderr
}

fn set(words: &mut [String], option: &str, value: &str) {
    let at = words.iter().position(|word| word == option).unwrap();
    words[at + 1] = value.to_owned();
}

#[test]
fn what_is_wrong_is_said_before_anything_is_written() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, |_| {});
    assert!(said.contains("backing is not a directory; create it"), "{said}");
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let said = refused(&sandbox, |words| set(words, "--burst-capacity", "1MiB"));
    assert!(said.contains("too small"), "{said}");
    let said = refused(&sandbox, |words| set(words, "--burst-store", "/proc/store"));
    assert!(said.contains("/proc/store"), "{said}");
    let said = refused(&sandbox, |words| set(words, "--burst", DIR));
    assert!(said.contains("is not DIR=BACKING"), "{said}");
    let said = refused(&sandbox, |words| {
        let at = words.iter().position(|word| word == "--burst-store").unwrap();
        words.drain(at..at + 2);
    });
    assert!(said.contains("--burst needs --burst-store"), "{said}");
}

#[test]
fn a_store_is_of_one_job() {
    require!(Fuse, Root);
    let bed = crate::bed::Bed::new();
    let _ = bed.shell("echo x > a").good();
    let other = Sandbox::new();
    fs::create_dir(other.base().join("backing")).unwrap();
    let store = bed.job.sandbox.base().join("store");
    let said = refused(&other, |words| set(words, "--burst-store", &store.display().to_string()));
    assert!(said.contains("in use by another daemon"), "{said}");
    bed.job.down();
}
