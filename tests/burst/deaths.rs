//! Daemons that die while programs write.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::Bed;
use crate::promise::Shell;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_program_that_writes_sees_nothing_of_a_daemons_death() {
    require!(Fuse, Root);
    a_writer_goes_on(Bed::new(), 0);
}

/// As before Linux 6.9: what was in flight is kept in memory, and handled by the next daemon before it has come to terms with the
/// leader on another node.
#[test]
fn nor_where_the_kernel_does_not_send_again() {
    require!(Fuse, Root);
    a_writer_goes_on(Bed::with(2, &["--no-resend"]), 1);
}

/// A program writes on a node whose daemon is killed again and again.
fn a_writer_goes_on(bed: Bed, node: u32) {
    // Fills one file bit by bit, and appends to another, in step.
    let script = "exec 7> data 8> log; i=0; while [ $i -lt 4000 ]; do \
                  printf 'line %06d\\n' $i >&7; [ $((i % 100)) -ne 0 ] || echo $i >> log; i=$((i + 1)); done";
    let mut writer =
        Command::new("sh").args(["-euc", script]).current_dir(bed.mount_of(node)).stdin(Stdio::null()).spawn().unwrap();
    let mut deaths = 0;
    while writer.try_wait().unwrap().is_none() && deaths < 5 {
        let killed = bed.job.kill_daemon(node as usize);
        deaths += 1;
        wait_until("a daemon serves again", PATIENCE, || {
            bed.job.daemon(node as usize).is_some_and(|pid| pid != killed)
        });
    }
    let mut status = None;
    wait_until("the writer ends", PATIENCE, || {
        status = writer.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success() && deaths > 0);
    let wanted: String = (0..4000).map(|line| format!("line {line:06}\n")).collect();
    assert!(bed.shell("cat data").good().text() == wanted, "every line is there once");
    let log: Vec<u32> = bed.shell("cat log").good().text().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(log, (0..4000).step_by(100).collect::<Vec<u32>>());
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// The daemon dies when something has appeared in `BACKING` and it has not noted that yet, and a program removes it meanwhile.
#[test]
fn files_of_a_dying_daemon_go_with_their_names() {
    require!(Fuse, Root);
    let bed = Bed::new();
    for round in 0..12 {
        let name = format!("x{round}");
        let (here, there) = (bed.mount().join(&name), bed.backing().join(&name));
        let is_directory = round % 2 == 0;
        let killed = bed.job.daemon(0).unwrap();
        if is_directory {
            fs::create_dir(&here).unwrap();
        } else {
            std::os::unix::fs::symlink("t", &here).unwrap();
        }
        let began = Instant::now();
        while fs::symlink_metadata(&there).is_err() {
            assert!(began.elapsed() < PATIENCE, "it appears");
        }
        kill_process(Pid::from_raw(killed as i32).unwrap(), Signal::KILL).unwrap();
        if is_directory { fs::remove_dir(&here) } else { fs::remove_file(&here) }.unwrap();
        wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| pid != killed));
    }
    bed.drain();
    assert_eq!(Bed::listing(&bed.backing()), "");
    bed.job.down();
}

/// A file that has landed and lost its name is on the backing file system alone, as long as programs have it open.
#[test]
fn an_open_file_without_a_name_outlives_the_daemon_that_removed_it() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let mut programs = [0, 1].map(|node| Shell::new(&bed.mount_of(node)));
    assert_eq!(programs[0].says("mkdir d; for name in a b d/c; do echo $name > $name; done"), "");
    bed.drain();
    for program in &mut programs {
        assert_eq!(program.says("exec 7<> a 8<> b 9<> d/c"), "");
    }
    assert_eq!(programs[1].says("rm a; echo new > n; mv n b; rm -r d"), "");
    bed.drain();
    let killed = bed.job.kill_daemon(0);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| pid != killed));
    for program in &mut programs {
        assert_eq!(program.says("cat <&7; cat <&8; cat <&9"), "a\nb\nd/c\n");
    }
    assert_eq!(programs[0].says("printf A >&7; exec 7>&- 8>&- 9>&-"), "");
    assert_eq!(programs[1].says("cat /dev/fd/7"), "a\nA");
    programs.into_iter().for_each(Shell::end);
    let left = || fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    wait_until("nothing of them is left there", PATIENCE, || left() == ["b"]);
    assert_eq!(fs::read_to_string(bed.backing().join("b")).unwrap(), "new\n");
    bed.drain();
    bed.job.down();
}

#[test]
fn a_daemon_that_is_replaced_goes_on() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let _ = bed.shell("echo before > a; mkdir d; mv a d/b").good();
    let _ = bed.command(&["up", "--replace"]).good();
    assert_eq!(bed.shell("cat d/b; echo after > c; cat c").good().text(), "before\nafter\n");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// The next daemon gives handles of its own: who goes on with a directory of before does not read another.
#[test]
fn a_directory_that_is_read_stays_the_same_through_a_death() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let _ =
        bed.shell("mkdir x y; (cd x; seq -f x%06g 5000 | xargs touch); (cd y; seq -f y%06g 5000 | xargs touch)").good();
    let names = |directory: &str| {
        let entries = std::fs::read_dir(bed.mount().join(directory)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
    };
    let mut of_x = names("x");
    let mut seen: Vec<String> = of_x.by_ref().take(10).collect();
    let daemon = bed.job.daemon(0);
    bed.job.kill_daemon(0);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| Some(pid) != daemon));
    let mut of_y = names("y");
    assert!(of_y.next().unwrap().starts_with('y'));
    seen.extend(of_x);
    assert_eq!((seen.len(), seen.iter().filter(|name| name.starts_with('x')).count()), (5000, 5000));
    assert_eq!(of_y.filter(|name| name.starts_with('y')).count(), 4999);
    bed.job.down();
}

/// The next daemon never shows data that its predecessor committed over later changes.
#[test]
fn commits_from_before_a_death_do_not_come_back() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let die = || {
        let killed = bed.job.kill_daemon(1);
        wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(1).is_some_and(|pid| pid != killed));
    };
    let _ = bed.shell_on(1, "echo other > other").good();
    die();
    let _ = bed.shell_on(1, "head -c 200000 /dev/zero > a; echo short > a").good();
    die();
    assert_eq!(bed.shell_on(1, "stat -c %s a; cat a").good().text(), "6\nshort\n");
    let _ = bed.shell_on(0, "echo shorter > a; : > other").good();
    assert_eq!(bed.shell_on(1, "cat a other").good().text(), "shorter\n");
    bed.job.down();
}
