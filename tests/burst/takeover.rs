//! The node that leads the tree is lost, or cut off, while the job goes on.

use std::fs;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::require;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bed::Bed;
use crate::salvage::wait_for_standby;

const PATIENCE: Duration = Duration::from_secs(60);

/// Which node leads the tree, as `status` says.
pub fn leader(bed: &Bed) -> Option<u64> {
    // It ends with 3 where a node is missing.
    let told = bed.command(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&told.stdout).ok()?;
    let nodes = status["nodes"].as_array()?;
    let leader = nodes.iter().find(|node| !node["burst"]["landed_bytes"].is_null())?;
    leader["rank"].as_u64()
}

/// How many daemons of a node have died and how many have left to another one, as `status` says.
fn daemons_before(bed: &Bed, node: usize) -> Option<(u64, u64)> {
    let told = bed.command(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&told.stdout).ok()?;
    let count = |name: &str| status["nodes"][node][name].as_u64();
    Some((count("restarts")?, count("replaced")?))
}

/// The first node is lost, and the second leads the tree.
pub fn lose_the_leader(bed: &Bed) {
    let daemon = bed.job.daemon(0).unwrap();
    bed.job.kill_keeper(0);
    let began = Instant::now();
    wait_until("the daemon of a keeper that has died ends", PATIENCE, || bed.job.daemon(0) != Some(daemon));
    wait_until("another node leads the tree", PATIENCE, || leader(bed) == Some(1));
    println!("another node leads the tree after {:?}", began.elapsed());
}

/// The first node is lost with all that it has. Changes of others are there, promised or not, and they go on.
#[test]
fn the_standby_goes_on_when_the_leader_is_lost() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "end"]);
    let _ = bed.shell_on(0, "mkdir d; head -c 3000 /dev/urandom > d/zero; sync d/zero").good();
    wait_for_standby(&bed);
    // Programs write on the others all the while.
    let writers: Vec<_> = [1, 2]
        .map(|node| {
            let script = format!(
                "i=0; while [ ! -e stop ]; do echo $i > d/{node}.$i; mv d/{node}.$i {node}.$i; i=$((i + 1)); done; echo $i > count.{node}"
            );
            Command::new("sh").args(["-euc", &script]).current_dir(bed.mount_of(node)).stdin(Stdio::null()).spawn().unwrap()
        })
        .into();
    wait_until("they have begun", PATIENCE, || {
        bed.mount_of(1).join("2.20").exists() && bed.mount_of(2).join("1.20").exists()
    });
    lose_the_leader(&bed);
    let _ = bed.shell_on(2, "echo after > after; sync after; touch stop").good();
    for mut writer in writers {
        let mut status = None;
        wait_until("a writer ends", PATIENCE, || {
            status = writer.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "it has seen nothing of it");
    }
    for node in [1, 2] {
        let mut before = None;
        wait_until("what the node is has changed", PATIENCE, || {
            before = daemons_before(&bed, node).filter(|before| *before != (0, 0));
            before.is_some()
        });
        assert_eq!(before, Some((0, 1)), "the daemon of node {node} has left, and not died");
    }
    for node in [1, 2] {
        let script = format!(
            "i=0; while [ $i -lt $(cat count.{node}) ]; do [ $(cat {node}.$i) = $i ]; i=$((i + 1)); done; echo $i"
        );
        let counted: u32 = bed.shell_on(3 - node, &script).good().text().trim().parse().unwrap();
        assert!(counted > 20);
    }
    assert_eq!(bed.shell_on(1, "ls d").good().text(), "zero\n");
    let drained =
        run(bed.job.sandbox.command().args(["drain", "--job", &bed.job.sandbox.name, "--wait", "--timeout", "15s"]));
    assert_eq!(drained.status.code(), Some(3), "{} {}", drained.text(), drained.stderr);
    assert!(
        drained.text().contains("3000 bytes are only in the stores of nodes that do not answer (0)"),
        "{}",
        drained.text()
    );
    assert_eq!(std::fs::read(bed.backing().join("after")).unwrap(), b"after\n");
    bed.job.kill_all();
}

/// Programs write to files that they have open while the tree gets another leader, and their nodes other daemons.
#[test]
fn writes_to_open_files_are_there_after_a_takeover() {
    require!(Fuse, Root);
    const BLOCKS: u64 = 256;
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    let files = [1, 2].map(|node| {
        let file = File::create(bed.mount_of(node).join(format!("open-{node}"))).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_all().unwrap();
        file
    });
    wait_for_standby(&bed);
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let is_over = &is_over;
        let writers = files.map(|file| {
            scope.spawn(move || {
                let mut written = 0_u64;
                while !is_over.load(Ordering::SeqCst) {
                    file.write_all_at(&written.to_le_bytes(), written % BLOCKS * 4096).unwrap();
                    written += 1;
                }
                written
            })
        });
        lose_the_leader(&bed);
        is_over.store(true, Ordering::SeqCst);
        writers.map(|writer| writer.join().unwrap())
    });
    for (node, written) in [1, 2].into_iter().zip(written) {
        assert!(written > BLOCKS);
        let read = std::fs::read(bed.mount_of(3 - node).join(format!("open-{node}"))).unwrap();
        let last = |block: u64| (written - 1 - block) / BLOCKS * BLOCKS + block;
        let wrong = (0..BLOCKS).find(|block| read[*block as usize * 4096..][..8] != last(*block).to_le_bytes());
        assert_eq!(wrong, None, "node {node}, {written} writes");
    }
    bed.job.kill_all();
}

/// With partners nothing is lost with it.
#[test]
fn with_partners_the_job_goes_on_with_everything() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "end", "--partner", "all"]);
    let _ = bed.shell_on(0, "mkdir d; head -c 3000000 /dev/urandom > d/zero; sync d/zero").good();
    let _ = bed.shell_on(2, "echo two > d/two; sync d/two").good();
    let listing = Bed::listing(&bed.mount_of(1));
    wait_for_standby(&bed);
    std::thread::scope(|scope| {
        scope.spawn(|| lose_the_leader(&bed));
        wait_until("the leader's daemon ends", PATIENCE, || bed.job.daemon(0).is_none());
        // They wait for the new leader, which has not looked yet for the copies when it is asked.
        for node in [1, 2] {
            let bed = &bed;
            scope.spawn(move || drop(bed.shell_on(node, "cat d/zero > /dev/null").good()));
        }
    });
    assert_eq!(Bed::listing(&bed.mount_of(2)), listing);
    let _ = bed.command(&["drain", "--wait", "--timeout", "60s"]);
    assert_eq!(Bed::listing(&bed.backing()), listing);
    bed.job.kill_all();
}

/// While the first node, which led the tree, does not answer.
pub fn wait_until_another_leads(bed: &Bed) {
    wait_until("another node leads the tree", PATIENCE, || {
        run(Command::new("timeout").args(["20", "sh", "-c", "echo one > one && sync one"]).current_dir(bed.mount_of(1)))
            .status
            .success()
    });
}

/// The leader stands still for a while, and is not the leader any more when it goes on; its programs go on with the new one.
#[test]
fn a_leader_that_was_cut_off_is_none_any_more() {
    require!(Fuse, Root);
    let bed = Bed::with(3, &["--drain", "end"]);
    let _ = bed.shell_on(0, "echo zero > zero; sync zero; echo more > appended; sync appended").good();
    wait_for_standby(&bed);
    let stopped: Vec<Pid> = [bed.job.keeper(0), bed.job.daemon(0).unwrap()]
        .into_iter()
        .map(|pid| Pid::from_raw(pid as i32).unwrap())
        .collect();
    stopped.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
    wait_until_another_leads(&bed);
    stopped.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
    wait_until("the first node knows", PATIENCE, || leader(&bed) == Some(1));
    let _ = bed.shell_on(0, "cat one; echo again >> appended; sync appended; mv zero moved").good();
    assert_eq!(bed.shell_on(2, "cat moved appended").good().text(), "zero\nmore\nagain\n");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// Has a program of the leader's node change something while the standby stands still, so that no other node hears of it, and go on once the leader
/// has been deposed. Its output from then on.
///
/// The standby has looked at nothing that is changed: it would be waited for. No file is open in the test's own process: a process that this starts
/// closes its copies, and would wait for the node that stands still.
fn go_on_after_the_leader_is_deposed(bed: &Bed, program: &str) -> String {
    let processes_of = |node: usize| {
        [bed.job.keeper(node), bed.job.daemon(node).unwrap()].map(|pid| Pid::from_raw(pid as i32).unwrap())
    };
    let (leaders, standbys) = (processes_of(0), processes_of(1));
    let send = |to: &[Pid], signal| to.iter().for_each(|pid| kill_process(*pid, signal).unwrap());
    let mut python = Command::new("python3");
    let python =
        python.arg(file_of_tests(program)).current_dir(bed.mount_of(0)).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = python.spawn().unwrap();
    let (mut told, mut said) = (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()));
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    send(&standbys, Signal::STOP);
    told.write_all(b"change it\n").unwrap();
    said.read_line(&mut line).unwrap();
    send(&leaders, Signal::STOP);
    send(&standbys, Signal::CONT);
    wait_until_another_leads(bed);
    send(&leaders, Signal::CONT);
    wait_until("the first node knows", PATIENCE, || leader(bed) == Some(1));
    told.write_all(b"go on\n").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(program.wait().unwrap().success());
    assert_eq!(line, "begun\nchanged\n");
    rest
}

/// Changes of the leader's own programs of which no other node has heard are lost when another comes to lead: `fsync` says so, once for each file.
#[test]
fn fsync_tells_of_changes_that_were_lost_with_their_leader() {
    require!(Fuse, Root);
    let bed = Bed::with(3, &["--drain", "end"]);
    let _ = bed
        .shell_on(0, "mkdir a b; for file in a/old a/safe a/tmp b/tmp; do echo old > $file; sync $file; done")
        .good();
    wait_for_standby(&bed);
    // The standby's question, which the leader has, is answered by the first change.
    let said = go_on_after_the_leader_is_deposed(&bed, "burst/lost_changes.py");
    let (lost, gone) = ("Input/output error", "Stale file handle");
    let expected = [
        ("under way", lost),
        ("safe", "done"),
        ("told", "done"),
        ("again", "done"),
        ("a", lost),
        ("a again", "done"),
        ("later", lost),
        ("later again", "done"),
        ("made", gone),
        ("close", gone),
    ];
    let expected: String = expected.map(|(call, outcome)| format!("{call} {outcome}\n")).concat();
    assert_eq!(said, expected);
    let listed = bed.shell_on(2, "echo a/* b/*; cat a/old").good().text();
    assert_eq!(listed, "a/old a/safe a/tmp b/later b/tmp\nagain");
    // Of the directory `first` no program has been told.
    let told = "unsynced changes of programs are lost (nodes 0)";
    for command in [&["drain", "--wait"][..], &["down"]] {
        let said = bed.command(command);
        assert_eq!(said.status.code(), Some(3), "{command:?}: {}{}", said.text(), said.stderr);
        assert!((said.text() + &said.stderr).contains(told), "{command:?}: {}{}", said.text(), said.stderr);
    }
    assert!(!bed.backing().join("first").exists());
    assert_eq!(fs::read_to_string(bed.backing().join("a/old")).unwrap(), "again");
    bed.job.forget();
}

/// A leader that stood still has finished writes that no other node has heard of. Others get the lock of its program meanwhile, and what they write
/// and sync stays: when the node goes on, its older writes to that file are lost, which is told, and those to another file are not.
#[test]
fn older_writes_of_a_deposed_leader_do_not_come_over_newer_ones() {
    require!(Fuse, Root);
    for goes_on in [true, false] {
        let mut bed = Bed::with(3, &["--drain", "end"]);
        for name in ["shared", "own"] {
            let _ = bed.shell_on(1, &format!("head -c 20000 /dev/zero > {name}; sync {name}")).good();
        }
        wait_for_standby(&bed);
        let mut python = Command::new("python3");
        let python = python.arg(file_of_tests("burst/older_writes.py")).current_dir(bed.mount_of(0));
        let mut program = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(program.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "written\n");
        // It hears that the files were opened.
        wait_for_standby(&bed);
        let stopped = [bed.job.keeper(0), bed.job.daemon(0).unwrap()].map(|pid| Pid::from_raw(pid as i32).unwrap());
        stopped.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
        wait_until_another_leads(&bed);
        let _ = bed.shell_on(2, "exec 8<> shared; flock 8; printf newer >&8; sync shared").good();
        if goes_on {
            stopped.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
            wait_until("the first node knows", PATIENCE, || leader(&bed) == Some(1));
            program.stdin.take().unwrap().write_all(b"go on\n").unwrap();
            let mut rest = String::new();
            said.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "synced Input/output error\nagain done\n");
            assert!(program.wait().unwrap().success());
            bed.drain();
        } else {
            bed.job.kill_all();
            drop(program.stdin.take());
            let _ = program.kill();
            let _ = program.wait();
            let store = bed.job.sandbox.base().join("store");
            let mut command = bed.job.sandbox.command();
            command.arg("salvage").args((0..3).flat_map(|node| ["--burst-store".into(), store.join(node.to_string())]));
            let told = run(&mut command);
            assert_eq!(told.status.code(), Some(3), "that writes are lost is told: {}{}", told.text(), told.stderr);
        }
        let landed = |name: &str| fs::read(bed.backing().join(name)).unwrap();
        assert_eq!((&landed("shared")[..6], &landed("own")[..4]), (&b"newer\0"[..], &b"own\0"[..]), "{goes_on}");
        if goes_on {
            bed.job.down();
        }
    }
}

/// A node that decides nothing about the leader has asked the one that stands still, which refuses nothing.
#[test]
fn a_node_without_a_vote_goes_on_while_the_leader_stands_still() {
    require!(Fuse, Root);
    let bed = Bed::with(6, &["--drain", "end"]);
    wait_for_standby(&bed);
    let stopped: Vec<Pid> = [bed.job.keeper(0), bed.job.daemon(0).unwrap()]
        .into_iter()
        .map(|pid| Pid::from_raw(pid as i32).unwrap())
        .collect();
    stopped.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
    let _ = bed.shell_on(5, "mkdir made").good();
    stopped.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
    bed.drain();
    bed.job.down();
}

/// Data that only the lost leader has hold no other file back, and no program waits for them: they are named immediately.
#[test]
fn bytes_of_the_lost_leader_alone_are_lost_and_all_others_land() {
    require!(Fuse, Root);
    let mut bed = Bed::of(3);
    let script = "mkdir d; exec 9> d/held; head -c 3000 /dev/urandom >&9; sync d/held; echo open; read _";
    let mut holder = Command::new("sh");
    let holder = holder.args(["-euc", script]).current_dir(bed.mount_of(0)).stdin(Stdio::piped());
    let mut holder = holder.stdout(Stdio::null()).spawn().unwrap();
    wait_until("it is written", PATIENCE, || {
        std::fs::metadata(bed.mount_of(2).join("d/held")).is_ok_and(|held| held.len() == 3000)
    });
    wait_for_standby(&bed);
    lose_the_leader(&bed);
    let _ = bed.shell_on(2, "echo after > after").good();
    wait_until("what comes behind it lands", PATIENCE, || {
        std::fs::read(bed.backing().join("after")).is_ok_and(|after| after == b"after\n")
    });
    let told = bed.landed("d/held");
    let is_lost = (&told["state"], &told["missing"]) == (&"lost".into(), &serde_json::json!([[0, 3000]]));
    assert!(is_lost, "{told}");
    for node in [1, 2] {
        let read = run(Command::new("timeout").args(["20", "cat", "d/held"]).current_dir(bed.mount_of(node)));
        assert!(read.stderr.contains("Input/output error"), "node {node}: {:?} {}", read.status, read.stderr);
    }
    assert!(!bed.backing().join("d/held").exists(), "it never appears in part");
    drop(holder.stdin.take());
    let _ = holder.wait().unwrap();
    bed.job.kill_all();
}
