//! `forebay refresh`: the whole job forgets at once, and no program is told what was before once any has been told what
//! is now.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;
use forebay_tests::{Site, compare, require, tree};

const NODES: u32 = 7;
const VERSIONS: u64 = 12;
const ESTALE: i32 = 116;
const ENOENT: i32 = 2;

/// So long that what a busy machine adds to it is little.
const INTERVAL: Duration = Duration::from_secs(2);

/// The interval, and as much again for a machine that is busy.
const OLDEST: Duration = Duration::from_secs(4);

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    tree::write(path, bytes);
}

fn refresh(site: &Site, path: &str) {
    let told = site.job().command("refresh", &[site.source(path).as_os_str()]).good().text();
    assert!(told.starts_with(&format!("refreshed on {NODES} nodes")), "{told}");
}

fn view(site: &Site, node: usize, path: &str) -> PathBuf {
    site.job().path(node, &site.source(path))
}

#[test]
fn every_node_sees_what_changed_and_nothing_of_what_was() {
    require!(Fuse);
    let site = Site::new(NODES, |source| {
        write(&source.join("env/bin/tool"), b"version 1");
        write(&source.join("env/lib/gone"), b"to be removed");
        write(&source.join("env/lib/deep/er/same"), b"untouched");
        symlink("bin/tool", source.join("env/link")).unwrap();
    });
    let all = 0..NODES as usize;
    for node in all.clone() {
        compare::trees(&site.source("env"), &view(&site, node, "env"));
        assert!(!view(&site, node, "env/lib/new").exists(), "remembered as absent");
        assert!(!view(&site, node, "env/lib/deep/er/new").exists(), "remembered as absent");
    }
    // The same size: only its times tell the new version from the old.
    write(&site.source("env/bin/tool"), b"version 2");
    fs::remove_file(site.source("env/lib/gone")).unwrap();
    write(&site.source("env/lib/new"), b"was absent");
    write(&site.source("env/lib/deep/er/new"), b"was absent too");
    fs::remove_file(site.source("env/link")).unwrap();
    symlink("lib/new", site.source("env/link")).unwrap();
    for node in all.clone() {
        assert!(view(&site, node, "env/lib/gone").exists(), "one snapshot a job, until it is refreshed");
        assert!(!view(&site, node, "env/lib/new").exists(), "one snapshot a job, until it is refreshed");
    }
    refresh(&site, "env");
    for node in all {
        compare::trees(&site.source("env"), &view(&site, node, "env"));
        assert_eq!(fs::read(view(&site, node, "env/link")).unwrap(), b"was absent");
    }
}

/// A lock is the kernel's, of an inode: it excludes whoever opens the file after the refresh only if that finds the same one.
#[test]
fn a_file_that_did_not_change_keeps_its_inode() {
    require!(Fuse);
    let site = Site::new(NODES, |source| {
        write(&source.join("env/same"), b"untouched");
        write(&source.join("env/other"), b"version 1");
    });
    let (node, leaf) = (site.rank(), view(&site, site.rank(), "env"));
    let open = |name: &str| fs::File::open(leaf.join(name)).unwrap();
    let held = ["same", "other"].map(open);
    held.iter().for_each(|file| file.lock().unwrap());
    write(&site.source("env/other"), b"version 2");
    refresh(&site, "env");
    let excludes = |name: &str| matches!(open(name).try_lock(), Err(fs::TryLockError::WouldBlock));
    assert!(excludes("same"), "node {node}: it is another inode");
    assert!(!excludes("other"), "what has changed is another inode");
    assert_eq!(std::io::read_to_string(&held[0]).unwrap(), "untouched");
}

#[test]
fn one_file_may_be_refreshed_also_one_that_was_absent() {
    require!(Fuse);
    let site = Site::new(NODES, |source| write(&source.join("inputs/a"), b"before"));
    for node in 0..NODES as usize {
        assert_eq!(fs::read(view(&site, node, "inputs/a")).unwrap(), b"before");
        assert!(!view(&site, node, "inputs/b").exists());
    }
    write(&site.source("inputs/a"), b"after");
    write(&site.source("inputs/b"), b"new");
    refresh(&site, "inputs/a");
    refresh(&site, "inputs/b");
    for node in 0..NODES as usize {
        assert_eq!(fs::read(view(&site, node, "inputs/a")).unwrap(), b"after");
        assert_eq!(fs::read(view(&site, node, "inputs/b")).unwrap(), b"new");
    }
}

/// The version that one program saw, and when.
#[derive(Clone, Copy)]
struct Seen {
    node: usize,
    began: Instant,
    ended: Instant,
    version: u64,
}

/// Programs on all nodes read a number that is counted up; however the refreshes fall between them, the number never
/// goes back: not on a node, and not from one node to another. A link leads to the number, and what it leads to stays: a
/// file that is replaced shows its next version without a refresh to whoever had not read it (`ESTALE`), perhaps on one node
/// only.
#[test]
fn a_refresh_is_atomic_for_the_job() {
    require!(Fuse);
    let site = Site::new(NODES, |source| {
        for version in 0..=VERSIONS {
            write(&source.join(format!("state/versions/{version}")), version.to_string().as_bytes());
        }
        symlink("versions/0", source.join("state/version")).unwrap();
    });
    let seen = Mutex::new(Vec::new());
    let refreshed = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for node in 0..NODES as usize {
            let (site, seen, done) = (&site, &seen, &done);
            scope.spawn(move || {
                let path = view(site, node, "state/version");
                while !done.load(Ordering::SeqCst) {
                    let began = Instant::now();
                    match fs::read_to_string(&path) {
                        Ok(text) => {
                            let version = text.parse().unwrap();
                            seen.lock().unwrap().push(Seen { node, began, ended: Instant::now(), version });
                        }
                        // It was opened before it was replaced.
                        Err(error) if error.raw_os_error() == Some(ESTALE) => {}
                        Err(error) => panic!("node {node}: {error}"),
                    }
                }
            });
        }
        for version in 1..=VERSIONS {
            symlink(format!("versions/{version}"), site.source("state/next")).unwrap();
            fs::rename(site.source("state/next"), site.source("state/version")).unwrap();
            refresh(&site, "state");
            refreshed.lock().unwrap().push((Instant::now(), version));
            // Every node has a chance to be wrong.
            let before = seen.lock().unwrap().len();
            while seen.lock().unwrap().len() < before + 3 * NODES as usize {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    let refreshes = refreshed.into_inner().unwrap().into_iter();
    let mut seen = seen.into_inner().unwrap();
    seen.extend(refreshes.map(|(at, version)| Seen { node: usize::MAX, began: at, ended: at, version }));
    assert_never_goes_back(seen);
}

/// A program that began after another had ended saw the same version, or a newer one.
fn assert_never_goes_back(mut by_end: Vec<Seen>) {
    by_end.sort_by_key(|seen| seen.ended);
    let mut by_beginning = by_end.clone();
    by_beginning.sort_by_key(|seen| seen.began);
    let (mut ended, mut newest) = (0, by_end[0]);
    for now in by_beginning {
        while by_end[ended].ended < now.began {
            if by_end[ended].version > newest.version {
                newest = by_end[ended];
            }
            ended += 1;
        }
        let was_seen = newest.ended < now.began;
        assert!(
            !was_seen || now.version >= newest.version,
            "node {} saw {} after node {} had seen {}",
            now.node,
            now.version,
            newest.node,
            newest.version
        );
    }
    assert_eq!(newest.version, VERSIONS);
}

#[test]
fn failed_refreshes_are_reported() {
    require!(Fuse);
    let site = Site::new(1, |_| {});
    let nothing = site.job().command("refresh", &[]);
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
    // A path that nobody knows is no error: nothing is known of it afterwards either.
    let _ = site.job().command("refresh", &["/no/such/path".as_ref()]).good();
    let error = fs::metadata(view(&site, 0, "no/such")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(ENOENT));
}

/// A node that others ask first, other than the root.
fn inner_node(site: &Site) -> usize {
    let status = site.job().status();
    let firsts = status["nodes"].as_array().unwrap().iter().filter_map(|node| node["parents"][0].as_u64());
    firsts.filter(|rank| *rank != 0).map(|rank| usize::try_from(rank).unwrap()).min().expect("there is a second level")
}

/// A stopped node misses a refresh: it is named, those below it are not held up, and it makes up for it when it goes on.
#[test]
fn a_node_that_missed_a_refresh_makes_up_for_it() {
    require!(Fuse);
    let site = Site::new(NODES, |source| write(&source.join("inputs/a"), b"before"));
    for node in 0..NODES as usize {
        assert_eq!(fs::read(view(&site, node, "inputs/a")).unwrap(), b"before");
        assert!(!view(&site, node, "inputs/b").exists());
    }
    write(&site.source("inputs/a"), b"after");
    write(&site.source("inputs/b"), b"new");
    let inner = inner_node(&site);
    let stopped = site.job().stop_node(inner);
    let told = site.job().command("refresh", &[site.source("inputs").as_os_str()]);
    assert_eq!(told.status.code(), Some(3), "{told:?}");
    assert!(told.text().contains(&format!("not reached: node {inner};")), "{told:?}");
    for node in (0..NODES as usize).filter(|node| *node != inner) {
        assert_eq!(fs::read(view(&site, node, "inputs/a")).unwrap(), b"after");
        assert_eq!(fs::read(view(&site, node, "inputs/b")).unwrap(), b"new");
    }
    drop(stopped);
    let made_up = || {
        let read = |path| fs::read(view(&site, inner, path)).ok();
        read("inputs/a").as_deref() == Some(b"after") && read("inputs/b").as_deref() == Some(b"new")
    };
    wait_until("the stopped node to hear of the refresh", Duration::from_secs(30), made_up);
}

/// A read that takes so long waits for a refresh.
const WAITS: Duration = Duration::from_millis(300);

/// Reads again and again until all has changed; every read must succeed, whatever it shows. Notes since when one waits.
fn read_until_after(site: &Site, node: usize, waits_since: &Mutex<Option<Instant>>) {
    let (path, began) = (view(site, node, "inputs/a"), Instant::now());
    loop {
        *waits_since.lock().unwrap() = Some(Instant::now());
        let read = fs::read(&path);
        *waits_since.lock().unwrap() = None;
        match read {
            Ok(bytes) if bytes == b"after" => return,
            Ok(bytes) => assert_eq!(bytes, b"before", "node {node}"),
            Err(error) if error.raw_os_error() == Some(ESTALE) => {}
            Err(error) => panic!("node {node}: {error}"),
        }
        assert!(began.elapsed() < Duration::from_secs(60), "node {node} still sees what was before");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A stopped leaf makes each step last a second. So the others are at the second one when their programs wait: then the node
/// that leads dies, with its keeper. The others end the refresh by themselves, and their programs see what is now.
#[test]
fn a_refresh_whose_leader_is_lost_ends_without_it() {
    require!(Fuse, Root);
    let site = Site::new(NODES, |source| write(&source.join("inputs/a"), b"before"));
    let leaf = site.rank();
    for node in 0..NODES as usize {
        assert_eq!(fs::read(view(&site, node, "inputs/a")).unwrap(), b"before");
    }
    write(&site.source("inputs/a"), b"after");
    let stopped = site.job().stop_node(leaf);
    let others: Vec<(usize, Mutex<Option<Instant>>)> = (1..leaf).map(|node| (node, Mutex::default())).collect();
    thread::scope(|scope| {
        let mut told = site.job().sandbox.command();
        told.args(["refresh", "--job", &site.job().sandbox.name]).arg(site.source("inputs"));
        let mut told = told.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for (node, waits_since) in &others {
            let site = &site;
            scope.spawn(move || read_until_after(site, *node, waits_since));
        }
        let waits = |since: &Mutex<Option<Instant>>| since.lock().unwrap().is_some_and(|since| since.elapsed() > WAITS);
        wait_until("all others hold", Duration::from_secs(20), || others.iter().all(|(_, since)| waits(since)));
        // It would have another node lead the refresh anew.
        told.kill().unwrap();
        told.wait().unwrap();
        site.job().kill_node(0);
    });
    drop(stopped);
    let has_heard = || fs::read(view(&site, leaf, "inputs/a")).is_ok_and(|bytes| bytes == b"after");
    wait_until("the stopped leaf hears of it", Duration::from_secs(30), has_heard);
}

/// The root looks just before a change, an inner node when the root has believed that for most of the interval, and a leaf when
/// the inner node has: what each of them believes, and the kernels too, adds up to no more than the interval.
#[test]
fn with_revalidate_nothing_is_older_than_the_interval() {
    require!(Fuse);
    let interval = format!("{}s", INTERVAL.as_secs());
    let site = Site::with_options(NODES, &["--revalidate", &interval], |source| {
        write(&source.join("inputs/version"), b"before");
    });
    let (inner, leaf) = (inner_node(&site), site.rank());
    let look = |node: usize| fs::read_to_string(view(&site, node, "inputs/version")).ok();
    refresh(&site, "");
    assert_eq!(look(0).as_deref(), Some("before"));
    write(&site.source("next"), b"after");
    fs::rename(site.source("next"), site.source("inputs/version")).unwrap();
    let changed = Instant::now();
    for (node, at) in [(inner, INTERVAL * 4 / 5), (leaf, INTERVAL * 8 / 5)] {
        wait_until("the next one looks", INTERVAL, || changed.elapsed() >= at);
        let _ = look(node);
    }
    let mut seen = (Duration::ZERO, None);
    wait_until("the leaf sees the change", 10 * INTERVAL, || {
        seen = (changed.elapsed(), look(leaf));
        seen.1.as_deref() == Some("after")
    });
    assert!(seen.0 < OLDEST, "the leaf showed for {:?} what was before", seen.0);
}

/// With `--revalidate` nothing has to be said: what changed is seen by all.
#[test]
fn with_revalidate_changes_are_seen_by_themselves() {
    require!(Fuse);
    let site = Site::with_options(NODES, &["--revalidate", "1s"], |source| {
        write(&source.join("inputs/a"), b"before");
        write(&source.join("inputs/gone"), b"to be removed");
        write(&source.join("inputs/same"), b"untouched");
    });
    let all = 0..NODES as usize;
    let held: Vec<fs::File> =
        all.clone().map(|node| fs::File::open(view(&site, node, "inputs/same")).unwrap()).collect();
    for node in all.clone() {
        assert_eq!(fs::read(view(&site, node, "inputs/a")).unwrap(), b"before");
        assert!(view(&site, node, "inputs/gone").exists() && !view(&site, node, "inputs/new").exists());
    }
    write(&site.source("inputs/a"), b"after, and longer");
    write(&site.source("inputs/new"), b"was absent");
    fs::remove_file(site.source("inputs/gone")).unwrap();
    let has_changed = |node: usize| {
        let read = |path| fs::read(view(&site, node, path)).ok();
        read("inputs/a").as_deref() == Some(b"after, and longer")
            && read("inputs/new").as_deref() == Some(b"was absent")
            && !view(&site, node, "inputs/gone").exists()
    };
    wait_until("all nodes to see what changed", Duration::from_secs(20), || all.clone().all(has_changed));
    for file in &held {
        let mut bytes = [0; 9];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"untouched");
    }
    compare::trees(&site.source("inputs"), &view(&site, NODES as usize - 1, "inputs"));
}
