//! Options that change what a reader gets, or who may read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use forebay_tests::job::as_nobody;
use forebay_tests::program::run;
use forebay_tests::{Job, Sandbox, Site, compare, require, tree};

/// Files above the size are read by the node itself, files up to it through the tree.
#[test]
fn large_files_can_be_read_directly() {
    require!(Fuse, Root);
    // Of more, a third would read what a home is late with.
    let site = Site::with_options(2, &["--direct-above", "1MiB"], |_| {});
    let nodes = || -> Vec<u64> {
        let status = site.job().status();
        status["nodes"].as_array().unwrap().iter().map(|node| node["backing"]["bytes"].as_u64().unwrap()).collect()
    };
    for rank in 0..2 {
        compare::bytes(&site.source("plain/1048576"), &site.job().path(rank, &site.source("plain/1048576")));
    }
    let before = nodes();
    // Beside it the root reads small files ahead.
    let sum: u64 = before.iter().sum();
    assert!((1 << 20..2 << 20).contains(&sum), "a file of that size is still read by one node for all: {before:?}");
    compare::bytes(&site.source("plain/9437184"), &site.view("plain/9437184"));
    let after = nodes();
    assert!(after[1] - before[1] >= 9 << 20, "the node has read the file itself");
    assert!(after[0] - before[0] < 9 << 20, "the other has not");
    compare::trees(&site.source("plain"), &site.view("plain"));
}

/// Small listings carry attributes, large ones names only: the answers are the same.
#[test]
fn the_listing_limit_changes_no_answer() {
    require!(Fuse, Root);
    for limit in ["1", "5"] {
        let site = Site::with_options(3, &["--listing-limit", limit], |_| {});
        compare::trees(&site.source(""), &site.view(""));
    }
}

/// A budget that holds next to nothing makes everything slower and nothing wrong.
#[test]
fn the_smallest_budget_changes_no_answer() {
    require!(Fuse, Root);
    let site = Site::with_options(3, &["--budget", "16MiB"], |source| {
        for index in 0..12 {
            tree::write(&source.join(format!("file-{index}")), &tree::contents((8 << 20) + index));
        }
    });
    for _ in 0..2 {
        for index in 0..12 {
            compare::bytes(&site.source(format!("file-{index}")), &site.view(format!("file-{index}")));
        }
    }
    for node in site.job().status()["nodes"].as_array().unwrap() {
        let (kept, budget) = (node["cache"]["bytes"].as_u64().unwrap(), node["budget_bytes"].as_u64().unwrap());
        assert!(kept <= budget, "node {} keeps {kept} of {budget}", node["rank"]);
    }
}

#[test]
fn others_may_enter_when_told_so_and_see_what_they_may() {
    require!(Fuse, Root, Command("setpriv"));
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    for (name, mode) in [("public", 0o644), ("private", 0o600)] {
        tree::write(&source.join(name), b"contents");
        fs::set_permissions(source.join(name), Permissions::from_mode(mode)).unwrap();
    }
    for directory in [sandbox.base(), source.clone()] {
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    }
    let job = Job::up_local(sandbox, 1, &source, &["--allow-other"]);
    let read = |name: &str| run(as_nobody("cat".as_ref()).arg(job.path(0, &source.join(name))));
    assert_eq!(read("public").good().text(), "contents");
    let refused = read("private");
    assert!(!refused.status.success() && refused.stderr.contains("ermission denied"), "{}", refused.stderr);
    job.down();
}

#[test]
fn status_has_the_documented_fields() {
    require!(Fuse, Root);
    let site = Site::new(2, |_| {});
    let _ = fs::read(site.view("plain/4096")).unwrap();
    let _ = fs::metadata(site.view("plain/none")).unwrap_err();
    let status = site.job().status();
    assert_eq!(status["job"]["name"], site.job().sandbox.name.as_str());
    let paths = [
        "rank",
        "host",
        "pid",
        "keeper_pid",
        "restarts",
        "replaced",
        "state",
        "view",
        "uptime_ms",
        "parents",
        "memory_bytes",
        "budget_bytes",
        "cache/attributes/entries",
        "cache/attributes/bytes",
        "cache/attributes/hits",
        "cache/attributes/misses",
        "cache/attributes/evicted",
        "cache/listings/entries",
        "cache/chunks/entries",
        "cache/negative_hits",
        "kernel/messages",
        "kernel/messages/lookup",
        "kernel/bytes_read",
        "overlay/requests_sent",
        "overlay/requests_served",
        "overlay/coalesced",
        "overlay/bytes_sent",
        "overlay/bytes_received",
        "overlay/reparented",
        "overlay/hedged",
        "backing/listings",
        "backing/stats",
        "backing/opens",
        "backing/reads",
        "backing/bytes",
        "backing/errors",
    ];
    for path in paths {
        for node in 0..2 {
            assert!(status.pointer(&format!("/nodes/{node}/{path}")).is_some(), "{path} of node {node}: {status:#}");
        }
    }
    assert_eq!(status["nodes"][1]["parents"], serde_json::json!([0]));
    assert_eq!(status["totals"]["backing"]["bytes"], status["nodes"][0]["backing"]["bytes"], "only the root reads");
}

#[test]
fn explain_tells_the_way_of_an_answer() {
    require!(Fuse, Root);
    let site = Site::new(7, |_| {});
    let path = site.view("plain/4096");
    let explain = |path: &std::path::Path| -> serde_json::Value {
        let explained = site.job().command("explain", &["--json".as_ref(), path.as_os_str()]).good();
        serde_json::from_slice(&explained.stdout).unwrap()
    };
    let before = explain(&path);
    let ranks: Vec<u64> = before.as_array().unwrap().iter().map(|step| step["rank"].as_u64().unwrap()).collect();
    assert_eq!(ranks, [6, 2, 0], "from the last leaf to the root: {before}");
    let _ = fs::read(&path).unwrap();
    assert_ne!(explain(&path), before, "what is kept is told");
    let missing = site.job().command("explain", &[site.view("plain/none").as_os_str()]).good().text();
    assert!(missing.contains("plain/none"), "{missing}");
}
