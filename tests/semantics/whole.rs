//! The standard tree as a whole, by names, attributes, link targets and bytes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, compare, on_both, require};
use rustix::fs::statvfs;

on_both!(equals_its_source, |site| {
    compare::trees(&site.source(""), &site.view(""));
});

on_both!(equals_its_source_when_asked_again, |site| {
    let directory = site.view("plain");
    compare::trees(&site.source("plain"), &directory);
    compare::trees(&site.source("plain"), &directory);
});

on_both!(hard_links_are_one_file, |site| {
    let inode = |name| fs::metadata(site.view(name)).unwrap();
    let (file, hard, other) = (inode("links/file"), inode("links/hard"), inode("links/other/hard"));
    assert_eq!((file.ino(), file.dev()), (hard.ino(), hard.dev()));
    assert_eq!((file.ino(), file.dev()), (other.ino(), other.dev()));
    assert_eq!(file.nlink(), 3);
});

on_both!(links_are_followed, |site| {
    assert_eq!(fs::read(site.view("links/relative")).unwrap(), b"linked\n");
    assert_eq!(fs::read(site.view("links/up")).unwrap().len(), 1);
    assert_eq!(fs::read(site.view("links/directory/hard")).unwrap(), b"linked\n");
    let error = |name| fs::read(site.view(name)).unwrap_err().raw_os_error();
    assert_eq!(error("links/dangling"), Some(2), "ENOENT");
    assert_eq!(error("links/loop"), Some(40), "ELOOP");
    assert_eq!(fs::read_link(site.view("links/long")).unwrap().as_os_str().len(), 4000);
});

on_both!(one_device_for_all_files, |site| {
    let device = |name| fs::symlink_metadata(site.view(name)).unwrap().dev();
    assert_eq!(device("plain"), device("links/file"));
    assert_ne!(device("plain"), fs::metadata(site.source("plain")).unwrap().dev());
});

on_both!(file_system_figures_are_the_backing_ones, |site| {
    let source = statvfs(site.source("")).unwrap();
    for path in ["", "plain/1", "special"] {
        let view = statvfs(site.view(path)).unwrap();
        let figures = |s: &rustix::fs::StatVfs| (s.f_blocks, s.f_frsize, s.f_bsize, s.f_files, s.f_namemax);
        assert_eq!(figures(&source), figures(&view), "of {path:?}");
    }
});

on_both!(the_way_to_the_export_is_shown, |site| {
    let view = site.job().view(site.rank());
    let first = site.source("").components().nth(1).unwrap().as_os_str().to_owned();
    let names: Vec<_> = compare::names(view).into_iter().collect();
    assert_eq!(names, [first], "the root shows the way to the export and nothing else");
    let above = site.view("").parent().unwrap().to_owned();
    assert_eq!(compare::names(&above).into_iter().collect::<Vec<_>>(), [OsStr::new("source")]);
    let neighbour = fs::metadata(above.join("run")).unwrap_err();
    assert_eq!(neighbour.raw_os_error(), Some(2), "what is not exported does not exist");
});

/// Of a file system that is not the host's root, and as other users of it fill it.
#[test]
fn file_system_figures_are_those_of_the_export() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let export = sandbox.base().join("export");
    fs::create_dir(&export).unwrap();
    let _ = run(Program::new("mount").args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"]).arg(&export)).good();
    let job = Job::up_local(sandbox, 3, &export, &["--fanout", "2"]);
    let figures = |path: &Path| {
        let figures = statvfs(path).unwrap();
        (figures.f_blocks * figures.f_frsize, figures.f_bfree * figures.f_frsize)
    };
    let mut before = u64::MAX;
    for number in 0..3 {
        for node in 0..3 {
            let view = job.path(node, &export);
            wait_until("the view shows what is free", Duration::from_secs(60), || figures(&view) == figures(&export));
        }
        assert!(figures(&export).1 < before, "the test's own file takes room");
        before = figures(&export).1;
        fs::write(export.join(number.to_string()), vec![0; 1 << 20]).unwrap();
    }
    let _ = run(Program::new("umount").arg("--lazy").arg(&export)).good();
    job.down();
}
