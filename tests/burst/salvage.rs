//! Stores whose job is gone.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_tests::job::send;
use forebay_tests::program::{run, wait_until};
use forebay_tests::{Sandbox, require};
use rustix::process::Signal;
use serde_json::Value;

use crate::bed::{Bed, arguments};

const PATIENCE: Duration = Duration::from_secs(60);

/// `forebay salvage --json` of stores below a directory of the sandbox; its exit status.
pub fn salvage(sandbox: &Sandbox, store: &str) -> (Option<i32>, Value) {
    let store = sandbox.base().join(store);
    let told = run(sandbox.command().args(["salvage", "--json", "--timeout", "60s", "--burst-store"]).arg(store));
    let value = serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{}", told.stderr));
    (told.status.code(), value)
}

/// A job of three nodes that have written, with nothing landed, killed with its programs.
fn killed() -> (Bed, String) {
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    let _ = bed.shell_on(0, "mkdir d; head -c 3000000 /dev/urandom > d/zero; ln -s d/zero link").good();
    let _ = bed.shell_on(1, "head -c 2000000 /dev/urandom > d/one; mv d/one one; chmod 640 one").good();
    // The last bytes are not committed: its program is killed while it has the file open.
    let _ = bed.shell_on(2, "head -c 1000000 /dev/urandom > two; echo more >> d/zero; echo first > both").good();
    let _ = bed.shell_on(1, "echo second >> both").good();
    let listing = Bed::listing(&bed.mount());
    bed.job.kill_all();
    (bed, listing)
}

#[test]
fn writes_of_a_killed_job_land() {
    require!(Fuse, Root);
    let (bed, listing) = killed();
    let sandbox = &bed.job.sandbox;
    let backing = sandbox.base().join("backing");
    assert_eq!(Bed::listing(&backing), "", "nothing has landed before");
    let (status, told) = salvage(sandbox, "store");
    assert_eq!((status, &told["landed"], &told["stores"]), (Some(0), &true.into(), &Value::Array(vec![])), "{told}");
    assert_eq!(Bed::listing(&backing), listing);
    assert!(!sandbox.base().join("store").exists(), "stores of which all has landed are gone");
    fs::create_dir(sandbox.base().join("store")).unwrap();
    assert_eq!(salvage(sandbox, "store").0, Some(3), "there is no store any more");
}

/// A finished write survives its daemon. The node had one synced before, of which the leader knows; others came after it, to that file and
/// another, and their programs are killed with both files open.
#[test]
fn writes_after_the_last_synced_one_survive_the_death_of_the_job() {
    require!(Fuse, Root);
    for lands_with_next_job in [false, true] {
        let mut bed = Bed::with(3, &["--drain", "manual"]);
        for name in ["first", "second"] {
            fs::write(bed.mount().join(name), [b'a'; 50_000]).unwrap();
        }
        let open = |node: u32, name: &str| fs::File::options().write(true).open(bed.mount_of(node).join(name)).unwrap();
        let (first, second, third) = (open(1, "first"), open(1, "second"), open(2, "second"));
        first.write_all_at(&[b'b'; 3000], 1000).unwrap();
        first.sync_all().unwrap();
        first.write_all_at(&[b'c'; 50], 9000).unwrap();
        second.write_all_at(&[b'd'; 3000], 1000).unwrap();
        third.write_all_at(&[b'e'; 3000], 20_000).unwrap();
        bed.job.kill_all();
        drop((first, second, third));
        if lands_with_next_job {
            let words = arguments(&bed.job.sandbox, 3);
            bed.job.up_again(&words.iter().map(OsStr::new).collect::<Vec<_>>());
            bed.drain();
        } else {
            assert_eq!(salvage(&bed.job.sandbox, "store").0, Some(0));
        }
        let counts = |name: &str| {
            let landed = fs::read(bed.backing().join(name)).unwrap();
            b"bcde".map(|own| landed.iter().filter(|byte| **byte == own).count())
        };
        assert_eq!(
            (counts("first"), counts("second")),
            ([3000, 50, 0, 0], [0, 0, 3000, 3000]),
            "{lands_with_next_job}"
        );
        if lands_with_next_job {
            bed.job.down();
        }
    }
}

/// A commit that was sent without an answer is sent again before any other of the node's writes is committed: those are of a later session, with which
/// the leader takes all of the one before for done.
#[test]
fn a_commit_without_an_answer_survives_the_death_of_the_job() {
    require!(Fuse, Root);
    for lands_with_next_job in [false, true] {
        let mut bed = Bed::with(3, &["--drain", "manual"]);
        let open = |kind: &str| -> Vec<fs::File> {
            let create = |number| fs::File::create(bed.mount_of(1).join(format!("{kind}-{number}"))).unwrap();
            (0..4).map(create).collect()
        };
        let (first, sent, last) = (open("first"), open("sent"), open("last"));
        // The leader has their names before it stands still.
        last[0].sync_all().unwrap();
        let store = bed.job.sandbox.base().join("store/1");
        let written_at = || {
            let entries = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap());
            let segments = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("segment-"));
            segments.map(|segment| segment.metadata().unwrap().modified().unwrap()).max()
        };
        // It never goes on, or would carry out what has come to it.
        send(bed.job.daemon(0).unwrap(), Signal::STOP);
        let mut closing = vec![];
        first.iter().chain(&sent).chain(&last).for_each(|file| file.write_all_at(&[b'x'; 3000], 0).unwrap());
        for file in sent {
            let before = written_at();
            closing.push(std::thread::spawn(move || drop(file)));
            wait_until("the commit is noted", PATIENCE, || written_at() > before);
        }
        bed.job.kill_all();
        drop((first, last));
        closing.into_iter().for_each(|closing| closing.join().unwrap());
        if lands_with_next_job {
            let words = arguments(&bed.job.sandbox, 3);
            bed.job.up_again(&words.iter().map(OsStr::new).collect::<Vec<_>>());
            bed.drain();
        } else {
            assert_eq!(salvage(&bed.job.sandbox, "store").0, Some(0));
        }
        for name in
            ["first", "sent", "last"].iter().flat_map(|kind| (0..4).map(move |number| format!("{kind}-{number}")))
        {
            let landed = fs::read(bed.backing().join(&name)).unwrap();
            assert!(landed == [b'x'; 3000], "{name}, {} bytes, {lands_with_next_job}", landed.len());
        }
        if lands_with_next_job {
            bed.job.down();
        }
    }
}

/// The next job has fewer nodes: the last one's store has writes to a file that it had open, of which nothing was committed.
#[test]
fn a_smaller_job_tells_of_what_a_node_that_it_lacks_has_written() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &[]);
    let file = fs::File::create(bed.mount_of(2).join("file")).unwrap();
    file.write_all_at(&[b'x'; 5000], 0).unwrap();
    bed.job.kill_all();
    drop(file);
    let words = arguments(&bed.job.sandbox, 2);
    bed.job.up_again(&words.iter().map(OsStr::new).collect::<Vec<_>>());
    let drained = bed.command(&["drain", "--wait", "--timeout", "30s"]);
    assert_eq!(drained.status.code(), Some(3), "{drained:?}");
    assert!(drained.text().contains("had files open on nodes that this one does not have (2)"), "{drained:?}");
    let down = bed.command(&["down"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    assert!(down.stderr.contains("(2)") && down.stderr.contains("Kept in "), "{down:?}");
    let (status, told) = salvage(&bed.job.sandbox, "store");
    assert_eq!((status, &told["landed"], &told["stores"]), (Some(0), &true.into(), &Value::Array(vec![])), "{told}");
    assert_eq!(fs::read(bed.backing().join("file")).unwrap(), [b'x'; 5000]);
    bed.job.forget();
}

/// All of them have parts of one large file, and give their bytes to each other within one process.
#[test]
fn many_stores_land_together() {
    require!(Fuse, Root);
    const NODES: u32 = 40;
    const BLOCK: u64 = 1 << 20;
    let mut bed = Bed::with(NODES, &["--drain", "manual"]);
    for node in 0..NODES {
        let shared =
            fs::File::options().write(true).create(true).truncate(false).open(bed.mount_of(node).join("shared"));
        shared.unwrap().write_all_at(&[node as u8 + 1; BLOCK as usize], u64::from(node) * BLOCK).unwrap();
        fs::write(bed.mount_of(node).join(node.to_string()), node.to_string()).unwrap();
    }
    bed.job.kill_all();
    let (status, told) = salvage(&bed.job.sandbox, "store");
    assert_eq!((status, &told["landed"], &told["stores"]), (Some(0), &true.into(), &Value::Array(vec![])), "{told}");
    let landed = fs::read(bed.backing().join("shared")).unwrap();
    assert_eq!(landed.len() as u64, u64::from(NODES) * BLOCK);
    for (node, block) in landed.chunks(BLOCK as usize).enumerate() {
        assert!(block.iter().all(|byte| *byte == node as u8 + 1), "the block of node {node}");
        assert_eq!(fs::read_to_string(bed.backing().join(node.to_string())).unwrap(), node.to_string());
    }
}

/// Also those that were read where the file lay, before one of them was changed.
#[test]
fn extended_attributes_are_salvaged() {
    require!(Fuse, Root, Command("python3"));
    let mut bed = Bed::with(2, &["--drain", "manual"]);
    let backing = bed.backing();
    fs::write(backing.join("met"), "there").unwrap();
    let set = "import os
os.setxattr('met', 'user.old', b'0')";
    let _ = run(std::process::Command::new("python3").args(["-c", set]).current_dir(&backing)).good();
    let set = "mkdir d; echo x > d/new; python3 -c \"import os
for path in ['met', 'd', 'd/new']: os.setxattr(path, 'user.a', path.encode())\"";
    let _ = bed.shell_on(1, set).good();
    bed.job.kill_all();
    let (status, told) = salvage(&bed.job.sandbox, "store");
    assert_eq!((status, &told["landed"]), (Some(0), &true.into()), "{told}");
    let show = "import os
for path in ['met', 'd', 'd/new']: print(sorted((name, os.getxattr(path, name)) for name in os.listxattr(path) if name.startswith('user.')))";
    let shown = run(std::process::Command::new("python3").args(["-c", show]).current_dir(&backing)).good().text();
    let expected = "[('user.a', b'met'), ('user.old', b'0')]\n[('user.a', b'd')]\n[('user.a', b'd/new')]\n";
    assert_eq!(shown, expected);
}

/// Data that only a missing store has do not land, and no other file waits for them. Once the store is there, all lands.
#[test]
fn a_store_that_is_elsewhere_is_named() {
    require!(Fuse, Root);
    let (bed, listing) = killed();
    let sandbox = &bed.job.sandbox;
    let (backing, store) = (sandbox.base().join("backing"), sandbox.base().join("store"));
    fs::rename(store.join("1"), sandbox.base().join("elsewhere")).unwrap();
    let (status, told) = salvage(sandbox, "store");
    assert_eq!(status, Some(3), "{told}");
    let missing: Vec<(&str, &Value)> = told["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap().rsplit('/').next().unwrap(), &file["nodes"]))
        .collect();
    let of_one = Value::from(vec![1]);
    assert_eq!(missing, [("both", &of_one), ("one", &of_one)], "{told}");
    assert!(told["why"].as_str().unwrap().contains("2000007 bytes are only in the stores of nodes"), "{told}");
    let landed = Bed::listing(&backing);
    assert!(!landed.contains("one") && !landed.contains("both") && landed.contains("zero") && landed.contains("two"));
    fs::rename(sandbox.base().join("elsewhere"), store.join("1")).unwrap();
    assert_eq!(salvage(sandbox, "store").0, Some(0));
    assert_eq!(Bed::listing(&backing), listing);
    assert!(!store.exists());
}

#[test]
fn unsalvageable_stores_say_why() {
    require!(Fuse, Root);
    let (bed, listing) = killed();
    let sandbox = &bed.job.sandbox;
    let store = sandbox.base().join("store");
    let failed = |words: &[&str]| {
        let told = run(sandbox.command().args(["salvage", "--burst-store"]).arg(&store).args(words));
        assert_eq!(told.status.code(), Some(1), "{}", told.stderr);
        told.stderr
    };
    let absent = sandbox.base().join("stroe");
    let told = run(sandbox.command().args(["salvage", "--json", "--burst-store"]).arg(&absent));
    assert_eq!((told.status.code(), told.text().as_str()), (Some(1), ""), "nothing is said to have landed");
    assert!(told.stderr.contains(&format!("{} does not exist", absent.display())), "{}", told.stderr);
    let other = format!("/burst/ckpt={}", sandbox.source().display());
    assert!(failed(&["--burst", &other]).contains("lands in"));
    let aside = |node: &str| sandbox.base().join(format!("elsewhere-{node}"));
    ["0", "1"].iter().for_each(|node| fs::rename(store.join(node), aside(node)).unwrap());
    assert!(failed(&[]).contains("the stores that are given (of nodes 2) do not have the names of its files"));
    ["0", "1"].iter().for_each(|node| fs::rename(aside(node), store.join(node)).unwrap());
    let backing = sandbox.base().join("backing");
    fs::rename(&backing, sandbox.base().join("unmounted")).unwrap();
    assert!(failed(&[]).contains("backing"));
    fs::rename(sandbox.base().join("unmounted"), &backing).unwrap();
    assert_eq!(salvage(sandbox, "store").0, Some(0), "nothing was lost meanwhile");
    assert_eq!(Bed::listing(&backing), listing);
}

#[test]
fn a_job_that_runs_keeps_its_store() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let _ = bed.shell("echo kept > a").good();
    let store = bed.job.sandbox.base().join("store");
    let told = run(bed.job.sandbox.command().args(["salvage", "--burst-store"]).arg(&store));
    assert_eq!(told.status.code(), Some(1));
    assert!(told.stderr.contains("in use by another daemon"), "{}", told.stderr);
    assert_eq!(bed.shell("cat a").good().text(), "kept\n");
    bed.job.down();
}

/// A node that is gone keeps from landing what only it has, and nothing else.
#[test]
fn files_of_a_lost_node_are_named_and_the_rest_lands() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "end"]);
    let _ = bed.shell_on(1, "head -c 70000 /dev/urandom > lost; echo small > replaced").good();
    let _ = bed.shell_on(0, "echo zero > zero; mv lost moved; echo whole > replaced").good();
    let _ = bed.shell_on(2, "echo two > two").good();
    let listing = Bed::listing(&bed.mount());
    let daemon = bed.job.daemon(1).unwrap();
    bed.job.kill_keeper(1);
    wait_until("the daemon of a keeper that has died ends", PATIENCE, || bed.job.daemon(1) != Some(daemon));
    let drained = bed.command(&["drain", "--wait", "--json", "--timeout", "20s"]);
    assert_eq!(drained.status.code(), Some(3));
    assert!(
        drained.text().contains("70000 bytes are only in the stores of nodes that do not answer (1)"),
        "{}",
        drained.text()
    );
    let told = bed.landed("moved");
    assert_eq!((&told["state"], &told["missing"]), (&"lost".into(), &serde_json::json!([[0, 70000]])), "{told}");
    let landed = Bed::listing(&bed.backing());
    assert_eq!(landed.lines().filter(|line| line.contains(" f ")).count(), 3, "{landed}");
    assert_eq!(fs::read(bed.backing().join("replaced")).unwrap(), b"whole\n");
    bed.job.kill_all();
    assert_eq!(salvage(&bed.job.sandbox, "store").0, Some(0), "its store is there again");
    assert_eq!(Bed::listing(&bed.backing()), listing);
}

/// The number of changes that the standby does not have, by `status`.
fn behind(bed: &Bed) -> Option<u64> {
    // It ends with 3 while a daemon that was killed is not there again.
    let told = bed.command(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&told.stdout).ok()?;
    status["nodes"][0]["burst"]["second_home_behind"].as_u64()
}

/// Until the standby has everything.
pub fn wait_for_standby(bed: &Bed) {
    wait_until("the standby has everything", PATIENCE, || behind(bed) == Some(0));
}

/// The leader's node is lost with its store: its own bytes are, and nothing else.
#[test]
fn the_names_are_on_a_second_node_too() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    let _ = bed.shell_on(0, "mkdir d; head -c 3000 /dev/urandom > d/zero; sync d/zero").good();
    let _ = bed.shell_on(2, "head -c 20000 /dev/urandom > two; mv two d/two; ln -s two d/link; sync d/two").good();
    let _ = bed.shell_on(1, "head -c 10000 /dev/urandom > one; chmod 640 one; sync one").good();
    let listing = Bed::listing(&bed.mount_of(1));
    wait_for_standby(&bed);
    bed.job.kill_all();
    let sandbox = &bed.job.sandbox;
    fs::remove_dir_all(sandbox.base().join("store/0")).unwrap();
    let (status, told) = salvage(sandbox, "store");
    assert_eq!((status, &told["second_home"]), (Some(3), &1.into()), "{told}");
    let missing = &told["missing"][0];
    assert_eq!((&missing["nodes"], &missing["missing"]), (&serde_json::json!([0]), &serde_json::json!([[0, 3000]])));
    let lines = |listing: &str| listing.lines().filter(|line| !line.contains("zero")).map(str::to_owned).collect();
    let landed: Vec<String> = lines(&Bed::listing(&bed.backing()));
    assert_eq!((landed.len(), &landed), (5, &lines(&listing)));
    let (status, told) = salvage(sandbox, "store");
    assert_eq!(status, Some(3), "what is missing is said again: {told}");
}

/// `fsync` waits until the standby has what it promises, and the standby goes on after deaths of either daemon.
#[test]
fn fsync_waits_for_the_standby() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "manual"]);
    wait_for_standby(&bed);
    let took = bed.while_it_stands_still(1, || {
        let began = Instant::now();
        let _ = bed.shell("echo promised > a; sync a").good();
        began.elapsed()
    });
    assert!(took > Duration::from_secs(2), "fsync returned after {took:?}");
    for node in [1, 0] {
        bed.job.kill_daemon(node);
        let _ = bed.shell("echo more >> a; sync a").good();
        wait_for_standby(&bed);
    }
    bed.drain();
    bed.job.down();
}

/// Stores of several machines, which one process does not see.
#[test]
fn stores_of_several_machines_meet() {
    require!(Fuse, Root);
    let (bed, listing) = killed();
    let sandbox = &bed.job.sandbox;
    let (base, backing) = (sandbox.base(), bed.backing());
    let place = backing.join(format!(".forebay-salvage-{}", sandbox.name));
    let store = |node: u32| base.join(format!("machine-{node}"));
    (0..3).for_each(|node| fs::rename(base.join(format!("store/{node}")), store(node)).unwrap());
    let meet = |node: u32, wait: &str| {
        let mut command = sandbox.command();
        command.args(["salvage", "--meet", wait, "--timeout", "60s", "--burst-store"]).arg(store(node));
        command
    };
    let waiting = run(&mut meet(2, "1ms"));
    assert_eq!(waiting.status.code(), Some(3));
    assert!(waiting.text().contains(place.to_str().unwrap()), "{}", waiting.text());
    assert!(!store(2).exists() && place.join("2/head").exists());
    let others: Vec<_> = [2, 1].map(|node| meet(node, "60s").spawn().unwrap()).into();
    let told = run(&mut meet(0, "60s"));
    assert_eq!(told.status.code(), Some(0), "{} {}", told.text(), told.stderr);
    for mut other in others {
        assert!(other.wait().unwrap().success());
    }
    assert_eq!(Bed::listing(&backing), listing);
    assert!(!place.exists() && (0..3).all(|node| !store(node).exists()));
}

/// Without the first node the others' stores are together where one process lands them.
#[test]
fn a_meeting_without_the_first_node_loses_no_store() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--partner", "all", "--drain", "manual"]);
    let _ = bed.shell_on(0, "head -c 3000000 /dev/urandom > zero; sync zero").good();
    let _ = bed.shell_on(2, "head -c 2000000 /dev/urandom > two; sync two").good();
    let listing = Bed::listing(&bed.mount());
    wait_for_standby(&bed);
    bed.job.kill_all();
    let sandbox = &bed.job.sandbox;
    let store = |node: u32| sandbox.base().join(format!("store/{node}"));
    fs::remove_dir_all(store(0)).unwrap();
    for node in [1, 2] {
        let told = run(sandbox.command().args(["salvage", "--meet", "1ms", "--burst-store"]).arg(store(node)));
        assert_eq!(told.status.code(), Some(3), "{}", told.stderr);
    }
    let place = bed.backing().join(format!(".forebay-salvage-{}", sandbox.name));
    let (status, told) = salvage(sandbox, place.to_str().unwrap());
    assert_eq!(status, Some(0), "{told}");
    assert_eq!(Bed::listing(&bed.backing()), listing);
    assert!(!place.exists());
}

/// The place where it would have met others is not left, either.
#[test]
fn a_salvage_that_meets_no_other_leaves_only_landed_files() {
    require!(Fuse, Root);
    let mut bed = Bed::with(1, &["--drain", "manual"]);
    let _ = bed.shell("echo x > a; sync a").good();
    bed.job.kill_all();
    let store = bed.job.sandbox.base().join("store/0");
    let told = run(bed.job.sandbox.command().args(["salvage", "--meet", "60s", "--burst-store"]).arg(&store));
    assert_eq!(told.status.code(), Some(0), "{}", told.stderr);
    let left: Vec<_> = fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a"]);
    assert!(!store.exists());
}

/// The standby goes on with a log that lacks what the tree says it has: that is named, and nothing waits for it.
#[test]
fn a_node_that_takes_the_tree_over_finds_what_its_own_log_lacks() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    let _ = bed.shell_on(1, "head -c 200000000 /dev/urandom > lost; echo after > after").good();
    let _ = bed.shell_on(2, "echo two > two").good();
    wait_for_standby(&bed);
    // One that is far behind gets the whole tree: what the standby knows is not in its log's order.
    bed.while_it_stands_still(1, || change_much(&bed));
    wait_for_standby(&bed);
    bed.job.kill_all();
    let sandbox = &bed.job.sandbox;
    remove_second_segment(&bed);
    fs::rename(sandbox.base().join("store/0"), sandbox.base().join("elsewhere")).unwrap();
    let (status, told) = salvage(sandbox, "store");
    let missing = &told["missing"][0];
    assert_eq!((status, &missing["nodes"]), (Some(3), &serde_json::json!([1])), "{told}");
    assert!(missing["path"].as_str().unwrap().ends_with("/lost"), "{told}");
    let bytes = |range: &Value| range[1].as_u64().unwrap();
    let gone: u64 = missing["missing"].as_array().unwrap().iter().map(bytes).sum();
    assert!((60_000_000..=64 << 20).contains(&gone), "a segment: {told}");
    let landed = Bed::listing(&sandbox.base().join("backing"));
    assert!(landed.contains("after") && landed.contains("two") && !landed.contains("lost"), "{landed}");
}

/// A standby whose log lacks some of the changes is none: what it has would be taken for all.
#[test]
fn a_standby_that_lacks_changes_is_none() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    let _ = bed.shell_on(1, "head -c 200000000 /dev/urandom > large; echo after > after; sync large after").good();
    wait_for_standby(&bed);
    bed.job.kill_all();
    let sandbox = &bed.job.sandbox;
    remove_second_segment(&bed);
    fs::rename(sandbox.base().join("store/0"), sandbox.base().join("elsewhere")).unwrap();
    let told = run(sandbox.command().args(["salvage", "--json", "--burst-store"]).arg(sandbox.base().join("store")));
    assert_eq!(told.status.code(), Some(1), "{} {}", told.text(), told.stderr);
    assert_eq!(fs::read_dir(sandbox.base().join("backing")).unwrap().count(), 0);
    // With the leader's own store the file is lost in part, and the rest is not.
    fs::rename(sandbox.base().join("elsewhere"), sandbox.base().join("store/0")).unwrap();
    let (status, told) = salvage(sandbox, "store");
    assert_eq!((status, &told["missing"][0]["nodes"]), (Some(3), &serde_json::json!([1])), "{told}");
    assert_eq!(fs::read(sandbox.base().join("backing/after")).unwrap(), b"after\n");
}

/// More changes than the leader keeps for a standby that does not answer.
fn change_much(bed: &Bed) {
    let many = "import os\nfor i in range(6000): os.symlink('x' * 3000, f'many.{i}')\nfor i in range(6000): os.unlink(f'many.{i}')";
    let _ = bed.shell_on(0, &format!("python3 -c \"{many}\"")).good();
}

/// Of the store of node 1.
fn remove_second_segment(bed: &Bed) {
    let files = fs::read_dir(bed.job.sandbox.base().join("store/1")).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("segment");
    let mut segments: Vec<_> = files.filter(is_segment).collect();
    segments.sort();
    assert!(segments.len() > 3, "{segments:?}");
    fs::remove_file(&segments[1]).unwrap();
}

/// Its drain has told the tree of what was open, and has not waited for that.
#[test]
fn a_job_whose_drain_timed_out_is_salvaged_whole() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "end", "--drain-rate", "1MiB/s"]);
    let _ = bed.shell_on(0, "head -c 8000000 /dev/urandom > closed").good();
    let open = fs::File::create(bed.mount_of(1).join("open")).unwrap();
    std::io::Write::write_all(&mut &open, b"so far").unwrap();
    let other = fs::File::create(bed.mount_of(2).join("other")).unwrap();
    std::io::Write::write_all(&mut &other, b"so far").unwrap();
    let drained = bed.command(&["drain", "--wait", "--timeout", "2s"]);
    assert_eq!(drained.status.code(), Some(3), "{}", drained.text());
    let listing = Bed::listing(&bed.mount());
    bed.job.kill_all();
    drop((open, other));
    let sandbox = &bed.job.sandbox;
    let (status, told) = salvage(sandbox, "store");
    assert_eq!((status, &told["why"]), (Some(0), &Value::Null), "{told}");
    assert_eq!(Bed::listing(&bed.backing()), listing);
    assert!(!sandbox.base().join("store").exists());
}

/// Files may land while `salvage` ends: it tells the state at its end.
#[test]
fn files_that_land_while_salvage_ends_have_landed() {
    require!(Fuse, Root);
    let mut bed = Bed::with(1, &["--drain", "manual"]);
    let _ = bed.shell("for n in $(seq 20); do echo $n > $n; done").good();
    let listing = Bed::listing(&bed.mount());
    bed.job.kill_all();
    let store = bed.job.sandbox.base().join("store");
    wait_until("all has landed", PATIENCE, || {
        let words = ["salvage", "--json", "--timeout", "1ms", "--burst-store"];
        let told = run(bed.job.sandbox.command().args(words).arg(&store));
        let value: Value = serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{}", told.stderr));
        let has_landed = !store.exists();
        let status = if has_landed { 0 } else { 3 };
        let left = value["steps_to_land"].as_u64().unwrap();
        assert_eq!(
            (told.status.code(), &value["landed"], left == 0),
            (Some(status), &has_landed.into(), has_landed),
            "{value}"
        );
        has_landed
    });
    assert_eq!(Bed::listing(&bed.backing()), listing);
}
