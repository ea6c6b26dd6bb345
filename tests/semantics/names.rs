//! Names are bytes: what is there is found by them, what is not there is not found, and that stays so.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use forebay_tests::{compare, on_both, tree};

const ENOENT: Option<i32> = Some(2);

on_both!(odd_names_are_found_by_name, |site| {
    let directory = site.view("names");
    for name in tree::ODD_NAMES {
        let name = OsStr::from_bytes(name);
        assert_eq!(fs::read(directory.join(name)).unwrap(), name.as_bytes(), "{name:?}");
    }
    assert_eq!(fs::read(directory.join("x".repeat(255))).unwrap(), b"longest");
    for byte in (1..=255u8).filter(|byte| *byte != b'/') {
        let name = OsStr::from_bytes(&[b'b', byte]).to_owned();
        assert_eq!(fs::read(directory.join(&name)).unwrap(), [byte], "{name:?}");
    }
});

on_both!(odd_names_are_listed, |site| {
    assert_eq!(compare::names(&site.source("names")), compare::names(&site.view("names")));
});

on_both!(names_that_are_too_long_are_told_so, |site| {
    let error = fs::metadata(site.view("names").join("x".repeat(256))).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(36), "ENAMETOOLONG");
});

on_both!(what_is_missing_is_missing_every_time, |site| {
    for _ in 0..3 {
        for name in ["plain/2", "plain/10", "nowhere", "plain/a/b/c/texts", "names/X", "links/other/file"] {
            assert_eq!(fs::symlink_metadata(site.view(name)).unwrap_err().raw_os_error(), ENOENT, "{name}");
        }
    }
});

on_both!(a_file_is_no_directory, |site| {
    let error = |name| fs::metadata(site.view(name)).unwrap_err().raw_os_error();
    assert_eq!(error("plain/1/below"), Some(20), "ENOTDIR");
    let mut slashed = site.view("plain/1").into_os_string();
    slashed.push("/");
    assert_eq!(fs::metadata(&slashed).unwrap_err().raw_os_error(), Some(20), "ENOTDIR");
    assert_eq!(fs::read_dir(site.view("plain/1")).unwrap_err().raw_os_error(), Some(20), "ENOTDIR");
    assert_eq!(fs::read(site.view("plain")).unwrap_err().raw_os_error(), Some(21), "EISDIR");
});

on_both!(absent_names_of_every_byte_are_absent, |site| {
    let directory = site.view("names");
    for byte in (1..=255u8).filter(|byte| *byte != b'/') {
        let name: OsString = OsStr::from_bytes(&[b'a', b'b', byte]).to_owned();
        assert_eq!(fs::metadata(directory.join(&name)).unwrap_err().raw_os_error(), ENOENT, "{name:?}");
    }
});
