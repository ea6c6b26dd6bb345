//! Directories: whole, in parts, by position, by many at once, and large ones.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Command as Program;
use std::sync::Barrier;

use forebay_tests::program::run;
use forebay_tests::{Site, compare, on_both, require, tree};
use rustix::fs::{RawDir, SeekFrom, seek};

/// Entries above the number up to which a listing carries attributes, so that they come on demand.
const MANY: usize = 10_000;
const VERY_MANY: usize = 100_000;

/// A name and the position after it, in the order in which the directory tells them.
type Positions = Vec<(Vec<u8>, u64)>;

fn positions(directory: &File, from: u64) -> Positions {
    seek(directory, SeekFrom::Start(from)).unwrap();
    let mut space = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(directory, &mut space);
    let mut found = vec![];
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        found.push((entry.file_name().to_bytes().to_vec(), entry.next_entry_cookie()));
    }
    found
}

on_both!(positions_lead_back, |site| {
    let directory = File::open(site.view("names")).unwrap();
    let all = positions(&directory, 0);
    assert_eq!(all.iter().filter(|(name, _)| name == b"." || name == b"..").count(), 2);
    for (index, (_, position)) in all.iter().enumerate().step_by(17).chain([(all.len() - 1, all.last().unwrap())]) {
        assert_eq!(positions(&directory, *position), all[index + 1..], "from entry {index} on");
    }
    assert_eq!(positions(&directory, 0), all, "rewound");
});

on_both!(kinds_are_told_with_the_names, |site| {
    for name in ["special", "links", "plain"] {
        let kinds = |path: &Path| -> BTreeSet<_> {
            let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
            entries.map(|entry| (entry.file_name(), format!("{:?}", entry.file_type().unwrap()))).collect()
        };
        assert_eq!(kinds(&site.source(name)), kinds(&site.view(name)), "{name}");
    }
});

on_both!(many_listers_see_the_same, |site| {
    let (expected, path) = (compare::names(&site.source("names")), site.view("names"));
    let barrier = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..5 {
                    assert_eq!(compare::names(&path), expected);
                }
            });
        }
    });
});

on_both!(an_empty_directory_is_empty, |site| {
    assert!(compare::names(&site.view("plain/empty")).is_empty());
});

fn large(nodes: u32) {
    let site = Site::new(nodes, |source| {
        for (name, count) in [("many", MANY), ("very-many", VERY_MANY)] {
            fs::create_dir(source.join(name)).unwrap();
            tree::fill(&source.join(name), "entry-", count);
        }
        tree::write(&source.join("many/entry-004711"), b"not empty");
    });
    for (name, count) in [("many", MANY), ("very-many", VERY_MANY)] {
        let (source, view) = (site.source(name), site.view(name));
        compare::attributes(&source, &view);
        let names = compare::names(&view);
        assert_eq!(names.len(), count);
        assert_eq!(names, compare::names(&source));
        for name in names.iter().step_by(997) {
            compare::attributes(&source.join(name), &view.join(name));
        }
        assert_eq!(fs::metadata(view.join("entry-")).unwrap_err().raw_os_error(), Some(2), "ENOENT");
        assert_eq!(fs::metadata(view.join("entry-1000000")).unwrap_err().raw_os_error(), Some(2), "ENOENT");
    }
    assert_eq!(fs::read(site.view("many/entry-004711")).unwrap(), b"not empty");
    let list = |path: &Path| run(Program::new("ls").arg("-ln").arg("--time-style=full-iso").arg(path)).good().stdout;
    compare::same(&list(&site.source("many")), &list(&site.view("many")), &site.source("many"));
    let directory = File::open(site.view("very-many")).unwrap();
    let all = positions(&directory, 0);
    let (index, (_, position)) = (VERY_MANY / 2, &all[VERY_MANY / 2]);
    assert_eq!(positions(&directory, *position), all[index + 1..], "from the middle on");
}

#[test]
fn large_directories_single() {
    require!(Fuse, Root);
    large(1);
}

#[test]
fn large_directories_leaf() {
    require!(Fuse, Root);
    large(7);
}

/// Positions are given to other nodes, and lead there to the same entries.
#[test]
fn order_and_positions_are_the_same_on_every_node() {
    require!(Fuse);
    let site = Site::new(3, |source| {
        fs::create_dir(source.join("many")).unwrap();
        tree::fill(&source.join("many"), "entry-", 5_000);
    });
    for name in ["names", "many"] {
        let open = |node| File::open(site.job().path(node, &site.source(name))).unwrap();
        let all = positions(&open(0), 0);
        let own = |all: &Positions| -> Vec<Vec<u8>> {
            all.iter().map(|(name, _)| name.clone()).filter(|name| name != b"." && name != b"..").collect()
        };
        assert!(own(&all).is_sorted(), "by their bytes");
        for node in 1..3 {
            let (directory, (index, (_, middle))) = (open(node), (all.len() / 2, &all[all.len() / 2]));
            assert_eq!(positions(&directory, *middle), all[index + 1..], "{name}, node {node}, from the middle on");
            assert_eq!(positions(&directory, 0), all, "{name}, node {node}");
        }
    }
}

/// A program that looks up one name of a large directory gets its neighbours' attributes with it, 256 in all.
#[test]
fn attributes_of_a_large_directory_follow_in_pages_of_256_names() {
    require!(Fuse);
    const PAGE: usize = 256;
    let site = Site::new(2, |source| {
        fs::create_dir(source.join("many")).unwrap();
        tree::fill(&source.join("many"), "entry-", MANY);
    });
    let view = site.job().path(1, &site.source("many"));
    let mut names: Vec<_> = compare::names(&view).into_iter().collect();
    names.sort();
    let served = || site.job().status()["nodes"][0]["overlay"]["requests_served"].as_u64().unwrap();
    let asked = |range: std::ops::Range<usize>| {
        let before = served();
        range.for_each(|index| assert!(fs::symlink_metadata(view.join(&names[index])).is_ok()));
        served() - before
    };
    let first = asked(PAGE..PAGE + 1);
    assert!(first >= 1, "a page is asked of the node above");
    assert_eq!(asked(PAGE + 1..2 * PAGE), 0, "the others of a page come with the first");
    assert!(asked(2 * PAGE..2 * PAGE + 1) >= 1, "the next page is another request");
}
