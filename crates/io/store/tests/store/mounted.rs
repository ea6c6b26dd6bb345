//! Mounts inside an export: real ones are shown, the kernel's and Forebay's own are neither shown nor touched.
use crate::fixture;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use fixture::{Tree, generation, name, options, with_private_mounts};
use forebay_store::{Store, StoreError, StoreOptions};
use forebay_types::{ChunkIndex, Errno, Generation};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

const NOTHING: Option<&std::ffi::CStr> = None;

fn mount_new(kind: &str, at: &Path) {
    mount("none", at, kind, MountFlags::empty(), NOTHING).unwrap();
}

/// A FUSE mount whose requests nobody answers; once the file is closed every access fails with `ENOTCONN`.
fn mount_unanswered(kind: &str, at: &Path) -> File {
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let text = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let text = std::ffi::CString::new(text).unwrap();
    mount("none", at, kind, MountFlags::empty(), Some(text.as_c_str())).unwrap();
    device
}

fn names(store: &Store, tree: &Tree, below: &str) -> Vec<String> {
    let listing = store.listing(&tree.view(below)).unwrap();
    listing.entries().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect()
}

#[test]
fn kernel_file_systems_are_hidden_and_real_ones_shown() {
    with_private_mounts(|tree| {
        let store = tree.store();
        for dir in ["proc", "tmpfs", "devpts", "plain"] {
            tree.make_dir(dir);
        }
        assert_eq!(names(&store, tree, ""), ["devpts", "plain", "proc", "tmpfs"]);
        mount_new("proc", &tree.path("proc"));
        mount_new("tmpfs", &tree.path("tmpfs"));
        mount_new("devpts", &tree.path("devpts"));
        tree.write("tmpfs/file", "real");
        assert_eq!(names(&store, tree, ""), ["plain", "tmpfs"]);
        assert_eq!(names(&store, tree, "tmpfs"), ["file"]);
        assert_eq!(store.lookup(&tree.view(""), &name("proc")), Ok(None));
        for hidden in ["proc", "proc/self", "proc/sys/kernel", "devpts"] {
            assert_eq!(store.listing(&tree.view(hidden)).unwrap_err(), Errno::ENOENT);
            assert_eq!(store.lookup(&tree.view(hidden), &name("ptmx")), Err(Errno::ENOENT));
            assert_eq!(store.file_system(&tree.view(hidden)), Err(Errno::ENOENT));
        }
        let (file, any) = (tree.view("proc/version"), Generation::default());
        assert_eq!(store.read_chunk(&file, &any, ChunkIndex(0), |_| ()).err(), Some(Errno::ENOENT));
        unmount(tree.path("proc"), UnmountFlags::empty()).unwrap();
        assert_eq!(names(&store, tree, ""), ["plain", "proc", "tmpfs"]);
    });
}

#[test]
fn a_hidden_file_system_stays_hidden_when_it_is_met_by_another_way() {
    with_private_mounts(|tree| {
        tree.make_dir("dir/proc");
        let version = tree.write("version", "");
        let store = tree.store();
        names(&store, tree, "dir");
        mount_new("proc", &tree.path("dir/proc"));
        mount_bind(tree.path("dir/proc/version"), &version).unwrap();
        fs::rename(tree.path("dir"), tree.path("moved")).unwrap();
        assert_eq!(names(&store, tree, ""), ["moved"]);
        assert_eq!(store.lookup(&tree.view(""), &name("version")), Ok(None));
        assert!(names(&store, tree, "moved").is_empty());
        // The descriptor of `dir` is kept and still leads to the mount, whose point has another path by now.
        assert_eq!(store.lookup(&tree.view("dir"), &name("proc")), Ok(None));
    });
}

#[test]
fn a_view_inside_an_export_is_never_asked() {
    if !Path::new("/dev/fuse").exists() {
        return fixture::skip("there is no /dev/fuse");
    }
    let (done, finished) = mpsc::channel();
    let run = move || {
        with_private_mounts(|tree| {
            for dir in ["live", "dead", "other"] {
                tree.make_dir(dir);
            }
            let store = tree.store();
            let live = mount_unanswered("fuse.forebay", &tree.path("live"));
            drop(mount_unanswered("fuse.forebay", &tree.path("dead")));
            drop(mount_unanswered("fuse.somebody", &tree.path("other")));
            let listing = store.listing(&tree.view("")).unwrap();
            assert_eq!(names(&store, tree, ""), ["other"]);
            assert_eq!(listing.entry(0).attributes, None, "there, but nobody answers for it");
            assert_eq!(store.lookup(&tree.view(""), &name("live")), Ok(None));
            assert_eq!(store.lookup(&tree.view(""), &name("dead")), Ok(None));
            assert_eq!(store.lookup(&tree.view(""), &name("other")), Err(Errno::ENOTCONN));
            assert_eq!(store.listing(&tree.view("live/sub")).unwrap_err(), Errno::ENOENT);
            drop(live);
        });
        done.send(()).unwrap();
    };
    let thread = std::thread::spawn(run);
    let outcome = finished.recv_timeout(Duration::from_secs(60));
    assert_ne!(outcome, Err(mpsc::RecvTimeoutError::Timeout), "the store waits for a view");
    thread.join().unwrap();
}

#[test]
fn hidden_paths_are_hidden_whatever_they_are() {
    let tree = Tree::new();
    tree.make_dir("state/run");
    tree.make_dir("kept");
    let hidden = vec![tree.path("state"), tree.path("kept/../kept/view"), "/absent/view".into()];
    let store = Store::open(StoreOptions { hidden, ..options(&[tree.path("")]) }).unwrap();
    tree.make_dir("kept/view");
    assert_eq!(names(&store, &tree, ""), ["kept"]);
    assert!(names(&store, &tree, "kept").is_empty());
    assert_eq!(store.listing(&tree.view("state/run")).unwrap_err(), Errno::ENOENT);
    assert_eq!(store.lookup(&tree.view("kept"), &name("view")), Ok(None));
}

#[test]
fn inode_numbers_of_two_devices_never_meet_and_agree_everywhere() {
    with_private_mounts(|tree| {
        tree.make_dir("a");
        tree.make_dir("b");
        mount_new("tmpfs", &tree.path("a"));
        mount_new("tmpfs", &tree.path("b"));
        for dir in ["a", "b"] {
            tree.write(&format!("{dir}/one"), "1");
            fs::hard_link(tree.path(&format!("{dir}/one")), tree.path(&format!("{dir}/two"))).unwrap();
        }
        tree.write("own", "");
        let raw = |below: &str| fs::symlink_metadata(tree.path(below)).unwrap().ino();
        assert_eq!(raw("a/one"), raw("b/one"), "two new file systems count alike");
        let full = tree.store();
        let bare = Store::open(StoreOptions { listing_entries_full: 0, ..options(&[tree.path("")]) }).unwrap();
        let ino = |store: &Store, dir: &str, entry: &str| {
            let listing = store.listing(&tree.view(dir)).unwrap();
            listing.entry(listing.find(entry.as_bytes()).unwrap()).ino
        };
        for (dir, entry) in [("", "a"), ("", "b"), ("", "own"), ("a", "one"), ("b", "two")] {
            let record = full.lookup(&tree.view(dir), &name(entry)).unwrap().unwrap();
            assert_eq!(ino(&full, dir, entry), record.attributes.ino);
            assert_eq!(ino(&bare, dir, entry), record.attributes.ino, "names alone: {dir}/{entry}");
        }
        assert_eq!(ino(&full, "", "own"), raw("own"));
        assert_eq!(ino(&full, "a", "one"), ino(&full, "a", "two"), "hard links stay joined");
        assert_ne!(ino(&full, "a", "one"), ino(&full, "b", "one"));
        assert_ne!(ino(&full, "", "a"), ino(&full, "", "b"));
        assert_eq!(full.listing(&tree.view("a")).unwrap().directory().ino, ino(&full, "", "a"));
        let record = full.lookup(&tree.view("a"), &name("one")).unwrap().unwrap();
        let read = |generation: &Generation| full.read_chunk(&tree.view("a/one"), generation, ChunkIndex(0), |_| ());
        assert_eq!(read(&record.attributes.generation()).unwrap().contiguous().unwrap(), &b"1"[..]);
        assert_eq!(read(&generation(&tree.path("a/one"))).err(), Some(Errno::ESTALE));
    });
}

#[test]
fn exports_on_two_devices_are_told_apart() {
    with_private_mounts(|tree| {
        let (first, second) = (tree.make_dir("first"), tree.make_dir("second"));
        mount_new("tmpfs", &first);
        mount_new("tmpfs", &second);
        tree.write("first/file", "");
        tree.write("second/file", "");
        let store = Store::open(options(&[first, second])).unwrap();
        let ino = |dir: &str| store.lookup(&tree.view(dir), &name("file")).unwrap().unwrap().attributes.ino;
        assert_eq!(ino("first"), fs::symlink_metadata(tree.path("first/file")).unwrap().ino());
        assert_ne!(ino("second"), ino("first"));
        let listing = store.listing(&tree.view("")).unwrap();
        let inos: Vec<u64> = listing.entries().map(|entry| entry.ino).collect();
        assert_ne!(inos[0], inos[1]);
    });
}

#[test]
fn an_export_hidden_by_another_is_refused() {
    with_private_mounts(|tree| {
        tree.make_dir("pts");
        mount_new("devpts", &tree.path("pts"));
        let under = tree.make_dir("under");
        mount_new("tmpfs", &under);
        let refused = Store::open(StoreOptions { hidden: vec![under.clone()], ..options(&[tree.path(""), under]) });
        assert!(matches!(refused.err(), Some(StoreError::Hidden { .. })));
        let refused = Store::open(options(&[tree.path("pts")]));
        assert!(matches!(refused.err(), Some(StoreError::NotServed { .. })));
    });
}
