//! Which part of the file system a view shows: several exports, the whole root, and never the kernel's or its own.

use std::fs;
use std::path::Path;

use forebay_tests::{Job, Sandbox, compare, require, tree};

/// File systems that are a kernel's face and no files: no view shows what is in them.
const PSEUDO: [&str; 4] = ["proc", "sysfs", "devtmpfs", "cgroup2"];

#[test]
fn several_exports_are_shown_side_by_side() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    for name in ["one", "two", "three/deep"] {
        fs::create_dir_all(source.join(name)).unwrap();
        tree::write(&source.join(name).join("file"), name.as_bytes());
    }
    let second = source.join("three/deep");
    let job = Job::up_local(sandbox, 2, &source.join("one"), &["--export", second.to_str().unwrap()]);
    for rank in 0..2 {
        compare::trees(&source.join("one"), &job.path(rank, &source.join("one")));
        compare::trees(&second, &job.path(rank, &second));
        let shown: Vec<_> = compare::names(&job.path(rank, &source)).into_iter().collect();
        assert_eq!(shown, ["one", "three"], "only the way to the exports");
        let hidden = fs::metadata(job.path(rank, &source.join("two"))).unwrap_err();
        assert_eq!(hidden.raw_os_error(), Some(2), "ENOENT");
    }
    job.down();
}

#[test]
fn the_whole_root_is_shown_without_the_kernels_file_systems() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    tree::write(&sandbox.source().join("file"), b"below the root");
    let file = sandbox.source().join("file");
    let job = Job::up_local(sandbox, 3, Path::new("/"), &["--fanout", "2"]);
    for rank in 0..3 {
        assert_eq!(fs::read(job.path(rank, &file)).unwrap(), b"below the root");
        assert_eq!(compare::names(&job.path(rank, Path::new("/usr"))), compare::names(Path::new("/usr")));
        assert_eq!(fs::read(job.path(rank, Path::new("/etc/passwd"))).unwrap(), fs::read("/etc/passwd").unwrap());
        for point in pseudo_mounts() {
            let shown = fs::read_dir(job.path(rank, Path::new(&point))).map(|entries| entries.count());
            assert!(shown.as_ref().is_ok_and(|&count| count == 0) || shown.is_err(), "{point}: {shown:?}");
        }
        let own = fs::read_dir(job.path(rank, job.view(0))).map(|entries| entries.count());
        assert!(own.as_ref().map_or(true, |&count| count == 0), "a view shows no view: {own:?}");
    }
    job.down();
}

fn pseudo_mounts() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let points: Vec<_> =
        fields.filter(|fields| PSEUDO.contains(&fields[2])).map(|fields| fields[1].to_owned()).collect();
    assert!(points.iter().any(|point| point == "/proc"), "there is a /proc");
    points
}

#[test]
fn an_export_through_a_link_is_shown_where_it_leads() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let (real, link) = (sandbox.source().join("real"), sandbox.source().join("link"));
    fs::create_dir(&real).unwrap();
    tree::write(&real.join("file"), b"behind a link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let job = Job::up_local(sandbox, 1, &link, &[]);
    assert_eq!(fs::read(job.path(0, &real.join("file"))).unwrap(), b"behind a link");
    let shown: Vec<_> = compare::names(&job.path(0, &job.sandbox.source())).into_iter().collect();
    assert_eq!(shown, ["real"], "the view shows no link that is not in an export");
    job.down();
}
