//! Exports that cannot be shown.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use forebay_tests::{Sandbox, require, tree};

use crate::{FAILED, fails, local, up};

/// One node and several: the second time a daemon on its own would have to tell.
const NODES: [u32; 2] = [1, 3];

#[test]
fn an_export_that_does_not_exist() {
    require!(Fuse, Root);
    for nodes in NODES {
        let sandbox = Sandbox::new();
        let missing = sandbox.source().join("nowhere");
        let done = up(&sandbox, &local(&sandbox, nodes, &["--export".as_ref(), missing.as_ref()]));
        fails(&sandbox, &done, FAILED, &[missing.to_str().unwrap(), "o such file", "check its spelling"]);
    }
}

#[test]
fn an_export_that_is_a_file() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let file = sandbox.source().join("file");
    tree::write(&file, b"no directory");
    let done = up(&sandbox, &local(&sandbox, 2, &["--export".as_ref(), file.as_ref()]));
    fails(&sandbox, &done, FAILED, &[file.to_str().unwrap(), "not a directory", "export the directory it is in"]);
}

#[test]
fn one_bad_export_among_good_ones() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let (good, bad) = (sandbox.source(), sandbox.source().join("nowhere"));
    let exports: [&OsStr; 4] = ["--export".as_ref(), good.as_ref(), "--export".as_ref(), bad.as_ref()];
    let done = up(&sandbox, &local(&sandbox, 2, &exports));
    fails(&sandbox, &done, FAILED, &[bad.to_str().unwrap(), "check its spelling"]);
}

#[test]
fn an_export_that_the_user_may_not_read() {
    require!(Fuse, Root, Command("setpriv"));
    let sandbox = Sandbox::of_nobody();
    let private = sandbox.source().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, Permissions::from_mode(0o700)).unwrap();
    let done = up(&sandbox, &local(&sandbox, 1, &["--export".as_ref(), private.as_ref()]));
    let words = [private.to_str().unwrap(), "ermission denied", "export a directory that you may read"];
    fails(&sandbox, &done, FAILED, &words);
}
