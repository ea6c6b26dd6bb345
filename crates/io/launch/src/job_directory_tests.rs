use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

fn base() -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let base = temporary.path().join("forebay-base");
    (temporary, base)
}

#[test]
fn created_once_private_and_removed_with_its_base() {
    let (_temporary, base) = base();
    let directory = JobDirectory::create(&base, "train").unwrap().unwrap();
    assert!(JobDirectory::create(&base, "train").unwrap().is_none());
    assert_eq!(fs::metadata(directory.path()).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(JobDirectory::jobs(std::slice::from_ref(&base)), ["train"]);
    assert_eq!(JobDirectory::find(std::slice::from_ref(&base), "train").unwrap(), Some(directory.clone()));
    directory.make_logs().unwrap();
    fs::write(directory.log(NodeRank(0)), "x").unwrap();
    fs::create_dir_all(directory.view().join("3")).unwrap();
    directory.remove().unwrap();
    assert!(!base.exists());
    directory.remove().unwrap();
}

#[test]
fn a_base_that_was_there_before_stays() {
    let (_temporary, base) = base();
    DirBuilder::new().mode(0o700).create(&base).unwrap();
    for name in ["one", "two"] {
        JobDirectory::create(&base, name).unwrap().unwrap().remove().unwrap();
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
    }
    let directory = JobDirectory::create(&base, "three").unwrap().unwrap();
    directory.remove_if_empty();
    assert!(base.exists() && !directory.path().exists());
}

#[test]
fn shared_directories_go_when_they_are_empty_and_were_made_here() {
    let (temporary, base) = base();
    let directory = JobDirectory::create(&base, "job").unwrap().unwrap();
    let [made, used, kept] = ["made", "used", "kept"].map(|name| temporary.path().join(name));
    fs::create_dir(&kept).unwrap();
    for path in [&made, &used, &kept, &made] {
        directory.make_shared(path).unwrap();
    }
    fs::write(used.join("file"), "x").unwrap();
    directory.remove_shared();
    assert!(!made.exists() && used.exists() && kept.exists());
    directory.remove().unwrap();
}

#[test]
fn strange_files_beside_burst_mounts_are_moved_out_and_the_job_is_removed() {
    let (_temporary, base) = base();
    let directory = JobDirectory::create(&base, "job").unwrap().unwrap();
    // A node that was interrupted at its start has left directories, which are not in its way.
    fs::create_dir_all(directory.burst().join("0/ckpt")).unwrap();
    fs::create_dir_all(directory.burst().join("1")).unwrap();
    let strange = directory.burst().join("1/file");
    fs::write(&strange, "").unwrap();
    fs::write(directory.burst().join(base::MARK), "").unwrap();
    assert_eq!(directory.strays(), Vec::<std::path::PathBuf>::new());
    directory.remove().unwrap();
    assert!(!directory.path().exists() && JobDirectory::jobs(std::slice::from_ref(&base)).is_empty());
    let strays = directory.strays();
    assert!(strays.len() == 1 && strays[0].join("1/file").exists(), "{strays:?}");
    fs::remove_dir_all(&strays[0]).unwrap();
    let again = JobDirectory::create(&base, "job").unwrap().unwrap();
    again.remove().unwrap();
    assert_eq!(fs::read_dir(&base).map_or(0, |entries| entries.count()), 0, "nothing of it stays");
}

#[test]
fn another_job_keeps_the_base() {
    let (_temporary, base) = base();
    let one = JobDirectory::create(&base, "one").unwrap().unwrap();
    let two = JobDirectory::create(&base, "two").unwrap().unwrap();
    one.remove().unwrap();
    assert!(two.path().exists());
    two.remove().unwrap();
    assert!(!base.exists(), "it goes with the last");
}

#[test]
fn a_view_with_something_in_it_is_never_walked() {
    let (_temporary, base) = base();
    let directory = JobDirectory::create(&base, "job").unwrap().unwrap();
    let inside = directory.view().join("0/precious");
    fs::create_dir_all(&inside).unwrap();
    assert!(directory.remove().is_err());
    assert!(inside.exists());
}

#[test]
fn paths_that_others_could_have_prepared_are_refused() {
    let (temporary, base) = base();
    let elsewhere = temporary.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &base).unwrap();
    let message = JobDirectory::create(&base, "job").unwrap_err().to_string();
    assert!(message.contains("not a directory"), "{message}");
    fs::remove_file(&base).unwrap();

    fs::create_dir(&base).unwrap();
    fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
    let message = JobDirectory::create(&base, "job").unwrap_err().to_string();
    assert!(message.contains("mode 0755"), "{message}");
    fs::set_permissions(&base, fs::Permissions::from_mode(0o700)).unwrap();

    symlink(&elsewhere, base.join("job")).unwrap();
    assert!(matches!(JobDirectory::create(&base, "job"), Err(LaunchError::Unsafe { .. })));
    assert!(matches!(JobDirectory::find(std::slice::from_ref(&base), "job"), Err(LaunchError::Unsafe { .. })));
}

#[test]
fn entries_that_are_no_jobs_do_not_hide_jobs() {
    let (temporary, base) = base();
    let other = temporary.path().join("other");
    JobDirectory::create(&base, "job").unwrap().unwrap();
    for stray in ["file", "train"] {
        fs::write(base.join(stray), "").unwrap();
    }
    fs::create_dir(base.join("open")).unwrap();
    fs::set_permissions(base.join("open"), fs::Permissions::from_mode(0o755)).unwrap();
    let train = JobDirectory::create(&other, "train").unwrap();
    let bases = [base, other];
    assert_eq!(JobDirectory::jobs(&bases), ["job", "train"]);
    assert_eq!(JobDirectory::find(&bases, "train").unwrap(), train);
    let mut no_jobs: Vec<String> = JobDirectory::no_jobs(&bases).iter().map(ToString::to_string).collect();
    no_jobs.sort();
    let [file, open, train] = &no_jobs[..] else { panic!("{no_jobs:?}") };
    assert!(file.contains("/file ") && train.contains("/train "), "{no_jobs:?}");
    assert!(open.contains("/open is not safe to use: others may enter it (mode 0755)"), "{open}");
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    if uid() != 0 {
        println!("skipped: only root can make a directory of somebody else");
        assert!(std::env::var_os("CI").is_none(), "must not be skipped in CI");
        return;
    }
    let (_temporary, base) = base();
    fs::create_dir(&base).unwrap();
    std::os::unix::fs::chown(&base, Some(65_534), None).unwrap();
    let message = JobDirectory::create(&base, "job").unwrap_err().to_string();
    assert!(message.contains("belongs to user 65534"), "{message}");
}

#[test]
fn names_that_are_no_names() {
    for name in ["", ".", "..", "-x", "a/b", "a b", &"x".repeat(49)] {
        assert!(matches!(check_job_name(name), Err(LaunchError::JobName { .. })), "{name:?}");
    }
    check_job_name("slurm-12_a.b").unwrap();
}

#[test]
fn a_path_too_long_for_a_socket_is_refused_before_anything_is_made() {
    let (temporary, _) = base();
    let base = temporary.path().join("x".repeat(90));
    assert!(JobDirectory::create(&base, "job").unwrap_err().to_string().contains("socket"));
    assert!(!base.exists());
}

#[test]
fn the_runtime_directory_counts_only_when_it_is_ours() {
    let (temporary, base) = base();
    assert_eq!(session_base(Some(temporary.path())), Some(temporary.path().join("forebay")));
    assert_eq!(session_base(Some(&base)), None);
    assert_eq!(session_base(Some(Path::new("relative"))), None);
    assert_eq!(session_base(None), None);
}

#[test]
fn a_path_that_cannot_be_written_down_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let temporary = tempfile::tempdir().unwrap();
    let base = temporary.path().join(OsStr::from_bytes(b"w\xff"));
    let refused = JobDirectory::create(&base, "job").unwrap_err().to_string();
    assert!(refused.contains("is not UTF-8; choose another with --directory"), "{refused}");
    assert!(!base.exists());
}
