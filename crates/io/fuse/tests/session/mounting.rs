//! How mounts begin and end, well and badly.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use forebay_fuse::{
    MountError, MountOptions, MountPointFault, ROOT_NODE, Session, SessionOptions, detach, is_mount_point, is_stale,
    mount, mount_by_fusermount, mounted_type,
};

use crate::children;
use crate::fixture::{Mounted, eventually, skip};
use crate::tree::Tree;

fn tree() -> Tree {
    let tree = Tree::new();
    tree.file(ROOT_NODE, "file", 0o644, "contents");
    tree.file(ROOT_NODE, "other", 0o644, "");
    tree
}

#[test]
fn a_mount_is_seen_in_the_table_and_gone_after_unmounting() {
    let _alone = crate::fixture::alone();
    let options = MountOptions { source: "job, 7 \\".into(), ..MountOptions::default() };
    let Some(mut mounted) = Mounted::with(tree(), &options, &SessionOptions::default()) else {
        return;
    };
    assert_eq!(mounted_type(mounted.dir.path()).as_deref(), Some("fuse.forebay"));
    assert!(!is_stale(mounted.dir.path()));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let dir = mounted.dir.path().to_str().unwrap();
    let line = mounts.lines().find(|line| line.contains(dir)).unwrap();
    assert!(line.starts_with("job,\\0407\\040\\134 "), "{line}");
    for word in ["ro", "nosuid", "nodev", "default_permissions"] {
        assert!(line.split([' ', ',']).any(|found| found == word), "{word} in {line}");
    }
    mounted.mount.take().unwrap().unmount().unwrap();
    mounted.session.wait();
    assert!(mounted.session.is_ended());
    assert!(!is_mount_point(mounted.dir.path()));
    assert_eq!(fs::read_dir(mounted.dir.path()).unwrap().count(), 0);
}

#[test]
fn dropping_a_mount_unmounts_and_ends_the_session() {
    let _alone = crate::fixture::alone();
    let Some(mut mounted) = Mounted::new(tree()) else {
        return;
    };
    drop(mounted.mount.take());
    mounted.session.wait();
    assert!(!is_mount_point(mounted.dir.path()));
}

#[test]
fn a_session_stops_while_a_file_is_open_and_its_reader_gets_an_error() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = Mounted::new(tree()) else { return };
    // Once read and closed: the kernel knows then that it need not ask before it closes a file, here or in a child that
    // another test forks meanwhile.
    fs::read(mounted.path("other")).unwrap();
    let open = fs::File::open(mounted.path("file")).unwrap();
    let Mounted { mount, session, tree, dir } = mounted;
    mount.unwrap().unmount().unwrap();
    assert!(!session.is_ended(), "the open file keeps the connection");
    session.stop();
    assert!(session.is_ended());
    drop((session, tree));
    // The last share of the descriptor is gone: nobody waits for ever.
    let error = std::io::read_to_string(&open).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    drop(dir);
}

#[test]
fn a_mount_that_somebody_else_unmounted_leaves_the_next_one_alone() {
    let _alone = crate::fixture::alone();
    let Some(mut mounted) = Mounted::new(tree()) else {
        return;
    };
    detach(mounted.dir.path()).unwrap();
    mounted.session.wait();
    let second = mount(mounted.dir.path(), &MountOptions::default()).unwrap();
    let session = Session::start(second.descriptor(), &SessionOptions::default(), Arc::new(tree())).unwrap();
    drop(mounted.mount.take());
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "contents");
    second.unmount().unwrap();
    session.wait();
}

#[test]
fn bad_mount_points_are_named() {
    let _alone = crate::fixture::alone();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let cases = [
        (dir.path().join("absent"), MountPointFault::Missing),
        (dir.path().join("absent/below"), MountPointFault::Missing),
        (file.clone(), MountPointFault::NotDirectory),
        (file.join("below"), MountPointFault::NotDirectory),
    ];
    for (path, expected) in cases {
        match mount(&path, &MountOptions::default()) {
            Err(MountError::MountPoint { fault, .. }) => assert_eq!(fault, expected, "{}", path.display()),
            other => panic!("{}: {other:?}", path.display()),
        }
    }
}

#[test]
fn a_mount_whose_daemon_died_is_stale_and_can_be_replaced() {
    let _alone = crate::fixture::alone();
    let dir = tempfile::tempdir().unwrap();
    let child = children::command("mount-and-die").arg(dir.path()).output().unwrap();
    match child.status.code() {
        Some(children::DONE) => {}
        Some(children::CANNOT_MOUNT) => return skip("this machine cannot mount"),
        _ => panic!("{child:?}"),
    }
    assert_eq!(mounted_type(dir.path()).as_deref(), Some("fuse.forebay"));
    assert!(is_stale(dir.path()));
    match mount(dir.path(), &MountOptions::default()) {
        Err(error @ MountError::Stale { .. }) => {
            assert!(error.to_string().contains("fusermount3 -u -z"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    detach(dir.path()).unwrap();
    assert!(!is_mount_point(dir.path()) && !is_stale(dir.path()));
    let mounted = mount(dir.path(), &MountOptions::default()).unwrap();
    let session = Session::start(mounted.descriptor(), &SessionOptions::default(), Arc::new(tree())).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "contents");
    mounted.unmount().unwrap();
    session.wait();
}

/// In the child process: serves a mount and exits without unmounting.
pub fn mount_and_die(dir: &Path) -> i32 {
    let mounted = match mount(dir, &MountOptions::default()) {
        Ok(mounted) => mounted,
        Err(error) => {
            eprintln!("{error}");
            return children::CANNOT_MOUNT;
        }
    };
    let session = Session::start(mounted.descriptor(), &SessionOptions::default(), Arc::new(tree())).unwrap();
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "contents");
    std::mem::forget((mounted, session));
    children::DONE
}

#[test]
fn fusermount_mounts_and_the_session_runs_on_what_it_sends() {
    let _alone = crate::fixture::alone();
    let dir = tempfile::tempdir().unwrap();
    let options = MountOptions { source: "a,b".into(), ..MountOptions::default() };
    if !Path::new("/dev/fuse").exists() {
        return skip("this machine has no /dev/fuse");
    }
    let mounted = match mount_by_fusermount(dir.path(), &options) {
        Ok(mounted) => mounted,
        Err(error) if error.to_string().contains("not installed") => return skip(&error.to_string()),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(mounted.how(), "fusermount3");
    let session = Session::start(mounted.descriptor(), &SessionOptions::default(), Arc::new(tree())).unwrap();
    assert_eq!(mounted_type(dir.path()).as_deref(), Some("fuse.forebay"));
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "contents");
    mounted.unmount().unwrap();
    eventually("the session ends", || session.is_ended());
}

#[test]
fn messages_of_fusermount_are_passed_on() {
    let _alone = crate::fixture::alone();
    let dir = tempfile::tempdir().unwrap();
    // The kernel takes one page of options at most.
    let options = MountOptions { source: "x".repeat(8000), ..MountOptions::default() };
    match mount_by_fusermount(dir.path(), &options) {
        Err(error @ MountError::NotPermitted { .. }) => {
            let text = error.to_string();
            assert!(text.contains("fusermount3"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!is_mount_point(dir.path()));
}

/// As by a process that ends while one of its threads is held: what it has open stays open.
#[test]
fn a_connection_that_is_given_up_ends_though_shares_of_it_are_left() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = Mounted::new(tree()) else { return };
    fs::read(mounted.path("other")).unwrap();
    let open = fs::File::open(mounted.path("file")).unwrap();
    let Mounted { mount, session, tree, dir } = mounted;
    let mount = mount.unwrap();
    let share = mount.descriptor();
    mount.unmount().unwrap();
    session.stop();
    session.disconnect();
    let error = std::io::read_to_string(&open).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    drop((share, session, tree, dir));
}
