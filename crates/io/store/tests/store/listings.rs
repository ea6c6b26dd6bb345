//! Listings and attributes against what the standard library sees.
use crate::fixture;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fixture::{Tree, attributes, is_root, name, options, skip, view};
use forebay_store::Store;
use forebay_types::{Attributes, Errno, Kind, Name, Timestamp, ViewPath};
use forebay_wire::Listing;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode};

/// Every entry of `dir` as `lstat` and `readlink` tell it.
fn expected(dir: &Path) -> BTreeMap<Vec<u8>, (Attributes, Vec<u8>)> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let target = fs::read_link(entry.path()).map(|path| path.into_os_string().into_vec()).unwrap_or_default();
        (entry.file_name().into_vec(), (settled(attributes(&entry.path())), target))
    };
    fs::read_dir(dir).unwrap().map(entry).collect()
}

/// Reading a link updates its access time, and there is no way to read it without: left out.
fn settled(attributes: Attributes) -> Attributes {
    let is_link = attributes.kind() == Kind::Symlink;
    if is_link { Attributes { atime: Timestamp::default(), ..attributes } } else { attributes }
}

fn found(listing: &Listing) -> BTreeMap<Vec<u8>, (Attributes, Vec<u8>)> {
    let entry = |entry: forebay_wire::ListingEntry<'_>| {
        let attributes = entry.attributes.expect("a listing below the limit has attributes");
        assert_eq!((attributes.kind(), attributes.ino), (entry.kind, entry.ino));
        (entry.name.to_vec(), (settled(attributes), entry.target.to_vec()))
    };
    listing.entries().map(entry).collect()
}

/// Compares `dir` and all below it, by listing, page and lookup.
fn compare(store: &Store, dir: &Path) {
    // First, because it may update the directory's access time.
    let expected = expected(dir);
    let listing = store.listing(&view(dir)).unwrap();
    assert_eq!(found(&listing), expected, "{}", dir.display());
    assert_eq!(listing.directory(), attributes(dir));
    let mut names: Vec<Name> = expected.keys().map(|name| Name::new(name).unwrap()).collect();
    names.push(name("certainly absent"));
    let page = store.page(&view(dir), &names).unwrap();
    assert_eq!(page.last(), Some(&None));
    names.pop();
    for (name, record) in names.iter().zip(page) {
        assert_eq!(store.lookup(&view(dir), name).unwrap().unwrap().target, record.as_ref().unwrap().target);
        let record = record.unwrap();
        assert_eq!((settled(record.attributes), record.target), expected[name.as_bytes()]);
        let path = dir.join(OsStr::from_bytes(name.as_bytes()));
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            compare(store, &path);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Dir(Vec<u8>),
    File(Vec<u8>, u16),
    Link(Vec<u8>, Vec<u8>),
    HardLink(Vec<u8>, prop::sample::Index),
    Fifo(Vec<u8>),
    Enter(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let any_name = || {
        let bytes = proptest::collection::vec(1u8..=255, 1..12);
        bytes.prop_filter("a name", |bytes| Name::check(bytes).is_ok())
    };
    let target = proptest::collection::vec(1u8..=255, 1..300);
    prop_oneof![
        any_name().prop_map(Step::Dir),
        (any_name(), any::<u16>()).prop_map(|(name, len)| Step::File(name, len)),
        (any_name(), target).prop_map(|(name, target)| Step::Link(name, target)),
        (any_name(), any::<prop::sample::Index>()).prop_map(|(name, at)| Step::HardLink(name, at)),
        any_name().prop_map(Step::Fifo),
        any::<prop::sample::Index>().prop_map(Step::Enter),
    ]
}

/// Makes the tree; a step that cannot be taken (the name exists) is passed over.
fn build(root: &Path, steps: &[Step]) {
    let (mut dirs, mut files) = (vec![root.to_path_buf()], Vec::new());
    let mut at = root.to_path_buf();
    for step in steps {
        let path = |name: &[u8]| at.join(OsStr::from_bytes(name));
        match step {
            Step::Dir(name) => dirs.extend(fs::create_dir(path(name)).ok().map(|()| path(name))),
            Step::File(name, len) => {
                let free = fs::symlink_metadata(path(name)).is_err();
                files.extend(free.then(|| fs::write(path(name), vec![7; *len as usize]).map(|()| path(name)).unwrap()));
            }
            Step::Link(name, target) => drop(symlink(OsStr::from_bytes(target), path(name))),
            Step::HardLink(name, at) if !files.is_empty() => drop(fs::hard_link(at.get(&files), path(name))),
            Step::HardLink(..) => {}
            Step::Fifo(name) => drop(rustix::fs::mknodat(CWD, path(name), FileType::Fifo, Mode::RUSR, 0)),
            Step::Enter(index) => at = index.get(&dirs).clone(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_tree_looks_as_the_standard_library_sees_it(steps in proptest::collection::vec(step(), 0..40)) {
        let tree = Tree::new();
        build(&tree.path(""), &steps);
        compare(&tree.store(), &tree.path(""));
    }
}

#[test]
fn names_of_any_bytes_and_full_length_are_shown() {
    let tree = Tree::new();
    for name in [vec![b'n'; 255], vec![0xff; 255], b"a\nb".to_vec(), b"\xc3\x28".to_vec(), b" \\040\t".to_vec()] {
        fs::write(tree.path("").join(OsStr::from_bytes(&name)), &name).unwrap();
        fs::create_dir(tree.path("").join(OsStr::from_bytes(&name)).with_extension("d")).unwrap_or_default();
    }
    UnixListener::bind(tree.path("socket")).unwrap();
    compare(&tree.store(), &tree.path(""));
}

#[test]
fn deep_paths_up_to_the_limit_are_reached() {
    let tree = Tree::new();
    let mut at = tree.path("");
    let mut dir = rustix::fs::open(&at, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    while at.as_os_str().len() + 1 + 200 + 2 <= 4096 {
        let name = "d".repeat(200);
        rustix::fs::mkdirat(&dir, &name, Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, &name, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
        at.push(name);
    }
    let last = "f".repeat(4096 - at.as_os_str().len() - 1);
    rustix::fs::openat(&dir, &last, rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY, Mode::RUSR).unwrap();
    let store = tree.store();
    let listing = store.listing(&view(&at)).unwrap();
    assert_eq!(listing.entry(0).name, last.as_bytes());
    let path = view(&at).join(last.as_bytes()).unwrap();
    assert_eq!(path.as_bytes().len(), 4095);
    let generation = listing.entry(0).attributes.unwrap().generation();
    assert!(store.read_chunk(&path, &generation, forebay_types::ChunkIndex(0), |_| ()).unwrap().is_whole());
    assert!(store.file_system(&path).unwrap().blocks > 0);
}

#[test]
fn a_large_directory_is_listed_by_names_alone() {
    const COUNT: usize = 100_000;
    let tree = Tree::new();
    let dir = rustix::fs::open(tree.path(""), rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    for index in 0..COUNT {
        let kind = if index % 1000 == 0 { FileType::Fifo } else { FileType::RegularFile };
        rustix::fs::mknodat(&dir, format!("f{index:06}"), kind, Mode::RUSR, 0).unwrap();
    }
    let store = tree.store();
    let listing = store.listing(&tree.view("")).unwrap();
    assert_eq!(listing.len(), COUNT);
    for (index, entry) in listing.entries().enumerate() {
        assert_eq!(entry.name, format!("f{index:06}").as_bytes());
        assert_eq!(entry.kind, if index % 1000 == 0 { Kind::Fifo } else { Kind::File });
        assert_eq!(entry.attributes, None);
    }
    let asked = store.counters().stats;
    assert!(asked <= 4096 + 10, "{asked} attributes asked for");
    let picked: Vec<Name> = (0..256).map(|index| name(&format!("f{:06}", index * 300))).collect();
    for (name, record) in picked.iter().zip(store.page(&tree.view(""), &picked).unwrap()) {
        let entry = listing.entry(listing.find(name.as_bytes()).unwrap());
        assert_eq!(record.unwrap().attributes.ino, entry.ino);
    }
}

#[test]
fn the_limit_itself_still_has_attributes() {
    let tree = Tree::new();
    (0..20).for_each(|index| drop(tree.write(&format!("f{index}"), "")));
    let at = |limit| {
        let options = forebay_store::StoreOptions { listing_entries_full: limit, ..options(&[tree.path("")]) };
        let listing = Store::open(options).unwrap().listing(&tree.view("")).unwrap();
        assert_eq!(listing.len(), 20);
        listing.entries().filter(|entry| entry.attributes.is_some()).count()
    };
    assert_eq!((at(20), at(19), at(0)), (20, 0, 0));
}

#[test]
fn ancestors_show_only_what_leads_to_exports() {
    let tree = Tree::new();
    for dir in ["soft/python/lib", "soft/other", "home/me", "home/you"] {
        tree.make_dir(dir);
    }
    let store = Store::open(options(&[tree.path("soft/python"), tree.path("home/me")])).unwrap();
    let names = |below: &str| -> Vec<String> {
        let listing = store.listing(&tree.view(below)).unwrap();
        assert_eq!(listing.directory(), attributes(&tree.path(below)));
        listing
            .entries()
            .map(|entry| {
                let name = String::from_utf8(entry.name.to_vec()).unwrap();
                assert_eq!(entry.attributes, Some(attributes(&tree.path(below).join(&name))));
                name
            })
            .collect()
    };
    assert_eq!(names(""), ["home", "soft"]);
    assert_eq!(names("soft"), ["python"]);
    assert_eq!(names("soft/python"), ["lib"]);
    assert_eq!(store.listing(&ViewPath::root()).unwrap().len(), 1);
    assert_eq!(store.lookup(&tree.view("soft"), &name("other")), Ok(None));
    assert!(store.lookup(&tree.view("soft"), &name("python")).unwrap().is_some());
    assert!(store.file_system(&tree.view("soft")).unwrap().blocks > 0);
    for outside in ["soft/other", "home/you", "soft/pythonic"] {
        assert_eq!(store.listing(&tree.view(outside)).unwrap_err(), Errno::ENOENT);
        assert_eq!(store.lookup(&tree.view(outside), &name("x")), Err(Errno::ENOENT));
        assert_eq!(store.file_system(&tree.view(outside)), Err(Errno::ENOENT));
    }
}

#[test]
fn a_missing_path_and_a_file_are_reported_as_such() {
    let tree = Tree::new();
    tree.write("file", "x");
    let store = tree.store();
    assert_eq!(store.listing(&tree.view("absent")).unwrap_err(), Errno::ENOENT);
    assert_eq!(store.lookup(&tree.view("absent"), &name("x")), Err(Errno::ENOENT));
    assert_eq!(store.listing(&tree.view("file")).unwrap_err(), Errno::ENOTDIR);
    assert_eq!(store.lookup(&tree.view(""), &name("absent")), Ok(None));
    assert_eq!(store.counters().errors, 0, "a program that looks for what is not there has met no error");
}

#[test]
fn entries_that_come_and_go_never_hide_those_that_stay() {
    let tree = Tree::new();
    (0..300).for_each(|index| drop(tree.write(&format!("stays{index:03}"), "")));
    let (store, done) = (tree.store(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in (0..50).cycle() {
                let path = tree.write(&format!("goes{index}"), "");
                if done.load(Ordering::SeqCst) {
                    break;
                }
                fs::remove_file(path).unwrap();
            }
        });
        for _ in 0..100 {
            let listing = store.listing(&tree.view("")).unwrap();
            assert_eq!(listing.entries().filter(|entry| entry.name.starts_with(b"stays")).count(), 300);
        }
        done.store(true, Ordering::SeqCst);
    });
    let listings = store.counters().listings;
    assert!((100..=300).contains(&listings), "{listings} listings for 100 questions");
}

#[test]
fn a_directory_put_in_the_place_of_another_is_found() {
    let tree = Tree::new();
    tree.make_dir("a/b");
    tree.write("a/b/old", "");
    let store = tree.store();
    assert_eq!(store.listing(&tree.view("a/b")).unwrap().entry(0).name, b"old");
    fs::remove_dir_all(tree.path("a")).unwrap();
    tree.make_dir("a/b");
    tree.write("a/b/new", "");
    assert_eq!(store.listing(&tree.view("a/b")).unwrap().entry(0).name, b"new");
    tree.make_dir("c");
    fs::rename(tree.path("a"), tree.path("c/a")).unwrap();
    tree.make_dir("a/b");
    drop(store.forget());
    assert!(store.listing(&tree.view("a/b")).unwrap().is_empty());
}

/// Permissions do not bind root, so these run on a thread that is not.
#[test]
fn unreadable_files_are_refused_and_those_without_attributes_kept() {
    if !is_root() {
        return skip("changing the user needs root");
    }
    let tree = Tree::new();
    fs::set_permissions(tree.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    for (dir, mode) in [("closed", 0o700), ("names", 0o744), ("searched", 0o711)] {
        tree.make_dir(dir);
        tree.write(&format!("{dir}/file"), "x");
        fs::set_permissions(tree.path(dir), fs::Permissions::from_mode(mode)).unwrap();
    }
    let as_nobody = || {
        rustix::thread::set_thread_groups(&[]).unwrap();
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let store = tree.store();
        assert_eq!(store.listing(&tree.view("")).unwrap().len(), 3);
        assert_eq!(store.listing(&tree.view("closed")).unwrap_err(), Errno::EACCES);
        assert_eq!(store.listing(&tree.view("searched")).unwrap_err(), Errno::EACCES);
        assert!(store.lookup(&tree.view("searched"), &name("file")).unwrap().is_some());
        let names = store.listing(&tree.view("names")).unwrap();
        let entry = names.entry(0);
        assert_eq!((entry.name, entry.kind, entry.attributes), (&b"file"[..], Kind::File, None));
        assert_eq!(store.lookup(&tree.view("names"), &name("file")), Err(Errno::EACCES));
        let refused = Store::open(options(&[tree.path("closed")])).err().unwrap().to_string();
        assert!(refused.contains("closed") && refused.contains("EACCES"), "{refused}");
    };
    std::thread::scope(|scope| scope.spawn(as_nobody).join()).unwrap();
}

#[test]
fn reading_leaves_no_access_time_behind_where_the_owner_reads() {
    let tree = Tree::new();
    let file = tree.write("file", vec![1; 4096]);
    let past = std::time::SystemTime::UNIX_EPOCH;
    fs::File::open(&file).unwrap().set_times(fs::FileTimes::new().set_accessed(past)).unwrap();
    let before = (attributes(&file), attributes(&tree.path("")));
    let store = tree.store();
    store.listing(&tree.view("")).unwrap();
    let generation = before.0.generation();
    store.read_chunk(&tree.view("file"), &generation, forebay_types::ChunkIndex(0), |_| ()).unwrap();
    assert_eq!((attributes(&file), attributes(&tree.path(""))), before);
}
