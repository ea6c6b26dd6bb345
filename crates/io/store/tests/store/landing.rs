//! Where a burst tree lands: what can be done there, and that it stays within.

use std::cell::Cell;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use forebay_store::{Draft, LandingPlace};
use forebay_types::{Attributes, Errno, Timestamp, ViewPath};

fn path(text: &str) -> ViewPath {
    ViewPath::new(text.as_bytes()).unwrap()
}

fn place() -> (tempfile::TempDir, LandingPlace) {
    let dir = tempfile::tempdir().unwrap();
    let place = LandingPlace::open(dir.path()).unwrap();
    (dir, place)
}

fn attributes(mode: u32) -> Attributes {
    let time = Timestamp { seconds: 1_000_000_000, nanos: 5 };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    Attributes { mode, uid, gid, atime: time, mtime: time, ..Attributes::default() }
}

#[test]
fn a_draft_is_seen_when_it_is_whole_and_never_before() {
    let (dir, place) = place();
    fs::write(dir.path().join("file"), "old").unwrap();
    let draft = place.draft(&path("file"), 7).unwrap();
    draft.file().write_all_at(b"new contents", 0).unwrap();
    draft.set_attributes(&attributes(0o100_640)).unwrap();
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"old");
    let names =
        |place: &LandingPlace| place.list(&path("")).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    assert_eq!(names(&place).len(), 1, "drafts are not listed");
    draft.make_durable().unwrap();
    place.publish(&[(&draft, &path("file"), true)], || Ok(())).unwrap();
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"new contents");
    let metadata = fs::metadata(dir.path().join("file")).unwrap();
    assert_eq!((metadata.permissions().mode(), metadata.mtime(), metadata.mtime_nsec()), (0o100_640, 1_000_000_000, 5));
    place.draft(&path("file"), 8).unwrap().remove().unwrap();
    draft.remove().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "one that is given up leaves nothing");
}

/// Users who may change the directory may put a file of their own at the draft's name.
#[test]
fn a_draft_is_itself_whatever_has_its_name() {
    let (dir, place) = place();
    let draft = place.draft(&path("file"), 7).unwrap();
    let name = Draft::path(&path(""), 7).unwrap();
    let own = place.backed_draft(&draft).unwrap();
    assert!(place.backed(&name).unwrap().is_same_file(&own));
    fs::write(dir.path().join("theirs"), "theirs").unwrap();
    fs::rename(dir.path().join("theirs"), dir.path().join(name.to_string().trim_start_matches('/'))).unwrap();
    assert!(place.backed_draft(&draft).unwrap().is_same_file(&own));
    place.publish(&[(&draft, &path("file"), false)], || Ok(())).unwrap();
    assert!(!place.backed(&path("file")).unwrap().is_same_file(&own), "what is there now is told apart");
}

#[test]
fn finished_work_is_not_done_again() {
    let (dir, place) = place();
    let make = || {
        [
            place.make_directory(&path("d")),
            place.make_symlink(&path("d/link"), b"target"),
            place.make_special(&path("d/fifo"), &attributes(0o010_600)),
        ]
    };
    assert_eq!(make(), [Ok(()); 3]);
    assert_eq!(make(), [Err(Errno::EEXIST); 3], "what is there may be somebody else's");
    fs::write(dir.path().join("d/file"), "x").unwrap();
    for _ in 0..2 {
        place.link(&path("d/file"), &path("d/other"), 1).unwrap();
    }
    assert_eq!(fs::metadata(dir.path().join("d/file")).unwrap().nlink(), 2);
    assert_eq!(place.remove(&path("d"), true), Err(Errno::ENOTEMPTY));
    let ino = fs::metadata(dir.path().join("d/other")).unwrap().ino();
    for _ in 0..2 {
        place.rename(&path("d/other"), &path("d/fifo"), true, Some(ino)).unwrap();
        assert!(fs::symlink_metadata(dir.path().join("d/fifo")).unwrap().is_file());
    }
    for name in ["d/file", "d/fifo", "d/other", "d/link", "d/link"] {
        place.remove(&path(name), false).unwrap();
    }
    place.remove(&path("d"), true).unwrap();
    place.remove(&path("d"), true).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_link_replaces_what_has_its_name_at_once() {
    let (dir, place) = place();
    fs::write(dir.path().join("a"), "a").unwrap();
    fs::write(dir.path().join("b"), "b").unwrap();
    place.link(&path("a"), &path("b"), 1).unwrap();
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"a");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_name_that_moves_over_another_of_the_same_file_is_gone() {
    let (dir, place) = place();
    fs::write(dir.path().join("a"), "a").unwrap();
    place.link(&path("a"), &path("b"), 1).unwrap();
    place.rename(&path("a"), &path("b"), false, None).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"a");
}

#[test]
fn links_lead_nowhere() {
    let (dir, place) = place();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), dir.path().join("out")).unwrap();
    fs::write(outside.path().join("file"), "secret").unwrap();
    let refused = [Errno::ESTALE, Errno::ENOTDIR, Errno::ELOOP];
    assert!(refused.contains(&place.open_to_read(&path("out/file")).unwrap_err()));
    assert!(refused.contains(&place.draft(&path("out/new"), 1).unwrap_err()));
    assert!(refused.contains(&place.make_directory(&path("out/d")).unwrap_err()));
    symlink(outside.path().join("file"), dir.path().join("link")).unwrap();
    let (victim, held) = (outside.path().join("file"), place.hold(&path("link")).unwrap());
    let before = fs::metadata(&victim).unwrap();
    assert_eq!(held.open_to_write().unwrap_err(), Errno::ESTALE);
    assert_eq!(held.set_attributes(&attributes(0o104_666)).unwrap_err(), Errno::ESTALE);
    assert!(place.hold(&path("link")).unwrap().set_attributes(&attributes(0o120_777)).unwrap());
    let after = fs::metadata(&victim).unwrap();
    assert_eq!((after.mode(), after.mtime()), (before.mode(), before.mtime()));
    assert_eq!(fs::symlink_metadata(dir.path().join("link")).unwrap().mtime(), 1_000_000_000);
    assert!(place.remove(&path("out/file"), false).is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_rename_that_was_done_is_done() {
    let (dir, place) = place();
    fs::write(dir.path().join("a"), "a").unwrap();
    let ino = fs::metadata(dir.path().join("a")).unwrap().ino();
    for known in [Some(ino), Some(ino), None] {
        place.rename(&path("a"), &path("b"), false, known).unwrap();
    }
    assert_eq!(place.rename(&path("a"), &path("b"), false, Some(ino + 1)), Err(Errno::ENOENT), "it is another file");
    assert_eq!(place.rename(&path("a"), &path("c"), false, None), Err(Errno::ENOENT));
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"a");
}

#[test]
fn drafts_of_two_stores_are_two() {
    let (dir, place) = place();
    let drafts = [7, 7 | 1 << 64].map(|number| place.draft(&path("file"), number).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    let paths = ["file0", "file1"].map(path);
    for (index, draft) in drafts.iter().enumerate() {
        draft.file().write_all_at(&[b'0' + index as u8], 0).unwrap();
    }
    let named: Vec<_> = drafts.iter().zip(&paths).map(|(draft, path)| (draft, path, false)).collect();
    place.publish(&named, || Ok(())).unwrap();
    assert_eq!(fs::read(dir.path().join("file0")).unwrap(), b"0");
    assert_eq!(fs::read(dir.path().join("file1")).unwrap(), b"1");
}

#[test]
fn a_draft_replaces_nothing_that_it_is_not_to_replace() {
    let (dir, place) = place();
    fs::write(dir.path().join("file"), "theirs").unwrap();
    let drafts = [7, 8].map(|number| place.draft(&path("file"), number).unwrap());
    let paths = ["new", "file"].map(path);
    let named: Vec<_> = drafts.iter().zip(&paths).map(|(draft, path)| (draft, path, false)).collect();
    assert_eq!(place.publish(&named, || Ok(())), Err(Errno::EEXIST));
    drafts.iter().for_each(|draft| draft.remove().unwrap());
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"theirs");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the first is there, and no draft");
}

/// A leader that has lost its lease gives no more names, and takes no draft from the leader after it.
#[test]
fn a_replaced_leader_renames_no_further_and_removes_no_draft_of_the_next_leader() {
    let (dir, place) = place();
    let drafts = [7, 8].map(|number| place.draft(&path("file"), number).unwrap());
    let paths = ["first", "second"].map(path);
    let named: Vec<_> = drafts.iter().zip(&paths).map(|(draft, path)| (draft, path, false)).collect();
    let is_held = Cell::new(true);
    let may_rename = || if is_held.replace(false) { Ok(()) } else { Err(Errno::EAGAIN) };
    assert_eq!(place.publish(&named, may_rename), Err(Errno::EAGAIN));
    assert!(dir.path().join("first").exists() && !dir.path().join("second").exists());
    let next = place.draft(&path("file"), 8).unwrap();
    let own = place.backed_draft(&next).unwrap();
    drafts.iter().for_each(|draft| draft.remove().unwrap());
    drop(drafts);
    assert!(place.backed(&Draft::path(&path(""), 8).unwrap()).unwrap().is_same_file(&own));
    next.remove().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// The leader may be another one by now, which goes on with the draft.
#[test]
fn a_dropped_draft_stays() {
    let (dir, place) = place();
    drop(place.draft(&path("file"), 7).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_held_file_stays_the_same_file() {
    let (dir, place) = place();
    fs::write(dir.path().join("a"), "a").unwrap();
    fs::write(dir.path().join("b"), "b").unwrap();
    let held = place.hold(&path("a")).unwrap();
    fs::rename(dir.path().join("a"), dir.path().join("c")).unwrap();
    fs::rename(dir.path().join("b"), dir.path().join("a")).unwrap();
    held.open_to_write().unwrap().write_all_at(b"x", 0).unwrap();
    assert!(held.set_attributes(&attributes(0o100_600)).unwrap());
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"b");
    assert_eq!(fs::read(dir.path().join("c")).unwrap(), b"x");
    assert_eq!(fs::metadata(dir.path().join("c")).unwrap().mode(), 0o100_600);
}

/// The owner who lent rights to a file has not seen the bytes that come into it, so the rights end first.
#[test]
fn lent_rights_end_and_come_back() {
    let (dir, place) = place();
    let (file, held) = (dir.path().join("a"), || place.hold(&path("a")).unwrap());
    let mode = || fs::metadata(&file).unwrap().mode() & 0o7777;
    fs::write(&file, "a").unwrap();
    for (before, lent) in [(0o4755, 0o4000), (0o6755, 0o6000), (0o2755, 0o2000), (0o2745, 0), (0o755, 0)] {
        fs::set_permissions(&file, Permissions::from_mode(before)).unwrap();
        assert_eq!(held().end_lent_rights().unwrap(), lent, "{before:o}");
        assert_eq!(mode(), before & !lent);
        held().lend_again(lent).unwrap();
        assert_eq!(mode(), before);
    }
    // As the set-group-id bit of a directory, which is for what is made in it.
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::set_permissions(dir.path().join("d"), Permissions::from_mode(0o2775)).unwrap();
    assert_eq!(place.hold(&path("d")).unwrap().end_lent_rights().unwrap(), 0);
}

#[test]
fn times_alone_leave_rights_as_they_are() {
    let (dir, place) = place();
    let file = dir.path().join("a");
    fs::write(&file, "a").unwrap();
    let held = place.hold(&path("a")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
    assert!(held.set_times(&attributes(0o100_777)).unwrap());
    let found = fs::metadata(&file).unwrap();
    assert_eq!((found.mode() & 0o7777, found.mtime()), (0o604, 1_000_000_000));
}
