//! Exports that are possible, and the messages about those that are not.
use crate::fixture;

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use fixture::{Tree, options, view};
use forebay_store::{Store, StoreError};
use forebay_types::ViewPath;

fn refusal(exports: &[PathBuf]) -> StoreError {
    Store::open(options(exports)).err().expect("refused")
}

#[test]
fn every_bad_export_is_named_with_what_to_do() {
    let tree = Tree::new();
    let file = tree.write("file", "x");
    symlink("nowhere", tree.path("dangling")).unwrap();
    symlink("round", tree.path("round")).unwrap();
    assert!(matches!(refusal(&[]), StoreError::NoExports));
    assert!(matches!(refusal(&[tree.path("absent")]), StoreError::Missing { .. }));
    assert!(matches!(refusal(&[tree.path("dangling")]), StoreError::Missing { .. }));
    assert!(matches!(refusal(&[tree.path("round")]), StoreError::Unreadable { .. }));
    assert!(matches!(refusal(&[file.join("below")]), StoreError::NotDirectory { .. }));
    let error = refusal(&[tree.path(""), file.clone()]);
    assert!(matches!(error, StoreError::NotDirectory { .. }));
    let text = error.to_string();
    assert!(text.contains(file.to_str().unwrap()) && text.contains("export the directory"), "{text}");
}

#[test]
fn a_kernel_file_system_is_not_served() {
    let error = refusal(&["/proc/self".into()]);
    assert!(matches!(&error, StoreError::NotServed { file_system, .. } if file_system == "proc"), "{error}");
    let text = refusal(&["/".into(), "/proc/1".into()]).to_string();
    assert!(text.contains("/proc/1"), "{text}");
}

#[test]
fn links_are_resolved_and_exports_within_others_folded() {
    let tree = Tree::new();
    let (outer, inner) = (tree.make_dir("outer"), tree.make_dir("outer/inner"));
    let other = tree.make_dir("other");
    symlink("outer", tree.path("link")).unwrap();
    let exports = |given: &[PathBuf]| Store::open(options(given)).unwrap().exports().to_vec();
    assert_eq!(exports(&[tree.path("link")]), [view(&outer)]);
    assert_eq!(exports(&[inner.clone(), other.clone(), outer.clone()]), [view(&other), view(&outer)]);
    assert_eq!(
        exports(&[outer.clone(), tree.path("link/inner"), outer.join("."), other.clone()]),
        [view(&outer), view(&other)]
    );
    assert_eq!(exports(&[inner.join("../../other")]), [view(&other)]);
}

#[test]
fn the_whole_file_system_can_be_exported() {
    let tree = Tree::new();
    tree.write("file", "x");
    let store = Store::open(options(&["/".into(), tree.path("")])).unwrap();
    assert_eq!(store.exports(), [ViewPath::root()]);
    let root = store.listing(&ViewPath::root()).unwrap();
    assert!(root.find(b"etc").is_some());
    assert_eq!(root.find(b"proc"), None, "the kernel's own");
    assert_eq!(root.find(b"sys"), None);
    assert_eq!(store.listing(&tree.view("")).unwrap().len(), 1);
}
