//! Extended attributes of users.

use std::path::Path;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};

use crate::bed::Bed;

const PATIENCE: Duration = Duration::from_secs(60);
const ANY: XattrFlags = XattrFlags::empty();

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 64 << 10];
    let len = getxattr(path, name, &mut bytes[..]).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

fn names(path: &Path) -> Vec<String> {
    let mut bytes = vec![0; 64 << 10];
    let len = listxattr(path, &mut bytes[..]).unwrap();
    let names = bytes[..len].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    let mut names: Vec<String> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names
}

/// The file systems of the stores and of `BACKING` know them, or this test would show nothing.
fn set(path: &Path, name: &str, bytes: &[u8]) {
    setxattr(path, name, bytes, ANY).unwrap_or_else(|errno| panic!("{}: {name}: {errno}", path.display()));
}

/// Made in the job, and there before: seen on each node, changed, landed, and kept when the leader's daemon dies.
#[test]
fn they_are_the_same_on_all_nodes_and_land() {
    require!(Fuse, Root);
    let bed = Bed::of(3);
    let there = |name: &str| bed.backing().join(name);
    std::fs::write(there("met"), "1").unwrap();
    set(&there("met"), "user.old", b"there");
    set(&there("met"), "user.gone", b"there");
    for name in ["made", "later"] {
        let _ = bed.shell_on(1, &format!("echo x > {name}; mkdir {name}.d")).good();
    }
    let on = |node: u32, name: &str| bed.mount_of(node).join(name);
    assert_eq!(value(&on(2, "met"), "user.old").as_deref(), Some(&b"there"[..]));
    assert_eq!(names(&on(0, "made")), [""; 0]);
    for name in ["met", "made", "made.d"] {
        set(&on(1, name), "user.a", name.as_bytes());
        set(&on(2, name), "user.b", b"");
    }
    removexattr(on(0, "met"), "user.gone").unwrap();
    let check = |name: &str, node: u32| {
        assert_eq!(value(&on(node, name), "user.a").as_deref(), Some(name.as_bytes()), "{name} on {node}");
        assert_eq!(value(&on(node, name), "user.b").as_deref(), Some(&b""[..]), "{name} on {node}");
        assert_eq!(value(&on(node, name), "user.gone"), None, "{name} on {node}");
    };
    let all = || (0..3).for_each(|node| ["met", "made", "made.d"].iter().for_each(|name| check(name, node)));
    all();
    let killed = bed.job.kill_daemon(0);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| pid != killed));
    all();
    bed.drain();
    all();
    for name in ["met", "made", "made.d"] {
        assert_eq!(value(&there(name), "user.a").as_deref(), Some(name.as_bytes()), "{name} has landed");
    }
    assert_eq!(names(&there("met")), ["user.a", "user.b", "user.old"]);
    // After the file.
    set(&on(2, "later"), "user.a", b"1");
    removexattr(on(1, "made"), "user.b").unwrap();
    let _ = bed.shell_on(0, "chmod 400 later made; mv later moved; ln moved linked").good();
    bed.drain();
    assert_eq!(value(&there("linked"), "user.a").as_deref(), Some(&b"1"[..]));
    assert_eq!(names(&there("made")), ["user.a"]);
    bed.job.down();
}

/// Changes of others while the job's own are on their way stay too, but for the same attributes.
#[test]
fn landing_changes_no_others() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let (here, there) = (bed.mount().join("met"), bed.backing().join("met"));
    std::fs::write(&there, "1").unwrap();
    for name in ["user.a", "user.b", "user.c", "user.d"] {
        set(&there, name, b"0");
    }
    set(&here, "user.a", b"job");
    removexattr(&here, "user.b").unwrap();
    for name in ["user.a", "user.b", "user.c", "user.new"] {
        set(&there, name, b"others");
    }
    removexattr(&there, "user.d").unwrap();
    bed.drain();
    assert_eq!(names(&there), ["user.a", "user.c", "user.new"]);
    assert_eq!(value(&there, "user.a").as_deref(), Some(&b"job"[..]));
    assert_eq!(value(&there, "user.c").as_deref(), Some(&b"others"[..]));
    bed.job.down();
}

/// Changes of others where the file has landed are seen, and stay when the job changes something else of it.
#[test]
fn those_that_others_change_stay_theirs() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let there = |name: &str| bed.backing().join(name);
    let on = |node: u32, name: &str| bed.mount_of(node).join(name);
    std::fs::write(there("met"), "1").unwrap();
    set(&there("met"), "user.old", b"there");
    let _ = bed.shell_on(1, "echo x > made; mkdir made.d").good();
    let all = ["met", "made", "made.d"];
    for name in all {
        set(&on(1, name), "user.a", b"job");
        set(&on(1, name), "user.b", b"job");
        set(&on(1, name), "user.c", b"job");
    }
    bed.drain();
    for name in all {
        set(&there(name), "user.a", b"others");
        set(&there(name), "user.new", b"others");
        removexattr(there(name), "user.c").unwrap();
    }
    let check = |path: &Path, b: &[u8]| {
        assert_eq!(value(path, "user.a").as_deref(), Some(&b"others"[..]), "{}", path.display());
        assert_eq!(value(path, "user.new").as_deref(), Some(&b"others"[..]), "{}", path.display());
        assert_eq!(value(path, "user.b").as_deref(), Some(b), "{}", path.display());
        assert_eq!(value(path, "user.c"), None, "{}", path.display());
    };
    all.iter().for_each(|name| (0..2).for_each(|node| check(&on(node, name), b"job")));
    let _ = bed.shell_on(0, "chmod g-r met made made.d").good();
    bed.drain();
    all.iter().for_each(|name| check(&there(name), b"job"));
    for name in all {
        set(&on(0, name), "user.b", b"later");
    }
    // A refusal changes nothing either.
    assert_eq!(removexattr(on(1, "made"), "user.c"), Err(rustix::io::Errno::NODATA));
    bed.drain();
    all.iter().for_each(|name| check(&there(name), b"later"));
    all.iter().for_each(|name| (0..2).for_each(|node| check(&on(node, name), b"later")));
    bed.job.down();
}

#[test]
fn calls_are_refused_as_elsewhere() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::with(2, &["--allow-other"]);
    let path = bed.mount_of(1).join("file");
    std::fs::write(&path, "x").unwrap();
    std::os::unix::fs::symlink("file", bed.mount().join("link")).unwrap();
    let errno = |outcome: Result<(), rustix::io::Errno>| outcome.err();
    use rustix::io::Errno;
    assert_eq!(errno(setxattr(&path, "user.a", b"1", XattrFlags::REPLACE)), Some(Errno::NODATA));
    assert_eq!(errno(setxattr(&path, "user.a", b"1", XattrFlags::CREATE)), None);
    assert_eq!(errno(setxattr(&path, "user.a", b"1", XattrFlags::CREATE)), Some(Errno::EXIST));
    assert_eq!(errno(removexattr(&path, "user.b")), Some(Errno::NODATA));
    assert_eq!(errno(setxattr(&path, "trusted.a", b"1", ANY)), Some(Errno::OPNOTSUPP));
    assert_eq!(errno(setxattr(bed.mount(), "user.a", b"1", ANY)), Some(Errno::PERM), "nothing of it could land");
    let lengths = "python3 -c 'import ctypes; c = ctypes.CDLL(None)
print(c.getxattr(b\"file\", b\"user.a\", None, 0), c.listxattr(b\"file\", None, 0))'";
    assert_eq!(bed.shell_on(0, lengths).good().text(), "1 7\n");
    set(&path, "user.long", &[7; 500]);
    assert_eq!(getxattr(&path, "user.long", &mut [0; 499][..]), Err(Errno::RANGE));
    let most = vec![0; 64 << 10];
    assert_eq!(errno(setxattr(&path, "user.most", &most, ANY)), Some(Errno::NOSPC));
    // As much as a file of `BACKING` takes is taken.
    let probe = bed.backing().join("probe");
    std::fs::write(&probe, "").unwrap();
    set(&probe, "user.a", b"1");
    set(&probe, "user.long", &[7; 500]);
    for kibibytes in [2, 3, 5, 60] {
        let much = vec![1; kibibytes << 10];
        let [here, there] = [&path, &probe].map(|path| errno(setxattr(path, "user.much", &much, ANY)));
        assert_eq!(here, there, "{kibibytes} KiB");
    }
    bed.drain();
    let landed = bed.backing().join("file");
    assert_eq!((names(&landed), value(&landed, "user.much")), (names(&probe), value(&probe, "user.much")));
    // A directory that others remove there is made again, and has what its files have.
    let _ = bed.shell_on(0, "mkdir d; echo x > d/file").good();
    bed.drain();
    std::fs::remove_dir_all(bed.backing().join("d")).unwrap();
    let _ = bed.shell_on(0, "echo new > d/new").good();
    let much = vec![1; 2 << 10];
    assert_eq!(errno(setxattr(bed.mount().join("d/new"), "user.much", &much, ANY)), None);
    bed.drain();
    assert_eq!(value(&bed.backing().join("d/new"), "user.much"), Some(much));
    let others = "python3 -c \"import os
os.setgroups([]); os.setgid(1234); os.setuid(1234)
try: print(os.getxattr('file', 'user.a'))
except OSError as error: print(error.errno)
try: os.setxattr('file', 'user.a', b'2')
except OSError as error: print(error.errno)\"";
    assert_eq!(bed.shell_on(0, others).good().text(), "b'1'\n13\n");
    let _ = bed.shell_on(1, "chmod 600 file").good();
    assert_eq!(bed.shell_on(0, others).good().text(), "13\n13\n");
    bed.job.down();
}

/// Each of two values has room in a file of `BACKING`, both together may have none. A trial of one knows nothing of the other.
#[test]
fn values_that_are_set_concurrently_are_taken_as_far_as_they_fit() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let much = vec![1; 2500];
    let takes = |path: &Path, name: &str| match setxattr(path, name, &much, ANY) {
        Err(rustix::io::Errno::NOSPC) => false,
        set => set.is_ok(),
    };
    let probe = bed.backing().join("probe");
    std::fs::write(&probe, "").unwrap();
    let fitting = ["user.0", "user.1"].map(|name| takes(&probe, name)).into_iter().filter(|has| *has).count();
    for round in 0..40 {
        let name = format!("file.{round}");
        std::fs::write(bed.mount().join(&name), "x").unwrap();
        let barrier = std::sync::Barrier::new(2);
        let set = |node: u32| {
            let path = bed.mount_of(node).join(&name);
            barrier.wait();
            takes(&path, &format!("user.{node}"))
        };
        let both = std::thread::scope(|scope| {
            [0, 1].map(|node| scope.spawn(move || set(node))).map(|set| set.join().unwrap())
        });
        assert_eq!(both.into_iter().filter(|has| *has).count(), fitting, "{name}: {both:?}");
    }
    bed.drain();
    bed.job.down();
}

/// Programs that copy them.
#[test]
fn programs_copy_them() {
    require!(Fuse, Root, Command("rsync"), Command("python3"));
    let bed = Bed::of(2);
    let script = "mkdir from; echo 1 > from/a; python3 -c \"import os; os.setxattr('from/a', 'user.origin', b'https'); \
                  os.setxattr('from', 'user.d', b'1')\"; cp -a from copied; rsync -aX from/ synced; tar --xattrs -cf t from";
    let _ = bed.shell_on(1, script).good();
    for copy in ["copied", "synced"] {
        assert_eq!(value(&bed.mount().join(copy).join("a"), "user.origin").as_deref(), Some(&b"https"[..]), "{copy}");
    }
    let _ = bed.shell_on(0, "mkdir out; tar --xattrs -xf t -C out").good();
    bed.drain();
    for copy in ["copied", "synced", "out/from"] {
        let landed = bed.backing().join(copy);
        assert_eq!(value(&landed.join("a"), "user.origin").as_deref(), Some(&b"https"[..]), "{copy}");
        assert_eq!(value(&landed, "user.d").as_deref(), Some(&b"1"[..]), "{copy}");
    }
    bed.job.down();
}
