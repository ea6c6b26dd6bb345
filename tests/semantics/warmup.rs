//! `warmup`: data are at the nodes before programs ask for them, and what could not be brought is named.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::{Site, require, tree};
use serde_json::{Value, json};

/// With more, a chunk of a home that is late on a busy machine is read by another one, too.
const NODES: usize = 2;

/// Sizes around pieces, chunks and rows, and small ones.
const SIZES: [usize; 6] = [0, 5_000, 300_000, 1 << 20, (4 << 20) + 1, 9 << 20];

fn build(source: &Path) {
    std::fs::create_dir_all(source.join("set/below")).unwrap();
    for (number, size) in SIZES.into_iter().enumerate() {
        tree::write(&source.join(format!("set/{number}.bin")), &tree::contents(size));
        tree::write(&source.join(format!("set/below/{number}.bin")), &tree::contents(size));
    }
    std::os::unix::fs::symlink("../other.bin", source.join("set/link.bin")).unwrap();
    std::os::unix::fs::symlink("..", source.join("set/up")).unwrap();
    // A walk that followed these would not end.
    std::os::unix::fs::symlink(".", source.join("set/here")).unwrap();
    std::os::unix::fs::symlink("below", source.join("set/again")).unwrap();
    tree::write(&source.join("other.bin"), &tree::contents(2 << 20));
}

fn set_bytes() -> u64 {
    2 * SIZES.iter().sum::<usize>() as u64 + (2 << 20)
}

fn status(site: &Site) -> Value {
    serde_json::from_str(&site.job().command("status", &["--json".as_ref()]).good().text()).unwrap()
}

fn backing_bytes(site: &Site) -> u64 {
    status(site)["totals"]["backing"]["bytes"].as_u64().unwrap()
}

fn read_all(site: &Site, nodes: usize) {
    for rank in 0..nodes {
        for (number, size) in SIZES.into_iter().enumerate() {
            for file in [format!("set/{number}.bin"), format!("set/below/{number}.bin")] {
                let mut read = Vec::new();
                File::open(site.job().path(rank, &site.source(&file))).unwrap().read_to_end(&mut read).unwrap();
                assert!(read == tree::contents(size), "{file} at node {rank}");
            }
        }
    }
}

fn warm_up(site: &Site, words: &[&str], path: &str) -> (Option<i32>, Vec<Value>, String) {
    let source = site.source(path);
    let arguments: Vec<&std::ffi::OsStr> =
        words.iter().map(AsRef::as_ref).chain(["--json".as_ref(), source.as_os_str()]).collect();
    let finished = site.job().command("warmup", &arguments);
    let lines = finished.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (finished.status.code(), lines, finished.stderr.clone())
}

#[test]
fn what_is_spread_is_read_once_and_by_no_program() {
    require!(Fuse, Root);
    let site = Site::with_options(NODES as u32, &[], build);
    let (status, lines, _) = warm_up(&site, &["--spread"], "set");
    let last = lines.last().unwrap();
    assert_eq!((status, &last["done"]), (Some(0), &json!(true)), "{last}");
    assert_eq!(last["files"], json!(2 * SIZES.len() + 1), "the link is followed, those to directories are not: {last}");
    assert_eq!(
        (&last["files_done"], &last["bytes_done"], &last["bytes"]),
        (&last["files"], &json!(set_bytes()), &json!(set_bytes()))
    );
    let brought = backing_bytes(&site);
    assert!((set_bytes()..set_bytes() + (1 << 20)).contains(&brought), "each byte once: {brought} of {}", set_bytes());
    read_all(&site, NODES);
    // A home that is late on a busy machine is not the only one that is asked.
    assert!(
        backing_bytes(&site) <= brought + (1 << 20),
        "no program waits for the backing file system: {brought} before"
    );
    // Again, it costs questions.
    let before = backing_bytes(&site);
    assert_eq!(warm_up(&site, &[], "set").0, Some(0));
    assert_eq!(backing_bytes(&site), before);
}

#[test]
fn what_is_brought_to_each_is_in_every_kernel() {
    require!(Fuse, Root);
    let site = Site::with_options(NODES as u32, &[], build);
    assert_eq!(warm_up(&site, &["--each"], "set").0, Some(0));
    let brought = backing_bytes(&site);
    assert!(brought < set_bytes() + (1 << 20), "each byte once: {brought} of {}", set_bytes());
    let reads = |site: &Site| -> Vec<u64> {
        let nodes = status(site)["nodes"].as_array().unwrap().clone();
        nodes.iter().map(|node| node["kernel"]["messages"]["read"].as_u64().unwrap_or(0)).collect()
    };
    let before = reads(&site);
    read_all(&site, NODES);
    assert_eq!((backing_bytes(&site), reads(&site)), (brought, before), "the kernels had all of it");
}

/// Each node sends chunks on that others have named it for.
#[test]
fn six_nodes_send_it_to_each_other() {
    require!(Fuse, Root);
    let site = Site::with_options(6, &[], build);
    assert_eq!(warm_up(&site, &["--each"], "set").0, Some(0));
    read_all(&site, 6);
    let brought = backing_bytes(&site);
    assert!(brought < 2 * set_bytes(), "{brought} of {} for 6 nodes", set_bytes());
}

#[test]
fn what_cannot_be_brought_is_named() {
    require!(Fuse, Root);
    let site = Site::with_options(2, &[], |source| {
        build(source);
        tree::write(&source.join("set/away.bin"), &tree::contents(3 << 20));
    });
    // Listed, and then gone.
    assert!(site.job().command("explain", &[site.source("set/away.bin").as_os_str()]).status.success());
    let listed = std::fs::read_dir(site.job().path(1, &site.source("set"))).unwrap().count();
    assert_eq!(listed, SIZES.len() + 6);
    std::fs::remove_file(site.source("set/away.bin")).unwrap();
    let (status, lines, said) = warm_up(&site, &[], "set");
    let last = lines.last().unwrap();
    assert_eq!((status, &last["failed_count"]), (Some(3), &json!(1)), "{last}");
    assert!(said.contains("set/away.bin: not brought: "), "{said}");
    let (status, _, said) = warm_up(&site, &[], "missing");
    assert_eq!(status, Some(1));
    assert!(said.contains("missing: not brought: "), "{said}");
    let outside = site.job().command("warmup", &["/proc/self".as_ref()]);
    assert!(
        outside.status.code() == Some(1) && outside.stderr.contains("outside the job's exports"),
        "{}",
        outside.stderr
    );
    // It keeps no other from being brought.
    let both =
        site.job().command("warmup", &["--json".as_ref(), site.source("set").as_os_str(), "/proc/self".as_ref()]);
    let last: Value = serde_json::from_str(both.text().lines().last().unwrap()).unwrap();
    // The other one is the file that is gone.
    assert_eq!((both.status.code(), &last["failed_count"]), (Some(3), &json!(2)), "{last}");
    assert_eq!(last["failed"][1]["path"], "/proc/self");
    assert!(last["files_done"].as_u64() > Some(1) && both.stderr.contains("/proc/self: not brought: "), "{last}");
}

#[test]
fn what_a_program_announces_is_read_ahead_of_it() {
    require!(Fuse, Root);
    let site = Site::with_options(NODES as u32, &[], build);
    let files: Vec<String> =
        [3, 4, 5].iter().map(|number| site.source(format!("set/{number}.bin")).display().to_string()).collect();
    let mut socket = UnixStream::connect(site.job().directory().join("node-1.sock")).unwrap();
    socket.write_all(format!("{}\n", json!({"command": "announce", "paths": files})).as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer).unwrap();
    assert_eq!(answer, "{\"ok\":{\"taken\":3}}\n");
    let bytes = SIZES[3..].iter().sum::<usize>() as u64;
    wait_until("what was announced is brought", Duration::from_secs(30), || backing_bytes(&site) >= bytes);
    let brought = backing_bytes(&site);
    for (file, size) in files.iter().zip(&SIZES[3..]) {
        let read = std::fs::read(site.job().path(1, Path::new(file))).unwrap();
        assert!(read == tree::contents(*size));
    }
    // Small files beside them may be prefetched.
    assert!(backing_bytes(&site) < brought + (1 << 20), "{brought} before");
}
