//! Views that another user could move: none is mounted in a directory of his, and where he gets at one later, nothing of his
//! is run and the mount goes all the same. Two real users: the job's is `nobody`, the other one `STRANGER`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use forebay_tests::job::{NOBODY, as_user};
use forebay_tests::program::{Finished, run};
use forebay_tests::{Job, Sandbox, require, tree};

use crate::{FAILED, fails, says};

/// The user who is not the job's.
const STRANGER: u32 = 65_533;

/// A directory of `owner` with this mode, which everybody can reach, gone with it.
fn directory_of(owner: u32, mode: u32) -> tempfile::TempDir {
    let made = tempfile::Builder::new().prefix("forebay-test-").tempdir().unwrap();
    chown(made.path(), Some(owner), Some(owner)).unwrap();
    fs::set_permissions(made.path(), fs::Permissions::from_mode(mode)).unwrap();
    made
}

/// A shell of the other user, with `$view` and `$source`.
fn stranger(script: &str, view: &Path, source: &Path) -> Finished {
    let mut shell = as_user(STRANGER, Path::new("sh"));
    shell.args(["-euc", script]).env("view", view).env("source", source).current_dir("/");
    run(&mut shell).good()
}

/// He puts a program of his where the view of the first node shows one of the job's user.
const PLANT: &str = r#"mv "$view" "$view-away"; mkdir -p "$view/0$source"; cd "$view/0$source"
    printf '#!/bin/sh\necho planted\n' > tool; chmod 755 tool"#;

/// A program of the job's user, in a source of his.
fn sandbox() -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::of_nobody();
    let tool = sandbox.source().join("tool");
    tree::write(&tool, b"#!/bin/sh\necho own\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    (sandbox, tool)
}

fn arguments(sandbox: &Sandbox, view: &Path) -> [String; 6] {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    ["--local".into(), "2".into(), "--export".into(), text(&sandbox.source()), "--view".into(), text(view)]
}

/// Mount points of the job, wherever they are.
fn mounts(job: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let is_of_job = |line: &&str| line.starts_with("forebay:") && line.contains(job);
    mounts.lines().filter(is_of_job).map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_view_in_a_directory_that_others_may_change() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    let closed = |mode| directory_of(NOBODY, mode);
    let others = [
        (directory_of(STRANGER, 0o777), "belongs to user 65533"),
        (closed(0o757), "others may write to it"),
        (closed(0o775), "others may write to it"),
        (directory_of(STRANGER, 0o1777), "belongs to user 65533"),
    ];
    for (foreign, why) in &others {
        for view in [foreign.path().join("v"), foreign.path().to_owned()] {
            let (sandbox, _) = sandbox();
            let given = arguments(&sandbox, &view);
            let done = sandbox.up(&given.each_ref().map(AsRef::as_ref));
            let name = foreign.path().to_str().unwrap();
            fails(&sandbox, &done, FAILED, &[name, why, "choose another directory with --view"]);
            assert_eq!(fs::read_dir(foreign.path()).unwrap().count(), 0, "nothing was made in it");
        }
    }
}

/// In a directory like `/tmp` one's own is safe, and another user's is not, whatever it is called by.
#[test]
fn a_view_in_a_sticky_directory() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    let shared = directory_of(0, 0o1777);
    let theirs = shared.path().join("theirs");
    let _ = stranger(r#"mkdir "$view"; chmod 777 "$view"; ln -s /tmp "$view-link""#, &theirs, Path::new("/"));
    for view in [theirs.join("v"), theirs] {
        let (sandbox, _) = sandbox();
        let given = arguments(&sandbox, &view);
        let done = sandbox.up(&given.each_ref().map(AsRef::as_ref));
        fails(&sandbox, &done, FAILED, &["belongs to user 65533", "choose another directory with --view"]);
    }
    let (sandbox, tool) = sandbox();
    let own = shared.path().join("own");
    let given = arguments(&sandbox, &own);
    let job = Job::up(sandbox, &given.each_ref().map(AsRef::as_ref));
    assert_eq!(job.command("run", &["--view".as_ref(), "--".as_ref(), tool.as_ref()]).good().text(), "own\n");
    job.down();
    assert!(!own.exists());
}

/// The job's user lets others into the directory above the view while the job runs.
#[test]
fn a_view_that_another_user_moved_runs_nothing_of_his_and_goes() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    let (sandbox, tool) = sandbox();
    let above = directory_of(NOBODY, 0o755);
    let view = above.path().join("v");
    let given = arguments(&sandbox, &view);
    let job = Job::up(sandbox, &given.each_ref().map(AsRef::as_ref));
    fs::set_permissions(above.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let run_it = |words: &[&str]| {
        let all: Vec<_> = words.iter().map(AsRef::as_ref).chain([tool.as_os_str()]).collect();
        job.command("run", &all)
    };
    assert_eq!(run_it(&["--rank", "1", "--"]).good().text(), "own\n", "by its mount the view is the job's still");
    let open = run_it(&["--view", "--"]);
    assert_eq!(open.status.code(), Some(125), "{} {}", open.text(), open.stderr);
    says(&open.stderr, &[above.path().to_str().unwrap(), "others may write to it"]);

    let _ = stranger(PLANT, &view, &job.sandbox.source());
    for words in [&["--rank", "0", "--"][..], &["--rank", "0", "--view", "--"]] {
        let refused = run_it(words);
        assert_eq!(refused.text(), "", "another user's program was run: {words:?}");
        assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr);
        says(&refused.stderr, &[view.join("0").to_str().unwrap(), "is not the view of node 0"]);
    }
    let name = job.sandbox.name.clone();
    assert_eq!(mounts(&name).len(), 2);
    let down = job.command("down", &[]);
    assert_eq!(mounts(&name), Vec::<String>::new(), "mounts stay: {} {}", down.text(), down.stderr);
    job.forget();
}

/// The same when nobody of the job is left to unmount it.
#[test]
fn a_view_that_was_moved_goes_when_its_keeper_has_died() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    let (sandbox, _) = sandbox();
    let above = directory_of(NOBODY, 0o755);
    let view = above.path().join("v");
    let given = arguments(&sandbox, &view);
    let job = Job::up(sandbox, &given.each_ref().map(AsRef::as_ref));
    fs::set_permissions(above.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let _ = stranger(PLANT, &view, &job.sandbox.source());
    (0..2).for_each(|rank| job.kill_node(rank));
    let down = job.command("down", &[]);
    let left = mounts(&job.sandbox.name);
    assert_eq!(left, Vec::<String>::new(), "mounts stay: {} {}", down.text(), down.stderr);
    let planted = view.join("0").join(job.sandbox.source().strip_prefix("/").unwrap()).join("tool");
    assert!(planted.exists(), "what is not ours stays");
    job.forget();
}
