//! Trees that are large: nobody waits for their being copied, they are not copied without need, and they are not all kept in memory.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;

use forebay_tests::{Sandbox, require};
use serde_json::Value;

use crate::bed::{Bed, arguments};
use crate::salvage::wait_for_standby;
use crate::takeover::lose_the_leader;

/// Words of the leader's log when it sends the tree, in place of changes.
const WHOLE_TREE: &str = "gets the whole tree";

fn trees_sent(bed: &Bed) -> usize {
    let log = bed.job.sandbox.runtime().join("forebay").join(&bed.job.sandbox.name).join("logs/node-0.log");
    fs::read_to_string(log).unwrap().matches(WHOLE_TREE).count()
}

/// The leader's next daemon knows what the standby has: it is sent what it lacks, whatever the daemon before had told it.
#[test]
fn a_standby_goes_on_under_the_leaders_next_daemon() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    let _ = bed.shell_on(0, "mkdir d; seq 100 | (cd d; xargs touch)").good();
    wait_for_standby(&bed);
    let before = trees_sent(&bed);
    for round in 0..3 {
        let _ = bed.job.kill_daemon(0);
        let _ = bed.shell_on(2, &format!("touch d/after.{round}")).good();
        wait_for_standby(&bed);
    }
    assert_eq!(trees_sent(&bed), before, "no daemon but the first has sent the tree");
    lose_the_leader(&bed);
    assert_eq!(bed.shell_on(2, "ls d | wc -l").good().text(), "103\n");
    bed.job.kill_all();
}

/// One that lacks more changes than are kept gets the tree, part by part, while the job goes on; and takes it over.
#[test]
fn a_standby_far_behind_gets_the_tree_in_parts() {
    require!(Fuse, Root);
    let mut bed = Bed::with(3, &["--drain", "manual"]);
    let _ = bed.shell_on(0, "mkdir d e").good();
    wait_for_standby(&bed);
    let before = trees_sent(&bed);
    // Three parts, with 27 MB of changes.
    let many = "import os\nfor i in range(9000): os.symlink('x' * 3000 + str(i), f'd/{i}')";
    bed.while_it_stands_still(1, || bed.shell_on(0, &format!("python3 -c \"{many}\"")).good());
    let _ = bed.shell_on(2, "for i in $(seq 200); do mv d/$i e/; done").good();
    wait_for_standby(&bed);
    assert_eq!(trees_sent(&bed), before + 1);
    lose_the_leader(&bed);
    let counted =
        bed.shell_on(2, "ls d | wc -l; ls e | wc -l; readlink e/200 | tail -c 4; readlink d/8999 | tail -c 5");
    assert_eq!(counted.good().text(), "8800\n200\n200\n8999\n");
    bed.job.kill_all();
}

/// Seventy thousand files are looked at with room for six thousand: the daemons keep to their budget, and nothing is different.
#[test]
fn files_that_were_only_looked_at_are_forgotten_without_room() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    for directory in 0..70 {
        let directory = backing.join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        (0..1000).for_each(|file| drop(File::create(directory.join(file.to_string())).unwrap()));
    }
    fs::write(backing.join("5/7"), b"seven").unwrap();
    let more = ["--budget", "16MiB", "--drain", "manual"].map(str::to_owned);
    let mut words = arguments(&sandbox, 2);
    words.extend(more);
    let bed = Bed::up_with(sandbox, &words);
    // One is open meanwhile, one is written to, one is removed, and one node stands in a directory.
    let held = File::open(bed.mount_of(1).join("5/7")).unwrap();
    fs::write(bed.mount_of(1).join("6/6"), b"six").unwrap();
    fs::remove_file(bed.mount_of(0).join("8/8")).unwrap();
    for (node, below, files) in [(1, "../[1-9]", "8999"), (0, "..", "69999")] {
        let script = format!("cd 3; find {below} -type f -newermt 1970-01-02 | wc -l; ls | wc -l; stat -c %h .");
        let expected = format!("{files}\n1000\n2\n");
        assert_eq!(bed.shell_on(node, &script).good().text(), expected, "node {node}");
    }
    let kept: Vec<u64> = bed.job.status()["nodes"].as_array().unwrap().iter().map(memory).collect();
    assert!(kept.iter().all(|bytes| *bytes <= (16 + 64) << 20), "{kept:?}");
    assert_eq!(std::io::read_to_string(&held).unwrap(), "seven");
    assert_eq!(held.metadata().unwrap().ino(), fs::metadata(bed.mount_of(1).join("5/7")).unwrap().ino());
    let seen = "cat 5/7 6/6; [ ! -e 8/8 ]; ls 8 | wc -l; echo more >> 9/9; cat 9/9";
    assert_eq!(bed.shell_on(0, seen).good().text(), "sevensix999\nmore\n");
    let _ = bed.job.kill_daemon(0);
    assert_eq!(bed.shell_on(1, "cat 5/7 6/6 9/9; ls 8 | wc -l").good().text(), "sevensixmore\n999\n");
    bed.drain();
    assert_eq!(fs::read(bed.backing().join("6/6")).unwrap(), b"six");
    assert!(!bed.backing().join("8/8").exists());
    drop(held);
    bed.job.down();
}

fn memory(node: &Value) -> u64 {
    node["memory_bytes"].as_u64().unwrap()
}
