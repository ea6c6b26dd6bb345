//! Paths as long as they can be: 4,095 bytes and their NUL, where a view's own prefix no longer fits before them.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use forebay_tests::{Site, require};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, open, openat, statat};

/// `PATH_MAX` less its NUL.
const PATH_BYTES_MAX: usize = 4095;

/// The components below `source` of a path that is as long as a path can be.
fn components(source: &Path) -> Vec<CString> {
    let mut left = PATH_BYTES_MAX - source.as_os_str().len();
    let mut components = vec![];
    while left > 0 {
        // Each takes a slash and a name; what would leave room for a slash only is given to the last but one.
        let mut len = (left - 1).min(255);
        if left - 1 - len == 1 {
            len -= 1;
        }
        components.push(CString::new(vec![b'a' + u8::try_from(components.len() % 26).unwrap(); len]).unwrap());
        left -= len + 1;
    }
    components
}

fn directory(at: &OwnedFd, name: &CString) -> OwnedFd {
    openat(at, name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
}

fn build(source: &Path) {
    let (names, root) = (components(source), open(source, OFlags::DIRECTORY, Mode::empty()).unwrap());
    let (last, directories) = names.split_last().unwrap();
    let bottom = directories.iter().fold(root, |at, name| {
        mkdirat(&at, name, Mode::RWXU).unwrap();
        directory(&at, name)
    });
    let file = openat(&bottom, last, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    rustix::io::write(&file, b"deep").unwrap();
}

fn deep(nodes: u32) {
    let site = Site::new(nodes, build);
    let names = components(&site.source("").components().collect::<std::path::PathBuf>());
    let (last, directories) = names.split_last().unwrap();
    let start = |path: &Path| openat(CWD, path, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let walk = |path: &Path| directories.iter().fold(start(path), |at, name| directory(&at, name));
    let (source, view) = (walk(&site.source("")), walk(&site.view("")));
    let (of_source, of_view) = (
        statat(&source, last, rustix::fs::AtFlags::empty()).unwrap(),
        statat(&view, last, rustix::fs::AtFlags::empty()).unwrap(),
    );
    assert_eq!((of_source.st_ino, of_source.st_size), (of_view.st_ino, of_view.st_size));
    let file = openat(&view, last, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut text = String::new();
    File::from(file).read_to_string(&mut text).unwrap();
    assert_eq!(text, "deep");
}

#[test]
fn longest_path_single() {
    require!(Fuse, Root);
    deep(1);
}

#[test]
fn longest_path_leaf() {
    require!(Fuse, Root);
    deep(7);
}

#[test]
fn the_longest_path_is_that_long() {
    let source = Path::new("/tmp/somewhere/source");
    let names = components(source);
    let bytes: usize = names.iter().map(|name| name.as_bytes().len() + 1).sum();
    assert_eq!(source.as_os_str().len() + bytes, PATH_BYTES_MAX);
    assert!(names.iter().all(|name| (1..=255).contains(&name.as_bytes().len())));
}
