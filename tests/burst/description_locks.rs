//! Locks of open file descriptions (`F_OFD_SETLK`): they last until the last descriptor of one open is closed, in whatever process.
//! Locks of processes (`F_SETLK`) end when the process closes any descriptor of the file.

use std::time::Duration;

use forebay_tests::program::{run, wait_until};
use forebay_tests::require;

use crate::bed::Bed;
use crate::calls::Calls;

const PATIENCE: Duration = Duration::from_secs(60);

/// `F_OFD_SETLK` or `F_SETLK` of the bytes from `first` on, ten of them.
fn set(descriptor: &str, is_of_process: bool, first: u32) -> String {
    let command = if is_of_process { "fcntl.F_SETLK" } else { "37" };
    format!(
        "fcntl.fcntl({descriptor}, {command}, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, {first}, 10, 0)) and 'locked'"
    )
}

/// Opens the file that all lock.
fn open(name: &str) -> String {
    format!("globals().update({name}=os.open('locked', os.O_RDWR | os.O_CREAT))")
}

fn die(bed: &Bed, node: usize) {
    let killed = bed.job.kill_daemon(node);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(node).is_some_and(|pid| pid != killed));
}

#[test]
fn a_lock_of_an_open_ends_with_its_last_descriptor() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    for holder_node in [0, 1] {
        for dies in [false, true] {
            let mut other = Calls::new(&bed.mount_of(1 - holder_node));
            assert_eq!(other.says(&open("f")), "None");
            let mut holder = Calls::new(&bed.mount_of(holder_node));
            let opened = format!("[{}, {}, globals().update(d=os.dup(a))]", open("a"), open("b"));
            assert_eq!(holder.says(&opened), "[None, None, None]");
            assert_eq!(holder.says(&set("a", false, 0)), "locked");
            assert_eq!(holder.says(&set("b", false, 5)), "EAGAIN", "another open of the same process");
            assert_eq!(holder.says(&set("b", false, 20)), "locked");
            assert_eq!(other.says(&set("f", false, 0)), "EAGAIN");
            assert_eq!(other.says(&set("f", true, 0)), "EAGAIN");
            if dies {
                die(&bed, holder_node as usize);
                die(&bed, 0);
            }
            assert_eq!(holder.says("os.close(a)"), "None");
            assert_eq!(other.says(&set("f", false, 0)), "EAGAIN", "the duplicate is open");
            assert_eq!(holder.says("os.close(d)"), "None");
            // The kernel tells of the last close afterwards.
            wait_until("the first is free", PATIENCE, || other.says(&set("f", false, 0)) == "locked");
            assert_eq!(other.says(&set("f", false, 20)), "EAGAIN", "the other open has its own");
            holder.kill();
            wait_until("the second is free", PATIENCE, || other.says(&set("f", true, 20)) == "locked");
            other.end();
        }
    }
    bed.job.down();
}

#[test]
fn a_program_that_waits_for_an_opens_lock_gets_it_when_the_holder_ends() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    let mut holder = Calls::new(&bed.mount_of(0));
    assert_eq!(holder.says(&open("f")), "None");
    assert_eq!(holder.says(&set("f", false, 0)), "locked");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut waiter = Calls::new(&bed.mount_of(1));
            assert_eq!(waiter.says(&open("f")), "None");
            // F_OFD_SETLKW
            let said = waiter.says(&set("f", false, 0).replace("37", "38"));
            waiter.end();
            said
        });
        die(&bed, 1);
        holder.kill();
        assert_eq!(waiter.join().unwrap(), "locked");
    });
    bed.job.down();
}

#[test]
fn a_lock_of_a_process_ends_with_any_of_its_descriptors_and_with_no_other_processes() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    for node in [0, 1] {
        for dies in [false, true] {
            let (mut holder, mut other) = (Calls::new(&bed.mount_of(node)), Calls::new(&bed.mount_of(1 - node)));
            for name in ["a", "b"] {
                assert_eq!(holder.says(&open(name)), "None");
            }
            assert_eq!(other.says(&open("f")), "None");
            assert_eq!(holder.says(&set("a", true, 0)), "locked");
            assert_eq!(holder.says(&set("b", true, 20)), "locked");
            if dies {
                die(&bed, node as usize);
            }
            // A child has the same opens, and ends.
            assert_eq!(holder.says("os.waitpid(os.fork() or os._exit(0), 0)[1]"), "0");
            assert_eq!(other.says(&set("f", true, 0)), "EAGAIN");
            assert_eq!(other.says(&set("f", true, 20)), "EAGAIN");
            assert_eq!(holder.says("os.close(b)"), "None");
            assert_eq!(other.says(&set("f", true, 0)), "locked");
            assert_eq!(other.says(&set("f", true, 20)), "locked");
            holder.end();
            other.end();
        }
    }
    bed.job.down();
}

/// A range that is locked anew through a descriptor stays locked when the descriptor of before is closed at last.
#[test]
fn a_lock_that_was_set_again_elsewhere_stays() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    let (mut holder, mut other) = (Calls::new(&bed.mount_of(1)), Calls::new(&bed.mount_of(0)));
    for name in ["a", "b"] {
        assert_eq!(holder.says(&open(name)), "None");
    }
    assert_eq!(other.says(&open("f")), "None");
    assert_eq!(holder.says(&set("a", true, 0)), "locked");
    // The child has the first open for itself, and ends when it is told to.
    assert_eq!(holder.says("globals().update(p=os.pipe())"), "None");
    assert_eq!(holder.says("globals().update(c=os.fork() or [os.close(p[1]), os.read(p[0], 1), os._exit(0)])"), "None");
    assert_eq!(holder.says("[os.close(p[0]), os.close(a)]"), "[None, None]");
    assert_eq!(other.says(&set("f", true, 0)), "locked");
    assert_eq!(other.says("[os.close(f), globals().update(f=os.open('locked', os.O_RDWR))]"), "[None, None]");
    assert_eq!(holder.says(&set("b", true, 0)), "locked");
    die(&bed, 1);
    assert_eq!(holder.says("[os.close(p[1]), os.waitpid(c, 0)[1]]"), "[None, 0]");
    // The kernel tells of the child's end in the order of requests to this file.
    assert_eq!(holder.says("os.fsync(b)"), "None");
    assert_eq!(other.says(&set("f", true, 0)), "EAGAIN");
    holder.end();
    wait_until("it is free", PATIENCE, || other.says(&set("f", true, 0)) == "locked");
    other.end();
    bed.job.down();
}

/// The kernel does not wait for the daemon to hear of the last close, so the daemon itself makes the next who asks wait.
#[test]
fn a_lock_is_free_on_its_node_when_the_last_close_has_returned() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    for node in [0, 1] {
        let mut program = Calls::new(&bed.mount_of(node));
        for lock in [set("f", false, 0), "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)".to_owned()] {
            let again = format!("[[{}, {lock}, os.close(f)] for _ in range(300)] and 'each time'", open("f"));
            assert_eq!(program.says(&again), "each time", "{lock} on {node}");
        }
        program.end();
    }
    bed.job.down();
}

/// A lock by `flock` that becomes exclusive is given up first: of two that wait for each other both get it in the end, on one node and on two.
#[test]
fn shared_locks_that_become_exclusive_wait_for_each_other_not_for_ever() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    for nodes in [[0, 0], [1, 1], [0, 1]] {
        let [mut one, mut other] = nodes.map(|node| Calls::new(&bed.mount_of(node)));
        for calls in [&mut one, &mut other] {
            assert_eq!(calls.says(&open("f")), "None");
            assert_eq!(calls.says("fcntl.flock(f, fcntl.LOCK_SH)"), "None");
        }
        assert_eq!(one.says("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), "EAGAIN");
        assert_eq!(
            other.says("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
            "None",
            "the first has given its own up"
        );
        assert_eq!(other.says("fcntl.flock(f, fcntl.LOCK_UN)"), "None");
        [one, other].into_iter().for_each(Calls::end);
        let [first, second] = nodes.map(|node| bed.mount_of(node));
        let both = "import fcntl, os, sys
open(sys.argv[1] + '/both', 'w').close()
sides = [os.pipe(), os.pipe()]
child = os.fork()
(_, say), (hear, _) = sides if child else sides[::-1]
f = os.open((sys.argv[1] if child else sys.argv[2]) + '/both', os.O_RDWR)
fcntl.flock(f, fcntl.LOCK_SH)
os.write(say, b'x')
os.read(hear, 1)
fcntl.flock(f, fcntl.LOCK_EX)
os.close(f)
sys.exit(os.waitpid(child, 0)[1] if child else 0)";
        let mut converting = std::process::Command::new("timeout");
        let _ = run(converting.args(["60", "python3", "-c", both]).args([first, second])).good();
    }
    bed.job.down();
}
