//! Nodes are lost, cut off or given up while they have files below `--private`.

use std::fs;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bed::{Bed, DIR};
use crate::calls::Calls;
use crate::private::prefix;
use crate::salvage::wait_for_second_home;
use crate::takeover::{owner, wait_until_another_owns};

const PATIENCE: Duration = Duration::from_secs(60);

fn bed(nodes: u32, more: &[&str]) -> Bed {
    let private = format!("{DIR}/p");
    Bed::with(nodes, &[&["--private", &private, "--drain", "manual"], more].concat())
}

fn open(name: &str) -> String {
    format!("({name} := os.open('{name}', os.O_CREAT | os.O_RDWR))")
}

/// The node that owns the tree stands still, and is not the owner any more when it goes on. Whatever others have changed meanwhile is not
/// written over: of `closed` and `sent` they have closed it, and have `held` open. Files that no other node took are written as ever.
#[test]
fn what_a_node_wrote_that_was_given_up_does_not_lie_over_what_others_wrote() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(3, &[]);
    let mut here = Calls::new(&prefix(&bed, 0));
    let mut there = Calls::new(&prefix(&bed, 1));
    let names = ["closed", "sent", "held", "free"];
    for name in names {
        let said = here.says(&format!("[{}, os.write({name}, b'promised'), os.fsync({name})]", open(name)));
        assert!(said.ends_with("8, None]"), "{said}");
    }
    // In the log of the node's daemon, and committed by nobody.
    assert_eq!(here.says("[os.write(sent, b' ours'), os.system('sync -f .')]"), "[5, 0]");
    wait_for_second_home(&bed);
    for name in ["closed", "held", "free"] {
        assert_eq!(here.says(&format!("os.write({name}, b' ours')")), "5", "gathered by the kernel");
    }
    let stopped = [bed.job.keeper(0), bed.job.daemon(0).unwrap()].map(|pid| Pid::from_raw(pid as i32).unwrap());
    stopped.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
    wait_until_another_owns(&bed);
    for name in ["closed", "sent", "held"] {
        // The file's old data are on the node that does not answer.
        let said = there
            .says(&format!("[{}, os.truncate({name}, 0), os.write({name}, b'theirs'), os.fsync({name})]", open(name)));
        assert!(said.ends_with("6, None]"), "{name}: {said}");
    }
    assert_eq!(there.says("[os.close(closed), os.close(sent)]"), "[None, None]");
    stopped.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
    wait_until("the first node knows", PATIENCE, || owner(&bed) == Some(1));

    for name in ["closed", "sent", "held"] {
        assert_eq!(here.says(&format!("os.fsync({name})")), "EIO", "{name}");
        assert_eq!(here.says(&format!("os.close({name})")), "EIO", "{name}");
    }
    assert_eq!(here.says("[os.fsync(free), os.write(free, b' more'), os.close(free)]"), "[None, 5, None]");
    // Kernels send what they have gathered by pages.
    let refused = bed.job.status()["nodes"][0]["burst"]["private"]["refused_bytes"].as_u64();
    assert!(refused.is_some_and(|bytes| (15..=3 * 4096).contains(&bytes)), "{refused:?}");
    let log = bed.job.sandbox.runtime().join("forebay").join(&bed.job.sandbox.name).join("logs/node-0.log");
    assert!(fs::read_to_string(log).unwrap().contains("what programs of this node wrote below --private is dropped"));
    assert_eq!(there.says("[os.pread(held, 99, 0), os.close(held)]"), "[b'theirs', None]");
    let mut fresh = Calls::new(&prefix(&bed, 2));
    for program in [&mut here, &mut there, &mut fresh] {
        for name in ["closed", "sent", "held"] {
            assert_eq!(program.says(&format!("open('{name}').read()")), "theirs", "{name}");
        }
        assert_eq!(program.says("open('free').read()"), "promised ours more");
    }
    // The node may have the files again.
    for name in names {
        assert_eq!(here.says(&format!("open('{name}', 'a').write('!')")), "1", "{name}");
        assert_eq!(there.says(&format!("open('{name}').read()[-1]")), "!", "{name}");
    }
    [here, there, fresh].into_iter().for_each(Calls::end);
    bed.drain();
    assert_eq!(Bed::listing(&prefix(&bed, 1)), Bed::listing(&bed.backing().join("p")));
    bed.job.down();
}

/// Files that a lost node has closed are shared. They are read and land where it has a partner, or are named; its open files stay its own.
#[test]
fn what_a_lost_node_wrote_is_with_its_partner_or_named() {
    require!(Fuse, Root, Command("python3"));
    for partner in [&[][..], &["--partner", "all"]] {
        let mut bed = bed(3, partner);
        let mut lost = Calls::new(&prefix(&bed, 2));
        let mut other = Calls::new(&prefix(&bed, 1));
        let said = lost.says(&format!("[{}, os.write(done, b'done'), os.fsync(done), os.close(done)]", open("done")));
        assert!(said.ends_with("4, None, None]"), "{said}");
        let said = lost.says(&format!(
            "[{}, os.write(held, b'safe'), os.fsync(held), os.write(held, b' and more')]",
            open("held")
        ));
        assert!(said.ends_with("4, None, 9]"), "{said}");
        assert_eq!(other.says("open('beside', 'w').write('beside')"), "6");
        wait_for_second_home(&bed);
        bed.job.kill_node(2);
        assert_eq!(other.says("open('held', 'a')"), "EBUSY", "it stays the lost node's");
        let drained = bed.command(&["drain", "--wait", "--timeout", "60s"]);
        let said = drained.text() + &drained.stderr;
        assert_eq!(drained.status.code(), Some(3), "{said}");
        let there = |name: &str| fs::read_to_string(bed.backing().join("p").join(name)).ok();
        assert_eq!(there("beside").as_deref(), Some("beside"));
        if partner.is_empty() {
            assert!(said.contains("are only in the stores of nodes that do not answer (2)"), "{said}");
            assert_eq!((there("done"), there("held")), (None, None));
            assert_eq!(bed.landed("p/done")["state"], Value::from("lost"));
            assert_eq!(other.says("open('done').read()"), "EIO");
        } else {
            assert!(said.contains("what it has not committed of 1 open file is in its store"), "{said}");
            assert_eq!((there("done").as_deref(), there("held").as_deref()), (Some("done"), Some("safe")));
            assert_eq!(other.says("[open('done').read(), open('held').read()]"), "['done', 'safe']");
        }
        other.end();
        lost.kill();
        bed.job.kill_all();
    }
}
