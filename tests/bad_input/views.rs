//! Places where no view can be, and views that a crash has left.

use std::fs;
use std::path::Path;
use std::time::Duration;

use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, compare, require, tree};

use crate::{FAILED, fails, up};

fn up_at(sandbox: &Sandbox, nodes: &str, view: &Path) -> forebay_tests::Finished {
    let source = sandbox.source();
    up(
        sandbox,
        &["--local", nodes, "--export", source.to_str().unwrap(), "--view", view.to_str().unwrap()].map(Into::into),
    )
}

#[test]
fn a_view_whose_parent_does_not_exist() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let view = sandbox.base().join("no/where");
    let done = up_at(&sandbox, "1", &view);
    fails(&sandbox, &done, FAILED, &[view.to_str().unwrap(), "does not exist"]);
    assert!(!sandbox.base().join("no").exists(), "nothing was made");
}

#[test]
fn a_view_that_is_not_empty() {
    require!(Fuse, Root);
    for nodes in ["1", "3"] {
        let sandbox = Sandbox::new();
        let last = sandbox.base().join(if nodes == "1" { "mine/0" } else { "mine/2" });
        fs::create_dir_all(&last).unwrap();
        tree::write(&last.join("precious"), b"kept");
        let done = up_at(&sandbox, nodes, &sandbox.base().join("mine"));
        fails(&sandbox, &done, FAILED, &[last.to_str().unwrap(), "not empty"]);
        assert_eq!(fs::read(last.join("precious")).unwrap(), b"kept");
    }
}

#[test]
fn a_view_that_is_a_file() {
    require!(Fuse, Root);
    for nodes in [&["--local", "1"][..], &[]] {
        let sandbox = Sandbox::new();
        let (source, view) = (sandbox.source(), sandbox.base().join("file"));
        tree::write(&view, b"kept");
        let rest = ["--export", source.to_str().unwrap(), "--view", view.to_str().unwrap()];
        let done = up(&sandbox, &[nodes, &rest].concat().into_iter().map(Into::into).collect::<Vec<_>>());
        let words = [view.to_str().unwrap(), "not a directory", "choose another with --view"];
        fails(&sandbox, &done, FAILED, &words);
        assert_eq!(fs::read(&view).unwrap(), b"kept");
    }
}

#[test]
fn a_view_that_the_user_may_not_write_to() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    let view = sandbox.base().join("of-root");
    fs::create_dir(&view).unwrap();
    let source = sandbox.source();
    let options = ["--export", source.to_str().unwrap(), "--view", view.to_str().unwrap()];
    let done = up(&sandbox, &options.map(Into::into));
    fails(
        &sandbox,
        &done,
        FAILED,
        &[view.to_str().unwrap(), "may not write to it; choose another directory with --view"],
    );
}

/// A script that starts N nodes on one machine finds their views alike for N = 1; who asks for no nodes gets one view.
#[test]
fn a_single_local_node_has_a_numbered_view_and_a_host_alone_has_not() {
    require!(Fuse, Root);
    for (nodes, below) in [(&["--local", "1"][..], "0"), (&[], "")] {
        for is_named in [true, false] {
            let sandbox = Sandbox::new();
            let (source, base) = (sandbox.source(), sandbox.view());
            tree::write(&source.join("file"), b"there");
            let named = ["--view", base.to_str().unwrap()];
            let view: &[&str] = if is_named { &named } else { &[] };
            let all = [nodes, view, &["--export", source.to_str().unwrap()]].concat();
            let default = sandbox.runtime().join("forebay").join(&sandbox.name).join("view");
            let base = if is_named { base.clone() } else { default };
            let job = Job::up(sandbox, &all.into_iter().map(AsRef::as_ref).collect::<Vec<_>>());
            let expected = if below.is_empty() { base } else { base.join(below) };
            assert_eq!(job.view(0), expected);
            assert_eq!(fs::read(job.path(0, &source.join("file"))).unwrap(), b"there");
            job.down();
            assert!(!expected.exists(), "what was made goes: {}", expected.display());
        }
    }
}

/// The views of several nodes must not be made within the view of one.
#[test]
fn views_within_a_view() {
    require!(Fuse, Root);
    let first = Sandbox::new();
    let (source, view) = (first.source(), first.view());
    let arguments = ["--export", source.to_str().unwrap(), "--view", view.to_str().unwrap()];
    let job = Job::up(first, &arguments.map(AsRef::as_ref));
    let second = Sandbox::new();
    let done = up_at(&second, "2", &view);
    fails(&second, &done, FAILED, &[view.to_str().unwrap(), "mounted", "choose another directory with --view"]);
    job.kill_node(0);
    let done = up_at(&second, "2", &view);
    assert!(done.status.success() && done.stderr.contains("whose daemon had died"), "{}", done.stderr);
    let ended = run(second.command().args(["down", "--job", &second.name]));
    assert!(ended.status.success(), "{}", ended.stderr);
    job.down();
}

#[test]
fn a_view_that_another_job_has() {
    require!(Fuse, Root);
    let first = Sandbox::new();
    let (source, view) = (first.source(), first.view());
    tree::write(&source.join("file"), b"there");
    let job = Job::up_local(first, 1, &source, &[]);
    let second = Sandbox::new();
    let done = up_at(&second, "1", &view);
    fails(&second, &done, FAILED, &[job.view(0).to_str().unwrap(), "mounted"]);
    assert_eq!(fs::read(job.path(0, &source.join("file"))).unwrap(), b"there", "the first job is not disturbed");
    job.down();
}

#[test]
fn a_job_that_is_up_already() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    tree::write(&source.join("file"), b"there");
    let job = Job::up_local(sandbox, 2, &source, &[]);
    let other = job.sandbox.base().join("other");
    let done = up_at(&job.sandbox, "2", &other);
    assert_eq!(done.status.code(), Some(FAILED), "{}", done.stderr);
    crate::says(&done.stderr, &[&job.sandbox.name]);
    assert_eq!(fs::read(job.path(1, &source.join("file"))).unwrap(), b"there", "the job is not disturbed");
    assert!(!other.exists());
    job.down();
}

/// All daemons die at once, as on a node that runs out of memory; the next job of that name finds dead mounts.
#[test]
fn views_that_a_crash_has_left_are_recovered() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    let _tree = tree::Tree::build(&source, &sandbox.view());
    let job = Job::up_local(sandbox, 3, &source, &[]);
    for rank in 0..3 {
        job.kill_node(rank);
    }
    // A request that was under way when its daemon died ends with ECONNABORTED; every later one with ENOTCONN.
    wait_until("the dead view says ENOTCONN", Duration::from_secs(20), || {
        fs::metadata(job.path(2, &source)).is_err_and(|error| error.raw_os_error() == Some(107))
    });
    let again = up_at(&job.sandbox, "3", &job.sandbox.view());
    assert!(again.status.success(), "{}", again.stderr);
    compare::trees(&source.join("plain"), &job.path(2, &source.join("plain")));
    job.down();
}

#[test]
fn down_cleans_up_after_a_crash() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    let job = Job::up_local(sandbox, 3, &source, &[]);
    for rank in 0..3 {
        job.kill_node(rank);
    }
    job.down();
}

#[test]
fn down_cleans_up_when_one_of_several_has_crashed() {
    require!(Fuse, Root);
    for victim in 0..3 {
        let sandbox = Sandbox::new();
        let source = sandbox.source();
        let job = Job::up_local(sandbox, 3, &source, &["--fanout", "2"]);
        job.kill_node(victim);
        let _ = job.command("down", &[]);
        let left = job.sandbox.left();
        assert!(left.is_empty(), "after the death of {victim}: {left:#?}");
        // A second `down` finds no job to take down: it says so, and prints no more.
        let again = job.command("down", &[]).good();
        crate::says(&again.text(), &["nothing to end", &job.sandbox.name]);
        job.forget();
    }
}

#[test]
fn a_view_in_use_is_taken_down_all_the_same() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    tree::write(&source.join("file"), b"open");
    let job = Job::up_local(sandbox, 1, &source, &[]);
    let file = fs::File::open(job.path(0, &source.join("file"))).unwrap();
    job.down();
    drop(file);
}
