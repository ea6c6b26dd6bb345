//! Limits of a drain, a rate and the end of the job's time; and of a start, the threads that its user may have.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_tests::job::NOBODY;
use forebay_tests::program::{run, wait_until};
use forebay_tests::{Sandbox, require};

use crate::bed::{Bed, arguments};

const PATIENCE: Duration = Duration::from_secs(60);

/// Three parts of 4 MiB: the second goes a second after the first.
#[test]
fn a_drain_keeps_to_its_rate() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain-rate", "4MiB/s"]);
    let began = Instant::now();
    let _ = bed.shell("head -c 12582912 /dev/urandom > a").good();
    bed.drain();
    assert!(began.elapsed() >= Duration::from_secs(2), "it took {:?}", began.elapsed());
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// A file takes more than five calls: it is made, written, made durable, read back and renamed.
#[test]
fn a_drain_keeps_to_its_number_of_calls() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end", "--drain-ops", "25/s"]);
    let _ = bed.shell("for number in 1 2 3 4 5 6 7 8 9 10; do echo $number > $number; done").good();
    let began = Instant::now();
    bed.drain();
    assert!(began.elapsed() >= Duration::from_secs(2), "it took {:?}", began.elapsed());
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// Drafts and stripes that wait are tasks of one thread. Threads of `backing` make calls, and wait for none.
#[test]
fn a_drain_that_waits_for_its_rate_has_no_threads_for_that() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end", "--drain-ops", "20/s"]);
    let _ = bed.shell("for number in $(seq 40); do echo $number > $number; done").good();
    let pid = bed.job.daemon(0).unwrap();
    let threads = || -> BTreeSet<String> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.map(|name| name.trim_end().to_owned()).collect()
    };
    let before = threads();
    let _ = bed.command(&["drain"]);
    // Eight are being drafted, and those after the first wait for the rate.
    wait_until("drafts are written", PATIENCE, || fs::read_dir(bed.backing()).unwrap().count() > 2);
    let (now, known) = (threads(), ["backing", "blocking"]);
    let new: Vec<_> = now.difference(&before).filter(|name| !known.contains(&name.as_str())).collect();
    assert!(new.is_empty(), "{new:?} beside {before:?}");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

/// With what programs have open, and although nothing was to land before the end.
#[test]
fn all_files_land_before_the_time_is_over() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "end", "--time-limit", "40s"]);
    let _ = bed.shell("echo closed > closed").good();
    let open = fs::File::create(bed.mount_of(1).join("open")).unwrap();
    std::io::Write::write_all(&mut &open, b"so far").unwrap();
    assert!(bed.job.status()["nodes"][0]["burst"]["ends_in_ms"].as_u64().unwrap() <= 40_000);
    wait_until("all has landed", PATIENCE, || {
        fs::read(bed.backing().join("open")).is_ok_and(|bytes| bytes == b"so far")
            && bed.backing().join("closed").exists()
    });
    drop(open);
    bed.job.down();
}

/// The time of one small file was believed of every byte: a minute became hours, and all was sent long before the end.
#[test]
fn a_small_file_does_not_say_how_long_a_large_one_takes() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end", "--time-limit", "20min"]);
    let _ = bed.shell("echo small > small").good();
    bed.drain();
    let _ = bed.shell("dd if=/dev/zero of=large bs=1M count=500 status=none").good();
    let told = bed.job.status()["nodes"][0]["burst"].clone();
    assert!(told["time_left_ms"].is_null() && told["drain_bytes_per_s"] == 0, "little tells nothing: {told}");
    assert_eq!(told["is_in_time"], true, "{told}");
    bed.drain();
    let told = bed.job.status()["nodes"][0]["burst"].clone();
    assert!(told["drain_bytes_per_s"].as_u64().unwrap() > 10 << 20, "the rate is what was large: {told}");
    assert_eq!((&told["time_left_ms"], &told["landed_bytes"]), (&0.into(), &(6 + (500 << 20)).into()));
    bed.job.down();
}

/// The next job of another name would be refused for an empty store.
#[test]
fn a_start_that_has_too_few_threads_leaves_no_store() {
    require!(Fuse, Root, Command("setpriv"), Command("prlimit"));
    let sandbox = Sandbox::of_nobody();
    let [backing, store] = ["backing", "store"].map(|name| sandbox.base().join(name));
    for directory in [&backing, &store] {
        fs::create_dir(directory).unwrap();
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let as_nobody = sandbox.command();
    let mut failed = 0;
    for threads in (12..60).step_by(3) {
        let mut up = Command::new("prlimit");
        up.arg(format!("--nproc={threads}")).arg(as_nobody.get_program()).args(as_nobody.get_args());
        sandbox.surround(&mut up);
        let came = run(up.args(["up", "--job", &sandbox.name]).args(arguments(&sandbox, 2)));
        if came.status.success() {
            let _ = run(sandbox.command().args(["down", "--job", &sandbox.name])).good();
        } else {
            failed += 1;
        }
        let left: Vec<_> = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{threads} threads: {left:?} after {}", came.stderr);
    }
    assert!(failed > 0, "12 threads are enough");
}
