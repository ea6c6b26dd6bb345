//! Files beside the burst mount, which never land.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use forebay_tests::job::{NOBODY, as_nobody};
use forebay_tests::program::run;
use forebay_tests::{Sandbox, require};

use crate::bed::Bed;

/// The directories above the mount of the first node that `up` made.
fn above(bed: &Bed) -> Vec<PathBuf> {
    ["mounts", "mounts/0", "mounts/0/burst"].iter().map(|name| bed.job.sandbox.base().join(name)).collect()
}

#[test]
fn directories_above_the_burst_mount_are_closed_and_go_with_the_job() {
    require!(Fuse, Root, Command("setpriv"));
    let sandbox = Sandbox::of_nobody();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    chown(&backing, Some(NOBODY), Some(NOBODY)).unwrap();
    let bed = Bed::up(sandbox, 3);
    for directory in above(&bed) {
        let mode = directory.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o555, "{}", directory.display());
        let touched = run(as_nobody(Path::new("touch")).arg(directory.join("stray")));
        assert!(touched.stderr.contains("Permission denied"), "{touched:?}");
    }
    let written = run(as_nobody(Path::new("touch")).arg(bed.mount().join("file")));
    assert!(written.status.success(), "{written:?}");
    let made = above(&bed);
    let sandbox = bed.job.sandbox.base();
    bed.job.down();
    assert!(!made[0].exists() && !sandbox.exists(), "nothing stays");
}

/// Root can write there.
#[test]
fn files_beside_the_burst_mount_are_noted_and_hold_no_down_up() {
    require!(Fuse, Root);
    let bed = Bed::of(1);
    let place = above(&bed).pop().unwrap();
    fs::write(place.join("stray"), "x").unwrap();
    let down = bed.command(&["down"]).good();
    let note = format!("note: {} has files that were written beside the burst tier, and never land", place.display());
    assert!(down.stderr.contains(&note), "{}", down.stderr);
    assert_eq!(fs::read(place.join("stray")).unwrap(), b"x");
    bed.job.forget();
}

/// The usual place is the job's directory, which goes.
#[test]
fn files_beside_the_burst_mount_in_the_directory_of_the_job_are_moved_out() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let mut words = crate::bed::arguments(&sandbox, 1);
    let at = words.iter().position(|word| word == "--burst-mount").unwrap();
    words.drain(at..at + 2);
    let bed = Bed::up_with(sandbox, &words);
    let jobs = bed.job.sandbox.runtime().join("forebay");
    let job = jobs.join(&bed.job.sandbox.name);
    fs::write(job.join("burst/stray"), "x").unwrap();
    let down = bed.command(&["down"]).good();
    assert!(!job.exists());
    let stray = fs::read_dir(&jobs).unwrap().map(|entry| entry.unwrap().path());
    let stray = stray.map(|place| place.join("stray")).find(|stray| stray.exists()).expect("the file is kept");
    let place = stray.parent().unwrap().display().to_string();
    assert!(
        down.stderr.contains(&format!("note: {place} has files that were written beside the burst tier")),
        "{down:?}"
    );
    let nothing = bed.command(&["down"]).good();
    assert!(nothing.text().starts_with("nothing to end: "), "no job has that name: {nothing:?}");
    bed.job.forget();
}
